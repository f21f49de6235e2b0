//! Explains why a pod is pending: every node against every filter, and the changes that would make it fit (CON-9).
//!
//! The verdict is requested again whenever the pod or an event about it changes: each attempt of the scheduler causes
//! such a change. Changes of the nodes since the last attempt are listed ([`node_changes`]). On a cluster that serves
//! no verdicts, the screen shows kube-scheduler's event and condition, and says so.

mod event_view;
pub(crate) mod groups;
mod node_changes;
pub(crate) mod scheduler_event;
pub mod verdict;
mod view;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Event, Pod};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::related::{is_about, waits_for_a_node};
use console_data::resource::{ObjectRef, ResourceKey};
use console_data::store::TouchedObjects;
use console_operations::effect::Effect;
use console_operations::navigate::open_table_at;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::widget::cursor::Window;
use groups::{Group, Name, Row, groups, rows};
use verdict::{Verdict, VerdictResponse, fetch};

/// Results of the screen's task.
#[derive(Debug)]
pub enum PendingData {
    /// The response to a request for the verdict.
    VerdictResponse(VerdictResponse),
}

/// The screen that explains a pending pod.
#[derive(Debug)]
pub struct PendingScreen {
    pub(super) target: ObjectRef,
    /// The newest response with content; a verdict stays readable when the server has none any more.
    pub(super) response: Option<VerdictResponse>,
    /// The fingerprints of the nodes when the verdict's attempt was reported.
    fingerprints: node_changes::NodeFingerprints,
    pub(super) groups: Vec<Group>,
    pub(super) open: BTreeSet<Name>,
    cursor: Option<Name>,
    /// The index of the cursor's row; the cursor stays at this index when its row disappears.
    row_index: usize,
    pub(super) filter: Filter,
    pub(super) window: Window,
}

impl PendingScreen {
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self {
            target,
            response: None,
            fingerprints: node_changes::NodeFingerprints::new(),
            groups: Vec::new(),
            open: BTreeSet::new(),
            cursor: None,
            row_index: 0,
            filter: Filter::default(),
            window: Window::default(),
        }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// Returns the current pod.
    pub(super) fn pod<'a>(&self, cx: &Context<'a>) -> Option<&'a Pod> {
        let stores = cx.stores;
        match &self.target.uid {
            Some(uid) => stores.pods().get(uid),
            None => stores.pods().by_name(self.target.namespace.as_deref()?, &self.target.name),
        }
    }

    pub(super) fn verdict(&self) -> Option<&Verdict> {
        match &self.response {
            Some(VerdictResponse::Verdict(verdict)) => Some(verdict),
            _ => None,
        }
    }

    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let Some(verdict) = self.verdict() else { return Vec::new() };
        rows(verdict, &self.groups, &self.open, &self.filter)
    }

    /// Returns the index of the cursor's row.
    pub(super) fn cursor_row(&self, verdict: &Verdict, rows: &[Row<'_>]) -> usize {
        let named = self.cursor.as_ref();
        let at = named.and_then(|name| rows.iter().position(|row| row.name(verdict) == *name));
        at.unwrap_or(self.row_index).min(rows.len().saturating_sub(1))
    }

    /// Moves the cursor to the row that `step` returns for its row and the number of rows; returns whether it is one.
    fn move_cursor(&mut self, step: impl FnOnce(usize, usize) -> Option<usize>) -> bool {
        let Some(verdict) = self.verdict() else { return false };
        let rows = self.rows();
        let Some(place) = step(self.cursor_row(verdict, &rows), rows.len()) else { return false };
        let name = rows.get(place).map(|row| row.name(verdict));
        self.row_index = place;
        self.cursor = name;
        true
    }

    fn load(&self) -> Effect {
        let target = self.target.clone();
        Effect::task("verdict", move |out| async move {
            let answer = fetch(out.client(), &target).await;
            out.data(PendingData::VerdictResponse(answer)).await;
        })
    }

    /// Returns the changes of the nodes since the attempt; none if the pod does not wait for a node.
    pub(super) fn changes_since(&self, cx: &Context<'_>) -> Vec<String> {
        let pod = self.pod(cx);
        let (Some(verdict), true) = (self.verdict(), pod.is_some_and(waits_for_a_node)) else {
            return Vec::new();
        };
        if !cx.stores.nodes().synced() {
            return Vec::new();
        }
        node_changes::changes(
            verdict,
            pod,
            &self.fingerprints,
            cx.stores.nodes().iter().map(|(_, node)| node),
        )
    }

    fn take(&mut self, cx: &Context<'_>, answer: VerdictResponse) {
        let attempted_at = |verdict: &Verdict| verdict.attempted_at.0;
        if let VerdictResponse::Verdict(verdict) = &answer
            && self.verdict().map(attempted_at) != Some(attempted_at(verdict))
        {
            self.fingerprints = node_changes::fingerprints(cx.stores.nodes().iter().map(|(_, node)| node));
        }
        match answer {
            // If there is no verdict now, for example because the pod has got a node, the last one stays readable.
            VerdictResponse::Untried if self.verdict().is_some() => {}
            answer => {
                if let VerdictResponse::Verdict(verdict) = &answer {
                    self.groups = groups(verdict);
                }
                self.response = Some(answer);
            }
        }
    }

    /// Expands or collapses a group, or opens a node.
    fn enter(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let Some(verdict) = self.verdict() else { return Vec::new() };
        let rows = self.rows();
        match rows.get(self.cursor_row(verdict, &rows)).map(|row| row.name(verdict)) {
            Some(Name::Node(node)) => open_table_at(cx, "v1", "Node", None, &node, None),
            Some(group) => {
                if !self.open.remove(&group) {
                    self.open.insert(group);
                }
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let window = self.window.clone();
        if self.move_cursor(|at, rows| window.step(command, at, rows)) {
            return Vec::new();
        }
        match command {
            Command::Enter | Command::Toggle => self.enter(cx),
            Command::Copy => match self.verdict() {
                Some(verdict) => vec![Effect::Copy(verdict.message.clone())],
                None => vec![Effect::info("no verdict to copy")],
            },
            Command::Refresh => vec![self.load()],
            _ => object_commands::on(cx, command, Some(self.target.clone())),
        }
    }

    /// Returns whether a change may be the result of another attempt at the pod.
    fn concerns(&self, cx: &Context<'_>, resource: &ResourceKey, touched: &TouchedObjects) -> bool {
        let is_pods = *resource == ResourceKey::of::<Pod>();
        let is_events = *resource == ResourceKey::of::<Event>();
        let TouchedObjects::Some(uids) = touched else { return is_pods || is_events };
        match () {
            () if is_pods => uids.iter().any(|uid| self.target.uid.as_ref() == Some(uid)),
            () if is_events => {
                let mut events = uids.iter().filter_map(|uid| cx.stores.events().entry(uid));
                events.any(|event| is_about(&event, &self.target))
            }
            () => false,
        }
    }
}

impl View for PendingScreen {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · why pending", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Pending, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Shown => return vec![self.load()],
            ScreenMessage::Changed(resource, touched) if self.concerns(cx, &resource, &touched) => {
                return vec![self.load()];
            }
            ScreenMessage::Data(data) => {
                if let Some(PendingData::VerdictResponse(answer)) = data.take() {
                    self.take(cx, answer);
                }
            }
            ScreenMessage::Command(command) => return self.command(cx, command),
            ScreenMessage::Mouse(event) => {
                self.move_cursor(|at, rows| Window::wheel(event, at, rows));
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        Ok(())
    }
}
