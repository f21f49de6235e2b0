//! Faults of the pods' network (FAULT-1, NET-10): applies Fault objects, and reverts them when they end.
//!
//! A fault drops, loses, slows down, refuses or delays packets between two sides, each of which is a node, pods or
//! addresses. Rules in the kernel ([`crate::rules`]) implement this; for delays they send packets through detours to
//! delay boxes ([`delay_boxes`]). [`sides`] and [`mod@plan`] are pure. Objects are the only state: after a crash, the
//! next process finds them and continues; a fault's remaining time is computed from its status.
//!
//! A fault ends when its object is deleted or its time is over. While no control plane runs, rules stay in force and
//! faults do not end; delays need the control plane and stop with it: packets then take their ordinary path.

mod delay_boxes;
mod plan;
mod sides;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::clock::{if_some, until};
use base::sort::CollectMap;
use base::task::Tasks;
use fabric::DelayCounts;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};

use api::Api;
use api::controller_status::Subsystem;
use extension::fault::Fault;
use object::{Kind, SharedObject, TypedKind};
use operators::faults::{FaultTracker, WatchedKinds};
use reconcile::{Caches, WorkLoop};

use self::delay_boxes::DelayBoxes;
use self::plan::{FaultDecision, Slots, plan};
use self::sides::{ClusterState, required_kinds};
use crate::rules::{AppliedFaults, FaultHook, PacketEffect};

pub use delay_boxes::Detours;

/// Changes come in bursts; waiting this long merges a burst into one reconcile.
const BURST: Duration = Duration::from_millis(10);
/// Delay before a failed step is retried.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The means to apply faults of the network.
pub struct Network {
    /// The kernel's rules.
    pub rules: FaultHook,
    /// Detours for delayed packets.
    pub detours: Arc<dyn Detours>,
}

/// Starts applying faults; it ends with `tasks`, and rules stay. In a loopback network, `network` is the reason why
/// faults cannot be applied, which their status reports.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, network: Result<Network, String>) {
    let watched = WatchedKinds::start(caches, &[Kind::Pod, Kind::Node, Kind::Namespace]);
    let (network, refusal) = match network {
        Ok(network) => (Some(network), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let (api, caches) = (api.clone(), caches.clone());
    let rounds = WorkLoop::start(&api, "network-faults", Subsystem::Network, tasks);
    tasks.spawn("faults of the network", async move {
        tokio::join!(
            caches.synced(Fault::kind()),
            caches.synced(Kind::Pod),
            caches.synced(Kind::Node),
            caches.synced(Kind::Namespace)
        );
        let mut faults = Faults {
            lives: FaultTracker::new(&api, "podium-faults"),
            api,
            caches,
            watched,
            rules: network.as_ref().map(|network| network.rules.clone()),
            refusal,
            boxes: None,
            slots: Slots::new(),
            applied: AppliedFaults::default(),
            is_behind: false,
        };
        if let Some(network) = network {
            let over = faults.watched.changed().clone();
            faults.boxes = blocking(move || DelayBoxes::new(network.detours, over)).await;
        }
        loop {
            let round = rounds.begin("faults of the network");
            faults.sync().await;
            round.ends(if faults.is_behind {
                Err("some network faults are not applied; retrying")
            } else {
                Ok(())
            });
            faults.wait().await;
            tokio::time::sleep(BURST).await;
        }
    });
}

/// The controller of network faults.
struct Faults {
    api: Api,
    caches: Caches,
    lives: FaultTracker,
    watched: Arc<WatchedKinds>,
    rules: Option<FaultHook>,
    /// The reason why network faults cannot be applied here.
    refusal: Option<String>,
    /// `None` while a blocking thread uses the delay boxes, and in a loopback network.
    boxes: Option<DelayBoxes>,
    slots: Slots,
    /// The faults that the kernel has applied.
    applied: AppliedFaults,
    /// A step failed and must be retried.
    is_behind: bool,
}

impl Faults {
    /// Waits for the next reason to reconcile.
    async fn wait(&self) {
        let clock = self.api.clock();
        let left = self.lives.soonest().map(|at| until(clock.steady(), at));
        let resettled = self.rules.as_ref().map(|rules| rules.0.wait_changed(&self.applied));
        tokio::select! {
            () = self.watched.changed().notified() => {}
            () = clock.sleep_if_some(left) => {}
            () = clock.sleep_if_some(self.is_behind.then_some(RETRY_DELAY)) => {}
            () = if_some(resettled) => {}
        }
    }

    /// Reconciles the applied faults with the Fault objects.
    async fn sync(&mut self) {
        let mut all = self.caches.of::<Fault>().list();
        all.retain(|fault| fault.is_of_network());
        self.watch(&all);
        let now = self.api.clock().both();
        self.lives.observe(&all, now);
        let world = self.world();
        let mut slots = std::mem::take(&mut self.slots);
        let is_over = |fault: &Fault| self.lives.is_over(fault, now);
        let mut planned = plan(&all, &world, &mut slots, self.refusal.as_deref(), is_over);
        self.slots = slots;
        self.is_behind = false;
        if let Some(seam) = self.rules.clone() {
            self.ensure_boxes(&mut planned).await;
            let desired = planned.iter().filter_map(|(fault, planned)| match planned {
                FaultDecision::InForce(met) => Some((fault.name().to_owned(), met.broken.clone())),
                _ => None,
            });
            let generation = seam.0.set_desired(desired.collect_map());
            if let Some(settled) = seam.0.wait_applied(generation).await {
                self.is_behind |= !settled.refused.is_empty();
                self.applied = settled;
            } else {
                self.is_behind = true;
                self.applied.refused = planned.iter().map(|(fault, _)| fault.name().to_owned()).collect();
            }
        }
        let counts = self.close_boxes(&planned).await;
        let refused = std::mem::take(&mut self.applied.refused);
        for (fault, planned) in &planned {
            let state = status::state(fault, planned, refused.contains(fault.name()));
            let ended = || status::ended("expired", fault, counts.get(fault.uid()));
            self.lives.report(fault, &state, ended);
        }
        self.applied.refused = refused;
        self.lives.remove_deleted(&all, |fault| status::ended("was deleted", fault, counts.get(fault.uid())));
    }

    /// Watches the kinds that faults refer to.
    fn watch(&self, all: &[SharedObject<Fault>]) {
        let in_force = all.iter().filter(|fault| !fault.has_ended() && self.refusal.is_none());
        let peers = in_force.flat_map(|fault| [&fault.spec.from, &fault.spec.to]).flatten();
        self.watched.set(peers.flat_map(required_kinds).collect());
    }

    fn world(&self) -> ClusterState {
        let mut world = ClusterState::default();
        if self.watched.contains(Kind::Pod) {
            world.pods = self.caches.of::<Pod>().list();
        }
        if self.watched.contains(Kind::Node) {
            world.nodes = self.caches.of::<Node>().list();
        }
        if self.watched.contains(Kind::Namespace) {
            world.namespaces = self.caches.of::<Namespace>().list();
        }
        world
    }

    /// Starts the delay boxes that faults need; a fault whose box cannot be started is not applied.
    async fn ensure_boxes(&mut self, planned: &mut [(&SharedObject<Fault>, FaultDecision)]) {
        let Some(mut boxes) = self.boxes.take() else { return };
        let desired: Vec<_> = planned
            .iter()
            .filter_map(|(fault, planned)| match planned {
                FaultDecision::InForce(met) => match (met.broken.how, met.delay) {
                    (PacketEffect::Delay(slot), Some(delay)) => Some((fault.uid().to_owned(), slot, delay)),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        let (boxes, failed) = match blocking(move || {
            let had = desired.into_iter().map(|(uid, slot, delay)| {
                let had = boxes.ensure(&uid, slot, delay);
                (uid, had)
            });
            let failed: BTreeMap<String, String> =
                had.filter_map(|(uid, had)| Some((uid, had.err()?.to_string()))).collect_map();
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
                let message = format!("cannot delay packets: {why}");
                *planned = FaultDecision::Inactive { reason: "Failed", message };
            }
        }
    }

    /// Stops delay boxes that no fault needs any more, now that no rule leads to them.
    async fn close_boxes(
        &mut self,
        planned: &[(&SharedObject<Fault>, FaultDecision)],
    ) -> BTreeMap<String, DelayCounts> {
        let Some(mut boxes) = self.boxes.take() else { return BTreeMap::new() };
        let in_force = planned.iter().filter(|(_, planned)| matches!(planned, FaultDecision::InForce(_)));
        let desired: BTreeSet<String> = in_force.map(|(fault, _)| fault.uid().to_owned()).collect();
        let closed = blocking(move || {
            let counts = boxes.retain(|uid| desired.contains(uid));
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

/// Runs work on a blocking thread, because it may wait for the kernel or the fabric's process; `None` during shutdown.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match base::task::blocking(work).await {
        Ok(done) => Some(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => None,
    }
}
