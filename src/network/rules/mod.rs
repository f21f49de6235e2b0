//! Services in the kernel (NET-6): the counterpart of kube-proxy's nftables mode, in the fabric.
//!
//! [`services`], [`pods`] and [`nodes`] are pure functions from objects to rules; [`kernel`] brings the tables there by
//! minimal changes. Existing connections keep their endpoint: the kernel's connection tracking holds them,
//! independently of the rules and of this process.

mod base;
mod endpoints;
mod faults;
mod kernel;
mod names;
mod nodes;
mod owner_rules;
mod pods;
mod policies;
mod policy_chains;
mod policy_changes;
mod policy_names;
mod policy_parts;
mod policy_rules;
#[cfg(test)]
mod policy_tests;
mod preflight;
mod services;
#[cfg(test)]
mod tests;
mod udp_flows;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fabric::nft::{Element, Family, Key as FieldKey, Nft};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use self::base::{REFUSED_BY_PEER, TCP, UNREACHED, base};
use ::base::backoff::BackoffPolicy;
use ::base::clock::if_some;
use ::base::task::Tasks;
use ::services::proxy::host_ports::{HostPorts, has_host_ports};
use ::services::{Follower, ServiceEndpoints};
use api::Api;
use api::controller_status::Subsystem;
use egress::{RefusalKind, RefusalRequest, RefuseFn};
use fabric::conntrack::Conntrack;
use kernel::Kernel;
use network_policy::SetId;
use nodes::NodesByName;
use object::{Key, Kind};
use owner_rules::{OwnerRules, RulesUpdate};
use policy_changes::PolicyChanges;
use policy_rules::PolicyRules;
use reconcile::{Caches, WorkLoop};
use udp_flows::UdpFlows;

pub use base::EgressMode;
pub(crate) use faults::{AppliedFaults, FaultRules, PacketEffect, PacketFault};
pub(crate) use nodes::NodeAddresses;
pub use preflight::{try_ipv6, try_rules};

/// Back-off for rules that the kernel has refused.
const RETRY: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(30) };

/// Configuration of the rules.
pub struct RulesConfig {
    /// A netlink socket for the fabric's nftables.
    pub nft: Nft,
    /// The fabric's connection tracking.
    pub conntrack: Conntrack,
    /// The address families that pods have.
    pub families: Vec<Family>,
    /// The ranges of services' cluster IPs.
    pub services: Vec<IpNet>,
    /// The ranges of all addresses in the cluster.
    pub inside: Vec<IpNet>,
    /// The kind of egress ([`egress`]); `None` if pods cannot reach the world.
    pub egress_mode: Option<EgressMode>,
    /// The addresses of the cluster's DNS, which policies see as the pods `k8s-app=kube-dns` in `kube-system`.
    pub dns: Vec<IpAddr>,
    /// The source of network faults.
    pub faults: FaultHook,
    /// Counts the times when the kernel has accepted all rules known until then.
    pub in_force: watch::Sender<u64>,
}

/// Connects the fault controller with the rules. At the start, the rules wait for the controller's first faults.
#[derive(Clone, Default)]
pub struct FaultHook(pub(crate) Arc<FaultRules>);

impl FaultHook {
    /// Creates a hook without a fault controller: the rules do not wait.
    pub fn unused() -> Self {
        let seam = Self::default();
        seam.0.set_desired(BTreeMap::new());
        seam
    }
}

/// The owner of rules in the tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Service(Key),
    Pod(Key),
    Node(String),
    /// A set of peers in policies.
    Peers(SetId),
    /// A range of addresses in policies, by its number.
    Block(u32),
    /// A set of ports in policies, by its number.
    Ports(u32),
    /// The chain of an isolation, by its number.
    Isolation(u32),
    /// A pod that policies isolate.
    Isolated(Key),
    Fault(String),
}

/// The current nodes, and a signal for their changes.
#[derive(Default)]
struct WatchedNodes {
    by_name: Mutex<NodesByName>,
    changed: Notify,
}

/// Capacity of the queue of refusals.
const MAX_QUEUED_REFUSALS: usize = 64;

/// Starts maintaining the tables; it ends with `tasks`, and the tables stay. The returned function makes the kernel
/// refuse a pod's connections to an address of the world for a moment.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, config: RulesConfig) -> RefuseFn {
    let (refuse, mut refused) = mpsc::channel::<RefusalRequest>(MAX_QUEUED_REFUSALS);
    let nodes = Arc::new(WatchedNodes::default());
    let policy_changes = PolicyChanges::start(caches);
    let (services, pods) = (Follower::start(caches), HostPorts::start(caches, has_host_ports));
    let of_nodes = Arc::downgrade(&nodes);
    caches.of::<Node>().on_change(move |change| {
        let (Some(nodes), Some(node)) = (of_nodes.upgrade(), change.object.get::<Node>()) else { return };
        let place = (change.kind != api::ChangeKind::Deleted).then(|| NodeAddresses::of(node)).flatten();
        let mut places = nodes.by_name.lock();
        let name = change.object.name();
        if places.get(name) == place.as_ref() {
            return;
        }
        match place {
            Some(place) => drop(places.insert(name.to_owned(), place)),
            None => drop(places.remove(name)),
        }
        drop(places);
        nodes.changed.notify_one();
    });
    let rounds = WorkLoop::start(api, "service-rules", Subsystem::Network, tasks);
    let caches = caches.clone();
    tasks.spawn("service rules", async move {
        // Incomplete rules would refuse connections to services that exist.
        tokio::join!(
            caches.synced(Kind::Node),
            caches.synced(Kind::Service),
            caches.synced(Kind::EndpointSlice),
            // Wait for what policies depend on, so that no connection passes that they refuse.
            caches.synced(Kind::Pod),
            caches.synced(Kind::Namespace),
            caches.synced(Kind::NetworkPolicy),
            // Wait for faults, so that no packet passes that they cut off.
            config.faults.0.wait_first_apply()
        );
        let RulesConfig { nft, conntrack, families, services: ranges, inside, egress_mode: way_out, dns, faults, in_force } =
            config;
        let faults = faults.0;
        let base = base(&families, &inside, way_out);
        let mut rules = Rules {
            kernel: Kernel::new(nft, families.clone(), base),
            conntrack,
            families,
            flows: UdpFlows::default(),
            ranges,
            nodes: NodesByName::new(),
            failures: 0,
            policies: PolicyRules::new(&dns),
            retry_at: None,
            in_force,
            rounds,
            last_error: None,
        };
        // All in one change, nodes first: it replaces tables that another process has left, and incomplete rules would
        // refuse connections to existing services, or accept what policies refuse.
        let mut first = rules.of_nodes(nodes.by_name.lock().clone());
        first.extend(services.take_now().into_iter().map(|(key, joined)| rules.of_service(key, &joined)));
        first.extend(pods.take_now().into_iter().map(|(key, pod)| rules.of_pod(key, pod.as_deref())));
        first.extend(rules.policies.take(policy_changes.take_now(), &rules.families));
        let (mut turn, desired) = faults.take_now(&rules.families);
        first.extend(desired.into_iter().map(of_fault));
        rules = rules.apply(first).await;
        loop {
            faults.record_applied(turn, |name| rules.kernel.refuses(&Owner::Fault(name.to_owned())));
            let (mut changes, mut tries_again) = (Vec::new(), false);
            tokio::select! {
                changed = services.take() => {
                    changes.extend(changed.into_iter().map(|(key, joined)| rules.of_service(key, &joined)));
                }
                changed = pods.take() => {
                    changes.extend(changed.into_iter().map(|(key, pod)| rules.of_pod(key, pod.as_deref())));
                }
                changed = policy_changes.take() => changes.extend(rules.policies.take(changed, &rules.families)),
                (now, desired) = faults.take(&rules.families) => {
                    turn = now;
                    changes.extend(desired.into_iter().map(of_fault));
                }
                () = nodes.changed.notified() => {
                    changes.extend(rules.of_nodes(nodes.by_name.lock().clone()));
                    // Services and host ports depend on nodes: they go into the same change, so that no rule refers to
                    // a node that is gone.
                    services.mark_all();
                    pods.mark_all();
                    changes.extend(services.take_now().into_iter().map(|(key, joined)| rules.of_service(key, &joined)));
                    changes.extend(pods.take_now().into_iter().map(|(key, pod)| rules.of_pod(key, pod.as_deref())));
                }
                Some(refused) = refused.recv() => {
                    rules.refuse(refused);
                    continue;
                }
                () = if_some(rules.retry_at.map(tokio::time::sleep_until)) => tries_again = true,
            }
            // Most changes of pods do not affect policies.
            if tries_again || !changes.is_empty() {
                rules = rules.apply(changes).await;
            }
        }
    });
    // If the queue is full, the connection is reset instead.
    Arc::new(move |refused| {
        let _ = refuse.try_send(refused);
    })
}

fn of_fault((name, piece): (String, OwnerRules)) -> (Owner, RulesUpdate) {
    (Owner::Fault(name), piece.into())
}

/// The tables, and the state that rules are computed from.
struct Rules {
    kernel: Kernel<Owner>,
    conntrack: Conntrack,
    families: Vec<Family>,
    flows: UdpFlows,
    ranges: Vec<IpNet>,
    nodes: NodesByName,
    /// Number of consecutive changes that the kernel refused.
    failures: u32,
    /// Time of the next retry of refused rules, however often other rules change meanwhile.
    retry_at: Option<Instant>,
    /// The rules of network policies.
    policies: PolicyRules,
    in_force: watch::Sender<u64>,
    rounds: Arc<WorkLoop>,
    /// The kernel's last error for the current refusal.
    last_error: Option<String>,
}

impl Rules {
    /// Returns the rule changes for nodes; `now` has all current nodes.
    fn of_nodes(&mut self, now: NodesByName) -> Vec<(Owner, RulesUpdate)> {
        let removed = self.nodes.keys().filter(|name| !now.contains_key(*name));
        let removed = removed.map(|name| (Owner::Node(name.clone()), OwnerRules::default().into()));
        let there =
            now.iter().map(|(name, place)| (Owner::Node(name.clone()), nodes::rules_of(name, place).into()));
        let changes = removed.chain(there).collect();
        self.nodes = now;
        changes
    }

    /// Returns the rules of a pod with host ports.
    fn of_pod(&self, key: Key, pod: Option<&Pod>) -> (Owner, RulesUpdate) {
        let piece = pod.map(|pod| pods::rules_of(&key.namespace, pod, &self.nodes));
        (Owner::Pod(key), piece.unwrap_or_default().into())
    }

    /// Returns the rules of a service, and records its UDP endpoints so that stale flows are removed.
    fn of_service(&mut self, key: Key, joined: &ServiceEndpoints) -> (Owner, RulesUpdate) {
        self.flows.change(key.clone(), services::datagrams(joined, &self.nodes, &self.ranges));
        let piece = services::rules_of(&key, joined, &self.nodes, &self.ranges);
        (Owner::Service(key), piece.into())
    }

    /// Makes the kernel refuse a connection to the world when its SYN is sent again.
    fn refuse(&self, refused: RefusalRequest) {
        let RefusalRequest { from, to, how, in_force } = refused;
        let key = FieldKey::new().ip(from).ip(to.ip()).protocol(TCP).port(to.port());
        let set = match how {
            RefusalKind::Reset => REFUSED_BY_PEER,
            RefusalKind::Unreachable => UNREACHED,
        };
        match self.kernel.remember(Family::of(to.ip()), set, &Element::new(key)) {
            // The receiver may have timed out.
            Ok(()) => drop(in_force.send(())),
            Err(error) => {
                tracing::debug!(%error, address = %to, "cannot make the kernel refuse a connection");
            }
        }
    }

    /// Applies changes on a blocking thread: writing complete tables takes a few hundred milliseconds.
    async fn apply(mut self, changes: Vec<(Owner, RulesUpdate)>) -> Self {
        let is_retry = changes.is_empty();
        let round = self.rounds.begin(match changes.len() {
            0 => "refused rules".to_owned(),
            1 => "1 change".to_owned(),
            several => format!("{several} changes"),
        });
        let work = move || {
            let applied = if is_retry { self.kernel.retry() } else { self.kernel.apply(changes) };
            let applied = applied.and_then(|()| self.flows.forget_stale(&self.conntrack, &self.families));
            self.last_error = match &applied {
                Err(error) => Some(error.to_string()),
                Ok(()) if self.kernel.has_refused() => {
                    Some("the kernel refused some of the rules".to_owned())
                }
                Ok(()) => None,
            };
            self.failures = match applied {
                Ok(()) if !self.kernel.has_refused() => 0,
                // Some owners' rules are still refused: their retries back off, but changes of others do not lengthen
                // the delay.
                Ok(()) => self.failures.max(1) + u32::from(is_retry),
                Err(error) => {
                    tracing::warn!(%error, "the kernel refused the rules of services; retrying");
                    self.failures + 1
                }
            };
            self
        };
        match ::base::task::blocking(work).await {
            Ok(rules) => {
                let mut rules = rules;
                round.ends(rules.last_error.take().map_or(Ok(()), Err));
                if rules.failures == 0 {
                    rules.retry_at = None;
                    rules.in_force.send_modify(|times| *times += 1);
                } else if is_retry || rules.retry_at.is_none() {
                    rules.retry_at = Some(Instant::now() + RETRY.delay(rules.failures));
                }
                rules
            }
            // The closure panicked: panic here too, so that the task's supervisor reports it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}
