//! Port-forwards: local ports with connections to a pod. They continue while other screens are shown, and switch to a
//! pod's successor (CON-16).
//!
//! ```text
//! ╭ Port-forwards 2 ─────────────────────────────────────────────╮
//! │ ▸ ● 127.0.0.1:8080  →  default/web-1:80    3 open  17 in all   │
//! │   ✖ 127.0.0.1:5432  →  shop/db-0:5432      address in use      │
//! ╰──────────────────────────────────────────────────────────────╯
//! ```
//!
//! There is at most one of these screens; [`forwarder`] is its task, the only part that touches sockets.

pub mod forwarder;

use std::sync::Arc;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::resource::ObjectRef;
use console_operations::effect::{Effect, ForwardRequest, Route};
use console_operations::operations::forward;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::health::Health;
use console_toolkit::text::{clean, fit, fit_middle, grouped, pad, wrapped};
use console_toolkit::toast::Toast;
use console_toolkit::widget::cursor::Cursor;
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;
use forwarder::{Order, Report, State};

/// The slot of the task that listens.
pub const LISTENING: &str = "forwards";

/// Maximum number of forwards; each has a listening socket.
const MAX_FORWARDS: usize = 64;

/// Width of a row before its destination: cursor, state, local address and arrow.
const LEAD: usize = 28;

/// Messages to the screen.
#[derive(Debug)]
pub enum ForwardsData {
    /// The user requests a forward.
    Start(ForwardRequest),
    /// The state of a forward changed.
    Report(Report),
}

#[derive(Debug)]
struct Row {
    id: u64,
    forward: ForwardRequest,
    state: State,
}

/// The screen that lists the forwards.
#[derive(Debug)]
pub struct Forwards {
    rows: Vec<Row>,
    cursor: Cursor,
    next_id: u64,
    orders: mpsc::UnboundedSender<Order>,
    /// The receiving end of `orders` until the task starts and takes it.
    waiting: Option<mpsc::UnboundedReceiver<Order>>,
}

impl Row {
    /// Returns the health, the local address and the state as text.
    fn state_text(&self) -> (Health, String, String) {
        let local = || format!("127.0.0.1:{}", self.forward.local);
        match &self.state {
            State::Starting => (Health::Pending, local(), "starting".to_owned()),
            State::Failed(why) => (Health::Failed, local(), why.clone()),
            State::Listening { address, open, all, last_error, .. } => {
                let count = format!("{} open, {} in all", grouped(*open as u64), grouped(*all));
                let (health, note) = match last_error {
                    Some(why) => (Health::Pending, format!("{count} · last: {why}")),
                    None => (Health::Running, count),
                };
                (health, address.to_string(), note)
            }
        }
    }
}

impl Default for Forwards {
    fn default() -> Self {
        // Requests come from keys, and there are at most [`MAX_FORWARDS`] forwards: the channel stays short.
        let (orders, waiting) = mpsc::unbounded_channel();
        Self { rows: Vec::new(), cursor: Cursor::default(), next_id: 0, orders, waiting: Some(waiting) }
    }
}

impl Forwards {
    fn start(&mut self, forward: ForwardRequest) -> Vec<Effect> {
        if self.rows.len() >= MAX_FORWARDS {
            return vec![Effect::failed(format!("the limit of {MAX_FORWARDS} port-forwards is reached"))];
        }
        self.next_id += 1;
        let id = self.next_id;
        // The task ends only with this screen, so that sending cannot fail.
        let _ = self.orders.send(Order::Start(id, forward.clone()));
        self.rows.push(Row { id, forward, state: State::Starting });
        Vec::new()
    }

    fn take(&mut self, cx: &Context<'_>, report: Report) -> Vec<Effect> {
        let Some(row) = self.rows.iter_mut().find(|row| row.id == report.id) else { return Vec::new() };
        let news = match (&row.state, &report.state) {
            (State::Starting, State::Listening { address, .. }) => {
                Some(Effect::Toast(Toast::done(format!("{address} forwards to {}", row.forward.describe()))))
            }
            // The user has just requested the forward and can choose another port.
            (State::Starting, State::Failed(why)) => {
                Some(Effect::dialog(forward::another_port(cx, &row.forward, why.clone())))
            }
            (_, State::Failed(why)) => Some(Effect::failed(format!("port-forward: {why}"))),
            _ => None,
        };
        if let State::Listening { pod: Some(pod), .. } = &report.state
            && *pod != row.forward.pod.name
        {
            // The connections go to the pod's successor.
            row.forward.pod = ObjectRef { name: pod.clone(), uid: None, ..row.forward.pod.clone() };
        }
        row.state = report.state;
        // A forward that failed is removed; a dialog or a toast shows the reason.
        if let State::Failed(_) = row.state {
            self.rows.retain(|row| row.id != report.id);
        }
        news.into_iter().collect()
    }

    fn stop(&mut self) -> Vec<Effect> {
        if self.rows.is_empty() {
            return vec![Effect::info(object_commands::NOTHING_SELECTED)];
        }
        let row = self.rows.remove(self.cursor.of(self.rows.len()));
        let _ = self.orders.send(Order::Stop(row.id));
        vec![Effect::done(format!("stopped forwarding {}", row.forward.describe()))]
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        if self.cursor.command(command, self.rows.len()) {
            return Vec::new();
        }
        let selected = self.rows.get(self.cursor.of(self.rows.len()));
        match command {
            Command::Stop => return self.stop(),
            Command::Copy => {
                if let Some(Row { state: State::Listening { address, .. }, .. }) = selected {
                    return vec![Effect::Copy(format!("http://{address}"))];
                }
            }
            Command::Enter => {
                if let Some(row) = selected {
                    return vec![Effect::open(Route::Describe(row.forward.pod.clone()))];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Returns the width of the destination column: that of the longest one, unless that leaves no space for the notes.
    fn destination_width(&self, width: usize) -> usize {
        let notes = self.rows.iter().map(|row| clean(&row.state_text().2).width()).max().unwrap_or(0);
        let destinations =
            self.rows.iter().map(|row| clean(&row.forward.describe()).width() + 2).max().unwrap_or(0);
        let available = width.saturating_sub(LEAD);
        destinations.min(available.saturating_sub(notes).max(available / 2)).max(12)
    }

    /// Returns the row, and below the row of the cursor its note, if that does not fit.
    fn lines(&self, cx: &Context<'_>, at: usize, width: usize) -> Vec<Line<'static>> {
        let mut lines = vec![self.line(cx, at, width)];
        let note = clean(&self.rows[at].state_text().2).into_owned();
        let is_cut = note.width() > width.saturating_sub(LEAD + self.destination_width(width));
        if is_cut && at == self.cursor.of(self.rows.len()) {
            let text = wrapped(&note, width.saturating_sub(4).max(8));
            lines.extend(text.into_iter().map(|text| Line::styled(format!("    {text}"), cx.theme.body.dim)));
        }
        lines
    }

    fn line<'a>(&self, cx: &Context<'_>, at: usize, width: usize) -> Line<'a> {
        let theme = cx.theme;
        let row = &self.rows[at];
        let (health, address, note) = row.state_text();
        let selected = at == self.cursor.of(self.rows.len());
        let destination = clean(&row.forward.describe()).into_owned();
        let destination_width = self.destination_width(width);
        let line = Line::from(vec![
            Span::raw(if selected { "▸ " } else { "  " }),
            Span::styled(format!("{} ", theme.state_sign(health)), theme.health(health)),
            Span::styled(pad(&address, 22), theme.body.accent),
            Span::styled("→ ", theme.body.dim),
            Span::raw(pad(&fit_middle(&destination, destination_width - 1), destination_width)),
            Span::styled(
                fit(&clean(&note), width.saturating_sub(LEAD + destination_width)).into_owned(),
                theme.body.dim,
            ),
        ]);
        line.style(if selected { theme.table.cursor } else { Style::default() })
    }
}

impl View for Forwards {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Port-forwards".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Forwards, KeyContext::List]
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        if self.rows.is_empty() { object_commands::refuses_without_row(command) } else { None }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => {
                let Some(waiting) = self.waiting.take() else { return Vec::new() };
                vec![Effect::task(LISTENING, move |out| async move {
                    let outbox = out.clone();
                    let report_fn: forwarder::ReportFn = Arc::new(move |report| {
                        let outbox = outbox.clone();
                        Box::pin(async move { outbox.data(ForwardsData::Report(report)).await })
                    });
                    forwarder::run_forwards(out.client(), waiting, report_fn).await;
                })]
            }
            ScreenMessage::Command(command) => self.command(command),
            ScreenMessage::Data(data) => match data.take() {
                Some(ForwardsData::Start(forward)) => self.start(forward),
                Some(ForwardsData::Report(report)) => self.take(cx, report),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let block = theme.block("").title_top(title_line(
            vec![
                Span::styled(" Port-forwards ", theme.frame.title),
                Span::styled(format!("{} ", self.rows.len()), theme.body.dim),
            ],
            area.width,
        ));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if self.rows.is_empty() {
            let key = cx.bindings.key(Command::PortForward).map(|key| key.to_string()).unwrap_or_default();
            let text = format!("no port is forwarded; <{key}> on a pod, service or workload forwards one");
            return notice::draw_centered(&text, theme.body.dim, frame, inner);
        }
        let width = usize::from(inner.width);
        let window = self.cursor.window(usize::from(inner.height), self.rows.len());
        let lines: Vec<Line<'_>> = window.flat_map(|at| self.lines(cx, at, width)).collect();
        frame.render_widget(Paragraph::new(lines), inner);
    }

    fn background(&self, _cx: &Context<'_>) -> Option<String> {
        match self.rows.len() {
            0 => None,
            1 => Some("1 port-forward".to_owned()),
            count => Some(format!("{count} port-forwards")),
        }
    }
}
