//! The CEL rules and schemas in the definition of scenarios. Each rule refuses an object in which a condition holds.
//!
//! No rule can compile the expressions of checks and variables: the controller does, before it creates anything.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::CHECK_KINDS;
use crate::rules::{
    DURATION, LabelSyntax, VALIDATIONS, forbidden, invalid, invalid_field, readable, required, selector_of,
    with,
};
pub(super) use crate::rules::{of_label, of_range};

/// The maximum number of objects of the setup.
const MAX_SETUP: usize = 64;
/// The maximum number of objects in one step, and of additional objects of one check.
pub(super) const MAX_OBJECTS: usize = 16;
/// The most requirements of a selector, and the most values of a requirement.
const MAX_REQUIREMENTS: usize = 16;
/// The fields of a spec that never change.
const SCRIPT: &[&str] = &[
    "title", "briefing", "hints", "setup", "ready", "variables", "steps", "check", "scoring", "timeLimit",
    "cleanUp", "verdict",
];
/// Words that are no names of variables in CEL.
const RESERVED_WORDS: &str = "['true', 'false', 'null', 'in', 'as', 'break', 'const', 'continue', 'else', 'for', \
                              'function', 'if', 'import', 'let', 'loop', 'package', 'namespace', 'return', 'var', \
                              'void', 'while']";

/// Adds the rules of a spec.
pub(super) fn of_spec(schema: &mut Schema) {
    let is_same = |field: &&str| {
        format!(
            "(has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field}))"
        )
    };
    let same: Vec<String> = SCRIPT.iter().map(is_same).collect();
    let limit = "(has(self.timeLimit) ? self.timeLimit : '10m')";
    let rules = json!([
        {
            "rule": same.join(" && "),
            "message": "only hintsAsked and stop can be changed",
            "reason": "FieldValueForbidden",
        },
        forbidden(
            ".hintsAsked",
            "has(oldSelf.hintsAsked) && oldSelf.hintsAsked > (has(self.hintsAsked) ? self.hintsAsked : 0)",
            "may not decrease: hints that were shown still count",
        ),
        forbidden(
            ".stop",
            "has(oldSelf.stop) && oldSelf.stop && !(has(self.stop) && self.stop)",
            "may not be unset: a scenario that was given up cannot continue",
        ),
        required(
            ".check",
            "!has(self.check) || !self.check.exists(check, check.kind == 'Repair')",
            "must have a check of kind Repair: the scenario cannot be passed without one",
        ),
        invalid_field(
            ".hintsAsked",
            "has(self.hintsAsked) && (self.hintsAsked < 0 || self.hintsAsked > (has(self.hints) ? self.hints.size() : 0))",
            "must be between 0 and the number of hints, inclusive",
        ),
        invalid_field(
            ".steps",
            &format!(
                "has(self.steps) && {limit}.matches('^{DURATION}$') && self.steps.exists(step, \
                 step.at.matches('^{DURATION}$') && duration(step.at) >= duration({limit}))"
            ),
            "each step must be before the time limit",
        ),
    ]);
    schema.insert(VALIDATIONS.into(), rules);
}

/// Returns the rules of the list of steps.
pub(super) fn of_steps() -> Value {
    json!([
        invalid(
            &format!(
                "self.exists(i, step, i > 0 && step.at.matches('^{DURATION}$') \
                 && self[i - 1].at.matches('^{DURATION}$') && duration(step.at) < duration(self[i - 1].at))"
            ),
            "a step must not be earlier than the previous step",
        ),
        invalid(
            "self.exists(i, step, has(step.heal) && !self.exists(j, other, j < i && has(other.fault) \
             && other.fault.name == step.heal))",
            "`heal` must name the fault of an earlier step",
        ),
        invalid(
            "self.exists(step, has(step.fault) && !self.exists_one(other, has(other.fault) \
             && other.fault.name == step.fault.name))",
            "each fault must have a name of its own",
        ),
    ])
}

/// Adds the rules of a step.
pub(super) fn of_step(schema: &mut Schema) {
    let ways = "[has(self.fault), has(self.heal), has(self.apply) && self.apply.size() > 0, \
                has(self.delete) && self.delete.size() > 0].filter(way, way).size()";
    let message = "must specify exactly one of fault, heal, apply, delete";
    let because = |condition: String, reason: &str| with(invalid(&condition, message), &[("reason", reason)]);
    schema.insert(
        VALIDATIONS.into(),
        json!([
            because(format!("{ways} == 0"), "FieldValueRequired"),
            because(format!("{ways} > 1"), "FieldValueForbidden"),
        ]),
    );
}

/// Adds the rules of the checks for the start, which have no kind.
pub(super) fn of_ready(schema: &mut Schema) {
    schema.insert(VALIDATIONS.into(), of_names());
    add_to_items(schema, forbidden(".kind", "has(self.kind)", "may not be set for checks in ready"));
}

/// Adds the rules of the checks during play, which have a kind.
pub(super) fn of_checks(schema: &mut Schema) {
    schema.insert(VALIDATIONS.into(), of_names());
    let Some(items) = schema.get_mut("items") else { return };
    items["properties"]["kind"]["enum"] = json!(CHECK_KINDS);
    if let Some(required) = items["required"].as_array_mut() {
        required.push("kind".into());
    }
}

/// Adds the rules of references to deleted objects.
pub(super) fn of_deleted(schema: &mut Schema) {
    let condition = "!has(self.name) && !has(self.selector)";
    add_to_items(schema, required(".name", condition, "must specify `name` or `selector`"));
}

fn add_to_items(schema: &mut Schema, rule: Value) {
    let Some(items) = schema.get_mut("items") else { return };
    match items[VALIDATIONS].as_array_mut() {
        Some(rules) => rules.push(rule),
        None => items[VALIDATIONS] = json!([rule]),
    }
}

/// Adds the rules of a reference to objects.
pub(super) fn of_object(schema: &mut Schema) {
    let rule = forbidden(".selector", "has(self.name) && has(self.selector)", "may not be set with `name`");
    schema.insert(VALIDATIONS.into(), json!([rule]));
}

/// Returns the rules of a list whose items have names.
pub(super) fn of_names() -> Value {
    let condition = "self.exists(one, !self.exists_one(other, other.name == one.name))";
    json!([invalid(condition, "each item must have a name of its own")])
}

/// Returns the rules of a text that is not blank.
pub(super) fn of_text() -> Value {
    let rule = invalid("self.trim() == ''", "must not be empty");
    json!([with(rule, &[("reason", "FieldValueRequired")])])
}

/// Returns the rules of the name of a variable.
pub(super) fn of_variable() -> Value {
    json!([invalid(&not_identifier("self"), "must be an identifier such as node")])
}

/// Returns the rules of the additional objects of a check, by variable name.
pub(super) fn of_with() -> Value {
    let reserved = "['certificates', 'chosen', 'now', 'object', 'objects']";
    let condition = format!("self.exists(name, name in {reserved} || {})", not_identifier("name"));
    let message = "each key must be an identifier other than certificates, chosen, now, object and objects";
    json!([invalid(&condition, message)])
}

fn not_identifier(name: &str) -> String {
    format!("!{name}.matches('^[A-Za-z_][A-Za-z0-9_]*$') || {name} in {RESERVED_WORDS}")
}

/// Returns the rules of a time of a scenario.
pub(super) fn of_time() -> Value {
    json!([
        invalid(&format!("!self.matches('^{DURATION}$')"), "must be a duration such as 30s or 1h30m"),
        invalid(&readable("duration(self) > duration('24h')"), "must be at most 24h0m0s"),
    ])
}

/// Returns the rules of the time limit.
pub(super) fn of_time_limit() -> Value {
    let mut rules = of_time();
    if let Some(rules) = rules.as_array_mut() {
        rules.push(invalid(&readable("duration(self) == duration('0s')"), "must be greater than 0"));
    }
    rules
}

/// Returns the schema of the objects of the setup.
pub(super) fn setup(_: &mut SchemaGenerator) -> Schema {
    manifests(MAX_SETUP)
}

/// Returns the schema of the objects that a step applies.
pub(super) fn applied(_: &mut SchemaGenerator) -> Schema {
    manifests(MAX_OBJECTS)
}

/// Returns the schema of a list of objects with a kind and a name. The API validates the rest when an object is applied.
fn manifests(most: usize) -> Schema {
    let text = |description: &str| json!({"description": description, "type": "string", "minLength": 1});
    json_schema!({
        "type": "array",
        "maxItems": most,
        "items": {
            "description": "A complete object of any kind.",
            "type": "object",
            "required": ["apiVersion", "kind", "metadata"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "apiVersion": text("apiVersion is the group and version of the object."),
                "kind": text("kind is the kind of the object."),
                "metadata": {
                    "description": "metadata is the metadata of the object.",
                    "type": "object",
                    "required": ["name"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"name": text("name is the name of the object.")},
                },
            },
        },
    })
}

/// Returns the schema of an object with any fields.
pub(super) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns the schema of a label selector.
pub(super) fn selector(_: &mut SchemaGenerator) -> Schema {
    selector_of(MAX_REQUIREMENTS, LabelSyntax::Patterns)
}
