//! Follows a connection's path as far as objects determine it: name, port, endpoints, policies.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Pod, Service};

use super::destination::{Destination, Port, UsageError};
use super::endpoints::{Endpoint, MAX_TRIED, behind, declared, not_ready_reason};
use super::names::{self, Resolution};
use super::report::{Finding, State, WalkStep};
use super::{ConnectionQuestion, Facts, Key, policies, services};
use base::sort::SliceOrder;
use network_policy::Protocol;
use object::pod::{addresses, is_on_host_network, is_ready, is_terminal};

/// The path of a connection so far, and what must be probed.
#[derive(Debug)]
pub struct Walk {
    pub(super) source: Key,
    pub(super) destination: String,
    pub(super) findings: Vec<Finding>,
    pub(super) protocol: Protocol,
    /// The address that the source connects to, if it is not an endpoint's own.
    pub(super) service: Option<SocketAddr>,
    /// The ends of the connection.
    pub(super) ends: Vec<Endpoint>,
}

impl Walk {
    /// Returns the connection's protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the pods whose listeners must be probed; none for SCTP, for which listeners are not checked.
    pub fn listeners(&self) -> BTreeSet<Key> {
        if self.protocol == Protocol::Sctp {
            return BTreeSet::new();
        }
        self.ends.iter().take(MAX_TRIED).filter_map(|end| end.pod.clone()).collect()
    }

    /// Returns the connections to try from the source, in order; only for TCP, because UDP has no handshake.
    pub fn attempts(&self) -> Vec<SocketAddr> {
        if self.protocol != Protocol::Tcp {
            return Vec::new();
        }
        let ends = self.ends.iter().take(MAX_TRIED).map(|end| end.address);
        self.service.into_iter().chain(ends).collect()
    }

    fn add(&mut self, finding: Finding) -> bool {
        let goes_on = finding.state != State::Problem;
        self.findings.push(finding);
        goes_on
    }
}

/// The object that a destination resolves to.
enum ResolvedDestination<'a> {
    /// A service, and its address that the source connects to: the primary one if it is `None`.
    Service(&'a Service, Option<IpAddr>),
    /// A pod, and such an address of it.
    Pod(&'a Pod, Option<IpAddr>),
    Address(IpAddr),
}

/// Returns the name in the question that the machine's resolvers must resolve before the walk.
pub fn outside_name(facts: &Facts, question: &ConnectionQuestion) -> Option<String> {
    let name = match &question.destination {
        Destination::Name(name) => name,
        Destination::Service(key) => {
            let spec = service(facts, key)?.spec.as_ref()?;
            return spec.external_name.clone().filter(|_| spec.type_.as_deref() == Some("ExternalName"));
        }
        Destination::Pod(_) | Destination::Address(_) => return None,
    };
    let source = pod(facts, &question.source)?;
    let (conf, is_clusters) = names::search_path(source, facts);
    if !is_clusters {
        return Some(name.clone());
    }
    match names::resolve(&names::index(facts), &conf, name).meaning {
        Resolution::Outside(name) => Some(name),
        Resolution::Addresses(_) | Resolution::NotFound => None,
    }
}

/// Follows the path as far as objects determine it. The error describes the valid forms of a destination.
pub fn walk(facts: &Facts, question: &ConnectionQuestion) -> Result<Walk, UsageError> {
    let mut walk = Walk {
        source: question.source.clone(),
        destination: match &question.port {
            Some(port) => format!("{}:{port}", question.destination),
            None => question.destination.to_string(),
        },
        findings: Vec::new(),
        protocol: Protocol::Tcp,
        service: None,
        ends: Vec::new(),
    };
    for unseen in &facts.read_errors {
        walk.add(Finding::note(WalkStep::Source, unseen.clone()));
    }
    let Some(source) = pod(facts, &question.source) else {
        return Err(UsageError(format!("pod {} not found", question.source)));
    };
    if let Some(problem) = not_running(source, facts) {
        walk.add(problem);
        return Ok(walk);
    }
    let Some(resolved) = resolve(facts, question, source, &mut walk) else { return Ok(walk) };
    match resolved {
        ResolvedDestination::Service(service, ip) => {
            to_service(facts, question, source, service, ip, &mut walk)?;
        }
        ResolvedDestination::Pod(pod, ip) => to_pod(facts, question, pod, ip, &mut walk)?,
        ResolvedDestination::Address(ip) => to_address(facts, question, ip, &mut walk)?,
    }
    if !walk.ends.is_empty() {
        let finding = policies::between(facts, &walk.source, &walk.ends, walk.protocol);
        walk.add(finding);
    }
    Ok(walk)
}

fn pod<'a>(facts: &'a Facts, key: &Key) -> Option<&'a Pod> {
    facts.pods.iter().find(|pod| Key::of(&pod.metadata) == *key)
}

fn service<'a>(facts: &'a Facts, key: &Key) -> Option<&'a Service> {
    facts.services.iter().find(|service| Key::of(&service.metadata) == *key)
}

/// Explains why the source cannot connect to anything.
fn not_running(source: &Pod, facts: &Facts) -> Option<Finding> {
    let runs = source.status.as_ref().is_some_and(|status| status.pod_ip.is_some()) && !is_terminal(source);
    if runs {
        return None;
    }
    let key = Key::of(&source.metadata);
    let reason = not_ready_reason(source, facts.probes.get(&key));
    let text = format!("pod {key} is not running: {reason}");
    Some(Finding::problem(
        WalkStep::Source,
        text,
        format!("see `kubectl describe pod -n {} {}`", key.namespace, key.name),
    ))
}

/// Resolves the destination as the source would; `None` if the path ends there.
fn resolve<'a>(
    facts: &'a Facts,
    question: &ConnectionQuestion,
    source: &Pod,
    walk: &mut Walk,
) -> Option<ResolvedDestination<'a>> {
    match &question.destination {
        Destination::Pod(key) => {
            let found = pod(facts, key);
            if found.is_none() {
                walk.add(missing("pod", key, facts.pods.iter().map(|pod| Key::of(&pod.metadata))));
            }
            found.map(|pod| ResolvedDestination::Pod(pod, None))
        }
        Destination::Service(key) => {
            let found = service(facts, key);
            if found.is_none() {
                walk.add(missing("service", key, facts.services.iter().map(|one| Key::of(&one.metadata))));
            }
            of_service(facts, source, found?, walk)
        }
        Destination::Address(ip) => Some(resolve_address(facts, *ip)),
        Destination::Name(name) => {
            let (conf, is_clusters) = names::search_path(source, facts);
            let refused = policies::of_dns(facts, &walk.source).filter(|_| is_clusters);
            if let Some(problem) = refused {
                walk.add(problem);
                return None;
            }
            if !is_clusters {
                let text =
                    "the pod uses the machine's resolvers, not the cluster's DNS (dnsPolicy, hostNetwork)";
                walk.add(Finding::note(WalkStep::Name, text));
                return outside(facts, source, name, name, walk);
            }
            let looked = names::resolve(&names::index(facts), &conf, name);
            match looked.meaning {
                Resolution::Outside(target) => outside(facts, source, name, &target, walk),
                Resolution::NotFound => {
                    let own = source.metadata.namespace.as_deref().unwrap_or_default();
                    // Pods have no DNS names of their own; assume that the user meant the pod.
                    let key = Key::new(own, name.as_str());
                    if let Some(pod) = pod(facts, &key) {
                        walk.add(Finding::note(
                            WalkStep::Name,
                            format!("not a DNS name; checking pod {key} instead"),
                        ));
                        return Some(ResolvedDestination::Pod(pod, None));
                    }
                    walk.add(names::unknown(facts, name, own, &looked.tried));
                    None
                }
                Resolution::Addresses(ips) => {
                    let full = looked.full.trim_end_matches('.').to_owned();
                    by_addresses(facts, name, &full, &ips, walk)
                }
            }
        }
    }
}

/// Resolves a name of the cluster that has these addresses.
fn by_addresses<'a>(
    facts: &'a Facts,
    name: &str,
    full: &str,
    ips: &[IpAddr],
    walk: &mut Walk,
) -> Option<ResolvedDestination<'a>> {
    let listed = ips.iter().take(MAX_TRIED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    // `service.namespace.svc.…` is the service itself, headless or not.
    let labels: Vec<&str> = full.split('.').collect();
    let named = match labels.as_slice() {
        [name, namespace, "svc", ..] => service(facts, &Key::new(*namespace, *name)),
        _ => None,
    };
    let Some(ip) = ips.first() else {
        // A headless service without endpoints.
        let text =
            format!("{full} has no address: the service is headless, and none of its endpoints is ready");
        if let Some(service) = named {
            walk.add(Finding::note(WalkStep::Name, text));
            return Some(ResolvedDestination::Service(service, None));
        }
        walk.add(Finding::problem(WalkStep::Name, text, "check the service's pods"));
        return None;
    };
    let text =
        if name == full { format!("{full} is {listed}") } else { format!("{name} is {full}: {listed}") };
    walk.add(Finding::fine(WalkStep::Name, text));
    Some(named.map_or_else(
        || resolve_address(facts, *ip),
        |service| ResolvedDestination::Service(service, Some(*ip)),
    ))
}

/// Resolves a service that is named as such; an ExternalName service is its external name.
fn of_service<'a>(
    facts: &'a Facts,
    source: &Pod,
    service: &'a Service,
    walk: &mut Walk,
) -> Option<ResolvedDestination<'a>> {
    let spec = service.spec.as_ref();
    let alias = spec.filter(|spec| spec.type_.as_deref() == Some("ExternalName"));
    let Some(target) = alias.and_then(|spec| spec.external_name.as_deref()) else {
        return Some(ResolvedDestination::Service(service, None));
    };
    outside(facts, source, &Key::of(&service.metadata).to_string(), target, walk)
}

/// Resolves a name outside the cluster, as the machine's resolvers do.
fn outside<'a>(
    facts: &'a Facts,
    source: &Pod,
    name: &str,
    target: &str,
    walk: &mut Walk,
) -> Option<ResolvedDestination<'a>> {
    let subject =
        if name == target { name.to_owned() } else { format!("{name} is an alias of {target}, which") };
    match facts.outside.get(target).map(Vec::as_slice) {
        Some([]) => {
            let text = format!("{subject} cannot be resolved by the machine's resolvers");
            walk.add(Finding::problem(
                WalkStep::Name,
                text,
                "correct the name, or the configuration of the machine's resolvers",
            ));
            None
        }
        None => {
            walk.add(Finding::note(WalkStep::Name, format!("{subject} was not resolved")));
            None
        }
        Some(ips) => {
            // IPv4 first, like most programs where a name has both.
            let usable = ips.iter().filter(|ip| has_family_of(facts, source, **ip));
            let Some(ip) = usable.min_by_key(|ip| ip.is_ipv6()) else {
                let (theirs, own) = if ips[0].is_ipv6() { ("IPv6", "IPv4") } else { ("IPv4", "IPv6") };
                let key = Key::of(&source.metadata);
                let text =
                    format!("{subject} has only {theirs} addresses, and pod {key} only {own} addresses");
                walk.add(Finding::problem(
                    WalkStep::Name,
                    text,
                    format!("use a name that has an {own} address"),
                ));
                return None;
            };
            walk.add(Finding::fine(WalkStep::Name, format!("{subject} is {ip}, outside the cluster")));
            Some(resolve_address(facts, *ip))
        }
    }
}

/// Returns whether the source has an address of this one's family. The machine's own addresses are not known here: for
/// a pod that uses them, the attempt to connect decides.
fn has_family_of(facts: &Facts, source: &Pod, ip: IpAddr) -> bool {
    let is_of_family = |own: &IpAddr| own.is_ipv6() == ip.is_ipv6();
    !facts.own_network || is_on_host_network(source) || addresses(source).iter().any(is_of_family)
}

fn missing(kind: &str, key: &Key, all: impl Iterator<Item = Key>) -> Finding {
    let mut near: Vec<(usize, String)> = all
        .filter_map(|other| {
            let distance = services::distance(&other.name, &key.name);
            let is_near =
                distance <= 2 || (other.namespace == key.namespace && other.name.starts_with(&key.name));
            is_near.then(|| (distance, other.to_string()))
        })
        .collect();
    near.order();
    let advice = match near.first() {
        Some((_, near)) => format!("did you mean {near}?"),
        None => format!("see `kubectl get {kind}s -n {}`", key.namespace),
    };
    Finding::problem(WalkStep::Name, format!("{kind} {key} not found"), advice)
}

/// Finds the object that an address belongs to.
fn resolve_address(facts: &Facts, ip: IpAddr) -> ResolvedDestination<'_> {
    let own = facts.services.iter().find(|service| services::address(service) == Some(ip));
    let service = own.or_else(|| facts.services.iter().find(|service| services::is_served_at(service, ip)));
    let has = |pod: &&Pod| !is_on_host_network(pod) && !is_terminal(pod) && addresses(pod).contains(&ip);
    match (service, facts.pods.iter().find(has)) {
        (Some(service), _) => ResolvedDestination::Service(service, Some(ip)),
        (None, Some(pod)) => ResolvedDestination::Pod(pod, Some(ip)),
        (None, None) => ResolvedDestination::Address(ip),
    }
}

fn to_service(
    facts: &Facts,
    question: &ConnectionQuestion,
    source: &Pod,
    service: &Service,
    ip: Option<IpAddr>,
    walk: &mut Walk,
) -> Result<(), UsageError> {
    // A headless service has the addresses of its pods, and none of its own.
    let own = ip.filter(|ip| services::is_served_at(service, *ip));
    let address = own.or_else(|| services::address(service));
    let (finding, chosen) = services::choose(service, question.port.as_ref());
    if question.port.is_none() && chosen.is_none() {
        let ports = finding.details.join("; ");
        return Err(UsageError(format!("{}: {ports}", finding.text)));
    }
    let Some(port) = chosen else {
        // A headless service has no address of its own: clients connect to its pods' ports directly.
        if let (None, Some(Port::Number(number))) = (address, &question.port) {
            headless(facts, source, service, *number, walk);
            return Ok(());
        }
        walk.add(finding);
        return Ok(());
    };
    walk.protocol = port.protocol;
    if address.is_none() && question.port.is_some() {
        headless(facts, source, service, port.number, walk);
        return Ok(());
    }
    walk.add(finding);
    let (finding, ends) = behind(facts, service, &port, address, source);
    walk.add(finding);
    walk.service = address.map(|ip| SocketAddr::new(ip, port.number)).filter(|_| !ends.is_empty());
    walk.ends = ends;
    Ok(())
}

/// Follows the path to a headless service: its name resolves to its pods, and ports are theirs, not the service's.
fn headless(facts: &Facts, source: &Pod, service: &Service, number: u16, walk: &mut Walk) {
    let key = Key::of(&service.metadata);
    let protocol = walk.protocol;
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports = ports.filter_map(services::chosen).filter(|port| port.protocol == protocol);
    let mut found = None;
    for port in ports {
        let (finding, ends) = behind(facts, service, &port, None, source);
        if found.is_none() || ends.iter().any(|end| end.address.port() == number) {
            found = Some((finding, ends));
        }
    }
    let text = format!("service {key} is headless: clients connect to port {number} of its pods");
    walk.add(Finding::fine(WalkStep::Port, text));
    if let Some((finding, mut ends)) = found {
        walk.add(finding);
        for end in &mut ends {
            end.address.set_port(number);
        }
        walk.ends = ends;
    } else {
        walk.add(Finding::note(
            WalkStep::Endpoints,
            format!("service {key} declares no {protocol} port: its endpoints are unknown"),
        ));
    }
}

fn to_pod(
    facts: &Facts,
    question: &ConnectionQuestion,
    pod: &Pod,
    ip: Option<IpAddr>,
    walk: &mut Walk,
) -> Result<(), UsageError> {
    let key = Key::of(&pod.metadata);
    let declared = declared(pod);
    let (own, number) = match (&question.port, declared.as_slice()) {
        (Some(Port::Number(number)), all) => {
            // If the pod declares a number more than once, TCP takes precedence.
            let same = all.iter().filter(|port| port.number == *number);
            (same.min_by_key(|port| port.protocol), *number)
        }
        (Some(Port::Name(name)), all) => {
            let own = all.iter().find(|port| port.name == *name).ok_or_else(|| {
                UsageError(format!("pod {key} declares no port {name}; use the port's number"))
            })?;
            (Some(own), own.number)
        }
        (None, [own]) => (Some(own), own.number),
        (None, all) => {
            let count = all.len();
            return Err(UsageError(format!("pod {key} declares {count} ports; use DESTINATION:PORT")));
        }
    };
    walk.protocol = own.map_or(Protocol::Tcp, |port| port.protocol);
    if !is_ready(pod) {
        let reason = not_ready_reason(pod, facts.probes.get(&key));
        if addresses(pod).is_empty() || is_terminal(pod) {
            let advice = format!("see `kubectl describe pod -n {} {}`", key.namespace, key.name);
            walk.add(Finding::problem(
                WalkStep::Endpoints,
                format!("pod {key} is not running: {reason}"),
                advice,
            ));
            return Ok(());
        }
        walk.add(Finding::note(
            WalkStep::Endpoints,
            format!("pod {key} is not ready ({reason}): services send it no connections"),
        ));
    }
    let Some(ip) = ip.or_else(|| addresses(pod).first().copied()) else { return Ok(()) };
    let address = SocketAddr::new(ip, number);
    let undeclared = if own.is_some() { "" } else { ", an undeclared port (declaring ports is optional)" };
    walk.add(Finding::fine(WalkStep::Port, format!("pod {key} at {address}{undeclared}")));
    walk.ends = vec![Endpoint::of_pod(address, key)];
    Ok(())
}

fn to_address(
    facts: &Facts,
    question: &ConnectionQuestion,
    ip: IpAddr,
    walk: &mut Walk,
) -> Result<(), UsageError> {
    let number = match &question.port {
        Some(Port::Number(number)) => *number,
        _ => return Err(UsageError("use DESTINATION:PORT with a port number".to_owned())),
    };
    if policies::is_of_pods(facts, ip) {
        let text = format!("no pod has {ip}, an address of the pod network; its former pod may be gone");
        walk.add(Finding::problem(
            WalkStep::Name,
            text,
            "connect to a service, whose address does not change",
        ));
        return Ok(());
    }
    let text = ip.to_string();
    let node = facts.nodes.iter().find(|node| {
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        addresses.into_iter().any(|address| address.address == text)
    });
    let subject = match node.and_then(|node| node.metadata.name.as_deref()) {
        Some(node) => format!("{ip} is node {node}"),
        None => format!("{ip} is outside the cluster"),
    };
    walk.add(Finding::fine(WalkStep::Port, format!("{subject}, port {number}")));
    walk.ends = vec![Endpoint::external(SocketAddr::new(ip, number))];
    Ok(())
}
