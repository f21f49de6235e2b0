//! The endpoints of a service, and the reason if it has none.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{ContainerPort, ContainerStatus, Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::report::{Finding, WalkStep};
use super::services::{SelectedPort, distance};
use super::{Facts, Key};
use base::sort::SliceOrder;
use network_policy::Protocol;
use object::endpoint::{self, EndpointState};
use object::host_ports::declared_ports;
use object::pod::{Phase, condition, is_ready, node_name, phase};
use object::port_number;
use object::selector::{Labels, Selector};
use object::service::{cluster_ips, of_slice};

/// Maximum number of pods listed in a finding: users can create any number.
const MAX_LISTED: usize = 5;
/// Maximum number of endpoints that are examined.
pub(super) const MAX_TRIED: usize = 8;

/// An endpoint of a service, or another end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    pub(super) pod: Option<Key>,
    node: Option<String>,
}

impl Endpoint {
    /// Creates the end of a connection to a pod itself.
    pub(super) fn of_pod(address: SocketAddr, pod: Key) -> Self {
        Self { address, pod: Some(pod), node: None }
    }

    /// Creates the end of a connection to an address that belongs to no pod.
    pub(super) fn external(address: SocketAddr) -> Self {
        Self { address, pod: None, node: None }
    }
}

/// Returns the endpoints that connections to this address of the service currently go to, with a finding about them. A
/// headless service has no address; its clients prefer IPv4.
pub(super) fn behind(
    facts: &Facts,
    service: &Service,
    port: &SelectedPort,
    address: Option<IpAddr>,
    source: &Pod,
) -> (Finding, Vec<Endpoint>) {
    let key = Key::of(&service.metadata);
    let is_own = |slice: &&EndpointSlice| of_slice(&slice.metadata).as_ref() == Some(&key);
    let slices: Vec<&EndpointSlice> = facts.slices.iter().filter(is_own).collect();
    let has_ipv4 = slices.iter().any(|slice| slice.address_type == "IPv4");
    let family = if address.map_or(!has_ipv4, |ip| ip.is_ipv6()) { "IPv6" } else { "IPv4" };
    let mut all: Vec<(EndpointState, Endpoint)> = Vec::new();
    for slice in slices.iter().filter(|slice| slice.address_type == family) {
        for number in numbers(slice, port) {
            for endpoint in slice.endpoints.iter().flatten() {
                let Some(state) = endpoint::state(endpoint) else { continue };
                let pod = endpoint::pod(endpoint)
                    .and_then(|target| Some(Key::new(target.namespace.clone()?, target.name.clone()?)));
                let ips = endpoint.addresses.iter().filter_map(|ip| ip.parse::<IpAddr>().ok());
                let ends = ips.map(|ip| Endpoint {
                    address: SocketAddr::new(ip, number),
                    pod: pod.clone(),
                    node: endpoint.node_name.clone(),
                });
                all.extend(ends.map(|end| (state, end)));
            }
        }
    }
    // The policy is for clients of the cluster IPs alone.
    let is_internal =
        |spec: &&ServiceSpec| address.is_some_and(|ip| cluster_ips(spec).any(|internal| internal == ip));
    let spec = service.spec.as_ref().filter(is_internal);
    let is_local = spec.and_then(|spec| spec.internal_traffic_policy.as_deref()) == Some("Local");
    let node = node_name(source);
    let (near, far): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, end)| !is_local || end.node.as_deref() == node);
    let (used, far) = (usable(near), usable(far));
    let finding = if !used.is_empty() {
        endpoint_finding(facts, &used)
    } else if far.is_empty() {
        no_endpoints(facts, service, port)
    } else {
        let node = node.unwrap_or("no node");
        let text = format!(
            "no endpoint on {node}, the source's node, and internalTrafficPolicy is Local ({} on other nodes)",
            far.len()
        );
        let advice = "run a pod of the service there, or set internalTrafficPolicy to Cluster";
        Finding::problem(WalkStep::Endpoints, text, advice)
    };
    (finding, used)
}

/// Returns the ready endpoints, or, if there are none, those that still serve.
fn usable(all: Vec<(EndpointState, Endpoint)>) -> Vec<Endpoint> {
    let (ready, draining): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(state, _)| *state == EndpointState::Ready);
    let used = if ready.is_empty() { draining } else { ready };
    used.into_iter().map(|(_, end)| end).collect()
}

/// Returns the numbers of a service port in a slice.
fn numbers(slice: &EndpointSlice, port: &SelectedPort) -> Vec<u16> {
    let same =
        slice.ports.iter().flatten().filter(|own| own.name.as_deref().unwrap_or_default() == port.name);
    same.filter_map(|own| u16::try_from(own.port?).ok()).collect()
}

fn endpoint_finding(facts: &Facts, used: &[Endpoint]) -> Finding {
    let mut lines: Vec<String> = used.iter().take(MAX_TRIED).map(|one| describe(facts, one)).collect();
    if used.len() > MAX_TRIED {
        lines.push(format!("and {} more, which are not checked", used.len() - MAX_TRIED));
    }
    let text = if used.len() == 1 { "1 is ready".to_owned() } else { format!("{} are ready", used.len()) };
    Finding::fine(WalkStep::Endpoints, text).with(lines)
}

fn describe(facts: &Facts, one: &Endpoint) -> String {
    let Some(key) = &one.pod else { return one.address.to_string() };
    let node = facts.pods.iter().find(|pod| Key::of(&pod.metadata) == *key).and_then(node_name);
    let node = node.map_or_else(String::new, |node| format!(" on {node}"));
    format!("{} pod {key}{node}", one.address)
}

/// Explains why a service has no endpoints.
fn no_endpoints(facts: &Facts, service: &Service, port: &SelectedPort) -> Finding {
    let key = Key::of(&service.metadata);
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    if selector.is_empty() {
        let text = format!(
            "no endpoints: service {key} has no selector, and no EndpointSlice of it has a ready endpoint"
        );
        return Finding::problem(
            WalkStep::Endpoints,
            text,
            format!("add a selector to {key}, or create an EndpointSlice"),
        );
    }
    let own: Vec<&Pod> =
        facts.pods.iter().filter(|pod| pod.metadata.namespace.as_deref() == Some(&key.namespace)).collect();
    let matcher = Selector::from_labels(&selector);
    let selected: Vec<&Pod> =
        own.iter().copied().filter(|pod| matcher.matches(pod.metadata.labels.as_ref())).collect();
    if selected.is_empty() {
        let text = format!(
            "no endpoints: the selector {} matches no pod in namespace {}",
            text_of(&selector),
            key.namespace
        );
        let near = closest(&selector, &own);
        let advice = match near.first() {
            Some(_) => "make the selector and the pods' labels agree".to_owned(),
            None => format!("run pods with the labels {}", text_of(&selector)),
        };
        return Finding::problem(WalkStep::Endpoints, text, advice).with(near);
    }
    let late: Vec<&Pod> = selected.iter().copied().filter(|pod| !is_ready(pod)).collect();
    if late.len() < selected.len() {
        let text = format!(
            "no endpoints: no pod has a port named \"{}\", the targetPort of port {} of service {key}",
            port.target, port.number
        );
        let advice = "give a container port this name, or set targetPort to a number";
        return Finding::problem(WalkStep::Endpoints, text, advice).with(ports_of(&selected));
    }
    let count = if late.len() == 1 {
        "its one pod is".to_owned()
    } else {
        format!("none of its {} pods is", late.len())
    };
    let count = if late.len() == 1 { format!("{count} not ready") } else { format!("{count} ready") };
    let whys: Vec<String> = late
        .iter()
        .take(MAX_LISTED)
        .map(|pod| {
            let key = Key::of(&pod.metadata);
            format!("{key}: {}", not_ready_reason(pod, facts.probes.get(&key)))
        })
        .collect();
    let advice = match late.first() {
        Some(pod) => format!(
            "see `kubectl describe pod -n {} {}`",
            key.namespace,
            pod.metadata.name.as_deref().unwrap_or_default()
        ),
        None => "check its pods".to_owned(),
    };
    Finding::problem(WalkStep::Endpoints, format!("no endpoints: {count}"), advice).with(whys)
}

/// Lists the ports that pods declare, with their names.
fn ports_of(pods: &[&Pod]) -> Vec<String> {
    let lines = pods.iter().take(MAX_LISTED).map(|pod| {
        let describe = |DeclaredPort { name, number, .. }: &DeclaredPort| {
            if name.is_empty() { number.to_string() } else { format!("{number} ({name})") }
        };
        let ports: Vec<String> = declared(pod).iter().map(describe).collect();
        let ports = if ports.is_empty() { "none".to_owned() } else { ports.join(", ") };
        format!("{} declares {ports}", Key::of(&pod.metadata))
    });
    lines.collect()
}

/// A port that a pod declares.
pub(super) struct DeclaredPort {
    /// Its name; empty if it has none.
    pub(super) name: String,
    pub(super) number: u16,
    pub(super) protocol: Protocol,
}

/// Returns the ports that a pod declares.
pub(super) fn declared(pod: &Pod) -> Vec<DeclaredPort> {
    let read = |port: &ContainerPort| {
        let (number, protocol) =
            (port_number(port.container_port)?, Protocol::read(port.protocol.as_deref())?);
        Some(DeclaredPort { name: port.name.clone().unwrap_or_default(), number, protocol })
    };
    declared_ports(pod).filter_map(read).collect()
}

fn text_of(labels: &Labels) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns the pods whose labels come closest to a selector, with the differences.
fn closest(selector: &Labels, pods: &[&Pod]) -> Vec<String> {
    let none = Labels::new();
    let mut near: Vec<(usize, usize, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    for pod in pods {
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let (mut missed, mut far, mut instead) = (0, 0, Vec::new());
        for (name, required) in selector {
            match labels.get(name) {
                Some(value) if value == required => {}
                Some(value) => {
                    missed += 1;
                    far += distance(value, required);
                    instead.push(format!("{name}={value}, not {name}={required}"));
                }
                None => {
                    missed += 1;
                    // The pod may have the value under another label name, or not at all.
                    let other = labels.iter().find(|(_, value)| *value == required);
                    far += other.map_or(required.len(), |(other, _)| distance(other, name));
                    instead.push(match other {
                        Some((other, _)) => format!("{other}={required}, not {name}={required}"),
                        None => format!("no label {name}"),
                    });
                }
            }
        }
        let instead = instead.join("; ");
        // Pods of one template have the same differences; list them once.
        if !labels.is_empty() && seen.insert(instead.clone()) {
            near.push((missed, far, format!("{} has {instead}", Key::of(&pod.metadata))));
        }
    }
    near.order();
    near.into_iter().take(3).map(|(_, _, line)| line).collect()
}

/// Returns the reason, in a few words, for which a pod gets no connections.
pub(super) fn not_ready_reason(pod: &Pod, probe: Option<&String>) -> String {
    if pod.metadata.deletion_timestamp.is_some() {
        return "terminating".to_owned();
    }
    match phase(pod) {
        Phase::Succeeded => return "completed".to_owned(),
        Phase::Failed => return "failed".to_owned(),
        _ => {}
    }
    let unscheduled = condition(pod, "PodScheduled").filter(|condition| condition.status == "False");
    if let Some(condition) = unscheduled {
        return format!("not scheduled: {}", condition.message.as_deref().unwrap_or("no reason given"));
    }
    let status = pod.status.as_ref();
    let containers = status
        .into_iter()
        .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten());
    let waiting = |container: &ContainerStatus| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        let message = waiting.message.as_ref().map_or_else(String::new, |message| format!(" ({message})"));
        Some(format!("container {} is waiting: {reason}{message}", container.name))
    };
    if let Some(reason) = containers.into_iter().find_map(waiting) {
        return reason;
    }
    if let Some(probe) = probe {
        return format!("running, but its readiness probe fails: {}", probe.trim());
    }
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let open = gates.map(|gate| gate.condition_type.as_str()).find(|gate| !object::pod::is_true(pod, gate));
    if let Some(gate) = open {
        return format!("waiting for readiness gate {gate}");
    }
    match condition(pod, "Ready").and_then(|condition| condition.message.as_deref()) {
        Some(message) => message.to_owned(),
        None => "not ready yet".to_owned(),
    }
}
