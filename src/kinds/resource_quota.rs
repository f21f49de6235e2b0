//! Resource quotas.

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, resources};
use base::sort::SliceOrder;
use object::quantity::ResourceList;

/// The compute resources, to which every pod scope except `BestEffort` applies.
const COMPUTE: &[&str] = &["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

const STORAGE: &[&str] =
    &["ephemeral-storage", "limits.ephemeral-storage", "requests.ephemeral-storage", "requests.storage"];

/// Scopes that take no values.
const PLAIN_SCOPES: &[&str] =
    &["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "Terminating"];

const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

impl Resource for ResourceQuota {
    const COUNTED_BY_PLURAL: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Request", "Used and hard amounts of requests.", |quota, _| {
            json!(used_and_hard(quota, |resource| !resource.starts_with("limits")))
        }),
        Column::text("Limit", "Used and hard amounts of limits.", |quota, _| {
            json!(used_and_hard(quota, |resource| resource.starts_with("limits")))
        }),
        Column::age(),
    ];

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let Some(spec) = &self.spec else { return };
        let path = Path::root("spec");
        amounts(errors, &path.child("hard"), spec.hard.as_ref());
        let scopes = spec.scopes.as_deref().unwrap_or_default();
        scope_names(errors, &path.child("scopes"), spec, scopes);
        let selectors =
            spec.scope_selector.as_ref().and_then(|s| s.match_expressions.as_deref()).unwrap_or_default();
        scope_selectors(errors, &path.child("scopeSelector").child("matchExpressions"), spec, selectors);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let scopes = |quota: &ResourceQuota| {
            let mut scopes = quota.spec.as_ref().and_then(|s| s.scopes.clone()).unwrap_or_default();
            scopes.order();
            scopes
        };
        if scopes(self) != scopes(old) {
            errors.invalid(&Path::root("spec.scopes"), &json!(scopes(self)), "field is immutable");
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        if let Some(status) = &self.status {
            amounts(errors, &Path::root("status.hard"), status.hard.as_ref());
            amounts(errors, &Path::root("status.used"), status.used.as_ref());
        }
    }
}

/// Returns used and hard amounts of some resources: `cpu: 1/2, pods: 3/10`.
fn used_and_hard(quota: &ResourceQuota, of: fn(&str) -> bool) -> String {
    let zero = Quantity("0".into());
    let status = quota.status.as_ref();
    let used = |resource: &str| {
        let amount = status.and_then(|s| s.used.as_ref()).and_then(|used| used.get(resource));
        amount.unwrap_or(&zero).0.clone()
    };
    let hard =
        status.and_then(|s| s.hard.as_ref()).into_iter().flatten().filter(|(resource, _)| of(resource));
    let texts = hard.map(|(resource, amount)| format!("{resource}: {}/{}", used(resource), amount.0));
    texts.collect::<Vec<_>>().join(", ")
}

fn amounts(errors: &mut FieldErrors, path: &Path<'_>, list: Option<&ResourceList>) {
    for (name, value) in list.into_iter().flatten() {
        let path = path.key(name);
        resources::resource(errors, &path, name);
        if !name.contains('/') && !is_standard(name) {
            errors.invalid(&path, name, "must be a standard resource for quota");
        }
        resources::amount(errors, &path, name, value);
    }
}

fn is_standard(name: &str) -> bool {
    let huge_pages = name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-");
    huge_pages || [resources::COUNTED, COMPUTE, STORAGE].iter().any(|list| list.contains(&name))
}

/// Returns whether a scope applies to this resource.
fn scope_matches_resource(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => resource == "pods" || COMPUTE.contains(&resource),
    }
}

fn is_scope(name: &str) -> bool {
    PLAIN_SCOPES.contains(&name) || matches!(name, "PriorityClass" | "VolumeAttributesClass")
}

/// Returns the number of limited resources to which the scope does not apply.
fn misapplied(spec: &ResourceQuotaSpec, scope: &str) -> usize {
    let limited = spec.hard.iter().flatten().map(|(name, _)| name.as_str());
    limited.filter(|name| is_standard(name) && !scope_matches_resource(scope, name)).count()
}

fn scope_names(errors: &mut FieldErrors, path: &Path<'_>, spec: &ResourceQuotaSpec, scopes: &[String]) {
    let shown = json!(scopes);
    for scope in scopes {
        if !is_scope(scope) {
            errors.invalid(path, &shown, "unsupported scope");
        }
        for _ in 0..misapplied(spec, scope) {
            errors.invalid(path, &shown, "unsupported scope applied to resource");
        }
    }
    if OPPOSITES.iter().any(|pair| pair.iter().all(|scope| scopes.iter().any(|s| s == scope))) {
        errors.invalid(path, &shown, "conflicting scopes");
    }
}

fn scope_selectors(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    spec: &ResourceQuotaSpec,
    selectors: &[ScopedResourceSelectorRequirement],
) {
    let shown = json!(selectors);
    for selector in selectors {
        let scope = &selector.scope_name;
        if !is_scope(scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..misapplied(spec, scope) {
            errors.invalid(path, &shown, "unsupported scope applied to resource");
        }
        if PLAIN_SCOPES.contains(&scope.as_str()) && selector.operator != "Exists" {
            errors.invalid(
                &path.child("operator"),
                &selector.operator,
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                 ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                 ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        let values = selector.values.as_deref().unwrap_or_default();
        match selector.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &path.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
                &path.child("values"),
                &json!(values),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
    }
    if OPPOSITES.iter().any(|pair| pair.iter().all(|scope| selectors.iter().any(|s| s.scope_name == *scope)))
    {
        errors.invalid(path, &json!(selectors), "conflicting scopes");
    }
}
