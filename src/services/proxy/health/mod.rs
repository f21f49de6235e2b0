//! Health checks for load balancers (NET-6): at a service's `healthCheckNodePort`, each node reports its number of
//! ready endpoints, as kube-proxy does: status 200 if there are any, else 503.
//!
//! They are served at the nodes' addresses, or, in a fabric network, at these addresses' mirrors on the machine.

mod server;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::mirror::Mirrors;
use super::table::is_unmanaged;
use crate::topology::internal_ipv4;
use crate::{Follower, ServiceEndpoints};
use api::controller_status::Subsystem;
use api::{Api, ChangeKind};
use base::clock::if_some;
use base::sort::CollectMap;
use base::task::Tasks;
use object::endpoint::is_ready;
use object::{Key, Kind, port_number};
use reconcile::{Caches, Recorder, WorkLoop};

/// Interval at which ports that could not be bound are retried.
const RETRY: Duration = Duration::from_secs(30);
/// Maximum number of concurrent requests over all ports; others wait.
const MAX_CONCURRENT_REQUESTS: usize = 64;

/// The health of a service at one port of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    service: Key,
    /// Number of ready endpoints on the node.
    local: usize,
}

struct HealthPort {
    service: Key,
    local: Arc<AtomicUsize>,
    tasks: Tasks,
}

/// Nodes by name, with the addresses that serve their ports.
type NodeAddresses = BTreeMap<String, Ipv4Addr>;

/// Starts serving; it ends with `tasks`.
pub(super) fn start(api: &Api, caches: &Caches, tasks: &Tasks, mirrors: Option<Mirrors>) {
    let services = Follower::start(caches);
    let marked = Arc::downgrade(&services);
    caches.of::<Node>().on_change(move |change| {
        let ip = |object: &object::Object| object.get::<Node>().and_then(internal_ipv4);
        let now = ip(&change.object).filter(|_| change.kind != ChangeKind::Deleted);
        if change.previous.as_deref().and_then(ip) != now
            && let Some(services) = marked.upgrade()
        {
            services.mark_all();
        }
    });
    let (caches, own, recorder) = (caches.clone(), tasks.clone(), Recorder::new(api, "kube-proxy"));
    let rounds = WorkLoop::start(api, "load-balancer-health", Subsystem::Network, tasks);
    tasks.spawn("health checks of load balancers", async move {
        tokio::join!(
            caches.synced(Kind::Node),
            caches.synced(Kind::Service),
            caches.synced(Kind::EndpointSlice)
        );
        let mut checks = Checks {
            open: HashMap::new(),
            failed: HashSet::new(),
            retry_at: None,
            reported: HashSet::new(),
            askers: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
            tasks: own,
            recorder,
        };
        loop {
            tokio::select! {
                changed = services.take() => {
                    let round = rounds.begin("services");
                    let nodes = caches.of::<Node>().list();
                    let place = |node: &Node| {
                        let ip = internal_ipv4(node)?;
                        let at = match &mirrors {
                            Some(mirrors) => mirrors.of(ip),
                            None => Some(ip).filter(Ipv4Addr::is_loopback),
                        };
                        Some((node.metadata.name.clone()?, at?))
                    };
                    let places: NodeAddresses = nodes.iter().filter_map(|node| place(node)).collect_map();
                    checks.apply(changed, &places).await;
                    round.ends(match checks.failed.len() {
                        0 => Ok(()),
                        count => Err(format!("cannot serve the health checks of {count} services; retrying")),
                    });
                }
                () = if_some(checks.retry_at.map(tokio::time::sleep_until)) => {
                    checks.retry_at = None;
                    services.mark(std::mem::take(&mut checks.failed));
                }
            }
        }
    });
}

/// Returns the health checks of a service by address.
fn desired_checks(
    key: &Key,
    joined: &ServiceEndpoints,
    addresses: &NodeAddresses,
) -> BTreeMap<SocketAddr, Check> {
    let service = joined.service.as_ref().filter(|service| !is_unmanaged(service));
    let Some(spec) = service.and_then(|service| service.spec.as_ref()) else { return BTreeMap::new() };
    let is_requested = spec.type_.as_deref() == Some("LoadBalancer")
        && spec.external_traffic_policy.as_deref() == Some("Local");
    let port = spec.health_check_node_port.and_then(port_number).filter(|_| is_requested);
    let Some(port) = port else { return BTreeMap::new() };
    let endpoints = joined.slices.values().flat_map(|slice| slice.endpoints.iter().flatten());
    // An endpoint may be in several slices, for example in one for each port.
    let ready: HashSet<_> = endpoints
        .filter(|endpoint| is_ready(endpoint))
        .filter_map(|endpoint| Some((endpoint.node_name.as_deref()?, endpoint.addresses.first()?)))
        .collect();
    let check = |node: &str| Check {
        service: key.clone(),
        local: ready.iter().filter(|(of, _)| *of == node).count(),
    };
    addresses.iter().map(|(node, ip)| (SocketAddr::new((*ip).into(), port), check(node))).collect_map()
}

struct Checks {
    open: HashMap<SocketAddr, HealthPort>,
    /// Services with ports that could not be bound.
    failed: HashSet<Key>,
    /// The time of their next retry, however often other services change meanwhile.
    retry_at: Option<Instant>,
    /// Services for which an event about such a port was recorded.
    reported: HashSet<Key>,
    askers: Arc<Semaphore>,
    tasks: Tasks,
    recorder: Recorder,
}

impl Checks {
    /// Updates the ports of changed services. Old ports close before new ones open, because a port may pass from one
    /// service to another.
    async fn apply(&mut self, changed: Vec<(Key, ServiceEndpoints)>, places: &NodeAddresses) {
        let all: Vec<_> = changed
            .into_iter()
            .map(|(key, joined)| {
                let desired = desired_checks(&key, &joined, places);
                (key, joined, desired)
            })
            .collect();
        for (key, _, desired) in &all {
            let closing: Vec<SocketAddr> = self
                .open
                .iter()
                .filter(|(address, open)| open.service == *key && !desired.contains_key(address))
                .map(|(address, _)| *address)
                .collect();
            for address in closing {
                if let Some(open) = self.open.remove(&address) {
                    open.tasks.stop().await;
                }
            }
        }
        for (key, joined, desired) in all {
            let mut failure = None;
            for (address, check) in desired {
                if let Err(error) = self.serve(address, check).await {
                    failure.get_or_insert(format!("{address}: {error}"));
                }
            }
            let Some(why) = failure else {
                self.failed.remove(&key);
                self.reported.remove(&key);
                continue;
            };
            self.failed.insert(key.clone());
            if let Some(service) = &joined.service
                && self.reported.insert(key)
            {
                let message = format!("cannot serve health checks: {why}; retrying");
                self.recorder.warning(service.object(), "FailedToStartServiceHealthcheck", message);
            }
        }
        let retry_at = self.retry_at.unwrap_or_else(|| Instant::now() + RETRY);
        self.retry_at = (!self.failed.is_empty()).then_some(retry_at);
    }

    async fn serve(&mut self, address: SocketAddr, check: Check) -> std::io::Result<()> {
        if let Some(open) = self.open.get(&address).filter(|open| open.service == check.service) {
            open.local.store(check.local, Ordering::Relaxed);
            return Ok(());
        }
        let listener = TcpListener::bind(address).await?;
        let (tasks, local) = (self.tasks.child(), Arc::new(AtomicUsize::new(check.local)));
        let serving = server::serve(listener, check.service.clone(), local.clone(), self.askers.clone());
        tasks.spawn("health check", serving);
        self.open.insert(address, HealthPort { service: check.service, local, tasks });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use object::SharedObject;

    fn joined(spec: &Value) -> ServiceEndpoints {
        let service = json!({"metadata": {"name": "web", "namespace": "d"}, "spec": spec});
        let endpoint = |ip: &str, node: &str, ready: Value| json!({"addresses": [ip], "nodeName": node, "conditions": {"ready": ready}});
        let slice = |name: &str, endpoints: Value| {
            let slice = json!({"metadata": {"name": name, "namespace": "d"}, "addressType": "IPv4", "endpoints": endpoints});
            (Key::new("d", name), SharedObject::from_value(serde_json::from_value(slice).unwrap()))
        };
        let a = endpoint("127.64.0.2", "a", json!(true));
        let slices = [
            slice("one", json!([a, endpoint("127.64.0.3", "a", json!(null))])),
            slice("two", json!([a, endpoint("127.64.1.2", "b", json!(false))])),
        ];
        let service = SharedObject::from_value(serde_json::from_value(service).unwrap());
        ServiceEndpoints { service: Some(service), slices: slices.into() }
    }

    #[test]
    fn nodes_tell_how_many_endpoints_they_have_net_6() {
        let places: NodeAddresses = [("a", [127, 16, 0, 1]), ("b", [127, 16, 0, 2])]
            .map(|(name, ip)| (name.into(), ip.into()))
            .into();
        let local =
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30500});
        for (spec, expected) in [
            (local, vec![("127.16.0.1:30500", 2), ("127.16.0.2:30500", 0)]),
            (
                json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 30500}),
                vec![],
            ),
            (
                json!({"type": "NodePort", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30500}),
                vec![],
            ),
            (json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}), vec![]),
        ] {
            let desired = desired_checks(&Key::new("d", "web"), &joined(&spec), &places);
            let shown: Vec<_> =
                desired.iter().map(|(address, check)| (address.to_string(), check.local)).collect();
            let expected: Vec<_> = expected.iter().map(|(at, local)| ((*at).to_owned(), *local)).collect();
            assert_eq!(shown, expected, "{spec}");
        }
    }
}
