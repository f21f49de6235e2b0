//! Why something is not ready: from the object down to the container that keeps it, with the next try's countdown
//! (CON-19).
//!
//! ```text
//! ╭ why not ready · Deployment default/web ─────────────────────╮
//! │ ◐ Deployment web   1 of 4 available                           │
//! │ ├ ◐ ReplicaSet web-new   1 of 2 ready                         │
//! │ │ └ ✖ Pod web-new-b   ImagePullBackOff                        │
//! │ │   └ ✖ container main: no such image · again in 12s          │
//! ╰──────────────────────────────────────────────────────────────╯
//! ```
//!
//! Everything is read from the live stores at each draw; [`chain`] decides what is said.

mod chain;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::View;
use crate::command::{Command, KeyContext};
use crate::context::Context;
use crate::effect::{Effect, LogRun, Route};
use crate::message::ScreenMessage;
use crate::navigate;
use crate::resource::ObjectRef;
use crate::text::{clean, fit, wrapped};
use crate::toast::Toast;
use crate::widget::scroll::Scroll;
use chain::{Link, explain};

/// The screen.
#[derive(Debug)]
pub struct Explain {
    target: ObjectRef,
    cursor: usize,
    scroll: Scroll,
}

impl Explain {
    /// Of this object.
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self { target, cursor: 0, scroll: Scroll::default() }
    }

    /// What it is of.
    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// The object that the cursor stands for: that of its line, or of the nearest line above.
    fn selected(&self, links: &[Link]) -> Option<ObjectRef> {
        let upto = links[..links.len().min(self.cursor + 1)].iter();
        upto.rev().find_map(|link| link.object.clone())
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let links = explain(cx, &self.target);
        let last = links.len().saturating_sub(1);
        self.cursor = self.cursor.min(last);
        match command {
            Command::Up => self.cursor = self.cursor.saturating_sub(1),
            Command::Down => self.cursor = (self.cursor + 1).min(last),
            Command::Top | Command::PageUp => self.cursor = 0,
            Command::Bottom | Command::PageDown => self.cursor = last,
            Command::ExplainCopy => {
                let text: Vec<String> = links.iter().map(|link| line_of(link, cx)).collect();
                return vec![Effect::Copy(text.join("\n"))];
            }
            Command::Back | Command::Leave => return vec![Effect::Back],
            Command::Enter
            | Command::ExplainDescribe
            | Command::ExplainYaml
            | Command::ExplainLogs
            | Command::ExplainTimeline => {
                let Some(object) = self.selected(&links) else {
                    return vec![Effect::Toast(Toast::note("nothing is selected"))];
                };
                return match command {
                    Command::Enter => navigate::enter(cx, object),
                    Command::ExplainTimeline => vec![Effect::open(Route::Timeline(object))],
                    Command::ExplainDescribe => vec![Effect::open(Route::Describe(object))],
                    Command::ExplainYaml => vec![Effect::open(Route::Yaml(object))],
                    _ => vec![Effect::open(Route::Logs(object, LogRun::Current))],
                };
            }
            _ => {}
        }
        Vec::new()
    }
}

/// A line of the chain with its indentation and its countdown.
fn line_of(link: &Link, cx: &Context<'_>) -> String {
    let again = match link.retry_at {
        Some(at) if at > cx.now => format!(" · again in {}", cx.left(at)),
        Some(_) => " · again any moment".to_owned(),
        None => String::new(),
    };
    format!("{}{} {}{again}", "  ".repeat(link.depth), link.health.glyph(), clean(&link.text))
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
            ScreenMessage::Command(command) => self.command(cx, command),
            ScreenMessage::Mouse(event) => {
                self.scroll.mouse(event);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let title = format!("why not ready · {}", self.target.describe());
        let room = usize::from(area.width).saturating_sub(6);
        let block = theme.block_focused(fit(&title, room).into_owned());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let width = usize::from(inner.width).saturating_sub(2).max(8);
        let links = explain(cx, &self.target);
        let mut lines: Vec<Line<'static>> = Vec::new();
        let mut at_cursor = 0;
        for (at, link) in links.iter().enumerate() {
            let selected = at == self.cursor.min(links.len() - 1);
            let indent = " ".repeat(link.depth * 2 + 2);
            let text = line_of(link, cx);
            let style = if link.depth == 0 {
                theme.health(link.health).add_modifier(Modifier::BOLD)
            } else {
                theme.health(link.health)
            };
            if selected {
                at_cursor = lines.len();
            }
            let pieces = wrapped(text.trim_start(), width.saturating_sub(indent.len()).max(8));
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
