//! The controller of the Gateway API: serves HTTPRoutes at the ports of Gateways (NET-9).
//!
//! ```text
//! GatewayClass, Gateway ─► listener (accepted? in conflict?) ─► ports ──────────┐
//! HTTPRoute ─► route (read, checked) ─► attach ─► resolve (Services, grants) ─► table ─► router
//!                                          └─► status                client ─► reverse_proxy ─► endpoint
//! ```
//!
//! The resources are custom: the controller starts when a user installs their CRDs, and stops when these are removed.
//! Each change leads to a reconcile of everything, but parsed routes are cached.
//!
//! Architecture Invariant: this crate writes no objects but the status of what it serves and one GatewayClass, and it
//! listens beyond loopback only if the user who starts the cluster says so.

mod attach;
mod conflicts;
mod filters;
mod grants;
mod hosts;
mod installed_kinds;
mod listener;
mod matches;
mod path_edit;
mod ports;
mod problem;
mod resolve;
mod resources;
mod route;
mod router;
mod serving_plan;
mod status;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use api::controller_status::Subsystem;
use api::{Api, WriteOptions};
use base::clock::if_some;
use base::task::Tasks;
use installed_kinds::InstalledKinds;
use listener::SecretCheck;
use object::well_known::controller::PODIUM_GATEWAY;
use object::{Key, Kind, Object, Revision, SharedObject};
use ports::OpenPorts;
use reconcile::{Caches, WorkLoop};
use reverse_proxy::ReverseProxy;
use reverse_proxy::certificates;
use reverse_proxy::pools::Pools;
use reverse_proxy::references::ReferenceFollower;
use route::Route;
use router::ServingState;
use serving_plan::{GatewayObjects, ServingPlan};

/// The GatewayClass that is created when the CRDs appear, unless there is one of this controller already.
const OUR_CLASS: &str = "podium";
/// Changes come in bursts; waiting this long merges a burst into one reconcile.
const BURST: Duration = Duration::from_millis(20);
/// Interval at which idle connections are closed and ports that could not be bound are retried.
const TIDY: Duration = Duration::from_secs(5);

/// Configuration of the controller.
#[derive(Clone, Copy, Debug)]
pub struct GatewayConfig {
    /// The address of Gateways that request no address.
    pub address: IpAddr,
}

/// Starts the controller; it ends with `tasks`.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, proxy: &Arc<ReverseProxy>, config: GatewayConfig) {
    let mut controller = Controller {
        api: api.acting_as("podium-gateway"),
        caches: caches.clone(),
        config,
        proxy: proxy.clone(),
        changed: Arc::new(Notify::new()),
        installed: InstalledKinds::default(),
        had_classes: false,
        following: None,
        checked: Mutex::default(),
        routes: HashMap::new(),
        pools: Arc::default(),
        ports: OpenPorts::default(),
        reported: HashSet::new(),
    };
    let rounds = WorkLoop::start(api, "gateways", Subsystem::Network, tasks);
    tasks.spawn("gateway controller", async move {
        let mut kinds = controller.api.kinds_changed();
        loop {
            kinds.mark_unchanged();
            let round = rounds.begin("gateways");
            controller.sync().await;
            round.ends(match controller.ports.failed.len() {
                0 => Ok(()),
                count => Err(format!("{count} ports could not be opened; retrying")),
            });
            tokio::select! {
                () = controller.wait() => {}
                Ok(()) = kinds.changed() => {}
            }
            tokio::time::sleep(BURST).await;
        }
    });
}

struct Controller {
    api: Api,
    caches: Caches,
    config: GatewayConfig,
    proxy: Arc<ReverseProxy>,
    changed: Arc<Notify>,
    /// The installed kinds.
    installed: InstalledKinds,
    /// GatewayClasses were installed at the last reconcile.
    had_classes: bool,
    /// Follows the objects that Gateways and routes refer to; `None` until there is a Gateway.
    following: Option<ReferenceFollower>,
    /// Results of checking Secrets, by their versions.
    checked: Mutex<HashMap<Key, (Revision, SecretCheck)>>,
    /// Parsed routes, by uid and generation.
    routes: HashMap<Key, (String, i64, Option<Arc<Route>>)>,
    pools: Arc<Pools>,
    ports: OpenPorts,
    /// The Gateways with a status from this controller.
    reported: HashSet<Key>,
}

impl Controller {
    /// Waits for the next reason to reconcile.
    async fn wait(&self) {
        let services = self.following.as_ref().map(ReferenceFollower::service_changed);
        let tidy = async {
            // Without ports there is nothing to clean up, and no reason to wake.
            if self.ports.open.is_empty() && self.ports.failed.is_empty() {
                std::future::pending::<()>().await;
            }
            loop {
                tokio::time::sleep(TIDY).await;
                self.proxy.tidy();
                if !self.ports.failed.is_empty() {
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

    /// Reconciles the served configuration with the resources.
    async fn sync(&mut self) {
        self.installed.follow(&self.api, &self.caches, &self.changed).await;
        let has_classes = self.installed.classes.is_some();
        let had_classes = std::mem::replace(&mut self.had_classes, has_classes);
        if has_classes && !had_classes {
            self.create_gateway_class();
        }
        let seen = self.collect_objects();
        if !seen.gateways.is_empty() {
            self.follow().await;
        }
        let mut plan = self.plan(&seen);
        self.ports.sync_ports(&plan.desired_ports(), &self.proxy).await;
        self.publish(&mut plan);
        self.write_status(&seen, &plan).await;
    }

    /// Creates the GatewayClass that users expect of an implementation. If a user deletes it, it is created again only
    /// at the next start.
    fn create_gateway_class(&self) {
        let Some(kind) = self.installed.classes else { return };
        let classes = self.caches.objects(kind);
        let is_there =
            classes.iter().any(|class| class.name() == OUR_CLASS || serving_plan::is_our_class(class));
        if is_there {
            return;
        }
        let class = json!({"apiVersion": format!("{}/v1", resources::GROUP), "kind": "GatewayClass",
            "metadata": {"name": OUR_CLASS}, "spec": {"controllerName": PODIUM_GATEWAY}});
        let options = WriteOptions { requested: self.installed.served_class, ..WriteOptions::default() };
        let made = Object::from_value(kind, class).map_err(|error| error.to_string());
        let made = made.and_then(|class| self.api.create(class, &options).map_err(|error| error.to_string()));
        if let Err(error) = made {
            tracing::warn!("cannot create GatewayClass {OUR_CLASS}: {error}");
        }
    }

    /// Collects the current objects.
    fn collect_objects(&mut self) -> GatewayObjects {
        let objects = |kind: Option<Kind>| kind.map(|kind| self.caches.objects(kind)).unwrap_or_default();
        let mut seen = GatewayObjects::of(
            objects(self.installed.classes),
            objects(self.installed.gateways),
            objects(self.installed.routes),
            &objects(self.installed.grants),
        );
        let mut retained = HashMap::new();
        for (object, route) in &mut seen.routes {
            let (uid, generation) = (object.uid().to_string(), object.meta().generation.unwrap_or_default());
            let known = self.routes.remove(&object.key());
            let known = known.filter(|(of, at, _)| (of, *at) == (&uid, generation) && generation > 0);
            let read = known.map_or_else(|| Route::read(object).map(Arc::new), |(_, _, route)| route);
            retained.insert(object.key(), (uid, generation, read.clone()));
            *route = read;
        }
        self.routes = retained;
        seen
    }

    /// Starts following the objects that Gateways and routes refer to.
    async fn follow(&mut self) {
        if self.following.is_some() {
            return;
        }
        let changed = Arc::downgrade(&self.changed);
        self.caches.of::<Namespace>().on_change(move |change| {
            let before = change.previous.as_ref().and_then(|before| before.meta().labels.as_ref());
            if (change.previous.is_none() || before != change.object.meta().labels.as_ref())
                && let Some(changed) = changed.upgrade()
            {
                changed.notify_one();
            }
        });
        let following = ReferenceFollower::start(&self.caches, &self.changed);
        let (following, ()) = tokio::join!(following, self.caches.synced(Kind::Namespace));
        self.following = Some(following);
    }

    /// Computes the configuration to serve, and the problems to report.
    fn plan(&self, seen: &GatewayObjects) -> ServingPlan {
        let Some(following) = &self.following else { return ServingPlan::default() };
        let (secrets, namespaces) = (self.caches.of::<Secret>(), self.caches.of::<Namespace>());
        let plan = ServingPlan::of(
            seen,
            self.config.address,
            &|key| Some(self.checked(&secrets.get(key)?)),
            &|key| following.services.get(key).service,
            &|name| namespaces.get(&Key::new("", name))?.metadata.labels.clone(),
        );
        let secrets = plan.secrets.iter().map(|key| (Kind::Secret, key.clone()));
        let services = plan.services.iter().map(|key| (Kind::Service, key.clone()));
        *following.named.write() = secrets.chain(services).collect();
        self.checked.lock().retain(|key, _| plan.secrets.contains(key));
        plan
    }

    /// Checks a Secret's certificate. Parsing keys is the most expensive step, so results are cached.
    fn checked(&self, secret: &SharedObject<Secret>) -> SecretCheck {
        let (key, revision) = (secret.key(), secret.revision());
        let mut checked = self.checked.lock();
        let known = checked.get(&key).filter(|(of, _)| *of == revision).map(|(_, known)| known.clone());
        let outcome = known.unwrap_or_else(|| certificates::certified(secret).map(drop));
        checked.insert(key, (revision, outcome.clone()));
        outcome
    }

    /// Puts tables and certificates in force.
    fn publish(&mut self, plan: &mut ServingPlan) {
        let Some(following) = &self.following else { return };
        let nodes = self.caches.of::<Node>().list();
        let mut tables = plan.take_tables();
        let backends: HashSet<_> = tables.values().flat_map(table::Table::backends).collect();
        let pools = self.proxy.pools(backends, &self.pools, &following.services, &nodes);
        self.pools = Arc::new(pools);
        let mut moved: HashMap<IpAddr, HashMap<u16, u16>> = HashMap::new();
        for ((ip, requested), port) in &self.ports.open {
            moved.entry(*ip).or_default().insert(*requested, port.address.port());
        }
        let secrets = self.caches.of::<Secret>();
        for (at, port) in &mut self.ports.open {
            let moved = moved.get(&at.0).cloned().unwrap_or_default();
            let table = tables.remove(at).unwrap_or_default();
            port.router.replace(ServingState { table, pools: self.pools.clone(), moved });
            port.set_certificates(plan.certificates(*at), &|key| secrets.get(key));
        }
    }

    /// Writes the status of all objects.
    async fn write_status(&mut self, seen: &GatewayObjects, plan: &ServingPlan) {
        let now = self.api.clock().time();
        let at = |generation| status::ConditionContext { now: &now, generation };
        let at_generation_of = |object: &Object| at(object.meta().generation.unwrap_or_default());
        if let Some(kind) = self.installed.classes {
            for (class, refused) in &seen.classes {
                let at = at_generation_of(class);
                status::write(&self.api, kind, class, |before| {
                    status::of_class(before, refused.as_ref(), at)
                });
            }
        }
        let served = self.ports.open.iter().map(|(at, port)| (*at, Ok(port.served())));
        let failed = self.ports.failed.iter().map(|(at, why)| (*at, Err(why.clone())));
        let ports: status::Ports = served.chain(failed).collect();
        if let Some(kind) = self.installed.gateways {
            let current = seen.gateways.iter().map(|(object, _)| object.key()).collect();
            let before = std::mem::replace(&mut self.reported, current);
            let is_released =
                |object: &Object| before.contains(&object.key()) && !self.reported.contains(&object.key());
            let released = self.caches.objects(kind).into_iter().filter(|object| is_released(object));
            for object in released.collect::<Vec<_>>() {
                let at = at_generation_of(&object);
                status::write(&self.api, kind, &object, |before| status::of_released(before, at));
            }
            for (object, _) in &seen.gateways {
                let Some((gateway, attached)) = plan.gateway(&object.key()) else { continue };
                let at = at(gateway.generation);
                status::write(&self.api, kind, object, |before| {
                    status::of_gateway(before, gateway, &ports, attached, at)
                });
            }
        }
        let Some(kind) = self.installed.routes else { return };
        for (object, route) in &seen.routes {
            let parents = plan.parents(&object.key());
            if parents.is_empty() && !status::names_us(object) {
                continue;
            }
            let at = route.as_ref().map_or_else(|| at_generation_of(object), |route| at(route.generation));
            status::write(&self.api, kind, object, |before| status::of_route(before, parents, at));
            tokio::task::consume_budget().await;
        }
    }
}
