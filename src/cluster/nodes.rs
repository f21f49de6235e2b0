//! Starts the kubelets of all nodes, real and hollow, and ends their pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tokio_util::sync::CancellationToken;

use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use super::data_dir::DataDir;
use super::network::PodNetwork;
use super::node_settings;
use super::start::StartError;
use super::static_pods;
use crate::api::{AddressRange, Api, DeleteOptions};
use crate::base::clock::Clock;
use crate::base::task::Tasks;
use crate::kubelet::images::Catalogue;
use crate::kubelet::runtime::hollow::HollowRuntime;
use crate::kubelet::runtime::{HostLife, ProcessConfig, ProcessRuntime, RuntimeError};
use crate::kubelet::{Kubelet, Kubelets, NodeConfig};
use crate::object::Kind;
use crate::object::low_ports::LowPorts;
use crate::object::quantity::{Amount, ResourceList};
use crate::reconcile::Caches;

/// Zones that nodes are dealt to in turn, so that spreading can be seen.
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const REGION: &str = "local";
/// Kubernetes' default.
const MAX_PODS: i64 = 110;

/// The kubelets of a cluster.
pub(super) struct Nodes {
    kubelets: Vec<Kubelet>,
    /// The runtimes with processes, which end after their kubelets.
    processes: Vec<Arc<ProcessRuntime>>,
    tasks: Tasks,
    clock: Clock,
    static_pod_check: Duration,
}

impl Nodes {
    pub(super) async fn start(
        api: &Api,
        caches: &Caches,
        tasks: &Tasks,
        config: &ClusterConfig,
        addresses: &AddressPlan,
        network: PodNetwork,
        data_dir: &DataDir,
    ) -> Result<Self, StartError> {
        let mut nodes = Self {
            kubelets: Vec::new(),
            processes: Vec::new(),
            tasks: tasks.clone(),
            clock: api.clock().clone(),
            static_pod_check: api.timings().static_pod_check.0,
        };
        if config.is_disabled("kubelet") {
            return Ok(nodes);
        }
        let catalogue = Arc::new(super::images::catalogue(&config.file.images, data_dir.path())?);
        let kubelets = Kubelets::new(api, caches, tasks);
        let machine = machine_capacity(data_dir);
        // Hosts take some milliseconds each to start: all at once.
        let runtimes = (0..config.nodes).map(|index| {
            let catalogue = catalogue.clone();
            async move { (index, process_runtime(index, config, data_dir, catalogue).await) }
        });
        for (index, runtime) in futures::future::join_all(runtimes).await {
            let name = node_name(index);
            let failed =
                |error: RuntimeError| StartError::Node { node: name.clone(), reason: error.to_string() };
            let runtime = Arc::new(runtime.map_err(failed)?);
            let setup = Setup {
                name: name.clone(),
                index,
                ip: addresses.node(index).into(),
                pod_range: addresses.pods(index),
                capacity: machine.clone(),
                network,
                hollow: false,
            };
            nodes.processes.push(runtime.clone());
            nodes.start_one(&kubelets, setup, config, data_dir, runtime).await?;
        }
        for index in 0..config.hollow_nodes {
            let clock = api.clock().clone();
            let runtime = HollowRuntime::new(
                config.file.hollow.runtime(index as u64),
                catalogue.clone(),
                Arc::new(move || clock.now()),
            );
            let setup = Setup {
                name: format!("hollow-{:05}", index + 1),
                index,
                ip: AddressPlan::hollow_node(index).into(),
                pod_range: AddressPlan::hollow_pods(index),
                capacity: hollow_capacity(),
                network: PodNetwork { low_ports: LowPorts::default(), ..network },
                hollow: true,
            };
            nodes.start_one(&kubelets, setup, config, data_dir, Arc::new(runtime)).await?;
        }
        nodes.remove_former(api, data_dir);
        nodes.follow_settings(api, config)?;
        Ok(nodes)
    }

    /// Removes the Node objects of an earlier start that had more nodes: nothing of them is left, and pods must
    /// neither stay on them nor be sent there (NODE-5).
    fn remove_former(&self, api: &Api, data_dir: &DataDir) {
        let started = |name: &str| self.kubelets.iter().any(|kubelet| kubelet.name() == name);
        for node in api.list_as::<Node>(None) {
            let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
            let runtime = info.map_or("", |i| i.container_runtime_version.as_str());
            let ours = runtime.starts_with("podium://") || runtime.starts_with("hollow://");
            if ours && !started(node.name()) {
                // Fails only when it is gone already.
                let _ = api.delete(Kind::Node, &node.key(), &DeleteOptions::uid(node.uid()));
            }
        }
        // Nor do their pods hold volumes any more.
        let places = std::fs::read_dir(data_dir.path().join("nodes")).into_iter().flatten().flatten();
        for place in places.filter(|place| !place.file_name().to_str().is_some_and(started)) {
            let pods = place.path().join("pods");
            tokio::task::spawn_blocking(move || std::fs::remove_dir_all(pods));
        }
    }

    /// Labels and taints come from the config file, now and whenever it changes.
    fn follow_settings(&self, api: &Api, config: &ClusterConfig) -> Result<(), StartError> {
        let settings = &config.file.nodes;
        node_settings::apply_all(api, settings)?;
        for settings in settings {
            if !self.kubelets.iter().any(|kubelet| kubelet.name() == settings.name) {
                tracing::warn!("the config file names a node {}, which there is not", settings.name);
            }
        }
        if let Some(path) = config.file_path.clone() {
            let (api, known, period) = (api.clone(), settings.clone(), self.static_pod_check);
            self.tasks.spawn_restarting("node settings", move || {
                node_settings::follow(api.clone(), path.clone(), known.clone(), period)
            });
        }
        Ok(())
    }

    async fn start_one(
        &mut self,
        kubelets: &Kubelets,
        setup: Setup,
        config: &ClusterConfig,
        data_dir: &DataDir,
        runtime: Arc<dyn crate::kubelet::runtime::Runtime>,
    ) -> Result<(), StartError> {
        let name = setup.name.clone();
        let eviction = config.file.eviction.clone();
        let manifests = match &config.file.static_pod_path {
            Some(path) => path.clone(),
            None => data_dir.path().join("nodes").join(&name).join("manifests"),
        };
        let config = NodeConfig {
            zone: Some(ZONES[setup.index % ZONES.len()].into()),
            region: Some(REGION.into()),
            labels: BTreeMap::new(),
            // From the first moment on: no pod may slip in. The rest is the follower's.
            taints: config
                .file
                .nodes
                .iter()
                .find(|n| n.name == name)
                .map_or_else(Vec::new, |n| n.taints.clone()),
            ip: setup.ip,
            pod_range: setup.pod_range,
            capacity: setup.capacity,
            pods_dir: data_dir.path().join("nodes").join(&name).join("pods"),
            hollow: setup.hollow,
            static_pods: if setup.hollow { Vec::new() } else { static_pods::read(&manifests) },
            eviction,
            low_ports: setup.network.low_ports,
            dns: setup.network.dns,
            domain: super::network::DOMAIN.into(),
            name: setup.name,
        };
        let started = kubelets.start_node(config, runtime).await;
        let kubelet = started.map_err(|error| StartError::Node { node: name, reason: error.to_string() })?;
        if !setup.hollow {
            let (clock, period) = (self.clock.clone(), self.static_pod_check);
            let follower = kubelet.clone();
            self.tasks.spawn_restarting("static pods", move || {
                static_pods::follow(follower.clone(), manifests.clone(), clock.clone(), period)
            });
        }
        self.kubelets.push(kubelet);
        Ok(())
    }

    /// Ends every pod of every node within its grace, then the nodes' hosts. `force` kills what is left.
    pub(super) async fn shutdown(&self, force: CancellationToken) {
        let all = futures::future::join_all(self.kubelets.iter().map(|kubelet| kubelet.shutdown(|_| {})));
        tokio::pin!(all);
        tokio::select! {
            _ = &mut all => {}
            () = force.cancelled() => {
                self.kubelets.iter().for_each(Kubelet::force);
                all.await;
            }
        }
        let ended = futures::future::join_all(self.processes.iter().map(|runtime| runtime.shutdown())).await;
        for error in ended.into_iter().filter_map(Result::err) {
            tracing::warn!("a node's host did not end cleanly: {error}");
        }
    }
}

/// What differs from node to node.
struct Setup {
    name: String,
    index: usize,
    ip: std::net::IpAddr,
    pod_range: AddressRange,
    capacity: ResourceList,
    network: PodNetwork,
    hollow: bool,
}

fn node_name(index: usize) -> String {
    format!("node-{}", index + 1)
}

async fn process_runtime(
    index: usize,
    config: &ClusterConfig,
    data_dir: &DataDir,
    catalogue: Arc<Catalogue>,
) -> Result<ProcessRuntime, RuntimeError> {
    let host = |error: String| RuntimeError::Host(error);
    let state_dir =
        data_dir.directory("nodes").map_err(|error| host(error.to_string()))?.join(node_name(index));
    let process = ProcessConfig {
        program: std::env::current_exe().map_err(|error| host(error.to_string()))?,
        state_dir,
        life: if config.ephemeral { HostLife::OfControlPlane } else { HostLife::Own },
        namespaces: config.file.namespaces,
        cgroups: config.file.cgroups,
        pod_pids_limit: config.file.pod_pids_limit,
    };
    ProcessRuntime::start(process, catalogue).await
}

fn quantities(list: [(&str, Quantity); 4]) -> ResourceList {
    list.map(|(name, amount)| (name.to_string(), amount)).into()
}

/// Every node offers the whole machine: they share it, as their pods do.
fn machine_capacity(data_dir: &DataDir) -> ResourceList {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as i64;
    let info = rustix::system::sysinfo();
    let memory = (info.totalram as i64).saturating_mul(i64::from(info.mem_unit.max(1)));
    let disk = rustix::fs::statvfs(data_dir.path())
        .map(|fs| (fs.f_blocks as i64).saturating_mul(fs.f_frsize as i64))
        .unwrap_or_default();
    let ki = |bytes: i64| Amount::from_units(bytes / 1024 * 1024).to_binary();
    quantities([
        ("cpu", Amount::from_units(cores).to_decimal()),
        ("memory", ki(memory)),
        ("ephemeral-storage", ki(disk)),
        ("pods", Amount::from_units(MAX_PODS).to_decimal()),
    ])
}

fn hollow_capacity() -> ResourceList {
    quantities([
        ("cpu", Quantity("32".into())),
        ("memory", Quantity("256Gi".into())),
        ("ephemeral-storage", Quantity("100Gi".into())),
        ("pods", Amount::from_units(MAX_PODS).to_decimal()),
    ])
}
