//! The operations of one group and version: verbs, parameters, bodies, responses.

use serde_json::{Map, Value, json};

use super::reference::REFERENCE;
use super::schemas::{PATCH, WATCH_EVENT, name_of};
use crate::discovery::{Resource, ServedGroupVersion};
use base::sort::CollectMap;

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The group, version and kind of an operation.
type OperationKind<'a> = (&'a str, &'a str, &'a str);

/// A parameter of a query: name, type and description.
type Parameter = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const DRY_RUN: Parameter =
    ("dryRun", "string", "When present, indicates that modifications should not be persisted. Valid values are: All");

#[rustfmt::skip]
const WRITE_PARAMETERS: &[Parameter] = &[
    DRY_RUN,
    ("fieldManager", "string", "fieldManager is a name associated with the actor or entity that is making these changes."),
    ("fieldValidation", "string", "fieldValidation instructs the server on how to handle unknown or duplicate fields: Ignore, Warn or Strict."),
];

#[rustfmt::skip]
const DELETE_PARAMETERS: &[Parameter] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "The duration in seconds before the object should be deleted."),
    ("propagationPolicy", "string", "Whether and how garbage collection will be performed: Orphan, Background or Foreground."),
];

#[rustfmt::skip]
const LIST_PARAMETERS: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean", "allowWatchBookmarks requests watch events with type \"BOOKMARK\"."),
    ("continue", "string", "The continue option should be set when retrieving more results from the server."),
    ("fieldSelector", "string", "A selector to restrict the list of returned objects by their fields."),
    ("labelSelector", "string", "A selector to restrict the list of returned objects by their labels."),
    ("limit", "integer", "limit is a maximum number of responses to return for a list call."),
    ("resourceVersion", "string", "resourceVersion sets a constraint on what resource versions a request may be served from."),
    ("resourceVersionMatch", "string", "resourceVersionMatch determines how resourceVersion is applied to list calls."),
    ("sendInitialEvents", "boolean", "sendInitialEvents=true may be set together with watch=true."),
    ("timeoutSeconds", "integer", "Timeout for the list/watch call."),
    ("watch", "boolean", "Watch for changes to the described resources and return them as a stream."),
];

#[rustfmt::skip]
const FORCE: Parameter =
    ("force", "boolean", "Force is going to \"force\" Apply requests: it takes over fields that conflict.");

pub(super) fn of(served: &ServedGroupVersion) -> Map<String, Value> {
    let mut paths = Map::new();
    let base = format!("/{}", served.path());
    for resource in &served.resources {
        collection(&mut paths, &base, served, resource);
        single(&mut paths, &base, served, resource);
        parts(&mut paths, &base, served, resource);
    }
    paths
}

fn resource_path(base: &str, resource: &Resource) -> String {
    let within = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{base}{within}/{}", resource.plural)
}

fn collection(paths: &mut Map<String, Value>, base: &str, served: &ServedGroupVersion, resource: &Resource) {
    let about = (resource.group, resource.version, resource.kind);
    let Some(schema) = name_of(served, about.0, about.1, about.2) else { return };
    let has = |verb: &str| resource.verbs.contains(&verb);
    let list = || operation(about, "list", LIST_PARAMETERS, None, &format!("{schema}List"));
    let mut item = path_item(resource, false);
    if has("list") {
        item["get"] = list().named("list", resource, "");
    }
    if has("create") {
        let post = operation(about, "post", WRITE_PARAMETERS, Some(&body("*/*", &schema)), &schema);
        item["post"] = post.named("create", resource, "");
    }
    if has("deletecollection") {
        let delete =
            operation(about, "deletecollection", LIST_PARAMETERS, Some(&body("*/*", DELETE_OPTIONS)), STATUS);
        item["delete"] = delete.named("deleteCollection", resource, "");
    }
    paths.insert(resource_path(base, resource), item);
    if resource.namespaced && has("list") {
        let everywhere = list().called(format!("list{}{}ForAllNamespaces", owner(resource), resource.kind));
        paths.insert(format!("{base}/{}", resource.plural), json!({"get": everywhere}));
    }
    if has("watch") {
        let watch = operation(about, "watchlist", LIST_PARAMETERS, None, WATCH_EVENT);
        let mut item = path_item(resource, false);
        item["get"] = watch.named("watch", resource, "List");
        paths.insert(resource_path(&format!("{base}/watch"), resource), item);
    }
}

fn single(paths: &mut Map<String, Value>, base: &str, served: &ServedGroupVersion, resource: &Resource) {
    let about = (resource.group, resource.version, resource.kind);
    if !resource.verbs.contains(&"get") {
        return;
    }
    let Some(schema) = name_of(served, about.0, about.1, about.2) else { return };
    let mut item = path_item(resource, true);
    item["get"] = operation(about, "get", &[], None, &schema).named("read", resource, "");
    if resource.verbs.contains(&"update") {
        change(&mut item, about, &schema, &["patch", "update"], resource, "");
        let deleted = if resource.returns_deleted { &schema } else { STATUS };
        let delete =
            operation(about, "delete", DELETE_PARAMETERS, Some(&body("*/*", DELETE_OPTIONS)), deleted);
        item["delete"] = delete.named("delete", resource, "");
    }
    paths.insert(format!("{}/{{name}}", resource_path(base, resource)), item);
}

fn parts(paths: &mut Map<String, Value>, base: &str, served: &ServedGroupVersion, resource: &Resource) {
    for part in &resource.parts {
        let about = (part.group, part.version, part.kind);
        let mut item = path_item(resource, true);
        let suffix = capitalized(part.name);
        match name_of(served, about.0, about.1, about.2) {
            Some(schema) if part.name != "log" => {
                if part.verbs.contains(&"get") {
                    item["get"] =
                        operation(about, "get", &[], None, &schema).named("read", resource, &suffix);
                }
                if part.verbs.contains(&"create") {
                    let post =
                        operation(about, "post", WRITE_PARAMETERS, Some(&body("*/*", &schema)), &schema);
                    item["post"] = post.named("create", resource, &suffix);
                }
                change(&mut item, about, &schema, part.verbs, resource, &suffix);
            }
            _ if part.name == "log" => item["get"] = stream(about).named("read", resource, &suffix),
            _ => {
                for (verb, method) in [
                    ("create", "post"),
                    ("get", "get"),
                    ("update", "put"),
                    ("patch", "patch"),
                    ("delete", "delete"),
                ] {
                    if part.verbs.contains(&verb) {
                        let verb = format!("connect{{}}{}", capitalized(method));
                        item[method] = stream(about).named(&verb, resource, &suffix);
                    }
                }
            }
        }
        paths.insert(format!("{}/{{name}}/{}", resource_path(base, resource), part.name), item);
    }
}

/// Gives operations the names that generated clients use.
trait OperationNames {
    /// Names an operation: `listCoreV1NamespacedPod`. The group is inserted before the suffix of the verb
    /// (`deleteCollection`), or at `{}`.
    fn named(self, verb: &str, resource: &Resource, suffix: &str) -> Self;

    fn called(self, id: String) -> Self;
}

impl OperationNames for Value {
    fn named(self, verb: &str, resource: &Resource, suffix: &str) -> Self {
        let owner = owner(resource);
        let start = match (verb.strip_suffix("Collection"), verb.split_once("{}")) {
            (Some(verb), _) => format!("{verb}{owner}Collection"),
            (None, Some((verb, more))) => format!("{verb}{owner}{more}"),
            (None, None) => format!("{verb}{owner}"),
        };
        let scope = if resource.namespaced { "Namespaced" } else { "" };
        self.called(format!("{start}{scope}{}{suffix}", resource.kind))
    }

    fn called(mut self, id: String) -> Self {
        self["operationId"] = id.into();
        self
    }
}

/// Returns the group and version in an operation's name: `AppsV1`, `CoreV1`.
fn owner(resource: &Resource) -> String {
    tag(resource.group, resource.version).split('_').map(capitalized).collect()
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn change(
    item: &mut Value,
    about: OperationKind<'_>,
    schema: &str,
    verbs: &[&str],
    resource: &Resource,
    suffix: &str,
) {
    if verbs.contains(&"update") {
        let put = operation(about, "put", WRITE_PARAMETERS, Some(&body("*/*", schema)), schema);
        item["put"] = put.named("replace", resource, suffix);
    }
    if verbs.contains(&"patch") {
        let content: Map<String, Value> = [
            "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ]
        .iter()
        // A custom resource's schema has no merge keys.
        .filter(|media| resource.schema.is_none() || !media.contains("strategic"))
        .map(|media| ((*media).to_string(), json!({"schema": reference(PATCH)})))
        .collect_map();
        let parameters = [WRITE_PARAMETERS, &[FORCE]].concat();
        let body = json!({"required": true, "content": content});
        item["patch"] =
            operation(about, "patch", &parameters, Some(&body), schema).named("patch", resource, suffix);
    }
}

fn operation(
    about: OperationKind<'_>,
    action: &str,
    parameters: &[Parameter],
    body: Option<&Value>,
    response: &str,
) -> Value {
    let (group, version, kind) = about;
    let answers = |text: &str| json!({"description": text, "content": {"application/json": {"schema": reference(response)}}});
    let mut responses = json!({"200": answers("OK"), "401": {"description": "Unauthorized"}});
    if matches!(action, "post" | "put" | "patch") {
        responses["201"] = answers("Created");
    }
    if matches!(action, "post" | "delete") {
        responses["202"] = answers("Accepted");
    }
    let mut operation = json!({
        "tags": [tag(group, version)],
        "description": describe(action, kind),
        "responses": responses,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    });
    if !parameters.is_empty() {
        operation["parameters"] =
            parameters.iter().map(|(name, type_, text)| parameter(name, type_, text)).collect();
    }
    if let Some(body) = body {
        operation["requestBody"] = body.clone();
    }
    operation
}

/// Returns the operation of a request that becomes a stream; it has neither body nor schema.
fn stream((group, version, kind): OperationKind<'_>) -> Value {
    json!({
        "tags": [tag(group, version)],
        "description": format!("connect to {kind}"),
        "responses": {"200": {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}}},
        "x-kubernetes-action": "connect",
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    })
}

fn describe(action: &str, kind: &str) -> String {
    match action {
        "list" | "watchlist" => format!("list or watch objects of kind {kind}"),
        "post" => format!("create a {kind}"),
        "deletecollection" => format!("delete collection of {kind}"),
        "get" => format!("read the specified {kind}"),
        "put" => format!("replace the specified {kind}"),
        "patch" => format!("partially update the specified {kind}"),
        _ => format!("{action} a {kind}"),
    }
}

/// Returns the tag of a group and version: `apps_v1`, `core_v1`, `discovery_v1`.
fn tag(group: &str, version: &str) -> String {
    let group = group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core");
    format!("{group}_{version}")
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{schema}")})
}

fn body(media: &str, schema: &str) -> Value {
    json!({"required": schema != DELETE_OPTIONS, "content": {media: {"schema": reference(schema)}}})
}

fn path_item(resource: &Resource, named: bool) -> Value {
    let inside = |name: &str, text: &str| {
        json!({"name": name, "in": "path", "required": true, "description": text,
            "schema": {"type": "string", "uniqueItems": true}})
    };
    let mut parameters = Vec::new();
    if named {
        parameters.push(inside("name", &format!("name of the {}", resource.kind)));
    }
    if resource.namespaced {
        parameters.push(inside("namespace", "object name and auth scope, such as for teams and projects"));
    }
    parameters.push(parameter("pretty", "string", "If 'true', then the output is pretty printed."));
    json!({ "parameters": parameters })
}

fn parameter(name: &str, type_: &str, text: &str) -> Value {
    json!({"name": name, "in": "query", "description": text, "schema": {"type": type_, "uniqueItems": true}})
}
