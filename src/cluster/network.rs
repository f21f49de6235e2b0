//! Starts the parts of the network of the cluster that are not disabled: packet rules, egress, service proxy, DNS, network
//! faults, and the controllers of Ingresses and Gateways.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use super::fabric::ClusterFabric;
use super::fixed_services::{self, DNS_OFFSET};
use super::startup_writes::StartupWrites;
use api::{Api, ApiError};
use base::task::Tasks;
use dns::{DnsConfig, Resolvers, Sockets};
use fabric::FabricError;
use gateway::GatewayConfig;
use ingress::IngressConfig;
use network::faults;
use network::rules::{self, EgressMode, FaultHook, RulesConfig};
use object::low_ports::LowPorts;
use reconcile::Caches;
use reverse_proxy::{ReverseProxy, ReverseProxyConfig};
use services::proxy::{self, FabricNetwork, Mirrors, ProxyConfig};

/// The descriptors that this process requests: each connection through a service takes two, each service port one.
const OPEN_FILES: u64 = 65_536;

/// The maximum number of concurrent clients of Ingresses.
const MAX_CLIENTS: usize = 4096;

/// The message for network faults in a cluster with the loopback network.
const NOTHING_TO_BREAK: &str = "pods share the machine's network, where network faults are not possible; start podium \
                                with --network fabric, and see the Node's annotation podium.dev/network-note";
/// The message for network faults if the proxy, which writes the network's rules, is disabled.
const NO_RULES: &str = "network faults need the proxy, which --disable proxy has turned off";

const DNS_PORT: u16 = 53;
/// The machine's own resolvers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The network settings of the nodes' pods.
#[derive(Clone)]
pub(super) struct PodNetwork {
    /// The fabric, if pods have networks of their own.
    pub(super) fabric: Option<Arc<ClusterFabric>>,
    /// The ports that programs may not bind here.
    pub(super) low_ports: LowPorts,
    /// The address of the cluster's DNS for pods, in the primary family only, as kubeadm configures kubelets; `None` if
    /// DNS is disabled.
    pub(super) dns: Option<IpAddr>,
}

/// Starts the network's servers, and returns the address of the cluster's DNS.
pub(super) fn start(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    config: &ClusterConfig,
    addresses: &AddressPlan,
    fabric: Option<&Arc<ClusterFabric>>,
    startup_writes: &StartupWrites,
) -> Result<PodNetwork, ApiError> {
    let low_ports = match fabric {
        Some(_) => LowPorts::default(),
        None => super::low_ports::probe(config.file.unprivileged_port_start, addresses.node(0)),
    };
    let seam = FaultHook::default();
    let to_break = match fabric {
        None => Err(NOTHING_TO_BREAK.to_owned()),
        Some(_) if config.is_disabled("proxy") => Err(NO_RULES.to_owned()),
        Some(fabric) => Ok(faults::Network { rules: seam.clone(), detours: fabric.clone() }),
    };
    faults::start(api, caches, tasks, to_break);
    let proxy = match fabric {
        _ if config.is_disabled("proxy") => None,
        Some(fabric) => serve_inside(api, caches, tasks, config, addresses, fabric, seam)
            .map_err(|error| ApiError::Internal(error.to_string()))?,
        None => Some(ProxyConfig { services: addresses.services(), low_ports, connections: 0, inside: None }),
    };
    let on_machine = proxy.as_ref().map(|proxy| match &proxy.inside {
        Some(inside) => inside.mirrors.clone(),
        None => Mirrors::of_loopback(low_ports),
    });
    let is_served = on_machine.is_some();
    let annotations = on_machine.unwrap_or_else(|| Mirrors::of_loopback(low_ports)).annotations();
    let annotations = annotations.map(|(name, value)| (name, value.filter(|_| is_served)));
    startup_writes.perform("the annotations of the service kubernetes", {
        let api = api.clone();
        move || fixed_services::annotate_kubernetes(&api, &annotations)
    })?;
    if let Some(proxy) = proxy {
        proxy::start(api, caches, tasks, ProxyConfig { connections: allow_open_files() / 4, ..proxy });
    }
    if config.is_disabled("dns") {
        startup_writes.perform("the removal of the service kube-dns", {
            let api = api.clone();
            move || fixed_services::no_dns(&api)
        })?;
        return Ok(PodNetwork { fabric: fabric.cloned(), low_ports, dns: None });
    }
    let ip = IpAddr::V4(addresses.service(DNS_OFFSET));
    let second = addresses.service_v6(DNS_OFFSET).map(IpAddr::V6);
    let served: Vec<SocketAddr> = match fabric {
        Some(fabric) => fabric.addresses().into_iter().map(|ip| SocketAddr::new(ip, DNS_PORT)).collect(),
        None => vec![SocketAddr::new(ip, low_ports.served(DNS_PORT))],
    };
    let service: Vec<IpAddr> = std::iter::once(ip).chain(second).collect();
    startup_writes.perform("the service kube-dns", {
        let (api, served, domain) = (api.clone(), served.clone(), config.file.cluster_domain.clone());
        move || fixed_services::dns(&api, service.clone(), served.clone(), &domain)
    })?;
    let inside = fabric.cloned();
    let open = move |address| match &inside {
        Some(fabric) => {
            let opened = || Ok((fabric.datagrams(address)?, fabric.listen(address)?));
            let (udp, tcp) = opened().map_err(|error: FabricError| io::Error::other(error))?;
            Ok(Sockets { udp, tcp })
        }
        None => dns::bind(address),
    };
    let dns = DnsConfig {
        addresses: served,
        open: Arc::new(open),
        domain: config.file.cluster_domain.to_string(),
        host: fabric.map(|_| egress::HOST_ADDRESS),
        resolvers: Resolvers::File(RESOLV_CONF.into()),
        service: fixed_services::dns_key(),
    };
    dns::start(api, caches, tasks, dns);
    Ok(PodNetwork { fabric: fabric.cloned(), low_ports, dns: Some(ip) })
}

/// Starts the servers of a fabric network: the kernel's rules and the egress. Returns the proxy on the machine's side.
fn serve_inside(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    config: &ClusterConfig,
    addresses: &AddressPlan,
    fabric: &Arc<ClusterFabric>,
    faults: FaultHook,
) -> Result<Option<ProxyConfig>, FabricError> {
    let beginnings = fabric.open_syn_detour();
    let egress_mode = match &beginnings {
        Ok(_) => EgressMode::ConnectFirst,
        Err(error) => {
            tracing::warn!(%error, "pods' connections are accepted before Podium has connected to the destination");
            EgressMode::Accepted
        }
    };
    let rules = RulesConfig {
        nft: fabric.nft()?,
        conntrack: fabric.conntrack()?,
        families: fabric.families(),
        services: fabric.services(),
        inside: fabric.ranges(),
        egress_mode: Some(egress_mode),
        dns: if config.is_disabled("dns") { Vec::new() } else { fabric.addresses() },
        faults,
        in_force: tokio::sync::watch::Sender::default(),
    };
    let refuse = rules::start(api, caches, tasks, rules);
    let host = config.file.network.host_ports();
    egress::start(tasks, fabric.open_egress(refuse, host, beginnings.ok(), allow_open_files() / 4)?);
    Ok(addresses.mirrors().map(|mirrors| {
        let low_ports = super::low_ports::probe(config.file.unprivileged_port_start, mirrors.probed);
        let has_ipv6 = std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        let mirrors = Mirrors { ranges: mirrors.ranges, low_ports, has_ipv6 };
        let inside = Some(FabricNetwork { mirrors, dialer: fabric.dialer(), nodes: fabric.clone() });
        ProxyConfig { services: addresses.services(), low_ports, connections: 0, inside }
    }))
}

/// Starts the controllers of Ingresses and of Gateways; they connect to endpoints with the API's dialer.
pub(super) fn start_ingress(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    config: &ClusterConfig,
    addresses: &AddressPlan,
    fabric: Option<&Arc<ClusterFabric>>,
) {
    let file = &config.file.ingress;
    let config = ReverseProxyConfig {
        connections: (allow_open_files() / 8).min(MAX_CLIENTS),
        services: addresses.services(),
        pods: fabric.map(|fabric| fabric.pod_ranges()).unwrap_or_default(),
        dialer: api.config().dialer.clone(),
    };
    let proxy = ReverseProxy::new(api.clock().clone(), tasks, config);
    let config = IngressConfig {
        http: SocketAddr::new(file.address, file.http_port),
        https: SocketAddr::new(file.address, file.https_port),
    };
    ingress::start(api, caches, tasks, &proxy, config);
    gateway::start(api, caches, tasks, &proxy, GatewayConfig { address: file.address });
}

/// Raises the limit of open files as far as permitted, for many connections, and returns it.
fn allow_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let desired = limit.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    let mut current = limit.current.unwrap_or(OPEN_FILES);
    if current < desired {
        let raised = Rlimit { current: Some(desired), maximum: limit.maximum };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => current = desired,
            Err(error) => tracing::warn!("cannot raise the limit of open files above {current}: {error}"),
        }
    }
    current.min(OPEN_FILES) as usize
}
