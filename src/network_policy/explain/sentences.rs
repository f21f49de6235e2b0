//! Explanations as sentences.

use super::{Explanation, ImplicitAllow, Ruling};
use crate::inputs::PolicyInputs;
use crate::peers::{Definition, Namespaces, describe};
use crate::port_range::{PortRange, Protocol};
use crate::rule::{Direction, Peer, Policy, Port, Rule};
use object::Key;
use object::selector::Selector;

/// Maximum number of items of a list in a sentence: users' lists have any length.
const MAX_ITEMS: usize = 5;

/// Maximum number of characters of a selector in a sentence.
const MAX_SELECTOR_LENGTH: usize = 200;

pub(super) fn sentences(explanation: &Explanation, world: &PolicyInputs) -> Vec<String> {
    let of = |direction| (direction, explanation.ruling(direction));
    let all = [of(Direction::Egress), of(Direction::Ingress)];
    let rulings = all.into_iter().filter(|(_, ruling)| explanation.is_allowed() || !ruling.allows());
    rulings.filter_map(|(direction, ruling)| sentence(explanation, world, direction, ruling)).collect()
}

fn sentence(
    explanation: &Explanation,
    world: &PolicyInputs,
    direction: Direction,
    ruling: &Ruling,
) -> Option<String> {
    let question = &explanation.question;
    let (source, destination) = (question.source.to_string(), question.destination.to_string());
    let own = if direction == Direction::Ingress { &destination } else { &source };
    let port = PortRange::one(question.protocol, question.port);
    // The end of a sentence: `default/web may not connect`, `it may not connect to default/db`.
    let (who, suffix) = match direction {
        Direction::Ingress => (source.as_str(), String::new()),
        Direction::Egress => ("it", format!(" to {destination}")),
    };
    Some(match ruling {
        Ruling::NoPod => return None,
        Ruling::Always(ImplicitAllow::Itself) => format!("{own} may always connect to itself"),
        Ruling::Always(ImplicitAllow::ItsNode) => match direction {
            Direction::Ingress => format!("{own} always accepts connections from its own node"),
            Direction::Egress => format!("{own} may always connect to its own node"),
        },
        Ruling::NotIsolated => match direction {
            Direction::Ingress => format!("no policy isolates {own} for ingress: it accepts any address"),
            Direction::Egress => {
                format!("no policy isolates {own} for egress: it may connect to any address")
            }
        },
        Ruling::Allowed(rules) => {
            let name = rules.first()?;
            let policy = world.policies.get(&name.policy)?;
            let description = describe_rule(policy, policy.rules(direction)?.get(name.rule)?);
            let verb = if direction == Direction::Ingress { "accepts" } else { "may connect to" };
            let more = match rules.len() {
                ..=1 => String::new(),
                2 => " and by another rule".into(),
                many => format!(" and by {} other rules", many - 1),
            };
            format!(
                "{own} {verb} {description} (policy {}){more}: {who} may connect{suffix} on {port}",
                name.policy
            )
        }
        Ruling::Refused { policies, on_other_ports } => {
            let [verb, to, none] = match direction {
                Direction::Ingress => ["accepts", "", "nothing"],
                Direction::Egress => ["may connect", "to ", "to no address"],
            };
            let peers = match accepted(world, direction, policies) {
                only if only.is_empty() => format!("{none} ({})", names(policies)),
                only => format!("only {to}{only}"),
            };
            // Name the port only if another port would be allowed.
            let on = if on_other_ports.is_empty() { String::new() } else { format!(" on {port}") };
            format!("{own} {verb} {peers}: {who} may not connect{suffix}{on}")
        }
    })
}

/// Describes accepted connections: `app=api on 5432 (policy default/db-from-api), 10.0.0.0/8 (policy default/admin)`;
/// empty if no rule allows anything.
pub(super) fn accepted(world: &PolicyInputs, direction: Direction, policies: &[Key]) -> String {
    let policies = policies.iter().filter_map(|key| world.policies.get(key));
    let rules = policies.flat_map(|policy| {
        let rules = policy.rules(direction).unwrap_or_default().iter();
        rules.map(move |rule| (policy, rule))
    });
    let mut by_policy: Vec<(&Policy, Vec<String>)> = Vec::new();
    let mut more = 0;
    for (at, (policy, rule)) in rules.enumerate() {
        if at >= MAX_ITEMS {
            more += 1;
            continue;
        }
        let text = describe_rule(policy, rule);
        match by_policy.last_mut() {
            Some((last, texts)) if last.key == policy.key => texts.push(text),
            _ => by_policy.push((policy, vec![text])),
        }
    }
    let texts =
        by_policy.iter().map(|(policy, texts)| format!("{} (policy {})", texts.join(", "), policy.key));
    with_more(&texts.collect::<Vec<_>>(), more)
}

/// Formats names as `policy default/deny`, `policies default/a, default/b`.
fn names(policies: &[Key]) -> String {
    let noun = if policies.len() == 1 { "policy" } else { "policies" };
    format!("{noun} {}", limited(policies.iter().map(Key::to_string).collect()))
}

fn describe_rule(policy: &Policy, rule: &Rule) -> String {
    let own = &policy.key.namespace;
    let peers = match rule.peers.as_slice() {
        [] => "no address".to_owned(),
        peers => limited(peers.iter().map(|peer| describe_peer(own, peer)).collect()),
    };
    match &rule.ports {
        None => peers,
        Some(ports) if ports.is_empty() => format!("{peers} on no port"),
        Some(ports) => format!("{peers} on {}", limited(ports.iter().map(describe_port).collect())),
    }
}

/// Describes a peer as seen from the policy's own namespace.
fn describe_peer(own: &str, peer: &Peer) -> String {
    let Definition { namespaces, pods, .. } = match peer {
        Peer::Any => return "any address".into(),
        Peer::Block(block) => {
            let except: Vec<String> = block.except.iter().map(ToString::to_string).collect();
            let cidr = block.cidr;
            return if except.is_empty() {
                cidr.to_string()
            } else {
                format!("{cidr} except {}", limited(except))
            };
        }
        Peer::Pods(definition) => definition,
    };
    let place = match namespaces {
        Namespaces::Named(name) if name == own && !pods.is_everything() => return selector_text(pods),
        Namespaces::Named(name) => format!("namespace {name}"),
        Namespaces::Selected(selector) if selector.is_everything() => "any namespace".into(),
        Namespaces::Selected(selector) => format!("namespaces {}", selector_text(selector)),
        Namespaces::All => "any namespace".into(),
    };
    if pods.is_everything() {
        format!("pods of {place}")
    } else {
        format!("{} in {place}", selector_text(pods))
    }
}

fn selector_text(selector: &Selector) -> String {
    let text = describe(selector);
    match text.char_indices().nth(MAX_SELECTOR_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn describe_port(port: &Port) -> String {
    match port {
        Port::Range(range) => range.to_string(),
        Port::Named(Protocol::Tcp, name) => name.clone(),
        Port::Named(protocol, name) => format!("{name}/{protocol}"),
    }
}

fn limited(mut texts: Vec<String>) -> String {
    let more = texts.len().saturating_sub(MAX_ITEMS);
    texts.truncate(MAX_ITEMS);
    with_more(&texts, more)
}

fn with_more(texts: &[String], more: usize) -> String {
    let texts = texts.join(", ");
    if more == 0 { texts } else { format!("{texts} and {more} more") }
}
