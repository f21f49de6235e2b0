//! The pods' own network of this cluster. Finds, starts and restarts the fabric's process, and has the descriptor of
//! the control plane's leaf.

use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use parking_lot::Mutex;
use rustix::io::FdFlags;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use super::addresses::NetworkRanges;
use super::node_register::NodeRegister;
use api::Api;
use api::controller_status::Subsystem;
use base::backoff::BackoffPolicy;
use base::dial::{Dial, Dialer, LocalDialer, connected};
use base::task::Tasks;
use egress::{Destinations, EgressConfig, EgressListeners, HostPorts, OpenDetourFn, RefuseFn};
use fabric::conntrack::Conntrack;
use fabric::descriptors::AT_ONCE;
use fabric::nft::{Family, Nft};
use fabric::{
    Fabric, FabricError, LeafSpec, Namespaces, RouterConfig, SYN_DETOUR_SLOT, SocketKind, SocketSpec, set_up,
};
use kubelet::runtime::{NodeNetwork, NodeSockets};
use network::faults::Detours;
use reconcile::WorkLoop;
use services::proxy::NodeNetworks;

/// The name of the control plane's leaf.
const CONTROL_PLANE: &str = "control-plane";
/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// The message for `podium shell`s in the network when it ends.
const NOTICE: &str = "podium: the cluster has stopped, and its network too; this shell ends";
/// The time that processes in the network get to exit after the hangup signal, unless the stop is forced.
pub(super) const HANG_UP: Duration = Duration::from_secs(2);
/// The delay before a process that died is restarted.
const RESTART_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(10), max: Duration::from_secs(10) };
/// The interval at which the process is checked.
const LOOK: Duration = Duration::from_millis(500);

/// The parameters of the network.
#[derive(Clone, Debug)]
pub(super) struct FabricConfig {
    /// The binary that knows the `fabric` subcommand.
    pub(super) program: PathBuf,
    /// The directory of the fabric process's socket and log.
    pub(super) directory: PathBuf,
    pub(super) ranges: NetworkRanges,
    /// The largest packet of a pod, in bytes.
    pub(super) mtu: u32,
    /// The time after which the fabric's process exits if neither a control plane nor a node's host is connected.
    pub(super) unclaimed: Duration,
}

/// The network of a running cluster.
pub(super) struct ClusterFabric {
    config: FabricConfig,
    /// The connection to the fabric's process.
    connection: Mutex<Arc<Fabric>>,
    /// The descriptors that a new fabric process gets if the current one dies.
    handles: FabricHandles,
    /// True once the network has been stopped. Locked while a process is started or stopped, so that none starts after
    /// the stop.
    stopped: Mutex<bool>,
    /// Unused sockets of the control plane's leaf.
    ready: Mutex<Vec<OwnedFd>>,
    /// The networks of the nodes that run here.
    nodes: NodeRegister,
}

/// The descriptors that keep the network's namespaces alive.
struct FabricHandles {
    namespaces: Namespaces,
    control_plane: OwnedFd,
}

impl ClusterFabric {
    /// Connects to the cluster's network, or creates it. If its process died together with the previous control plane,
    /// `before` has the network's namespaces, which the nodes' hosts retained.
    pub(super) fn start(config: FabricConfig, before: Option<&Namespaces>) -> Result<Self, FabricError> {
        let connection = config.find_or_start(before)?;
        let route = connection.socket(&SocketSpec::new(SocketKind::Route))?;
        set_up(route, &RouterConfig { own: Vec::new(), cluster: ranges_of(&config.ranges) })?;
        connection.leaf(config.control_plane())?;
        let held = FabricHandles {
            namespaces: connection.namespaces()?,
            control_plane: connection.leaf_namespace(CONTROL_PLANE)?,
        };
        let connection = Mutex::new(Arc::new(connection));
        Ok(Self {
            config,
            connection,
            handles: held,
            stopped: Mutex::new(false),
            ready: Mutex::default(),
            nodes: NodeRegister::default(),
        })
    }

    /// The control plane's IPv4 address inside the network.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.config.control_plane_address()
    }

    /// The control plane's addresses inside the network, one of each family.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.config.control_plane().addresses
    }

    /// Listens on one of the control plane's addresses. Connections wait while there is no control plane.
    pub(super) fn listen(&self, at: SocketAddr) -> Result<TcpListener, FabricError> {
        let spec = own(if at.is_ipv4() { SocketKind::TcpV4 } else { SocketKind::TcpV6 });
        let spec = SocketSpec { bind: Some(at), listen: Some(BACKLOG), ..spec };
        let socket = self.connection().socket(&spec)?;
        TcpListener::from_std(socket.into()).map_err(self::at("listen"))
    }

    /// Opens a UDP socket. The fabric's process does not retain it for the next control plane.
    pub(super) fn datagrams(&self, at: SocketAddr) -> Result<UdpSocket, FabricError> {
        let spec = own(if at.is_ipv4() { SocketKind::UdpV4 } else { SocketKind::UdpV6 });
        let socket = self.connection().socket(&SocketSpec { bind: Some(at), ..spec })?;
        UdpSocket::from_std(socket.into()).map_err(self::at("datagrams"))
    }

    /// Opens a connection to nftables in this network.
    pub(super) fn nft(&self) -> Result<Nft, FabricError> {
        Nft::new(self.connection().socket(&SocketSpec::new(SocketKind::Netfilter))?)
    }

    /// Checks that the kernel supports the rules for IPv6; the error names the rule that the kernel refuses.
    pub(super) fn takes_ipv6(&self) -> Result<(), FabricError> {
        network::rules::try_ipv6(&self.nft()?)
    }

    /// Opens a connection to conntrack in this network.
    pub(super) fn conntrack(&self) -> Result<Conntrack, FabricError> {
        Ok(Conntrack::new(self.connection().socket(&SocketSpec::new(SocketKind::Netfilter))?))
    }

    /// The detour of starting egress connections, and a function that opens it again.
    pub(super) fn open_syn_detour(self: &Arc<Self>) -> Result<(OwnedFd, OpenDetourFn), FabricError> {
        let fabric = self.clone();
        let open = move || fabric.connection().detour(SYN_DETOUR_SLOT);
        Ok((open()?, Arc::new(open)))
    }

    /// Opens the egress of the network; pods' connections wait while there is no control plane.
    pub(super) fn open_egress(
        self: &Arc<Self>,
        refuse: RefuseFn,
        host: HostPorts,
        beginnings: Option<(OwnedFd, OpenDetourFn)>,
        descriptors: usize,
    ) -> Result<EgressConfig, FabricError> {
        let door = |kind, address, listen| {
            let spec = SocketSpec { transparent: true, bind: Some(address), listen, ..SocketSpec::new(kind) };
            self.connection().socket(&spec)
        };
        let mut doors = Vec::new();
        for family in self.families() {
            let [tcp, udp] = match family {
                Family::V4 => [SocketKind::TcpV4, SocketKind::UdpV4],
                Family::V6 => [SocketKind::TcpV6, SocketKind::UdpV6],
            };
            let [connections, datagrams] = egress::listener_addresses(family);
            let connections = door(tcp, connections, Some(BACKLOG))?;
            let datagrams = door(udp, datagrams, None)?;
            doors.push(EgressListeners {
                connections: TcpListener::from_std(connections.into()).map_err(at("egress"))?,
                datagrams: UdpSocket::from_std(datagrams.into()).map_err(at("egress"))?,
            });
        }
        let fabric = self.clone();
        let open = move |address: SocketAddr| {
            let kind = if address.is_ipv4() { SocketKind::UdpV4 } else { SocketKind::UdpV6 };
            let spec = SocketSpec { transparent: true, bind: Some(address), ..SocketSpec::new(kind) };
            fabric.connection().socket(&spec).map(Into::into).map_err(io::Error::other)
        };
        Ok(EgressConfig {
            listeners: doors,
            syn_detour: beginnings,
            open: Arc::new(open),
            refuse,
            destinations: Destinations { cluster: self.ranges(), host },
            descriptors,
        })
    }

    /// All address ranges of the cluster.
    pub(super) fn ranges(&self) -> Vec<IpNet> {
        ranges_of(&self.config.ranges)
    }

    /// The ranges of pods, of each family.
    pub(super) fn pod_ranges(&self) -> Vec<IpNet> {
        let NetworkRanges { pods, v6, .. } = self.config.ranges;
        std::iter::once(pods.into()).chain(v6.map(|v6| v6.pods.into())).collect()
    }

    /// The IPv4 range of nodes.
    pub(super) fn nodes(&self) -> Ipv4Net {
        self.config.ranges.nodes
    }

    /// The IPv6 range of nodes.
    pub(super) fn nodes_v6(&self) -> Option<Ipv6Net> {
        self.config.ranges.v6.map(|v6| v6.nodes)
    }

    /// The ranges of services.
    pub(super) fn services(&self) -> Vec<IpNet> {
        let NetworkRanges { services, v6, .. } = self.config.ranges;
        std::iter::once(services.into()).chain(v6.map(|v6| v6.services.into())).collect()
    }

    /// The address families of pods.
    pub(super) fn families(&self) -> Vec<Family> {
        std::iter::once(Family::V4).chain(self.config.ranges.v6.map(|_| Family::V6)).collect()
    }

    /// A node's leaf.
    pub(super) fn node(&self, index: usize, ip: Ipv4Addr) -> NodeNetwork {
        let second = self.config.ranges.v6.and_then(|v6| v6.of_node(index));
        let addresses = std::iter::once(ip.into()).chain(second.map(|own| own.ip.into())).collect();
        let leaf =
            LeafSpec::new(format!("node-{index}"), addresses, self.config.mtu).meeting_itself_outside();
        NodeNetwork { fabric: self.config.directory.join("socket"), leaf }
    }

    /// Records that a node runs; `sockets` opens sockets of its network.
    pub(super) fn node_runs(&self, ip: Ipv4Addr, sockets: NodeSockets, tasks: &Tasks) {
        self.nodes.add(ip, sockets, tasks);
    }

    /// Returns a dialer for the control plane: it connects inside the network to addresses of the cluster, and from the
    /// machine's network to all others.
    pub(super) fn dialer(self: &Arc<Self>) -> Dialer {
        self.clone()
    }

    /// Restarts the fabric's process whenever it has exited, until `tasks` end.
    pub(super) fn keep(self: &Arc<Self>, api: &Api, tasks: &Tasks) {
        let fabric = self.clone();
        let rounds = WorkLoop::start(api, "fabric", Subsystem::Network, tasks);
        tasks.spawn("fabric", async move {
            let mut failures = 0;
            loop {
                let pause = if failures == 0 { LOOK } else { RESTART_BACKOFF.delay(failures) };
                tokio::time::sleep(pause).await;
                let round = rounds.begin("the process of the pods' network");
                let looked = fabric.clone();
                let result = base::task::blocking(move || looked.find_or_start()).await;
                let result = result.map_err(io::Error::other).map_err(at("task")).and_then(|result| result);
                round.ends(result.as_ref().map(drop));
                match result {
                    Ok(()) => failures = 0,
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(%error, "cannot start the process of the pods' network");
                    }
                }
            }
        });
    }

    /// Ends the processes that are still in the network (`podium shell`) and the fabric's process, and prevents its
    /// restart. The network then exists until the nodes' hosts and this process exit. Blocks for some seconds at most.
    pub(super) fn stop(&self, grace: Duration) {
        let mut stopped = self.stopped.lock();
        *stopped = true;
        if let Err(error) = self.connection().end_occupants(NOTICE, grace) {
            tracing::warn!(%error, "cannot end the shells in the pods' network");
        }
        if let Err(error) = self.connection().shut_down() {
            tracing::debug!(%error, "cannot shut down the fabric's process");
        }
    }

    fn find_or_start(&self) -> Result<(), FabricError> {
        let stopped = self.stopped.lock();
        if *stopped || self.connection().namespaces().is_ok() {
            return Ok(());
        }
        let connection = self.config.find_or_start(Some(&self.handles.namespaces))?;
        connection.adopt_leaf(self.config.control_plane(), &self.handles.control_plane)?;
        *self.connection.lock() = Arc::new(connection);
        Ok(())
    }

    fn connection(&self) -> Arc<Fabric> {
        self.connection.lock().clone()
    }

    fn is_inside(&self, ip: IpAddr) -> bool {
        self.ranges().iter().any(|range| range.contains(&ip))
    }

    async fn ready_socket(&self, to: IpAddr) -> io::Result<OwnedFd> {
        let kind = if to.is_ipv4() { SocketKind::TcpV4 } else { SocketKind::TcpV6 };
        // Few IPv6 sockets are needed, so only IPv4 sockets are opened in advance.
        let count = if to.is_ipv4() { AT_ONCE } else { 1 };
        if let Some(socket) = self.ready.lock().pop_if(|_| to.is_ipv4()) {
            return Ok(socket);
        }
        let (connection, spec) = (self.connection(), own(kind));
        let opened = base::task::blocking(move || connection.sockets(&spec, count)).await?;
        let mut sockets = opened.map_err(io::Error::other)?;
        let first = sockets.pop();
        self.ready.lock().append(&mut sockets);
        first.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Ends the network that a killed control plane left: the processes in it, and the fabric's process. Returns false if
/// nothing listens at this path. The nodes' hosts must have ended before.
pub fn remove_leftover_network(socket: &Path) -> Result<bool, FabricError> {
    let Ok(left) = Fabric::connect(socket) else { return Ok(false) };
    left.end_occupants(NOTICE, HANG_UP)?;
    left.shut_down()?;
    Ok(true)
}

impl Dial for ClusterFabric {
    fn tcp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        if !self.is_inside(to.ip()) {
            return async move { LocalDialer.tcp(to).await }.boxed();
        }
        async move {
            let socket = self.ready_socket(to.ip()).await?;
            TcpSocket::from_std_stream(socket.into()).connect(to).await
        }
        .boxed()
    }

    fn udp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>> {
        if !self.is_inside(to.ip()) {
            return async move { LocalDialer.udp(to).await }.boxed();
        }
        async move {
            let kind = if to.is_ipv4() { SocketKind::UdpV4 } else { SocketKind::UdpV6 };
            let connection = self.connection();
            let opened = base::task::blocking(move || connection.socket(&own(kind))).await?;
            connected(UdpSocket::from_std(opened.map_err(io::Error::other)?.into())?, to).await
        }
        .boxed()
    }
}

impl Detours for ClusterFabric {
    fn open(&self, slot: u8) -> Result<OwnedFd, FabricError> {
        self.connection().detour(slot)
    }

    fn close(&self, slot: u8) -> Result<(), FabricError> {
        self.connection().remove_detour(slot)
    }
}

impl NodeNetworks for ClusterFabric {
    fn socket(&self, node: Ipv4Addr, kind: SocketKind) -> BoxFuture<'_, io::Result<OwnedFd>> {
        self.nodes.socket(node, kind).boxed()
    }

    fn renewed(&self) -> BoxFuture<'_, Ipv4Addr> {
        self.nodes.renewed().boxed()
    }
}

impl FabricConfig {
    /// The last but one address of the nodes' range.
    fn control_plane_address(&self) -> Ipv4Addr {
        let last = u32::from(self.ranges.nodes.broadcast());
        Ipv4Addr::from(last.saturating_sub(1))
    }

    fn control_plane(&self) -> LeafSpec {
        let second = self.ranges.v6.map(|v6| v6.control_plane().into());
        let addresses = std::iter::once(self.control_plane_address().into()).chain(second).collect();
        LeafSpec::new(CONTROL_PLANE, addresses, self.mtu)
    }

    fn find_or_start(&self, there: Option<&Namespaces>) -> Result<Fabric, FabricError> {
        let socket = self.directory.join("socket");
        if let Ok(connection) = Fabric::connect(&socket) {
            return Ok(connection);
        }
        if there.is_some() {
            tracing::warn!("the process of the pods' network has died; starting another");
        }
        self.spawn(there)?;
        Fabric::connect(&socket).map_err(at("connect to the fabric"))
    }

    /// Starts the fabric's process, for existing namespaces or new ones, and waits until it reports `ready`.
    fn spawn(&self, there: Option<&Namespaces>) -> Result<(), FabricError> {
        std::fs::create_dir_all(&self.directory).map_err(at("directory"))?;
        let log = std::fs::File::options().create(true).append(true).open(self.directory.join("log"));
        let mut command = Command::new(&self.program);
        command.arg("fabric").arg("--state").arg(&self.directory);
        command.arg("--socket").arg(self.directory.join("socket"));
        command.arg("--unclaimed").arg(self.unclaimed.as_secs_f64().to_string());
        let passed = there.map(passed).transpose()?;
        for (name, descriptor) in passed.iter().flatten() {
            command.arg(name).arg(descriptor.as_raw_fd().to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.map_err(at("log"))?).current_dir("/");
        let mut process = command.spawn().map_err(at("start the fabric's process"))?;
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(at("the fabric's process"))?;
        }
        if line.trim() == "ready" {
            // This thread reaps the fabric's process; after the exit of this process, init does.
            std::thread::spawn(move || process.wait());
            return Ok(());
        }
        let _ = process.kill();
        let _ = process.wait();
        let (step, why) =
            line.trim().split_once(": ").unwrap_or(("the fabric's process", "it exited at once"));
        Err(at(step)(io::Error::other(why.to_owned())))
    }
}

/// All address ranges of a cluster.
fn ranges_of(ranges: &NetworkRanges) -> Vec<IpNet> {
    let NetworkRanges { pods, services, nodes, v6 } = ranges;
    let second = v6.map(|v6| v6.all().map(IpNet::V6)).into_iter().flatten();
    [*pods, *services, *nodes].map(IpNet::V4).into_iter().chain(second).collect()
}

/// Specifies a socket in the control plane's leaf.
fn own(kind: SocketKind) -> SocketSpec {
    SocketSpec::new(kind).in_leaf(CONTROL_PLANE)
}

/// Duplicates the descriptors of the namespaces so that a child process inherits them; each with its command-line
/// option.
fn passed(namespaces: &Namespaces) -> Result<Vec<(&'static str, OwnedFd)>, FabricError> {
    let named = [("--network", Some(&namespaces.network)), ("--user", namespaces.user.as_ref())];
    let copied = named.into_iter().filter_map(|(name, descriptor)| Some((name, descriptor?)));
    let copies = copied.map(|(name, descriptor)| {
        let copy = rustix::io::dup(descriptor)?;
        rustix::io::fcntl_setfd(&copy, FdFlags::empty())?;
        Ok((name, copy))
    });
    copies.collect::<io::Result<Vec<_>>>().map_err(at("descriptor"))
}

fn at(step: &str) -> impl FnOnce(io::Error) -> FabricError {
    let step = step.to_owned();
    move |source| FabricError { step, source }
}
