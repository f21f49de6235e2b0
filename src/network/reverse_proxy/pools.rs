//! The endpoints of services that requests go to, dealt out in turn; a pool lives on while its endpoints change.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;

use super::ReverseProxy;
use crate::follow::Follower;
use crate::machine::{Machine, NodeFacts};
use crate::proxy::balance::Balancer;
use crate::proxy::table::{Balance, Protocol, endpoints_of_either_family};
use object::{Key, Shared};

/// The port of a service that requests go to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Backend {
    pub(crate) service: Key,
    /// The port's name, as slices have it; empty where it has none.
    pub(crate) port: String,
}

/// The endpoints of a backend.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Mutex<Balancer>>);

impl Pool {
    fn new(balance: Balance) -> Self {
        Self(Arc::new(Mutex::new(Balancer::new(balance))))
    }

    /// An endpoint for a request of this client, none of `tried`, and no port of the proxy itself.
    pub(super) fn pick(
        &self,
        proxy: &ReverseProxy,
        client: IpAddr,
        tried: &[SocketAddr],
    ) -> Option<SocketAddr> {
        let (mut balancer, now) = (self.0.lock(), proxy.clock.monotonic());
        let first = balancer.pick(client, None, tried, now)?;
        if !proxy.is_own(first) {
            return Some(first);
        }
        let mut tried = [tried, &[first]].concat();
        loop {
            let next = balancer.pick(client, None, &tried, now)?;
            if !proxy.is_own(next) {
                return Some(next);
            }
            tried.push(next);
        }
    }
}

/// The pools of all backends that are named.
pub(crate) type Pools = HashMap<Backend, Pool>;

impl ReverseProxy {
    /// The pools of these backends as services are now; those that were there before go on.
    pub(crate) fn pools<'b>(
        &self,
        backends: impl IntoIterator<Item = &'b Backend>,
        before: &Pools,
        services: &Follower,
        nodes: &[Shared<Node>],
    ) -> Pools {
        let nodes = nodes.iter().map(|node| (node.name().to_string(), NodeFacts::of(node))).collect();
        let fabric = self.config.pods.clone();
        let machine = Machine { nodes, services: self.config.services, fabric };
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
