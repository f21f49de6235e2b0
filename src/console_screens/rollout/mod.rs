//! The rollout cockpit: old and new pods side by side, limits, deadline, history and undo (CON-5).
//!
//! Everything is read from the live stores at each draw; the screen itself only holds the selection. [`progress`] reads
//! a Deployment with its ReplicaSets and Pods, [`actions`] builds the changes of undo and pause; both are pure.

pub(crate) mod actions;
pub mod cause;
pub(crate) mod history;
pub(crate) mod limits;
mod panels;
pub(crate) mod progress;
mod view;

use std::cell::Cell;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PatchParams;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::object_commands;
use base::sort::SliceOrder;
use console_data::action::{self, Action, Mutation, error_text};
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::resource::{ObjectRef, Uid};
use console_data::store::{StoredObject, uid_of};
use console_operations::command_availability;
use console_operations::effect::{Dialog, Effect};
use console_operations::navigate;
use console_operations::operations;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::clean;
use console_toolkit::widget::cursor::Window;
use console_toolkit::widget::scroll::Scroll;

pub(crate) use history::{Revision, revisions, template_diff};
pub(crate) use progress::{Progress, ReplicaSetProgress, RolloutView};

use console_toolkit::difference::LineChange;
use history::revision_of;

/// Results of the screen's tasks.
#[derive(Debug)]
pub(crate) enum RolloutData {
    /// The result of the dry run of an undo to this revision.
    Tried(i64, Result<(), String>),
}

/// The screen of one Deployment's rollout.
#[derive(Debug)]
pub struct Rollout {
    pub(super) target: ObjectRef,
    /// The selected revision; by default the newest one that is not current.
    picked: Option<i64>,
    /// The ReplicaSet from which the screen was opened; its revision is selected initially.
    opened_at: Option<String>,
    /// The window of the revisions.
    pub(super) window: Window,
    /// The scroll position of the diff.
    pub(super) diff: Scroll,
    /// The result of the dry run of the selected undo.
    pub(super) tried: Option<(i64, Result<(), String>)>,
    /// Number of lines of the cockpit below its upper border, as of the last draw.
    pub(super) head: Cell<u16>,
}

/// The objects of a rollout, from the stores.
pub(super) struct Objects<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) sets: Vec<(&'a ReplicaSet, Vec<StoredObject<'a, Pod>>)>,
}

impl Rollout {
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self {
            target,
            picked: None,
            opened_at: None,
            window: Window::default(),
            diff: Scroll::default(),
            tried: None,
            head: Cell::new(0),
        }
    }

    /// Creates the screen with the revision of this ReplicaSet selected.
    pub(crate) fn at(target: ObjectRef, set: String) -> Self {
        Self { opened_at: Some(set), ..Self::new(target) }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    pub(super) fn objects<'a>(&self, cx: &'a Context<'_>) -> Option<Objects<'a>> {
        let namespace = self.target.namespace.as_deref().unwrap_or_default();
        let deployment = cx.stores.deployments().by_name(namespace, &self.target.name)?;
        let uid = uid_of(deployment)?;
        let mut sets: Vec<(&ReplicaSet, Vec<StoredObject<'_, Pod>>)> = cx
            .stores
            .replica_sets()
            .owned_by(&uid)
            .map(|set| {
                let uid = uid_of(set).unwrap_or_else(|| Uid::from(""));
                (set, cx.stores.pods().entries_owned_by(&uid).collect())
            })
            .collect();
        sets.order_by_key(|(set, _)| std::cmp::Reverse(revision_of(set)));
        Some(Objects { deployment, sets })
    }

    /// Returns the index of the selected revision: the user's choice, else the revision at which the screen was opened,
    /// else the newest revision to return to.
    pub(super) fn picked(&self, list: &[Revision]) -> Option<usize> {
        let at = |number: i64| list.iter().position(|revision| revision.number == number);
        let opened_at = |set: &String| list.iter().position(|revision| revision.set == *set);
        self.picked
            .and_then(at)
            .or_else(|| self.opened_at.as_ref().and_then(opened_at))
            .or_else(|| list.iter().position(|revision| !revision.current && !revision.undone))
            .or_else(|| list.iter().position(|revision| !revision.current))
            .or((!list.is_empty()).then_some(0))
    }

    /// Moves the selection; returns whether the command is a movement.
    fn step(&mut self, cx: &Context<'_>, command: Command) -> bool {
        let Some(objects) = self.objects(cx) else { return false };
        let list = revisions(objects.deployment, objects.sets.iter().map(|(set, _)| *set));
        let Some(at) = self.picked(&list) else { return false };
        let Some(to) = self.window.step(command, at, list.len()) else { return false };
        self.picked = Some(list[to].number);
        self.diff = Scroll::default();
        true
    }

    /// Shows the dialog that confirms an undo and lists its changes, and sends a dry run meanwhile.
    fn confirm_undo(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let Some(objects) = self.objects(cx) else { return Vec::new() };
        let list = revisions(objects.deployment, objects.sets.iter().map(|(set, _)| *set));
        let Some(revision) = self.picked(&list).map(|at| list[at].clone()) else {
            return vec![Effect::failed("no revision to roll back to")];
        };
        if revision.current {
            return vec![Effect::info("this is the current revision; pick another one")];
        }
        // kubectl's message would suggest a command outside of the console; here one key resumes the rollout.
        if operations::restart::is_paused(objects.deployment) {
            let key = cx.bindings.key(Command::Pause).map(|key| format!("<{key}>")).unwrap_or_default();
            return vec![Effect::failed(format!(
                "{} is paused and cannot be undone: {key} resumes it, then undo",
                self.target.name
            ))];
        }
        let set = objects.sets.iter().find(|(set, _)| revision_of(set) == Some(revision.number));
        let Some((set, _)) = set else { return Vec::new() };
        let action = match actions::undo(&self.target, objects.deployment, set, revision.number) {
            Ok(action) => action,
            Err(error) => return vec![Effect::failed(error)],
        };
        let mut dialog = Dialog::new(format!("Undo {}", self.target.name), "Undo", {
            let action = action.clone();
            move |_, _| Ok(vec![Effect::Act(Box::new(action.clone()))])
        })
        .on_cancel(|_, _| vec![Effect::info("nothing was undone")])
        .line(format!(
            "Back to revision {}: {}",
            revision.number,
            revision
                .change_cause
                .as_ref()
                .or(revision.change.as_ref())
                .map_or("no change-cause", String::as_str)
        ));
        let diff = template_diff(Some(&objects.deployment.spec.template), set.spec.template.as_ref());
        let changes = diff.iter().filter(|(sign, _)| matches!(sign, LineChange::Added | LineChange::Removed));
        for (sign, line) in changes.clone().take(8) {
            let sign = if *sign == LineChange::Added { '+' } else { '-' };
            dialog = dialog.line(format!("{sign} {}", clean(line.trim().trim_start_matches("- "))));
        }
        let more = changes.count().saturating_sub(8);
        if more > 0 {
            dialog = dialog.line(format!("… and {more} lines more"));
        }
        self.tried = None;
        vec![try_out(action, revision.number), Effect::dialog(dialog)]
    }

    fn pause(&self, cx: &Context<'_>) -> Vec<Effect> {
        let Some(objects) = self.objects(cx) else { return Vec::new() };
        let paused = operations::restart::is_paused(objects.deployment);
        vec![Effect::Act(Box::new(actions::pause(&self.target, !paused)))]
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        match command {
            Command::Undo | Command::Enter => self.confirm_undo(cx),
            Command::Pause => self.pause(cx),
            Command::ShowPods => navigate::enter(cx, self.target.clone()),
            // The list is short, so that paging applies to the difference.
            Command::PageUp | Command::PageDown | Command::Left | Command::Right => {
                self.diff.command(match command {
                    Command::Left => Command::PageUp,
                    Command::Right => Command::PageDown,
                    command => command,
                });
                Vec::new()
            }
            _ if self.step(cx, command) => Vec::new(),
            _ => object_commands::on(cx, command, Some(self.target.clone())),
        }
    }
}

impl View for Rollout {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · rollout", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Rollout, KeyContext::List]
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        command_availability::refuses(cx.catalogue, &self.target.kind, command)
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => return self.command(cx, command),
            ScreenMessage::Data(data) => {
                let Some(RolloutData::Tried(number, result)) = data.take() else { return Vec::new() };
                let refused = result.as_ref().err().cloned();
                self.tried = Some((number, result));
                if let Some(error) = refused {
                    return vec![Effect::failed(format!(
                        "cannot undo to revision {number} in a dry run: {error}"
                    ))];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }
}

/// Sends a dry run of the action.
fn try_out(action: Action, number: i64) -> Effect {
    Effect::task("dry run", move |out| async move {
        let Mutation::Patch { target, subresource, kind, body } = &action.mutation else { return };
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let answer = action::patch(&out.client(), target, *subresource, *kind, body, &params).await;
        let answer = answer.map(|_| ()).map_err(|error| error_text(&error));
        out.data(RolloutData::Tried(number, answer)).await;
    })
}
