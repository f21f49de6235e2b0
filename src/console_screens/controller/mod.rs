//! One controller of the control plane (CON-19): its queue, its current work, its last reconciles and its errors. The
//! controller can be paused and stepped from here.
//!
//! ```text
//!  ╭ controller deployment ───────────────────────────────────╮
//!  │ ◐ Paused by pause-deployment · since 5m · 5 workers       │
//!  │ queue  12 due, the oldest for 34s · 0 in flight · 3 later │
//!  │ waits  p50 1.2ms, p99 20ms of 256    work  p50 … p99 …    │
//!  │ DUE 12                                                    │
//!  │ ▸ default/web             for 34s                         │
//!  │ LATER 3                                                   │
//!  │   default/db              in 12s, failed 3 times          │
//!  │ LAST RECONCILES                                           │
//!  │   default/api             Done in 1.2ms, 3s ago           │
//!  ├ default/web ─────────────────────────────────────────────┤
//!  │ the whole message of the row under the cursor             │
//!  ╰──────────────────────────────────────────────────────────╯
//! ```
//!
//! The status is watched while the screen is shown, and polled each second if the server does not support a watch. If
//! that fails, the last status stays readable and its age is shown.

mod follow;
pub mod response;
mod view;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::resource::ObjectRef;
use console_data::rows::controller::{ControllerStatus, KeyStatus};
use console_operations::effect::Effect;
use console_operations::navigate::open_table_at;
use console_operations::operations;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::text::clean;
use console_toolkit::widget::cursor::Window;
use follow::follow;
use response::ControllerResponse;

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum ControllerData {
    /// The result of a request for the status.
    Answer(ControllerResponse),
    /// A step was executed or refused.
    Stepped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListSection {
    /// Keys that are being reconciled.
    InFlight,
    /// Keys that are due.
    Due,
    /// Keys that are due later: after a back-off or a requeue.
    Later,
    /// The last reconciles.
    Recent,
    /// The last failed reconciles.
    Errors,
}

impl ListSection {
    const ALL: [Self; 5] = [Self::InFlight, Self::Due, Self::Later, Self::Recent, Self::Errors];

    fn keys(self, status: &ControllerStatus) -> &[KeyStatus] {
        match self {
            Self::InFlight => &status.in_flight,
            Self::Due => &status.waiting,
            Self::Later => &status.delayed,
            Self::Recent => &status.recent,
            Self::Errors => &status.last_errors,
        }
    }
}

/// A row that the cursor can be on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) part: ListSection,
    pub(super) key: &'a KeyStatus,
    /// Number of older entries with the same key and time. It identifies a row, because newer entries are inserted
    /// above it.
    older: usize,
}

/// Identifies the row of the cursor across updates.
#[derive(Clone, Debug, PartialEq)]
struct Name {
    part: ListSection,
    key: String,
    at: Option<Timestamp>,
    older: usize,
}

impl Row<'_> {
    fn name(&self) -> Name {
        let at = self.key.at.as_ref().map(|time| time.0);
        Name { part: self.part, key: self.key.key.clone(), at, older: self.older }
    }
}

/// The screen of one controller.
#[derive(Debug)]
pub struct Controller {
    pub(super) target: ObjectRef,
    /// The newest status, and when it arrived.
    pub(super) status: Option<(ControllerStatus, Timestamp)>,
    /// The reason why there is no newer status; `None` while requests succeed.
    pub(super) failure: Option<ControllerResponse>,
    cursor: Option<Name>,
    /// The index of the cursor's row; the cursor stays at this index when its entry disappears.
    row: usize,
    pub(super) filter: Filter,
    /// The window of the lines: the rows and the headings of their sections.
    pub(super) window: Window,
}

impl Controller {
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self {
            target,
            status: None,
            failure: None,
            cursor: None,
            row: 0,
            filter: Filter::default(),
            window: Window::default(),
        }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// Returns the rows that match the search, section by section.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let Some((status, _)) = &self.status else { return Vec::new() };
        let is_match = |key: &KeyStatus| {
            self.filter.is_empty() || self.filter.matches(&format!("{} {}", key.key, key.summary()))
        };
        let rows = |part: ListSection| {
            let keys = part.keys(status);
            keys.iter().enumerate().filter(|(_, key)| is_match(key)).map(move |(index, key)| {
                let same = |other: &&KeyStatus| other.key == key.key && other.at == key.at;
                Row { part, key, older: keys[index + 1..].iter().filter(same).count() }
            })
        };
        ListSection::ALL.into_iter().flat_map(rows).collect()
    }

    /// Returns the row of the cursor. It starts on the key that is reconciled next.
    pub(super) fn cursor_row(&self, rows: &[Row<'_>]) -> usize {
        let place = match &self.cursor {
            Some(cursor) => rows.iter().position(|row| row.name() == *cursor),
            None => rows.iter().position(|row| row.part == ListSection::Due),
        };
        place.unwrap_or(self.row).min(rows.len().saturating_sub(1))
    }

    fn set_row(&mut self, place: usize) {
        let cursor = self.rows().get(place).map(Row::name);
        (self.row, self.cursor) = (place, cursor);
    }

    fn selected_key(&self) -> Option<(ListSection, KeyStatus)> {
        let rows = self.rows();
        let row = rows.get(self.cursor_row(&rows))?;
        Some((row.part, row.key.clone()))
    }

    /// Returns the key to step: the key under the cursor if it waits in the queue; `None` steps the controller's next
    /// key.
    fn chosen(&self) -> Option<String> {
        let is_in_order = self.status.as_ref().is_some_and(|(status, _)| {
            // The scheduler pops pods in its own order.
            status.component.as_deref() == Some("scheduler")
        });
        let (part, key) = self.selected_key()?;
        let waits = matches!(part, ListSection::Due | ListSection::Later);
        (waits && !is_in_order).then_some(key.key)
    }

    fn step(&self) -> Vec<Effect> {
        let (target, key) = (self.target.clone(), self.chosen());
        vec![Effect::task("step", move |out| async move {
            operations::controller::take_step(&out, &target, key).await;
            out.data(ControllerData::Stepped).await;
        })]
    }

    fn refresh(&self) -> Effect {
        let target = self.target.clone();
        Effect::task("look", move |out| follow(out, target))
    }

    fn take(&mut self, answer: ControllerResponse, now: Timestamp) {
        match answer {
            ControllerResponse::Status(status) => {
                (self.status, self.failure) = (Some((*status, now)), None);
                if self.cursor.is_some() {
                    // If the cursor's entry disappeared, the cursor moves to the entry that took its row.
                    self.set_row(self.cursor_row(&self.rows()));
                }
            }
            trouble => self.failure = Some(trouble),
        }
    }

    /// Opens the object of the selected key.
    fn enter(&self, cx: &Context<'_>) -> Vec<Effect> {
        let Some((_, key)) = self.selected_key() else {
            return vec![Effect::info("no key is selected")];
        };
        match &key.object {
            Some(object) => {
                let namespace = object.namespace.as_deref();
                open_table_at(cx, &object.api_version, &object.kind, namespace, &object.name, None)
            }
            None => vec![Effect::info(format!("{} does not name an object", clean(&key.key)))],
        }
    }

    fn object(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        let object = self.selected_key()?.1.object?;
        let kind = cx.catalogue.by_gvk(&object.api_version, &object.kind)?.clone();
        Some(ObjectRef { kind, namespace: object.namespace, name: object.name, uid: None })
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let rows = self.rows();
        if let Some(to) = self.window.step(command, self.cursor_row(&rows), rows.len()) {
            self.set_row(to);
            return Vec::new();
        }
        match command {
            Command::NextPart | Command::PreviousPart => self.select_section(command),
            Command::Enter => return self.enter(cx),
            Command::Copy => {
                let text = match self.selected_key() {
                    Some((ListSection::Recent | ListSection::Errors, key)) => key.summary(),
                    Some((_, key)) => key.key,
                    None => return vec![Effect::info("no key is selected")],
                };
                return vec![Effect::Copy(text)];
            }
            Command::Pause | Command::ControllerStep => {
                if let Some(why) = self.refuses(cx, command) {
                    return vec![Effect::info(why)];
                }
                if command == Command::ControllerStep {
                    return self.step();
                }
                let status = self.status.as_ref().map(|(status, _)| status);
                return vec![operations::controller::toggle_one(cx, &self.target, status)];
            }
            Command::Refresh => return vec![self.refresh()],
            _ => return object_commands::on(cx, command, self.object(cx)),
        }
        Vec::new()
    }

    fn select_section(&mut self, command: Command) {
        let rows = self.rows();
        let place = self.cursor_row(&rows);
        let Some(part) = rows.get(place).map(|row| row.part) else { return };
        let to = if command == Command::NextPart {
            rows.iter().skip(place).position(|row| row.part != part).map(|next| place + next)
        } else {
            let before = rows[..place].iter().rfind(|row| row.part != part).map(|row| row.part);
            before.and_then(|before| rows.iter().position(|row| row.part == before))
        };
        if let Some(to) = to {
            self.set_row(to);
        }
    }
}

impl View for Controller {
    fn title(&self, _cx: &Context<'_>) -> String {
        clean(&format!("{} · controller", self.target.name)).into_owned()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Controllers, KeyContext::ControllerKeys, KeyContext::List]
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        let state = self.status.as_ref().map(|(status, _)| status);
        match command {
            Command::Pause | Command::ControllerStep if state.is_none() => {
                Some("its status is not known yet".into())
            }
            Command::Pause if let Some(why) = state.and_then(|state| state.cannot_pause.as_deref()) => {
                Some(format!("{} cannot be paused: {}", self.target.name, clean(why)))
            }
            Command::ControllerStep
                if let Some(why) = state.and_then(|state| state.cannot_step.as_deref()) =>
            {
                Some(format!("{} cannot be stepped: {}", self.target.name, clean(why)))
            }
            Command::ControllerStep if !state.is_some_and(ControllerStatus::is_paused) => {
                Some(format!("{} is not paused: pause it before a step", self.target.name))
            }
            Command::Pause => operations::controller::refuses(cx.catalogue),
            _ => None,
        }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => return vec![self.refresh()],
            ScreenMessage::Data(data) => match data.take() {
                Some(ControllerData::Answer(answer)) => self.take(answer, cx.now),
                // The effect of the step must be visible at once.
                Some(ControllerData::Stepped) => return vec![self.refresh()],
                None => {}
            },
            ScreenMessage::Command(command) => return self.command(cx, command),
            ScreenMessage::Mouse(event) => {
                let rows = self.rows();
                if let Some(to) = Window::wheel(event, self.cursor_row(&rows), rows.len()) {
                    self.set_row(to);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn selected(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        self.object(cx)
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        Ok(())
    }
}
