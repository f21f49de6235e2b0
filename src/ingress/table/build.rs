//! Builds the table from Ingresses, and finds their problems.

use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{HTTPIngressPath, Ingress, IngressBackend};

use super::{Paths, Pattern, Route, Table};
use crate::annotations::Options;
use crate::problem::Problem;
use base::sort::SliceOrder;
use object::{Key, SharedObject};
use reverse_proxy::RequestPath;
use reverse_proxy::pools::Backend;

/// Maximum number of paths of one Ingress that are regular expressions: each may be tried on each request.
const MAX_PATTERNS: usize = 100;

/// A host with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsHost {
    /// The Ingress that configures it.
    pub(crate) ingress: Key,
    /// The host, possibly a wildcard; the empty one matches any other.
    pub(crate) host: String,
    /// The certificate's Secret; `None` means the default certificate.
    pub(crate) secret: Option<Key>,
}

/// The result for all Ingresses.
#[derive(Default)]
pub(crate) struct BuildResult {
    pub(crate) table: Table,
    /// The hosts with TLS, in the order of their Ingresses' age, the oldest first.
    pub(crate) tls: Vec<TlsHost>,
    /// The Services that Ingresses refer to, including those that do not exist.
    pub(crate) services: HashSet<Key>,
    /// Problems by Ingress.
    pub(crate) problems: Vec<(Key, Problem)>,
}

/// Looks up services.
type Services<'a> = &'a dyn Fn(&Key) -> Option<SharedObject<Service>>;

/// Compiles Ingresses; the oldest must come first.
pub(crate) fn build(ingresses: &[SharedObject<Ingress>], services: Services<'_>) -> BuildResult {
    let mut built = BuildResult::default();
    for ingress in ingresses {
        let mut problems = Vec::new();
        add(&mut built, ingress, services, &mut problems);
        let key = ingress.key();
        built.problems.extend(problems.into_iter().map(|problem| (key.clone(), problem)));
    }
    for paths in built.table.hosts.values_mut() {
        // The sort is stable: among expressions of the same length, the older Ingress' comes first.
        paths.patterns.order_by_key(|route| {
            std::cmp::Reverse(route.pattern.as_ref().map_or(0, |pattern| pattern.source.len()))
        });
    }
    built
}

fn add(
    built: &mut BuildResult,
    ingress: &SharedObject<Ingress>,
    services: Services<'_>,
    problems: &mut Vec<Problem>,
) {
    let Some(spec) = &ingress.spec else { return };
    let options = Arc::new(Options::read(ingress.metadata.annotations.as_ref(), problems));
    let route = |backend: Option<Backend>, pattern: Option<Pattern>| {
        Arc::new(Route { ingress: ingress.key(), backend, options: options.clone(), pattern })
    };
    let fallback = spec.default_backend.as_ref().map(|named| {
        let found = backend(ingress.namespace(), named, services, &mut built.services, problems);
        route(found, None)
    });
    let mut hosts = Vec::new();
    let mut patterns = 0;
    for rule in spec.rules.iter().flatten() {
        let host = rule.host.as_deref().unwrap_or_default().to_ascii_lowercase();
        let paths = built.table.hosts.entry(&host);
        if paths.fallback.is_none() {
            paths.fallback.clone_from(&fallback);
        }
        for path in rule.http.iter().flat_map(|http| &http.paths) {
            let found = backend(ingress.namespace(), &path.backend, services, &mut built.services, problems);
            let is_pattern = path.path_type != "Exact" && (options.regex || options.rewrite.is_some());
            if is_pattern {
                patterns += 1;
                if patterns > MAX_PATTERNS {
                    continue;
                }
                let text = text(path);
                match Pattern::new(text) {
                    Ok(pattern) => insert_pattern(paths, &host, route(found, Some(pattern)), problems),
                    Err(error) => problems.push(Problem::InvalidPath(text.into(), short(&error))),
                }
            } else {
                insert(paths, &host, path, route(found, None), problems);
            }
        }
        hosts.push(host);
    }
    if patterns > MAX_PATTERNS {
        problems.push(Problem::TooManyPatterns(MAX_PATTERNS));
    }
    let any = &mut built.table.hosts.entry("").fallback;
    if any.is_none() {
        *any = fallback;
    }
    for tls in spec.tls.iter().flatten() {
        let named: Vec<String> = tls
            .hosts
            .iter()
            .flatten()
            .filter(|host| !host.is_empty())
            .map(|h| h.to_ascii_lowercase())
            .collect();
        let secret = tls.secret_name.as_deref().filter(|name| !name.is_empty());
        for host in if named.is_empty() { hosts.clone() } else { named } {
            built.table.tls.entry(&host);
            let secret = secret.map(|name| Key::new(ingress.namespace(), name));
            built.tls.push(TlsHost { ingress: ingress.key(), host, secret });
        }
    }
}

fn text(path: &HTTPIngressPath) -> &str {
    path.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/")
}

fn insert(
    paths: &mut Paths,
    host: &str,
    path: &HTTPIngressPath,
    route: Arc<Route>,
    problems: &mut Vec<Problem>,
) {
    let text = text(path);
    let read = RequestPath::read(text).map_or_else(|| text.to_string(), |read| read.decoded);
    let (entries, key) = if path.path_type == "Exact" {
        (&mut paths.exact, read)
    } else {
        let prefix = read.trim_end_matches('/').to_string();
        paths.longest = paths.longest.max(prefix.len());
        (&mut paths.prefixes, prefix)
    };
    match entries.entry(key) {
        Entry::Vacant(entry) => drop(entry.insert(route)),
        Entry::Occupied(entry) => shadowed(host, text, entry.get(), &route, problems),
    }
}

fn insert_pattern(paths: &mut Paths, host: &str, route: Arc<Route>, problems: &mut Vec<Problem>) {
    match paths.patterns.iter().find(|other| other.pattern == route.pattern) {
        Some(other) => {
            let text = route.pattern.as_ref().map_or("", |pattern| &pattern.source);
            shadowed(host, text, other, &route, problems);
        }
        None => paths.patterns.push(route),
    }
}

fn shadowed(host: &str, path: &str, by: &Route, route: &Route, problems: &mut Vec<Problem>) {
    if by.ingress != route.ingress {
        problems.push(Problem::Shadowed { host: host.into(), path: path.into(), by: by.ingress.to_string() });
    }
}

/// Returns the last line of the parser's message.
fn short(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).into()
}

/// Returns the port that a backend refers to, if it exists.
fn backend(
    namespace: &str,
    named: &IngressBackend,
    services: Services<'_>,
    all: &mut HashSet<Key>,
    problems: &mut Vec<Problem>,
) -> Option<Backend> {
    let Some(service) = &named.service else {
        let resource = named.resource.as_ref().map(|r| format!("{} \"{}\"", r.kind, r.name));
        problems.push(Problem::ResourceBackend(resource.unwrap_or_default()));
        return None;
    };
    let key = Key::new(namespace, service.name.as_str());
    all.insert(key.clone());
    let mut refuse = |problem: Problem| {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
        None
    };
    let Some(found) = services(&key) else { return refuse(Problem::ServiceNotFound(key.to_string())) };
    let spec = found.spec.as_ref();
    if spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
        return refuse(Problem::ExternalService(key.to_string()));
    }
    let (number, name) = service.port.as_ref().map_or((None, None), |p| (p.number, p.name.as_deref()));
    let mut ports = spec.and_then(|spec| spec.ports.as_ref()).into_iter().flatten();
    let is_requested = |port: &k8s_openapi::api::core::v1::ServicePort| {
        let by_name = name.is_some_and(|name| !name.is_empty() && port.name.as_deref() == Some(name));
        by_name || number.is_some_and(|number| number != 0 && port.port == number)
    };
    let is_tcp = |protocol: Option<&str>| protocol.is_none_or(|protocol| protocol == "TCP");
    let Some(port) = ports.find(|port| is_tcp(port.protocol.as_deref()) && is_requested(port)) else {
        let requested = name.map(String::from).or_else(|| number.map(|number| number.to_string()));
        return refuse(Problem::PortNotFound(key.to_string(), requested.unwrap_or_default()));
    };
    Some(Backend { service: key, port: port.name.clone().unwrap_or_default() })
}
