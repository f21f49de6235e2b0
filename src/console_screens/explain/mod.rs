//! Explains why an object is not ready: from the object down to the container that causes it, with a countdown to the
//! next retry (CON-19).
//!
//! ```text
//! ╭ why not ready · Deployment default/web ─────────────────────╮
//! │ ◐ Deployment web   1 of 4 available                         │
//! │   ◐ ReplicaSet web-new   1 of 3 ready                       │
//! │   ↻ 2 pods: container main: CrashLoopBackOff · again in 12s │
//! │     web-new-a, web-new-b                                    │
//! │     log of the previous run of web-new-a, the last lines:   │
//! │       panic: no such file                                   │
//! ╰─────────────────────────────────────────────────────────────╯
//! ```
//!
//! Everything except the logs is read from the live stores at each draw; [`chain`] decides what to show.

mod causes;
mod chain;
mod logs;

use k8s_openapi::api::core::v1::Pod;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::View;
use crate::object_commands;
use chain::{Countdown, Link, explain};
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::related;
use console_data::resource::{ObjectRef, ResourceKey};
use console_data::store::TouchedObjects;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit, wrapped};
use console_toolkit::widget::cursor::Cursor;
use console_toolkit::widget::scroll::Scroll;
use logs::{TailRead, Tails};

/// The screen that explains one object's state.
#[derive(Debug)]
pub struct Explain {
    target: ObjectRef,
    cursor: Cursor,
    scroll: Scroll,
    /// The last lines of the logs of crashing containers.
    tails: Tails,
}

impl Explain {
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self { target, cursor: Cursor::default(), scroll: Scroll::default(), tails: Tails::default() }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// Returns the lines, including those of logs.
    fn links(&self, cx: &Context<'_>) -> Vec<Link> {
        let mut links = Vec::new();
        for link in explain(cx, &self.target) {
            let Some(log) = &link.log else {
                links.push(link);
                continue;
            };
            let lines = self.tails.log_lines(log).into_iter().enumerate();
            links.extend(lines.map(|(at, text)| {
                let depth = link.depth + usize::from(at > 0);
                Link { depth, text, ..link.clone() }
            }));
        }
        links
    }

    /// Reads the logs of crashing containers, once for each run.
    fn read_logs(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let keys = explain(cx, &self.target).into_iter().filter_map(|link| link.log).collect();
        self.tails.want(keys).into_iter().collect()
    }

    /// Returns whether a change may concern one of the pods that keep the object from being ready.
    fn concerns(&self, cx: &Context<'_>, resource: &ResourceKey, touched: &TouchedObjects) -> bool {
        let TouchedObjects::Some(uids) = touched else { return *resource == ResourceKey::of::<Pod>() };
        *resource == ResourceKey::of::<Pod>() && {
            let own = related::pods_of(cx, &self.target);
            own.iter().any(|pod| uids.iter().any(|uid| pod.metadata.uid.as_deref() == Some(uid.as_str())))
        }
    }

    /// Returns the object under the cursor: that of the current line, or of the nearest line above.
    fn object_at(&self, links: &[Link]) -> Option<ObjectRef> {
        let upto = links[..links.len().min(self.cursor.of(links.len()) + 1)].iter();
        upto.rev().find_map(|link| link.object.clone())
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let links = self.links(cx);
        if self.cursor.command(command, links.len()) {
            return Vec::new();
        }
        match command {
            Command::Copy => {
                let line = |link: &Link| format!("{}{}", "  ".repeat(link.depth), link_text(link, cx));
                let text: Vec<String> = links.iter().map(line).collect();
                vec![Effect::Copy(text.join("\n"))]
            }
            Command::Refresh => {
                self.tails.clear();
                self.read_logs(cx)
            }
            _ => object_commands::on(cx, command, self.object_at(&links)),
        }
    }
}

/// Returns a line of the chain with its sign and its countdown.
fn link_text(link: &Link, cx: &Context<'_>) -> String {
    let countdown = match link.countdown {
        Some(Countdown::Retry(at)) if at > cx.now => format!(" · again in {}", cx.format_remaining(at)),
        Some(Countdown::Retry(_)) => " · again any moment".to_owned(),
        Some(Countdown::Event(at)) => format!(" · in {}", cx.format_remaining(at)),
        None => String::new(),
    };
    let sign = link.health.map(|health| format!("{} ", cx.theme.state_sign(health))).unwrap_or_default();
    format!("{}{}{countdown}", sign.trim_start(), clean(&link.text))
}

impl View for Explain {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · why not ready", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Explain, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Shown => self.read_logs(cx),
            ScreenMessage::Changed(resource, touched) if self.concerns(cx, &resource, &touched) => {
                self.read_logs(cx)
            }
            ScreenMessage::Data(data) => {
                if let Some(read) = data.take::<TailRead>() {
                    self.tails.take(read);
                }
                Vec::new()
            }
            ScreenMessage::Command(command) => self.command(cx, command),
            ScreenMessage::Mouse(event) => {
                self.scroll.mouse(event);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn refuses(&self, _cx: &Context<'_>, _command: Command) -> Option<String> {
        // The chain is not computed for each key of the footer.
        None
    }

    fn selected(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        self.object_at(&self.links(cx))
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let title = format!("why not ready · {}", self.target.describe());
        let title_width = usize::from(area.width).saturating_sub(6);
        let block = theme.block_focused(fit(&title, title_width).into_owned());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let width = usize::from(inner.width).saturating_sub(2).max(8);
        let links = self.links(cx);
        let mut lines: Vec<Line<'static>> = Vec::new();
        let mut at_cursor = 0;
        let cursor = self.cursor.of(links.len());
        // A line of the chain may take several lines of the screen: a page is as many lines of the chain.
        self.cursor.window(usize::from(inner.height), links.len());
        for (at, link) in links.iter().enumerate() {
            let selected = at == cursor;
            let indent = " ".repeat(link.depth * 2 + 2);
            let text = link_text(link, cx);
            let style = match link.health {
                Some(health) if link.depth == 0 => theme.health(health).add_modifier(Modifier::BOLD),
                Some(health) => theme.health(health),
                None => theme.body.text,
            };
            if selected {
                at_cursor = lines.len();
            }
            let pieces = wrapped(&text, width.saturating_sub(indent.len()).max(8));
            for (piece, text) in pieces.into_iter().enumerate() {
                let lead = if selected && piece == 0 { "▸ " } else { "  " };
                let hang = if piece == 0 { "  ".repeat(link.depth) } else { indent.clone() };
                let line = Line::from(vec![Span::raw(lead), Span::raw(hang), Span::styled(text, style)]);
                lines.push(line.style(if selected { theme.table.cursor } else { Style::default() }));
            }
        }
        self.scroll.show(at_cursor);
        self.scroll.draw(lines.into_iter(), frame, inner);
    }
}
