//! Cluster DNS, the counterpart of CoreDNS (NET-3).
//!
//! [`index`] holds the names, [`answer`] resolves them, [`message`] decodes and encodes packets; all three are pure.
//! [`server`] has the sockets, [`forward`] sends questions about names outside the cluster to the machine's own
//! resolvers.
//!
//! Reasons against `hickory-server` (0.26): its catalogue could use an index like this one, but it accepts any number
//! of connections, and starts a task for every datagram, where [`server`] has limits. Its forwarder is a resolver that
//! builds and caches its own responses, whereas Podium forwards the client's packet and the resolver's response
//! unchanged, with all extensions that they agree on. `hickory-proto` encodes and decodes the packets.
//!
//! Architecture Invariant: this crate writes no objects but Events, and it serves only at the addresses of its
//! configuration.

pub mod answer;
mod forward;
mod framing;
pub mod index;
pub mod message;
mod server;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use parking_lot::RwLock;
use tokio::sync::oneshot;

use api::controller_status::Subsystem;
use api::{Api, ChangeKind};
use base::backoff::BackoffPolicy;
use base::task::Tasks;
pub use forward::Resolvers;
use index::Index;
use object::{Key, Kind};
use reconcile::{Caches, Recorder, WorkLoop};
use server::Server;
pub use server::{Sockets, bind};
use services::Follower;

/// Back-off for reopening a port that could not be bound.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Changes come in bursts, and each costs as much as its service has endpoints; waiting this long merges a burst into
/// one update.
const BURST: Duration = Duration::from_millis(20);

/// Configuration of the DNS server.
#[derive(Clone)]
pub struct DnsConfig {
    /// The addresses to serve at, all with the same answers.
    pub addresses: Vec<SocketAddr>,
    /// Opens the sockets of one address ([`bind`]); retried when it fails.
    pub open: Arc<dyn Fn(SocketAddr) -> io::Result<Sockets> + Send + Sync>,
    /// The cluster's domain.
    pub domain: String,
    /// The address under which pods reach the machine itself ([`egress::HOST`]); `None` if they share its network stack.
    pub host: Option<Ipv4Addr>,
    /// The resolvers for all other names.
    pub resolvers: Resolvers,
    /// The Service of the DNS server, which events refer to.
    pub service: Key,
}

/// Starts the server; it ends with `tasks`.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, config: DnsConfig) {
    let first = config.addresses.iter().find_map(|address| match address.ip() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    });
    let names = Index::new(&config.domain, first.unwrap_or(Ipv4Addr::LOCALHOST)).with_host(config.host);
    let names = config.addresses.iter().fold(names, |names, address| names.with_server(address.ip()));
    let index = Arc::new(RwLock::new(names));
    let follower = Follower::start(caches);
    let of_namespaces = Arc::downgrade(&index);
    caches.of::<Namespace>().on_change(move |change| {
        if let Some(index) = of_namespaces.upgrade() {
            index.write().set_namespace(change.object.name(), change.kind != ChangeKind::Deleted);
        }
    });
    let (complete, is_complete) = oneshot::channel();
    let rounds = WorkLoop::start(api, "dns-names", Subsystem::Network, tasks);
    tasks.spawn("dns names", follow(index.clone(), follower, caches.clone(), complete, rounds));
    let forward_loop = WorkLoop::start(api, "dns-forwarded", Subsystem::Network, tasks);
    let (services, recorder) = (caches.of::<Service>(), Recorder::new(api, "coredns"));
    let (inner, clock) = (tasks.clone(), api.clock().clone());
    tasks.spawn("dns server", async move {
        // An incomplete index would deny names that exist.
        if is_complete.await.is_err() {
            return;
        }
        let server =
            Arc::new(Server::new(index, config.resolvers.clone(), &config.addresses, clock, forward_loop));
        let config = Arc::new(config);
        for &address in &config.addresses {
            let (server, config, tasks) = (server.clone(), config.clone(), inner.clone());
            let (services, recorder) = (services.clone(), recorder.clone());
            inner.spawn("dns address", async move {
                let sockets = open(&config, address, |message| {
                    if let Some(service) = services.get(&config.service) {
                        recorder.warning(service.object(), "FailedToListen", message);
                    }
                });
                server.serve(sockets.await, &tasks);
            });
        }
    });
}

/// Opens the sockets of an address, retrying until it succeeds; reports the first failure once.
async fn open(config: &DnsConfig, address: SocketAddr, report: impl Fn(String)) -> Sockets {
    let mut failures = 0;
    loop {
        match (config.open)(address) {
            Ok(sockets) => return sockets,
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    let message = format!("cannot listen on {address}: {error}; retrying");
                    tracing::warn!("cluster DNS {message}");
                    report(message);
                }
                tokio::time::sleep(RETRY.delay(failures)).await;
            }
        }
    }
}

fn services(count: usize) -> String {
    if count == 1 { "1 service".to_owned() } else { format!("{count} services") }
}

/// Updates the index for ever; signals `complete` when it has all names that existed at the start.
async fn follow(
    index: Arc<RwLock<Index>>,
    follower: Arc<Follower>,
    caches: Caches,
    complete: oneshot::Sender<()>,
    rounds: Arc<WorkLoop>,
) {
    tokio::join!(
        caches.synced(Kind::Namespace),
        caches.synced(Kind::Service),
        caches.synced(Kind::EndpointSlice)
    );
    for (key, joined) in follower.take_now() {
        index.write().update(&key, &joined);
    }
    // The receiver may be gone if the server is stopping.
    let _ = complete.send(());
    loop {
        let changed = follower.take().await;
        let round = rounds.begin(services(changed.len()));
        for (key, joined) in changed {
            index.write().update(&key, &joined);
        }
        round.ends(Ok::<(), &str>(()));
        tokio::time::sleep(BURST).await;
    }
}
