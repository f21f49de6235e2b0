//! Plans each fault that is not a network fault, and the combined effect of all of them. Pure: takes faults and the
//! cluster's state, returns the desired state of actors, nodes, store and API.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};

use super::effects::{
    ActorFaults, FillMode, FillRequest, NodeFaults, PullFault, SCHEDULER_ACTOR, StoreFault,
};
use base::disk_fault::DiskFault;
use base::sort::{CollectMap, SliceOrder};
use extension::fault::{Component, Fault, FaultDisk, FaultTarget};
use object::owner::is_terminating;
use object::pod::{is_terminal, node_name};
use object::selector::Selector;
use object::storage::{claim_phase, claim_ref, claim_uid, directory_of, pod_volume_directory, volume_name};
use object::{Key, Kind, SharedObject};

/// The maximum number of faults, other than network faults, in force at once.
pub(super) const MAX_FAULTS: usize = 64;
/// The maximum number of names in a message; only the number of the others is given.
const NAMED: usize = 3;

/// The cluster as it is now.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterState {
    pub(super) nodes: Vec<SharedObject<Node>>,
    pub(super) pods: Vec<SharedObject<Pod>>,
    pub(super) claims: Vec<SharedObject<PersistentVolumeClaim>>,
    pub(super) volumes: Vec<SharedObject<PersistentVolume>>,
    /// The names of the configurations of webhooks, mutating or validating.
    pub(super) webhooks: BTreeSet<String>,
    /// The controllers and the scheduler that are not disabled.
    pub(super) actors: BTreeSet<&'static str>,
    /// True if the store's data outlives the process.
    pub(super) has_disk: bool,
    /// The directory of this machine's nodes.
    pub(super) nodes_dir: PathBuf,
}

/// The desired state of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaultDecision {
    /// In force.
    InForce(ActiveFault),
    /// Not in force, for a reason.
    Inactive { reason: &'static str, message: String },
    /// The fault's duration has expired.
    Expired,
}

/// The targets of a fault in force, and the effect on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActiveFault {
    pub(super) effect: Effect,
    /// Describes the targets.
    pub(super) description: String,
}

/// An effect with its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Crash(TargetComponents),
    Pause(TargetComponents),
    PowerOff(BTreeSet<String>),
    /// The disks of nodes.
    Disk(BTreeSet<String>, DiskFault),
    /// The disk of the store.
    StoreDisk(StoreFault),
    /// The components, and the offset of their clocks in milliseconds.
    Skew(TargetComponents, i64),
    Pulls(PullFault),
    /// Configurations of webhooks.
    Hang(BTreeSet<String>),
    /// These pods, by key and uid, each on its node: one container, or all.
    OutOfMemory(Vec<Victim>, Option<String>),
    /// The volume with this description, at this path of the machine.
    FillVolume(String, PathBuf),
}

/// A pod with containers to kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The key of the pod.
    pub pod: Key,
    /// The uid of the pod.
    pub uid: String,
    /// The name of its node.
    pub node: String,
}

/// The components that a fault affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetComponents {
    /// The kubelets of nodes.
    Kubelets(BTreeSet<String>),
    /// Controllers, or the scheduler.
    Actors(BTreeSet<&'static str>),
    /// The store.
    Store,
}

/// The effects of all faults in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveFaults {
    /// The faults of controllers and of the scheduler.
    pub actors: ActorFaults,
    /// The faults of nodes.
    pub nodes: NodeFaults,
    pub(super) store: StoreFault,
    pub(super) webhooks: BTreeSet<String>,
    /// The volumes to fill: their descriptions and paths.
    pub(super) full: BTreeMap<String, PathBuf>,
}

impl ActiveFaults {
    /// Combines the effects of all faults.
    pub(super) fn of<'a>(planned: impl IntoIterator<Item = &'a FaultDecision>) -> Self {
        let mut all = Self::default();
        for one in planned {
            if let FaultDecision::InForce(met) = one {
                all.take(&met.effect);
            }
        }
        all
    }

    fn take(&mut self, effect: &Effect) {
        let (actors, nodes) = (&mut self.actors, &mut self.nodes);
        match effect {
            Effect::Crash(TargetComponents::Kubelets(names)) => nodes.crashed.extend(names.iter().cloned()),
            Effect::Crash(TargetComponents::Actors(names)) => actors.crashed.extend(names),
            Effect::Pause(TargetComponents::Kubelets(names)) => nodes.paused.extend(names.iter().cloned()),
            Effect::Pause(TargetComponents::Actors(names)) => actors.paused.extend(names),
            Effect::Crash(TargetComponents::Store) | Effect::Pause(TargetComponents::Store) => {
                self.worsen(&StoreFault::Hangs);
            }
            Effect::PowerOff(names) => nodes.off.extend(names.iter().cloned()),
            Effect::Disk(names, fault) => {
                for name in names {
                    let known = nodes.disks.entry(name.clone()).or_insert(*fault);
                    *known = worse(*known, *fault);
                }
            }
            Effect::StoreDisk(fault) => self.worsen(fault),
            Effect::Skew(TargetComponents::Kubelets(names), by) => {
                for name in names {
                    let known = nodes.skews.entry(name.clone()).or_default();
                    *known = known.saturating_add(*by);
                }
            }
            Effect::Skew(TargetComponents::Actors(names), by) => {
                if names.contains(SCHEDULER_ACTOR) {
                    actors.scheduler_skew = actors.scheduler_skew.saturating_add(*by);
                } else {
                    actors.controllers_skew = actors.controllers_skew.saturating_add(*by);
                }
            }
            Effect::Skew(TargetComponents::Store, _) | Effect::OutOfMemory(..) => {}
            Effect::Pulls(fault) => nodes.pulls.push(fault.clone()),
            Effect::FillVolume(of, path) => {
                self.full.insert(of.clone(), path.clone());
            }
            Effect::Hang(names) => self.webhooks.extend(names.iter().cloned()),
        }
    }

    /// Adds a fault of the store; the worst of several counts.
    fn worsen(&mut self, fault: &StoreFault) {
        let rank = |fault: &StoreFault| match fault {
            StoreFault::None => (0, Duration::ZERO),
            StoreFault::Slow(delay) => (1, *delay),
            StoreFault::Hangs => (2, Duration::ZERO),
            StoreFault::Refuses(_) => (3, Duration::ZERO),
        };
        if rank(fault) > rank(&self.store) {
            self.store = fault.clone();
        }
    }
}

/// Returns the worse of two faults of a disk.
fn worse(one: DiskFault, other: DiskFault) -> DiskFault {
    let rank = |fault: DiskFault| match fault {
        DiskFault::Slow(delay) => (0, delay),
        DiskFault::Failing => (1, Duration::ZERO),
        DiskFault::Full => (2, Duration::ZERO),
    };
    if rank(other) > rank(one) { other } else { one }
}

/// Plans all faults that have not ended, oldest first. `is_over` returns true for a fault with an expired duration.
pub(super) fn plan<'a>(
    faults: &'a [SharedObject<Fault>],
    world: &ClusterState,
    is_over: impl Fn(&Fault) -> bool,
) -> Vec<(&'a SharedObject<Fault>, FaultDecision)> {
    let is_meant = |fault: &&SharedObject<Fault>| {
        !fault.has_ended() && !is_terminating(&fault.metadata) && !fault.is_of_network()
    };
    let mut all: Vec<&SharedObject<Fault>> = faults.iter().filter(is_meant).collect();
    all.order_by_key(|fault| (fault.metadata.creation_timestamp.clone(), fault.name().to_owned()));
    let mut count = 0;
    let mut filled: BTreeMap<String, String> = BTreeMap::new();
    let mut one = |fault: &Fault| {
        if is_over(fault) {
            return FaultDecision::Expired;
        }
        if count >= MAX_FAULTS {
            let message = format!("the limit of {MAX_FAULTS} faults in force is reached");
            return FaultDecision::Inactive { reason: "TooManyFaults", message };
        }
        let planned = world.meet(fault);
        if let FaultDecision::InForce(ActiveFault { effect: Effect::FillVolume(of, _), .. }) = &planned {
            if let Some(by) = filled.get(of) {
                let message = format!("fault {by} already fills the volume of {of}");
                return FaultDecision::Inactive { reason: "AlreadyFull", message };
            }
            filled.insert(of.clone(), fault.metadata.name.clone().unwrap_or_default());
        }
        count += usize::from(matches!(planned, FaultDecision::InForce(_)));
        planned
    };
    all.into_iter().map(|fault| (fault, one(fault))).collect()
}

impl ClusterState {
    fn meet(&self, fault: &Fault) -> FaultDecision {
        let spec = &fault.spec;
        let none = FaultTarget::default();
        let target = spec.target.as_ref().unwrap_or(&none);
        let in_force = |effect, words| FaultDecision::InForce(ActiveFault { effect, description: words });
        match (spec.type_.as_str(), target.component()) {
            ("Crash" | "Pause" | "ClockSkew", Some(_)) => match self.parts(target) {
                Ok((parts, words)) => in_force(effect(fault, parts), words),
                Err(not) => not,
            },
            ("ClockSkew", None) => {
                self.of_nodes(target, |nodes| Effect::Skew(TargetComponents::Kubelets(nodes), skew(fault)))
            }
            ("PowerOff", _) => self.of_nodes(target, Effect::PowerOff),
            ("Disk", component) => {
                let disk = spec.disk.clone().unwrap_or_default();
                if component.is_some() { self.store_disk(&disk) } else { self.of_disks(target, &disk) }
            }
            ("ImagePull", _) => {
                let image = spec.image.clone().unwrap_or_default();
                let pulls = |nodes| {
                    let (delay, fails) = (image.delay(), image.failing == Some(true));
                    Effect::Pulls(PullFault { nodes, delay, fails, pattern: image.pattern.clone() })
                };
                if target.node.is_none() && target.node_selector.is_none() {
                    return in_force(pulls(None), "all nodes".into());
                }
                self.of_nodes(target, |nodes| pulls(Some(nodes)))
            }
            ("Webhook", _) => {
                let name = target.webhook.clone().unwrap_or_default();
                if !self.webhooks.contains(&name) {
                    return no_target(format!("webhook configuration {name} not found"));
                }
                let description = format!("the webhooks of {name}");
                in_force(Effect::Hang(BTreeSet::from([name])), description)
            }
            ("OutOfMemory", _) => self.victims(target),
            ("VolumeFull", _) => match &target.volume {
                Some(name) => self.empty_dir(target, name),
                None => self.volume(target),
            },
            (other, _) => FaultDecision::Inactive {
                reason: "UnknownType",
                message: format!("unknown fault type {other}"),
            },
        }
    }

    fn parts(&self, target: &FaultTarget) -> Result<(TargetComponents, String), FaultDecision> {
        let actors = |names: BTreeSet<&'static str>, component: &str| {
            if names.is_empty() {
                return Err(no_target(format!("{component} does not run in this cluster")));
            }
            Ok((TargetComponents::Actors(names), component.to_owned()))
        };
        let those = |is_meant: &dyn Fn(&str) -> bool| -> BTreeSet<&'static str> {
            self.actors.iter().copied().filter(|name| is_meant(name)).collect()
        };
        match target.component() {
            Some(Component::Scheduler) => actors(those(&|name| name == SCHEDULER_ACTOR), "the scheduler"),
            Some(Component::Controllers) => actors(those(&|name| name != SCHEDULER_ACTOR), "all controllers"),
            Some(Component::Controller(selected)) => actors(
                those(&|name| name == selected && name != SCHEDULER_ACTOR),
                &format!("controller {selected}"),
            ),
            Some(Component::Store) if self.has_disk => Ok((TargetComponents::Store, "the store".into())),
            Some(Component::Store) => Err(no_disk()),
            Some(Component::Kubelet) | None => {
                let nodes = self.nodes(target);
                if nodes.is_empty() {
                    return Err(no_node(target));
                }
                let description = format!("the kubelet of {}", list_names("node", &nodes));
                Ok((TargetComponents::Kubelets(nodes), description))
            }
        }
    }

    fn nodes(&self, target: &FaultTarget) -> BTreeSet<String> {
        let selector = target.node_selector.as_ref().map(Selector::from_field);
        let is_meant = |node: &&SharedObject<Node>| match (&target.node, &selector) {
            (Some(name), _) => node.name() == name,
            (None, Some(selector)) => selector.matches(node.metadata.labels.as_ref()),
            (None, None) => false,
        };
        self.nodes.iter().filter(is_meant).map(|node| node.name().to_owned()).collect()
    }

    fn of_nodes(
        &self,
        target: &FaultTarget,
        effect: impl FnOnce(BTreeSet<String>) -> Effect,
    ) -> FaultDecision {
        let nodes = self.nodes(target);
        if nodes.is_empty() {
            return no_node(target);
        }
        let description = list_names("node", &nodes);
        FaultDecision::InForce(ActiveFault { effect: effect(nodes), description })
    }

    fn of_disks(&self, target: &FaultTarget, disk: &FaultDisk) -> FaultDecision {
        let fault = match disk.failure.as_str() {
            "Full" => DiskFault::Full,
            "Slow" => DiskFault::Slow(disk.delay()),
            _ => DiskFault::Failing,
        };
        self.of_nodes(target, |nodes| Effect::Disk(nodes, fault))
    }

    fn store_disk(&self, disk: &FaultDisk) -> FaultDecision {
        let fault = match disk.failure.as_str() {
            "Full" => StoreFault::Refuses("No space left on device"),
            "Slow" if !self.has_disk => return no_disk(),
            "Slow" => StoreFault::Slow(disk.delay()),
            _ => StoreFault::Refuses("Input/output error"),
        };
        FaultDecision::InForce(ActiveFault {
            effect: Effect::StoreDisk(fault),
            description: "the store".into(),
        })
    }

    /// The volume of a claim, if it is bound and lies on this machine.
    fn volume(&self, target: &FaultTarget) -> FaultDecision {
        let namespace = target.namespace.as_deref().unwrap_or("default");
        let key = Key::new(namespace, target.claim.as_deref().unwrap_or_default());
        let not = |reason, message: String| FaultDecision::Inactive { reason, message };
        let Some(claim) = self.claims.iter().find(|claim| claim.key() == key) else {
            return no_target(format!("claim {key} not found"));
        };
        let Some(name) = volume_name(claim).filter(|_| claim_phase(claim) == "Bound") else {
            return not("NotBound", format!("claim {key} is not bound to a volume"));
        };
        let is_its_own = |volume: &&SharedObject<PersistentVolume>| {
            volume.name() == name && claim_ref(volume).and_then(claim_uid) == Some(claim.uid())
        };
        let Some(volume) = self.volumes.iter().find(is_its_own) else {
            return not(
                "NotBound",
                format!("volume {name} of claim {key} is missing, or bound to another claim"),
            );
        };
        let spec = volume.spec.as_ref();
        if spec.and_then(|spec| spec.volume_mode.as_deref()) == Some("Block") {
            return not("NotHere", format!("volume {name} of claim {key} is a block device"));
        }
        let local = spec.and_then(|spec| spec.local.as_ref()).map(|local| local.path.as_str());
        let Some(path) = directory_of(volume).or(local) else {
            return not(
                "NotHere",
                format!("volume {name} of claim {key} is not a directory of this machine"),
            );
        };
        fills(format!("claim {key}"), path.into())
    }

    /// An emptyDir of a pod that is bound to a node.
    fn empty_dir(&self, target: &FaultTarget, name: &str) -> FaultDecision {
        let namespace = target.namespace.as_deref().unwrap_or("default");
        let key = Key::new(namespace, target.pod.as_deref().unwrap_or_default());
        let Some(pod) = self.pods.iter().find(|pod| pod.key() == key).filter(|pod| !is_terminal(pod)) else {
            return no_target(format!("pod {key} not found, or it has ended"));
        };
        let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let Some(volume) = volumes.find(|volume| volume.name == name) else {
            return no_target(format!("pod {key} has no volume {name}"));
        };
        let not = |reason, message: String| FaultDecision::Inactive { reason, message };
        if volume.empty_dir.is_none() {
            return not(
                "NotHere",
                format!(
                    "volume {name} of pod {key} is not an emptyDir; for the volume of a claim, set \
                     target.claim instead"
                ),
            );
        }
        let Some(node) = node_name(pod) else {
            return not("NotHere", format!("pod {key} is not assigned to a node yet"));
        };
        fills(format!("emptyDir {name} of pod {key}"), empty_dir_at(&self.nodes_dir, node, pod.uid(), name))
    }

    fn victims(&self, target: &FaultTarget) -> FaultDecision {
        let own = target.namespace.as_deref().unwrap_or("default");
        let selector = target.pod_selector.as_ref().map(Selector::from_field);
        let is_meant = |pod: &&SharedObject<Pod>| {
            pod.namespace() == own
                && match (&target.pod, &selector) {
                    (Some(name), _) => pod.name() == name,
                    (None, Some(selector)) => selector.matches(pod.metadata.labels.as_ref()),
                    (None, None) => false,
                }
        };
        let runs = |pod: &&SharedObject<Pod>| {
            let statuses = pod.status.iter().flat_map(|status| {
                let apps = status.container_statuses.iter().flatten();
                apps.chain(status.init_container_statuses.iter().flatten())
            });
            let running =
                statuses.filter(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()));
            let mut running =
                running.filter(|one| target.container.as_ref().is_none_or(|name| *name == one.name));
            !is_terminal(pod) && running.next().is_some()
        };
        let victim = |pod: &SharedObject<Pod>| {
            Some(Victim { pod: pod.key(), uid: pod.uid().to_owned(), node: node_name(pod)?.to_owned() })
        };
        let victims: Vec<Victim> =
            self.pods.iter().filter(is_meant).filter(runs).filter_map(victim).collect();
        if victims.is_empty() {
            return no_target("no matching container is running".into());
        }
        let names: BTreeSet<String> = victims.iter().map(|victim| victim.pod.to_string()).collect();
        let description = list_names("pod", &names);
        FaultDecision::InForce(ActiveFault {
            effect: Effect::OutOfMemory(victims, target.container.clone()),
            description,
        })
    }
}

impl ClusterState {
    /// The volumes to affect: those to fill, and the emptyDirs on the disks of nodes, grouped by node.
    pub(super) fn affected_volumes(&self, in_force: &ActiveFaults) -> BTreeMap<String, FillRequest> {
        let full = in_force.full.iter();
        let full = full
            .map(|(of, path)| (of.clone(), FillRequest { paths: vec![path.clone()], how: FillMode::Full }));
        let mut by_node: BTreeMap<&str, FillRequest> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| has_files(node)) {
            let Some(fault) = in_force.nodes.disks.get(node.name()) else { continue };
            by_node.insert(node.name(), FillRequest { paths: Vec::new(), how: FillMode::OnDisk(*fault) });
        }
        if !by_node.is_empty() {
            for pod in self.pods.iter().filter(|pod| !is_terminal(pod)) {
                if let Some(node) = node_name(pod)
                    && let Some(request) = by_node.get_mut(node)
                {
                    request.paths.extend(self.empty_dirs(pod, node));
                }
            }
        }
        let on_disks = by_node.into_iter().filter(|(_, request)| !request.paths.is_empty());
        full.chain(on_disks.map(|(node, request)| (on_disk(node), request))).collect_map()
    }

    /// The paths of a pod's emptyDirs on its node's disk.
    fn empty_dirs(&self, pod: &SharedObject<Pod>, node: &str) -> impl Iterator<Item = PathBuf> {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let on_disk = volumes.filter(|volume| {
            volume.empty_dir.as_ref().is_some_and(|source| source.medium.as_deref() != Some("Memory"))
        });
        on_disk.map(move |volume| empty_dir_at(&self.nodes_dir, node, pod.uid(), &volume.name))
    }
}

/// Returns true if a node's pods have files on this machine; pods of hollow nodes have none.
fn has_files(node: &SharedObject<Node>) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.is_some_and(|info| info.container_runtime_version.starts_with("podium://"))
}

/// The description of all emptyDirs on a node's disk; also the key of their [`FillRequest`].
pub(super) fn on_disk(node: &str) -> String {
    format!("the emptyDirs of node {node}")
}

fn fills(of: String, path: PathBuf) -> FaultDecision {
    let description = format!("{of} at {}", path.display());
    FaultDecision::InForce(ActiveFault { effect: Effect::FillVolume(of, path), description })
}

/// The path of an emptyDir on a node's disk.
fn empty_dir_at(nodes_dir: &Path, node: &str, uid: &str, volume: &str) -> PathBuf {
    pod_volume_directory(&nodes_dir.join(node).join("pods"), uid, volume)
}

fn effect(fault: &Fault, parts: TargetComponents) -> Effect {
    match fault.spec.type_.as_str() {
        "Crash" => Effect::Crash(parts),
        "Pause" => Effect::Pause(parts),
        _ => Effect::Skew(parts, skew(fault)),
    }
}

fn skew(fault: &Fault) -> i64 {
    let by = fault.spec.skew.as_ref().and_then(extension::fault::FaultSkew::by).unwrap_or_default();
    i64::try_from(by.as_millis()).unwrap_or(0)
}

/// The decision about a fault whose target selects no node.
fn no_node(target: &FaultTarget) -> FaultDecision {
    no_target(match &target.node {
        Some(name) => format!("node {name} not found"),
        None => format!("no node matches {target}"),
    })
}

fn no_target(message: String) -> FaultDecision {
    FaultDecision::Inactive { reason: NO_TARGET, message }
}

fn no_disk() -> FaultDecision {
    let message = "this cluster stores its state in memory only".to_owned();
    FaultDecision::Inactive { reason: "NoDisk", message }
}

/// The reason of a fault that is not in force for lack of a target.
pub const NO_TARGET: &str = "NoTarget";

/// `node a`, `nodes a, b`, `nodes a, b, c and 7 more`.
fn list_names(noun: &str, names: &BTreeSet<String>) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{noun}{plural} {}{more}", first.join(", "))
}

/// Returns the kinds of objects that faults refer to that have not ended.
pub(super) fn required_kinds(faults: &[SharedObject<Fault>]) -> BTreeSet<Kind> {
    let mut kinds = BTreeSet::new();
    for fault in faults.iter().filter(|fault| !fault.has_ended()) {
        let Some(target) = &fault.spec.target else { continue };
        if target.node.is_some() || target.node_selector.is_some() {
            kinds.insert(Kind::Node);
        }
        // A fault of a disk affects the emptyDirs of pods.
        let has_empty_dirs = fault.spec.disk.is_some() && target.component.is_none();
        if target.pod.is_some() || target.pod_selector.is_some() || has_empty_dirs {
            kinds.insert(Kind::Pod);
        }
        if target.webhook.is_some() {
            kinds.extend([Kind::MutatingWebhookConfiguration, Kind::ValidatingWebhookConfiguration]);
        }
        if target.claim.is_some() {
            kinds.extend([Kind::PersistentVolumeClaim, Kind::PersistentVolume]);
        }
    }
    kinds
}
