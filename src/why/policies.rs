//! The effect of network policies on a connection, and on a pod.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use serde_json::json;

use super::endpoints::Endpoint;
use super::names::dns_address;
use super::report::{Finding, State, WalkStep};
use super::{Facts, Key};
use network_policy::{
    AddressError, ConnectionEnd, ConnectionQuery, Direction, Explanation, PolicyInputs, Protocol, Ruling,
    explain,
};
use object::TypedKind as _;

/// Maximum number of pods listed in a line: users can create any number.
const MAX_LISTED: usize = 8;
/// The port of DNS.
const DNS_PORT: u16 = 53;

/// Builds the input of policy evaluation.
pub(super) fn world(facts: &Facts) -> PolicyInputs {
    let mut world = PolicyInputs::default();
    for pod in &facts.pods {
        world.set_pod(&Key::of(&pod.metadata), Some(pod));
    }
    for namespace in &facts.namespaces {
        world.set_namespace(namespace.metadata.name.as_deref().unwrap_or_default(), Some(namespace));
    }
    for policy in &facts.policies {
        world.set_policy(&Key::of(&policy.metadata), Some(policy));
    }
    world
}

/// Returns a finding if policies prevent the source from reaching the cluster's DNS.
pub(super) fn of_dns(facts: &Facts, source: &Key) -> Option<Finding> {
    let ip = dns_address(facts).filter(|_| facts.own_network)?;
    let mut world = world(facts);
    // Policies see the cluster's DNS as the CoreDNS pods of other clusters.
    let stand_in = Key::new("kube-system", "coredns (this cluster's DNS)");
    let pod = json!({
        "metadata": {"labels": {"k8s-app": "kube-dns"}}, "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": ip}});
    world.set_pod(&stand_in, Pod::decode(pod).ok().as_ref());
    let (source, destination) = (ConnectionEnd::Pod(source.clone()), ConnectionEnd::Pod(stand_in));
    let question = ConnectionQuery { source, destination, protocol: Protocol::Udp, port: DNS_PORT };
    let explanation = explain(&world, &question).ok().filter(|explanation| !explanation.egress.allows())?;
    let advice = "allow egress to pods k8s-app=kube-dns in namespace kube-system on port 53 of UDP and TCP";
    let text = "network policies block the pod's queries to the cluster's DNS";
    Some(Finding::problem(WalkStep::Name, text, advice).with(explanation.sentences(&world)))
}

/// Evaluates policies for the connections from the source to these ends.
pub(super) fn between(facts: &Facts, source: &Key, ends: &[Endpoint], protocol: Protocol) -> Finding {
    let world = world(facts);
    let (mut allowed, mut refused, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for end in ends {
        let destination = match &end.pod {
            Some(key) => ConnectionEnd::Pod(key.clone()),
            None => ConnectionEnd::Address(end.address.ip()),
        };
        let source = ConnectionEnd::Pod(source.clone());
        match explain(&world, &ConnectionQuery { source, destination, protocol, port: end.address.port() }) {
            Ok(explanation) => {
                let kind = if explanation.is_allowed() { &mut allowed } else { &mut refused };
                kind.push(explanation);
            }
            Err(error) => unknown.push(error),
        }
    }
    let mut finding = policy_finding(&world, &allowed, &refused, &unknown);
    if !facts.own_network && finding.state == State::Problem {
        finding.state = State::Note;
        finding.advice = None;
        finding.text = format!("{}; not enforced here, as pods share the machine's network", finding.text);
    }
    finding
}

fn policy_finding(
    world: &PolicyInputs,
    allowed: &[Explanation],
    refused: &[Explanation],
    unknown: &[AddressError],
) -> Finding {
    let sentences = |all: &[Explanation]| {
        let mut lines: Vec<String> = all.iter().flat_map(|one| one.sentences(world)).collect();
        lines.dedup();
        lines
    };
    if let Some(first) = refused.first() {
        let (direction, policies, does) = refusal(first);
        let to = match direction {
            Direction::Ingress => "to the destination",
            Direction::Egress => "from the source",
        };
        let some = if allowed.is_empty() {
            String::new()
        } else {
            format!(" for {} of {} endpoints", refused.len(), refused.len() + allowed.len())
        };
        let text = format!("{policies} ({direction}) {does} not allow connections {to}{some}");
        let advice = format!("allow them in {policies}, or in another policy that selects the same pod");
        return Finding::problem(WalkStep::Policy, text, advice).with(sentences(refused));
    }
    if let (Some(error), true) = (unknown.first(), allowed.is_empty()) {
        return Finding::note(WalkStep::Policy, error.to_string());
    }
    let open = |ruling: &Ruling| !matches!(ruling, Ruling::Allowed(_));
    if allowed.iter().all(|one| open(&one.egress) && open(&one.ingress)) {
        return Finding::fine(WalkStep::Policy, "no network policy applies to this connection");
    }
    Finding::fine(WalkStep::Policy, "network policies allow this connection").with(sentences(allowed))
}

/// Returns the end at which policies refuse a connection, the policies, and "does" or "do" to follow them in a text.
fn refusal(explanation: &Explanation) -> (Direction, String, &'static str) {
    let of = |ruling: &Ruling| match ruling {
        Ruling::Refused { policies, .. } => Some(policies.clone()),
        _ => None,
    };
    let (direction, policies) = match (of(&explanation.egress), of(&explanation.ingress)) {
        (Some(policies), _) => (Direction::Egress, policies),
        (None, policies) => (Direction::Ingress, policies.unwrap_or_default()),
    };
    let (noun, does) = if policies.len() == 1 { ("policy", "does") } else { ("policies", "do") };
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    (direction, format!("{noun} {}", names.join(", ")), does)
}

/// The policies that isolate a pod in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectingPolicies {
    /// `ingress` or `egress`.
    pub direction: String,
    /// Names of the policies that isolate the pod.
    pub policies: Vec<String>,
    /// A sentence about what they allow together.
    pub text: String,
}

/// Returns the policies that select a pod, with what they allow; empty if there are none.
pub fn selecting(facts: &Facts, pod: &Key) -> Vec<SelectingPolicies> {
    let world = world(facts);
    let selected = Direction::ALL.into_iter().filter_map(|direction| {
        let policies = world.isolating_in(pod, direction);
        let text = match world.accepted(direction, &policies) {
            nothing if nothing.is_empty() => "nothing".to_owned(),
            accepted => accepted,
        };
        let policies: Vec<String> = policies.iter().map(ToString::to_string).collect();
        (!policies.is_empty()).then(|| SelectingPolicies { direction: direction.to_string(), policies, text })
    });
    selected.collect()
}

/// Describes the pods that a policy selects and what it allows, one line each.
pub fn meaning(facts: &Facts, policy: &Key) -> Vec<String> {
    let world = world(facts);
    let pods = world.selected_by(policy);
    let more = pods.len().saturating_sub(MAX_LISTED);
    let names: Vec<&str> = pods.iter().take(MAX_LISTED).map(|pod| pod.name.as_str()).collect();
    let selected = match (names.as_slice(), more) {
        ([], _) => "selects no pod".to_owned(),
        (names, 0) => format!("selects {}", names.join(", ")),
        (names, more) => format!("selects {} and {more} more", names.join(", ")),
    };
    let mut lines = vec![selected];
    for direction in Direction::ALL {
        if let Some(accepted) = world.accepted_by(policy, direction) {
            let accepted = if accepted.is_empty() { "nothing".to_owned() } else { accepted };
            lines.push(format!("{direction}: allows {accepted}"));
        }
    }
    lines
}

/// Returns whether an address is in one of a node's pod ranges.
pub(super) fn is_of_pods(facts: &Facts, ip: IpAddr) -> bool {
    let specs = facts.nodes.iter().filter_map(|node| node.spec.as_ref());
    let ranges = specs.flat_map(|spec| spec.pod_cidr.iter().chain(spec.pod_cidrs.iter().flatten()));
    ranges.filter_map(|range| range.parse::<ipnet::IpNet>().ok()).any(|range| range.contains(&ip))
}
