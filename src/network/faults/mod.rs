//! Faults of the pods' network (FAULT-1, NET-10): what Fault objects ask for is put in force, and taken back.
//!
//! Between two sides, each a node, pods or addresses, packets are cut off, lost, slowed down, refused or delayed, by rules of
//! the kernel (`crate::rules`) and, where time is to pass, by boxes at the end of detours ([`boxes`]). [`sides`] and
//! [`mod@plan`] decide purely. Objects are the only state: whoever dies, the next one finds them and goes on; the time that a
//! fault has is counted from its status.
//!
//! A fault ends when its object goes or its time is over. While no control plane is there rules stay in force and times
//! do not run out; delays need it and stop with it: packets then take their ordinary way.

mod boxes;
mod plan;
mod sides;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::clock::until;
use base::task::Tasks;
use fabric::DelayCounts;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use tokio::sync::Notify;

use api::Api;
use api::controller_status::Subsystem;
use object::fault::Fault;
use object::{Kind, Shared};
use reconcile::{Caches, FaultLives, WorkLoop};

use self::boxes::Boxes;
use self::plan::{Planned, Slots, plan};
use self::sides::{Needs, World};
use crate::rules::{FaultSeam, How, Settled};

pub use boxes::Detours;

/// Changes that come together are looked at together.
const BURST: Duration = Duration::from_millis(10);
/// How soon what failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// What puts faults of the network in force.
pub struct Network {
    /// The rules of the kernel.
    pub rules: FaultSeam,
    /// Detours of what is delayed.
    pub detours: Arc<dyn Detours>,
}

/// What is looked at beside faults, for as long as one is about it.
#[derive(Default)]
struct Watched {
    pods: AtomicBool,
    nodes: AtomicBool,
    namespaces: AtomicBool,
    changed: Arc<Notify>,
}

/// Starts putting faults in force; it ends with `tasks`, and rules stay. Without a network of the pods' own it is said why none
/// can be.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, network: Result<Network, String>) {
    let watched = Arc::new(Watched::default());
    let follow = |kind: Kind, is_wanted: fn(&Watched) -> bool| {
        let weak = Arc::downgrade(&watched);
        caches.on_any_change(kind, move |_| {
            if let Some(watched) = weak.upgrade().filter(|watched| is_wanted(watched)) {
                watched.changed.notify_one();
            }
        });
    };
    follow(Kind::Fault, |_| true);
    follow(Kind::Pod, |watched| watched.pods.load(Ordering::Acquire));
    follow(Kind::Node, |watched| watched.nodes.load(Ordering::Acquire));
    follow(Kind::Namespace, |watched| watched.namespaces.load(Ordering::Acquire));
    let (network, refusal) = match network {
        Ok(network) => (Some(network), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let (api, caches) = (api.clone(), caches.clone());
    let rounds = WorkLoop::start(&api, "network-faults", Subsystem::Network, tasks);
    tasks.spawn("faults of the network", async move {
        tokio::join!(
            caches.synced(Kind::Fault),
            caches.synced(Kind::Pod),
            caches.synced(Kind::Node),
            caches.synced(Kind::Namespace)
        );
        let mut faults = Faults {
            lives: FaultLives::new(&api, "podium-faults"),
            api,
            caches,
            watched,
            rules: network.as_ref().map(|network| network.rules.clone()),
            refusal,
            boxes: None,
            slots: Slots::new(),
            settled: Settled::default(),
            is_behind: false,
        };
        if let Some(network) = network {
            let over = faults.watched.changed.clone();
            faults.boxes = blocking(move || Boxes::new(network.detours, over)).await;
        }
        loop {
            let round = rounds.begin("faults of the network");
            faults.sync().await;
            round.ends(if faults.is_behind {
                Err("not all is as faults ask for: it is tried again")
            } else {
                Ok(())
            });
            faults.wait().await;
            tokio::time::sleep(BURST).await;
        }
    });
}

/// The controller.
struct Faults {
    api: Api,
    caches: Caches,
    lives: FaultLives,
    watched: Arc<Watched>,
    rules: Option<FaultSeam>,
    /// Why no fault of the network can be in force here.
    refusal: Option<String>,
    /// None while they are at work elsewhere, and where there are none.
    boxes: Option<Boxes>,
    slots: Slots,
    /// What the kernel has.
    settled: Settled,
    /// Something failed that is to be tried again.
    is_behind: bool,
}

impl Faults {
    /// Waits until there is something to look at.
    async fn wait(&self) {
        let soonest = self.lives.soonest();
        let over = async {
            match soonest {
                None => std::future::pending().await,
                Some(at) => tokio::time::sleep(until(self.api.clock().steady(), at)).await,
            }
        };
        let again = async {
            if self.is_behind {
                tokio::time::sleep(AGAIN).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let resettled = async {
            match &self.rules {
                None => std::future::pending().await,
                Some(rules) => rules.0.resettled(&self.settled).await,
            }
        };
        tokio::select! {
            () = self.watched.changed.notified() => {}
            () = over => {}
            () = again => {}
            () = resettled => {}
        }
    }

    /// Brings what is in force to what faults ask for.
    async fn sync(&mut self) {
        let mut all = self.caches.of::<Fault>().list();
        all.retain(|fault| fault.is_of_network());
        self.watch(&all);
        let now = self.api.clock().both();
        self.lives.see(&all, now);
        let world = self.world();
        let mut slots = std::mem::take(&mut self.slots);
        let is_over = |fault: &Fault| self.lives.is_over(fault, now);
        let mut planned = plan(&all, &world, &mut slots, self.refusal.as_deref(), is_over);
        self.slots = slots;
        self.is_behind = false;
        if let Some(seam) = self.rules.clone() {
            self.have_boxes(&mut planned).await;
            let wanted = planned.iter().filter_map(|(fault, planned)| match planned {
                Planned::InForce(met) => Some((fault.name().to_owned(), met.broken.clone())),
                _ => None,
            });
            let turn = seam.0.want(wanted.collect());
            if let Some(settled) = seam.0.settled(turn).await {
                self.is_behind |= !settled.refused.is_empty();
                self.settled = settled;
            } else {
                self.is_behind = true;
                self.settled.refused = planned.iter().map(|(fault, _)| fault.name().to_owned()).collect();
            }
        }
        let counts = self.close_boxes(&planned).await;
        let refused = std::mem::take(&mut self.settled.refused);
        for (fault, planned) in &planned {
            let state = status::state(fault, planned, refused.contains(fault.name()));
            let ended = || status::ended("has had its time", fault, counts.get(fault.uid()));
            self.lives.say(fault, &state, ended);
        }
        self.settled.refused = refused;
        self.lives.forget_gone(&all, |fault| status::ended("was deleted", fault, counts.get(fault.uid())));
    }

    /// Looks at those kinds that faults are about.
    fn watch(&self, all: &[Shared<Fault>]) {
        let in_force = all.iter().filter(|fault| !fault.has_ended() && self.refusal.is_none());
        let peers = in_force.flat_map(|fault| [&fault.spec.from, &fault.spec.to]).flatten();
        let needs = peers.map(Needs::of).fold(Needs::default(), Needs::and);
        // Before anything is read: what changes from here on is heard of.
        self.watched.pods.store(needs.pods, Ordering::Release);
        self.watched.nodes.store(needs.nodes, Ordering::Release);
        self.watched.namespaces.store(needs.namespaces, Ordering::Release);
    }

    fn world(&self) -> World {
        let is_wanted = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let mut world = World::default();
        if is_wanted(&self.watched.pods) {
            world.pods = self.caches.of::<Pod>().list();
        }
        if is_wanted(&self.watched.nodes) {
            world.nodes = self.caches.of::<Node>().list();
        }
        if is_wanted(&self.watched.namespaces) {
            world.namespaces = self.caches.of::<Namespace>().list();
        }
        world
    }

    /// Has a box at each detour that is wanted; a fault whose box cannot be had is not in force.
    async fn have_boxes(&mut self, planned: &mut [(&Shared<Fault>, Planned)]) {
        let Some(mut boxes) = self.boxes.take() else { return };
        let wanted: Vec<_> = planned
            .iter()
            .filter_map(|(fault, planned)| match planned {
                Planned::InForce(met) => match (met.broken.how, met.delay) {
                    (How::Delay(slot), Some(delay)) => Some((fault.uid().to_owned(), slot, delay)),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        let (boxes, failed) = match blocking(move || {
            let had = wanted.into_iter().map(|(uid, slot, delay)| {
                let had = boxes.have(&uid, slot, delay);
                (uid, had)
            });
            let failed: BTreeMap<String, String> =
                had.filter_map(|(uid, had)| Some((uid, had.err()?.to_string()))).collect();
            (boxes, failed)
        })
        .await
        {
            Some((boxes, failed)) => (Some(boxes), failed),
            None => (None, BTreeMap::new()),
        };
        self.boxes = boxes;
        self.is_behind |= !failed.is_empty();
        for (fault, planned) in planned {
            if let Some(why) = failed.get(fault.uid()) {
                let message = format!("packets cannot be delayed: {why}");
                *planned = Planned::Not { reason: "Failed", message };
            }
        }
    }

    /// Ends boxes that nobody wants any more, now that no rule leads to them.
    async fn close_boxes(&mut self, planned: &[(&Shared<Fault>, Planned)]) -> BTreeMap<String, DelayCounts> {
        let Some(mut boxes) = self.boxes.take() else { return BTreeMap::new() };
        let in_force = planned.iter().filter(|(_, planned)| matches!(planned, Planned::InForce(_)));
        let wanted: BTreeSet<String> = in_force.map(|(fault, _)| fault.uid().to_owned()).collect();
        let closed = blocking(move || {
            let counts = boxes.only(|uid| wanted.contains(uid));
            (boxes, counts)
        });
        let (boxes, counts) = match closed.await {
            Some((boxes, counts)) => (Some(boxes), counts),
            None => (None, BTreeMap::new()),
        };
        self.boxes = boxes;
        counts
    }
}

/// Does what may wait for the kernel or the fabric's process, on a thread that may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends.
        Err(_) => None,
    }
}
