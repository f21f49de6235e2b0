//! The CEL rules in the definition of faults. Each rule refuses an object in which a condition holds.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{NETWORK_TYPES, OTHER_TYPES};
use crate::rules::{
    DURATION, LabelSyntax, VALIDATIONS, empty, forbidden, invalid, invalid_field, list, readable, required,
    selector_of, with,
};
pub(super) use crate::rules::{of_label, of_range, of_subdomain};
use base::sort::SliceOrder;

/// The most requirements of a selector, and the most values of a requirement.
const MAX_REQUIREMENTS: usize = 64;
/// The types of faults that can affect a component.
const COMPONENT: &str = "self.type in ['ClockSkew', 'Crash', 'Disk', 'Pause']";

/// Returns all types of faults, in order.
pub(super) fn all_types() -> Vec<&'static str> {
    let mut all = [NETWORK_TYPES, OTHER_TYPES].concat();
    all.order();
    all
}

/// Adds the rules of a spec.
pub(super) fn of_spec(schema: &mut Schema) {
    let mut rules = immutable(schema);
    rules.extend(of_network());
    rules.extend(of_parameters());
    rules.extend(of_times());
    rules.extend(of_target_fields());
    rules.extend(of_targets());
    rules.extend(of_components());
    schema.insert(VALIDATIONS.into(), rules.into());
}

/// The spec is immutable, except that defaults may be written out.
fn immutable(schema: &Schema) -> Vec<Value> {
    const WITH_DEFAULTS: [&str; 2] = ["direction", "refuse"];
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields = properties.into_iter().flat_map(serde_json::Map::keys);
    let fields = fields.filter(|field| !WITH_DEFAULTS.contains(&field.as_str()));
    let is_same = |field: &str| {
        format!(
            "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        )
    };
    let direction = |of: &str| format!("(has({of}.direction) ? {of}.direction : 'Both')");
    let refusal =
        |of: &str| format!("(has({of}.refuse) && has({of}.refuse.with) ? {of}.refuse.with : 'Reset')");
    let mut same: Vec<String> = vec![
        format!("{} == {}", direction("self"), direction("oldSelf")),
        format!("{} == {}", refusal("self"), refusal("oldSelf")),
    ];
    same.extend(fields.map(|field| is_same(field)));
    let same: Vec<String> = same.iter().map(|same| format!("({same})")).collect();
    vec![json!({"rule": same.join(" && "), "message": "field is immutable", "reason": "FieldValueForbidden"})]
}

/// Sides belong to faults of the network, and a target to the others.
fn of_network() -> Vec<Value> {
    let (network, other) = (list(NETWORK_TYPES), list(OTHER_TYPES));
    let mut rules = vec![
        forbidden(
            ".target",
            &format!("self.type in {network} && has(self.target)"),
            "may not be set for network faults",
        ),
        required(
            ".from",
            &format!("self.type in {network} && !has(self.from) && !has(self.to)"),
            "must specify `from`, `to` or both",
        ),
    ];
    for field in ["from", "to", "direction"] {
        let condition = format!("self.type in {other} && has(self.{field})");
        rules.push(forbidden(&format!(".{field}"), &condition, "may only be set for network faults"));
    }
    rules
}

/// Parameters belong to one type each, which requires them.
fn of_parameters() -> Vec<Value> {
    let mut rules = Vec::new();
    for (type_, field) in [
        ("Latency", "latency"),
        ("Loss", "loss"),
        ("Rate", "rate"),
        ("Refuse", "refuse"),
        ("Disk", "disk"),
        ("ClockSkew", "skew"),
        ("ImagePull", "image"),
    ] {
        let (path, has) = (format!(".{field}"), format!("has(self.{field})"));
        let message = format!("may only be set if `type` is {type_}");
        rules.push(forbidden(&path, &format!("{has} && self.type != '{type_}'"), &message));
        if type_ != "Refuse" {
            let message = format!("must be set if `type` is {type_}");
            rules.push(required(&path, &format!("!{has} && self.type == '{type_}'"), &message));
        }
    }
    rules
}

/// A fault that happens once has no duration; one in which the store refuses writes has a limited one.
fn of_times() -> Vec<Value> {
    let refusing = "self.type == 'Disk' && has(self.disk) && self.disk.failure != 'Slow' && has(self.target) \
                    && has(self.target.component) && self.target.component == 'store'";
    vec![
        forbidden(
            ".duration",
            "self.type == 'OutOfMemory' && has(self.duration)",
            "may not be set if `type` is OutOfMemory: the fault happens once",
        ),
        required(
            ".duration",
            &format!("{refusing} && !has(self.duration)"),
            "must be set if the store refuses writes: it would also refuse to delete the fault",
        ),
        invalid_field(
            ".duration",
            &format!(
                "{refusing} && has(self.duration) && self.duration.matches('^{DURATION}$') \
                 && duration(self.duration) > duration('1h')"
            ),
            "must be at most 1h if the store refuses writes",
        ),
    ]
}

/// Each type allows some fields of the target.
fn of_target_fields() -> Vec<Value> {
    let may_not = |field: &str, condition: &str| {
        let condition = format!(
            "self.type in {} && has(self.target) && has(self.target.{field}) && {condition}",
            list(OTHER_TYPES)
        );
        let message = "may not be set with this `type`";
        let expression = "'may not be set if `type` is ' + self.type";
        with(
            forbidden(&format!(".target.{field}"), &condition, message),
            &[("messageExpression", expression)],
        )
    };
    let mut rules = vec![may_not("component", &format!("!({COMPONENT})"))];
    for field in ["node", "nodeSelector"] {
        rules.push(may_not(
            field,
            &format!(
                "!({COMPONENT}) && (has(self.target.component) || !(self.type in ['ImagePull', 'PowerOff']))"
            ),
        ));
        rules.push(forbidden(
            &format!(".target.{field}"),
            &format!(
                "{COMPONENT} && has(self.target) && has(self.target.{field}) && (has(self.target.component) \
                 ? self.target.component != 'kubelet' : self.type in ['Crash', 'Pause'])"
            ),
            "may only be set with the component kubelet, or without a component if `type` is Disk or ClockSkew",
        ));
    }
    for (field, types) in [
        ("pod", ["OutOfMemory", "VolumeFull"].as_slice()),
        ("podSelector", &["OutOfMemory"]),
        ("namespace", &["OutOfMemory", "VolumeFull"]),
        ("container", &["OutOfMemory"]),
        ("claim", &["VolumeFull"]),
        ("volume", &["VolumeFull"]),
        ("webhook", &["Webhook"]),
    ] {
        rules.push(may_not(field, &format!("!(self.type in {})", list(types))));
    }
    rules
}

/// Each type needs one target.
fn of_targets() -> Vec<Value> {
    let lacks = |fields: &str| format!("!(has(self.target) && ({fields}))");
    let needs = |types: &str, fields: &str, message: &str| {
        required(".target", &format!("self.type in [{types}] && {}", lacks(fields)), message)
    };
    let nodes = "has(self.target.component) || has(self.target.node) || has(self.target.nodeSelector)";
    let both = |name: &str, selector: &str, condition: &str| {
        let condition = format!("{condition} && has(self.target.{name}) && has(self.target.{selector})");
        forbidden(&format!(".target.{selector}"), &condition, "may not be set with the name")
    };
    let mut rules = vec![
        needs("'Crash', 'Pause'", "has(self.target.component)", "must specify a component"),
        needs("'PowerOff'", nodes, "must specify node or nodeSelector"),
        needs("'Disk'", nodes, "must specify node, nodeSelector, or store as the component"),
        needs("'ClockSkew'", nodes, "must specify node, nodeSelector or a component"),
        needs(
            "'OutOfMemory'",
            "has(self.target.pod) || has(self.target.podSelector)",
            "must specify pod or podSelector",
        ),
        needs(
            "'VolumeFull'",
            "has(self.target.claim) || has(self.target.pod) && has(self.target.volume)",
            "must specify claim, or pod and volume",
        ),
        needs("'Webhook'", "has(self.target.webhook)", "must specify webhook"),
        required(
            ".target",
            &format!(
                "{COMPONENT} && has(self.target) && has(self.target.component) && self.target.component == 'kubelet' \
                 && !has(self.target.node) && !has(self.target.nodeSelector)"
            ),
            "must specify node or nodeSelector for the kubelet",
        ),
        both(
            "node",
            "nodeSelector",
            &format!(
                "has(self.target) && (has(self.target.component) ? {COMPONENT} && self.target.component == 'kubelet' \
                 : self.type in ['ClockSkew', 'Disk', 'ImagePull', 'PowerOff'])"
            ),
        ),
        both("pod", "podSelector", "has(self.target) && self.type == 'OutOfMemory'"),
    ];
    for field in ["pod", "volume"] {
        let condition = format!(
            "self.type == 'VolumeFull' && has(self.target) && has(self.target.claim) && has(self.target.{field})"
        );
        rules.push(forbidden(&format!(".target.{field}"), &condition, "may not be set with `claim`"));
    }
    rules
}

/// Some types allow only some components.
fn of_components() -> Vec<Value> {
    let has = "has(self.target) && has(self.target.component)";
    let rule = |condition: &str, message: &str| {
        invalid_field(".target.component", &format!("{has} && {condition}"), message)
    };
    vec![
        rule(
            "self.type == 'Crash' && self.target.component == 'store'",
            "the store is part of the control plane and cannot crash alone",
        ),
        rule("self.type == 'ClockSkew' && self.target.component == 'store'", "the store uses no clock"),
        rule(
            "self.type == 'ClockSkew' && !(self.target.component in ['controllers', 'kubelet', 'scheduler', 'store'])",
            "all controllers share one clock: specify controllers",
        ),
        rule(
            "self.type == 'Disk' && self.target.component != 'store'",
            "must be store if `type` is Disk; for a kubelet's disk, specify its node",
        ),
    ]
}

/// Adds the rules of one side of a network fault.
pub(super) fn of_peer(schema: &mut Schema) {
    let ways = "[has(self.node), has(self.nodeSelector), has(self.pod), has(self.podSelector) \
                || has(self.namespaceSelector), has(self.cidr)].filter(way, way).size()";
    let message = "must specify exactly one of node, nodeSelector, pod, podSelector with or without namespaceSelector, cidr";
    let because = |condition: String, reason: &str| with(invalid(&condition, message), &[("reason", reason)]);
    schema.insert(
        VALIDATIONS.into(),
        json!([
            because(format!("{ways} == 0"), "FieldValueRequired"),
            because(format!("{ways} > 1"), "FieldValueForbidden"),
            forbidden(
                ".namespace",
                "has(self.namespace) && !has(self.pod) && !(has(self.podSelector) && !has(self.namespaceSelector))",
                "may only be set with pod, or with podSelector and no namespaceSelector",
            ),
        ]),
    );
}

/// Adds the rules of a disk's failure.
pub(super) fn of_disk(schema: &mut Schema) {
    schema.insert(
        VALIDATIONS.into(),
        json!([
            required(
                ".delay",
                "self.failure == 'Slow' && !has(self.delay)",
                "must be set if `failure` is Slow"
            ),
            forbidden(
                ".delay",
                "self.failure in ['Failing', 'Full'] && has(self.delay)",
                "may only be set if `failure` is Slow",
            ),
        ]),
    );
}

/// Adds the rules of an effect on image pulls.
pub(super) fn of_image(schema: &mut Schema) {
    let rule = invalid(
        "!has(self.delay) && !(has(self.failing) && self.failing)",
        "must specify delay, failing or both",
    );
    schema.insert(VALIDATIONS.into(), json!([with(rule, &[("reason", "FieldValueRequired")])]));
}

/// Returns the rules of a range of addresses.
pub(super) fn of_cidr() -> Value {
    json!([invalid("!isCIDR(self)", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")])
}

/// Returns the rules of a fault's duration.
pub(super) fn of_duration() -> Value {
    json!([
        invalid(&format!("!self.matches('^{DURATION}$')"), "must be a duration such as 30s or 1h30m"),
        invalid(&readable("duration(self) == duration('0s')"), "must be greater than 0"),
    ])
}

/// Returns the rules of the delay of packets.
pub(super) fn of_packet_delay() -> Value {
    json!([
        empty(),
        invalid(&format!("self != '' && !self.matches('^{DURATION}$')"), "must be a duration such as 50ms"),
        invalid(&readable("duration(self) > duration('10s')"), "must be at most 10s"),
    ])
}

/// Returns the rules of the delay of writes or image pulls.
pub(super) fn of_delay(longest: &str) -> Value {
    json!([
        invalid(&format!("!self.matches('^{DURATION}$')"), "must be a duration such as 200ms"),
        invalid(&readable("duration(self) == duration('0s')"), "must be greater than 0"),
        invalid(
            &readable(&format!("duration(self) > duration('{longest}')")),
            &format!("must be at most {longest}")
        ),
    ])
}

/// Returns the rules of the error of a clock.
pub(super) fn of_skew() -> Value {
    let is_readable = format!("self.matches('^[-+]?{DURATION}$')");
    let year = "duration(self) > duration('8760h') || duration(self) < duration('-8760h')";
    json!([
        empty(),
        invalid(&format!("self != '' && !{is_readable}"), "must be a duration such as 5m or -1h30m"),
        invalid(&format!("{is_readable} && duration(self) == duration('0s')"), "must not be 0"),
        invalid(&format!("{is_readable} && ({year})"), "must be between -8760h and 8760h (one year)"),
    ])
}

/// Returns the rules of a pattern of images.
pub(super) fn of_pattern() -> Value {
    json!([empty()])
}

/// Returns the schema of a label selector.
pub(super) fn selector(_: &mut SchemaGenerator) -> Schema {
    selector_of(MAX_REQUIREMENTS, LabelSyntax::Rules)
}
