//! Computes the complete result from all objects: what is served at which port, and the status of each object.
//!
//! Pure: Secrets, Services and namespaces are looked up by functions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use super::attach::{AttachResult, attach};
use super::conflicts;
use super::grants::ReferenceGrants;
use super::listener::{
    Checks, GatewayContext, GatewayView, ListenerAddress, ListenerView, Scheme, read_spec,
    view as view_gateway,
};
use super::matches::Match;
use super::problem::Cause;
use super::resolve::{Rule, resolve};
use super::resources::{GatewayClassSpec, GatewaySpec, Labels};
use super::route::Route;
use super::status::ParentOutcome;
use super::table::Table;
use base::sort::{CollectMap, SliceOrder};
use object::well_known::controller::PODIUM_GATEWAY;
use object::{Key, Object, SharedObject};

/// Maximum number of entries in the tables of all ports together; beyond it, the youngest routes are not served.
const MAX_ENTRIES: usize = 200_000;

/// The objects that this controller serves.
#[derive(Default)]
pub(super) struct GatewayObjects {
    /// This controller's GatewayClasses, each with the reason if it is not accepted.
    pub(super) classes: Vec<(Arc<Object>, Option<Cause>)>,
    /// Gateways of accepted classes, the oldest first, with their spec or the reason why it is invalid.
    pub(super) gateways: Vec<(Arc<Object>, Result<GatewaySpec, String>)>,
    /// All HTTPRoutes, the oldest first; `None` for a route that is not read yet, or is invalid.
    pub(super) routes: Vec<(Arc<Object>, Option<Arc<Route>>)>,
    grants: ReferenceGrants,
}

fn spec_of<T: serde::de::DeserializeOwned>(object: &Object) -> Option<T> {
    let spec: &Value = object.custom()?.fields.get("spec")?;
    base::json::from_value(spec.clone()).ok()
}

/// Returns whether a GatewayClass belongs to this controller.
pub(super) fn is_our_class(class: &Object) -> bool {
    spec_of::<GatewayClassSpec>(class).is_some_and(|spec| spec.controller_name == PODIUM_GATEWAY)
}

impl GatewayObjects {
    /// Selects the objects that belong to this controller.
    pub(super) fn of(
        classes: Vec<Arc<Object>>,
        mut gateways: Vec<Arc<Object>>,
        mut routes: Vec<Arc<Object>>,
        grants: &[Arc<Object>],
    ) -> Self {
        let own_classes = classes.into_iter().filter(|class| is_our_class(class));
        let classes: Vec<_> = own_classes
            .map(|class| {
                let spec: GatewayClassSpec = spec_of(&class).unwrap_or_default();
                let refused = spec
                    .parameters_ref
                    .map(|_| Cause::new("InvalidParameters", "parametersRef is not supported"));
                (class, refused)
            })
            .collect();
        let accepted: HashSet<&str> =
            classes.iter().filter(|(_, refused)| refused.is_none()).map(|(class, _)| class.name()).collect();
        for all in [&mut gateways, &mut routes] {
            all.order_by_cached_key(|object| (object.meta().creation_timestamp.clone(), object.key()));
        }
        let gateways = gateways.into_iter().filter_map(|gateway| {
            let class = gateway.custom()?.fields.get("spec")?.get("gatewayClassName")?.as_str()?;
            let is_accepted = accepted.contains(class);
            let spec = is_accepted.then(|| read_spec(&gateway))?;
            Some((gateway, spec))
        });
        let gateways = gateways.collect();
        let grants = grants.iter().filter_map(|grant| Some((grant.namespace().to_string(), spec_of(grant)?)));
        let grants = ReferenceGrants::new(grants.collect());
        Self { classes, gateways, routes: routes.into_iter().map(|route| (route, None)).collect(), grants }
    }
}

/// The configuration to serve, and the results to report.
#[derive(Default)]
pub(super) struct ServingPlan {
    gateways: Vec<GatewayView>,
    /// Number of attached routes by Gateway and listener.
    attached: HashMap<Key, Vec<usize>>,
    parents: HashMap<Key, Vec<ParentOutcome>>,
    tables: BTreeMap<ListenerAddress, Table>,
    /// The Secrets and Services that Gateways and routes refer to, including those that do not exist.
    pub(super) secrets: HashSet<Key>,
    pub(super) services: HashSet<Key>,
}

impl ServingPlan {
    /// Computes the result for all objects.
    pub(super) fn of(
        objects: &GatewayObjects,
        address: IpAddr,
        secret: Checks<'_>,
        service: &dyn Fn(&Key) -> Option<SharedObject<Service>>,
        labels: &dyn Fn(&str) -> Option<Labels>,
    ) -> Self {
        let mut plan = Self::default();
        let around = GatewayContext { address, grants: &objects.grants, secret };
        for (object, spec) in &objects.gateways {
            let view = match spec {
                Ok(spec) => view_gateway(object, spec, &around, &mut plan.secrets),
                Err(why) => {
                    let mut view =
                        view_gateway(object, &GatewaySpec::default(), &around, &mut HashSet::new());
                    view.refused = Some(Cause::new("Invalid", format!("cannot parse the spec: {why}")));
                    view
                }
            };
            plan.gateways.push(view);
        }
        conflicts::find(&mut plan.gateways);
        for gateway in &plan.gateways {
            plan.attached.insert(gateway.key.clone(), vec![0; gateway.listeners.len()]);
            for (at, listener) in served(gateway) {
                // A listener claims its hosts even without routes.
                plan.tables.entry(at).or_default().listener(&listener.hostname);
            }
        }
        let by_key: HashMap<Key, usize> =
            plan.gateways.iter().enumerate().map(|(at, gateway)| (gateway.key.clone(), at)).collect();
        let mut remaining = MAX_ENTRIES;
        for route in objects.routes.iter().filter_map(|(_, route)| route.as_ref()) {
            plan.add(route, &by_key, objects, service, labels, &mut remaining);
        }
        for table in plan.tables.values_mut() {
            table.sort();
        }
        plan
    }

    /// Attaches a route to its parents that are served here.
    fn add(
        &mut self,
        route: &Arc<Route>,
        by_key: &HashMap<Key, usize>,
        objects: &GatewayObjects,
        service: &dyn Fn(&Key) -> Option<SharedObject<Service>>,
        labels: &dyn Fn(&str) -> Option<Labels>,
        remaining: &mut usize,
    ) {
        let namespace = &route.key.namespace;
        let own_parents = route.parents.iter().filter_map(|parent| {
            let at = *by_key.get(&parent.gateway(namespace)?)?;
            Some((parent, at))
        });
        let own_parents: Vec<_> = own_parents.collect();
        if own_parents.is_empty() {
            return;
        }
        let labels = labels(namespace);
        let (rules, unresolved) = match &route.rules {
            Ok(rules) => resolve(&route.key, rules, &objects.grants, service, &mut self.services),
            Err(_) => (Vec::new(), None),
        };
        let entries = entries(route, &rules);
        let mut outcomes = Vec::new();
        // Two parent references may refer to the same listener.
        let mut counted: HashSet<(usize, usize)> = HashSet::new();
        for (parent, at) in own_parents {
            let gateway = &self.gateways[at];
            let AttachResult { listeners, mut refused } = attach(route, parent, gateway, labels.as_ref());
            let counts = self.attached.entry(gateway.key.clone()).or_default();
            for (listener, hostnames) in listeners {
                if !counted.insert((at, listener)) {
                    continue;
                }
                if let Some(count) = counts.get_mut(listener) {
                    *count += 1;
                }
                let needed = hostnames.len() * entries.len() * gateway.addresses.len();
                let view = &gateway.listeners[listener];
                if gateway.refused.is_some() || !view.is_valid() {
                    continue;
                }
                let Some(left) = remaining.checked_sub(needed) else {
                    let message = format!("at most {MAX_ENTRIES} matches of all routes together are served");
                    refused = refused.or(Some(Cause::unsupported(message)));
                    continue;
                };
                *remaining = left;
                for ip in &gateway.addresses {
                    let table = self.tables.entry((*ip, view.port)).or_default().listener(&view.hostname);
                    for hostname in &hostnames {
                        for (matching, rule) in &entries {
                            table.add(hostname, matching, rule);
                        }
                    }
                }
            }
            let refused = refused.or_else(|| route.rules.as_ref().err().cloned());
            outcomes.push(ParentOutcome { parent: parent.clone(), refused, unresolved: unresolved.clone() });
        }
        self.parents.insert(route.key.clone(), outcomes);
    }

    /// Returns the ports that should be open.
    pub(super) fn desired_ports(&self) -> BTreeMap<ListenerAddress, Scheme> {
        self.gateways.iter().flat_map(served).map(|(at, listener)| (at, listener.scheme)).collect_map()
    }

    /// Takes the tables, leaving none.
    pub(super) fn take_tables(&mut self) -> BTreeMap<ListenerAddress, Table> {
        std::mem::take(&mut self.tables)
    }

    /// Returns the certificates of a port by hostname.
    pub(super) fn certificates(&self, at: ListenerAddress) -> Vec<(String, Key)> {
        let here = self.gateways.iter().flat_map(served).filter(|(place, _)| *place == at);
        let named = here.flat_map(|(_, listener)| {
            listener.secrets.iter().map(|secret| (listener.hostname.clone(), secret.clone()))
        });
        named.collect()
    }

    /// Returns a Gateway, and the number of attached routes for each of its listeners.
    pub(super) fn gateway(&self, key: &Key) -> Option<(&GatewayView, &[usize])> {
        let gateway = self.gateways.iter().find(|gateway| gateway.key == *key)?;
        Some((gateway, self.attached.get(key).map(Vec::as_slice).unwrap_or_default()))
    }

    /// Returns the results for a route's parents that are served here.
    pub(super) fn parents(&self, route: &Key) -> &[ParentOutcome] {
        self.parents.get(route).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns the listeners of a Gateway that can be served, each at every address of the Gateway.
fn served(gateway: &GatewayView) -> impl Iterator<Item = (ListenerAddress, &ListenerView)> {
    let is_served = gateway.refused.is_none();
    let valid = gateway.listeners.iter().filter(move |listener| is_served && listener.is_valid());
    valid.flat_map(|listener| gateway.addresses.iter().map(move |ip| ((*ip, listener.port), listener)))
}

/// Returns the matches of a route, each with its rule, which are added to a table for each hostname.
fn entries<'a>(route: &'a Route, resolved: &'a [Arc<Rule>]) -> Vec<(&'a Arc<Match>, &'a Arc<Rule>)> {
    let rules = route.rules.iter().flatten().zip(resolved);
    rules.flat_map(|(rule, resolved)| rule.matches.iter().map(move |one| (one, resolved))).collect()
}
