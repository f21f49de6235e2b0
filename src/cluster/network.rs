//! Starts the service proxy and the cluster's DNS, without what is disabled.

use std::net::{IpAddr, SocketAddr};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use super::fixed_services::{self, DNS_OFFSET};
use api::{Api, ApiError};
use base::task::Tasks;
use network::dns::{self, DnsConfig, Resolvers};
use network::proxy::{self, ProxyConfig};
use object::low_ports::LowPorts;
use reconcile::Caches;

/// Descriptors this process asks for: each connection through a service takes two, each service port one.
const OPEN_FILES: u64 = 65_536;

/// The cluster's domain.
pub(super) const DOMAIN: &str = "cluster.local";
/// The machine's own resolvers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// What the nodes' pods need to know of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodNetwork {
    /// Which ports programs may not bind here.
    pub(super) low_ports: LowPorts,
    /// Where the cluster's DNS answers; none when it is disabled.
    pub(super) dns: Option<IpAddr>,
}

/// Starts both, and says where the cluster's DNS is.
pub(super) fn start(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    config: &ClusterConfig,
    addresses: &AddressPlan,
) -> Result<PodNetwork, ApiError> {
    let low_ports = super::low_ports::probe(config.file.unprivileged_port_start, addresses.node(0));
    if !config.is_disabled("proxy") {
        let connections = allow_open_files() / 4;
        let proxy = ProxyConfig { services: addresses.services(), low_ports, connections };
        proxy::start(api, caches, tasks, proxy);
    }
    if config.is_disabled("dns") {
        fixed_services::no_dns(api)?;
        return Ok(PodNetwork { low_ports, dns: None });
    }
    let ip = IpAddr::V4(addresses.service(DNS_OFFSET));
    let address = SocketAddr::new(ip, low_ports.served(53));
    fixed_services::dns(api, address)?;
    let dns = DnsConfig {
        address,
        domain: DOMAIN.into(),
        resolvers: Resolvers::File(RESOLV_CONF.into()),
        service: fixed_services::dns_key(),
    };
    dns::start(api, caches, tasks, dns);
    Ok(PodNetwork { low_ports, dns: Some(ip) })
}

/// Raises the limit of open files as far as it may be, for many connections, and returns it.
fn allow_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    let mut current = limit.current.unwrap_or(OPEN_FILES);
    if current < wanted {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => current = wanted,
            Err(error) => tracing::warn!("the limit of open files stays at {current}: {error}"),
        }
    }
    current.min(OPEN_FILES) as usize
}
