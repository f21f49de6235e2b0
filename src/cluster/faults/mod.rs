//! The part of faults that only this program can do (FAULT-1): crash and pause its actors, break its nodes and its store, and
//! fill volumes. The controller is [`operators::faults`].

mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use base::task::Tasks;
use jiff::Timestamp;
use operators::faults::{
    ActorFaults, FaultHooks, FaultPending, FillRequest, FillState, NodeFaults, StoreFault, Victim,
    VolumeChanged,
};
use store::Store;
use store::faults::DiskFault;

use super::actors::Actors;
use super::nodes::Nodes;
use volumes::FullVolumes;

/// The targets of faults.
pub(super) struct FaultTargets {
    actors: Arc<Actors>,
    nodes: Nodes,
    store: Store,
    data_dir: PathBuf,
    volumes: FullVolumes,
}

impl FaultTargets {
    /// Collects the targets. The effects on volumes end with `tasks`; file systems that contain `data_dir`, the
    /// directory of this control plane's own data, are never filled.
    pub(super) fn new(
        (actors, nodes, store): (Arc<Actors>, Nodes, Store),
        data_dir: PathBuf,
        tasks: &Tasks,
        changed: VolumeChanged,
    ) -> Self {
        let volumes = FullVolumes::new(tasks, &data_dir, changed);
        Self { actors, nodes, store, data_dir, volumes }
    }
}

impl FaultHooks for FaultTargets {
    fn actor_names(&self) -> BTreeSet<&'static str> {
        self.actors.names()
    }

    fn store_has_disk(&self) -> bool {
        self.store.has_disk()
    }

    fn nodes_dir(&self) -> PathBuf {
        self.data_dir.join("nodes")
    }

    fn set_actor_faults(&self, faults: ActorFaults) -> impl Future<Output = ()> + Send {
        self.actors.set_faults(faults)
    }

    fn set_node_faults(
        &self,
        faults: &NodeFaults,
    ) -> impl Future<Output = BTreeMap<String, FaultPending>> + Send {
        self.nodes.apply_faults(faults)
    }

    async fn kill_for_memory(
        &self,
        victim: &Victim,
        container: Option<&str>,
        until: Timestamp,
    ) -> Option<Result<usize, String>> {
        let kubelet = self.nodes.kubelet(&victim.node)?;
        let killed = kubelet.kill_for_memory(&victim.uid, container, until).await;
        Some(killed.map_err(|error| error.to_string()))
    }

    fn set_store_fault(&self, fault: &StoreFault) {
        let faults = self.store.faults();
        let (disk, refusal) = match fault {
            StoreFault::None => (DiskFault::None, None),
            StoreFault::Hangs => (DiskFault::Hang, None),
            StoreFault::Slow(delay) => (DiskFault::Slow(*delay), None),
            StoreFault::Refuses(why) => (DiskFault::None, Some(*why)),
        };
        faults.set_disk(disk);
        faults.refuse(refusal);
    }

    fn fill_volumes(&mut self, requests: &BTreeMap<String, FillRequest>) {
        self.volumes.apply(requests);
    }

    fn is_fill_requested(&self, of: &str) -> bool {
        self.volumes.is_requested(of)
    }

    fn fill_state(&self, of: &str) -> Option<FillState> {
        self.volumes.fill_state(of)
    }
}
