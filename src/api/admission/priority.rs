//! Priority: sets a pod's priority from its class (SCH-7); permits only one global default class.

use std::fmt::Display;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::Request;
use crate::{Api, ApiError};
use object::{Key, Kind, Object};

/// Sets the priority of a new pod from its class; an update keeps the stored one even if it omits it.
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
    let requested = object.get::<Pod>().and_then(|pod| pod.spec.as_ref()).map(|spec| {
        let class = spec.priority_class_name.clone().filter(|c| !c.is_empty());
        (class, spec.priority, spec.preemption_policy.clone())
    });
    let Some((class_name, given, given_policy)) = requested else { return Ok(()) };
    let class = match &class_name {
        Some(class) => Some(api.get_as::<PriorityClass>(&Key::new("", class)).map_err(|_| {
            ApiError::forbidden(Kind::Pod, &name, format!("no PriorityClass with name {class} was found"))
        })?),
        None => api.list_as::<PriorityClass>(None).into_iter().find(|c| c.global_default == Some(true)),
    };
    let value = class.as_ref().map_or(0, |c| c.value.unwrap_or(0));
    refuse_other("integer value of priority", &name, given, &value)?;
    let policy = class.as_ref().and_then(|c| c.preemption_policy.clone());
    let policy = policy.unwrap_or_else(|| "PreemptLowerPriority".into());
    refuse_other("string value of PreemptionPolicy", &name, given_policy, &policy)?;
    if let Some(spec) = object.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()) {
        spec.priority = Some(value);
        spec.priority_class_name = class.map(|c| c.name().to_string());
        spec.preemption_policy = Some(policy);
    }
    Ok(())
}

/// Refuses a pod whose value of `field` differs from its class's.
fn refuse_other<T: PartialEq + Display>(
    field: &str,
    pod: &str,
    provided: Option<T>,
    computed: &T,
) -> Result<(), ApiError> {
    match provided.filter(|given| given != computed) {
        None => Ok(()),
        Some(given) => Err(ApiError::forbidden(
            Kind::Pod,
            pod,
            format!(
                "the {field} ({given}) must not be provided in pod spec; priority admission controller computed \
                 {computed} from the given PriorityClass name"
            ),
        )),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_api::{api_with, without_admission};

    #[tokio::test(start_paused = true)]
    async fn a_pod_has_the_number_and_the_policy_of_its_class_and_no_others_sch_7() {
        let api = api_with(without_admission(&["ServiceAccount"]), &["n"]);
        for (name, policy) in [("polite", "Never"), ("rude", "PreemptLowerPriority")] {
            let class = json!({"metadata": {"name": name}, "value": 7, "preemptionPolicy": policy});
            api.create_as::<PriorityClass>(serde_json::from_value(class).unwrap()).unwrap();
        }
        let computed = |field: &str, given: &str, value: &str| {
            format!(
                "pods \"p\" is forbidden: the {field} ({given}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            )
        };
        let (number, policy) = ("integer value of priority", "string value of PreemptionPolicy");
        let dry = crate::WriteOptions { dry_run: true, ..crate::WriteOptions::default() };
        for (given, expected) in [
            (json!({}), Ok((0, "PreemptLowerPriority"))),
            (json!({"preemptionPolicy": "PreemptLowerPriority"}), Ok((0, "PreemptLowerPriority"))),
            (json!({"preemptionPolicy": "Never"}), Err(computed(policy, "Never", "PreemptLowerPriority"))),
            (json!({"priority": 3}), Err(computed(number, "3", "0"))),
            (json!({"priorityClassName": "polite"}), Ok((7, "Never"))),
            (json!({"priorityClassName": "polite", "preemptionPolicy": "Never"}), Ok((7, "Never"))),
            (
                json!({"priorityClassName": "rude", "preemptionPolicy": "Never"}),
                Err(computed(policy, "Never", "PreemptLowerPriority")),
            ),
        ] {
            let mut pod: Value = json!({"metadata": {"name": "p", "namespace": "n"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            pod["spec"].as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
            let made = api.create(Object::from_value(Kind::Pod, pod).unwrap(), &dry);
            let made = made.map(|pod| {
                let spec = pod.to_value()["spec"].clone();
                (spec["priority"].as_i64().unwrap(), spec["preemptionPolicy"].as_str().unwrap().to_string())
            });
            let expected = expected.map(|(number, policy)| (number, policy.to_string()));
            assert_eq!(made.map_err(|error| error.to_string()), expected, "{given}");
        }
    }
}
