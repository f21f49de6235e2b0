//! Validation of faults with a single target: the targets of each type, and its parameters.

use std::time::Duration;

use jiff::SignedDuration;

use apimachinery::validate::{FieldErrors, Path, names, selector};
use object::fault::{Component, DISK_FAILURES, FaultSpec, FaultTarget};
use object::time::{go_duration, read_go_duration};

/// The maximum delay of a write.
const LONGEST_WRITE: Duration = Duration::from_mins(1);
/// The maximum delay of an image pull.
const LONGEST_PULL: Duration = Duration::from_hours(1);
/// The maximum time for which the store refuses writes.
const LONGEST_REFUSAL: Duration = Duration::from_hours(1);
/// The maximum clock skew: a year.
const FURTHEST: SignedDuration = SignedDuration::from_hours(365 * 24);
/// The maximum size of an image pattern, equal to that of image names.
const LONGEST_PATTERN: usize = 512;

/// A way to specify a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetField {
    Component,
    Node,
    Pod,
    Claim,
    Webhook,
}

/// Refuses fields that only network faults have, and checks `duration` for faults of a single target. A fault that
/// makes the store refuse writes must have a bounded duration, because the store would refuse the deletion of the
/// fault, too.
pub(super) fn only(errors: &mut FieldErrors, path: &Path<'_>, spec: &FaultSpec) {
    for (field, is_there) in
        [("from", spec.from.is_some()), ("to", spec.to.is_some()), ("direction", spec.direction.is_some())]
    {
        if is_there {
            errors.forbidden(&path.child(field), "may only be set for network faults");
        }
    }
    if spec.type_ == "OutOfMemory" && spec.duration.is_some() {
        errors.forbidden(
            &path.child("duration"),
            "may not be set if `type` is OutOfMemory: the fault happens once",
        );
    }
    let refuses = spec.disk.as_ref().is_some_and(|disk| disk.failure != "Slow");
    let is_store = spec.target.as_ref().and_then(FaultTarget::component) == Some(Component::Store);
    if spec.type_ == "Disk" && refuses && is_store {
        let at = path.child("duration");
        match &spec.duration {
            None => errors.required(
                &at,
                "must be set if the store refuses writes: it would also refuse to delete the fault",
            ),
            Some(text) if read_go_duration(text).is_some_and(|time| time > LONGEST_REFUSAL) => {
                errors.invalid(&at, text, "must be at most 1h if the store refuses writes");
            }
            Some(_) => {}
        }
    }
}

/// Validates the target: the fields that the type needs, and no others.
pub(super) fn target(errors: &mut FieldErrors, path: &Path<'_>, spec: &FaultSpec) {
    let (ways, needed): (&[TargetField], _) = match spec.type_.as_str() {
        "Crash" | "Pause" => (&[TargetField::Component], "must specify a component"),
        "PowerOff" => (&[TargetField::Node], "must specify node or nodeSelector"),
        "ImagePull" => (&[TargetField::Node], ""),
        "Disk" => (
            &[TargetField::Node, TargetField::Component],
            "must specify node, nodeSelector, or store as the component",
        ),
        "ClockSkew" => {
            (&[TargetField::Node, TargetField::Component], "must specify node, nodeSelector or a component")
        }
        "OutOfMemory" => (&[TargetField::Pod], "must specify pod or podSelector"),
        "VolumeFull" => (&[TargetField::Claim], "must specify claim, or pod and volume"),
        _ => (&[TargetField::Webhook], "must specify webhook"),
    };
    let at = path.child("target");
    let empty = FaultTarget::default();
    let target = spec.target.as_ref().unwrap_or(&empty);
    let is_kubelet = target.component() == Some(Component::Kubelet);
    let component = ways.contains(&TargetField::Component);
    let nodes =
        if target.component.is_some() { component && is_kubelet } else { ways.contains(&TargetField::Node) };
    let (pods, claims) = (ways.contains(&TargetField::Pod), ways.contains(&TargetField::Claim));
    for (field, is_there, is_allowed) in [
        ("component", target.component.is_some(), component),
        ("node", target.node.is_some(), nodes),
        ("nodeSelector", target.node_selector.is_some(), nodes),
        ("pod", target.pod.is_some(), pods || claims),
        ("podSelector", target.pod_selector.is_some(), pods),
        ("namespace", target.namespace.is_some(), pods || claims),
        ("container", target.container.is_some(), pods),
        ("claim", target.claim.is_some(), claims),
        ("volume", target.volume.is_some(), claims),
        ("webhook", target.webhook.is_some(), ways.contains(&TargetField::Webhook)),
    ] {
        if is_there && !is_allowed {
            let detail = if field.starts_with("node") && component {
                "may only be set with the component kubelet, or without a component if `type` is Disk or \
                 ClockSkew"
                    .to_owned()
            } else {
                format!("may not be set if `type` is {}", spec.type_)
            };
            errors.forbidden(&at.child(field), detail);
        }
    }
    let needed = if is_kubelet { "must specify node or nodeSelector for the kubelet" } else { needed };
    if nodes {
        let is_selected = target.node_selector.is_some();
        exactly_one(errors, &at, target.node.is_some(), (is_selected, "nodeSelector"), needed);
    } else if pods {
        let is_selected = target.pod_selector.is_some();
        exactly_one(errors, &at, target.pod.is_some(), (is_selected, "podSelector"), needed);
    } else if component && target.component.is_none()
        || claims && target.claim.is_none() && (target.pod.is_none() || target.volume.is_none())
        || ways == [TargetField::Webhook] && target.webhook.is_none()
    {
        errors.required(&at, needed);
    }
    if claims && target.claim.is_some() {
        for (field, is_there) in [("pod", target.pod.is_some()), ("volume", target.volume.is_some())] {
            if is_there {
                errors.forbidden(&at.child(field), "may not be set with `claim`");
            }
        }
    }
    fields(errors, &at, target);
    if component {
        which_component(errors, &at, spec, target);
    }
}

/// Validates the component: some types of faults allow only some components.
fn which_component(errors: &mut FieldErrors, at: &Path<'_>, spec: &FaultSpec, target: &FaultTarget) {
    let Some(name) = &target.component else { return };
    let component = target.component();
    let detail = match (spec.type_.as_str(), component) {
        ("Crash", Some(Component::Store)) => "the store is part of the control plane and cannot crash alone",
        ("ClockSkew", Some(Component::Store)) => "the store uses no clock",
        ("ClockSkew", Some(Component::Controller(_))) => {
            "all controllers share one clock: specify controllers"
        }
        ("Disk", Some(Component::Store)) => return,
        ("Disk", _) => "must be store if `type` is Disk; for a kubelet's disk, specify its node",
        _ => return,
    };
    errors.invalid(&at.child("component"), name, detail);
}

fn exactly_one(
    errors: &mut FieldErrors,
    at: &Path<'_>,
    first: bool,
    (second, field): (bool, &str),
    needed: &str,
) {
    match (first, second) {
        (false, false) if !needed.is_empty() => errors.required(at, needed),
        (true, true) => errors.forbidden(&at.child(field), "may not be set with the name"),
        _ => {}
    }
}

/// Validates the syntax of the target's fields.
fn fields(errors: &mut FieldErrors, at: &Path<'_>, target: &FaultTarget) {
    let subdomain: fn(&str) -> Vec<String> = names::dns_1123_subdomain;
    for (field, text, rule) in [
        ("component", &target.component, subdomain),
        ("node", &target.node, subdomain),
        ("pod", &target.pod, subdomain),
        ("namespace", &target.namespace, names::dns_1123_label),
        ("container", &target.container, names::dns_1123_label),
        ("claim", &target.claim, subdomain),
        ("volume", &target.volume, names::dns_1123_label),
        ("webhook", &target.webhook, subdomain),
    ] {
        if let Some(text) = text {
            errors.required_name(&at.child(field), text, rule);
        }
    }
    for (field, own) in [("nodeSelector", &target.node_selector), ("podSelector", &target.pod_selector)] {
        if let Some(own) = own {
            selector::label_selector(errors, &at.child(field), own);
        }
    }
}

/// Validates the parameters. Each belongs to one type of fault, which requires it, and other types forbid it.
pub(super) fn parameters(errors: &mut FieldErrors, path: &Path<'_>, spec: &FaultSpec) {
    for (type_, field, is_there) in [
        ("Disk", "disk", spec.disk.is_some()),
        ("ClockSkew", "skew", spec.skew.is_some()),
        ("ImagePull", "image", spec.image.is_some()),
    ] {
        if is_there && spec.type_ != type_ {
            errors.forbidden(&path.child(field), format!("may only be set if `type` is {type_}"));
        } else if !is_there && spec.type_ == type_ {
            errors.required(&path.child(field), format!("must be set if `type` is {type_}"));
        }
    }
    if let Some(disk) = &spec.disk {
        let path = path.child("disk");
        errors.required_one_of(
            &path.child("failure"),
            Some(disk.failure.as_str()).filter(|failure| !failure.is_empty()),
            DISK_FAILURES,
        );
        delay(errors, &path, disk.delay.as_deref(), LONGEST_WRITE);
        match (disk.failure.as_str(), &disk.delay) {
            ("Slow", None) => errors.required(&path.child("delay"), "must be set if `failure` is Slow"),
            ("Full" | "Failing", Some(_)) => {
                errors.forbidden(&path.child("delay"), "may only be set if `failure` is Slow");
            }
            _ => {}
        }
    }
    if let Some(skew) = &spec.skew {
        let path = path.child("skew");
        let at = path.child("by");
        match skew.by() {
            _ if skew.by.is_empty() => errors.required(&at, ""),
            None => errors.invalid(&at, &skew.by, "must be a duration such as 5m or -1h30m"),
            Some(by) if by.is_zero() => errors.invalid(&at, &skew.by, "must not be 0"),
            Some(by) if by.abs() > FURTHEST => {
                errors.invalid(&at, &skew.by, "must be between -8760h and 8760h (one year)");
            }
            Some(_) => {}
        }
    }
    if let Some(image) = &spec.image {
        let path = path.child("image");
        delay(errors, &path, image.delay.as_deref(), LONGEST_PULL);
        if image.delay.is_none() && image.failing != Some(true) {
            errors.required(&path, "must specify delay, failing or both");
        }
        if let Some(pattern) = &image.pattern {
            let at = path.child("pattern");
            if pattern.is_empty() {
                errors.required(&at, "");
            } else if pattern.len() > LONGEST_PATTERN {
                errors.too_long(&at, LONGEST_PATTERN);
            }
        }
    }
}

fn delay(errors: &mut FieldErrors, path: &Path<'_>, text: Option<&str>, longest: Duration) {
    let at = path.child("delay");
    match text.map(|text| (text, read_go_duration(text))) {
        Some((text, None)) => errors.invalid(&at, text, "must be a duration such as 200ms"),
        Some((text, Some(time))) if time.is_zero() => {
            errors.invalid(&at, text, "must be greater than 0");
        }
        Some((text, Some(time))) if time > longest => {
            errors.invalid(&at, text, format!("must be at most {}", go_duration(longest)));
        }
        None | Some(_) => {}
    }
}
