//! The overview: what there is, what moves, what hurts.
//!
//! ```text
//! ╭ Pods ──────────╮╭ Deployments ─────────────────────────────╮
//! │ ● Running  38 ▉││ web  new ███████··· 7/10  old ███ 3       │
//! ╰────────────────╯╰──────────────────────────────────────────╯
//! ╭ Nodes ─────────────────────────────────────────────────────╮
//! ╭ Events ────────────────────────────────────────────────────╮
//! ```

use crossterm::event::{MouseButton, MouseEventKind};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use super::overview_view;
use super::rollout::Rollout;
use super::table::{Only, Table};
use crate::console::command::{Command, Where};
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::index::{Direction, Index, Sort};
use crate::console::message::ScreenMessage;
use crate::console::object_commands;
use crate::console::resource::{ObjectRef, Uid, Watched};
use crate::console::rows::cell::natural;
use crate::console::rows::pod_status::Look;
use crate::console::rows::{self, workload};
use crate::console::store::{Touched, uid_of};

/// The part with the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Deployments.
    #[default]
    Deployments,
    /// Nodes.
    Nodes,
    /// Events.
    Events,
}

/// The screen.
#[derive(Debug)]
pub struct Overview {
    pub(super) part: Part,
    /// Where the cursor is in each part, by uid.
    pub(super) deployment: Option<Uid>,
    pub(super) node: Option<Uid>,
    pub(super) event: Option<Uid>,
    /// Newest first.
    pub(super) events: Index,
    pub(super) areas: std::cell::Cell<[Rect; 3]>,
}

impl Default for Overview {
    fn default() -> Self {
        Self {
            part: Part::default(),
            deployment: None,
            node: None,
            event: None,
            events: Index::new(Sort { column: Some(0), direction: Direction::Up }),
            areas: std::cell::Cell::default(),
        }
    }
}

/// The deployments: what is in trouble first, then what moves, then the others by name.
pub(super) fn deployments(cx: &Context<'_>) -> Vec<(Uid, Look)> {
    let rank = |look: Look| match look {
        Look::Failed | Look::Crashing => 0,
        Look::Pending => 1,
        Look::Unknown | Look::Terminating => 2,
        Look::Running | Look::Succeeded => 3,
    };
    let mut all: Vec<_> = cx
        .stores
        .deployments
        .iter()
        .map(|(uid, deployment)| (rank(workload::deployment_state(deployment).1), deployment, uid))
        .collect();
    all.sort_by(|(a, x, _), (b, y, _)| {
        let names = || {
            let (x, y) = (x.metadata.name.as_deref(), y.metadata.name.as_deref());
            natural(x.unwrap_or_default(), y.unwrap_or_default())
        };
        a.cmp(b).then_with(|| x.metadata.namespace.cmp(&y.metadata.namespace)).then_with(names)
    });
    all.into_iter()
        .map(|(_, deployment, uid)| (uid.clone(), workload::deployment_state(deployment).1))
        .collect()
}

/// The nodes, by name.
pub(super) fn nodes(cx: &Context<'_>) -> Vec<Uid> {
    let mut all: Vec<_> = cx.stores.nodes.iter().collect();
    all.sort_by(|(_, a), (_, b)| {
        natural(
            a.metadata.name.as_deref().unwrap_or_default(),
            b.metadata.name.as_deref().unwrap_or_default(),
        )
    });
    all.into_iter().map(|(uid, _)| uid.clone()).collect()
}

impl Overview {
    fn list(&self, cx: &Context<'_>) -> Vec<Uid> {
        match self.part {
            Part::Deployments => deployments(cx).into_iter().map(|(uid, _)| uid).collect(),
            Part::Nodes => nodes(cx),
            Part::Events => self.events.shown().map(|row| row.uid.clone()).collect(),
        }
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
        let uids = rows::uids(cx.stores, Watched::Events);
        self.events.reset(uids.into_iter().filter_map(|uid| rows::row(cx.stores, Watched::Events, &uid)));
    }

    fn selected(&mut self, cx: &Context<'_>) -> Option<ObjectRef> {
        let list = self.list(cx);
        let cursor =
            self.cursor().clone().filter(|uid| list.contains(uid)).or_else(|| list.first().cloned())?;
        Some(match self.part {
            Part::Deployments => ObjectRef::of(Watched::Deployments, &**cx.stores.deployments.get(&cursor)?),
            Part::Nodes => ObjectRef::of(Watched::Nodes, &**cx.stores.nodes.get(&cursor)?),
            Part::Events => ObjectRef::of(Watched::Events, &**cx.stores.events.get(&cursor)?),
        })
    }

    fn enter(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let Some(object) = self.selected(cx) else { return Vec::new() };
        match self.part {
            Part::Deployments => vec![Effect::open(Rollout::new(object))],
            Part::Nodes => {
                let table = Table::of(Watched::Pods.kind()).only(Only::OnNode(object.name));
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

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let open = |kind: Watched| vec![Effect::open(Table::of(kind.kind()))];
        match command {
            Command::ShowPods => return open(Watched::Pods),
            Command::ShowDeployments => return open(Watched::Deployments),
            Command::ShowNodes => return open(Watched::Nodes),
            Command::ShowEvents => return open(Watched::Events),
            Command::ShowServices => return open(Watched::Services),
            Command::NextPart => self.step([Part::Deployments, Part::Nodes, Part::Events]),
            Command::PreviousPart => self.step([Part::Events, Part::Nodes, Part::Deployments]),
            Command::Up => self.go(cx, |at, _| at.saturating_sub(1)),
            Command::Down => self.go(cx, |at, _| at + 1),
            Command::Top => self.go(cx, |_, _| 0),
            Command::Bottom => self.go(cx, |_, last| last),
            Command::PageUp => self.go(cx, |at, _| at.saturating_sub(10)),
            Command::PageDown => self.go(cx, |at, _| at + 10),
            Command::Enter => return self.enter(cx),
            _ => {}
        }
        Vec::new()
    }
}

impl View for Overview {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Overview".into()
    }

    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Overview, Where::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Shown => self.rebuild_events(cx),
            ScreenMessage::Changed(Watched::Events, touched) => match touched {
                Touched::Some(uids) if uids.len() <= 64 + self.events.total() / 8 => {
                    for uid in uids {
                        match rows::row(cx.stores, Watched::Events, &uid) {
                            Some(row) => drop(self.events.put(row)),
                            None => drop(self.events.take(&uid)),
                        }
                    }
                }
                _ => self.rebuild_events(cx),
            },
            ScreenMessage::Command(command) => return self.command(cx, command),
            ScreenMessage::Mouse(event) => match event.kind {
                MouseEventKind::ScrollDown => return self.command(cx, Command::Down),
                MouseEventKind::ScrollUp => return self.command(cx, Command::Up),
                MouseEventKind::Down(MouseButton::Left) => {
                    let parts = [Part::Deployments, Part::Nodes, Part::Events];
                    let hit = |area: &Rect| area.contains((event.column, event.row).into());
                    if let Some(at) = self.areas.get().iter().position(hit) {
                        self.part = parts[at];
                    }
                }
                _ => {}
            },
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        overview_view::draw(self, cx, frame, area);
    }
}

/// The replica set a deployment now makes, and the pods of all older ones.
pub(super) fn new_and_old(
    cx: &Context<'_>,
    deployment: &k8s_openapi::api::apps::v1::Deployment,
) -> (i64, i64) {
    const REVISION: &str = "deployment.kubernetes.io/revision";
    let Some(uid) = uid_of(deployment) else { return (0, 0) };
    let own = deployment.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
    let mut counts = (0, 0);
    for set in cx.stores.replica_sets.owned_by(&uid) {
        let pods = i64::from(set.status.as_ref().map_or(0, |status| status.replicas));
        let ready = i64::from(set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0));
        if set.metadata.annotations.as_ref().and_then(|all| all.get(REVISION)) == own {
            counts.0 += ready;
        } else {
            counts.1 += pods;
        }
    }
    counts
}
