//! The drills: faults to find and repair, with a briefing, hints and a score (FAULT-2). The control plane runs them;
//! this screen lists them, starts one, and shows its progress.
//!
//! ```text
//!  ╭ drills ─────────────────────────────────────────╮
//!  │   NAME            TITLE        BEST    LAST      │
//!  │ ▸ stuck-rollout   A rollout …  95      playing   │
//!  │──────────────────────────────────────────────────│
//!  │ the briefing                                     │
//!  │ 1m20s of 10m · ✔ rollout is stuck · ✖ all of one │
//!  ╰──────────────────────────────────────────────────╯
//! ```

pub mod scenario_client;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_operations::effect::{Dialog, Effect, Outbox};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, counted, fit, wrapped};
use console_toolkit::theme::Theme;
use console_toolkit::widget::cursor::Window;
use extension::scenario::{AllScenarioRuns, ScenarioPhase, ScenarioRun};
use object::time::go_duration;
use scenario_client::{DrillsData, Row};

/// Pause between two reads of the scenarios.
const PAUSE: Duration = Duration::from_secs(1);
/// Widths of the columns for the name, the best run and the last run.
const NAME: usize = 24;
const BEST: usize = 8;
const LAST: usize = 14;
/// Minimum width of the column for the title beside the runs.
const TITLE: usize = 8;
/// The rows that the list keeps if the details of a drill need the rest: the heading and two drills.
const LISTED: usize = 3;

/// The screen that lists the drills.
#[derive(Debug)]
pub struct Drills {
    /// Name of the selected drill.
    cursor: Option<String>,
    window: Window,
    /// The drills and scenarios, as of the last read.
    rows: Vec<Row>,
    /// The reason why the last read failed; `None` if it succeeded.
    failed: Option<String>,
    is_served: bool,
    /// The reason why earlier runs are unknown, if they are.
    no_runs: Option<String>,
    /// The drill to start as soon as the objects of its last run are deleted.
    begins: Option<String>,
}

impl Default for Drills {
    fn default() -> Self {
        let rows = scenario_client::rows(&[], &AllScenarioRuns::default());
        Self {
            cursor: None,
            window: Window::default(),
            rows,
            failed: None,
            is_served: false,
            no_runs: None,
            begins: None,
        }
    }
}

impl Drills {
    fn at(&self) -> usize {
        let rows = &self.rows;
        let named = |row: &Row| self.cursor.as_ref() == Some(&row.name);
        // The cursor starts on the drill that is running.
        rows.iter().position(named).or_else(|| rows.iter().position(Row::is_playing)).unwrap_or_default()
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let at = self.at();
        if let Some(to) = self.window.step(command, at, self.rows.len()) {
            self.cursor = self.rows.get(to).map(|row| row.name.clone());
            return Vec::new();
        }
        let Some(row) = self.rows.get(at).cloned() else { return Vec::new() };
        self.act(cx, &row, command)
    }

    fn act(&mut self, cx: &Context<'_>, row: &Row, command: Command) -> Vec<Effect> {
        let refuse = |reason: String| vec![Effect::info(reason)];
        if let Some(why) = self.refuses(cx, command) {
            return refuse(why);
        }
        match command {
            Command::Enter => {
                self.cursor = Some(row.name.clone());
                vec![Effect::dialog(question(row))]
            }
            Command::DrillHint => match row.request_hint() {
                Some(action) => {
                    let cost = row.played.as_ref().map_or(0, |one| one.spec.hint_cost());
                    let dialog = Dialog::new("Show the next hint", "Show", move |_, _| {
                        Ok(vec![Effect::Act(Box::new(action.clone()))])
                    });
                    vec![Effect::dialog(dialog.line(format!("The next hint costs {cost} points.")))]
                }
                None => refuse("no more hints".into()),
            },
            Command::Stop => {
                self.cursor = Some(row.name.clone());
                let action = row.stop();
                let dialog = Dialog::new("Stop the drill", "Stop", move |_, _| {
                    Ok(vec![Effect::Act(Box::new(action.clone()))])
                });
                let text = format!("Drill {} stops: its faults end and its objects are removed.", row.name);
                vec![Effect::dialog(dialog.warning(text))]
            }
            _ => Vec::new(),
        }
    }

    /// Starts the requested drill once nothing of its last run remains.
    fn start_pending_drill(&mut self) -> Vec<Effect> {
        let Some(name) = &self.begins else { return Vec::new() };
        let row = self.rows.iter().find(|row| row.name == *name);
        if row.is_some_and(|row| row.played.is_some()) {
            return Vec::new();
        }
        let begins = row.and_then(Row::begin);
        self.begins = None;
        begins.map(|action| Effect::Act(Box::new(action))).into_iter().collect()
    }

    /// Returns the line in the lower border: the running drill, or the key that starts one.
    fn hint(&self, cx: &Context<'_>) -> String {
        let key = |command| {
            let key = cx.bindings.key_in(command, KeyContext::Drills).or_else(|| cx.bindings.key(command));
            key.map(|key| key.to_string()).unwrap_or_default()
        };
        let selected = self.rows.get(self.at()).filter(|row| row.is_playing());
        match selected.or_else(|| self.rows.iter().find(|row| row.is_playing())) {
            Some(row) => {
                let name = clean(&row.name);
                let keys = selected
                    .map(|_| format!(" · {} hint · {} stop", key(Command::DrillHint), key(Command::Stop)));
                format!("{name} is running{}", keys.unwrap_or_default())
            }
            None if self.refuses(cx, Command::Enter).is_some() => String::new(),
            None => format!("{} starts one", key(Command::Enter)),
        }
    }

    fn note(&self) -> Option<&str> {
        if let Some(why) = &self.failed {
            return Some(why);
        }
        (!self.is_served).then_some("asking the server …")
    }
}

/// Creates the dialog that starts a drill, with its subject.
fn question(row: &Row) -> Dialog {
    let begins = row.clone();
    let mut dialog = Dialog::new(row.title.clone(), "Begin", move |_, _| {
        let mut effects = vec![Effect::send(DrillsMessage::Begin(begins.name.clone()))];
        if begins.played.is_some() {
            effects.push(Effect::Act(Box::new(begins.forget())));
        }
        Ok(effects)
    });
    for paragraph in row.briefing() {
        dialog = dialog.line(paragraph);
    }
    dialog.line("").line("It causes faults in its own namespace and on nodes, and ends them when it ends.")
}

/// Reads the scenarios until the screen is closed.
async fn poll_scenarios(out: Outbox) {
    loop {
        let seen = scenario_client::list_scenarios(&out).await;
        out.data(DrillsMessage::Seen(seen)).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Messages of the screen's task and its dialog.
#[derive(Debug)]
pub enum DrillsMessage {
    /// The result of a read.
    Seen(DrillsData),
    /// The user starts the drill of this name.
    Begin(String),
}

impl View for Drills {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Drills".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Drills, KeyContext::List]
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        let Some(row) = self.rows.get(self.at()) else {
            return object_commands::refuses_without_row(command);
        };
        match command {
            Command::Enter if !self.is_served => Some("this cluster does not support drills".into()),
            Command::Enter if row.is_playing() => Some(format!("drill {} is already running", row.name)),
            Command::Enter if row.manifest.is_none() => Some(format!(
                "scenario {} is not a shipped drill: podium scenario run plays its file",
                row.name
            )),
            Command::DrillHint | Command::Stop if !row.is_playing() => {
                Some(format!("drill {} is not running", row.name))
            }
            _ => None,
        }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Command(Command::Refresh) => {
                vec![Effect::task("look", poll_scenarios)]
            }
            ScreenMessage::Data(data) => self.handle_data(data),
            ScreenMessage::Command(command) => self.command(cx, command),
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let hint = fit(&self.hint(cx), usize::from(area.width).saturating_sub(6)).into_owned();
        let hint = if hint.is_empty() { hint } else { format!(" {hint} ") };
        let hint = Line::styled(hint, cx.theme.body.dim).right_aligned();
        let block = cx.theme.block_focused("Drills").title_bottom(hint);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let (rows, at) = (&self.rows, self.at());
        let (width, height) = (usize::from(inner.width), usize::from(inner.height));
        let mut details = self.details(cx, width.max(8));
        let listed = (rows.len() + 1).min(height.saturating_sub(details.len()).max(LISTED));
        let listed = Constraint::Length(u16::try_from(listed).unwrap_or(u16::MAX));
        let [list, details_area] = Layout::vertical([listed, Constraint::Fill(1)]).areas(inner);
        // A column that does not fit is dropped whole; the title matters least.
        let has_runs = width >= 2 + NAME + BEST + LAST;
        let runs = if has_runs { BEST + LAST } else { 0 };
        let title = width.saturating_sub(2 + NAME + runs);
        let title = if has_runs && title < TITLE { 0 } else { title };
        let line = |lead: &str, name: &str, text: &str, best: &str, last: &str| {
            let name = fit(&clean(name), NAME - 1).into_owned();
            let text = fit(&clean(text), title.saturating_sub(1)).into_owned();
            let runs = if has_runs { format!("{best:<BEST$}{last}") } else { String::new() };
            format!("{lead}{name:<NAME$}{text:<title$}{runs}")
        };
        let mut lines =
            vec![Line::styled(line("  ", "NAME", "TITLE", "BEST", "LAST"), cx.theme.table.header)];
        let visible = self.window.around(at, usize::from(list.height).saturating_sub(1), rows.len());
        lines.extend(rows.iter().enumerate().skip(visible.start).take(visible.len()).map(|(index, row)| {
            let lead = if index == at { "▸ " } else { "  " };
            let style = if index == at { cx.theme.table.cursor } else { Style::default() };
            Line::styled(line(lead, &row.name, &row.title, &self.best(row), &self.last(row)), style)
        }));
        frame.render_widget(Paragraph::new(lines), list);
        let visible = usize::from(details_area.height);
        if details.len() > visible && visible > 0 {
            let hidden = counted(details.len() + 1 - visible, "more line");
            details.truncate(visible - 1);
            details.push(Line::styled(format!("… {hidden}"), cx.theme.body.accent));
        }
        frame.render_widget(Paragraph::new(details), details_area);
    }
}

impl Drills {
    /// Returns the details of the picked drill, wrapped to this width.
    fn details(&self, cx: &Context<'_>, width: usize) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(note) = self.note() {
            lines.push((note.to_owned(), cx.theme.status.failed));
        }
        if let Some(why) = &self.no_runs {
            lines.push((format!("earlier runs are not known: {why}"), cx.theme.body.dim));
        }
        if let Some(row) = self.rows.get(self.at()) {
            lines.extend(detail_lines(cx, row));
        }
        let wide = lines.into_iter().flat_map(|(text, style)| {
            let text = clean(&text).into_owned();
            wrapped(&text, width).into_iter().map(move |piece| Line::styled(piece, style))
        });
        wide.collect()
    }

    /// Returns the best run; `?` if earlier runs are unknown.
    fn best(&self, row: &Row) -> String {
        let best = row.runs.as_ref().and_then(|runs| runs.best());
        let none = if self.no_runs.is_some() { "?" } else { "–" };
        best.map_or_else(
            || none.into(),
            |run| if run.passed { run.score.to_string() } else { "failed".into() },
        )
    }

    /// Returns the last run, or the current one; `?` if earlier runs are unknown.
    fn last(&self, row: &Row) -> String {
        let Some(one) = &row.played else {
            let last = row.runs.as_ref().and_then(|runs| runs.last());
            let none = if self.no_runs.is_some() { "?" } else { "–" };
            return last.map_or_else(|| none.into(), short);
        };
        match one.phase() {
            ScenarioPhase::Passed => {
                format!("{} of 100", one.status.as_ref().and_then(|status| status.score).unwrap_or_default())
            }
            ScenarioPhase::Failed => "failed".into(),
            ScenarioPhase::Running => "playing".into(),
            ScenarioPhase::Pending | ScenarioPhase::Preparing => "preparing".into(),
        }
    }

    fn handle_data(&mut self, data: console_data::message::Data) -> Vec<Effect> {
        let data = match data.take() {
            Some(DrillsMessage::Seen(data)) => data,
            Some(DrillsMessage::Begin(name)) => {
                self.begins = Some(name);
                return self.start_pending_drill();
            }
            None => return Vec::new(),
        };
        match data {
            DrillsData::Seen(seen, runs) => {
                let (runs, no_runs) = match runs {
                    Ok(runs) => (runs, None),
                    Err(reason) => (AllScenarioRuns::default(), Some(reason)),
                };
                self.no_runs = no_runs;
                self.rows = scenario_client::rows(&seen, &runs);
                (self.failed, self.is_served) = (None, true);
                self.start_pending_drill()
            }
            DrillsData::NotServed => {
                self.is_served = false;
                self.failed = Some("this is not a Podium cluster: it has no drills".into());
                Vec::new()
            }
            DrillsData::Failed(why) => {
                self.failed = Some(why);
                Vec::new()
            }
        }
    }
}

/// Returns `88 of 100`, or `failed`.
fn short(run: &ScenarioRun) -> String {
    if run.passed { format!("{} of 100", run.score) } else { "failed".into() }
}

/// Returns the details of a drill, one paragraph each.
fn detail_lines(cx: &Context<'_>, row: &Row) -> Vec<(String, Style)> {
    let theme = cx.theme;
    let mut lines = vec![(String::new(), theme.body.text)];
    let status = row.played.as_ref().and_then(|one| one.status.as_ref());
    if let (Some(one), Some(status)) = (&row.played, status) {
        if let Some(started) = status.started_at.as_ref().filter(|_| one.phase() == ScenarioPhase::Running) {
            let limit = go_duration(one.spec.time_limit());
            lines.push((format!("{} of {limit}", elapsed(cx, started.0)), theme.body.accent));
        }
        if one.phase().has_ended() || one.phase() == ScenarioPhase::Preparing {
            let style = match one.phase() {
                ScenarioPhase::Passed => theme.status.running,
                ScenarioPhase::Failed => theme.status.failed,
                _ => theme.body.dim,
            };
            let score = status.score.map(|score| format!("{score} of 100: ")).unwrap_or_default();
            lines.push((format!("{score}{}", status.message.as_deref().unwrap_or_default()), style));
            for part in &status.points {
                let message = part.message.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                lines.push((
                    format!("  {:>3} {}{message}", part.points, humanize_id(&part.name)),
                    theme.body.dim,
                ));
            }
        }
        for check in &status.checks {
            lines.push(check_line(theme, &check.kind, &check.name, check.holds));
        }
        let hints = one.revealed_hints().iter().enumerate();
        lines.extend(hints.map(|(index, hint)| {
            (format!("hint {} of {}: {hint}", index + 1, one.spec.hints.len()), theme.body.text)
        }));
        lines.push((String::new(), theme.body.text));
    }
    let runs = row.runs.as_ref();
    for (what, run) in
        [("best", runs.and_then(|runs| runs.best())), ("last", runs.and_then(|runs| runs.last()))]
    {
        lines
            .extend(run.map(|run| (format!("{what}: {}, on {}", run.summary(), run.date()), theme.body.dim)));
    }
    if runs.is_some() {
        lines.push((String::new(), theme.body.text));
    }
    lines.extend(row.briefing().into_iter().map(|paragraph| (paragraph, theme.body.text)));
    lines
}

/// Returns the line of a check: what its kind means for the player, and its name.
fn check_line(theme: &Theme, kind: &str, name: &str, holds: bool) -> (String, Style) {
    let good = (theme.sign("✔", "holds:"), theme.status.running);
    let bad = (theme.sign("✖", "does not hold:"), theme.status.failed);
    let (meaning, (mark, style)) = match (kind, holds) {
        ("Trouble", true) => ("the trouble is there: ", (theme.sign("⚠", "warning:"), theme.status.pending)),
        ("Trouble", false) => ("the trouble is not there: ", (" ", theme.body.dim)),
        ("Detect", true) => ("noticed: ", good),
        ("Detect", false) => ("to be noticed: ", bad),
        ("Repair", true) => ("repaired: ", good),
        ("Repair", false) => ("to be repaired: ", bad),
        ("Always", true) => ("must always hold: ", good),
        ("Always", false) => ("must always hold: ", bad),
        (_, true) => ("", good),
        (_, false) => ("", bad),
    };
    (format!("{mark} {meaning}{}", humanize_id(name)), style)
}

/// Returns `web is available`, from the id `web-is-available`.
fn humanize_id(id: &str) -> String {
    id.replace('-', " ")
}

/// Returns the time since `since`; requests a redraw each second.
fn elapsed(cx: &Context<'_>, since: Timestamp) -> String {
    let seconds = cx.now.duration_since(since).as_secs().max(0);
    if let Ok(next) = cx.now.checked_add(SignedDuration::from_secs(1)) {
        cx.redraw_at(next);
    }
    go_duration(Duration::from_secs(seconds.unsigned_abs()))
}
