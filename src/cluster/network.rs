//! Starts the service proxy and the cluster's DNS, without what is disabled.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use crate::api::Api;
use crate::base::task::Tasks;
use crate::network::proxy::{self, ProxyConfig};
use crate::object::low_ports::LowPorts;
use crate::reconcile::Caches;

/// Descriptors this process asks for: each connection through a service takes two, each service port one.
const OPEN_FILES: u64 = 65_536;

pub(super) fn start(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    config: &ClusterConfig,
    addresses: &AddressPlan,
    low_ports: LowPorts,
) {
    if !config.is_disabled("proxy") {
        allow_open_files();
        proxy::start(api, caches, tasks, ProxyConfig { services: addresses.services(), low_ports });
    }
}

/// Raises the limit of open files as far as it may be, for many connections; failing, fewer must do.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!("the limit of open files stays at {:?}: {error}", limit.current);
        }
    }
}
