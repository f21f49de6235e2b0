//! A tab with two panes: the second pane beside or below the first shows a view of the object selected in the first and
//! follows the selection, until another view is opened in it.
//!
//! The model's own fields hold the focused pane; the other waits in [`SplitPane`]. While the model handles a message
//! for a screen of the other one, the two are swapped.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use ratatui::layout::Rect;

use super::{Job, Model};
use console_data::context::ScreenId;
use console_data::message::ScreenMessage;
use console_data::resource::{ClusterId, ObjectRef};
use console_operations::command_availability;
use console_operations::effect::{
    LogRun, LogsRoute, PaneContent, Route, RowScope, SplitDirection, TableRoute,
};
use console_screens::Screen;
use console_toolkit::command::Command;
use console_toolkit::toast::Toast;

/// The time for which a selection must be stable before the other pane follows it, so that scrolling through a list
/// opens nothing on the way.
const FOLLOW_DELAY: SignedDuration = SignedDuration::from_millis(200);

/// The minimum size of a pane, columns and rows including its frame: that of a screen in the smallest window.
const MIN_PANE_SIZE: (u16, u16) = (40, 8);

/// The step in percent by which a pane grows.
const STEP: u16 = 10;

/// Returns the view of an object in the second pane.
fn route(shows: PaneContent, object: ObjectRef, model: &Model) -> Route {
    let catalogue = &model.shared.cluster.catalogue;
    let has_logs = command_availability::refuses(catalogue, &object.kind, Command::Logs).is_none();
    match shows {
        PaneContent::Default | PaneContent::Logs if has_logs => LogsRoute::of(object, LogRun::Current).into(),
        PaneContent::Default | PaneContent::Logs | PaneContent::Yaml => Route::Yaml(object),
        PaneContent::Describe => Route::Describe(object),
        PaneContent::Events => {
            let events = catalogue.kind::<Event>();
            TableRoute::of(events).only(RowScope::About(object)).into()
        }
    }
}

/// The selected object and its cluster: two clusters may have objects of the same name, and even of the same uid.
type SelectedObject = (ClusterId, ObjectRef);

/// The other pane of a split tab.
#[derive(Debug)]
pub(crate) struct SplitPane {
    /// The stack of the pane without the focus. Never empty.
    pub(crate) other: Vec<(ScreenId, Screen)>,
    /// The second pane has the focus.
    pub(crate) in_second: bool,
    /// The arrangement of the panes.
    pub(crate) direction: SplitDirection,
    /// The first pane's share of the window in percent.
    pub(super) share: u16,
    pub(super) shows: PaneContent,
    /// The second pane follows the selection of the first.
    pub(crate) follows: bool,
    /// The object in the second pane, and its cluster.
    pub(super) at: SelectedObject,
    /// The object to show next, and the time at which the selection counts as stable.
    pub(crate) due: Option<(SelectedObject, Timestamp)>,
}

impl SplitPane {
    /// Splits an area between the first and the second pane; `None` if it is too small for both.
    pub(crate) fn areas(&self, area: Rect) -> Option<(Rect, Rect)> {
        let (whole, least) = match self.direction {
            SplitDirection::Beside => (area.width, MIN_PANE_SIZE.0),
            SplitDirection::Below => (area.height, MIN_PANE_SIZE.1),
        };
        if whole < 2 * least {
            return None;
        }
        let first = u16::try_from(u32::from(whole) * u32::from(self.share) / 100).unwrap_or(whole);
        let first = first.clamp(least, whole - least);
        Some(match self.direction {
            SplitDirection::Beside => {
                (Rect { width: first, ..area }, Rect { x: area.x + first, width: whole - first, ..area })
            }
            SplitDirection::Below => {
                (Rect { height: first, ..area }, Rect { y: area.y + first, height: whole - first, ..area })
            }
        })
    }
}

impl Model {
    /// Returns the screen on top of the pane without the focus.
    pub(crate) fn other_top(&self) -> Option<&(ScreenId, Screen)> {
        self.split.as_ref().and_then(|split| split.other.last())
    }

    /// Runs code with the other pane in place of the focused one.
    fn in_other_pane(&mut self, f: impl FnOnce(&mut Self) -> Vec<Job>) -> Vec<Job> {
        self.trade_panes();
        let jobs = f(self);
        // If the code closed the pane, there is nothing to swap back.
        self.trade_panes();
        jobs
    }

    pub(super) fn trade_panes(&mut self) {
        if let Some(split) = &mut self.split {
            std::mem::swap(&mut self.screens, &mut split.other);
            split.in_second = !split.in_second;
        }
    }

    /// Delivers a message to a screen of the other pane; `None` if that pane does not have the screen.
    pub(super) fn deliver_to_other_pane(
        &mut self,
        id: ScreenId,
        now: Timestamp,
        message: ScreenMessage,
    ) -> Result<Vec<Job>, ScreenMessage> {
        let has = |split: &SplitPane| split.other.iter().any(|(known, _)| *known == id);
        if self.split.as_ref().is_some_and(has) {
            Ok(self.in_other_pane(|model| model.deliver(id, now, message)))
        } else {
            Err(message)
        }
    }

    /// Delivers a message to the visible screens.
    pub(super) fn deliver_to_visible(
        &mut self,
        now: Timestamp,
        message: impl Fn() -> ScreenMessage,
    ) -> Vec<Job> {
        let mut jobs = self.deliver_to_top(now, message());
        if self.split.is_some() {
            jobs.extend(self.in_other_pane(|model| model.deliver_to_top(now, message())));
        }
        jobs
    }

    /// Returns the selection in the first pane.
    fn selected_in_first(&self, now: Timestamp) -> Option<SelectedObject> {
        let first = match &self.split {
            Some(split) if split.in_second => &split.other,
            _ => &self.screens,
        };
        let (id, screen) = first.last()?;
        let object = screen.selected(&self.shared.context_of(*id, now))?;
        Some((screen.cluster_of_selected().unwrap_or(id.cluster()), object))
    }

    /// Splits the tab, changes the arrangement, or changes the view in the second pane.
    pub(super) fn split_panes(
        &mut self,
        direction: SplitDirection,
        shows: Option<PaneContent>,
        now: Timestamp,
    ) -> Vec<Job> {
        self.dirty = true;
        let Some(object) = self.selected_in_first(now).or_else(|| Some(self.split.as_ref()?.at.clone()))
        else {
            self.toast(Toast::info("nothing is selected to show in a second pane: split a table"), now);
            return Vec::new();
        };
        if let Some(split) = &mut self.split {
            let was = std::mem::replace(&mut split.direction, direction);
            let Some(shows) = shows else {
                let place = if direction == SplitDirection::Below { "below" } else { "beside" };
                let keys = &self.shared.bindings;
                let key = |command| keys.key(command).map(|key| key.to_string()).unwrap_or_default();
                let note = if was == direction {
                    let (focus, close) = (key(Command::PaneFocus), key(Command::PaneClose));
                    format!("the second pane is {place} already: {focus} goes to it, {close} closes it")
                } else {
                    format!("moved the second pane {place}; a tab has at most two panes")
                };
                self.toasts.push(Toast::info(note), now);
                return Vec::new();
            };
            split.shows = shows;
            split.follows = true;
            split.at = object.clone();
            return self.show_in_second(object, now);
        }
        self.split_at(object, direction, shows.unwrap_or(PaneContent::Default), now)
    }

    /// Splits this tab, which is not split yet; the second pane shows a view of this object.
    pub(super) fn split_at(
        &mut self,
        object: SelectedObject,
        direction: SplitDirection,
        shows: PaneContent,
        now: Timestamp,
    ) -> Vec<Job> {
        let Some((id, screen)) = self.open_in_second_pane(shows, object.clone()) else { return Vec::new() };
        self.split = Some(SplitPane {
            other: vec![(id, screen)],
            in_second: false,
            direction,
            share: 50,
            shows,
            follows: true,
            at: object,
            due: None,
        });
        self.deliver(id, now, ScreenMessage::Opened)
    }

    /// Creates the view of an object, on its cluster.
    fn open_in_second_pane(
        &mut self,
        shows: PaneContent,
        (cluster, object): SelectedObject,
    ) -> Option<(ScreenId, Screen)> {
        let screen = self.within(cluster, |model| route(shows, object, model).into())?;
        self.next_id += 1;
        Some((ScreenId::new(self.next_id, cluster), screen))
    }

    /// Replaces the content of the second pane by the view of an object.
    fn show_in_second(&mut self, object: SelectedObject, now: Timestamp) -> Vec<Job> {
        let Some(split) = &mut self.split else { return Vec::new() };
        split.due = None;
        split.at = object.clone();
        let (shows, focused) = (split.shows, split.in_second);
        let Some((id, screen)) = self.open_in_second_pane(shows, object) else { return Vec::new() };
        let replace_stack = |model: &mut Self| {
            let old = std::mem::replace(&mut model.screens, vec![(id, screen)]);
            let mut jobs: Vec<Job> =
                old.into_iter().filter_map(|(id, screen)| model.leave(id, screen, now)).collect();
            jobs.extend(model.deliver(id, now, ScreenMessage::Opened));
            jobs
        };
        if focused { replace_stack(self) } else { self.in_other_pane(replace_stack) }
    }

    /// Updates the second pane to the selection of the first, once the selection is stable, and while the first pane
    /// has the focus. A view that was opened on top of the second pane's stays.
    pub(super) fn follow_the_selection(&mut self, now: Timestamp) -> Vec<Job> {
        let second = match &self.split {
            // The user is reading in the second pane.
            Some(split) if !split.follows || split.in_second => return Vec::new(),
            Some(split) => &split.other,
            None => return Vec::new(),
        };
        if second.len() > 1 {
            return Vec::new();
        }
        let selected = self.selected_in_first(now);
        let Some(split) = &mut self.split else { return Vec::new() };
        let Some(selected) = selected.filter(|selected| *selected != split.at) else {
            split.due = None;
            return Vec::new();
        };
        match &split.due {
            Some((object, at)) if *object == selected && now >= *at => {
                return self.show_in_second(selected, now);
            }
            // A clock that was set back must not delay the update forever.
            Some((object, at)) if *object == selected && at.duration_since(now) <= FOLLOW_DELAY => {}
            _ => {
                split.due = Some((selected, now.saturating_add(FOLLOW_DELAY).unwrap_or(now)));
                self.dirty = true;
            }
        }
        Vec::new()
    }

    /// Executes a command on panes.
    pub(super) fn pane_command(&mut self, command: Command, now: Timestamp) -> Vec<Job> {
        self.dirty = true;
        match command {
            Command::SplitBeside => return self.split_panes(SplitDirection::Beside, None, now),
            Command::SplitBelow => return self.split_panes(SplitDirection::Below, None, now),
            _ => {}
        }
        let Some(split) = &mut self.split else {
            self.toast(Toast::info("this tab has one pane; | and _ split it"), now);
            return Vec::new();
        };
        match command {
            Command::PaneFocus => self.trade_panes(),
            Command::PaneGrow | Command::PaneShrink => {
                // The focused pane grows.
                let first = (command == Command::PaneGrow) != split.in_second;
                split.share = if first { split.share + STEP } else { split.share - STEP }.clamp(20, 80);
            }
            Command::PaneFollow => {
                split.follows = !split.follows;
                split.due = None;
                let message = if split.follows {
                    "the second pane follows the selection"
                } else {
                    "the second pane no longer follows the selection"
                };
                self.toast(Toast::info(message), now);
            }
            Command::PaneClose => return self.close_second(now),
            _ => {}
        }
        Vec::new()
    }

    /// Closes the second pane; work in it continues in the background.
    pub(super) fn close_second(&mut self, now: Timestamp) -> Vec<Job> {
        let Some(mut split) = self.split.take() else { return Vec::new() };
        if split.in_second {
            std::mem::swap(&mut self.screens, &mut split.other);
        }
        self.dirty = true;
        let mut jobs: Vec<Job> =
            split.other.into_iter().rev().filter_map(|(id, screen)| self.leave(id, screen, now)).collect();
        jobs.extend(self.deliver_to_top(now, ScreenMessage::Shown));
        jobs
    }

    /// Reports whether the second pane has the focus.
    pub(super) fn is_in_second(&self) -> bool {
        self.split.as_ref().is_some_and(|split| split.in_second)
    }

    /// Moves the focus to the first pane.
    pub(super) fn focus_first(&mut self) {
        if self.is_in_second() {
            self.trade_panes();
        }
    }

    /// Parses the arguments of `:split` and `:vsplit`.
    pub(crate) fn parse_split_arguments(arguments: &[&str]) -> Result<Option<PaneContent>, String> {
        match arguments {
            [] => Ok(None),
            [word] => match PaneContent::ARGUMENTS.iter().find(|(known, _)| known == word) {
                Some((_, shows)) => Ok(Some(*shows)),
                None => Err(format!("{word}: a pane shows logs, yaml, describe or events of the selection")),
            },
            _ => Err("type one word: logs, yaml, describe or events".to_owned()),
        }
    }
}
