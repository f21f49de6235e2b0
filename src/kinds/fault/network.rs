//! Validation of network faults: their two sides, and the parameters of each type.

use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use apimachinery::validate::{FieldErrors, Path, names, selector};
use object::fault::{FaultPeer, FaultSpec, REFUSALS};
use object::time::{go_duration, read_go_duration};

/// The maximum delay of a packet, and the maximum jitter.
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// The lowest rate, in bytes per second.
const SLOWEST: i64 = 1_000;
/// The highest rate, in bytes per second; no link here is faster.
const FASTEST: i64 = 100_000_000_000;

/// Validates the parameters. Each belongs to one type of fault; that type requires it, and others forbid it.
pub(super) fn parameters(errors: &mut FieldErrors, path: &Path<'_>, spec: &FaultSpec) {
    for (type_, field, is_there, is_needed) in [
        ("Latency", "latency", spec.latency.is_some(), true),
        ("Loss", "loss", spec.loss.is_some(), true),
        ("Rate", "rate", spec.rate.is_some(), true),
        ("Refuse", "refuse", spec.refuse.is_some(), false),
    ] {
        if is_there && spec.type_ != type_ {
            errors.forbidden(&path.child(field), format!("may only be set if `type` is {type_}"));
        } else if !is_there && is_needed && spec.type_ == type_ {
            errors.required(&path.child(field), format!("must be set if `type` is {type_}"));
        }
    }
    if let Some(latency) = &spec.latency {
        let path = path.child("latency");
        for (field, text) in [("delay", Some(&latency.delay)), ("jitter", latency.jitter.as_ref())] {
            let at = path.child(field);
            match text.map(|text| (text, read_go_duration(text))) {
                Some((text, None)) if text.is_empty() => errors.required(&at, ""),
                Some((text, None)) => errors.invalid(&at, text, "must be a duration such as 50ms"),
                Some((text, Some(time))) if time > LONGEST_DELAY => {
                    errors.invalid(&at, text, format!("must be at most {}", go_duration(LONGEST_DELAY)));
                }
                None | Some(_) => {}
            }
        }
    }
    if let Some(loss) = &spec.loss
        && !(0..=1000).contains(&loss.per_mille)
    {
        let path = path.child("loss");
        errors.invalid(&path.child("perMille"), &loss.per_mille, "must be between 0 and 1000, inclusive");
    }
    if let Some(rate) = &spec.rate
        && !(SLOWEST..=FASTEST).contains(&rate.bytes_per_second)
    {
        let path = path.child("rate");
        let detail = format!("must be between {SLOWEST} and {FASTEST}, inclusive");
        errors.invalid(&path.child("bytesPerSecond"), &rate.bytes_per_second, detail);
    }
    if let Some(with) = spec.refuse.as_ref().and_then(|refuse| refuse.with.as_ref()) {
        let path = path.child("refuse");
        errors.one_of(&path.child("with"), with, REFUSALS);
    }
}

pub(super) fn sides(errors: &mut FieldErrors, path: &Path<'_>, spec: &FaultSpec) {
    if spec.from.is_none() && spec.to.is_none() {
        errors.required(&path.child("from"), "must specify `from`, `to` or both");
    }
    for (field, side) in [("from", &spec.from), ("to", &spec.to)] {
        if let Some(side) = side {
            peer(errors, &path.child(field), side);
        }
    }
}

fn peer(errors: &mut FieldErrors, path: &Path<'_>, peer: &FaultPeer) {
    let ways = [
        peer.node.is_some(),
        peer.node_selector.is_some(),
        peer.pod.is_some(),
        peer.pod_selector.is_some() || peer.namespace_selector.is_some(),
        peer.cidr.is_some(),
    ];
    let detail = "must specify exactly one of node, nodeSelector, pod, podSelector with or without namespaceSelector, cidr";
    match ways.iter().filter(|way| **way).count() {
        0 => errors.required(path, detail),
        1 => {}
        _ => errors.forbidden(path, detail),
    }
    let names_namespace =
        peer.pod.is_some() || (peer.pod_selector.is_some() && peer.namespace_selector.is_none());
    if let Some(namespace) = &peer.namespace {
        let at = path.child("namespace");
        if names_namespace {
            errors.invalid_each(&at, namespace, names::dns_1123_label(namespace));
        } else {
            errors.forbidden(&at, "may only be set with pod, or with podSelector and no namespaceSelector");
        }
    }
    for (field, name) in [("node", &peer.node), ("pod", &peer.pod)] {
        if let Some(name) = name {
            errors.required_name(&path.child(field), name, names::dns_1123_subdomain);
        }
    }
    let selectors: [(&str, &Option<LabelSelector>); 3] = [
        ("nodeSelector", &peer.node_selector),
        ("podSelector", &peer.pod_selector),
        ("namespaceSelector", &peer.namespace_selector),
    ];
    for (field, own) in selectors {
        if let Some(own) = own {
            selector::label_selector(errors, &path.child(field), own);
        }
    }
    if let Some(cidr) = &peer.cidr
        && cidr.parse::<IpNet>().is_err()
    {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.invalid(&path.child("cidr"), cidr, detail);
    }
}
