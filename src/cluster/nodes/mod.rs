//! The nodes of this process, real and hollow: their list, start and end.
//!
//! `desired` decides which nodes should run, `follow` reconciles while the cluster runs, `context` starts one and
//! `deprovision` ends one.

mod capacity;
mod cidr_allocator;
mod context;
mod deprovision;
mod desired;
mod faults;
mod fence_phase;
mod fencing;
mod file;
mod follow;
mod kubelets;
mod settings;
mod simulated_outage;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use super::data_dir::DataDir;
use super::embedding::EmbedOptions;
use super::error::StartError;
use super::image_garbage::Collector;
use super::network::PodNetwork;
use super::user_ids;
use api::controller_status::{ProbeSource, Subsystem};
use api::{Api, Change, ChangeKind, DeleteOptions};
use base::removal::remove_tree;
use base::task::Tasks;
pub use capacity::hollow as hollow_capacity;
use context::{NodeContext, RunningNode};
use desired::{DesiredNode, Origin};
use extension::node_fence::FencePhase;
use fence_phase::fence_of;
pub use file::parse_config;
use follow::{Follower, NodeSlot, NodeState, State};
use kubelet::Kubelet;
use kubelet::Kubelets;
use kubelet::runtime::RuntimeError;
use object::Kind;
use object::well_known::annotation::PODIUM_NODE;
use operators::faults::NodeFaults;
use reconcile::{Caches, Recorder, WorkLoop};

/// The field manager of nodes' writes, as in Kubernetes.
const KUBELET: &str = "kubelet";
/// The time that a forced stop leaves for processes to end by themselves.
const FORCED: Duration = Duration::from_secs(3);

/// The nodes of a cluster.
#[derive(Clone)]
pub struct Nodes {
    /// `None` if kubelets are disabled.
    follower: Option<Arc<Follower>>,
    /// The names of the nodes that ran when the start was complete.
    names: Vec<String>,
}

impl Nodes {
    pub(super) async fn start(
        (api, caches, tasks): (&Api, &Caches, &Tasks),
        (config, embedding): (&ClusterConfig, &EmbedOptions),
        (addresses, network, network_note): (&Arc<AddressPlan>, PodNetwork, Option<String>),
        data_dir: &DataDir,
        faults: NodeFaults,
    ) -> Result<Self, StartError> {
        if config.is_disabled("kubelet") {
            return Ok(Self { follower: None, names: Vec::new() });
        }
        let api = &api.acting_as(KUBELET);
        let images = super::images::images(&config.file, data_dir.path())?;
        let nodes_dir = data_dir.directory("nodes")?;
        let collector = Collector {
            store: images.store.clone(),
            nodes_dir: nodes_dir.clone(),
            config: config.file.image_garbage_collection,
            clock: api.clock().clone(),
        };
        collector.clone().start(tasks);
        let kubelets = Kubelets::new(api, caches, tasks);
        kubelets.set_image_removal(Box::new(move || collector.clone().remove_all_unused().boxed()));
        let context = NodeContext {
            api: api.clone(),
            kubelets,
            tasks: tasks.clone(),
            config: config.clone(),
            embedding: embedding.clone(),
            addresses: addresses.clone(),
            network,
            network_note,
            users_note: user_ids::note(data_dir, config.single_id.as_deref())?,
            nodes_dir,
            data_dir: data_dir.path().to_path_buf(),
            catalogue: Arc::new(images.catalogue),
            puller: Arc::new(images.puller),
            machine: capacity::machine(data_dir.path()),
            recorder: Recorder::new(api, "podium"),
        };
        let state = State {
            settings: config.file.nodes.clone(),
            declared: desired::declared(config.counts(&config.file), &config.file.nodes),
            faults,
            ..State::default()
        };
        let follower = Arc::new(Follower {
            context,
            state: Mutex::new(state),
            changed: Notify::new(),
            node_changed: Notify::new(),
        });
        let known: Arc<dyn ProbeSource> = follower.clone();
        api.add_controllers(&known);
        let names = follower.start_all().await?;
        follower.remove_former();
        follower.clone().follow(caches);
        Ok(Self { follower: Some(follower), names })
    }

    /// The names of the nodes that ran when the start was complete.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Counts the pods that still have something on a node whose kubelet runs.
    pub(super) fn live_pods(&self) -> usize {
        let Some(follower) = &self.follower else { return 0 };
        let state = follower.state.lock();
        let kubelets = state.slots.values().filter_map(|slot| match &slot.now {
            NodeState::Running(running) | NodeState::Ending(running) => Some(&running.kubelet),
            _ => None,
        });
        kubelets.map(Kubelet::live_pods).sum()
    }

    /// Ends every pod of every node within its grace period, then the nodes' hosts. Once `force` is cancelled,
    /// everything that still runs is killed.
    pub(super) async fn shutdown(&self, force: CancellationToken) {
        let Some(follower) = &self.follower else { return };
        follower.state.lock().closing = true;
        follower.resume_all();
        let (running, ending) = follower.wait_for_starts().await;
        let kubelets: Vec<Kubelet> =
            running.iter().chain(&ending).map(|running| running.kubelet.clone()).collect();
        let gently = async {
            // Pods that a runtime fails to end are ended by the shutdown of its host below.
            futures::future::join_all(running.iter().map(|running| running.kubelet.shutdown(|_| {}))).await;
            follower.ended().await;
            let crashed = follower.crashed();
            let processes = running.iter().chain(&crashed).filter_map(|running| running.process());
            let ended = futures::future::join_all(processes.map(|process| process.shutdown())).await;
            // A host that did not respond when this control plane started may still run pods.
            let unstarted = follower.unstarted();
            let ended_too =
                futures::future::join_all(unstarted.iter().map(|name| follower.context.end_process(name)));
            ended.into_iter().chain(ended_too.await).collect::<Vec<_>>()
        };
        let by_force = async {
            force.cancelled().await;
            kubelets.iter().for_each(Kubelet::force);
            follower.context.api.clock().sleep(FORCED).await;
        };
        tokio::select! {
            ended = gently => {
                for error in ended.into_iter().filter_map(Result::err) {
                    tracing::warn!("cannot stop the host of a node cleanly: {error}");
                }
            }
            () = by_force => {
                let follower = follower.clone();
                let _ = base::task::blocking(move || follower.kill()).await;
            }
        }
    }

    /// Returns a function that kills every node's host with all its processes, even if everything else hangs: it
    /// depends on no other task, and blocks for some seconds at most.
    pub(super) fn killer(&self) -> impl FnOnce() + Send + use<> {
        let follower = self.follower.clone();
        move || follower.iter().for_each(|follower| follower.kill())
    }
}

impl Follower {
    /// Kills the hosts of all nodes concurrently.
    fn kill(&self) {
        let Some(mut state) = self.state.try_lock_for(FORCED) else { return };
        state.closing = true;
        let hosts: Vec<_> = (state.slots.values())
            .filter_map(|slot| match &slot.now {
                NodeState::Running(running)
                | NodeState::Ending(running)
                | NodeState::Fencing(Some(running))
                | NodeState::Crashed(Some(running)) => running.process().cloned(),
                NodeState::Starting
                | NodeState::FailedUntil(_)
                | NodeState::Fencing(None)
                | NodeState::Crashed(None)
                | NodeState::Fenced
                | NodeState::Off => None,
            })
            .collect();
        drop(state);
        std::thread::scope(|scope| {
            for host in &hosts {
                scope.spawn(|| {
                    if let Err(error) = host.kill() {
                        tracing::error!("processes of a node may still run: {error}");
                    }
                });
            }
        });
    }

    /// Returns the nodes that could not be started, but whose hosts may run.
    fn unstarted(&self) -> Vec<String> {
        let state = self.state.lock();
        let unstarted = |slot: &NodeSlot| {
            matches!(
                slot.now,
                NodeState::FailedUntil(_) | NodeState::Fencing(None) | NodeState::Crashed(None)
            )
        };
        let failed = state.slots.iter().filter(|(_, slot)| unstarted(slot));
        let names = failed.map(|(name, _)| name.clone());
        names.filter(|name| self.context.directory(name).join("host.sock").exists()).collect()
    }

    /// Starts every desired node, and returns the names of those that run. If a node that only an object requests
    /// fails, or one whose host does not respond, it is retried in the background; any other failure is an error.
    async fn start_all(self: &Arc<Self>) -> Result<Vec<String>, StartError> {
        let objects = self.context.api.list_as::<Node>(None);
        let cidr = |name: &str| {
            let node = objects.iter().find(|node| node.name() == name)?;
            node.spec.as_ref()?.pod_cidr.clone()
        };
        let all: Vec<(DesiredNode, usize)> = {
            let mut state = self.state.lock();
            let mut all = state.declared.clone();
            let known: BTreeSet<String> = all.iter().map(|w| w.name.clone()).collect();
            all.extend(
                objects
                    .iter()
                    .filter_map(|node| desired::requested_node(node))
                    .filter(|w| !known.contains(&w.name)),
            );
            let reserve = |desired: DesiredNode| {
                let index =
                    state.reserve(&desired, cidr(&desired.name).as_deref(), &self.context.addresses)?;
                Some((desired, index))
            };
            let mut all: Vec<(DesiredNode, usize)> = all.into_iter().filter_map(reserve).collect();
            // A node whose fence has not verified its death is killed instead of started.
            all.retain(|(desired, _)| {
                let fence = fence_of(&self.context.api, &desired.name);
                let starts = fence.is_none_or(|phase| phase == FencePhase::Fenced);
                if !starts && let Some(slot) = state.slots.get_mut(&desired.name) {
                    slot.now = NodeState::Fencing(None);
                    self.context.api.hold_node(&desired.name);
                }
                if starts && state.keep_down(&desired.name) {
                    if !desired.hollow {
                        // Processes of an earlier control plane may still run on the node.
                        self.context.api.hold_node(&desired.name);
                    }
                    return false;
                }
                starts
            });
            all
        };
        let failed = |name: &str, reason: String| StartError::Node { node: name.to_string(), reason };
        // Each host takes some milliseconds to start, so all start concurrently.
        let hosts = all.iter().map(|(desired, index)| self.context.host(desired, *index));
        let hosts: Vec<Result<_, RuntimeError>> = futures::future::join_all(hosts).await;
        for ((desired, index), host) in all.iter().zip(hosts) {
            let is_silent = matches!(host, Err(RuntimeError::HostSilent(_)));
            let outcome = match host {
                Ok(host) => self.context.start(desired, *index, host).await,
                Err(error) => Err(error.to_string()),
            };
            match outcome {
                Err(reason) if desired.origin != Origin::Object && !is_silent => {
                    return Err(failed(&desired.name, reason));
                }
                outcome => self.started(desired, outcome),
            }
        }
        let running = |(desired, _): &(DesiredNode, usize)| {
            let runs = matches!(self.state.lock().slots.get(&desired.name)?.now, NodeState::Running(_));
            runs.then(|| desired.name.clone())
        };
        Ok(all.iter().filter_map(running).collect())
    }

    /// Removes nodes of an earlier start that this one does not have: their Node objects, so that pods neither stay on
    /// them nor are scheduled there, and the processes that a crash left (NODE-5, SAFE-3).
    fn remove_former(self: &Arc<Self>) {
        let known: BTreeSet<String> = self.state.lock().slots.keys().cloned().collect();
        for node in self.context.api.list_as::<Node>(None) {
            let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
            let runtime = info.map_or("", |i| i.container_runtime_version.as_str());
            let is_managed = runtime.starts_with("podium://") || runtime.starts_with("hollow://");
            if is_managed && !known.contains(node.name()) {
                // The deletion fails only if the object is already deleted.
                let _ = self.context.api.delete(Kind::Node, &node.key(), &DeleteOptions::uid(node.uid()));
            }
        }
        let entries = std::fs::read_dir(&self.context.nodes_dir).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            if !known.contains(&name) {
                if self.context.directory(&name).join("host.sock").exists() {
                    // The API keeps the node's pods until all its processes are known to be dead.
                    self.context.api.hold_node(&name);
                }
                let follower = self.clone();
                self.context.tasks.spawn("former node", async move { follower.clear(&name).await });
            }
        }
    }

    /// Ends the remaining processes of a removed node, and then releases its pods, so that they no longer occupy
    /// volumes.
    pub(super) async fn clear(&self, name: &str) {
        let directory = self.context.directory(name);
        if directory.join("host.sock").exists()
            && let Err(error) = self.context.end_process(name).await
        {
            tracing::error!(node = name, "cannot end the processes of the removed node: {error}");
            return;
        }
        self.context.api.release_node(name);
        let _ = base::task::blocking(move || remove_tree(&directory.join("pods"))).await;
    }

    /// Follows the objects and the config file from now on.
    fn follow(self: Arc<Self>, caches: &Caches) {
        let weak = Arc::downgrade(&self);
        caches.on_any_change(Kind::Node, move |change| {
            if concerns(change)
                && let Some(follower) = weak.upgrade()
            {
                follower.changed.notify_one();
            }
        });
        let follower = self.clone();
        let (api, tasks) = (&self.context.api, &self.context.tasks);
        let rounds = WorkLoop::start(api, "nodes", Subsystem::Cluster, tasks);
        tasks.spawn_restarting("nodes", move || follower.clone().run(rounds.clone()));
        if let Some(path) = self.context.config.file_path.clone() {
            let follower = self.clone();
            let rounds = WorkLoop::start(api, "config-file", Subsystem::Cluster, tasks);
            tasks.spawn_restarting("config file", move || {
                follower.clone().follow_file(path.clone(), rounds.clone())
            });
        }
    }

    /// Waits until no node is starting, and returns the running nodes and the ending ones.
    async fn wait_for_starts(&self) -> (Vec<Arc<RunningNode>>, Vec<Arc<RunningNode>>) {
        loop {
            let moved = self.node_changed.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            {
                let state = self.state.lock();
                let slots = || state.slots.values();
                if !slots().any(|slot| matches!(slot.now, NodeState::Starting)) {
                    let running = slots().filter_map(|slot| match &slot.now {
                        NodeState::Running(running) => Some(running.clone()),
                        _ => None,
                    });
                    let ending = slots().filter_map(|slot| match &slot.now {
                        NodeState::Ending(running) => Some(running.clone()),
                        _ => None,
                    });
                    return (running.collect(), ending.collect());
                }
            }
            moved.await;
        }
    }

    /// Returns when every ending node has ended.
    async fn ended(&self) {
        loop {
            let moved = self.node_changed.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if !self.state.lock().slots.values().any(|slot| matches!(slot.now, NodeState::Ending(_))) {
                return;
            }
            moved.await;
        }
    }
}

/// Returns true if a change of a Node object may start or end a node: most heartbeats do not.
fn concerns(change: &Change) -> bool {
    let has_annotation =
        || change.object.meta().annotations.iter().flatten().any(|(key, _)| key == PODIUM_NODE);
    change.kind == ChangeKind::Deleted || has_annotation()
}
