//! LimitRanger: the limit ranges of a namespace set default requests and limits of containers, and bound
//! those of containers, pods and claims (QUO-1).

mod bounds;

use k8s_openapi::api::core::v1::{Container, LimitRange, LimitRangeItem, Pod};

use super::Request;
use crate::{ApiError, Part};
use object::owner::is_terminating;
use object::quantity::ResourceList;
use object::{Kind, Object, SharedObject};

/// Records the defaults that were set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the defaults of a new pod's containers.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a plugin")]
pub(super) fn fill_in_defaults(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    if object.kind() != Kind::Pod {
        return Ok(());
    }
    let ranges = request.api.list_as::<LimitRange>(Some(object.namespace()));
    if let Some(pod) = object.get_mut::<Pod>().filter(|_| !ranges.is_empty()) {
        for range in &ranges {
            fill_in(pod, range);
        }
    }
    Ok(())
}

/// Refuses requests and limits outside the bounds.
pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let concerned = match (object.kind(), request.old) {
        // As in Kubernetes: a pod's resources change only through `resize`. Other changes of an existing pod are not
        // subject to limit ranges, which may have been created later.
        (Kind::Pod, Some(_)) => request.part == Part::Resize,
        (Kind::Pod | Kind::PersistentVolumeClaim, _) => true,
        _ => false,
    };
    let same = request.old.is_some_and(|old| old.same_spec(object));
    if !concerned || same || is_terminating(object.meta()) {
        return Ok(());
    }
    for range in &request.api.list_as::<LimitRange>(Some(object.namespace())) {
        let broken: Vec<String> = items(range).flat_map(|item| bounds::violations(item, object)).collect();
        if !broken.is_empty() {
            return Err(ApiError::forbidden(object.kind(), object.name(), join_reasons(&broken)));
        }
    }
    Ok(())
}

fn items(range: &SharedObject<LimitRange>) -> impl Iterator<Item = &LimitRangeItem> {
    range.spec.iter().flat_map(|spec| &spec.limits)
}

/// Returns a single reason unchanged, several in brackets.
fn join_reasons(reasons: &[String]) -> String {
    match reasons {
        [reason] => reason.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Sets the missing defaults of containers, and records them in the pod's annotation.
fn fill_in(pod: &mut Pod, range: &SharedObject<LimitRange>) {
    let (mut limits, mut requests) = (ResourceList::new(), ResourceList::new());
    for item in items(range).filter(|item| item.type_ == "Container") {
        limits.extend(item.default.clone().unwrap_or_default());
        requests.extend(item.default_request.clone().unwrap_or_default());
    }
    let Some(spec) = pod.spec.as_mut() else { return };
    let mut notes = Vec::new();
    for container in &mut spec.containers {
        fill_in_container(container, "container", &limits, &requests, &mut notes);
    }
    for container in spec.init_containers.iter_mut().flatten() {
        fill_in_container(container, "init container", &limits, &requests, &mut notes);
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.metadata.annotations.get_or_insert_default().insert(ANNOTATION.into(), note);
    }
}

fn fill_in_container(
    container: &mut Container,
    called: &str,
    limits: &ResourceList,
    requests: &ResourceList,
    notes: &mut Vec<String>,
) {
    let own = container.resources.get_or_insert_default();
    let set_requests = add_missing(&mut own.requests, requests);
    let set_limits = add_missing(&mut own.limits, limits);
    for (set, what) in [(set_requests, "request"), (set_limits, "limit")] {
        if !set.is_empty() {
            notes.push(format!("{} {what} for {called} {}", set.join(", "), container.name));
        }
    }
}

/// Adds missing entries to a list; returns their names.
fn add_missing(list: &mut Option<ResourceList>, defaults: &ResourceList) -> Vec<String> {
    let mut added = Vec::new();
    for (name, quantity) in defaults {
        if list.as_ref().is_none_or(|l| !l.contains_key(name)) {
            list.get_or_insert_default().insert(name.clone(), quantity.clone());
            added.push(name.clone());
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_api::{api_with, without_admission};
    use crate::{Api, WriteOptions};
    use object::Key;

    fn api() -> Api {
        api_with(without_admission(&["ServiceAccount"]), &[])
    }

    /// Defaults apply to containers; the pod-level resources stay, and bounds of pods apply to them.
    #[test]
    fn resources_of_the_whole_pod_stay_as_they_are_quo_1() {
        let api = api();
        let create = |kind, value: Value| {
            let created = api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default());
            created.map(|object| object.to_value()).map_err(|error| error.to_string())
        };
        create(Kind::Namespace, json!({"metadata": {"name": "n"}})).unwrap();
        create(
            Kind::LimitRange,
            json!({"metadata": {"name": "l", "namespace": "n"}, "spec": {"limits": [
                {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "200m"}},
                {"type": "Pod", "max": {"cpu": "2"}}]}}),
        )
        .unwrap();
        let pod = |name: &str, whole: Value| {
            let spec = json!({"resources": whole, "containers": [{"name": "c", "image": "nginx"}]});
            create(Kind::Pod, json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec}))
        };
        let limited = pod("limited", json!({"limits": {"cpu": "1"}})).unwrap();
        assert_eq!(limited["spec"]["resources"], json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
        assert_eq!(
            limited["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "200m"}})
        );
        assert_eq!(
            pod("large", json!({"limits": {"cpu": "3"}})),
            Err("pods \"large\" is forbidden: maximum cpu usage per Pod is 2, but limit is 3".into())
        );
        // A default may exceed the pod's own limit; Kubernetes refuses that, too.
        let small = pod("small", json!({"limits": {"cpu": "100m"}})).unwrap_err();
        assert!(small.contains("must be less than or equal to pod limits of 100m"), "{small}");
    }

    #[test]
    fn of_a_pod_that_is_there_its_resize_alone_is_judged_quo_1() {
        let api = api();
        let create = |kind, value: Value| {
            api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default()).unwrap();
        };
        create(Kind::Namespace, json!({"metadata": {"name": "n"}}));
        let resources = json!({"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}});
        create(
            Kind::Pod,
            json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers":
                [{"name": "c", "image": "nginx", "resources": resources}]}}),
        );
        create(
            Kind::LimitRange,
            json!({"metadata": {"name": "l", "namespace": "n"},
                "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}}),
        );
        let change = |part, at: &str, to: Value| {
            let changed = api.change(Kind::Pod, &Key::new("n", "p"), part, &WriteOptions::default(), |pod| {
                let mut value = pod.to_value();
                *value.pointer_mut(at).unwrap() = to.clone();
                Ok(Object::from_value(Kind::Pod, value).unwrap())
            });
            changed.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(change(Part::Main, "/spec/containers/0/image", json!("httpd")), Ok(()));
        let more = json!({"requests": {"memory": "3Gi"}, "limits": {"memory": "3Gi"}});
        assert_eq!(
            change(Part::Resize, "/spec/containers/0/resources", more),
            Err("pods \"p\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 3Gi".into())
        );
    }
}
