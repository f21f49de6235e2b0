//! Rules of quantities and of the resources containers ask for.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::field::{FieldErrors, Path};
use super::names;
use object::quantity::{Amount, ResourceList};

const CONTAINER_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// A quantity that can be read and is not negative; its amount when it is.
pub(crate) fn quantity(errors: &mut FieldErrors, path: &Path<'_>, quantity: &Quantity) -> Option<Amount> {
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

/// Requests and limits of a container.
pub(crate) fn requirements(errors: &mut FieldErrors, path: &Path<'_>, requirements: &ResourceRequirements) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    for (name, limit) in requirements.limits.iter().flatten() {
        container_resource(errors, &limits, name);
        amount(errors, &limits.key(name), name, limit);
    }
    for (name, request) in requirements.requests.iter().flatten() {
        container_resource(errors, &requests, name);
        amount(errors, &requests.key(name), name, request);
        let limit = requirements.limits.as_ref().and_then(|l| l.get(name));
        match limit {
            None if is_extended(name) && !name.starts_with("hugepages-") => {
                errors.required(&limits, "Limit must be set for non overcommitable resources");
            }
            Some(limit) => over_limit(errors, &requests, name, request, limit),
            None => {}
        }
    }
}

fn over_limit(
    errors: &mut FieldErrors,
    requests: &Path<'_>,
    name: &str,
    request: &Quantity,
    limit: &Quantity,
) {
    let (Ok(asked), Ok(allowed)) = (Amount::parse(&request.0), Amount::parse(&limit.0)) else { return };
    if asked != allowed && is_extended(name) {
        errors.invalid(requests, request, format!("must be equal to {name} limit of {}", limit.0));
    } else if asked > allowed {
        errors.invalid(
            requests,
            request,
            format!("must be less than or equal to {name} limit of {}", limit.0),
        );
    }
}

fn amount(errors: &mut FieldErrors, path: &Path<'_>, name: &str, value: &Quantity) {
    if let Some(amount) = quantity(errors, path, value)
        && is_extended(name)
        && Amount::from_units(amount.units()) != amount
    {
        errors.invalid(path, value, "must be an integer");
    }
}

/// Resources a container may name: the standard ones, huge pages, and extended ones with a domain.
pub(crate) fn container_resource(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    let wrong = names::qualified_name(name);
    if !wrong.is_empty() {
        errors.invalid_each(path, name, wrong);
    } else if !name.contains('/') && !CONTAINER_RESOURCES.contains(&name) && !name.starts_with("hugepages-") {
        errors.invalid(path, name, "must be a standard resource for containers");
    }
}

/// Resources that cannot be overcommitted.
pub(crate) fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    name.starts_with("hugepages-") || (!native && !name.starts_with("requests."))
}

/// Amounts of resources where any name is allowed: overhead, a node's capacity.
pub(crate) fn amounts(errors: &mut FieldErrors, path: &Path<'_>, list: Option<&ResourceList>) {
    for (name, value) in list.into_iter().flatten() {
        errors.invalid_each(path, name, names::qualified_name(name));
        quantity(errors, &path.key(name), value);
    }
}
