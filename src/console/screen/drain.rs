//! The drain screen: the preview is the dialog, and the same rows then carry the progress (CON-6).
//!
//! Until it is started the rows follow the live stores; from then on they are the drain's own. It goes on
//! in the background when it is left, and its result stays readable.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::View;
use crate::console::command::{Command, Where};
use crate::console::context::Context;
use crate::console::drain::driver::{self, seconds_until};
use crate::console::drain::{Fate, Ledger, Options, Row, Ruling, Verdict, plan};
use crate::console::effect::Effect;
use crate::console::message::{Data, ScreenMessage};
use crate::console::resource::{ObjectRef, Uid};
use crate::console::text::{age, clean, fit};
use crate::console::toast::Toast;

pub use crate::console::drain::driver::Told as Loaded;

/// Grace periods the option steps through, in seconds; none is the pod's own.
const GRACES: [Option<u32>; 6] = [None, Some(0), Some(5), Some(30), Some(60), Some(300)];
/// Timeouts the option steps through, in seconds.
const TIMEOUTS: [Option<u64>; 6] = [None, Some(30), Some(60), Some(300), Some(900), Some(3600)];

/// The options below the rows, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    Grace,
    Timeout,
    DaemonSets,
    Force,
    Data,
    Bypass,
}

const SWITCHES: [Switch; 6] =
    [Switch::Grace, Switch::Timeout, Switch::DaemonSets, Switch::Force, Switch::Data, Switch::Bypass];

/// What the cursor is on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    /// A pod.
    Pod(Uid),
    /// An option.
    Option(usize),
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has happened yet.
    Preview,
    /// It runs.
    Running,
    /// The user stopped it.
    Stopped,
    /// It came to its end.
    Over,
}

/// One node and how far it is.
#[derive(Debug, Default)]
struct NodeState {
    rows: Option<Vec<Row>>,
    fates: HashMap<Uid, Fate>,
    result: Option<Result<(), String>>,
}

impl NodeState {
    /// Pods gone, and pods that were to leave.
    fn progress(&self) -> (usize, usize) {
        let leaving = self.rows.iter().flatten().filter(|row| row.verdict.leaves()).count();
        let gone = self.fates.values().filter(|fate| matches!(fate, Fate::Gone { .. })).count();
        (gone, leaving)
    }

    fn failed(&self) -> usize {
        self.fates.values().filter(|fate| matches!(fate, Fate::Failed(_))).count()
    }
}

/// The screen.
#[derive(Debug)]
pub struct Drain {
    nodes: Vec<ObjectRef>,
    states: Vec<NodeState>,
    options: Options,
    exceptions: BTreeSet<Uid>,
    cursor: Cursor,
    stage: Stage,
}

impl Drain {
    /// Of these nodes, one after another.
    pub fn new(nodes: Vec<ObjectRef>) -> Self {
        let states = nodes.iter().map(|_| NodeState::default()).collect();
        Self {
            nodes,
            states,
            options: Options::default(),
            exceptions: BTreeSet::new(),
            cursor: Cursor::Option(0),
            stage: Stage::Preview,
        }
    }

    /// The rows of every node: planned from the stores until the drain has made its own.
    fn rows(&self, cx: &Context<'_>) -> Vec<Vec<Row>> {
        let mut ledger = Ledger::new(cx.stores.budgets.iter().map(|(_, budget)| &**budget));
        self.nodes
            .iter()
            .zip(&self.states)
            .map(|(node, state)| {
                if let Some(rows) = &state.rows {
                    return rows.clone();
                }
                let pods = cx.stores.pods_on(&node.name).map(|pod| &**pod);
                plan(pods, &mut ledger, &self.options, &self.exceptions)
            })
            .collect()
    }

    fn start(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        if self.stage == Stage::Running {
            return Vec::new();
        }
        let leaves = self.rows(cx).iter().flatten().any(|row| row.verdict.leaves());
        let refused = self.rows(cx).iter().flatten().filter(|row| row.verdict.refuses()).count();
        if !leaves && refused > 0 {
            return vec![Effect::Toast(Toast::note(
                "every pod left is refused: space on it or on an option lets it go",
            ))];
        }
        // A stopped drain goes on with the node it stopped at.
        let from = match self.stage {
            Stage::Stopped => {
                self.states.iter().position(|state| !matches!(state.result, Some(Ok(())))).unwrap_or(0)
            }
            _ => 0,
        };
        for state in self.states.iter_mut().skip(from) {
            *state = NodeState::default();
        }
        self.stage = Stage::Running;
        let (nodes, options, exceptions) =
            (self.nodes.clone(), self.options.clone(), self.exceptions.clone());
        vec![Effect::task("drain", move |out| driver::run(out, nodes, from, options, exceptions))]
    }

    fn stop(&mut self) -> Vec<Effect> {
        if self.stage != Stage::Running {
            return vec![Effect::Back];
        }
        self.stage = Stage::Stopped;
        vec![
            Effect::Cancel("drain"),
            Effect::Toast(Toast::note("drain stopped; evicted pods stay evicted, nodes stay cordoned")),
        ]
    }

    fn toggle(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        if self.stage == Stage::Running {
            return vec![Effect::Toast(Toast::note("stop the drain first to change what it does"))];
        }
        match &self.cursor {
            Cursor::Pod(uid) => {
                let rows = self.rows(cx);
                let row = rows.iter().flatten().find(|row| row.uid == *uid);
                let Some(row) = row.filter(|row| row.verdict.is_exceptional()) else {
                    return vec![Effect::Toast(Toast::note("this pod needs no decision"))];
                };
                if row.verdict.refuses() {
                    self.exceptions.insert(uid.clone());
                } else {
                    self.exceptions.remove(uid);
                }
            }
            Cursor::Option(index) => self.flip(*index),
        }
        // The rows are planned anew with what was decided.
        if self.stage != Stage::Preview {
            self.stage = Stage::Preview;
            self.states = self.nodes.iter().map(|_| NodeState::default()).collect();
        }
        Vec::new()
    }

    fn flip(&mut self, index: usize) {
        let options = &mut self.options;
        match SWITCHES.get(index) {
            Some(Switch::Grace) => options.grace_seconds = following(&GRACES, options.grace_seconds),
            Some(Switch::Timeout) => {
                let now = options.timeout.map(|timeout| timeout.as_secs());
                options.timeout = following(&TIMEOUTS, now).map(Duration::from_secs);
            }
            Some(Switch::DaemonSets) => options.ignore_daemon_sets = !options.ignore_daemon_sets,
            Some(Switch::Force) => options.force = !options.force,
            Some(Switch::Data) => options.delete_empty_dir_data = !options.delete_empty_dir_data,
            Some(Switch::Bypass) => options.disable_eviction = !options.disable_eviction,
            None => {}
        }
    }

    fn step(&mut self, cx: &Context<'_>, by: isize) {
        let pods: Vec<Uid> = self.rows(cx).into_iter().flatten().map(|row| row.uid).collect();
        let count = pods.len() + SWITCHES.len();
        let at = match &self.cursor {
            Cursor::Pod(uid) => pods.iter().position(|other| other == uid).unwrap_or(0),
            Cursor::Option(index) => pods.len() + index,
        };
        let at = at.saturating_add_signed(by).min(count - 1);
        self.cursor = match pods.get(at) {
            Some(uid) => Cursor::Pod(uid.clone()),
            None => Cursor::Option(at - pods.len()),
        };
    }

    fn uncordon(&self) -> Vec<Effect> {
        if self.stage == Stage::Running {
            return vec![Effect::Toast(Toast::note("stop the drain first"))];
        }
        self.nodes.iter().map(|node| Effect::Act(Box::new(driver::cordon(node, false)))).collect()
    }

    fn hear(&mut self, told: Loaded) -> Vec<Effect> {
        match told {
            Loaded::Began { node, rows } => {
                if let Some(state) = self.states.get_mut(node) {
                    state.rows = Some(rows);
                }
            }
            Loaded::Fates { node, fates } => {
                if let Some(state) = self.states.get_mut(node) {
                    state.fates.extend(fates);
                }
            }
            Loaded::Ended { node, result } => {
                if let Some(state) = self.states.get_mut(node) {
                    state.result = Some(result);
                }
            }
            Loaded::Over => {
                self.stage = Stage::Over;
                return vec![Effect::Toast(self.summary())];
            }
        }
        Vec::new()
    }

    fn summary(&self) -> Toast {
        let pods = |count: usize| if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
        let name = self.name();
        let errors: Vec<&str> = self
            .states
            .iter()
            .filter_map(|state| state.result.as_ref()?.as_ref().err().map(String::as_str))
            .collect();
        let failed: usize = self.states.iter().map(NodeState::failed).sum();
        let refused = self
            .states
            .iter()
            .flat_map(|state| state.rows.iter().flatten())
            .filter(|row| row.verdict.refuses())
            .count();
        match (errors.first(), failed, refused) {
            (Some(error), _, _) => Toast::failed(format!("drain of {name}: {error}")),
            (None, 0, 0) => Toast::done(format!("{name} drained")),
            (None, 0, refused) => Toast::note(format!("{name} drained but for {} refused", pods(refused))),
            (None, failed, _) => Toast::failed(format!("drain of {name}: {} stayed", pods(failed))),
        }
    }

    fn name(&self) -> String {
        match self.nodes.as_slice() {
            [only] => only.name.clone(),
            nodes => format!("{} nodes", nodes.len()),
        }
    }

    fn heading(&self, rows: &[Vec<Row>]) -> String {
        let pods: usize = rows.iter().map(Vec::len).sum();
        let (gone, leaving) = self
            .states
            .iter()
            .map(NodeState::progress)
            .fold((0, 0), |(gone, leaving), (more_gone, more)| (gone + more_gone, leaving + more));
        match self.stage {
            Stage::Preview => {
                let leaving = rows.iter().flatten().filter(|row| row.verdict.leaves()).count();
                format!("Drain {} ── {pods} pods, {leaving} leave", self.name())
            }
            Stage::Running => format!("Drain {} ── {gone} of {leaving} gone", self.name()),
            Stage::Stopped => format!("Drain {} ── stopped, {gone} of {leaving} gone", self.name()),
            Stage::Over => format!("Drain {} ── done, {gone} of {leaving} gone", self.name()),
        }
    }

    /// What became of a row, in glyph, words and colour.
    fn fate(&self, cx: &Context<'_>, row: &Row, node: usize) -> (String, Style) {
        let theme = cx.theme;
        let Some(fate) = self.states.get(node).and_then(|state| state.fates.get(&row.uid)) else {
            let excepted = match row.verdict {
                Verdict::RefuseUnmanaged => "[ ] evict it anyway",
                Verdict::EvictLost => "[x] evict it anyway",
                Verdict::RefuseData => "[ ] delete the data",
                Verdict::EvictData => "[x] delete the data",
                _ => "",
            };
            let style = if row.verdict.refuses() { theme.dialog.warning } else { theme.body.text };
            return (excepted.to_owned(), style);
        };
        match fate {
            Fate::Asking => ("◌ asking".to_owned(), theme.status.pending),
            Fate::Waiting { since, retry_at, .. } => {
                if self.stage != Stage::Running {
                    return ("‖ was blocked".to_owned(), theme.status.unknown);
                }
                let next = cx.now.as_second() + 1;
                cx.redraw_at(jiff::Timestamp::from_second(next).unwrap_or(cx.now));
                let waited = seconds_until(*since, cx.now);
                let retry = seconds_until(cx.now, *retry_at);
                (format!("◐ waiting {}, retry in {retry}s", age(waited)), theme.status.pending)
            }
            Fate::Ending { since } => {
                cx.redraw_at(jiff::Timestamp::from_second(cx.now.as_second() + 1).unwrap_or(cx.now));
                (format!("↓ terminating {}", age(seconds_until(*since, cx.now))), theme.status.terminating)
            }
            Fate::Gone { after } => {
                (format!("✔ evicted in {}", age(after.as_secs().max(0))), theme.status.succeeded)
            }
            Fate::Failed(message) => (format!("✖ {}", clean(message)), theme.status.failed),
        }
    }

    fn draw_row(&self, cx: &Context<'_>, row: &Row, node: usize, widths: (usize, usize)) -> Line<'static> {
        let theme = cx.theme;
        let (width, name_width) = widths;
        let selected = self.cursor == Cursor::Pod(row.uid.clone());
        let word_style = match row.verdict {
            verdict if verdict.refuses() => theme.dialog.warning,
            Verdict::SkipDaemonSet | Verdict::SkipMirror => theme.body.dim,
            _ => theme.body.accent,
        };
        let (fate, fate_style) = self.fate(cx, row, node);
        let server_said = match self.states.get(node).and_then(|state| state.fates.get(&row.uid)) {
            Some(Fate::Waiting { message, .. }) => Some(message.as_str()),
            _ => None,
        };
        let (why, why_style) = match (&row.ruling, server_said) {
            // The server starts with words that every row would repeat.
            (_, Some(message)) => {
                let short = message.strip_prefix("The disruption budget ").unwrap_or(message);
                (short.to_owned(), theme.status.pending)
            }
            (Ruling::Allowed(text), _) => (text.clone(), theme.body.text),
            (Ruling::Blocked(text), _) => (text.clone(), theme.status.pending),
            (Ruling::Refused(text), _) => (text.clone(), theme.status.failed),
            (Ruling::Free, _) if row.verdict.refuses() => {
                (row.verdict.reason().to_owned(), theme.dialog.warning)
            }
            (Ruling::Free, _) => (row.verdict.reason().to_owned(), theme.body.dim),
        };
        let blocked = matches!(row.ruling, Ruling::Blocked(_) | Ruling::Refused(_)) && server_said.is_none();
        let word = if blocked && self.stage == Stage::Preview { "blocked" } else { row.verdict.word() };
        let fate_width = fate.chars().count().min(width / 3);
        let why_width = width.saturating_sub(9 + name_width + 1 + fate_width + 2);
        let cell = |text: &str, columns: usize| {
            let cut = fit(text, columns);
            let pad = columns.saturating_sub(unicode_width::UnicodeWidthStr::width(&*cut));
            format!("{cut}{}", " ".repeat(pad))
        };
        let name = clean(&row.name).into_owned();
        let mut line = Line::from(vec![
            Span::styled(format!("{} ", if selected { "▸" } else { " " }), theme.body.accent),
            Span::styled(cell(word, 8), word_style),
            Span::styled(cell(&name, name_width), theme.body.text),
            Span::raw(" "),
            Span::styled(cell(&clean(&why), why_width.saturating_sub(1)), why_style),
            Span::raw(" "),
            Span::styled(fit(&fate, fate_width + 1).into_owned(), fate_style),
        ]);
        if selected {
            line = line.patch_style(theme.table.cursor);
        }
        line
    }

    /// The options as one line of switches, wrapped to the width.
    fn draw_options(&self, cx: &Context<'_>, width: usize) -> Vec<Line<'static>> {
        let tick = |on: bool| if on { "[x]" } else { "[ ]" };
        let options = &self.options;
        let mut lines = vec![Line::default()];
        let mut used = 0;
        for (index, switch) in SWITCHES.iter().enumerate() {
            let text = match switch {
                Switch::Grace => match options.grace_seconds {
                    None => "grace: pod's own".to_owned(),
                    Some(seconds) => format!("grace: {seconds}s"),
                },
                Switch::Timeout => match options.timeout {
                    None => "timeout: none".to_owned(),
                    Some(timeout) => format!("timeout: {}s", timeout.as_secs()),
                },
                Switch::DaemonSets => format!("{} ignore DaemonSets", tick(options.ignore_daemon_sets)),
                Switch::Force => format!("{} evict unmanaged", tick(options.force)),
                Switch::Data => format!("{} delete emptyDir data", tick(options.delete_empty_dir_data)),
                Switch::Bypass => format!("{} bypass budgets", tick(options.disable_eviction)),
            };
            let columns = text.chars().count() + 4;
            if used + columns > width && used > 0 {
                lines.push(Line::default());
                used = 0;
            }
            used += columns;
            let selected = self.cursor == Cursor::Option(index);
            let risky = matches!(switch, Switch::Bypass) && options.disable_eviction;
            let style = match (selected, risky) {
                (true, _) => cx.theme.table.cursor,
                (false, true) => cx.theme.dialog.warning,
                (false, false) => cx.theme.body.text,
            };
            if let Some(line) = lines.last_mut() {
                line.push_span(Span::styled(format!(" {text} "), style));
                line.push_span(Span::raw("  "));
            }
        }
        lines
    }

    fn draw_foot(&self, cx: &Context<'_>) -> Line<'static> {
        let key = |command| cx.bindings.key(command).map(|key| key.to_string()).unwrap_or_default();
        let start = key(Command::DrainStart);
        let text = match self.stage {
            Stage::Preview => format!("nothing has happened yet · {start} starts · esc leaves"),
            Stage::Running => format!("{} stops · esc leaves it running", key(Command::DrainStop)),
            Stage::Stopped => format!("{start} resumes · {} uncordons", key(Command::DrainUncordon)),
            Stage::Over => format!("{} uncordons · {start} drains again", key(Command::DrainUncordon)),
        };
        Line::styled(text, cx.theme.body.dim)
    }
}

impl View for Drain {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("drain {}", self.name())
    }

    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Drain, Where::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => {
                let first = self.rows(cx).into_iter().flatten().next();
                if let Some(row) = first {
                    self.cursor = Cursor::Pod(row.uid);
                }
                Vec::new()
            }
            ScreenMessage::Command(command) => match command {
                Command::DrainStart => self.start(cx),
                Command::DrainStop => self.stop(),
                Command::DrainToggle | Command::Enter => self.toggle(cx),
                Command::DrainUncordon => self.uncordon(),
                Command::Up | Command::Left => {
                    self.step(cx, -1);
                    Vec::new()
                }
                Command::Down | Command::Right => {
                    self.step(cx, 1);
                    Vec::new()
                }
                Command::PageUp => {
                    self.step(cx, -10);
                    Vec::new()
                }
                Command::PageDown => {
                    self.step(cx, 10);
                    Vec::new()
                }
                Command::Top => {
                    self.step(cx, -10_000);
                    Vec::new()
                }
                Command::Bottom => {
                    self.step(cx, 10_000);
                    Vec::new()
                }
                Command::NextPart => {
                    self.cursor = match (&self.cursor, self.rows(cx).into_iter().flatten().next()) {
                        (Cursor::Option(_), Some(row)) => Cursor::Pod(row.uid),
                        _ => Cursor::Option(0),
                    };
                    Vec::new()
                }
                Command::Back | Command::Leave => vec![Effect::Back],
                _ => Vec::new(),
            },
            ScreenMessage::Data(Data::Drain(told)) => self.hear(told),
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.rows(cx);
        let width = usize::from(area.width).saturating_sub(4);
        let block = cx.theme.block_focused(fit(&self.heading(&rows), width).into_owned());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let options = self.draw_options(cx, usize::from(inner.width));
        let [list, rule, below, foot] = Layout::vertical([
            Constraint::Min(1),
            Constraint::Length(1),
            Constraint::Length(options.len() as u16),
            Constraint::Length(1),
        ])
        .areas(inner);
        let mut lines = Vec::new();
        let mut cursor_line = 0;
        let columns = usize::from(list.width);
        let longest = rows.iter().flatten().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let widths = (columns, (longest + 1).clamp(8, (columns * 2 / 5).max(8)));
        for (node, rows) in rows.iter().enumerate() {
            if self.nodes.len() > 1 {
                lines.push(self.node_line(cx, node));
            } else if let Some(Err(error)) = &self.states[node].result {
                lines.push(Line::styled(format!("✖ {}", clean(error)), cx.theme.status.failed));
            }
            if rows.is_empty() {
                lines.push(Line::styled("  no pods on this node", cx.theme.body.dim));
            }
            for row in rows {
                if self.cursor == Cursor::Pod(row.uid.clone()) {
                    cursor_line = lines.len();
                }
                lines.push(self.draw_row(cx, row, node, widths));
            }
        }
        if matches!(self.cursor, Cursor::Option(_)) {
            cursor_line = lines.len().saturating_sub(1);
        }
        let skip = (cursor_line + 1).saturating_sub(usize::from(list.height));
        frame.render_widget(Paragraph::new(lines).scroll((skip as u16, 0)), list);
        let line = "─".repeat(usize::from(rule.width));
        frame.render_widget(Line::styled(line, cx.theme.frame.border), rule);
        frame.render_widget(Paragraph::new(options), below);
        frame.render_widget(self.draw_foot(cx).right_aligned(), foot);
    }

    fn background(&self, _cx: &Context<'_>) -> Option<String> {
        if self.stage != Stage::Running {
            return None;
        }
        let (gone, leaving) = self
            .states
            .iter()
            .map(NodeState::progress)
            .fold((0, 0), |(gone, leaving), (more_gone, more)| (gone + more_gone, leaving + more));
        Some(format!("drain {} {gone}/{leaving}", self.name()))
    }
}

impl Drain {
    /// The line above a node's pods when there are several nodes.
    fn node_line(&self, cx: &Context<'_>, node: usize) -> Line<'static> {
        let state = &self.states[node];
        let name = self.nodes[node].name.clone();
        let (gone, leaving) = state.progress();
        let (text, style) = match (&state.result, &state.rows) {
            (Some(Ok(())), _) => (format!("✔ {name}  {gone} of {leaving} gone"), cx.theme.status.succeeded),
            (Some(Err(error)), _) => (format!("✖ {name}  {}", clean(error)), cx.theme.status.failed),
            (None, Some(_)) => (format!("◐ {name}  {gone} of {leaving} gone"), cx.theme.status.pending),
            (None, None) => (format!("· {name}"), cx.theme.body.accent),
        };
        Line::styled(text, style)
    }
}

fn following<T: Copy + PartialEq>(all: &[T], now: T) -> T {
    let at = all.iter().position(|one| *one == now).map_or(0, |at| (at + 1) % all.len());
    all[at]
}
