//! The dependencies of a node, and its start: its host process, its kubelet, its static pods.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::capacity;
use super::desired::{DesiredNode, Origin};
use super::fence_phase::fence_of;
use super::settings::ZoneDefaults;
use crate::addresses::AddressPlan;
use crate::config::ClusterConfig;
use crate::embedding::{EmbedOptions, PodBehaviorFn};
use crate::host_process::process_config;
use crate::network::PodNetwork;
use crate::node_settings::{REGION, ZONE};
use crate::static_pods;
use api::{Api, ApiError};
use base::task::Tasks;
use extension::node_fence::FencePhase;
use images::{Catalogue, Puller};
use kubelet::runtime::hollow::{BehaviorFn, ContainerBehavior, HollowRuntime};
use kubelet::runtime::{ProcessConfig, ProcessRuntime, Runtime, RuntimeError};
use kubelet::{Kubelet, Kubelets, NodeConfig};
use object::Key;
use object::low_ports::LowPorts;
use object::quantity::ResourceList;
use object::well_known::annotation::{PODIUM_CAPACITY, PODIUM_NODE};
use operators::faults::NodeFaults;
use reconcile::Recorder;

/// The zones to which nodes are assigned in turn, so that topology spread shows an effect.
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const REGION_NAME: &str = "local";

/// The state that all nodes share.
pub(super) struct NodeContext {
    pub(super) api: Api,
    pub(super) kubelets: Kubelets,
    pub(super) tasks: Tasks,
    pub(super) config: ClusterConfig,
    pub(super) embedding: EmbedOptions,
    pub(super) addresses: Arc<AddressPlan>,
    pub(super) network: PodNetwork,
    /// A note about the network's limitations, for every node with processes.
    pub(super) network_note: Option<String>,
    /// A note about the users of containers, for every node with processes.
    pub(super) users_note: Option<String>,
    /// The directory that contains each node's directory.
    pub(super) nodes_dir: PathBuf,
    /// The cluster's data directory.
    pub(super) data_dir: PathBuf,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) puller: Arc<Puller>,
    /// The capacity of a node with processes.
    pub(super) machine: ResourceList,
    pub(super) recorder: Recorder,
}

/// A node that runs.
pub(super) struct RunningNode {
    pub(super) name: String,
    pub(super) desired: DesiredNode,
    pub(super) index: usize,
    pub(super) kubelet: Kubelet,
    /// Runs the node's pods; ends after the kubelet.
    pub(super) host: Host,
    pub(super) tasks: Tasks,
    /// The uid of its Node object.
    pub(super) uid: String,
}

impl RunningNode {
    /// Applies the faults in force on this node that leave its kubelet running (pause, clock skew, disk), and heals
    /// others of these types.
    pub(super) fn suffer(&self, faults: &NodeFaults) {
        self.kubelet.set_skew_millis(faults.skews.get(&self.name).copied().unwrap_or_default());
        self.kubelet.set_disk_fault(faults.disks.get(&self.name).copied());
        if faults.paused.contains(&self.name) {
            self.tasks.pause();
            self.kubelet.pause();
        } else {
            self.resume();
        }
    }

    /// Resumes its kubelet.
    pub(super) fn resume(&self) {
        self.tasks.resume();
        self.kubelet.resume();
    }

    /// The node's host process; `None` for a hollow node.
    pub(super) fn process(&self) -> Option<&Arc<ProcessRuntime>> {
        match &self.host {
            Host::Process(runtime) => Some(runtime),
            Host::Hollow(_) => None,
        }
    }
}

/// The runtime of a node's pods.
#[derive(Clone)]
pub(super) enum Host {
    /// Processes.
    Process(Arc<ProcessRuntime>),
    /// No processes.
    Hollow(Arc<HollowRuntime>),
}

/// The default zone and region of a node with this index.
pub(super) fn zone_defaults(index: usize) -> ZoneDefaults {
    [(ZONE, ZONES[index % ZONES.len()]), (REGION, REGION_NAME)]
}

impl NodeContext {
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        self.nodes_dir.join(name)
    }

    /// Starts the host process of a node, or finds the running one.
    pub(super) async fn process(&self, name: &str, index: usize) -> Result<ProcessRuntime, RuntimeError> {
        self.api.hold_node(name);
        let fabric = self.network.fabric.as_ref();
        let network = fabric.map(|fabric| fabric.node(index, self.addresses.node(index)));
        let hidden = Some(self.data_dir.clone());
        let config = ProcessConfig { network, hidden, ..self.process_config(name)? };
        let runtime = ProcessRuntime::start(config, self.catalogue.clone()).await?;
        let runtime = runtime.with_puller(self.puller.clone());
        if let Some(fabric) = fabric {
            fabric.node_runs(self.addresses.node(index), runtime.sockets(), &self.tasks);
        }
        Ok(runtime)
    }

    /// Ends the host process of a node, if one runs, with all its processes; an error means that something may still
    /// run.
    pub(super) async fn end_process(&self, name: &str) -> Result<(), RuntimeError> {
        ProcessRuntime::end(self.process_config(name)?, self.catalogue.clone()).await
    }

    fn process_config(&self, name: &str) -> Result<ProcessConfig, RuntimeError> {
        let program = self.embedding.host_program.path();
        let program = program.map_err(|error| RuntimeError::Host(error.to_string()))?;
        Ok(process_config(&self.config, program, self.directory(name)))
    }

    pub(super) async fn host(&self, desired: &DesiredNode, index: usize) -> Result<Host, RuntimeError> {
        if !desired.hollow {
            return Ok(Host::Process(Arc::new(self.process(&desired.name, index).await?)));
        }
        let clock = self.api.clock().clone();
        // Each node has its own random failures.
        let mut runtime = self.config.file.hollow.clone();
        runtime.seed = runtime.seed.wrapping_add(index as u64);
        let now = Arc::new(move || clock.now());
        let director = directed(self.api.clone(), self.embedding.director.clone());
        let runtime = HollowRuntime::new(runtime, self.catalogue.clone(), now).with_behavior(director);
        Ok(Host::Hollow(Arc::new(runtime)))
    }

    /// Starts the kubelet of a node. If that fails, its containers continue to run, and the next attempt finds them.
    pub(super) async fn start(
        &self,
        desired: &DesiredNode,
        index: usize,
        host: Host,
    ) -> Result<RunningNode, String> {
        let runtime: Arc<dyn Runtime> = match &host {
            Host::Process(runtime) => runtime.clone(),
            Host::Hollow(runtime) => runtime.clone(),
        };
        if fence_of(&self.api, &desired.name) == Some(FencePhase::Fenced) {
            // A fenced node was declared dead: it must not start while any of its pods still runs.
            let found = runtime.list().await.map_err(|error| error.to_string())?;
            let living = found.iter().filter(|sandbox| sandbox.is_alive()).count();
            if living > 0 {
                return Err(format!("the node is fenced, and {living} of its pods still run"));
            }
        }
        let (kubelet, tasks, uid) = self.start_kubelet(desired, index, runtime).await?;
        let (name, desired) = (desired.name.clone(), desired.clone());
        Ok(RunningNode { name, desired, index, kubelet, host, tasks, uid })
    }

    async fn start_kubelet(
        &self,
        desired: &DesiredNode,
        index: usize,
        runtime: Arc<dyn Runtime>,
    ) -> Result<(Kubelet, Tasks, String), String> {
        let (name, hollow) = (desired.name.clone(), desired.hollow);
        if desired.origin == Origin::Object {
            self.save_requested_node(desired).map_err(|error| error.to_string())?;
        }
        let mut capacity = if hollow { capacity::hollow() } else { self.machine.clone() };
        capacity.extend(desired.capacity.clone());
        let manifests = match &self.config.file.static_pod_path {
            Some(path) => path.clone(),
            None => self.directory(&name).join("manifests"),
        };
        let addresses = &self.addresses;
        let (ip, pod_range) = if hollow {
            (AddressPlan::hollow_node(index), AddressPlan::hollow_pods(index))
        } else {
            (addresses.node(index), addresses.pods(index))
        };
        let config = NodeConfig {
            name: name.clone(),
            zone: Some(ZONES[index % ZONES.len()].into()),
            region: Some(REGION_NAME.into()),
            labels: BTreeMap::new(),
            // The node registers with its taints, so that no pod is scheduled before they exist. The follower applies
            // the other settings.
            taints: desired.taints.clone(),
            ip: ip.into(),
            pod_range,
            ipv6: addresses.v6().filter(|_| !hollow).and_then(|v6| v6.of_node(index)),
            capacity,
            pods_dir: self.directory(&name).join("pods"),
            seccomp_dir: self.data_dir.join("seccomp"),
            hollow,
            static_pods: if hollow { Vec::new() } else { static_pods::read(&manifests) },
            eviction: self.config.file.eviction.clone(),
            low_ports: if hollow { LowPorts::default() } else { self.network.low_ports },
            network_note: self.network_note.clone().filter(|_| !hollow),
            users_note: self.users_note.clone().filter(|_| !hollow),
            dns: self.network.dns,
            domain: self.config.file.cluster_domain.to_string(),
        };
        let kubelet = self.kubelets.start_node(config, runtime).await.map_err(|error| error.to_string())?;
        let tasks = self.tasks.child();
        if !hollow {
            let (clock, period) = (self.api.clock().clone(), self.api.timings().file_check_frequency.0);
            let follower = kubelet.clone();
            tasks.spawn_restarting("static pods", move || {
                static_pods::follow(follower.clone(), manifests.clone(), clock.clone(), period)
            });
        }
        // If the Node object is already deleted, the follower ends the node at its next check.
        let object = self.api.get_as::<Node>(&Key::new("", &name));
        if let (Ok(node), Some(note)) = (&object, self.network_note.as_ref().filter(|_| !hollow)) {
            let reason = if self.network.fabric.is_some() { "NetworkLimited" } else { "NetworkShared" };
            self.recorder.warning(node.object(), reason, note.clone());
        }
        if let (Ok(node), Some(note)) = (&object, self.users_note.as_ref().filter(|_| !hollow)) {
            self.recorder.warning(node.object(), "SingleUser", note.clone());
        }
        #[expect(clippy::disallowed_methods, reason = "no object has the uid of a deleted one")]
        let uid = object.map(|node| node.uid().to_string()).unwrap_or_default();
        Ok((kubelet, tasks, uid))
    }

    /// Records the request of a Node object in its annotations, before the kubelet takes over its status.
    fn save_requested_node(&self, desired: &DesiredNode) -> Result<(), ApiError> {
        let written = self.api.modify::<Node>(&Key::new("", &desired.name), |node| {
            let annotations = node.metadata.annotations.get_or_insert_default();
            let how = if desired.hollow { "hollow" } else { "process" };
            annotations.insert(PODIUM_NODE.into(), how.into());
            if !desired.capacity.is_empty() {
                let text = serde_json::to_string(&desired.capacity).expect("quantities have string keys");
                annotations.entry(PODIUM_CAPACITY.into()).or_insert(text);
            }
            Ok(())
        });
        written.map(drop)
    }
}

/// Returns a [`BehaviorFn`] that looks up a hollow container's pod and asks the director. If the Pod object is not that
/// of the sandbox, the configured behavior applies. Init containers always finish, since otherwise the pod's other
/// containers would never start.
fn directed(api: Api, director: Option<PodBehaviorFn>) -> BehaviorFn {
    Arc::new(move |sandbox, container| {
        let pod = api.get_as::<Pod>(&Key::new(sandbox.namespace.as_str(), sandbox.name.as_str()));
        let Some(pod) = pod.ok().filter(|pod| *pod.uid() == *sandbox.pod_uid) else {
            return ContainerBehavior::AsConfigured;
        };
        match (ContainerBehavior::of(&pod, &container.name), &director) {
            (ContainerBehavior::Finishes, _) => ContainerBehavior::Finishes,
            (_, Some(director)) => director(&pod, &container.name),
            (course, None) => course,
        }
    })
}
