//! Priority: a pod's class becomes its number (SCH-7); at most one class is the global default.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::Request;
use crate::{Api, ApiError};
use object::{Key, Kind, Object};

/// Gives a new pod the number of its class; an old one keeps what it was given, also where it is left out.
pub(super) fn resolve(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    match request.old {
        _ if object.kind() != Kind::Pod => Ok(()),
        None => admit_pod(request.api, object),
        Some(old) => {
            keep(old, object);
            Ok(())
        }
    }
}

fn keep(old: &Object, object: &mut Object) {
    let old = old.get::<Pod>().and_then(|old| old.spec.as_ref());
    let new = object.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut());
    if let (Some(old), Some(new)) = (old, new) {
        new.priority = new.priority.or(old.priority);
        new.preemption_policy = new.preemption_policy.take().or_else(|| old.preemption_policy.clone());
    }
}

/// Refuses a second global default.
pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    if object.kind() == Kind::PriorityClass { validate_class(request.api, object) } else { Ok(()) }
}

fn admit_pod(api: &Api, object: &mut Object) -> Result<(), ApiError> {
    let name = object.name().to_string();
    let asked = object
        .get::<Pod>()
        .and_then(|pod| pod.spec.as_ref())
        .map(|spec| (spec.priority_class_name.clone().filter(|c| !c.is_empty()), spec.priority));
    let Some((class_name, given)) = asked else { return Ok(()) };
    let class = match &class_name {
        Some(class) => Some(api.get_as::<PriorityClass>(&Key::new("", class)).map_err(|_| {
            ApiError::forbidden(Kind::Pod, &name, format!("no PriorityClass with name {class} was found"))
        })?),
        None => api.list_as::<PriorityClass>(None).into_iter().find(|c| c.global_default == Some(true)),
    };
    let value = class.as_ref().map_or(0, |c| c.value.unwrap_or(0));
    if let Some(given) = given.filter(|given| *given != value) {
        return Err(ApiError::forbidden(
            Kind::Pod,
            &name,
            format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            ),
        ));
    }
    let policy = class.as_ref().and_then(|c| c.preemption_policy.clone());
    if let Some(spec) = object.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()) {
        spec.priority = Some(value);
        spec.priority_class_name = class.map(|c| c.name().to_string());
        spec.preemption_policy = policy.or_else(|| Some("PreemptLowerPriority".into()));
    }
    Ok(())
}

fn validate_class(api: &Api, object: &Object) -> Result<(), ApiError> {
    let wants_default = object.get::<PriorityClass>().is_some_and(|c| c.global_default == Some(true));
    if !wants_default {
        return Ok(());
    }
    let mut others = api.list_as::<PriorityClass>(None).into_iter().filter(|c| c.name() != object.name());
    match others.find(|c| c.global_default == Some(true)) {
        Some(other) => Err(ApiError::forbidden(
            Kind::PriorityClass,
            object.name(),
            format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.name()
            ),
        )),
        None => Ok(()),
    }
}
