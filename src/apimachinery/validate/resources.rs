//! Rules of quantities, and of the resources of containers and pods.

use std::collections::{BTreeSet, HashSet};

use k8s_openapi::api::core::v1::{Pod, PodSpec, ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::field::{FieldErrors, Path};
use super::names;
use object::quantity::{Amount, ResourceList};
use object::resources::spec_requests;

const CONTAINER_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// Resources that Kubernetes knows by a name without a domain, besides huge pages.
const STANDARD_RESOURCES: &[&str] = &[
    "configmaps", "cpu", "ephemeral-storage", "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "memory", "persistentvolumeclaims", "pods", "replicationcontrollers", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory", "requests.storage", "resourcequotas", "secrets",
    "services", "services.loadbalancers", "services.nodeports", "storage",
];

/// Standard resources that are counted in whole numbers.
pub const COUNTED: &[&str] = &[
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets",
    "services", "services.loadbalancers", "services.nodeports",
];

const HUGE_PAGES: &str = "hugepages-";

/// Resources that a pod may request as a whole, as error messages list them.
const POD_RESOURCES: &[&str] = &["cpu", HUGE_PAGES, "memory"];

/// Validates a quantity, which may not be negative. Returns the amount if it is valid.
pub fn quantity(errors: &mut FieldErrors, path: &Path<'_>, quantity: &Quantity) -> Option<Amount> {
    match Amount::parse(&quantity.0) {
        Ok(amount) if amount.is_negative() => {
            errors.invalid(path, quantity, "must be greater than or equal to 0");
            None
        }
        Ok(amount) => Some(amount),
        Err(error) => {
            errors.invalid(path, quantity, error.to_string());
            None
        }
    }
}

/// Validates a resource's name at the path of its entry.
type NameRule = fn(&mut FieldErrors, &Path<'_>, &str);

/// Validates requests, limits and claims of a container. `claims` has the names in the pod's `spec.resourceClaims`.
pub fn requirements(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    requirements: &ResourceRequirements,
    claims: &BTreeSet<&str>,
) {
    validate_amounts(errors, path, requirements, container_resource);
    claim_names(errors, &path.child("claims"), requirements.claims.as_deref().unwrap_or_default(), claims);
}

/// Validates the overhead of a pod as Kubernetes does: as limits of a container.
pub fn overhead(errors: &mut FieldErrors, path: &Path<'_>, overhead: Option<&ResourceList>) {
    let limits = ResourceRequirements { limits: overhead.cloned(), ..ResourceRequirements::default() };
    validate_amounts(errors, path, &limits, container_resource);
}

/// Validates requests and limits; `name_rule` validates their names.
fn validate_amounts(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    requirements: &ResourceRequirements,
    name_rule: NameRule,
) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    for (name, limit) in requirements.limits.iter().flatten() {
        let path = limits.key(name);
        name_rule(errors, &path, name);
        amount(errors, &path, name, limit);
        huge_pages(errors, &path, name, limit);
    }
    for (name, request) in requirements.requests.iter().flatten() {
        let path = requests.key(name);
        name_rule(errors, &path, name);
        amount(errors, &path, name, request);
        match requirements.limits.as_ref().and_then(|l| l.get(name)) {
            None if is_extended(name) => {
                errors.required(&limits, "Limit must be set for non overcommitable resources");
            }
            Some(limit) => over_limit(errors, &requests, name, request, limit),
            None => {}
        }
        huge_pages(errors, &path, name, request);
    }
    let named = || [&requirements.limits, &requirements.requests].into_iter().flatten().flatten();
    let has_huge_pages = named().any(|(name, _)| name.starts_with(HUGE_PAGES));
    if has_huge_pages && !named().any(|(name, _)| matches!(name.as_str(), "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn over_limit(
    errors: &mut FieldErrors,
    requests: &Path<'_>,
    name: &str,
    request: &Quantity,
    limit: &Quantity,
) {
    let (Ok(requested), Ok(allowed)) = (Amount::parse(&request.0), Amount::parse(&limit.0)) else { return };
    if requested != allowed && is_extended(name) {
        errors.invalid(requests, request, format!("must be equal to {name} limit of {}", limit.0));
    } else if requested > allowed {
        errors.invalid(
            requests,
            request,
            format!("must be less than or equal to {name} limit of {}", limit.0),
        );
    }
}

/// Requires that an amount of huge pages is a whole number of pages of the size in the resource's name.
fn huge_pages(errors: &mut FieldErrors, path: &Path<'_>, name: &str, value: &Quantity) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let Ok(amount) = Amount::parse(&value.0) else { return };
    let is_whole = |amount: Amount| Amount::from_units(amount.units()) == amount;
    let size = Amount::parse(size).ok().filter(|size| is_whole(*size) && size.units() > 0);
    if size.is_none_or(|size| amount.units() % size.units() != 0) {
        errors.invalid(path, value, format!("{} is not positive integer multiple of {name}", value.0));
    }
}

/// Validates the resource claims that a container uses: they must differ, and be among the pod's.
fn claim_names(errors: &mut FieldErrors, list: &Path<'_>, claims: &[ResourceClaim], of_pod: &BTreeSet<&str>) {
    let mut whole = HashSet::new();
    let mut parts = HashSet::new();
    for (path, claim) in list.each(claims.iter()) {
        let name = claim.name.as_str();
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        match claim.request.as_deref().filter(|request| !request.is_empty()) {
            _ if whole.contains(name) => errors.duplicate(&path, name),
            Some(request) => {
                errors.invalid_each(&path.child("request"), request, names::dns_1123_label(request));
                if !parts.insert((name, request)) {
                    errors.duplicate(&path, &format!("{name}/{request}"));
                }
            }
            None => {
                for _ in parts.iter().filter(|(of, _)| *of == name) {
                    errors.duplicate(&path, name);
                }
                whole.insert(name);
            }
        }
        if !of_pod.contains(name) {
            let known = of_pod.iter().copied().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { " which is empty".into() } else { format!(": {known}") };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
            errors.not_found_with_detail(&path, name, detail);
        }
    }
}

/// Validates the resources of the whole pod: its requests must cover those of all containers together, and no
/// container's limit may exceed the pod's.
pub fn of_pod(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    let Some(own) = &spec.resources else { return };
    if own.claims.is_some() {
        errors.forbidden(&path.child("claims"), "claims cannot be set for Resources at pod-level");
    }
    validate_amounts(errors, path, own, pod_resource);
    let containers = PodSpec { resources: None, overhead: None, ..spec.clone() };
    let together = spec_requests(&Pod { spec: Some(containers), ..Pod::default() });
    let requests = path.child("requests");
    for (name, together) in &together {
        // A missing request of the pod defaults to the sum of the containers' requests.
        let Some(request) = own.requests.as_ref().and_then(|list| list.get(name)) else { continue };
        if Amount::parse(&request.0).is_ok_and(|request| *together > request) {
            let sum = together.to_text_like(request).0;
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&requests.key(name), request, detail);
        }
    }
    let list = path.child("containers");
    for (i, container) in spec.containers.iter().enumerate() {
        let limits = container.resources.as_ref().and_then(|r| r.limits.as_ref());
        for (name, limit) in limits.into_iter().flatten() {
            let Some(most) = own.limits.as_ref().and_then(|list| list.get(name)) else { continue };
            let (Ok(own), Ok(whole)) = (Amount::parse(&limit.0), Amount::parse(&most.0)) else { continue };
            if own > whole {
                let detail = format!("must be less than or equal to pod limits of {}", most.0);
                errors.invalid(&list.index(i).key(name).child("limits"), limit, detail);
            }
        }
    }
}

/// Validates an amount: not negative, and a whole number if the resource is counted.
pub fn amount(errors: &mut FieldErrors, path: &Path<'_>, name: &str, value: &Quantity) {
    let is_counted = COUNTED.contains(&name) || is_extended(name) && !name.starts_with(HUGE_PAGES);
    if let Some(amount) = quantity(errors, path, value)
        && is_counted
        && Amount::from_units(amount.units()) != amount
    {
        errors.invalid(path, value, "must be an integer");
    }
}

/// Validates the name of any resource: a standard one, huge pages, or one with a domain.
pub fn resource(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    let wrong = names::qualified_name(name);
    let huge_pages = name.strip_prefix("requests.").unwrap_or(name).starts_with(HUGE_PAGES);
    if !wrong.is_empty() {
        errors.invalid_each(path, name, wrong);
    } else if !name.contains('/') && !huge_pages && !STANDARD_RESOURCES.contains(&name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// Validates a resource that a container may name: cpu, memory, ephemeral storage, huge pages, and extended ones.
pub fn container_resource(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    resource(errors, path, name);
    if !name.contains('/') {
        if !CONTAINER_RESOURCES.contains(&name) && !name.starts_with(HUGE_PAGES) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !name.contains("kubernetes.io/") && !is_extended_name(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// Returns whether a name with a domain that is not Kubernetes' own names an extended resource.
pub fn is_extended_name(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Validates a resource that a pod may request as a whole.
fn pod_resource(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    let before = errors.count();
    resource(errors, path, name);
    if errors.count() == before && !matches!(name, "cpu" | "memory") && !name.starts_with(HUGE_PAGES) {
        errors.unsupported(path, name, POD_RESOURCES);
    }
}

/// Returns whether a resource cannot be overcommitted.
pub fn is_extended(name: &str) -> bool {
    name.starts_with(HUGE_PAGES) || (!is_native(name) && !name.starts_with("requests."))
}

/// Returns whether a resource is Kubernetes' own: its name has no domain, or that of Kubernetes.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Validates amounts of resources with qualified names, as in a node's capacity.
pub fn amounts(errors: &mut FieldErrors, path: &Path<'_>, list: Option<&ResourceList>) {
    for (name, value) in list.into_iter().flatten() {
        errors.invalid_each(path, name, names::qualified_name(name));
        quantity(errors, &path.key(name), value);
    }
}
