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
mod ranked;
mod recent;
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
use crate::command::{Command, KeyContext};
use crate::context::Context;
use crate::effect::{Effect, Only, Route, TableRoute};
use crate::kind_view;
use crate::message::ScreenMessage;
use crate::moment::{Go, Moment, When};
use crate::query::Query;
use crate::resource::{Kind, ObjectRef, ResourceKey, Uid};
use crate::rows;
use crate::store::{Object, Stored, Touched};
use recent::Recent;

/// The list with the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// Deployments.
    #[default]
    Deployments,
    /// Nodes.
    Nodes,
    /// Events.
    Events,
}

/// The overview screen.
#[derive(Debug)]
pub struct Overview {
    part: Part,
    /// The cursor of each list, by uid.
    deployment: Option<Uid>,
    node: Option<Uid>,
    event: Option<Uid>,
    /// The matching events, newest first.
    events: Recent,
    /// The filter for deployments, nodes and events.
    query: String,
    wanted: Query,
    /// The past state that is shown instead of the present.
    past: Option<Box<past::Then>>,
    /// A step of time travel is in progress.
    travelling: bool,
    /// The area of each list, and its first visible row, as of the last draw.
    areas: Cell<[(Rect, usize); 3]>,
}

impl Default for Overview {
    fn default() -> Self {
        Self {
            part: Part::default(),
            deployment: None,
            node: None,
            event: None,
            events: Recent::default(),
            query: String::new(),
            wanted: Query::All,
            past: None,
            travelling: false,
            areas: Cell::default(),
        }
    }
}

impl Overview {
    fn list(&self, cx: &Context<'_>) -> Vec<Uid> {
        match self.part {
            Part::Deployments => deployments::list(self, cx).into_iter().map(|(uid, _)| uid).collect(),
            Part::Nodes => nodes::list(self, cx),
            Part::Events => self.events.iter().cloned().collect(),
        }
    }

    /// Returns whether an object matches the filter.
    fn matches<K: Object + Resource<DynamicType = ()>>(&self, cx: &Context<'_>, uid: &Uid) -> bool {
        matches!(self.wanted, Query::All)
            || kind_view::row_of::<K>(cx.stores, uid).is_some_and(|row| self.wanted.matches(&row))
    }

    fn cursor(&mut self) -> &mut Option<Uid> {
        match self.part {
            Part::Deployments => &mut self.deployment,
            Part::Nodes => &mut self.node,
            Part::Events => &mut self.event,
        }
    }

    fn go(&mut self, cx: &Context<'_>, to: impl Fn(usize, usize) -> usize) {
        let list = self.list(cx);
        let cursor = self.cursor();
        let at = cursor.as_ref().and_then(|uid| list.iter().position(|known| known == uid)).unwrap_or(0);
        let last = list.len().saturating_sub(1);
        *cursor = list.get(to(at, last).min(last)).cloned();
    }

    fn rebuild_events(&mut self, cx: &Context<'_>) {
        let events = cx.stores.events().entries();
        let shown: Vec<_> =
            events.filter_map(|event| Some((event.uid.clone(), self.key_of(event)?))).collect();
        self.events.reset(shown.into_iter());
    }

    /// The sort key of an event; `None` if the filter hides it.
    fn key_of(&self, event: Stored<'_, Event>) -> Option<recent::Key> {
        let is_shown = matches!(self.wanted, Query::All) || self.wanted.matches(&rows::event::row(event));
        is_shown.then(|| (Reverse(event.summary.last_seen), Reverse(event.revision)))
    }

    fn selected_object(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        let list = self.list(cx);
        let cursor = match self.part {
            Part::Deployments => &self.deployment,
            Part::Nodes => &self.node,
            Part::Events => &self.event,
        };
        let cursor = cursor.clone().filter(|uid| list.contains(uid)).or_else(|| list.first().cloned())?;
        Some(match self.part {
            Part::Deployments => {
                ObjectRef::of(cx.catalogue.kind::<Deployment>(), cx.stores.deployments().get(&cursor)?)
            }
            Part::Nodes => ObjectRef::of(cx.catalogue.kind::<Node>(), cx.stores.nodes().get(&cursor)?),
            Part::Events => ObjectRef::of(cx.catalogue.kind::<Event>(), cx.stores.events().get(&cursor)?),
        })
    }

    fn enter(&mut self, cx: &Context<'_>, when: Option<When>) -> Vec<Effect> {
        if let Some(when) = when {
            return self.enter_then(cx, when);
        }
        let Some(object) = self.selected_object(cx) else { return Vec::new() };
        match self.part {
            Part::Deployments => vec![Effect::open(Route::Rollout(object))],
            Part::Nodes => {
                let table = TableRoute::of(cx.catalogue.kind::<Pod>()).only(Only::OnNode(object.name));
                vec![Effect::open(table)]
            }
            Part::Events => {
                let target = object.clone();
                object_commands::run(cx, Command::EventObject, Some(object), &[target], 0)
            }
        }
    }

    fn step(&mut self, order: [Part; 3]) {
        let at = order.iter().position(|part| *part == self.part).unwrap_or(0);
        self.part = order[(at + 1) % 3];
    }

    /// A click selects the row; a second click on the same row opens it.
    fn click(&mut self, cx: &Context<'_>, event: MouseEvent, when: Option<When>) -> Vec<Effect> {
        let areas = self.areas.get();
        let hit = |(area, _): &(Rect, usize)| area.contains((event.column, event.row).into());
        let Some(at) = areas.iter().position(hit) else { return Vec::new() };
        let (area, top) = areas[at];
        let part = [Part::Deployments, Part::Nodes, Part::Events][at];
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

    /// Executes a command; `cx` is that of the shown point in time.
    fn command(&mut self, cx: &Context<'_>, command: Command, when: Option<When>) -> Vec<Effect> {
        let open = |kind: Kind| vec![Effect::open(TableRoute { when, ..TableRoute::of(kind) })];
        match command {
            Command::ShowPods => return open(cx.catalogue.kind::<Pod>()),
            Command::ShowDeployments => return open(cx.catalogue.kind::<Deployment>()),
            Command::ShowNodes => return open(cx.catalogue.kind::<Node>()),
            Command::ShowEvents => return open(cx.catalogue.kind::<Event>()),
            Command::ShowServices => return open(cx.catalogue.kind::<Service>()),
            Command::NextPart => self.step([Part::Deployments, Part::Nodes, Part::Events]),
            Command::PreviousPart => self.step([Part::Events, Part::Nodes, Part::Deployments]),
            Command::Up => self.go(cx, |at, _| at.saturating_sub(1)),
            Command::Down => self.go(cx, |at, _| at + 1),
            Command::Top => self.go(cx, |_, _| 0),
            Command::Bottom => self.go(cx, |_, last| last),
            Command::PageUp => self.go(cx, |at, _| at.saturating_sub(10)),
            Command::PageDown => self.go(cx, |at, _| at + 10),
            Command::Enter => return self.enter(cx, when),
            Command::OpenVersions | Command::OpenTimeline => return self.look_back(cx, command),
            _ => {}
        }
        Vec::new()
    }
}

impl View for Overview {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Overview".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Overview, KeyContext::Moments, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        let when = self.shown_moment().map(|moment| moment.when());
        match message {
            ScreenMessage::Travel(go) => return self.travel(cx, go),
            ScreenMessage::Data(data) => return self.travelled(cx, data),
            ScreenMessage::Scoped if self.travelling || when.is_some() => {
                return self.travel(cx, when.map_or(Go::Live, Go::To));
            }
            // The past does not change.
            ScreenMessage::Changed(..) if when.is_some() => {}
            // Changes of events arrive while the screen is covered, too: sorting all of them again would block the
            // loop.
            ScreenMessage::Opened => self.rebuild_events(cx),
            ScreenMessage::Changed(resource, touched) if resource == ResourceKey::of::<Event>() => {
                match touched {
                    Touched::Some(uids) if uids.len() <= 64 + self.events.len() / 8 => {
                        for uid in uids {
                            let event = cx.stores.events().entry(&uid);
                            match event.and_then(|event| self.key_of(event)) {
                                Some(key) => self.events.put(uid, key),
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

    fn moment(&self) -> Option<Moment> {
        self.shown_moment()
    }

    fn selected(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        match &self.past {
            Some(then) => self.selected_object(&then.context(cx)),
            None => self.selected_object(cx),
        }
    }

    fn query(&self) -> &str {
        &self.query
    }

    fn set_query(&mut self, cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.wanted = Query::parse(text)?;
        text.clone_into(&mut self.query);
        self.with(cx, Self::rebuild_events);
        Ok(())
    }
}
