//! The open bind addresses, reconciled with the desired ones by opening and closing as few as possible.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::balance::Balancer;
use super::node_networks::NodeNetworks;
use super::owner::{DesiredListeners, Owner, OwnerChange, OwnerSources};
use super::sockets::Sockets;
use super::table::{BindAddress, ListenNetwork, Listener, Protocol};
use super::{ProxyState, SharedBalancer, node_networks, tcp, udp};
use base::backoff::BackoffPolicy;
use base::task::Tasks;
use object::Object;
use object::low_ports::LowPorts;
use reconcile::Recorder;

/// Back-off for bind addresses that could not be bound.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Back-off for checking whether a program listens: most likely it is about to.
const PROGRAM: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(2) };

/// All open bind addresses, and the desired ones that are not open.
pub(super) struct ListenerSet {
    shared: Arc<ProxyState>,
    recorder: Recorder,
    low_ports: LowPorts,
    open: HashMap<BindAddress, OpenListener>,
    of_owner: HashMap<Owner, BTreeSet<BindAddress>>,
    /// Owners that want a bind address which another owner has.
    waiting: HashMap<BindAddress, BTreeSet<Owner>>,
    /// Owners with a bind address that could not be bound, or a port that can never be served.
    failed: BTreeMap<Owner, FailedBind>,
}

/// An open bind address.
struct OpenListener {
    owner: Owner,
    declared: u16,
    balancer: SharedBalancer,
    tasks: Tasks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FailedBind {
    failures: u32,
    /// The time of the next retry; `None` if a retry cannot open more.
    retry_at: Option<Duration>,
    /// Events about addresses in use were recorded.
    in_use_reported: bool,
    /// Events about ports that can never be served were recorded.
    refused_reported: bool,
}

impl FailedBind {
    /// Returns the state after an attempt; `None` if it opened everything.
    fn after_attempt(self, refusals: &[BindRefusal], refused: &[String], now: Duration) -> Option<Self> {
        if refusals.is_empty() {
            let only_refused = Self { refused_reported: true, ..Self::default() };
            return (!refused.is_empty()).then_some(only_refused);
        }
        let is_in_use = |refusal: &BindRefusal| matches!(refusal, BindRefusal::InUse(..));
        let mut next = self;
        next.in_use_reported |= refusals.iter().any(is_in_use);
        next.refused_reported |= !refused.is_empty();
        // The owner may change while it waits for the retry; that is not another failure.
        if self.retry_at.is_none_or(|at| at <= now) {
            let only_programs = refusals.iter().all(|refusal| matches!(refusal, BindRefusal::NoProgram));
            let policy = if only_programs { PROGRAM } else { RETRY };
            next.failures = self.failures.saturating_add(1);
            next.retry_at = Some(now + policy.delay(next.failures));
        }
        Some(next)
    }
}

/// The reason why a bind address is not open.
enum BindRefusal {
    /// The bind address could not be bound, with the error.
    InUse(BindAddress, String),
    /// Another owner or the program itself has the bind address, and this owner does not need it.
    Optional,
    /// The program behind it does not listen yet.
    NoProgram,
}

impl ListenerSet {
    pub(super) fn new(shared: Arc<ProxyState>, recorder: Recorder, low_ports: LowPorts) -> Self {
        Self {
            shared,
            recorder,
            low_ports,
            open: HashMap::new(),
            of_owner: HashMap::new(),
            waiting: HashMap::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Returns the time until the next retry; `None` if there is nothing to retry.
    pub(super) fn next_retry(&self) -> Option<Duration> {
        let now = self.shared.clock.monotonic();
        self.failed.values().filter_map(|failed| Some(failed.retry_at?.saturating_sub(now))).min()
    }

    /// Returns the owners to retry now.
    pub(super) fn due(&self) -> Vec<Owner> {
        let now = self.shared.clock.monotonic();
        let is_due = |failed: &FailedBind| failed.retry_at.is_some_and(|at| at <= now);
        self.failed.iter().filter(|(_, failed)| is_due(failed)).map(|(key, _)| key.clone()).collect()
    }

    /// Reconciles the bind addresses of changed owners.
    pub(super) async fn apply(&mut self, changed: Vec<OwnerChange>, followed: &OwnerSources) {
        let machine = self.shared.machine();
        let mut all = Vec::new();
        for changed in changed {
            let desired = changed.desired_addresses(
                &machine,
                self.low_ports,
                self.shared.inside.as_ref().map(|inside| &inside.mirrors),
            );
            // Close all stale listeners before opening any: a bind address may pass from one owner to another.
            self.close_all_but(&desired.owner, &desired.listeners, followed).await;
            if desired.object.is_some() {
                all.push(desired);
            } else {
                self.failed.remove(&desired.owner);
            }
        }
        let sockets = Sockets::default();
        for desired in all {
            self.open_all(desired, &sockets);
        }
    }

    /// Reopens the listeners in a node's network, which may have been replaced.
    pub(super) async fn leave(&mut self, node: Ipv4Addr, followed: &OwnerSources) {
        let left = |bind_address: &BindAddress| bind_address.network == ListenNetwork::Node(node);
        let stale: Vec<BindAddress> = self.open.keys().copied().filter(left).collect();
        for bind_address in stale {
            let Some(open) = self.open.remove(&bind_address) else { continue };
            open.tasks.stop().await;
            if let Some(own) = self.of_owner.get_mut(&open.owner) {
                own.remove(&bind_address);
            }
            followed.mark([open.owner]);
        }
    }

    async fn close_all_but(&mut self, owner: &Owner, listeners: &[Listener], followed: &OwnerSources) {
        let mut desired: HashMap<BindAddress, u16> = HashMap::new();
        for listener in listeners {
            // Of several listeners with the same address, the first one wins; it is for the declared port, if there is
            // one.
            desired.entry(listener.bind_address).or_insert(listener.declared);
        }
        let mut retained = BTreeSet::new();
        for bind_address in self.of_owner.remove(owner).unwrap_or_default() {
            if self.open.get(&bind_address).map(|open| open.declared) == desired.get(&bind_address).copied() {
                retained.insert(bind_address);
                continue;
            }
            if let Some(open) = self.open.remove(&bind_address) {
                open.tasks.stop().await;
            }
            followed.mark(self.waiting.remove(&bind_address).unwrap_or_default());
        }
        if !retained.is_empty() {
            self.of_owner.insert(owner.clone(), retained);
        }
    }

    fn open_all(&mut self, desired: DesiredListeners, sockets: &Sockets) {
        let DesiredListeners { owner, object: Some(object), listeners, refused } = desired else { return };
        let mut refusals = Vec::new();
        for listener in listeners {
            let (bind_address, declared) = (listener.bind_address, listener.declared);
            match self.open.get_mut(&bind_address) {
                Some(open) if open.owner == owner && open.declared == declared => {
                    open.balancer.lock().replace(listener.balance);
                }
                Some(open) => {
                    let other = open.owner.clone();
                    if other != owner {
                        self.waiting.entry(bind_address).or_default().insert(owner.clone());
                    }
                    refusals.push(if listener.spare {
                        BindRefusal::Optional
                    } else {
                        BindRefusal::InUse(bind_address, format!("{other} uses this address"))
                    });
                }
                None if listener.program_first && !is_served(&listener, sockets) => {
                    refusals.push(BindRefusal::NoProgram);
                }
                // The program itself listens on every address of the machine.
                None if listener.program_first
                    && sockets.serve_everywhere(bind_address.protocol, bind_address.address.port()) =>
                {
                    refusals.push(BindRefusal::Optional);
                }
                None => match self.open_one(listener) {
                    Ok((balancer, tasks)) => {
                        self.open.insert(
                            bind_address,
                            OpenListener { owner: owner.clone(), declared, balancer, tasks },
                        );
                        self.of_owner.entry(owner.clone()).or_default().insert(bind_address);
                        self.record_if_moved(&object, bind_address, declared);
                    }
                    Err(error) => refusals.push(BindRefusal::InUse(bind_address, reason(&error))),
                },
            }
        }
        self.schedule_retry(owner, &object, &refusals, &refused);
    }

    /// Schedules a retry for an owner with bind addresses that are not open, and records an event the first time.
    fn schedule_retry(
        &mut self,
        owner: Owner,
        object: &Object,
        refusals: &[BindRefusal],
        refused: &[String],
    ) {
        let before = self.failed.remove(&owner).unwrap_or_default();
        let in_use = refusals.iter().filter_map(|refusal| match refusal {
            BindRefusal::InUse(bind_address, reason) => {
                Some(format!("cannot listen on {bind_address}: {reason}; retrying"))
            }
            BindRefusal::Optional | BindRefusal::NoProgram => None,
        });
        let in_use = in_use.filter(|_| !before.in_use_reported);
        for text in in_use.chain(refused.iter().filter(|_| !before.refused_reported).cloned()) {
            self.recorder.warning(object, "FailedToListen", text);
        }
        if let Some(failed) = before.after_attempt(refusals, refused, self.shared.clock.monotonic()) {
            self.failed.insert(owner, failed);
        }
    }

    fn open_one(&self, listener: Listener) -> io::Result<(SharedBalancer, Tasks)> {
        let balancer = Arc::new(Mutex::new(Balancer::new(listener.balance)));
        let (tasks, shared) = (self.shared.connections.child(), self.shared.clone());
        let BindAddress { network: place, address, protocol } = listener.bind_address;
        if let (ListenNetwork::Node(node), Some(inside)) = (place, &self.shared.inside) {
            let nodes = inside.nodes.clone();
            let serve = serve_in_node(nodes, node, (address, protocol), (balancer.clone(), shared));
            tasks.spawn("service listener of a node", serve);
            return Ok((balancer, tasks));
        }
        match protocol {
            Protocol::Tcp => {
                let socket = tcp::listen(address)?;
                tasks.spawn("service listener", tcp::accept(socket, balancer.clone(), shared));
            }
            Protocol::Udp => {
                let socket = udp::bind(address)?;
                tasks.spawn("service datagrams", udp::forward(socket, balancer.clone(), shared));
            }
        }
        Ok((balancer, tasks))
    }

    fn record_if_moved(&self, object: &Object, bind_address: BindAddress, declared: u16) {
        if bind_address.address.port() != declared {
            let message = format!(
                "Only root can use port {declared} on this machine: it is served at {bind_address} (set \
                 sysctl net.ipv4.ip_unprivileged_port_start={declared} to change that)"
            );
            self.recorder.normal(object, "PortMoved", message);
        }
    }
}

/// Listens in a node's network as soon as the port is free there. A node may take long to provide a socket, so this
/// runs in its own task and delays no other listener.
async fn serve_in_node(
    nodes: Arc<dyn NodeNetworks>,
    node: Ipv4Addr,
    (address, protocol): (SocketAddr, Protocol),
    (balancer, shared): (SharedBalancer, Arc<ProxyState>),
) {
    let mut failures = 0;
    loop {
        let refused = match protocol {
            Protocol::Tcp => match node_networks::listen(&*nodes, node, address).await {
                Ok(socket) => return tcp::accept(socket, balancer, shared).await,
                Err(refused) => refused,
            },
            Protocol::Udp => match node_networks::datagrams(&*nodes, node, address).await {
                Ok(socket) => return udp::forward(socket, balancer, shared).await,
                Err(refused) => refused,
            },
        };
        failures += 1;
        tracing::debug!(%refused, %node, %address, "cannot serve a host port at its node's address");
        tokio::time::sleep(RETRY.delay(failures)).await;
    }
}

/// Returns whether programs listen at all endpoints of a listener.
fn is_served(listener: &Listener, sockets: &Sockets) -> bool {
    let mut behind = listener.balance.ready.iter();
    behind.all(|backend| sockets.serve(listener.bind_address.protocol, backend.address))
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses the port".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_that_can_be_opened_later_are_retried_net_2() {
        let second = Duration::from_secs(1);
        let unserved = ["host port 81: SCTP is not supported".to_owned()];
        let address = "127.16.0.1:80".parse().unwrap();
        let bind_address = BindAddress { network: ListenNetwork::Machine, address, protocol: Protocol::Tcp };
        let in_use = [BindRefusal::InUse(bind_address, "another program uses the port".into())];
        let never = FailedBind::default().after_attempt(&[], &unserved, second).unwrap();
        assert_eq!((never.retry_at, never.refused_reported), (None, true));
        assert_eq!(never.after_attempt(&[], &unserved, second), Some(never));
        assert!(!never.in_use_reported, "an address that is taken later gets an event of its own");
        let taken = never.after_attempt(&in_use, &unserved, second).unwrap();
        assert_eq!((taken.failures, taken.retry_at), (1, Some(second * 2)));
        assert!(taken.in_use_reported && taken.refused_reported);
        assert_eq!(
            taken.after_attempt(&in_use, &unserved, second),
            Some(taken),
            "the owner changed meanwhile"
        );
        let again = taken.after_attempt(&in_use, &unserved, second * 2).unwrap();
        assert_eq!((again.failures, again.retry_at), (2, Some(second * 4)));
        assert_eq!(again.after_attempt(&[], &unserved, second * 4), Some(never));
        assert_eq!(again.after_attempt(&[], &[], second * 4), None);
        let absent = FailedBind::default().after_attempt(&[BindRefusal::NoProgram], &[], second).unwrap();
        assert_eq!((absent.retry_at, absent.in_use_reported), (Some(second + PROGRAM.initial), false));
    }
}
