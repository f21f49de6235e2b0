//! Observes a scenario: evaluates its checks on the current objects, and finds the first action of a client outside the
//! control plane.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::objects::{is_created_by, key_of, kind_of, objects, variables_of};
use api::Api;
use apimachinery::certificates::described;
use apimachinery::expression::{Expression, ResultType};
use base::sort::CollectMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use extension::fault::Fault;
use extension::node_fence::NodeFence;
use extension::scenario::{Scenario, ScenarioCheck, ScenarioObject, ScenarioSpec};
use object::{Key, Kind, Object, TypedKind};

/// Field managers of the control plane; names that begin with `podium-` belong to it, too.
const CONTROL_PLANE: &[&str] = &["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"];
/// The maximum size of a certificate chain read from one Secret, in bytes.
const LONGEST_CHAIN: usize = 256 * 1024;

/// The compiled expressions of a scenario. An invalid one returns its error when it is evaluated.
#[derive(Debug)]
pub(super) struct Expressions {
    ready: Vec<Result<Expression, String>>,
    check: Vec<Result<Expression, String>>,
    variables: Vec<Result<Expression, String>>,
}

impl Expressions {
    pub(super) fn of(spec: &ScenarioSpec) -> Self {
        let compile = |checks: &[ScenarioCheck]| {
            let one = |check: &ScenarioCheck| {
                let more = check.with.keys().map(String::as_str);
                let known = ["object", "objects", "chosen", "certificates"].into_iter().chain(more);
                Expression::compile(&check.holds, &known.collect::<Vec<_>>(), ResultType::Bool)
            };
            checks.iter().map(one).collect()
        };
        let variables = spec.variables.iter();
        let variables = variables
            .map(|variable| Expression::compile(&variable.value, &["object", "objects"], ResultType::String));
        Self { ready: compile(&spec.ready), check: compile(&spec.check), variables: variables.collect() }
    }

    /// Returns the first error, with the field of its expression.
    pub(super) fn error(&self) -> Option<String> {
        let lists = [
            ("ready", "holds", &self.ready),
            ("check", "holds", &self.check),
            ("variables", "value", &self.variables),
        ];
        lists.into_iter().find_map(|(list, field, expressions)| {
            let mut errors = expressions.iter().map(|expression| expression.as_ref().err()).enumerate();
            let (index, error) = errors.find_map(|(index, error)| Some((index, error?)))?;
            Some(format!("spec.{list}[{index}].{field}: {error}"))
        })
    }

    /// The expressions of the checks that count in the current phase.
    fn of_phase(&self, scenario: &Scenario) -> &[Result<Expression, String>] {
        match scenario.phase() {
            extension::scenario::ScenarioPhase::Preparing => &self.ready,
            _ => &self.check,
        }
    }
}

/// Evaluates `checks`, which are those of the scenario's current phase.
pub(super) fn evaluate_checks(
    api: &Api,
    scenario: &Scenario,
    checks: &[ScenarioCheck],
    expressions: &Expressions,
) -> Vec<Result<bool, String>> {
    let variables = &variables_of(scenario);
    let chosen = variables.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    let chosen = Value::Object(chosen.collect_map());
    let now = api.clock().now();
    let each = checks.iter().zip(expressions.of_phase(scenario));
    each.map(|(check, expression)| {
        let expression = expression.as_ref().map_err(Clone::clone)?;
        let subject = Subject::of(api, &check.object, variables)?;
        let mut more = Vec::new();
        for (name, reference) in &check.with {
            more.push((name.as_str(), Subject::of(api, reference, variables)?.alone(reference)));
        }
        let mut values = vec![
            ("object", &subject.object),
            ("objects", &subject.objects),
            ("chosen", &chosen),
            ("certificates", &subject.certificates),
        ];
        values.extend(more.iter().map(|(name, value)| (*name, value)));
        expression.holds(&values, now)
    })
    .collect()
}

/// Evaluates a scenario's variables at its start; returns each with its text. The error names the variable.
pub(super) fn evaluate_variables(
    api: &Api,
    spec: &ScenarioSpec,
    expressions: &Expressions,
) -> Result<Vec<(String, String)>, String> {
    let each = spec.variables.iter().zip(&expressions.variables);
    each.map(|(variable, expression)| {
        let name = &variable.name;
        let of = |reason: String| format!("variable {name}: {reason}");
        let expression = expression.as_ref().map_err(|why| of(why.clone()))?;
        let subject = Subject::of(api, &variable.object, &BTreeMap::new()).map_err(of)?;
        let values = [("object", &subject.object), ("objects", &subject.objects)];
        expression.text(&values, api.clock().now()).map(|text| (name.clone(), text)).map_err(of)
    })
    .collect()
}

/// The values for an expression's variables `object`, `objects` and `certificates`.
struct Subject {
    object: Value,
    objects: Value,
    certificates: Value,
}

impl Subject {
    fn of(
        api: &Api,
        reference: &ScenarioObject,
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let found = objects(api, reference, variables)?;
        let objects: Vec<Value> = found.iter().map(|object| object.content()).collect();
        let object = reference.name.as_ref().and_then(|_| objects.first().cloned()).unwrap_or_default();
        let certificates = if reference.kind == "Secret" {
            objects.iter().flat_map(certificates).collect()
        } else {
            Vec::new()
        };
        Ok(Self { object, objects: Value::Array(objects), certificates: Value::Array(certificates) })
    }

    /// The value of a reference alone: the object if it has a name, else the list of objects.
    fn alone(self, reference: &ScenarioObject) -> Value {
        if reference.name.is_some() { self.object } else { self.objects }
    }
}

/// Describes the certificates of a Secret of the type `kubernetes.io/tls`.
fn certificates(secret: &Value) -> Vec<Value> {
    let text = secret.pointer("/data/tls.crt").and_then(Value::as_str).unwrap_or_default();
    if text.len() > LONGEST_CHAIN {
        return Vec::new();
    }
    // Data that is no base64 contains no certificates.
    STANDARD.decode(text).map_or_else(|_| Vec::new(), |pem| described(&pem))
}

/// The first action of a client outside the control plane on the scenario's objects since the time `since`.
pub(super) fn first_action(
    api: &Api,
    scenario: &Scenario,
    uid: &str,
    since: Timestamp,
) -> Option<(Timestamp, String)> {
    let (spec, variables) = (&scenario.spec, &variables_of(scenario));
    let references =
        spec.check.iter().flat_map(|check| std::iter::once(&check.object).chain(check.with.values()));
    let mut concerned: Vec<_> =
        references.filter_map(|reference| objects(api, reference, variables).ok()).flatten().collect();
    concerned.extend(spec.setup.iter().filter_map(|manifest| existing_object(api, manifest)));
    concerned.extend(api.list(Kind::Node, None).objects);
    let changed = concerned.iter().filter_map(|object| changed(object, since)).min_by_key(|(at, _)| *at);
    let fences = api.list_as::<NodeFence>(None);
    let fenced = fences.iter().filter_map(|fence| {
        let at = fence.metadata.creation_timestamp.as_ref()?.0;
        (at >= since).then(|| (at, format!("node {} was fenced", fence.name())))
    });
    let now = api.clock().now();
    let missing = missing_object(api, scenario, uid).map(|what| (now, what));
    changed.into_iter().chain(fenced).chain(missing).min_by_key(|(at, _)| *at)
}

/// The object of a manifest of a scenario, if it exists.
fn existing_object(api: &Api, manifest: &Value) -> Option<std::sync::Arc<Object>> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let kind = kind_of(text("/apiVersion")?, text("/kind")?).ok()?;
    api.get(kind, &key_of(kind, text("/metadata/namespace"), text("/metadata/name")?)).ok()
}

/// The time and the author of the first change of an object by a client outside the control plane.
fn changed(object: &Object, since: Timestamp) -> Option<(Timestamp, String)> {
    let entries = object.managed_fields().entries().iter();
    let others = entries.filter(|entry| {
        let name = entry.manager().name.as_str();
        !CONTROL_PLANE.contains(&name) && !name.starts_with("podium-")
    });
    let times = others.filter_map(|entry| {
        let at = Timestamp::from_second(entry.time()?).ok()?;
        let by = &entry.manager().name;
        (at >= since)
            .then(|| (at, format!("{by} changed {} {}", object.kind().info().singular, object.name())))
    });
    times.min_by_key(|(at, _)| *at)
}

/// An object that a scenario has created and not deleted itself, but that no longer exists.
fn missing_object(api: &Api, scenario: &Scenario, uid: &str) -> Option<String> {
    let (spec, status) = (&scenario.spec, scenario.status.as_ref()?);
    let done = usize::try_from(status.steps_done).unwrap_or(0).min(spec.steps.len());
    let healed = spec.steps[..done].iter().filter_map(|step| step.heal.as_deref()).collect::<Vec<_>>();
    let faults = spec.steps[..done].iter().filter_map(|step| step.fault.as_ref());
    let ended = faults.filter(|fault| !healed.contains(&fault.name.as_str())).find(|fault| {
        let found = api.get(Fault::kind(), &Key::new("", fault_name(scenario, &fault.name)));
        !found.is_ok_and(|found| is_created_by(&found, uid))
    });
    if let Some(fault) = ended {
        return Some(format!("fault {} was ended", fault.name));
    }
    let taken: Vec<&str> =
        spec.steps.iter().flat_map(|step| &step.delete).map(|object| object.kind.as_str()).collect();
    let kinds = spec
        .setup
        .iter()
        .filter(|manifest| manifest["kind"].as_str().is_some_and(|kind| !taken.contains(&kind)));
    let lost = kinds.into_iter().find(|manifest| existing_object(api, manifest).is_none())?;
    Some(format!("{} {} was deleted", lost["kind"].as_str()?, lost["metadata"]["name"].as_str()?))
}

/// The name of the object of a fault of a scenario.
pub(super) fn fault_name(scenario: &Scenario, fault: &str) -> String {
    format!("{}-{fault}", scenario.metadata.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expression_that_cannot_be_read_is_reported_with_its_field_fault_2() {
        let check =
            |holds: &str| json!({"name": "c", "object": {"apiVersion": "v1", "kind": "Pod"}, "holds": holds});
        for (holds, value, expected) in [
            ("objec.x", "'a'", Some(("spec.check[1].holds: ", "undeclared reference to 'objec'"))),
            ("object.", "'a'", Some(("spec.check[1].holds: ", "compilation failed"))),
            ("'a'", "'a'", Some(("spec.check[1].holds: ", "must evaluate to a bool"))),
            ("true", "1", Some(("spec.variables[0].value: ", "must evaluate to a string"))),
            ("object != null", "object.metadata.name", None),
        ] {
            let spec = json!({"title": "t", "check": [check("true"), check(holds)],
                "variables": [{"name": "v", "object": {"apiVersion": "v1", "kind": "Pod"}, "value": value}]});
            let error = Expressions::of(&serde_json::from_value(spec).unwrap()).error();
            match (expected, &error) {
                (None, None) => {}
                (Some((field, why)), Some(error)) if error.starts_with(field) && error.contains(why) => {}
                _ => panic!("{holds} {value}: {error:?}"),
            }
        }
    }
}
