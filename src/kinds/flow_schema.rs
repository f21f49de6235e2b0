//! Flow schemas: they assign requests to priority levels (`apiserver::flow_control`). `default_flows` has those of every cluster.

use std::collections::HashSet;

use k8s_openapi::api::flowcontrol::v1::{
    FlowSchema, NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule, Subject,
};
use serde_json::json;

use super::columns::{Column, NONE};
use super::default_flows;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names};

const MAX_PRECEDENCE: i32 = 10_000;
/// The default precedence.
const PRECEDENCE: i32 = 1_000;

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const ANY: &str = "*";

impl Resource for FlowSchema {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("PriorityLevel", "The priority level of matching requests.", |schema, _| {
            json!(schema.spec.priority_level_configuration.name)
        }),
        Column::number(
            "MatchingPrecedence",
            "The precedence; of several matching schemas, the one with the lowest value applies.",
            |schema, _| json!(schema.spec.matching_precedence.unwrap_or(0)),
        ),
        Column::text(
            "DistinguisherMethod",
            "The method that distinguishes the flows of the schema.",
            |schema, _| {
                json!(schema.spec.distinguisher_method.as_ref().map_or(NONE, |method| method.type_.as_str()))
            },
        ),
        Column::age(),
        Column::text("MissingPL", "Whether the priority level does not exist.", |schema, _| {
            let conditions = schema.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let mut dangling = conditions.filter(|condition| condition.type_ == "Dangling");
            json!(dangling.next().and_then(|condition| condition.status.as_deref()).unwrap_or("?"))
        }),
    ];

    fn apply_defaults(&mut self) {
        if self.spec.matching_precedence.unwrap_or(0) == 0 {
            self.spec.matching_precedence = Some(PRECEDENCE);
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let path = Path::root("spec");
        let spec = &self.spec;
        let (at, precedence) = (path.child("matchingPrecedence"), spec.matching_precedence.unwrap_or(0));
        if precedence <= 0 {
            errors.invalid(&at, &precedence, "must be a positive value");
        }
        if precedence > MAX_PRECEDENCE {
            errors.invalid(&at, &precedence, format!("must not be greater than {MAX_PRECEDENCE}"));
        }
        if precedence == 1 && name != default_flows::EXEMPT {
            let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
            errors.invalid(&at, &precedence, detail);
        }
        if let Some(method) = &spec.distinguisher_method {
            let path = path.child("distinguisherMethod");
            errors.one_of(&path.child("type"), &method.type_, &["ByNamespace", "ByUser"]);
        }
        let (at, level) = (path.child("priorityLevelConfiguration"), &spec.priority_level_configuration.name);
        if level.is_empty() {
            errors.required(&at.child("name"), "must reference a priority level");
        } else {
            errors.invalid_each(&at.child("name"), level, names::dns_1123_subdomain(level));
        }
        let list = path.child("rules");
        for (i, rule) in spec.rules.iter().flatten().enumerate() {
            self::rule(errors, &list.index(i), rule);
        }
        if default_flows::mandatory_schema(name).is_some_and(|fixed| fixed.spec != *spec) {
            let shown = object::json_of(spec);
            errors.invalid(&path, &shown, format!("spec of '{name}' must equal the fixed value"));
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        condition_types(errors, conditions.map(|condition| condition.type_.as_str()));
    }
}

/// Requires that the conditions of a schema or level have different types.
pub(super) fn condition_types<'a>(errors: &mut FieldErrors, types: impl Iterator<Item = &'a str>) {
    let list = Path::root("status.conditions");
    let mut seen = HashSet::new();
    for (path, given) in list.each(types) {
        let path = path.child("type");
        errors.unique(&mut seen, &path, given);
        if given.is_empty() {
            errors.required(&path, "");
        }
    }
}

fn rule(errors: &mut FieldErrors, path: &Path<'_>, rule: &PolicyRulesWithSubjects) {
    let list = path.child("subjects");
    if rule.subjects.is_empty() {
        errors.required(&list, "subjects must contain at least one value");
    }
    for (i, one) in rule.subjects.iter().enumerate() {
        subject(errors, &list.index(i), one);
    }
    let resources = rule.resource_rules.as_deref().unwrap_or_default();
    let paths = rule.non_resource_rules.as_deref().unwrap_or_default();
    if resources.is_empty() && paths.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.required(path, detail);
    }
    let list = path.child("resourceRules");
    for (i, one) in resources.iter().enumerate() {
        resource_rule(errors, &list.index(i), one);
    }
    let list = path.child("nonResourceRules");
    for (i, one) in paths.iter().enumerate() {
        path_rule(errors, &list.index(i), one);
    }
}

/// Requires that a subject has the field of its kind and no other.
fn subject(errors: &mut FieldErrors, path: &Path<'_>, subject: &Subject) {
    const KINDS: &[(&str, &str)] =
        &[("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let given = |field: &str| match field {
        "group" => subject.group.is_some(),
        "user" => subject.user.is_some(),
        _ => subject.service_account.is_some(),
    };
    let Some((kind, own)) = KINDS.iter().find(|(kind, _)| *kind == subject.kind) else {
        let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
        return errors.unsupported(&path.child("kind"), &subject.kind, &kinds);
    };
    for (other, field) in KINDS.iter().filter(|(_, field)| field != own) {
        if given(field) {
            let detail = format!("{field} is forbidden when subject kind is not '{other}'");
            errors.forbidden(&path.child(field), detail);
        }
    }
    let path = path.child(own);
    if !given(own) {
        errors.required(&path, format!("{own} is required when subject kind is '{kind}'"));
    }
    let name = |errors: &mut FieldErrors, name: &str| {
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
    };
    if let (Some(user), "user") = (&subject.user, *own) {
        name(errors, &user.name);
    }
    if let (Some(group), "group") = (&subject.group, *own) {
        name(errors, &group.name);
    }
    if let (Some(account), "serviceAccount") = (&subject.service_account, *own) {
        name(errors, &account.name);
        if !account.name.is_empty() && account.name != ANY {
            let wrong = names::dns_1123_subdomain(&account.name);
            errors.invalid_each(&path.child("name"), &account.name, wrong);
        }
        let path = path.child("namespace");
        if account.namespace.is_empty() {
            errors.required(&path, "must specify namespace for service account");
        } else {
            errors.invalid_each(&path, &account.namespace, names::dns_1123_label(&account.namespace));
        }
    }
}

/// Requires a non-empty list in which `*` stands alone.
fn some_or_any(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &[String],
    missing: &str,
    others: &str,
) -> bool {
    if list.is_empty() {
        errors.required(path, missing);
    } else if list.len() > 1 && list.iter().any(|one| one == ANY) {
        let detail = format!("if '*' is present, must not specify other {others}");
        errors.invalid(path, &list.to_vec(), detail);
    } else {
        return list[0] != ANY;
    }
    false
}

fn verbs(errors: &mut FieldErrors, path: &Path<'_>, verbs: &[String], known: &[&str]) {
    let path = path.child("verbs");
    let named = some_or_any(errors, &path, verbs, "verbs must contain at least one value", "verbs");
    if named && verbs.iter().any(|verb| !known.contains(&verb.as_str())) {
        errors.unsupported(&path, &verbs.to_vec(), known);
    }
}

fn resource_rule(errors: &mut FieldErrors, path: &Path<'_>, rule: &ResourcePolicyRule) {
    verbs(errors, path, &rule.verbs, VERBS);
    let missing = "resource rules must supply at least one api group";
    some_or_any(errors, &path.child("apiGroups"), &rule.api_groups, missing, "api groups");
    let missing = "resource rules must supply at least one resource";
    some_or_any(errors, &path.child("resources"), &rule.resources, missing, "resources");
    let path = path.child("namespaces");
    let namespaces = rule.namespaces.as_deref().unwrap_or_default();
    if namespaces.is_empty() && rule.cluster_scope == Some(true) {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if some_or_any(errors, &path, namespaces, missing, "namespaces") {
        for (i, namespace) in namespaces.iter().enumerate() {
            for wrong in names::dns_1123_label(namespace) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {wrong}");
                errors.invalid(&path.index(i), namespace, detail);
            }
        }
    }
}

fn path_rule(errors: &mut FieldErrors, path: &Path<'_>, rule: &NonResourcePolicyRule) {
    verbs(errors, path, &rule.verbs, VERBS);
    let path = path.child("nonResourceURLs");
    let missing = "nonResourceURLs must contain at least one value";
    if !some_or_any(errors, &path, &rule.non_resource_urls, missing, "non-resource URLs") {
        return;
    }
    for (path, url) in path.each(rule.non_resource_urls.iter()) {
        let wildcard = url.find(ANY).map(|at| (at, url.len()));
        if url.is_empty() {
            errors.invalid(&path, url, "must not be empty");
        } else if !url.starts_with('/') {
            errors.invalid(&path, url, "must start with slash");
        } else if url.contains(' ') {
            errors.invalid(&path, url, "must not contain white-space");
        } else if url.contains("//") {
            errors.invalid(&path, url, "must not contain double slash");
        } else if wildcard.is_some_and(|(at, length)| at + 1 != length || !url.ends_with("/*")) {
            errors.invalid(&path, url, "wildcard can only do suffix matching");
        }
    }
}
