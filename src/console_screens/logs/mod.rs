//! The logs screen: one container, all containers of a pod, or all pods of a workload (CON-10).
//!
//! Draws only visible lines. The view's position is a line number, so that nothing jumps while lines arrive; at the end
//! the view follows new lines.
//!
//! ```text
//!  container ─► source (one task a run) ─► line (escapes, level) ─► batches ─► Buffer ─► screen
//!                                                                     search ┘
//! ```
//!
//! [`source`] and [`stream`] are the only files that talk to the cluster. Lines are parsed in their tasks, so that
//! the loop only appends: 100 000 lines a second pass through it (CON-10).

mod buffer;
mod container_runs;
mod outage;
mod selection;
mod selector;
mod source;
mod stream;
mod view;

pub(crate) use buffer::Buffer;
pub use console_toolkit::log_line::{Level, LogLine};
pub use selection::{LogSelection, Pods};
pub use source::{follow, next_batch};

use std::cell::Cell;
use std::sync::Arc;

use base::task::JoinSet;
use crossterm::event::MouseEventKind;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Client;
use ratatui::Frame;
use ratatui::layout::Rect;
use tokio::sync::{mpsc, watch};

use super::View;
use console_data::builtin_kinds::kind;
use console_data::container::default_container;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::project::Project;
use console_data::resource::ObjectRef;
use console_data::saved_tabs::{SavedContainers, SavedScreen};
use console_operations::effect::{ContainerFilter, Effect, LogRun, LogStart, LogsRoute, Outbox};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::log_line::LineOrigin;
use console_toolkit::search::Search;
use console_toolkit::text::grouped;
use console_toolkit::widget::scroll;
use console_toolkit::widget::wrap::{row_count, row_of};
use selector::selector_of;
use source::backlog;
use unicode_width::UnicodeWidthStr;
use view::first_byte;

/// Number of initial lines of a log.
const TAIL: i64 = 1_000;
/// The number of initial lines of each log if several containers are read at once.
const TAIL_OF_MANY: i64 = 200;
/// The maximum number of batches of a project's lines in flight.
const PROJECT_BATCHES: usize = 16;

/// The maximum number of bytes that are copied: terminals ignore a longer text for the clipboard.
const COPY_BYTES: usize = 1 << 20;

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum LogsData {
    /// Lines of the reading with this number; lines of an earlier reading are dropped.
    Lines(u64, Vec<LogLine>),
    /// The label selector of the workload, from the server.
    Selector(Result<String, String>),
}

/// The subject of the logs.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// One pod.
    Pod,
    /// The pods that match this label selector, once it is known.
    Workload(Option<String>),
    /// The pods that match the user's label selector.
    Selected(String),
    /// The pods of the project under development, and its builds.
    Project,
}

/// The position of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// At the end, following new lines.
    End,
    /// The number of the first visible line, and the index of its first visible row if lines are wrapped.
    At(u64, usize),
}

/// The screen that shows logs.
#[derive(Debug)]
pub struct Logs {
    pub(super) target: ObjectRef,
    pub(super) subject: Subject,
    pub(super) run: LogRun,
    pub(super) which: Option<ContainerFilter>,
    pub(super) start: LogStart,
    pub(super) buffer: Buffer,
    query: String,
    pub(super) position: Position,
    /// The number of the line that `n` or its reverse found last.
    pub(super) current: Option<u64>,
    pub(super) wrap: bool,
    pub(super) timestamps: bool,
    pub(super) full: bool,
    pub(super) left: usize,
    marks: u32,
    pub(super) error: Option<String>,
    /// Incremented with each restart of the reading.
    reading: u64,
    /// Lets reading continue. It is closed while the view is scrolled back and the buffer is full: otherwise new lines
    /// would replace those that the user reads.
    pub(super) gate: watch::Sender<bool>,
    /// Number of rows, as of the last draw.
    pub(super) height: Cell<usize>,
    /// Number of columns, as of the last draw.
    pub(super) width: Cell<usize>,
}

impl Logs {
    /// Creates the screen for a pod, or for several pods.
    pub(crate) fn new(route: LogsRoute) -> Self {
        let LogsRoute { target, labels, run, which, start, timestamps } = route;
        let subject = match labels {
            Some(labels) => Subject::Selected(labels),
            None if target.kind.kind == "Pod" => Subject::Pod,
            None => Subject::Workload(None),
        };
        let tail = if matches!(subject, Subject::Pod) { TAIL } else { TAIL_OF_MANY };
        Self {
            target,
            subject,
            run,
            which,
            start: start.unwrap_or(LogStart::Tail(tail)),
            buffer: Buffer::default(),
            query: String::new(),
            position: Position::End,
            current: None,
            wrap: false,
            timestamps,
            full: false,
            left: 0,
            marks: 0,
            error: None,
            reading: 0,
            gate: watch::Sender::new(true),
            height: Cell::new(20),
            width: Cell::new(80),
        }
    }

    /// Creates the screen for the builds and the pods of the project under development.
    pub(crate) fn of_project() -> Self {
        let target =
            ObjectRef { kind: kind::<Namespace>(), namespace: None, name: "project".to_owned(), uid: None };
        Self { subject: Subject::Project, ..Self::new(LogsRoute::of(target, LogRun::Current)) }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// Returns the state that is saved for the next session; an error says why there is none.
    pub(crate) fn keep(&self) -> Result<SavedScreen, &'static str> {
        match self.subject {
            Subject::Project => return Err("`podium dev` opens its project's logs by itself"),
            Subject::Selected(_) => return Err("logs of a label selector belong to no object"),
            Subject::Pod | Subject::Workload(_) => {}
        }
        let which = match &self.which {
            None => SavedContainers::Usual,
            Some(ContainerFilter::All) => SavedContainers::All,
            Some(ContainerFilter::One(container)) => SavedContainers::One(container.clone()),
        };
        Ok(SavedScreen::Logs { previous: self.run == LogRun::Previous, which })
    }

    /// Restores a saved screen for this pod or workload.
    pub fn restored(target: ObjectRef, previous: bool, which: SavedContainers) -> Self {
        let run = if previous { LogRun::Previous } else { LogRun::Current };
        let which = match which {
            SavedContainers::Usual => None,
            SavedContainers::All => Some(ContainerFilter::All),
            SavedContainers::One(container) => Some(ContainerFilter::One(container)),
        };
        Self::new(LogsRoute { which, ..LogsRoute::of(target, run) })
    }

    /// Returns whether the pod is known to be deleted.
    pub(super) fn is_deleted(&self, cx: &Context<'_>) -> bool {
        matches!(self.subject, Subject::Pod) && cx.stores.pods().synced() && self.pod(cx).is_none()
    }

    fn pod<'a>(&self, cx: &'a Context<'_>) -> Option<&'a Pod> {
        let namespace = self.target.namespace.as_deref().unwrap_or_default();
        cx.stores.pods().by_name(namespace, &self.target.name)
    }

    /// Starts a new reading with an empty buffer.
    fn restart(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        // Late lines of the former reading must not hide an error of this one.
        self.reading += 1;
        self.buffer.clear();
        self.position = Position::End;
        self.current = None;
        self.error = None;
        if self.which.is_none() {
            self.which = match (&self.subject, self.pod(cx).and_then(default_container)) {
                (Subject::Pod, Some(container)) => Some(ContainerFilter::One(container)),
                _ => Some(ContainerFilter::All),
            };
        }
        if let (Subject::Pod, Some(ContainerFilter::One(container)), Some(pod)) =
            (&self.subject, &self.which, self.pod(cx))
        {
            let names = container_names(pod);
            if !names.contains(container) {
                let names = names.join(", ");
                self.error = Some(format!("the pod has no container {container:?}; it has {names}"));
                return vec![Effect::Cancel("logs")];
            }
        }
        let namespace = self.target.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let pods = match &self.subject {
            Subject::Pod => Pods::Named(self.target.name.clone()),
            Subject::Workload(Some(labels)) | Subject::Selected(labels) => Pods::Selected(labels.clone()),
            Subject::Project => {
                let Some(project) = cx.project.cloned() else {
                    self.error = Some("`podium dev` builds no project in this cluster".to_owned());
                    return Vec::new();
                };
                self.target.name.clone_from(&project.name);
                self.gate = watch::Sender::new(true);
                let (number, gate, start) = (self.reading, self.gate.subscribe(), self.start);
                let previous = self.run == LogRun::Previous;
                return vec![Effect::task("logs", move |out| {
                    read_project(out, project, (start, previous), number, gate)
                })];
            }
            Subject::Workload(None) => {
                let target = self.target.clone();
                return vec![Effect::task("logs", move |out| find_selector(out, target))];
            }
        };
        let follow = LogSelection {
            namespace,
            pods,
            which: self.which.clone().unwrap_or(ContainerFilter::All),
            start: self.start,
            previous: self.run == LogRun::Previous,
        };
        self.gate = watch::Sender::new(true);
        let (number, gate) = (self.reading, self.gate.subscribe());
        vec![Effect::task("logs", move |out| read(out, follow, number, gate))]
    }

    fn since(&mut self, cx: &Context<'_>, start: LogStart) -> Vec<Effect> {
        self.start = start;
        let effects = self.restart(cx);
        if start == LogStart::Head {
            self.position = Position::At(0, 0);
        }
        effects
    }

    fn toggle_all(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        self.which = match self.which {
            Some(ContainerFilter::All) => self.pod(cx).and_then(default_container).map(ContainerFilter::One),
            _ => Some(ContainerFilter::All),
        };
        self.restart(cx)
    }

    fn next_container(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let names = self.pod(cx).map(container_names).unwrap_or_default();
        if names.len() < 2 {
            return vec![Effect::info("the pod has only one container")];
        }
        let at = match &self.which {
            Some(ContainerFilter::One(name)) => {
                names.iter().position(|other| other == name).map_or(0, |at| at + 1)
            }
            _ => 0,
        };
        self.which = Some(ContainerFilter::One(names[at % names.len()].clone()));
        self.restart(cx)
    }

    /// Returns the index of the first visible line, and of its first visible row.
    pub(super) fn top(&self) -> (usize, usize) {
        match self.position {
            Position::End => self.last_top(),
            Position::At(number, row) => (self.buffer.visible_index(number), row),
        }
    }

    /// Returns the first visible row of the view that ends with the last row.
    fn last_top(&self) -> (usize, usize) {
        self.up((self.buffer.visible_count(), 0), self.height.get())
    }

    /// Returns the number of rows of a line.
    fn rows(&self, place: usize) -> usize {
        match self.buffer.visible_line(place) {
            Some((_, line)) if self.wrap => row_count(&self.shown_text(line), self.width.get()),
            _ => 1,
        }
    }

    /// Returns the position some rows above another one.
    fn up(&self, (mut place, mut row): (usize, usize), mut rows: usize) -> (usize, usize) {
        while rows > row && place > 0 {
            rows -= row;
            place -= 1;
            row = self.rows(place);
        }
        (place, row.saturating_sub(rows))
    }

    /// Returns the position some rows below another one, at most the end of the last line.
    pub(super) fn down(&self, (mut place, row): (usize, usize), rows: usize) -> (usize, usize) {
        let mut row = row + rows;
        while place < self.buffer.visible_count() {
            let of_line = self.rows(place);
            if row < of_line {
                return (place, row);
            }
            row -= of_line;
            place += 1;
        }
        (place, 0)
    }

    /// Moves the view; at the end it follows new lines again.
    fn scroll_to(&mut self, (place, row): (usize, usize)) {
        self.position = match self.buffer.visible_line(place) {
            Some((number, _)) if (place, row) < self.last_top() => Position::At(number, row),
            _ => Position::End,
        };
    }

    /// Scrolls by a command; any other command does nothing.
    fn scroll(&mut self, command: Command) {
        let (top, page) = (self.top(), self.height.get().max(2) - 1);
        self.scroll_to(match command {
            Command::Up => self.up(top, 1),
            Command::Down => self.down(top, 1),
            Command::PageUp => self.up(top, page),
            Command::PageDown => self.down(top, page),
            Command::Top => (0, 0),
            Command::Bottom => self.last_top(),
            _ => return,
        });
    }

    /// Shows the next or previous match, a third from the top.
    fn jump(&mut self, forward: bool) -> Vec<Effect> {
        let (top, height) = (self.top(), self.height.get());
        let number_at = |(place, _)| self.buffer.visible_line(place).map_or(u64::MAX, |(number, _)| number);
        let found = match (forward, self.current) {
            (true, Some(current)) => self.buffer.next_match(current + 1),
            (true, None) => self.buffer.next_match(number_at(top)),
            (false, Some(current)) => self.buffer.previous_match(current),
            (false, None) => self.buffer.previous_match(number_at(self.down(top, height))),
        };
        let Some(number) = found else {
            return vec![Effect::info("no match")];
        };
        self.current = Some(number);
        let place = self.buffer.visible_index(number);
        let row = self.show_columns(place);
        let (place, row) = self.up((place, row), self.height.get() / 3);
        if let Some((top, _)) = self.buffer.visible_line(place) {
            self.position = Position::At(top, row);
        }
        Vec::new()
    }

    /// Scrolls to the left or right until the first match of a line is visible; returns its row if lines are wrapped.
    fn show_columns(&mut self, place: usize) -> usize {
        let Some((_, line)) = self.buffer.visible_line(place) else { return 0 };
        let found = self.buffer.query().and_then(|query| query.ranges(&line.text).into_iter().next());
        let Some(found) = found else { return 0 };
        let (shown, width) = (self.shown_text(line), self.width.get());
        let before = shown.len() - line.text.len();
        if self.wrap {
            return row_of(&shown, before + found.start, width);
        }
        let room = width.saturating_sub(shown[..before].width());
        let (text, total) = (&line.text, line.text.width());
        let columns = text[..found.start].width()..text[..found.end].width();
        let is_visible = |left| {
            let first = text[..first_byte(text, room, left)].width();
            // A mark takes the place of the first column of a line that starts further left, and of its last one.
            let end = first + room - usize::from(left == 0 && first > 0);
            first <= columns.start && columns.end <= end.saturating_sub(usize::from(total > end))
        };
        if !is_visible(self.left) {
            self.left = if is_visible(0) { 0 } else { columns.start.saturating_sub(room / 3) };
        }
        0
    }

    /// Returns the start of the range that a command shows; `None` if it does not select a range.
    fn range(&self, command: Command) -> Option<LogStart> {
        Some(match command {
            Command::LogsTail => LogStart::Tail(if self.one_source() { TAIL } else { TAIL_OF_MANY }),
            Command::LogsHead => LogStart::Head,
            Command::Logs1m => LogStart::Since(60),
            Command::Logs5m => LogStart::Since(300),
            Command::Logs15m => LogStart::Since(900),
            Command::Logs30m => LogStart::Since(1800),
            Command::Logs1h => LogStart::Since(3600),
            _ => return None,
        })
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        if let Some(start) = self.range(command) {
            return self.since(cx, start);
        }
        match command {
            Command::ShowAll => return self.toggle_all(cx),
            Command::NextPart => return self.next_container(cx),
            Command::PreviousLogs => {
                self.run = if self.run == LogRun::Current { LogRun::Previous } else { LogRun::Current };
                return self.restart(cx);
            }
            Command::LogsAutoscroll => {
                let (place, row) = self.top();
                self.position = match (self.position, self.buffer.visible_line(place)) {
                    (Position::End, Some((number, _))) => Position::At(number, row),
                    _ => Position::End,
                };
            }
            Command::LogsTimestamps => self.timestamps = !self.timestamps,
            Command::LogsMark => {
                self.marks += 1;
                let time = cx.now.strftime("%H:%M:%S");
                self.buffer.extend(vec![LogLine::mark(format!("mark {} · {time}", self.marks))]);
            }
            Command::LogsClear => {
                self.buffer.clear();
                self.position = Position::End;
            }
            Command::LogsFilter => {
                if self.buffer.query().is_none() {
                    return vec![Effect::info("search with / first; then F shows only lines that match")];
                }
                let at = self.buffer.visible_line(self.top().0).map(|(number, _)| number);
                self.buffer.filter(!self.buffer.filtering());
                if let (Position::At(..), Some(number)) = (self.position, at) {
                    self.scroll_to((self.buffer.visible_index(number), 0));
                }
            }
            Command::SearchNext => return self.jump(true),
            Command::SearchPrevious => return self.jump(false),
            Command::Wrap => {
                self.wrap = !self.wrap;
                if let Position::At(number, _) = self.position {
                    self.position = Position::At(number, 0);
                }
            }
            Command::FullScreen => self.full = !self.full,
            Command::Copy => return self.copy(cx),
            Command::Save => {
                let time = cx.now.strftime("%Y%m%dT%H%M%S");
                let name = format!("{}-{time}.log", self.target.name);
                return vec![Effect::Save { name, text: self.buffer.to_text() }];
            }
            Command::Left | Command::Right => self.left = scroll::column(command, self.left),
            _ => self.scroll(command),
        }
        Vec::new()
    }

    fn handle(&mut self, cx: &Context<'_>, loaded: LogsData) -> Vec<Effect> {
        match loaded {
            LogsData::Lines(reading, lines) => {
                if reading == self.reading {
                    self.buffer.extend(lines);
                }
                Vec::new()
            }
            LogsData::Selector(Ok(labels)) => {
                self.subject = Subject::Workload(Some(labels));
                self.restart(cx)
            }
            LogsData::Selector(Err(error)) => {
                self.error = Some(error);
                Vec::new()
            }
        }
    }

    /// Copies all lines that the view holds, as it shows them: those that match, if only they are shown. Of too many,
    /// the newest are copied.
    fn copy(&self, cx: &Context<'_>) -> Vec<Effect> {
        let all = self.buffer.visible_count();
        let mut lines: Vec<String> = Vec::new();
        let mut bytes = 0;
        for (_, line) in (0..all).rev().map_while(|place| self.buffer.visible_line(place)) {
            let text = self.shown_text(line);
            bytes += text.len() + 1;
            if bytes > COPY_BYTES && !lines.is_empty() {
                break;
            }
            lines.push(text);
        }
        if lines.is_empty() {
            return vec![Effect::info("no lines to copy")];
        }
        let copied = lines.len();
        let text: String = lines.into_iter().rev().map(|line| line + "\n").collect();
        let mut effects = vec![Effect::Copy(text)];
        if copied < all {
            let save =
                cx.bindings.key(Command::Save).map(|key| format!(": {key} saves all")).unwrap_or_default();
            let (copied, all) = (grouped(copied as u64), grouped(all as u64));
            effects.push(Effect::info(format!("the newest {copied} of {all} lines{save}")));
        }
        effects
    }

    pub(super) fn one_source(&self) -> bool {
        matches!(self.subject, Subject::Pod) && matches!(self.which, Some(ContainerFilter::One(_)))
    }
}

impl View for Logs {
    fn title(&self, _cx: &Context<'_>) -> String {
        if matches!(self.subject, Subject::Project) {
            return "project".to_owned();
        }
        format!("{} · logs", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Logs, KeyContext::Text, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        let effects = match message {
            ScreenMessage::Opened => self.restart(cx),
            ScreenMessage::Command(command) => self.command(cx, command),
            ScreenMessage::Mouse(event) => {
                match event.kind {
                    MouseEventKind::ScrollDown => self.scroll_to(self.down(self.top(), scroll::WHEEL)),
                    MouseEventKind::ScrollUp => self.scroll_to(self.up(self.top(), scroll::WHEEL)),
                    _ => {}
                }
                Vec::new()
            }
            ScreenMessage::Data(data) => data.take().map(|data| self.handle(cx, data)).unwrap_or_default(),
            _ => Vec::new(),
        };
        let open = self.position == Position::End || !self.buffer.is_nearly_full();
        self.gate.send_if_modified(|gate| std::mem::replace(gate, open) != open);
        effects
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn full_screen(&self) -> bool {
        self.full
    }

    fn query(&self) -> Option<&str> {
        Some(&self.query)
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        let reads_again = self.range(command).is_some()
            || matches!(command, Command::ShowAll | Command::NextPart | Command::PreviousLogs);
        let is_lost = reads_again && self.buffer.visible_count() > 0 && self.is_deleted(cx);
        is_lost.then(|| format!("pod {} is gone: its log cannot be read again", self.target.name))
    }

    fn set_query(&mut self, _cx: &Context<'_>, query: &str) -> Result<(), String> {
        let compiled = Search::of_logs(query)?;
        let (place, row) = self.top();
        let held = self.buffer.visible_line(place).map(|(number, _)| number);
        query.clone_into(&mut self.query);
        self.buffer.search(compiled);
        self.current = None;
        if let (Position::At(..), Some(number)) = (self.position, held) {
            self.position = Position::At(number, row);
            if !query.is_empty() {
                // A missing match is visible in the title.
                self.jump(true);
            }
        }
        Ok(())
    }
}

/// Returns the pod's containers in order of execution, ephemeral ones last.
fn container_names(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let plain = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| container.name.clone());
    plain.map(|container| container.name.clone()).chain(ephemeral).collect()
}

async fn read(out: Outbox, selection: LogSelection, number: u64, mut gate: watch::Receiver<bool>) {
    let several = selection.which == ContainerFilter::All || matches!(selection.pods, Pods::Selected(_));
    let (reading, mut batches) = follow(out.client(), selection);
    let forward = async {
        let mut next = if several { backlog(&mut batches).await } else { next_batch(&mut batches).await };
        while let Some(lines) = next {
            // The screen that owns the gate was closed, so that this task ends, too.
            if gate.wait_for(|open| *open).await.is_err() {
                return;
            }
            out.data(LogsData::Lines(number, lines)).await;
            next = next_batch(&mut batches).await;
        }
    };
    tokio::join!(reading, forward);
}

/// Reads the builds of a project and the logs of its pods, in the namespaces that it has.
async fn read_project(
    out: Outbox,
    project: Arc<Project>,
    (start, previous): (LogStart, bool),
    number: u64,
    mut gate: watch::Receiver<bool>,
) {
    let (lines, mut batches) = mpsc::channel(PROJECT_BATCHES);
    let pods = follow_project(out.client(), project.clone(), (start, previous), lines.clone());
    let builds = async {
        let mut at = 0;
        // The screen may have been closed.
        while lines.send(project.lines_from(&mut at).await).await.is_ok() {}
    };
    let forward = async {
        let mut next = backlog(&mut batches).await;
        while let Some(lines) = next {
            // The screen that owns the gate was closed, so that this task ends, too.
            if gate.wait_for(|open| *open).await.is_err() {
                return;
            }
            out.data(LogsData::Lines(number, lines)).await;
            next = next_batch(&mut batches).await;
        }
    };
    tokio::join!(pods, builds, forward);
}

/// Follows the pods of a project in every namespace that it has or gets.
async fn follow_project(
    client: Client,
    project: Arc<Project>,
    (start, previous): (LogStart, bool),
    lines: mpsc::Sender<Vec<LogLine>>,
) {
    let mut namespaces = project.namespaces();
    let mut followed: Vec<String> = Vec::new();
    // Dropping this future drops the set, which aborts its tasks.
    let mut readers = JoinSet::new();
    loop {
        for namespace in namespaces.borrow_and_update().clone() {
            if followed.contains(&namespace) {
                continue;
            }
            followed.push(namespace.clone());
            let pods = Pods::Selected(project.selector.clone());
            let selection = LogSelection { namespace, pods, which: ContainerFilter::All, start, previous };
            let (reading, mut batches) = follow(client.clone(), selection);
            let lines = lines.clone();
            readers.spawn(async move {
                let pass = async {
                    while let Some(mut batch) = next_batch(&mut batches).await {
                        // The project's own lines tell about pods that come and go.
                        batch.retain(|line| line.kind != LineOrigin::Note || !line.source.is_empty());
                        if !batch.is_empty() && lines.send(batch).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::join!(reading, pass);
            });
        }
        if namespaces.changed().await.is_err() {
            return;
        }
    }
}

/// Requests the label selector of a workload.
async fn find_selector(out: Outbox, target: ObjectRef) {
    let answer = out.fetch(&target).await.and_then(|object| {
        selector_of(&object).ok_or_else(|| format!("{} {} has no selector", target.kind.kind, target.name))
    });
    out.data(LogsData::Selector(answer)).await;
}
