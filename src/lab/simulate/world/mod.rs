//! The simulated world: a disk, nodes with their running containers, and a control plane that crashes and restarts.
//!
//! The control plane is the one that `podium` runs: store, API, controllers, scheduler, kubelets. As in reality, the
//! disk and the processes of nodes survive its crashes; here these processes are hollow.

mod runner;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use runner::Runner;

use super::plan::NODES;
use super::trace::Trace;
use api::{Api, ApiConfig};
use apiserver::{Credentials, Server, ServerConfig};
use base::clock::Clock;
use base::task::Tasks;
use cluster::{bootstrap, hollow_addresses, hollow_capacity, in_process, start_housekeeping};
use controllers::{Controllers, Settings};
use images::Catalogue;
use kubelet::pressure::EvictionConfig;
use kubelet::runtime::hollow::{BehaviorFn, ContainerBehavior, HollowConfig, HollowRuntime};
use kubelet::{Kubelet, Kubelets, NodeConfig};
use object::Revision;
use object::config::Seconds;
use object::low_ports::LowPorts;
use object::well_known::label;
use operators::definitions;
use operators::fencing::{self, FenceError, NodeRunState};
use reconcile::Caches;
use scheduler::{Scheduler, SchedulerConfig};
use store::{SimulatedDisk, Store};

/// The wall clock time at which simulations begin.
const EPOCH: &str = "2026-11-21T00:00:00Z";
/// The time that a container takes to start.
const START: Duration = Duration::from_millis(300);
/// The time that a container takes to end after its kubelet stops it.
const STOP: Duration = Duration::from_secs(2);
/// The time between the fencing of a node and the death of all its processes.
const DEATH: Duration = Duration::from_secs(2);
/// The address that the API announces.
const API_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);
const API_SERVICE: Ipv4Addr = Ipv4Addr::new(127, 32, 0, 1);

/// The state of one simulated cluster.
pub(super) struct World {
    me: Weak<Self>,
    pub(super) clock: Clock,
    pub(super) trace: Trace,
    pub(super) disk: SimulatedDisk,
    nodes: Mutex<Vec<Machine>>,
    plane: Mutex<Option<Arc<ControlPlane>>>,
    /// The number of faults under way that run each controller twice.
    twins: Mutex<usize>,
    /// The number of faults so far that ran each controller twice.
    twins_started: AtomicU64,
    /// The number of starts and ends of control planes.
    changes: watch::Sender<u64>,
}

/// A machine that runs one node.
struct Machine {
    runtime: Arc<HollowRuntime>,
    has_power: bool,
    is_cut_off: bool,
    hangs: bool,
}

/// One run of the control plane.
pub(super) struct ControlPlane {
    pub(super) store: Store,
    pub(super) api: Api,
    pub(super) caches: Caches,
    /// A client that reaches the API over HTTP, through a pipe.
    pub(super) client: kube::Client,
    /// The revision on the disk when the control plane started.
    pub(super) start_revision: Revision,
    tasks: Tasks,
    /// Ends the open HTTP requests, such as watches, when it is cancelled.
    stopping: CancellationToken,
    kubelets: Kubelets,
    nodes: Mutex<BTreeMap<usize, Kubelet>>,
    /// Nodes with kubelets that are about to start.
    starting: Mutex<BTreeSet<usize>>,
    /// Fenced nodes; true once all their processes are known to be dead.
    fenced: Mutex<BTreeMap<usize, bool>>,
    twins: Mutex<Option<(Tasks, Controllers)>>,
    _controllers: Controllers,
    _scheduler: Scheduler,
}

/// Returns the number of the node with this name.
pub(super) fn node_of(name: &str) -> Option<usize> {
    name.strip_prefix("node-")?.parse().ok().filter(|node| *node < NODES)
}

pub(super) fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn settings() -> Settings {
    Settings { root_certificate: "simulated".into(), ..Settings::default() }
}

impl World {
    /// Returns machines with power, an empty disk and no control plane.
    pub(super) fn new() -> Arc<Self> {
        let clock = Clock::starting_at(EPOCH.parse().expect("EPOCH is a valid time"));
        let nodes = (0..NODES).map(|node| Machine::new(node, &clock)).collect();
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            clock,
            trace: Trace::new(),
            disk: SimulatedDisk::new(),
            nodes: Mutex::new(nodes),
            plane: Mutex::default(),
            twins: Mutex::default(),
            twins_started: AtomicU64::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Returns the control plane, if one runs.
    pub(super) fn plane(&self) -> Option<Arc<ControlPlane>> {
        self.plane.lock().clone()
    }

    /// Returns a receiver that wakes when a control plane starts or ends.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Starts a control plane from the state on the disk.
    pub(super) async fn start(&self) -> Result<(), String> {
        let store = self.disk.open().map_err(|error| error.to_string())?;
        let start_revision = store.revision();
        let config = ApiConfig {
            // The tokens and certificates of service accounts do not matter to the checks, and would be half of all
            // writes.
            disabled_admission: vec!["ServiceAccount".into()],
            ..ApiConfig::default()
        };
        let api = Api::new(store.clone(), self.clock.clone(), config);
        bootstrap(&api, API_ADDRESS, API_SERVICE).map_err(|error| format!("{error:?}"))?;
        let tasks = Tasks::new();
        start_housekeeping(&api, &tasks);
        let caches = Caches::new(&api, &tasks);
        let scheduler = Scheduler::new(&api.acting_as("kube-scheduler"), &caches, SchedulerConfig::default());
        scheduler.run(&tasks);
        let controllers =
            Controllers::start(&api.acting_as("kube-controller-manager"), &caches, &tasks, settings());
        let kubelets = Kubelets::new(&api.acting_as("kubelet"), &caches, &tasks);
        let stopping = CancellationToken::new();
        let server =
            Server::new(api.clone(), Credentials::new(""), stopping.clone(), ServerConfig::default());
        let plane = Arc::new(ControlPlane {
            store,
            api,
            caches,
            client: in_process(server, HeaderMap::new()),
            start_revision,
            tasks,
            stopping,
            kubelets,
            nodes: Mutex::default(),
            starting: Mutex::default(),
            fenced: Mutex::default(),
            twins: Mutex::default(),
            _controllers: controllers,
            _scheduler: scheduler,
        });
        let runner = Runner::new(self.me.clone(), Arc::downgrade(&plane));
        definitions::start(&plane.api, &plane.caches, &plane.tasks);
        fencing::start(&plane.api, &plane.caches, &plane.tasks, &runner);
        *self.plane.lock() = Some(plane.clone());
        self.changes.send_modify(|changes| *changes += 1);
        self.trace.record(format!("control plane starts at revision {start_revision}"));
        for node in 0..NODES {
            self.connect(node).await;
        }
        Ok(())
    }

    /// Crashes the control plane: its store refuses all further writes, and its tasks end.
    pub(super) async fn crash(&self, keeps_what_is_under_way: bool) {
        let Some(plane) = self.plane.lock().take() else { return };
        plane.store.faults().fail_after(Some(0));
        self.disk.crash(keeps_what_is_under_way);
        self.trace.record(format!("control plane crashes at revision {}", plane.store.revision()));
        self.changes.send_modify(|changes| *changes += 1);
        if let Some((twins, _)) = plane.twins.lock().take() {
            twins.cancel();
        }
        let kubelets = std::mem::take(&mut *plane.nodes.lock());
        plane.stopping.cancel();
        plane.tasks.stop().await;
        drop(kubelets);
        plane.api.clear();
    }

    /// Returns a node's runtime if its kubelet may run: the machine has power and a connection, its runtime answers,
    /// and the node is not fenced.
    fn runtime_of(&self, plane: &ControlPlane, node: usize) -> Option<Arc<HollowRuntime>> {
        let machine = &self.nodes.lock()[node];
        let is_out = !machine.has_power || machine.is_cut_off || machine.hangs;
        (!is_out && !plane.fenced.lock().contains_key(&node)).then(|| machine.runtime.clone())
    }

    /// Starts a node's kubelet, if it may run.
    async fn connect(&self, node: usize) {
        let Some(plane) = self.plane() else { return };
        if plane.nodes.lock().contains_key(&node) || !plane.starting.lock().insert(node) {
            return;
        }
        while let Some(runtime) = self.runtime_of(&plane, node) {
            match plane.kubelets.start_node(node_config(node), runtime.clone()).await {
                Ok(kubelet) => {
                    // The node may have failed, been fenced or been restarted while its kubelet started.
                    let still = self.runtime_of(&plane, node);
                    if still.is_some_and(|still| Arc::ptr_eq(&still, &runtime)) {
                        plane.nodes.lock().insert(node, kubelet);
                        break;
                    }
                    kubelet.detach().await;
                }
                // The API refuses writes, or the control plane has ended. Like a real kubelet, this retries.
                Err(error) => {
                    self.trace.record(format!("{} does not start: {error}", node_name(node)));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    if !self.is_current(&plane) {
                        break;
                    }
                }
            }
        }
        plane.starting.lock().remove(&node);
    }

    fn is_current(&self, plane: &Arc<ControlPlane>) -> bool {
        self.plane().is_some_and(|current| Arc::ptr_eq(&current, plane))
    }

    /// Returns [`NodeRunState::Running`] if the node's kubelet runs.
    pub(super) fn run_state(plane: &ControlPlane, node: usize) -> NodeRunState {
        if plane.nodes.lock().contains_key(&node) { NodeRunState::Running } else { NodeRunState::Down }
    }

    /// Fences a node: stops its kubelet and kills all its processes, which takes a moment.
    pub(super) async fn kill_for_certain(&self, plane: &ControlPlane, node: usize) -> Result<(), FenceError> {
        let name = node_name(node);
        if plane.starting.lock().contains(&node) {
            return Err(FenceError::Busy(name));
        }
        {
            let mut fenced = plane.fenced.lock();
            if fenced.get(&node) == Some(&true) {
                return Ok(());
            }
            fenced.insert(node, false);
        }
        plane.api.hold_node(&name);
        let kubelet = plane.nodes.lock().remove(&node);
        if let Some(kubelet) = kubelet {
            kubelet.detach().await;
        }
        tokio::time::sleep(DEATH).await;
        let runtime = {
            let machine = &self.nodes.lock()[node];
            if machine.hangs {
                return Err(FenceError::MayLive(name, "its runtime does not answer".into()));
            }
            machine.runtime.clone()
        };
        runtime.kill_all().map_err(|error| FenceError::MayLive(name.clone(), error.to_string()))?;
        // If the node was taken back meanwhile, it has no entry in `fenced`, and must not get one.
        if let Some(is_dead) = plane.fenced.lock().get_mut(&node) {
            *is_dead = true;
        }
        plane.api.release_node(&name);
        self.trace.record(format!("{name} is fenced: all that ran there is dead"));
        Ok(())
    }

    /// Takes a fenced node back.
    pub(super) fn take_back(&self, plane: &Arc<ControlPlane>, node: usize) {
        if plane.fenced.lock().remove(&node).is_some() {
            plane.api.release_node(&node_name(node));
        }
        if let Some(world) = self.me.upgrade().filter(|_| self.is_current(plane)) {
            tokio::spawn(async move { world.connect(node).await });
        }
    }

    async fn disconnect(&self, node: usize) {
        let kubelet = self.plane().and_then(|plane| plane.nodes.lock().remove(&node));
        if let Some(kubelet) = kubelet {
            kubelet.detach().await;
        }
    }

    /// Cuts a node's power, which kills everything that runs there; returns false if the power was already cut.
    pub(super) async fn power_off(&self, node: usize) -> bool {
        {
            let machine = &mut self.nodes.lock()[node];
            if !machine.has_power {
                return false;
            }
            machine.has_power = false;
            machine.runtime = Machine::new(node, &self.clock).runtime;
        }
        self.disconnect(node).await;
        true
    }

    /// Restores a node's power.
    pub(super) async fn power_on(&self, node: usize) {
        self.nodes.lock()[node].has_power = true;
        self.connect(node).await;
    }

    /// Cuts a node's kubelet off from the API; its containers continue to run. Returns false if it was already cut off.
    pub(super) async fn cut_off(&self, node: usize) -> bool {
        if std::mem::replace(&mut self.nodes.lock()[node].is_cut_off, true) {
            return false;
        }
        self.disconnect(node).await;
        true
    }

    /// Reconnects a node's kubelet to the API.
    pub(super) async fn heal(&self, node: usize) {
        self.nodes.lock()[node].is_cut_off = false;
        self.connect(node).await;
    }

    /// Makes a node's runtime hang, or answer again.
    pub(super) async fn hang(&self, node: usize, hangs: bool) {
        {
            let machine = &mut self.nodes.lock()[node];
            machine.hangs = hangs;
            machine.runtime.faults().set_answering(!hangs);
        }
        self.connect(node).await;
    }

    /// Returns the pods with running containers: the node, and the pod's namespace, name and uid.
    pub(super) fn running(&self) -> Vec<(usize, (String, String, String))> {
        let nodes = self.nodes.lock();
        let powered = nodes.iter().enumerate().filter(|(_, machine)| machine.has_power);
        powered
            .flat_map(|(node, machine)| {
                machine.runtime.running_pods().into_iter().map(move |pod| (node, pod))
            })
            .collect()
    }

    /// Makes the containers of a running pod fail; the number chooses the pod. Returns the pod's name.
    pub(super) fn exit_some(&self, number: usize) -> Option<String> {
        let running = self.running();
        let (node, (_, name, uid)) = running.get(number.checked_rem(running.len())?)?;
        let runtime = self.nodes.lock()[*node].runtime.clone();
        runtime.exit_containers(uid, None, 1);
        Some(name.clone())
    }

    /// Starts or ends a fault that runs each controller twice; another one may still be under way.
    pub(super) fn set_twins(&self, run: bool) {
        let goes_on = {
            let mut twins = self.twins.lock();
            self.twins_started.fetch_add(u64::from(run), Ordering::Relaxed);
            *twins = if run { *twins + 1 } else { twins.saturating_sub(1) };
            *twins > 0
        };
        if run || !goes_on {
            self.run_twins(run);
        }
    }

    /// Returns true if a second copy of each controller runs.
    pub(super) fn has_twins(&self) -> bool {
        *self.twins.lock() > 0
    }

    /// Returns the number of faults so far that ran each controller twice.
    pub(super) fn twins_started(&self) -> u64 {
        self.twins_started.load(Ordering::Relaxed)
    }

    /// Stops the second copies of the controllers, no matter how many faults requested them.
    pub(super) fn end_twins(&self) {
        *self.twins.lock() = 0;
        self.run_twins(false);
    }

    fn run_twins(&self, run: bool) {
        let Some(plane) = self.plane() else { return };
        let before = plane.twins.lock().take();
        if let Some((twins, _)) = before {
            twins.cancel();
        }
        if run {
            let tasks = Tasks::new();
            let caches = Caches::new(&plane.api, &tasks);
            let api = plane.api.acting_as("kube-controller-manager");
            let controllers = Controllers::start(&api, &caches, &tasks, settings());
            *plane.twins.lock() = Some((tasks, controllers));
        }
    }
}

impl Machine {
    fn new(node: usize, clock: &Clock) -> Self {
        let config = HollowConfig {
            start_delay: Seconds(START),
            stop_duration: Seconds(STOP),
            seed: u64::try_from(node).unwrap_or(0),
            ..HollowConfig::default()
        };
        let clock = clock.clone();
        let catalogue = Arc::new(Catalogue::new(Vec::new(), "simulated"));
        let runtime = HollowRuntime::new(config, catalogue, Arc::new(move || clock.now()));
        let runtime = Arc::new(runtime.with_behavior(director()));
        Self { runtime, has_power: true, is_cut_off: false, hangs: false }
    }
}

/// Returns a function that ends containers with the image `ends:SECONDS` after this number of seconds.
fn director() -> BehaviorFn {
    Arc::new(|_, container| {
        let seconds = container.image.strip_prefix("ends:").and_then(|seconds| seconds.parse().ok());
        seconds.map_or(ContainerBehavior::AsConfigured, |seconds| ContainerBehavior::Ends {
            after: Duration::from_secs(seconds),
            exit_code: 0,
        })
    })
}

fn node_config(node: usize) -> NodeConfig {
    let name = node_name(node);
    let (ip, pod_range) = hollow_addresses(node);
    NodeConfig {
        labels: BTreeMap::from([(label::HOSTNAME.to_owned(), name.clone())]),
        name,
        zone: Some(format!("zone-{}", node % 2)),
        region: None,
        taints: Vec::new(),
        ip: ip.into(),
        pod_range,
        ipv6: None,
        capacity: hollow_capacity(),
        pods_dir: "/nonexistent/podium-simulate".into(),
        seccomp_dir: "/nonexistent/podium-simulate".into(),
        hollow: true,
        static_pods: Vec::new(),
        eviction: EvictionConfig::default(),
        low_ports: LowPorts::default(),
        network_note: None,
        users_note: None,
        dns: None,
        domain: "cluster.local".into(),
    }
}
