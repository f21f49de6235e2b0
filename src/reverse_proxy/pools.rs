//! Pools of services' endpoints, used in turn; a pool survives changes of its endpoints.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;

use super::ReverseProxy;
use base::sort::CollectMap;
use object::{Key, SharedObject};
use services::Follower;
use services::proxy::balance::Balancer;
use services::proxy::table::{Balance, Protocol, endpoints_of_either_family};
use services::{NetworkTopology, NodeFacts};

/// A service port that requests go to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend {
    /// The service.
    pub service: Key,
    /// The port's name as in EndpointSlices; empty if it has none.
    pub port: String,
}

/// The endpoints of a backend.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Mutex<Balancer>>);

impl Pool {
    fn new(balance: Balance) -> Self {
        Self(Arc::new(Mutex::new(Balancer::new(balance))))
    }

    /// Picks an endpoint for a request of this client, except for those in `tried` and the proxy's own ports.
    pub(super) fn pick(
        &self,
        proxy: &ReverseProxy,
        client: IpAddr,
        tried: &[SocketAddr],
    ) -> Option<SocketAddr> {
        let (mut balancer, now) = (self.0.lock(), proxy.clock.monotonic());
        let mut tried = tried.to_vec();
        loop {
            let next = balancer.pick(client, None, &tried, now)?;
            if !proxy.is_own(next) {
                return Some(next);
            }
            tried.push(next);
        }
    }
}

/// The pools of all backends that rules refer to.
pub type Pools = HashMap<Backend, Pool>;

impl ReverseProxy {
    /// Returns the pools of these backends with their current endpoints; existing pools are reused.
    pub fn pools<'b>(
        &self,
        backends: impl IntoIterator<Item = &'b Backend>,
        before: &Pools,
        services: &Follower,
        nodes: &[SharedObject<Node>],
    ) -> Pools {
        let nodes = nodes.iter().map(|node| (node.name().to_string(), NodeFacts::of(node))).collect_map();
        let fabric = self.config.pods.clone();
        let machine = NetworkTopology { nodes, services: self.config.services, fabric };
        let pools = backends.into_iter().map(|backend| {
            let joined = services.get(&backend.service);
            let balance = endpoints_of_either_family(&backend.port, Protocol::Tcp, &joined, &machine);
            let pool = match before.get(backend) {
                Some(pool) => {
                    pool.0.lock().replace(balance);
                    pool.clone()
                }
                None => Pool::new(balance),
            };
            (backend.clone(), pool)
        });
        pools.collect()
    }
}
