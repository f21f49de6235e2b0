//! The places that are open, brought to what the services want: the least that opens and closes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;

use super::balance::Balancer;
use super::table::{Listener, Place, Protocol, listeners};
use super::{Shared, SharedBalancer, tcp, udp};
use crate::base::backoff::BackoffPolicy;
use crate::base::task::Tasks;
use crate::network::follow::{Follower, Joined};
use crate::object::low_ports::LowPorts;
use crate::object::{Key, Shared as SharedObject};
use crate::reconcile::Recorder;

/// How long until a place that could not be had is tried again.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// All open places and all that should be.
pub(super) struct Listening {
    shared: Arc<Shared>,
    recorder: Recorder,
    low_ports: LowPorts,
    open: HashMap<Place, Open>,
    /// The places of each service.
    of_service: HashMap<Key, BTreeSet<Place>>,
    /// Services that want a place another service has.
    waiting: HashMap<Place, BTreeSet<Key>>,
    /// Services with a place that cannot be had, and when to try again.
    failed: BTreeMap<Key, Failed>,
}

/// One open place.
struct Open {
    owner: Key,
    declared: u16,
    balancer: SharedBalancer,
    tasks: Tasks,
}

#[derive(Clone, Copy)]
struct Failed {
    failures: u32,
    retry_at: Duration,
}

impl Listening {
    pub(super) fn new(shared: Arc<Shared>, recorder: Recorder, low_ports: LowPorts) -> Self {
        Self {
            shared,
            recorder,
            low_ports,
            open: HashMap::new(),
            of_service: HashMap::new(),
            waiting: HashMap::new(),
            failed: BTreeMap::new(),
        }
    }

    /// How long until something must be tried again; none when all is well.
    pub(super) fn next_retry(&self) -> Option<Duration> {
        let now = self.shared.clock.monotonic();
        self.failed.values().map(|failed| failed.retry_at.saturating_sub(now)).min()
    }

    /// The services that are to be tried again now.
    pub(super) fn due(&self) -> Vec<Key> {
        let now = self.shared.clock.monotonic();
        self.failed.iter().filter(|(_, failed)| failed.retry_at <= now).map(|(key, _)| key.clone()).collect()
    }

    /// Brings the places of the changed services to what they want now.
    pub(super) async fn apply(&mut self, changed: Vec<(Key, Joined)>, follower: &Follower) {
        let machine = self.shared.machine();
        let mut wanted = Vec::new();
        for (key, joined) in changed {
            let listeners = listeners(&joined, &machine, self.low_ports);
            // All that closes closes before anything opens: a place may go from one service to another.
            self.close_all_but(&key, &listeners, follower).await;
            if let Some(service) = joined.service {
                wanted.push((key, service, listeners));
            } else {
                self.failed.remove(&key);
            }
        }
        for (key, service, listeners) in wanted {
            self.open_all(&key, &service, listeners);
        }
    }

    async fn close_all_but(&mut self, key: &Key, listeners: &[Listener], follower: &Follower) {
        let mut wanted: HashMap<Place, u16> = HashMap::new();
        for listener in listeners {
            // The first one is for the port that is declared there, if any is.
            wanted.entry(listener.place).or_insert(listener.declared);
        }
        let mut kept = BTreeSet::new();
        for place in self.of_service.remove(key).unwrap_or_default() {
            if self.open.get(&place).map(|open| open.declared) == wanted.get(&place).copied() {
                kept.insert(place);
                continue;
            }
            if let Some(open) = self.open.remove(&place) {
                open.tasks.stop().await;
            }
            follower.mark(self.waiting.remove(&place).unwrap_or_default());
        }
        if !kept.is_empty() {
            self.of_service.insert(key.clone(), kept);
        }
    }

    fn open_all(&mut self, key: &Key, service: &SharedObject<Service>, listeners: Vec<Listener>) {
        let mut failures = Vec::new();
        for listener in listeners {
            let (place, declared) = (listener.place, listener.declared);
            match self.open.get_mut(&place) {
                Some(open) if open.owner == *key && open.declared == declared => {
                    open.balancer.lock().replace(listener.balance);
                }
                Some(open) => {
                    let owner = open.owner.clone();
                    if owner != *key {
                        self.waiting.entry(place).or_default().insert(key.clone());
                    }
                    failures.push((place, format!("service {owner} is served there")));
                }
                None => match self.open_one(listener) {
                    Ok((balancer, tasks)) => {
                        self.open.insert(place, Open { owner: key.clone(), declared, balancer, tasks });
                        self.of_service.entry(key.clone()).or_default().insert(place);
                        self.tell_if_moved(service, place, declared);
                    }
                    Err(error) => failures.push((place, reason(&error))),
                },
            }
        }
        if failures.is_empty() {
            self.failed.remove(key);
            return;
        }
        let now = self.shared.clock.monotonic();
        let before = self.failed.get(key).copied();
        // A service may change while it waits; that is no further failure.
        if before.is_some_and(|before| before.retry_at > now) {
            return;
        }
        let count = before.map_or(1, |before| before.failures.saturating_add(1));
        self.failed.insert(key.clone(), Failed { failures: count, retry_at: now + RETRY.delay(count) });
        if count == 1 {
            for (place, reason) in failures {
                let message = format!("cannot listen on {place}: {reason}; trying again");
                self.recorder.warning(service.object(), "FailedToListen", message);
            }
        }
    }

    fn open_one(&self, listener: Listener) -> io::Result<(SharedBalancer, Tasks)> {
        let balancer = Arc::new(Mutex::new(Balancer::new(listener.balance)));
        let (tasks, shared) = (self.shared.connections.child(), self.shared.clone());
        let address = listener.place.address;
        match listener.place.protocol {
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

    fn tell_if_moved(&self, service: &SharedObject<Service>, place: Place, declared: u16) {
        if place.address.port() != declared {
            let message = format!(
                "Port {declared} is root's alone on this machine: it is served at {place} (sysctl \
                 net.ipv4.ip_unprivileged_port_start={declared} would change that)"
            );
            self.recorder.normal(service.object(), "PortMoved", message);
        }
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program has the port".into(),
        _ => error.to_string(),
    }
}
