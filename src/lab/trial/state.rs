//! The state of a cluster at rest, without fields that differ between any two runs. Pure except for reading it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use api::Api;
use base::count::counted;
use object::{Kind, Object};

/// Kinds that are not compared: they record how the cluster reached its state, or belong to the control plane.
const SKIPPED_KINDS: &[&str] = &[
    "Event", "Lease", "Node", "CSINode", "Endpoints", "EndpointSlice", "ControllerRevision", "FlowSchema",
    "PriorityLevelConfiguration", "APIService", "IPAddress",
];
/// Kinds compared only by their number per owner, because their names and addresses are random.
const COUNTED: &[&str] = &["Pod", "ReplicaSet"];
/// Metadata that differs in every run.
const OF_THE_RUN: &[&str] = &[
    "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "managedFields",
    "selfLink",
];
/// Fields of Services that the API server allocates.
const DEALT_OUT: &[&str] = &["clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"];
/// The maximum number of a value's characters that a report shows.
const MAX_VALUE_CHARS: usize = 120;

/// Identifies an object: kind, namespace, name; objects with a generated name share its prefix as their identity.
type ObjectKey = String;

/// The contents of all objects, by their identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State(BTreeMap<ObjectKey, Vec<Value>>);

/// The differences between two undisturbed runs at one moment. They are ignored in comparisons, because the controller
/// produces them at random.
#[derive(Clone, Debug, Default)]
pub(super) struct Mask {
    /// Fields that differ: the object and the path.
    paths: BTreeSet<(ObjectKey, String)>,
    /// Identities with a different number of objects.
    objects: BTreeSet<ObjectKey>,
}

impl State {
    /// The current objects, except those that existed before.
    pub(super) fn of(api: &Api, before: &Self) -> Self {
        let mut all = Self::default();
        for kind in Kind::all().filter(|kind| !SKIPPED_KINDS.contains(&kind.info().name)) {
            for object in &api.list(kind, None).objects {
                let (which, value) = described(kind, object);
                if !before.0.contains_key(&which) {
                    all.0.entry(which).or_default().push(value);
                }
            }
        }
        for same in all.0.values_mut() {
            same.sort_by_cached_key(Value::to_string);
        }
        all
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Describes the differences of another state from this one, one per line.
    pub(super) fn differences(&self, other: &Self, mask: &Mask) -> Vec<String> {
        let names: BTreeSet<&ObjectKey> = self.0.keys().chain(other.0.keys()).collect();
        let mut lines = Vec::new();
        for which in names.into_iter().filter(|which| !mask.objects.contains(*which)) {
            let none = Vec::new();
            let [expected, found] = [self, other].map(|state| state.0.get(which).unwrap_or(&none));
            match (expected.len(), found.len()) {
                (0, 1) => lines.push(format!("{which} exists, but should not")),
                (1, 0) => lines.push(format!("{which} is missing")),
                (expected, found) if expected != found => {
                    lines.push(format!("{which}: {}, expected {expected}", counted(found, "object")));
                }
                _ => {
                    for (expected, found) in expected.iter().zip(found) {
                        let mut paths = Vec::new();
                        compare(expected, found, "", &mut paths);
                        paths.retain(|(path, ..)| !mask.paths.contains(&(which.clone(), path.clone())));
                        let line = |(path, is, should): (String, String, String)| {
                            format!("{which}: {path} is {is}, expected {should}")
                        };
                        lines.extend(paths.into_iter().map(line));
                    }
                }
            }
        }
        lines
    }
}

impl Mask {
    /// Returns the differences between two states.
    pub(super) fn of(one: &State, other: &State) -> Self {
        let mut mask = Self::default();
        let names: BTreeSet<&ObjectKey> = one.0.keys().chain(other.0.keys()).collect();
        for which in names {
            match (one.0.get(which), other.0.get(which)) {
                (Some(one), Some(other)) if one.len() == other.len() => {
                    for (one, other) in one.iter().zip(other) {
                        let mut paths = Vec::new();
                        compare(one, other, "", &mut paths);
                        mask.paths.extend(paths.into_iter().map(|(path, ..)| (which.clone(), path)));
                    }
                }
                _ => drop(mask.objects.insert(which.clone())),
            }
        }
        mask
    }

    /// Returns true if one state has objects that the other lacks.
    pub(super) fn is_of_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Lists the parts that are not compared, for the report.
    pub(super) fn uncompared(&self) -> impl Iterator<Item = String> {
        let objects = self.objects.iter().cloned();
        objects.chain(self.paths.iter().map(|(which, path)| format!("{which} {path}")))
    }
}

fn described(kind: Kind, object: &Object) -> (ObjectKey, Value) {
    let info = kind.info();
    let meta = object.meta();
    let generated = meta.generate_name.as_deref().filter(|own| object.name().starts_with(*own));
    let name = generated.map_or_else(|| object.name().to_owned(), |own| format!("{own}*"));
    let place =
        if object.namespace().is_empty() { String::new() } else { format!("{}/", object.namespace()) };
    if COUNTED.contains(&info.name) {
        let owner = meta.owner_references.as_ref().and_then(|owners| owners.first());
        let owner =
            owner.map_or_else(|| name.clone(), |owner| format!("of {} {}", owner.kind, plain(&owner.name)));
        return (format!("{} {place}{owner}", info.name), Value::Null);
    }
    let mut value = object.to_value();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in OF_THE_RUN {
            metadata.remove(*field);
        }
        if generated.is_some() {
            metadata.remove("name");
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            owner.as_object_mut().map(|owner| owner.remove("uid"));
        }
    }
    if info.name == "Service"
        && let Some(spec) = value.get_mut("spec")
    {
        without(spec, DEALT_OUT);
    }
    untimed(&mut value);
    (format!("{} {place}{name}", info.name), value)
}

/// Returns the name of a ReplicaSet or a Job without the hash or the number at its end.
fn plain(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(plain, _)| plain)
}

/// Removes fields at every depth.
fn without(value: &mut Value, fields: &[&str]) {
    match value {
        Value::Object(object) => {
            object.retain(|name, _| !fields.contains(&name.as_str()));
            object.values_mut().for_each(|value| without(value, fields));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| without(value, fields)),
        _ => {}
    }
}

/// Removes times and observed generations.
fn untimed(value: &mut Value) {
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_ok() => "(a time)".clone_into(text),
        Value::Object(object) => {
            object.remove("observedGeneration");
            object.values_mut().for_each(untimed);
        }
        Value::Array(all) => all.iter_mut().for_each(untimed),
        _ => {}
    }
}

/// Collects the paths at which two values differ, each with the found and the expected value.
fn compare(expected: &Value, found: &Value, path: &str, into: &mut Vec<(String, String, String)>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let none = Value::Null;
            let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            for name in names {
                let of = |object: &'_ Map<String, Value>| object.get(name).cloned().unwrap_or(none.clone());
                compare(&of(expected), &of(found), &format!("{path}.{name}"), into);
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(expected, found, &format!("{path}[{number}]"), into);
            }
        }
        _ if expected == found => {}
        _ => into.push((path.to_owned(), format_value(found), format_value(expected))),
    }
}

fn format_value(value: &Value) -> String {
    if value.is_null() {
        return "not set".to_owned();
    }
    let text = value.to_string();
    if text.chars().count() <= MAX_VALUE_CHARS {
        return text;
    }
    format!("{}…", text.chars().take(MAX_VALUE_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(objects: &[(&str, Value)]) -> State {
        let mut state = State::default();
        for (which, value) in objects {
            state.0.entry((*which).to_owned()).or_default().push(value.clone());
        }
        state
    }

    #[test]
    fn states_differ_where_something_else_is_there_fault_3() {
        let expected = state(&[
            ("ConfigMap d/a", json!({"data": {"x": "1", "y": "2"}})),
            ("ConfigMap d/b", json!({"data": {}})),
            ("Pod d/of ReplicaSet web", Value::Null),
        ]);
        let found = state(&[
            ("ConfigMap d/a", json!({"data": {"x": "3", "z": "2"}})),
            ("Pod d/of ReplicaSet web", Value::Null),
            ("Pod d/of ReplicaSet web", Value::Null),
            ("Secret d/c", json!({})),
        ]);
        let lines = expected.differences(&found, &Mask::default());
        assert_eq!(
            lines,
            [
                "ConfigMap d/a: .data.x is \"3\", expected \"1\"",
                "ConfigMap d/a: .data.y is not set, expected \"2\"",
                "ConfigMap d/a: .data.z is \"2\", expected not set",
                "ConfigMap d/b is missing",
                "Pod d/of ReplicaSet web: 2 objects, expected 1",
                "Secret d/c exists, but should not",
            ]
        );
        assert!(expected.differences(&expected.clone(), &Mask::default()).is_empty());
    }

    #[test]
    fn fields_that_differ_by_chance_are_not_compared_fault_3() {
        let run = |password: &str, color: &str| {
            state(&[("Secret d/p", json!({"data": {"password": password, "color": color}}))])
        };
        let mask = Mask::of(&run("a", "red"), &run("b", "red"));
        assert!(run("a", "red").differences(&run("c", "red"), &mask).is_empty());
        assert_eq!(run("a", "red").differences(&run("c", "blue"), &mask).len(), 1);
        assert_eq!(mask.uncompared().collect::<Vec<_>>(), ["Secret d/p .data.password"]);
    }
}
