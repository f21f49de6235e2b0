//! The state of a hollow node: its pods, and the times at which containers end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::time::Instant;

use super::HollowLoad;
use crate::runtime::events::EventSource;
use crate::runtime::{
    ContainerExit, ContainerId, ContainerRecord, PodUid, RuntimeError, RuntimeEvent, SandboxRecord,
    SandboxSpec, Usage,
};
use base::sort::CollectMap;

pub(super) struct State {
    pub(super) pods: BTreeMap<PodUid, Pod>,
    pub(super) containers: BTreeMap<ContainerId, PodUid>,
    /// The containers' simulated usage, by pod and name.
    pub(super) loads: BTreeMap<(PodUid, String), HollowLoad>,
    /// Pods whose readiness probes fail.
    pub(super) unready: BTreeSet<PodUid>,
    /// Planned ends, earliest first.
    pub(super) ends: BinaryHeap<Reverse<(Instant, ContainerId, i32)>>,
    pub(super) random: SmallRng,
    /// The task that ends containers runs.
    pub(super) ending: bool,
    pub(super) events: EventSource,
}

pub(super) struct Pod {
    pub(super) spec: SandboxSpec,
    pub(super) created_at: Timestamp,
    pub(super) ready: bool,
    pub(super) containers: Vec<ContainerRecord>,
}

impl Pod {
    pub(super) fn record(&self) -> SandboxRecord {
        SandboxRecord {
            spec: self.spec.clone(),
            created_at: self.created_at,
            ready: self.ready,
            containers: self.containers.clone(),
        }
    }
}

impl State {
    /// Creates a state without pods; events are dropped until the kubelet subscribes.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            pods: BTreeMap::new(),
            containers: BTreeMap::new(),
            loads: BTreeMap::new(),
            unready: BTreeSet::new(),
            ends: BinaryHeap::new(),
            random: SmallRng::seed_from_u64(seed),
            ending: false,
            events: EventSource::default(),
        }
    }

    pub(super) fn container(&mut self, id: &ContainerId) -> Result<&mut ContainerRecord, RuntimeError> {
        let not_found = || RuntimeError::NotFound(format!("container {}", id.0));
        let pod = self.containers.get(id).and_then(|uid| self.pods.get_mut(uid)).ok_or_else(not_found)?;
        pod.containers.iter_mut().find(|container| container.id == *id).ok_or_else(not_found)
    }

    /// The usage of the pod's running containers: zero, unless a load was set.
    pub(super) fn usage(&self, pod: &Pod, now: Timestamp) -> BTreeMap<String, Usage> {
        let running = pod.containers.iter().filter(|container| container.exit.is_none());
        running
            .map(|container| {
                let load = self
                    .loads
                    .get(&(pod.spec.pod_uid.clone(), container.name.clone()))
                    .copied()
                    .unwrap_or_default();
                let millis = base::clock::since(now, container.started_at).as_millis();
                let cpu_millis = millis * u128::from(load.cpu_millicores) / 1000;
                let usage = Usage {
                    cpu_time: Duration::from_millis(u64::try_from(cpu_millis).unwrap_or(u64::MAX)),
                    memory_bytes: load.memory_bytes,
                    processes: load.processes,
                };
                (container.name.clone(), usage)
            })
            .collect_map()
    }

    /// Ends a running container; has no effect on one that has ended.
    pub(super) fn end(&mut self, id: &ContainerId, exit_code: i32, signal: Option<i32>, now: Timestamp) {
        let Ok(container) = self.container(id) else { return };
        if container.exit.is_none() {
            let oom_killed = false;
            container.exit =
                Some(ContainerExit { exit_code, signal, oom_killed, finished_at: now, message: None });
            if let Some(pod) = self.containers.get(id).cloned() {
                self.events.emit(RuntimeEvent::PodChanged(pod));
            }
        }
    }

    /// Ends a running container as the kernel does when memory runs out.
    pub(super) fn end_for_memory(&mut self, id: &ContainerId, now: Timestamp) -> Result<(), RuntimeError> {
        if self.container(id)?.exit.is_none() {
            self.end(id, 137, Some(9), now);
            if let Some(exit) = &mut self.container(id)?.exit {
                exit.oom_killed = true;
            }
        }
        Ok(())
    }
}
