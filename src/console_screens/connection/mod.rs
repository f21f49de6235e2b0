//! Diagnoses why a pod cannot connect to a destination: checks the path step by step, repeatedly while the
//! screen is shown (NET-8).
//!
//! ```text
//!  ╭ why not connected · shop/client → web:8080 ─────────╮
//!  │ ✖ not connected: the verdict                         │
//!  │   what to do                                         │
//!  │                                                      │
//!  │ ✔ name        what was found                         │
//!  │ ✖ endpoints   what is wrong                          │
//!  │                 more of it                           │
//!  ╰──────────────────────────────────────── walked 3s ago╯
//! ```

pub mod report;

use std::time::Duration;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::View;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_operations::effect::{ConnectionRoute, Effect, Outbox};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit, wrapped};
use console_toolkit::widget::scroll::Scroll;
use report::{Report, State};

/// Pause between two runs of the diagnosis: each run opens connections.
const PAUSE: Duration = Duration::from_secs(3);
/// Width of the mark and the name of a step, in columns.
const MARGIN: usize = 14;

/// Results of the screen's task.
#[derive(Debug)]
pub enum ConnectionData {
    /// The report of a run.
    Finished(Report),
    /// The run failed, with this reason.
    Failed(String),
}

/// A screen that shows why a pod does or does not reach a destination.
#[derive(Debug)]
pub struct Connection {
    route: ConnectionRoute,
    report: Option<Report>,
    failed: Option<String>,
    at: Option<Timestamp>,
    scroll: Scroll,
    /// The diagnosis does not run until the user starts it.
    is_idle: bool,
}

impl Connection {
    pub(crate) fn new(route: ConnectionRoute) -> Self {
        Self { route, report: None, failed: None, at: None, scroll: Scroll::default(), is_idle: false }
    }

    /// Restores a screen of the last session. A diagnosis opens connections, so that it waits until the user starts it.
    pub fn restored(route: ConnectionRoute) -> Self {
        Self { is_idle: true, ..Self::new(route) }
    }

    pub(crate) fn connection(&self) -> &ConnectionRoute {
        &self.route
    }

    fn walk(&self) -> Effect {
        let route = self.route.clone();
        Effect::task("walk", move |out| repeat_diagnosis(out, route))
    }

    /// Builds the lines, each a mark, a step and a text, wrapped to `width` columns.
    fn lines(&self, cx: &Context<'_>, width: usize) -> Vec<(String, Style)> {
        let theme = cx.theme;
        let mut lines = Vec::new();
        let mut add = |first: &str, rest: &str, text: &str, style: Style| {
            let available = width.saturating_sub(unicode_width::UnicodeWidthStr::width(rest)).max(8);
            for (at, piece) in wrapped(&clean(text), available).into_iter().enumerate() {
                lines.push((format!("{}{piece}", if at == 0 { first } else { rest }), style));
            }
        };
        if let Some(why) = &self.failed {
            add("✖ ", "  ", why, theme.status.failed);
            add("", "", "", theme.body.text);
        }
        let Some(report) = &self.report else { return lines };
        let (mark, word, style) = if report.verdict.connected {
            ("✔ ", "connected", theme.status.running)
        } else {
            ("✖ ", "not connected", theme.status.failed)
        };
        let verdict = format!("{word}: {}", report.verdict.reason);
        add(mark, "  ", &verdict, style.add_modifier(Modifier::BOLD));
        if let Some(advice) = &report.verdict.advice {
            add("→ ", "  ", advice, theme.body.text);
        }
        add("", "", "", theme.body.text);
        for finding in &report.findings {
            let (mark, style) = match finding.state {
                State::Fine => ('✔', theme.body.text),
                State::Problem => ('✖', theme.status.failed),
                State::Note => ('·', theme.body.dim),
            };
            let step = fit(&clean(&finding.step), MARGIN - 4).into_owned();
            let margin = " ".repeat(MARGIN);
            add(&format!("{mark} {step:<width$}", width = MARGIN - 2), &margin, &finding.text, style);
            for detail in &finding.details {
                add(&margin, &margin, detail, theme.body.dim);
            }
        }
        lines
    }
}

/// Repeats the diagnosis until the screen is closed.
async fn repeat_diagnosis(out: Outbox, route: ConnectionRoute) {
    let Some(diagnose) = out.diagnose() else {
        let reason = "this console cannot check connections; run `podium why-not-connected`";
        return out.data(ConnectionData::Failed(reason.to_owned())).await;
    };
    loop {
        let walked =
            diagnose.diagnose_connection(out.client(), route.source.clone(), route.destination.clone()).await;
        let data = match walked.and_then(Report::read) {
            Ok(report) => ConnectionData::Finished(report),
            Err(why) => ConnectionData::Failed(why),
        };
        out.data(data).await;
        tokio::time::sleep(PAUSE).await;
    }
}

impl View for Connection {
    fn title(&self, _cx: &Context<'_>) -> String {
        clean(&format!("{} → {}", self.route.source, self.route.destination)).into_owned()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Connection, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened if self.is_idle => {}
            ScreenMessage::Opened | ScreenMessage::Command(Command::Retry | Command::Refresh) => {
                self.is_idle = false;
                return vec![self.walk()];
            }
            ScreenMessage::Data(data) => {
                match data.take() {
                    Some(ConnectionData::Finished(report)) => {
                        self.report = Some(report);
                        self.failed = None;
                    }
                    // The last report stays readable.
                    Some(ConnectionData::Failed(why)) => self.failed = Some(why),
                    None => return Vec::new(),
                }
                self.at = Some(cx.now);
            }
            ScreenMessage::Mouse(event) => self.scroll.mouse(event),
            ScreenMessage::Command(command) if self.scroll.command(command) => {}
            ScreenMessage::Command(Command::Copy) => {
                let lines = self.lines(cx, usize::from(u16::MAX));
                let text: Vec<String> = lines.into_iter().map(|(line, _)| line).collect();
                return vec![Effect::Copy(text.join("\n"))];
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let width = usize::from(area.width).saturating_sub(6);
        let title = format!("why not connected · {} → {}", self.route.source, self.route.destination);
        let mut block = cx.theme.block_focused(fit(&clean(&title), width).into_owned());
        if let Some(at) = self.at {
            let state = format!(" checked {} ago ", cx.age(at));
            block = block.title_bottom(Line::styled(state, cx.theme.body.dim).right_aligned());
        }
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let mut lines = self.lines(cx, usize::from(inner.width));
        if lines.is_empty() {
            let text = if self.is_idle {
                let key =
                    cx.bindings.key_in(Command::Retry, KeyContext::Connection).map(|key| format!("<{key}>"));
                let key = key.unwrap_or_else(|| ":refresh".to_owned());
                format!("not checked again after the console restarted: {key} checks it")
            } else {
                "checking the connection …".to_owned()
            };
            lines.push((text, cx.theme.body.dim));
        }
        let lines = lines.into_iter().map(|(text, style)| Line::from(Span::styled(text, style)));
        self.scroll.draw(lines, frame, inner);
    }
}
