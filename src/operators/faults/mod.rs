//! Applies and heals the faults of Fault objects, except those of the network (FAULT-1): crashed or paused components,
//! nodes that are switched off, faults of disks, volumes, clocks, image pulls and webhooks, and containers killed for
//! lack of memory.
//!
//! [`mod@plan`] decides purely; the program that runs the cluster applies the faults of actors, nodes, volumes and the
//! store ([`FaultHooks`]). Fault objects are the only state: a starting control plane reads them and applies the faults
//! in force before anything runs ([`active_faults_at_start`]). [`FaultTracker`] reports the life cycle of faults of
//! every type, those of the network included.
//!
//! Architecture Invariant: no fault prevents its own healing. Therefore no fault can crash or pause this controller,
//! its clock is never skewed, and a store refuses writes only for a limited time.

mod effects;
mod plan;
#[cfg(test)]
mod plan_tests;
mod tracker;
mod watched_kinds;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};

use api::Api;
use api::controller_status::Subsystem;
use base::clock::{ClockReading, until};
use base::task::Tasks;
use extension::fault::Fault;
use object::{Kind, SharedObject, TypedKind};
use plan::{ClusterState, Effect, FaultDecision, TargetComponents, on_disk, plan, required_kinds};
use reconcile::{Caches, WorkLoop};

pub use effects::{
    ActorFaults, FaultPending, FillMode, FillRefusal, FillRequest, FillState, NodeFaults, PullFault,
    SCHEDULER_ACTOR, StoreFault,
};
pub use plan::{ActiveFaults, NO_TARGET, Victim};
pub use tracker::{FaultState, FaultTracker};
pub use watched_kinds::WatchedKinds;

/// Changes within this time are handled together.
const BURST: Duration = Duration::from_millis(10);
/// The delay before a failed action is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout for a fault's status to become durable before the store refuses writes.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Called when the state of a filled volume changes.
pub type VolumeChanged = Arc<dyn Fn() + Send + Sync>;

/// The operations on the cluster's processes and disks that faults need.
pub trait FaultHooks: Send + Sync + 'static {
    /// Returns the names of the controllers, and of the scheduler ([`SCHEDULER_ACTOR`]), that are not disabled.
    fn actor_names(&self) -> BTreeSet<&'static str>;

    /// Returns true if the store's data outlives the process.
    fn store_has_disk(&self) -> bool;

    /// Returns the directory of this machine's nodes.
    fn nodes_dir(&self) -> PathBuf;

    /// Replaces the faults of controllers and of the scheduler.
    fn set_actor_faults(&self, faults: ActorFaults) -> impl Future<Output = ()> + Send;

    /// Replaces the faults of nodes. Returns the nodes that are not in the desired state yet; a repeated call retries
    /// them.
    fn set_node_faults(
        &self,
        faults: &NodeFaults,
    ) -> impl Future<Output = BTreeMap<String, FaultPending>> + Send;

    /// Kills a pod's containers, or one of them, that were started before `until`, as the kernel does for lack of
    /// memory. Returns their number; `None` if no kubelet runs on the node.
    fn kill_for_memory(
        &self,
        victim: &Victim,
        container: Option<&str>,
        until: Timestamp,
    ) -> impl Future<Output = Option<Result<usize, String>>> + Send;

    /// Replaces the fault of the store.
    fn set_store_fault(&self, fault: &StoreFault);

    /// Replaces the set of affected volumes, by their descriptions. Returns without waiting for any disk.
    fn fill_volumes(&mut self, requests: &BTreeMap<String, FillRequest>);

    /// Returns true if the last [`Self::fill_volumes`] requested an effect on a volume or disk.
    fn is_fill_requested(&self, of: &str) -> bool;

    /// Returns the state of a volume or disk; `None` while it has not responded yet, or if no fault affects it.
    fn fill_state(&self, of: &str) -> Option<FillState>;
}

/// Returns the faults that were in force when the previous control plane ended and have not expired; called before
/// anything else runs.
pub fn active_faults_at_start(api: &Api, actors: BTreeSet<&'static str>) -> ActiveFaults {
    let mut faults = api.list_as::<Fault>(None);
    faults.retain(|fault| fault.status.as_ref().is_some_and(|status| status.started_at.is_some()));
    let mut lives = FaultTracker::new(api, "podium-faults");
    let now = api.clock().both();
    lives.observe(&faults, now);
    let world = ClusterState { nodes: api.list_as::<Node>(None), actors, ..ClusterState::default() };
    let planned = plan(&faults, &world, |fault| lives.is_over(fault, now));
    ActiveFaults::of(planned.iter().map(|(_, planned)| planned))
}

/// The kinds that faults refer to.
const WATCHED: [Kind; 6] = [
    Kind::Node,
    Kind::Pod,
    Kind::MutatingWebhookConfiguration,
    Kind::ValidatingWebhookConfiguration,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
];

/// Applies faults until `tasks` end.
pub fn start<H: FaultHooks>(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    hooks: impl FnOnce(VolumeChanged) -> H,
) {
    let watched = WatchedKinds::start(caches, &WATCHED);
    let changed = watched.changed().clone();
    let hooks = hooks(Arc::new(move || changed.notify_one()));
    let faults = Faults {
        lives: FaultTracker::new(api, "podium-faults"),
        api: api.clone(),
        caches: caches.clone(),
        hooks,
        watched,
        killed: BTreeSet::new(),
        is_behind: false,
    };
    let rounds = WorkLoop::start(api, "faults", Subsystem::Cluster, tasks);
    tasks.spawn("faults", faults.run(rounds));
}

/// The message of an incomplete round.
const BEHIND: &str = "some faults are not applied yet; retrying";

/// The controller.
struct Faults<H> {
    api: Api,
    caches: Caches,
    hooks: H,
    watched: Arc<WatchedKinds>,
    lives: FaultTracker,
    /// Uids of faults that have killed their containers, since the cache may not show yet that such a fault has ended.
    killed: BTreeSet<String>,
    /// Something must be retried.
    is_behind: bool,
}

impl<H: FaultHooks> Faults<H> {
    async fn run(mut self, rounds: Arc<WorkLoop>) {
        for kind in [Fault::kind()].into_iter().chain(WATCHED) {
            self.caches.synced(kind).await;
        }
        loop {
            let round = rounds.begin("faults");
            self.sync().await;
            round.ends(if self.is_behind { Err(BEHIND) } else { Ok(()) });
            self.wait().await;
            tokio::time::sleep(BURST).await;
        }
    }

    /// Waits for a change.
    async fn wait(&self) {
        let clock = self.api.clock();
        let left = self.lives.soonest().map(|at| until(clock.steady(), at));
        tokio::select! {
            () = self.watched.changed().notified() => {}
            () = clock.sleep_if_some(left) => {}
            () = clock.sleep_if_some(self.is_behind.then_some(RETRY_INTERVAL)) => {}
        }
    }

    /// Applies the faults that objects request, and heals others.
    async fn sync(&mut self) {
        let mut all = self.caches.of::<Fault>().list();
        all.retain(|fault| !fault.is_of_network());
        let world = self.world(required_kinds(&all));
        let now = self.api.clock().both();
        self.lives.observe(&all, now);
        self.killed.retain(|uid| all.iter().any(|fault| fault.uid() == uid));
        let mut planned = plan(&all, &world, |fault| self.lives.is_over(fault, now));
        planned.retain(|(fault, _)| !self.killed.contains(fault.uid()));
        self.is_behind = false;
        let desired = ActiveFaults::of(planned.iter().map(|(_, planned)| planned));
        self.hooks.set_actor_faults(desired.actors.clone()).await;
        let not_done = self.hooks.set_node_faults(&desired.nodes).await;
        self.is_behind |= !not_done.is_empty();
        self.api.hang_webhooks(desired.webhooks.clone());
        self.hooks.fill_volumes(&world.affected_volumes(&desired));
        // The store must accept the statuses written below: an ended refusal of writes is lifted before that, and a new
        // one starts only afterwards.
        if !matches!(desired.store, StoreFault::Refuses(_)) {
            self.hooks.set_store_fault(&desired.store);
        }
        for (fault, planned) in &planned {
            let Some(state) = self.state(fault, planned, &not_done) else { continue };
            self.lives.report(fault, &state, || ended("expired", fault));
        }
        self.lives.remove_deleted(&all, |fault| ended("was deleted", fault));
        for (fault, planned) in &planned {
            if let FaultDecision::InForce(met) = planned
                && let Effect::OutOfMemory(victims, container) = &met.effect
            {
                self.kill_for_memory(fault, victims, container.as_deref(), now).await;
            }
        }
        if matches!(desired.store, StoreFault::Refuses(_)) {
            // The statuses must be durable before the store refuses writes.
            let durable = self.api.durable(self.api.revision());
            let _ = tokio::time::timeout(STATUS_TIMEOUT, durable).await;
            self.hooks.set_store_fault(&desired.store);
        }
    }

    fn world(&self, needs: BTreeSet<Kind>) -> ClusterState {
        self.watched.set(needs);
        let mut world = ClusterState {
            actors: self.hooks.actor_names(),
            has_disk: self.hooks.store_has_disk(),
            nodes_dir: self.hooks.nodes_dir(),
            ..ClusterState::default()
        };
        if self.watched.contains(Kind::Node) {
            world.nodes = self.caches.of::<Node>().list();
        }
        if self.watched.contains(Kind::Pod) {
            world.pods = self.caches.of::<Pod>().list();
        }
        if self.watched.contains(Kind::PersistentVolumeClaim) {
            world.claims = self.caches.of::<PersistentVolumeClaim>().list();
            world.volumes = self.caches.of::<PersistentVolume>().list();
        }
        if self.watched.contains(Kind::MutatingWebhookConfiguration) {
            let mutating = self.caches.of::<MutatingWebhookConfiguration>().list();
            let validating = self.caches.of::<ValidatingWebhookConfiguration>().list();
            let names = mutating.iter().map(|one| one.name().to_owned());
            world.webhooks = names.chain(validating.iter().map(|one| one.name().to_owned())).collect();
        }
        world
    }

    /// The state of a fault; `None` while it is unknown, because its disk has not responded yet.
    fn state(
        &self,
        fault: &Fault,
        planned: &FaultDecision,
        not_done: &BTreeMap<String, FaultPending>,
    ) -> Option<FaultState> {
        Some(match planned {
            FaultDecision::Expired => FaultState::expired(fault),
            FaultDecision::Inactive { reason, message } => {
                let selected = (*reason == NO_TARGET).then(|| (false, NO_TARGET, message.clone()));
                FaultState { selected, ..FaultState::inactive(reason, message.clone()) }
            }
            FaultDecision::InForce(met) => {
                let mut left_open = String::new();
                if let Effect::Disk(nodes, _) = &met.effect {
                    left_open = self.beside_disks(nodes)?;
                }
                if let Effect::FillVolume(of, _) = &met.effect {
                    match self.hooks.fill_state(of)? {
                        FillState::Filled => {}
                        FillState::Denied { open_before } => left_open = still_written(open_before),
                        FillState::Refused(refusal) => {
                            return Some(FaultState::inactive(refusal.reason, refusal.message));
                        }
                    }
                }
                let of_nodes = nodes_of(&met.effect);
                let late = of_nodes.into_iter().flatten().find_map(|name| not_done.get(name));
                match late {
                    // A node that is being started or removed does not end a fault that is already in force on other
                    // nodes.
                    Some(late) if !(late.is_busy && self.lives.is_in_force(fault)) => {
                        let reason = if late.is_busy { "NodeBusy" } else { "Failed" };
                        FaultState::inactive(reason, late.reason.clone())
                    }
                    _ => FaultState {
                        is_active: true,
                        reason: "InForce",
                        message: format!("{} of {}{left_open}", describe_fault(fault), met.description),
                        meets: Some(met.description.clone()),
                        selected: Some((true, "Found", met.description.clone())),
                        is_over: false,
                    },
                }
            }
        })
    }

    /// Describes the writes to emptyDirs that a disk fault does not affect, for its message; empty if there are none,
    /// and `None` while a disk with emptyDirs has not responded yet.
    fn beside_disks(&self, nodes: &BTreeSet<String>) -> Option<String> {
        let disks = nodes.iter().map(|node| on_disk(node));
        let mut open = 0;
        for disk in disks.filter(|disk| self.hooks.is_fill_requested(disk)) {
            match self.hooks.fill_state(&disk)? {
                FillState::Filled => {}
                FillState::Denied { open_before } => open += open_before,
                FillState::Refused(refusal) => {
                    return Some(format!(
                        "; writes of containers to emptyDirs are not affected: {}",
                        refusal.message
                    ));
                }
            }
        }
        Some(still_written(open))
    }

    /// Kills the victims' containers once per fault; a failure is retried.
    async fn kill_for_memory(
        &mut self,
        fault: &SharedObject<Fault>,
        victims: &[Victim],
        container: Option<&str>,
        now: ClockReading,
    ) {
        // Containers started after the fault began are not killed. The limit is a second later, since objects record
        // whole seconds.
        let began = fault.status.as_ref().and_then(|status| status.started_at.as_ref());
        let began = began.map_or(now.wall, |at| at.0);
        let until = began.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
        let mut killed = 0;
        for victim in victims {
            let Some(outcome) = self.hooks.kill_for_memory(victim, container, until).await else {
                // No kubelet runs there: the containers have died with the node, or this is retried until the kubelet
                // is back.
                self.is_behind = true;
                return;
            };
            match outcome {
                Ok(count) => killed += count,
                Err(error) => {
                    tracing::warn!(pod = %victim.pod, "cannot kill the pod's containers yet: {error}");
                    self.is_behind = true;
                    return;
                }
            }
        }
        self.killed.insert(fault.uid().to_owned());
        let message = format!("{killed} containers were killed");
        let state = FaultState { is_over: true, ..FaultState::inactive("Done", message.clone()) };
        self.lives.report(fault, &state, || format!("{}: {message}", describe_fault(fault)));
    }
}

/// Describes the descriptors that were opened before writes were refused, and can still write.
fn still_written(descriptors: usize) -> String {
    match descriptors {
        0 => String::new(),
        1 => "; one descriptor that was opened before can still write".into(),
        more => format!("; {more} descriptors that were opened before can still write"),
    }
}

/// Returns the nodes of an effect on nodes; `None` for other effects.
fn nodes_of(effect: &Effect) -> Option<&BTreeSet<String>> {
    match effect {
        Effect::PowerOff(nodes)
        | Effect::Disk(nodes, _)
        | Effect::Crash(TargetComponents::Kubelets(nodes))
        | Effect::Pause(TargetComponents::Kubelets(nodes))
        | Effect::Skew(TargetComponents::Kubelets(nodes), _) => Some(nodes),
        _ => None,
    }
}

/// `Crash`, `Slow disk (200ms)`, `Clock skew by -5m`.
fn describe_fault(fault: &Fault) -> String {
    let spec = &fault.spec;
    if let Some(disk) = &spec.disk {
        let delay = disk.delay.as_ref().map(|delay| format!(" ({delay})")).unwrap_or_default();
        return format!("{} disk{delay}", disk.failure);
    }
    if let Some(skew) = &spec.skew {
        return format!("Clock skew by {}", skew.by);
    }
    if let Some(image) = &spec.image {
        let slow = image.delay.as_ref().map(|delay| format!("Slow ({delay})"));
        let fails = (image.failing == Some(true)).then(|| "failing".to_owned());
        let how: Vec<String> = slow.into_iter().chain(fails).collect();
        let which = image.pattern.as_ref().map(|pattern| format!(" of {pattern}")).unwrap_or_default();
        return format!("{} image pulls{which}", how.join(" and "));
    }
    match spec.type_.as_str() {
        "PowerOff" => "Power off".into(),
        "OutOfMemory" => "Out of memory".into(),
        "Webhook" => "Hanging".into(),
        "VolumeFull" => "Full volume".into(),
        other => other.into(),
    }
}

/// The message of the event for an ended fault.
fn ended(how: &str, fault: &Fault) -> String {
    let target = fault.spec.target.as_ref().map(|target| format!(" of {target}")).unwrap_or_default();
    format!("{}{target} {how}", describe_fault(fault))
}
