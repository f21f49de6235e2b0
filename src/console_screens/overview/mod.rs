//! The overview: pods by state, deployments, nodes and events.
//!
//! ```text
//! ╭ Pods ──────────╮╭ Deployments ─────────────────────────────╮
//! │ ● Running  38 ▉││ web  new ███████··· 7/10  old ███ 3       │
//! ╰────────────────╯╰──────────────────────────────────────────╯
//! ╭ Nodes ─────────────────────────────────────────────────────╮
//! ╭ Events ────────────────────────────────────────────────────╮
//! ```

mod deployments;
mod events;
mod list;
mod nodes;
mod past;
mod ranked_list;
mod recent_events;
mod view;

use std::cell::Cell;
use std::cmp::Reverse;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use kube::Resource;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use super::object_commands;
use console_data::context::Context;
use console_data::kind_view;
use console_data::message::ScreenMessage;
use console_data::point_in_time::{PointInTime, TimeSelector, TimeTravel};
use console_data::query::Query;
use console_data::resource::{Kind, ObjectRef, ResourceKey, Uid};
use console_data::rows;
use console_data::store::{Object, StoredObject, TouchedObjects};
use console_operations::command_availability;
use console_operations::effect::{Effect, Route, TableRoute};
use console_operations::navigate;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::widget::cursor::Window;
use recent_events::RecentEvents;

/// The list with the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OverviewPanel {
    #[default]
    Deployments,
    Nodes,
    Events,
}

/// The overview screen.
#[derive(Debug)]
pub struct Overview {
    part: OverviewPanel,
    /// The cursor of each list, by uid.
    deployment: Option<Uid>,
    node: Option<Uid>,
    event: Option<Uid>,
    /// The window of each list.
    windows: [Window; 3],
    /// The matching events, newest first.
    events: RecentEvents,
    /// The filter for deployments, nodes and events.
    query: String,
    filter: Query,
    /// The past state that is shown instead of the present.
    past: Option<Box<past::PastOverview>>,
    /// A step of time travel is in progress.
    travelling: bool,
    /// The area of each list, and its first visible row, as of the last draw.
    areas: Cell<[(Rect, usize); 3]>,
}

impl Default for Overview {
    fn default() -> Self {
        Self {
            part: OverviewPanel::default(),
            deployment: None,
            node: None,
            event: None,
            windows: Default::default(),
            events: RecentEvents::default(),
            query: String::new(),
            filter: Query::All,
            past: None,
            travelling: false,
            areas: Cell::default(),
        }
    }
}

impl Overview {
    fn list(&self, cx: &Context<'_>) -> Vec<Uid> {
        match self.part {
            OverviewPanel::Deployments => {
                deployments::list(self, cx).into_iter().map(|(uid, _)| uid).collect()
            }
            OverviewPanel::Nodes => nodes::list(self, cx),
            OverviewPanel::Events => self.events.iter().cloned().collect(),
        }
    }

    /// Returns whether an object matches the filter.
    fn matches<K: Object + Resource<DynamicType = ()>>(&self, cx: &Context<'_>, uid: &Uid) -> bool {
        matches!(self.filter, Query::All)
            || kind_view::row_of::<K>(cx.stores, uid).is_some_and(|row| self.filter.matches(&row))
    }

    fn cursor(&mut self) -> &mut Option<Uid> {
        match self.part {
            OverviewPanel::Deployments => &mut self.deployment,
            OverviewPanel::Nodes => &mut self.node,
            OverviewPanel::Events => &mut self.event,
        }
    }

    /// Moves the cursor of the list with the focus.
    fn go(&mut self, cx: &Context<'_>, command: Command) {
        let list = self.list(cx);
        let cursor = self.cursor().clone();
        let at = cursor.and_then(|uid| list.iter().position(|known| *known == uid)).unwrap_or(0);
        if let Some(to) = self.windows[self.part as usize].step(command, at, list.len()) {
            *self.cursor() = list.get(to).cloned();
        }
    }

    fn rebuild_events(&mut self, cx: &Context<'_>) {
        let events = cx.stores.events().entries();
        let shown: Vec<_> =
            events.filter_map(|event| Some((event.uid.clone(), self.key_of(event)?))).collect();
        self.events.reset(shown.into_iter());
    }

    /// Returns the sort key of an event; `None` if the filter hides it.
    fn key_of(&self, event: StoredObject<'_, Event>) -> Option<recent_events::Key> {
        let is_shown = matches!(self.filter, Query::All) || self.filter.matches(&rows::event::row(event));
        is_shown.then(|| (Reverse(event.summary.last_seen), Reverse(event.revision)))
    }

    fn selected_object(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        let list = self.list(cx);
        let cursor = match self.part {
            OverviewPanel::Deployments => &self.deployment,
            OverviewPanel::Nodes => &self.node,
            OverviewPanel::Events => &self.event,
        };
        let cursor = cursor.clone().filter(|uid| list.contains(uid)).or_else(|| list.first().cloned())?;
        Some(match self.part {
            OverviewPanel::Deployments => {
                ObjectRef::of(cx.catalogue.kind::<Deployment>(), cx.stores.deployments().get(&cursor)?)
            }
            OverviewPanel::Nodes => {
                ObjectRef::of(cx.catalogue.kind::<Node>(), cx.stores.nodes().get(&cursor)?)
            }
            OverviewPanel::Events => {
                ObjectRef::of(cx.catalogue.kind::<Event>(), cx.stores.events().get(&cursor)?)
            }
        })
    }

    fn enter(&mut self, cx: &Context<'_>, when: Option<TimeSelector>) -> Vec<Effect> {
        if let Some(when) = when {
            return self.enter_past(cx, when);
        }
        let Some(object) = self.selected_object(cx) else { return Vec::new() };
        match self.part {
            OverviewPanel::Deployments => vec![Effect::open(Route::Rollout(object))],
            OverviewPanel::Nodes => navigate::enter(cx, object),
            OverviewPanel::Events => object_commands::on(cx, Command::GoToObject, Some(object)),
        }
    }

    fn step(&mut self, order: [OverviewPanel; 3]) {
        let at = order.iter().position(|part| *part == self.part).unwrap_or(0);
        self.part = order[(at + 1) % 3];
    }

    /// Handles a click: it selects the row; a second click on the same row opens it.
    fn click(&mut self, cx: &Context<'_>, event: MouseEvent, when: Option<TimeSelector>) -> Vec<Effect> {
        let areas = self.areas.get();
        let hit = |(area, _): &(Rect, usize)| area.contains((event.column, event.row).into());
        let Some(at) = areas.iter().position(hit) else { return Vec::new() };
        let (area, top) = areas[at];
        let part = [OverviewPanel::Deployments, OverviewPanel::Nodes, OverviewPanel::Events][at];
        let focused = std::mem::replace(&mut self.part, part) == part;
        let inside = event.row > area.y && event.row + 1 < area.bottom();
        let list = self.list(cx);
        let Some(uid) = list.get(top + usize::from(event.row.saturating_sub(area.y + 1))).filter(|_| inside)
        else {
            return Vec::new();
        };
        let before = self.cursor().replace(uid.clone()).or_else(|| list.first().cloned());
        if focused && before.as_ref() == Some(uid) { self.enter(cx, when) } else { Vec::new() }
    }

    /// Executes a command; `cx` is the context of the shown point in time.
    fn command(&mut self, cx: &Context<'_>, command: Command, when: Option<TimeSelector>) -> Vec<Effect> {
        let open = |kind: Kind| vec![Effect::open(TableRoute { when, ..TableRoute::of(kind) })];
        match command {
            Command::ShowPods => return open(cx.catalogue.kind::<Pod>()),
            Command::ShowDeployments => return open(cx.catalogue.kind::<Deployment>()),
            Command::ShowNodes => return open(cx.catalogue.kind::<Node>()),
            Command::ShowEvents => return open(cx.catalogue.kind::<Event>()),
            Command::ShowServices => return open(cx.catalogue.kind::<Service>()),
            Command::NextPart => {
                self.step([OverviewPanel::Deployments, OverviewPanel::Nodes, OverviewPanel::Events]);
            }
            Command::PreviousPart => {
                self.step([OverviewPanel::Events, OverviewPanel::Nodes, OverviewPanel::Deployments]);
            }
            Command::Up
            | Command::Down
            | Command::Top
            | Command::Bottom
            | Command::PageUp
            | Command::PageDown => self.go(cx, command),
            Command::Enter => return self.enter(cx, when),
            _ => return object_commands::on(cx, command, self.selected_object(cx)),
        }
        Vec::new()
    }
}

impl View for Overview {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Overview".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Overview, KeyContext::TimeTravel, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        let when = self.displayed_time().map(|moment| moment.when());
        match message {
            ScreenMessage::Travel(go) => return self.travel(cx, go),
            ScreenMessage::Data(data) => return self.travelled(cx, data),
            ScreenMessage::ScopeChanged if self.travelling || when.is_some() => {
                return self.travel(cx, when.map_or(TimeTravel::Live, TimeTravel::To));
            }
            // The past does not change.
            ScreenMessage::Changed(..) if when.is_some() => {}
            // A covered screen receives changes of events, too. When it is shown again, it does not sort all of them,
            // which would block the loop.
            ScreenMessage::Opened => self.rebuild_events(cx),
            ScreenMessage::Changed(resource, touched) if resource == ResourceKey::of::<Event>() => {
                match touched {
                    TouchedObjects::Some(uids) if uids.len() <= 64 + self.events.len() / 8 => {
                        for uid in uids {
                            let event = cx.stores.events().entry(&uid);
                            match event.and_then(|event| self.key_of(event)) {
                                Some(key) => self.events.insert(uid, key),
                                None => self.events.take(&uid),
                            }
                        }
                    }
                    _ => self.rebuild_events(cx),
                }
            }
            ScreenMessage::Command(command) => {
                return self.with(cx, |screen, cx| screen.command(cx, command, when));
            }
            ScreenMessage::Mouse(event) => match event.kind {
                MouseEventKind::ScrollDown => {
                    return self.with(cx, |screen, cx| screen.command(cx, Command::Down, when));
                }
                MouseEventKind::ScrollUp => {
                    return self.with(cx, |screen, cx| screen.command(cx, Command::Up, when));
                }
                MouseEventKind::Down(MouseButton::Left) => {
                    return self.with(cx, |screen, cx| screen.click(cx, event, when));
                }
                _ => {}
            },
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        match &self.past {
            Some(then) => view::draw(self, &then.context(cx), frame, area),
            None => view::draw(self, cx, frame, area),
        }
    }

    fn moment(&self) -> Option<PointInTime> {
        self.displayed_time()
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        // The selection is not searched for keys that need none.
        if command != Command::Explain {
            return None;
        }
        match self.selected(cx) {
            Some(object) => command_availability::refuses(cx.catalogue, &object.kind, command),
            None => object_commands::refuses_without_row(command),
        }
    }

    fn selected(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        match &self.past {
            Some(then) => self.selected_object(&then.context(cx)),
            None => self.selected_object(cx),
        }
    }

    fn query(&self) -> Option<&str> {
        Some(&self.query)
    }

    fn set_query(&mut self, cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Query::parse(text)?;
        text.clone_into(&mut self.query);
        self.with(cx, Self::rebuild_events);
        Ok(())
    }
}
