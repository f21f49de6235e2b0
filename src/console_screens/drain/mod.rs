//! The drain screen: a preview that serves as the dialog; the same rows then show the progress (CON-6).
//!
//! Before the start the rows follow the live stores; afterwards they belong to the drain. It continues in the
//! background when the screen is closed, and its result stays readable.
//!
//! The decisions and the execution are in [`console_operations::operations::drain`]. [`replacement`] finds the pods
//! that replaced the evicted ones, and is pure.

pub(crate) mod options;
pub(crate) mod replacement;
mod view;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::resource::{ObjectRef, Uid};
use console_data::rows::node::is_cordoned;
use console_data::saved_tabs::{SavedDrain, SavedStage};
use console_operations::command_availability;
use console_operations::effect::Effect;
use console_operations::operations::drain::{
    BudgetTracker, EvictionState, Options, Progress, Row, driver, plan,
};
use console_operations::operations::node::cordon;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::toast::Toast;
use console_toolkit::widget::cursor::Window;

use options::SWITCHES;

/// The position of the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    Pod(Uid),
    Option(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DrainStage {
    /// Not started.
    Preview,
    Running,
    Stopped,
    /// Ended without a stop by the user.
    Over,
}

/// The progress of one node.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) rows: Option<Vec<Row>>,
    pub(super) evictions: HashMap<Uid, EvictionState>,
    pub(super) result: Option<Result<(), String>>,
}

impl NodeState {
    /// Returns the number of pods that are gone, and of all pods that must leave.
    pub(super) fn progress(&self) -> (usize, usize) {
        let leaving = self.rows.iter().flatten().filter(|row| row.delete_status.leaves()).count();
        let deleted = self
            .evictions
            .values()
            .filter(|eviction| matches!(eviction, EvictionState::Deleted { .. }))
            .count();
        (deleted, leaving)
    }

    /// Drops all rows except those of pods that are gone.
    fn retain_deleted_pods(&mut self) {
        self.evictions.retain(|_, eviction| matches!(eviction, EvictionState::Deleted { .. }));
        if let Some(rows) = &mut self.rows {
            rows.retain(|row| self.evictions.contains_key(&row.uid));
        }
        self.result = None;
    }

    /// Counts the pods that remain on the node although they should have left.
    pub(super) fn leftover_pods(&self, cx: &Context<'_>) -> LeftoverPods {
        let there = |row: &&Row| !cx.stores.pods().synced() || cx.stores.pods().entry(&row.uid).is_some();
        let failed = |row: &Row| matches!(self.evictions.get(&row.uid), Some(EvictionState::Failed(_)));
        let mut left = LeftoverPods::default();
        for row in self.rows.iter().flatten().filter(there) {
            left.refused += usize::from(row.delete_status.refuses());
            left.failed += usize::from(failed(row));
        }
        left
    }
}

/// Pods that a drain leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftoverPods {
    /// Pods that the plan refuses.
    pub(super) refused: usize,
    /// Pods that could not be evicted.
    pub(super) failed: usize,
}

impl LeftoverPods {
    /// Returns `not empty: 3 refused, 1 failed`; `None` if the node is empty.
    pub(super) fn describe(self) -> Option<String> {
        let parts = [(self.refused, "refused"), (self.failed, "failed")];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        (!parts.is_empty()).then(|| format!("not empty: {}", parts.join(", ")))
    }
}

/// The screen that drains nodes.
#[derive(Debug)]
pub struct Drain {
    pub(super) nodes: Vec<ObjectRef>,
    pub(super) states: Vec<NodeState>,
    pub(super) options: Options,
    exceptions: BTreeSet<Uid>,
    pub(super) cursor: Cursor,
    /// The window of the pods.
    pub(super) window: Window,
    pub(super) stage: DrainStage,
    /// The progress in the last session of the console, until the drain is started in this one.
    pub(super) last: Option<SavedDrain>,
    /// Time of the first start: pods created since then are replacements.
    pub(super) started: Option<Timestamp>,
    /// Number of lines of the options and the footer, as of the last draw.
    pub(super) foot: Cell<u16>,
}

impl Drain {
    /// Creates a drain of these nodes, one after another.
    pub(crate) fn new(nodes: Vec<ObjectRef>) -> Self {
        let states = nodes.iter().map(|_| NodeState::default()).collect();
        Self {
            nodes,
            states,
            options: Options::default(),
            exceptions: BTreeSet::new(),
            cursor: Cursor::Option(0),
            window: Window::default(),
            stage: DrainStage::Preview,
            last: None,
            started: None,
            foot: Cell::new(0),
        }
    }

    /// Restores a drain of the last session: shows the plan for the current pods with the same options, and does
    /// nothing until it is started.
    pub fn restored(nodes: Vec<ObjectRef>, saved: SavedDrain) -> Self {
        let options = Options {
            grace_seconds: saved.grace_seconds,
            timeout: saved.timeout_seconds.map(Duration::from_secs),
            ignore_daemon_sets: saved.ignore_daemon_sets,
            force: saved.force,
            delete_empty_dir_data: saved.delete_empty_dir_data,
            disable_eviction: saved.disable_eviction,
        };
        let last = (saved.stage != SavedStage::Preview).then_some(saved);
        Self { options, last, ..Self::new(nodes) }
    }

    /// Returns the state that is saved for the next session.
    pub fn keep(&self) -> SavedDrain {
        let stage = match self.stage {
            DrainStage::Preview => SavedStage::Preview,
            DrainStage::Running => SavedStage::Running,
            DrainStage::Stopped => SavedStage::Stopped,
            DrainStage::Over => SavedStage::Over,
        };
        let (gone, leaving) = self.progress();
        // If the drain was not touched since it was restored, its saved progress still holds.
        let (stage, gone, leaving) =
            self.last.as_ref().map_or((stage, gone, leaving), |last| (last.stage, last.gone, last.leaving));
        let options = &self.options;
        SavedDrain {
            nodes: self.nodes.iter().map(|node| node.name.clone()).collect(),
            stage,
            gone,
            leaving,
            grace_seconds: options.grace_seconds,
            timeout_seconds: options.timeout.map(|timeout| timeout.as_secs()),
            ignore_daemon_sets: options.ignore_daemon_sets,
            force: options.force,
            delete_empty_dir_data: options.delete_empty_dir_data,
            disable_eviction: options.disable_eviction,
        }
    }

    /// Returns the first node.
    pub(crate) fn target(&self) -> Option<&ObjectRef> {
        self.nodes.first()
    }

    /// Returns the rows of every node: those of the drain if it has started there, else the plan for the current pods.
    pub(super) fn rows(&self, cx: &Context<'_>) -> Vec<Vec<Row>> {
        let planned = self.planned(cx).into_iter().zip(&self.states);
        planned.map(|(planned, state)| state.rows.clone().unwrap_or(planned)).collect()
    }

    /// Returns the plan for the current pods.
    fn planned(&self, cx: &Context<'_>) -> Vec<Vec<Row>> {
        let mut tracker = BudgetTracker::new(cx.stores.budgets().iter().map(|(_, budget)| budget));
        let plan = |node: &ObjectRef| {
            let pods = cx.stores.pods_on(&node.name);
            plan(pods, &mut tracker, &self.options, &self.exceptions, None)
        };
        self.nodes.iter().map(plan).collect()
    }

    /// Returns the number of refused pods if some are refused and none would leave, so that a drain would do nothing.
    pub(super) fn only_refused(&self, cx: &Context<'_>) -> Option<usize> {
        let planned = self.planned(cx);
        let leaves = planned.iter().flatten().any(|row| row.delete_status.leaves());
        let refused = planned.iter().flatten().filter(|row| row.delete_status.refuses()).count();
        (!leaves && refused > 0).then_some(refused)
    }

    fn start(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        if self.stage == DrainStage::Running {
            return Vec::new();
        }
        if let Some(refused) = self.only_refused(cx) {
            return vec![Effect::Toast(Toast::warning(format!(
                "no pod can be evicted from {}: {refused} refused; space on a pod or an option allows it",
                self.name()
            )))];
        }
        // A stopped drain resumes at the node where it stopped.
        let from = match self.stage {
            DrainStage::Stopped => {
                self.states.iter().position(|state| !matches!(state.result, Some(Ok(())))).unwrap_or(0)
            }
            _ => 0,
        };
        for state in self.states.iter_mut().skip(from) {
            match self.stage {
                DrainStage::Stopped => state.retain_deleted_pods(),
                _ => *state = NodeState::default(),
            }
        }
        if self.stage != DrainStage::Stopped {
            self.started = Some(cx.now);
        }
        self.stage = DrainStage::Running;
        self.last = None;
        let (nodes, options, exceptions) =
            (self.nodes.clone(), self.options.clone(), self.exceptions.clone());
        vec![Effect::task("drain", move |out| driver::run(out, nodes, from, options, exceptions))]
    }

    fn stop(&mut self) -> Vec<Effect> {
        if self.stage != DrainStage::Running {
            return vec![Effect::Back];
        }
        self.stage = DrainStage::Stopped;
        vec![Effect::Cancel("drain")]
    }

    fn toggle(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        if self.stage == DrainStage::Running {
            return vec![Effect::info("stop the drain first to change its options")];
        }
        match &self.cursor {
            Cursor::Pod(uid) => {
                let rows = self.rows(cx);
                let row = rows.iter().flatten().find(|row| row.uid == *uid);
                let Some(row) = row.filter(|row| row.delete_status.is_exceptional()) else {
                    return vec![Effect::info("this pod needs no decision")];
                };
                if row.delete_status.refuses() {
                    self.exceptions.insert(uid.clone());
                } else {
                    self.exceptions.remove(uid);
                }
            }
            Cursor::Option(index) => {
                if let Some(switch) = SWITCHES.get(*index) {
                    switch.press(&mut self.options);
                }
            }
        }
        // The rows are planned again with the new options and exceptions.
        if self.stage != DrainStage::Preview {
            self.stage = DrainStage::Preview;
            self.states = self.nodes.iter().map(|_| NodeState::default()).collect();
        }
        Vec::new()
    }

    /// Moves the cursor; returns whether the command is a movement. A page and the ends stay within the pods or within
    /// the options; single steps go from the last pod to the first option, and back.
    fn step(&mut self, cx: &Context<'_>, command: Command) -> bool {
        let pods: Vec<Uid> = self.rows(cx).into_iter().flatten().map(|row| row.uid).collect();
        let (at, count) = match &self.cursor {
            Cursor::Pod(uid) => (pods.iter().position(|other| other == uid).unwrap_or(0), pods.len()),
            Cursor::Option(index) => (*index, SWITCHES.len()),
        };
        let command = match command {
            Command::Left => Command::Up,
            Command::Right => Command::Down,
            command => command,
        };
        let Some(to) = self.window.step(command, at, count) else { return false };
        self.cursor = match (&self.cursor, pods.last()) {
            (Cursor::Pod(_), _) if command == Command::Down && at + 1 >= count => Cursor::Option(0),
            (Cursor::Pod(_), _) => pods.get(to).cloned().map_or(Cursor::Option(0), Cursor::Pod),
            (Cursor::Option(0), Some(last)) if command == Command::Up => Cursor::Pod(last.clone()),
            (Cursor::Option(_), _) => Cursor::Option(to),
        };
        true
    }

    fn uncordon(&self, cx: &Context<'_>) -> Vec<Effect> {
        if self.stage == DrainStage::Running {
            return vec![Effect::info("stop the drain first")];
        }
        self.nodes.iter().map(|node| cordon(cx, node, false)).collect()
    }

    fn handle(&mut self, cx: &Context<'_>, progress: Progress) -> Vec<Effect> {
        match progress {
            Progress::Began { node, rows } => {
                if let Some(state) = self.states.get_mut(node) {
                    // Pods that were evicted before the stop stay readable.
                    let retained = state.rows.take().into_iter().flatten();
                    state.rows = Some(retained.chain(rows).collect());
                }
            }
            Progress::Evictions { node, evictions } => {
                if let Some(state) = self.states.get_mut(node) {
                    state.evictions.extend(evictions);
                }
            }
            Progress::Ended { node, result } => {
                if let Some(state) = self.states.get_mut(node) {
                    state.result = Some(result);
                }
            }
            Progress::Over => {
                self.stage = DrainStage::Over;
                return vec![Effect::BackgroundToast(self.summary(cx))];
            }
        }
        Vec::new()
    }

    fn summary(&self, cx: &Context<'_>) -> Toast {
        let name = self.name();
        let mut results = self.states.iter().filter_map(|state| state.result.as_ref());
        if let Some(error) = results.find_map(|result| result.as_ref().err()) {
            return Toast::failed(format!("drain of {name}: {error}"));
        }
        let left = self.leftover_pods(cx);
        match left.describe() {
            None => Toast::done(format!("{name} drained")),
            Some(words) if left.failed > 0 => Toast::failed(format!("{name} {words}")),
            Some(words) => Toast::warning(format!("{name} {words}")),
        }
    }

    /// Returns whether a node of the drain is cordoned.
    pub(super) fn is_cordoned(&self, cx: &Context<'_>) -> bool {
        let known = |node: &ObjectRef| cx.stores.nodes().by_name("", &node.name);
        self.nodes.iter().filter_map(known).any(is_cordoned)
    }

    /// Sums up the pods that remain on all nodes for which the drain has started.
    pub(super) fn leftover_pods(&self, cx: &Context<'_>) -> LeftoverPods {
        self.states.iter().map(|state| state.leftover_pods(cx)).fold(LeftoverPods::default(), |sum, left| {
            LeftoverPods { refused: sum.refused + left.refused, failed: sum.failed + left.failed }
        })
    }

    /// Returns the number of pods that are gone, and of all pods that must leave, on all nodes.
    pub(super) fn progress(&self) -> (usize, usize) {
        let each = self.states.iter().map(NodeState::progress);
        each.fold((0, 0), |(gone, leaving), (more_gone, more)| (gone + more_gone, leaving + more))
    }

    pub(super) fn name(&self) -> String {
        match self.nodes.as_slice() {
            [only] => only.name.clone(),
            nodes => format!("{} nodes", nodes.len()),
        }
    }
}

impl View for Drain {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("drain {}", self.name())
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Drain, KeyContext::List]
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        match (command, self.stage == DrainStage::Running) {
            (Command::Stop, false) => Some("the drain is not running".into()),
            (Command::DrainStart, true) => Some("the drain is running".into()),
            (Command::Uncordon, true) => Some("stop the drain first".into()),
            (Command::Toggle, true) => Some("stop the drain first to change its options".into()),
            _ => command_availability::refuses(cx.catalogue, &cx.catalogue.kind::<Node>(), command),
        }
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
                Command::Stop => self.stop(),
                Command::Toggle | Command::Enter => self.toggle(cx),
                Command::Uncordon => self.uncordon(cx),
                Command::NextPart => {
                    self.cursor = match (&self.cursor, self.rows(cx).into_iter().flatten().next()) {
                        (Cursor::Option(_), Some(row)) => Cursor::Pod(row.uid),
                        _ => Cursor::Option(0),
                    };
                    Vec::new()
                }
                _ => {
                    self.step(cx, command);
                    Vec::new()
                }
            },
            ScreenMessage::Data(data) => {
                data.take().map(|progress| self.handle(cx, progress)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn has_a_result(&self, _cx: &Context<'_>) -> bool {
        self.started.is_some() || self.last.is_some()
    }

    fn background(&self, _cx: &Context<'_>) -> Option<String> {
        if self.stage != DrainStage::Running {
            return None;
        }
        let (gone, leaving) = self.progress();
        Some(format!("drain {} {gone}/{leaving}", self.name()))
    }
}
