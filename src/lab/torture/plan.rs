//! The faults, drawn from the seed. The same seed gives the same faults, but their exact timing depends on the machine.

use std::fmt;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Nodes of the instance.
pub(super) const NODES: usize = 3;

/// A fault or an operation. Numbers select among the targets that exist at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Kill the control plane with SIGKILL, and start another after a while.
    KillControlPlane { down: Duration },
    /// Kill a control plane that has just been started.
    KillStarting { after: Duration },
    /// Stop the instance with SIGTERM, wait until it has ended with all its pods, and start another.
    Restart,
    /// Freeze the control plane with SIGSTOP.
    FreezeControlPlane { lasts: Duration },
    /// Kill the network's process.
    KillNetwork,
    /// Kill a node's host.
    KillHost { node: usize },
    /// Freeze a node's host with SIGSTOP.
    FreezeHost { node: usize, lasts: Duration },
    /// Kill the control plane and a node's host together.
    KillBoth { node: usize, down: Duration },
    /// Kill everything but the containers.
    KillAll { down: Duration },
    /// Kill a container's process.
    KillContainer { which: usize },
    /// A Fault between two nodes.
    Network { of: NetworkFault, from: usize, to: usize, lasts: Duration },
    /// A Fault of one node.
    Node { of: NodeFault, node: usize, lasts: Duration },
    /// Fence a node by hand, and take it back.
    Fence { node: usize, lasts: Duration },
    /// Save the whole cluster, with or without the contents of claims; check and delete the snapshot after a while.
    Snapshot { claims: bool, retention: Duration },
    /// Change the size of a StatefulSet or Deployment.
    Scale { which: usize, replicas: u8 },
    /// Change the template of a StatefulSet or Deployment.
    Rollout { which: usize },
    /// Delete a pod with its grace period.
    DeletePod { which: usize },
    /// Cordon a node and evict its pods; uncordon it afterwards.
    Drain { node: usize, lasts: Duration },
    /// Create a Job.
    Job,
}

/// Types of Fault objects between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkFault {
    Partition,
    Latency,
    Loss,
}

/// Types of Fault objects of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFault {
    /// The kubelet pauses: the node falls silent, and its pods continue.
    Pause,
    /// The kubelet crashes; its successor finds the pods still running.
    Crash,
    /// All processes of the node are killed.
    PowerOff,
}

impl Fault {
    /// The name under which the fault is counted.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::KillControlPlane { .. } => "kill control plane",
            Self::KillStarting { .. } => "kill starting control plane",
            Self::Restart => "restart",
            Self::FreezeControlPlane { .. } => "freeze control plane",
            Self::KillNetwork => "kill network",
            Self::KillHost { .. } => "kill node host",
            Self::FreezeHost { .. } => "freeze node host",
            Self::KillBoth { .. } => "kill control plane and host",
            Self::KillAll { .. } => "kill all but containers",
            Self::KillContainer { .. } => "kill container",
            Self::Network { of: NetworkFault::Partition, .. } => "partition",
            Self::Network { of: NetworkFault::Latency, .. } => "latency",
            Self::Network { of: NetworkFault::Loss, .. } => "loss",
            Self::Node { of: NodeFault::Pause, .. } => "pause kubelet",
            Self::Node { of: NodeFault::Crash, .. } => "crash kubelet",
            Self::Node { of: NodeFault::PowerOff, .. } => "power off",
            Self::Fence { .. } => "fence",
            Self::Snapshot { .. } => "snapshot",
            Self::Scale { .. } => "scale",
            Self::Rollout { .. } => "rollout",
            Self::DeletePod { .. } => "delete pod",
            Self::Drain { .. } => "drain",
            Self::Job => "job",
        }
    }
}

/// A StatefulSet of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) name: String,
    pub(super) replicas: u8,
    pub(super) claim: bool,
    /// True if the claims have the storage class `disk`, whose volumes are attached to one node at a time.
    pub(super) attached: bool,
    pub(super) parallel: bool,
    pub(super) grace: u8,
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, replicas, claim, attached, parallel, grace } = self;
        let claim = match (claim, attached) {
            (true, true) => ", a disk each",
            (true, false) => ", a claim each",
            (false, _) => "",
        };
        let order = if *parallel { ", all at once" } else { "" };
        write!(f, "{name} ({replicas}{claim}{order}, grace {grace} s)")
    }
}

/// Draws the faults one after the other.
///
/// Faults of nodes, fences and snapshots, and the pauses after them, are drawn from a second random stream and inserted
/// between the other faults, so that a seed's other faults are the same as before these existed.
pub(super) struct Plan {
    random: SmallRng,
    of_objects: SmallRng,
    /// True if the last fault was drawn from the second stream.
    is_of_objects: bool,
}

/// One fault in this many is drawn from the second stream.
const OF_OBJECTS: u32 = 4;

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: SmallRng::seed_from_u64(seed ^ 0x0074_6f72_7475_7265),
            of_objects: SmallRng::seed_from_u64(seed ^ 0x6f62_6a65_6374_7321),
            is_of_objects: false,
        }
    }

    /// Draws the StatefulSets: a plain one, one with claims, and perhaps a third.
    pub(super) fn sets(&mut self) -> Vec<Set> {
        let Self { random, of_objects, .. } = self;
        (0..random.random_range(2..=3_u8))
            .map(|number| Set {
                name: format!("set-{number}"),
                replicas: if number == 0 { 1 } else { random.random_range(1..=3) },
                claim: number == 1 || random.random_ratio(1, 3),
                attached: of_objects.random(),
                parallel: random.random(),
                grace: random.random_range(1..=3),
            })
            .collect()
    }

    /// Draws the pause until the next fault.
    pub(super) fn pause(&mut self) -> Duration {
        // Most pauses are shorter than a fault, so that faults overlap; sometimes a long pause lets the cluster
        // recover.
        let random = if self.is_of_objects { &mut self.of_objects } else { &mut self.random };
        let most = if random.random_ratio(1, 6) { 8_000 } else { 1_600 };
        Duration::from_millis(random.random_range(100..most))
    }

    fn lasting(&mut self, most: u64) -> Duration {
        lasting(&mut self.random, most)
    }

    /// Draws the next fault.
    pub(super) fn fault(&mut self) -> Fault {
        self.is_of_objects = self.of_objects.random_ratio(1, OF_OBJECTS);
        if self.is_of_objects {
            return of_objects(&mut self.of_objects);
        }
        let node = self.random.random_range(0..NODES);
        let which = self.random.random_range(0..1000);
        match self.random.random_range(0..100) {
            0..10 => Fault::KillControlPlane { down: self.lasting(6) },
            10..13 => Fault::KillStarting { after: Duration::from_millis(self.random.random_range(0..1500)) },
            13..16 => Fault::Restart,
            16..20 => Fault::FreezeControlPlane { lasts: self.lasting(8) },
            20..24 => Fault::KillNetwork,
            24..34 => Fault::KillHost { node },
            34..43 => Fault::FreezeHost { node, lasts: self.lasting(15) },
            43..48 => Fault::KillBoth { node, down: self.lasting(5) },
            48..51 => Fault::KillAll { down: self.lasting(5) },
            51..63 => Fault::KillContainer { which },
            63..70 => {
                let of = [NetworkFault::Partition, NetworkFault::Latency, NetworkFault::Loss];
                let of = of[self.random.random_range(0..of.len())];
                let to = (node + self.random.random_range(1..NODES)) % NODES;
                Fault::Network { of, from: node, to, lasts: self.lasting(10) }
            }
            70..77 => Fault::Scale { which, replicas: self.random.random_range(0..=3) },
            77..83 => Fault::Rollout { which },
            83..92 => Fault::DeletePod { which },
            92..97 => Fault::Drain { node, lasts: self.lasting(10) },
            _ => Fault::Job,
        }
    }
}

fn lasting(random: &mut SmallRng, most: u64) -> Duration {
    Duration::from_millis(random.random_range(200..most * 1000))
}

fn of_objects(random: &mut SmallRng) -> Fault {
    let node = random.random_range(0..NODES);
    match random.random_range(0..100) {
        0..30 => Fault::Fence { node, lasts: lasting(random, 15) },
        30..45 => Fault::Node { of: NodeFault::Pause, node, lasts: lasting(random, 15) },
        45..60 => Fault::Node { of: NodeFault::Crash, node, lasts: lasting(random, 15) },
        60..78 => Fault::Node { of: NodeFault::PowerOff, node, lasts: lasting(random, 12) },
        _ => Fault::Snapshot { claims: random.random(), retention: lasting(random, 10) },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_says_what_happens_fault_3() {
        let draw = |seed| {
            let mut plan = Plan::new(seed);
            let faults: Vec<_> = (0..50).map(|_| (plan.pause(), plan.fault())).collect();
            (plan.sets(), faults)
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let mut plan = Plan::new(1);
        let kinds: BTreeSet<_> = (0..2000).map(|_| plan.fault().kind()).collect();
        assert_eq!(kinds.len(), 23, "{kinds:?}");
        for seed in 0..100 {
            let sets = Plan::new(seed).sets();
            assert!(sets[0].replicas == 1 && sets[1].claim, "{sets:?}");
        }
    }
}
