//! The schemas of one group and version, with Kubernetes' additions to plain JSON schemas.

use serde_json::{Map, Value, json};

use super::reference::REFERENCE;
use super::removed_versions::RemovedVersion;
use super::{Version, custom, podium_schemas};
use crate::discovery::{Resource, ServedGroupVersion};
use apimachinery::schema::{ListType, MapType, PatchStrategy, graph, merge_rule};
use apimachinery::schema::{complete, roots};

/// Returns the schema of a kind; `None` for kinds without one (the options of streams).
pub(super) fn name_of(served: &ServedGroupVersion, group: &str, version: &str, kind: &str) -> Option<String> {
    let is_it = |r: &Resource| r.schema.is_some() && (r.group, r.version, r.kind) == (group, version, kind);
    if served.resources.iter().any(is_it) {
        return Some(custom_name(group, version, kind));
    }
    let stored = roots::root_of(group, version, kind).map(roots::Root::schema);
    stored
        .or_else(|| podium_schemas::schema(group, version, kind).map(|(name, _)| name))
        .or_else(|| RemovedVersion::find(group, version, kind).map(RemovedVersion::name))
}

/// Returns `com.example.v1.Widget`.
fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let group: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", group.join("."))
}

/// Returns the schemas that the paths of a group and version refer to, and all that they refer to in turn.
pub(super) fn of(served: &ServedGroupVersion, version: Version) -> Map<String, Value> {
    let find_old = |r: &Resource| RemovedVersion::find(r.group, r.version, r.kind);
    let old: Vec<RemovedVersion> = served.resources.iter().filter_map(find_old).collect();
    let parts = |group: &str, version: &str, kind: &str| {
        served.resources.iter().any(|r| {
            (r.group, r.version, r.kind) == (group, version, kind)
                || r.parts.iter().any(|p| (p.group, p.version, p.kind) == (group, version, kind))
        }) || old.iter().any(|old| old.stored() == (group, version, kind))
    };
    let mut schemas = complete::schemas(roots::all().filter(|r| parts(r.group, r.version, r.kind)));
    let all = served.resources.iter().flat_map(|r| {
        let parts = r.parts.iter().map(|part| (part.group, part.version, part.kind));
        std::iter::once((r.group, r.version, r.kind)).chain(parts)
    });
    let own_schemas = all.filter_map(|(group, version, kind)| podium_schemas::schema(group, version, kind));
    schemas.extend(own_schemas);
    for (name, schema) in &mut schemas {
        complete(name, schema);
        require(name, schema);
    }
    for old in old {
        let schema = old.schema(&schemas);
        schemas.insert(old.name(), schema);
    }
    for resource in &served.resources {
        if let Some(schema) = &resource.schema {
            let name = custom_name(resource.group, resource.version, resource.kind);
            schemas.insert(name, custom::schema(schema.json(), version));
        }
        if let Some(name) = name_of(served, resource.group, resource.version, resource.kind) {
            let gvk =
                |kind: &str| json!([{"group": resource.group, "kind": kind, "version": resource.version}]);
            if let Some(schema) = schemas.get_mut(&name) {
                schema["x-kubernetes-group-version-kind"] = gvk(resource.kind);
            }
            if resource.verbs.contains(&"list") {
                let mut list = list_schema(&name, resource.kind);
                list["x-kubernetes-group-version-kind"] = gvk(&resource.list_kind);
                schemas.insert(format!("{name}List"), list);
            }
        }
        for part in &resource.parts {
            if let Some(name) = name_of(served, part.group, part.version, part.kind)
                && let Some(schema) = schemas.get_mut(&name)
            {
                let gvk = json!([{"group": part.group, "kind": part.kind, "version": part.version}]);
                schema["x-kubernetes-group-version-kind"] = gvk;
            }
        }
    }
    let patch = "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.";
    schemas.insert(PATCH.into(), json!({"type": "object", "description": patch}));
    schemas.insert(RAW_EXTENSION.into(), json!({"type": "object", "description": "An object of any kind."}));
    schemas.insert(
        WATCH_EVENT.into(),
        json!({"type": "object", "description": "Event represents a single event to a watched resource.",
            "required": ["type", "object"], "properties": {
                "type": {"type": "string", "default": ""},
                "object": {"allOf": [{"$ref": format!("{REFERENCE}{RAW_EXTENSION}")}]}}}),
    );
    schemas
}

/// The schema of a patch, which permits anything.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
/// The schema of one event of a watch.
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

fn list_schema(item: &str, kind: &str) -> Value {
    json!({
        "description": format!("{kind}List is a list of {kind} objects."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "APIVersion defines the versioned schema of this representation of an object."},
            "items": {"type": "array", "items": {"allOf": [{"$ref": format!("{REFERENCE}{item}")}], "default": {}}},
            "kind": {"type": "string", "description": "Kind is a string value representing the REST resource this object represents."},
            "metadata": {"allOf": [{"$ref": format!("{REFERENCE}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")}], "default": {}},
        },
    })
}

/// Adds to one schema the merge keys and defaults of its fields.
fn complete(name: &str, schema: &mut Value) {
    match name.rsplit('.').next() {
        Some("IntOrString") => {
            replace_type(
                schema,
                &json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            );
        }
        // Values of several types: Kubernetes' documents leave the type open.
        Some(
            "JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray",
        ) => {
            *schema = json!({"description": schema["description"]});
        }
        Some("Quantity") => replace_type(schema, &json!({"oneOf": [{"type": "string"}, {"type": "number"}]})),
        _ => {}
    }
    let graph = graph();
    if graph.named(name).is_some_and(|id| graph.get(id).map == MapType::Atomic) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (field, property) in properties {
        let rule = merge_rule(name, field);
        if rule.strategy != PatchStrategy::Unset {
            property["x-kubernetes-patch-strategy"] = rule.strategy.text().into();
        }
        if !rule.merge_key.is_empty() {
            property["x-kubernetes-patch-merge-key"] = rule.merge_key.into();
        }
        match rule.list {
            Some(ListType::Atomic) => property["x-kubernetes-list-type"] = "atomic".into(),
            Some(ListType::Set) => property["x-kubernetes-list-type"] = "set".into(),
            Some(ListType::Map(keys)) => {
                property["x-kubernetes-list-type"] = "map".into();
                property["x-kubernetes-list-map-keys"] = json!(keys);
            }
            None => {}
        }
        match rule.map {
            Some(MapType::Atomic) => property["x-kubernetes-map-type"] = "atomic".into(),
            Some(MapType::Granular) => property["x-kubernetes-map-type"] = "granular".into(),
            None => {}
        }
        // Without this default, an apply of a port without a protocol would not find the port's list key.
        if field == "protocol" && (name.ends_with(".ContainerPort") || name.ends_with(".ServicePort")) {
            property["default"] = "TCP".into();
        }
    }
}

/// Types whose `name` may be omitted in Kubernetes, and is empty then.
const NAMES_BY_DEFAULT: [&str; 8] = [
    "ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource",
    "LocalObjectReference", "SecretEnvSource", "SecretKeySelector", "SecretProjection",
];

/// The one kind whose metadata Kubernetes requires.
const CORE_EVENT: &str = "io.k8s.api.core.v1.Event";

/// Corrects the required fields. The library's types list every field that is always present; clients may
/// omit many of them, and kubectl up to 1.24 refuses a manifest by this list.
fn require(name: &str, schema: &mut Value) {
    let short = name.rsplit('.').next().unwrap_or_default();
    let optional = |field: &str| {
        (field == "metadata" && name != CORE_EVENT) || (field == "name" && NAMES_BY_DEFAULT.contains(&short))
    };
    let Some(entries) = schema.as_object_mut() else { return };
    if let Some(Value::Array(required)) = entries.get_mut("required") {
        required.retain(|field| !field.as_str().is_some_and(optional));
        if required.is_empty() {
            entries.remove("required");
        }
    }
    if NAMES_BY_DEFAULT.contains(&short)
        && let Some(name) = entries.get_mut("properties").and_then(|properties| properties.get_mut("name"))
    {
        name["default"] = "".into();
    }
    if name == "io.k8s.api.events.v1.Event" {
        entries.insert("required".into(), json!(["eventTime"]));
    }
}

fn replace_type(schema: &mut Value, with: &Value) {
    let Some(entries) = schema.as_object_mut() else { return };
    entries.remove("x-kubernetes-int-or-string");
    for (key, value) in with.as_object().into_iter().flatten() {
        entries.insert(key.clone(), value.clone());
    }
}
