//! Services in the kernel (NET-6): what kube-proxy writes elsewhere, as nftables of the fabric.
//!
//! [`services`], [`pods`] and [`nodes`] say what each wants there, purely; [`kernel`] brings the tables to it by the least
//! changes. Connections that exist go on with the endpoint they have: the kernel remembers them itself, whatever becomes
//! of the rules and of this process.

mod base;
mod endpoints;
mod faults;
mod flows;
mod judgement;
mod kernel;
mod names;
mod nodes;
mod piece;
mod pods;
mod policies;
mod policy_chains;
mod policy_changes;
mod policy_names;
mod policy_parts;
#[cfg(test)]
mod policy_tests;
mod services;
#[cfg(test)]
mod tests;
mod trial;

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

use self::base::{REFUSED_THERE, TCP, UNREACHED, base};
use crate::egress::{Refusal, Refuse, Refused};
use crate::follow::{Follower, Joined};
use crate::policy::SetId;
use crate::proxy::host_ports::{HostPorts, has_host_ports};
use ::base::backoff::BackoffPolicy;
use ::base::task::Tasks;
use api::Api;
use api::controller_status::Subsystem;
use fabric::conntrack::Conntrack;
use flows::Flows;
use judgement::Judgement;
use kernel::Kernel;
use nodes::Places;
use object::{Key, Kind};
use piece::{Piece, Wish};
use policy_changes::PolicyChanges;
use reconcile::{Caches, WorkLoop};

pub use base::WayOut;
pub(crate) use faults::{Broken, FaultRules, How, Settled};
pub(crate) use nodes::NodePlace;
pub use trial::{try_ipv6, try_rules};

/// How soon rules are tried again that the kernel has refused.
const RETRY: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(30) };

/// How the rules are set up.
pub struct RulesConfig {
    /// A socket of the fabric's nftables.
    pub nft: Nft,
    /// The connections that the fabric remembers.
    pub conntrack: Conntrack,
    /// Which families pods have addresses of.
    pub families: Vec<Family>,
    /// Where services have their addresses.
    pub services: Vec<IpNet>,
    /// Where anybody of the cluster has.
    pub inside: Vec<IpNet>,
    /// There is a way out ([`crate::egress`]), of this kind.
    pub way_out: Option<WayOut>,
    /// Where the cluster's DNS is, which policies know as the pods `k8s-app=kube-dns` of `kube-system`.
    pub dns: Vec<IpAddr>,
    /// What is broken on purpose.
    pub faults: FaultSeam,
    /// How often all that was known then has been put in force: the kernel has acknowledged it.
    pub in_force: watch::Sender<u64>,
}

/// Where faults are handed over to the rules, which wait for them at the start.
#[derive(Clone, Default)]
pub struct FaultSeam(pub(crate) Arc<FaultRules>);

impl FaultSeam {
    /// Of nobody who breaks anything: nobody is waited for.
    pub fn unused() -> Self {
        let seam = Self::default();
        seam.0.want(BTreeMap::new());
        seam
    }
}

/// Who wants something in the tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Service(Key),
    Pod(Key),
    Node(String),
    /// A set of peers that policies name.
    Peers(SetId),
    /// Addresses that policies name, by a number.
    Block(u32),
    /// Ports that policies name, by a number.
    Ports(u32),
    /// What policies leave of pods, by a number.
    Isolation(u32),
    /// A pod that policies isolate.
    Isolated(Key),
    /// A fault.
    Fault(String),
}

/// The nodes as they are, and that they have changed.
#[derive(Default)]
struct Followed {
    places: Mutex<Places>,
    changed: Notify,
}

/// Connections that could not be made and that nobody has been told of yet.
const UNTOLD: usize = 64;

/// Starts keeping the tables; it ends with `tasks`, and the tables stay. What comes back has somebody's connections to an
/// address of the world refused for a moment.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, config: RulesConfig) -> Refuse {
    let (refuse, mut refused) = mpsc::channel::<Refused>(UNTOLD);
    let nodes = Arc::new(Followed::default());
    let judged = PolicyChanges::start(caches);
    let (services, pods) = (Follower::start(caches), HostPorts::start(caches, has_host_ports));
    let of_nodes = Arc::downgrade(&nodes);
    caches.of::<Node>().on_change(move |change| {
        let (Some(nodes), Some(node)) = (of_nodes.upgrade(), change.object.get::<Node>()) else { return };
        let place = (change.kind != api::ChangeKind::Deleted).then(|| NodePlace::of(node)).flatten();
        let mut places = nodes.places.lock();
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
        // Half a picture would refuse connections that a moment later are served.
        tokio::join!(
            caches.synced(Kind::Node),
            caches.synced(Kind::Service),
            caches.synced(Kind::EndpointSlice),
            // Nor may what policies refuse be let through in between.
            caches.synced(Kind::Pod),
            caches.synced(Kind::Namespace),
            caches.synced(Kind::NetworkPolicy),
            // Nor what is cut off.
            config.faults.0.said()
        );
        let RulesConfig { nft, conntrack, families, services: ranges, inside, way_out, dns, faults, in_force } =
            config;
        let faults = faults.0;
        let base = base(&families, &inside, way_out);
        let mut rules = Rules {
            kernel: Kernel::new(nft, families.clone(), base),
            conntrack,
            families,
            flows: Flows::default(),
            ranges,
            places: Places::new(),
            failures: 0,
            policies: Judgement::new(&dns),
            retry_at: None,
            in_force,
            rounds,
            trouble: None,
        };
        // All in one change, nodes first: tables that somebody else has left are replaced by it, and half of what they
        // say would refuse what is served, or let through what policies refuse.
        let mut first = rules.of_nodes(nodes.places.lock().clone());
        first.extend(services.take_now().into_iter().map(|(key, joined)| rules.of_service(key, &joined)));
        first.extend(pods.take_now().into_iter().map(|(key, pod)| rules.of_pod(key, pod.as_deref())));
        first.extend(rules.policies.take(judged.take_now(), &rules.families));
        let (mut turn, wanted) = faults.take_now(&rules.families);
        first.extend(wanted.into_iter().map(of_fault));
        rules = rules.apply(first).await;
        loop {
            faults.settle(turn, |name| rules.kernel.refuses(&Owner::Fault(name.to_owned())));
            let (mut changes, mut tries_again) = (Vec::new(), false);
            tokio::select! {
                changed = services.take() => {
                    changes.extend(changed.into_iter().map(|(key, joined)| rules.of_service(key, &joined)));
                }
                changed = pods.take() => {
                    changes.extend(changed.into_iter().map(|(key, pod)| rules.of_pod(key, pod.as_deref())));
                }
                changed = judged.take() => changes.extend(rules.policies.take(changed, &rules.families)),
                (now, wanted) = faults.take(&rules.families) => {
                    turn = now;
                    changes.extend(wanted.into_iter().map(of_fault));
                }
                () = nodes.changed.notified() => {
                    changes.extend(rules.of_nodes(nodes.places.lock().clone()));
                    // Whom they serve depends on where: with the same change, so that nobody names what is gone.
                    services.mark_all();
                    pods.mark_all();
                    changes.extend(services.take_now().into_iter().map(|(key, joined)| rules.of_service(key, &joined)));
                }
                Some(refused) = refused.recv() => {
                    rules.refuse(refused);
                    continue;
                }
                () = rules.wait() => tries_again = true,
            }
            // Most of what pods say of themselves is nothing to policies.
            if tries_again || !changes.is_empty() {
                rules = rules.apply(changes).await;
            }
        }
    });
    // Of more than that at once some are reset.
    Arc::new(move |refused| {
        let _ = refuse.try_send(refused);
    })
}

fn of_fault((name, piece): (String, Piece)) -> (Owner, Wish) {
    (Owner::Fault(name), piece.into())
}

/// The tables, and what is known of the cluster besides.
struct Rules {
    kernel: Kernel<Owner>,
    conntrack: Conntrack,
    families: Vec<Family>,
    flows: Flows,
    ranges: Vec<IpNet>,
    places: Places,
    /// Changes that the kernel has refused in a row.
    failures: u32,
    /// When what it has refused is tried again.
    retry_at: Option<Instant>,
    /// What network policies say.
    policies: Judgement,
    in_force: watch::Sender<u64>,
    rounds: Arc<WorkLoop>,
    /// What the kernel has said last where it has refused something.
    trouble: Option<String>,
}

impl Rules {
    /// What nodes want; these are all.
    fn of_nodes(&mut self, now: Places) -> Vec<(Owner, Wish)> {
        let gone = self.places.keys().filter(|name| !now.contains_key(*name));
        let gone = gone.map(|name| (Owner::Node(name.clone()), Piece::default().into()));
        let there =
            now.iter().map(|(name, place)| (Owner::Node(name.clone()), nodes::piece(name, place).into()));
        let changes = gone.chain(there).collect();
        self.places = now;
        changes
    }

    /// What a pod with host ports wants.
    fn of_pod(&self, key: Key, pod: Option<&Pod>) -> (Owner, Wish) {
        let piece = pod.map(|pod| pods::piece(&key.namespace, pod, &self.places));
        (Owner::Pod(key), piece.unwrap_or_default().into())
    }

    /// What a service wants, and what becomes of its flows once it has it.
    fn of_service(&mut self, key: Key, joined: &Joined) -> (Owner, Wish) {
        self.flows.change(key.clone(), services::datagrams(joined, &self.places, &self.ranges));
        let piece = services::piece(&key, joined, &self.places, &self.ranges);
        (Owner::Service(key), piece.into())
    }

    /// Has a connection to the world refused when it is tried again.
    fn refuse(&self, refused: Refused) {
        let Refused { from, to, how, in_force } = refused;
        let key = FieldKey::new().ip(from).ip(to.ip()).protocol(TCP).port(to.port());
        let set = match how {
            Refusal::Reset => REFUSED_THERE,
            Refusal::Unreachable => UNREACHED,
        };
        match self.kernel.remember(Family::of(to.ip()), set, &Element::new(key)) {
            // Who is gone does not want to know.
            Ok(()) => drop(in_force.send(())),
            Err(error) => tracing::debug!(%error, address = %to, "not refused"),
        }
    }

    /// Until what was refused is to be tried again, however often others change meanwhile.
    async fn wait(&self) {
        match self.retry_at {
            None => std::future::pending().await,
            Some(at) => tokio::time::sleep_until(at).await,
        }
    }

    /// Takes changes over. A whole set of tables takes some hundred milliseconds: not on a thread of the runtime.
    async fn apply(mut self, changes: Vec<(Owner, Wish)>) -> Self {
        let is_retry = changes.is_empty();
        let round = self.rounds.begin(match changes.len() {
            0 => "what the kernel has refused".to_owned(),
            1 => "1 change".to_owned(),
            several => format!("{several} changes"),
        });
        let work = move || {
            let applied = if is_retry { self.kernel.retry() } else { self.kernel.apply(changes) };
            let applied = applied.and_then(|()| self.flows.forget_stale(&self.conntrack, &self.families));
            self.trouble = match &applied {
                Err(error) => Some(error.to_string()),
                Ok(()) if self.kernel.has_refused() => {
                    Some("the kernel refuses some of the rules".to_owned())
                }
                Ok(()) => None,
            };
            self.failures = match applied {
                Ok(()) if !self.kernel.has_refused() => 0,
                // Of a few owners: what others want is no reason to ask for theirs more seldom.
                Ok(()) => self.failures.max(1) + u32::from(is_retry),
                Err(error) => {
                    tracing::warn!(%error, "the kernel refuses the rules of services; trying again");
                    self.failures + 1
                }
            };
            self
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(rules) => {
                let mut rules = rules;
                round.ends(rules.trouble.take().map_or(Ok(()), Err));
                if rules.failures == 0 {
                    rules.retry_at = None;
                    rules.in_force.send_modify(|times| *times += 1);
                } else if is_retry || rules.retry_at.is_none() {
                    rules.retry_at = Some(Instant::now() + RETRY.delay(rules.failures));
                }
                rules
            }
            // A panic inside: the task ends with it, and is told.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}
