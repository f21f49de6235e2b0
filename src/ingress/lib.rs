//! The ingress controller: serves Ingresses of its class at ports of the machine (NET-9).
//!
//! ```text
//! Ingress, IngressClass, Service, EndpointSlice, Secret ─► table::build, certificates::load ─► ServingState
//! client ─► reverse_proxy ─► router (by the table) ─► reverse_proxy ─► endpoint
//! ```
//!
//! Sockets are open while there is an Ingress of its class; before the first one, no other kinds are followed. Problems
//! of an Ingress are recorded in events, once each, and its status states the address.
//!
//! Architecture Invariant: this crate writes no objects but Events and the status of Ingresses, and it listens beyond
//! loopback only if the user who starts the cluster says so.

mod annotations;
mod certificates;
mod class;
mod problem;
mod router;
mod status;
mod table;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use api::Api;
use api::controller_status::Subsystem;
use base::clock::if_some;
use base::sort::SliceOrder;
use base::task::Tasks;
use class::Classes;
use object::{Key, Kind, Revision, SharedObject as Stored};
use problem::Problem;
use reconcile::{Caches, Recorder, WorkLoop, reference_to};
use reverse_proxy::certificates::Resolver;
use reverse_proxy::references::ReferenceFollower;
use reverse_proxy::{Port, ReverseProxy, serve};
use router::{IngressRouter, ServingState};
use table::build::{BuildResult, TlsHost, build};

/// Changes come in bursts; waiting this long merges a burst into one reconcile.
const BURST: Duration = Duration::from_millis(20);
/// Interval at which idle connections to endpoints are closed and sockets that could not be bound are retried.
const TIDY: Duration = Duration::from_secs(5);

/// Configuration of the controller.
#[derive(Clone)]
pub struct IngressConfig {
    /// The address for HTTP; port 0 means any free port.
    pub http: SocketAddr,
    /// The address for HTTPS; port 0 means any free port.
    pub https: SocketAddr,
}

/// Starts the controller; it ends with `tasks`.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, proxy: &Arc<ReverseProxy>, config: IngressConfig) {
    let changed = Arc::new(Notify::new());
    for kind in [Kind::Ingress, Kind::IngressClass] {
        let changed = Arc::downgrade(&changed);
        caches.on_any_change(kind, move |_| {
            if let Some(changed) = changed.upgrade() {
                changed.notify_one();
            }
        });
    }
    let mut controller = Controller {
        api: api.clone(),
        caches: caches.clone(),
        recorder: Recorder::new(api, "podium-ingress"),
        config,
        proxy: proxy.clone(),
        router: Arc::default(),
        changed,
        following: None,
        serving: None,
        served: HashMap::new(),
    };
    let rounds = WorkLoop::start(api, "ingress", Subsystem::Network, tasks);
    tasks.spawn("ingress controller", async move {
        tokio::join!(controller.caches.synced(Kind::Ingress), controller.caches.synced(Kind::IngressClass));
        loop {
            let round = rounds.begin("ingresses");
            round.ends(controller.sync().await);
            controller.wait().await;
            tokio::time::sleep(BURST).await;
        }
    });
}

struct Controller {
    api: Api,
    caches: Caches,
    recorder: Recorder,
    config: IngressConfig,
    proxy: Arc<ReverseProxy>,
    router: Arc<IngressRouter>,
    changed: Arc<Notify>,
    /// Follows the objects that Ingresses refer to; `None` until there is an Ingress.
    following: Option<ReferenceFollower>,
    /// The open sockets; `None` while there is no Ingress.
    serving: Option<OpenSockets>,
    /// The served Ingresses, each with its last report.
    served: HashMap<Key, ReportedIngress>,
}

/// The last report about an Ingress.
struct ReportedIngress {
    uid: String,
    problems: HashSet<Problem>,
    /// The address in its last event.
    address: Option<String>,
}

/// Open sockets.
struct OpenSockets {
    tasks: Tasks,
    resolver: Arc<Resolver>,
    http: SocketAddr,
    https: SocketAddr,
    /// Messages about addresses that could not be bound as configured.
    moved: Vec<String>,
    /// The current certificates, by the versions of their Secrets, and their problems.
    certificates: Vec<(TlsHost, Option<Revision>)>,
    problems: Vec<(Key, Problem)>,
}

impl OpenSockets {
    /// Sets the certificates of hosts. Parsing keys is the most expensive step, so it is skipped if nothing changed.
    fn set_certificates(&mut self, hosts: &[TlsHost], secrets: impl Fn(&Key) -> Option<Stored<Secret>>) {
        let version = |host: &TlsHost| host.secret.as_ref().and_then(|key| Some(secrets(key)?.revision()));
        let desired: Vec<_> = hosts.iter().map(|host| (host.clone(), version(host))).collect();
        if desired != self.certificates {
            let (certificates, problems) = certificates::load(hosts, secrets);
            self.resolver.replace(certificates);
            (self.certificates, self.problems) = (desired, problems);
        }
    }
}

impl Controller {
    /// Waits for the next reason to reconcile.
    async fn wait(&self) {
        let services = self.following.as_ref().map(ReferenceFollower::service_changed);
        let tidy = async {
            // Without Ingresses there is nothing to clean up, and no reason to wake.
            if self.served.is_empty() {
                std::future::pending::<()>().await;
            }
            loop {
                tokio::time::sleep(TIDY).await;
                self.proxy.tidy();
                if self.serving.is_none() {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.changed.notified() => {}
            () = if_some(services) => {}
            () = tidy => {}
        }
    }

    /// Reconciles the served configuration with the Ingresses.
    async fn sync(&mut self) -> Result<(), String> {
        let classes = Classes::of(self.caches.of::<IngressClass>().list());
        let mut ingresses: Vec<Stored<Ingress>> = self.caches.of::<Ingress>().list();
        ingresses.retain(|ingress| classes.include(ingress));
        ingresses.order_by_cached_key(|ingress| (ingress.metadata.creation_timestamp.clone(), ingress.key()));
        self.clear_status(&ingresses);
        if ingresses.is_empty() {
            self.close().await;
            return Ok(());
        }
        self.follow().await;
        let listening = self.listen(&ingresses).await;
        let Some(following) = &self.following else { return listening };
        let services = following.services.clone();
        let built = build(&ingresses, &|key| services.get(key).service);
        let secrets = self.caches.of::<Secret>();
        self.publish(&built, following);
        let mut of_certificates = Vec::new();
        if let Some(serving) = &mut self.serving {
            serving.set_certificates(&built.tls, |key| secrets.get(key));
            of_certificates.clone_from(&serving.problems);
        }
        self.report(&ingresses, built.problems.into_iter().chain(of_certificates));
        listening
    }

    /// Starts following the objects that Ingresses refer to.
    async fn follow(&mut self) {
        if self.following.is_some() {
            return;
        }
        self.following = Some(ReferenceFollower::start(&self.caches, &self.changed).await);
    }

    /// Puts a table in force.
    fn publish(&self, built: &BuildResult, following: &ReferenceFollower) {
        let secrets = built.tls.iter().filter_map(|tls| Some((Kind::Secret, tls.secret.clone()?)));
        let services = built.services.iter().map(|key| (Kind::Service, key.clone()));
        *following.named.write() = services.chain(secrets).collect();
        let nodes = self.caches.of::<Node>().list();
        let (before, services) = (self.router.current(), &following.services);
        let pools = self.proxy.pools(built.table.backends(), &before.pools, services, &nodes);
        self.router.replace(ServingState { table: built.table.clone(), pools });
    }

    /// Opens the sockets unless they are open.
    async fn listen(&mut self, ingresses: &[Stored<Ingress>]) -> Result<(), String> {
        if self.serving.is_some() {
            return Ok(());
        }
        match self.open().await {
            Ok(serving) => {
                tracing::info!(
                    "ingresses are served at http://{} and https://{}",
                    serving.http,
                    serving.https
                );
                self.router.set_https_port(serving.https.port());
                self.serving = Some(serving);
                Ok(())
            }
            Err(error) => {
                let message = format!("cannot listen: {error}; retrying");
                tracing::warn!("ingress: {message}");
                for ingress in ingresses {
                    self.recorder.warning(ingress.object(), "FailedToListen", message.as_str());
                }
                Err(message)
            }
        }
    }

    async fn open(&self) -> Result<OpenSockets, String> {
        let resolver = Resolver::new()?;
        let tls = TlsAcceptor::from(resolver.server_config()?);
        let tasks = self.proxy.port_tasks();
        let mut moved = Vec::new();
        let mut places = Vec::new();
        for (configured, tls) in [(self.config.http, None), (self.config.https, Some(tls))] {
            let opened = serve::listen(configured).await.and_then(|(listener, refused)| {
                let address = listener.local_addr()?;
                Ok((listener, address, refused))
            });
            let (listener, address, refused) = opened.map_err(|error| format!("{configured}: {error}"))?;
            if let Some(error) = refused {
                moved.push(format!("cannot listen on {configured} ({error}); using {address} instead"));
            }
            places.push(address);
            let port = Port { proxy: self.proxy.clone(), router: self.router.clone() };
            tasks.spawn("ingress listener", serve::accept(listener, tls, port));
        }
        Ok(OpenSockets {
            tasks,
            resolver,
            http: places[0],
            https: places[1],
            moved,
            certificates: Vec::new(),
            problems: Vec::new(),
        })
    }

    /// Stops serving when there is no Ingress any more.
    async fn close(&mut self) {
        self.router.replace(ServingState::default());
        if let Some(following) = &self.following {
            following.named.write().clear();
        }
        if let Some(serving) = self.serving.take() {
            serving.tasks.stop().await;
        }
    }

    /// Clears the status of Ingresses that are no longer served here.
    fn clear_status(&mut self, ingresses: &[Stored<Ingress>]) {
        let stay: HashSet<Key> = ingresses.iter().map(Stored::key).collect();
        let removed: Vec<Key> = self.served.keys().filter(|key| !stay.contains(key)).cloned().collect();
        for key in removed {
            self.served.remove(&key);
            if let Some(serving) = &self.serving {
                status::withdraw(&self.api, &key, serving.http, serving.https);
            }
        }
    }

    /// Writes the status of Ingresses, and records events about new problems and addresses.
    fn report(&mut self, ingresses: &[Stored<Ingress>], problems: impl Iterator<Item = (Key, Problem)>) {
        let mut by_ingress: HashMap<Key, HashSet<Problem>> = HashMap::new();
        for (key, problem) in problems {
            by_ingress.entry(key).or_default().insert(problem);
        }
        for ingress in ingresses {
            let key = ingress.key();
            let now = by_ingress.remove(&key).unwrap_or_default();
            let reported = self.served.remove(&key).filter(|reported| reported.uid == ingress.uid());
            let before = reported.as_ref().map(|reported| &reported.problems);
            for problem in now.iter().filter(|problem| before.is_none_or(|before| !before.contains(*problem)))
            {
                let about = reference_to(ingress.object());
                self.recorder.record(about, problem.type_(), problem.reason(), problem.message());
            }
            let mut place = reported.and_then(|reported| reported.address);
            if let Some(serving) = &self.serving {
                status::write_address(&self.api, ingress, serving.http, serving.https);
                let here = format!("served at http://{} and https://{}", serving.http, serving.https);
                if place.as_ref() != Some(&here) {
                    for moved in &serving.moved {
                        self.recorder.warning(ingress.object(), "PortMoved", moved.as_str());
                    }
                    self.recorder.normal(ingress.object(), "Sync", here.as_str());
                    place = Some(here);
                }
            }
            self.served.insert(
                key,
                ReportedIngress { uid: ingress.uid().to_string(), problems: now, address: place },
            );
        }
    }
}
