//! The bounds of one item of a limit range, in Kubernetes' words.

use k8s_openapi::api::core::v1::{LimitRangeItem, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use object::quantity::{Amount, ResourceList};
use object::quota::requests_and_limits;
use object::{Body, Object};

/// Requests and limits of one container, pod or claim.
#[derive(Default)]
struct RequestedResources {
    requests: ResourceList,
    limits: ResourceList,
}

/// Returns the bounds of the item that the object violates; none if the item is for another type.
pub(super) fn violations(item: &LimitRangeItem, object: &Object) -> Vec<String> {
    let requested = match (item.type_.as_str(), object.body()) {
        ("Container", Body::Pod(pod)) => of_containers(pod),
        ("Pod", Body::Pod(pod)) => vec![of_pod(pod)],
        ("PersistentVolumeClaim", Body::PersistentVolumeClaim(claim)) => {
            let resources = claim.spec.as_ref().and_then(|s| s.resources.as_ref());
            let requests = resources.and_then(|r| r.requests.clone()).unwrap_or_default();
            return claim_violations(item, &RequestedResources { requests, ..RequestedResources::default() });
        }
        _ => return Vec::new(),
    };
    requested.iter().flat_map(|requested| broken_by(item, requested)).collect()
}

fn of_containers(pod: &Pod) -> Vec<RequestedResources> {
    let containers =
        pod.spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
    let requested = containers.map(|container| {
        let resources = container.resources.clone().unwrap_or_default();
        RequestedResources {
            requests: resources.requests.unwrap_or_default(),
            limits: resources.limits.unwrap_or_default(),
        }
    });
    requested.collect()
}

fn of_pod(pod: &Pod) -> RequestedResources {
    let (requests, limits) = requests_and_limits(pod);
    RequestedResources { requests, limits }
}

fn broken_by(item: &LimitRangeItem, requested: &RequestedResources) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, bound) in item.min.iter().flatten() {
        broken.extend(below(name, &item.type_, bound, requested));
    }
    for (name, bound) in item.max.iter().flatten() {
        broken.extend(above(name, &item.type_, bound, requested));
    }
    for (name, bound) in item.max_limit_request_ratio.iter().flatten() {
        broken.extend(too_wide(name, &item.type_, bound, requested));
    }
    broken
}

/// Claims have requests only.
fn claim_violations(item: &LimitRangeItem, requested: &RequestedResources) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, bound) in item.min.iter().flatten() {
        broken.extend(below(name, &item.type_, bound, requested));
    }
    for (name, bound) in item.max.iter().flatten() {
        let rule = format!("maximum {name} usage per {} is {}", item.type_, text(bound));
        match requested.requests.get(name) {
            None => broken.push(format!("{rule}.  No request is specified")),
            Some(request) if Amount::of(request) > Amount::of(bound) => {
                broken.push(format!("{rule}, but request is {}", text(request)));
            }
            Some(_) => {}
        }
    }
    broken
}

fn below(name: &str, type_: &str, bound: &Quantity, requested: &RequestedResources) -> Option<String> {
    let rule = format!("minimum {name} usage per {type_} is {}", text(bound));
    let less = |quantity: &&Quantity| Amount::of(quantity) < Amount::of(bound);
    match (requested.requests.get(name), requested.limits.get(name).filter(less)) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(request), _) if less(&request) => Some(format!("{rule}, but request is {}", text(request))),
        (_, Some(limit)) => Some(format!("{rule}, but limit is {}", text(limit))),
        _ => None,
    }
}

fn above(name: &str, type_: &str, bound: &Quantity, requested: &RequestedResources) -> Option<String> {
    let rule = format!("maximum {name} usage per {type_} is {}", text(bound));
    let more = |quantity: &&Quantity| Amount::of(quantity) > Amount::of(bound);
    match (requested.limits.get(name), requested.requests.get(name).filter(more)) {
        (None, _) => Some(format!("{rule}.  No limit is specified")),
        (Some(limit), _) if more(&limit) => Some(format!("{rule}, but limit is {}", text(limit))),
        (_, Some(request)) => Some(format!("{rule}, but request is {}", text(request))),
        _ => None,
    }
}

fn too_wide(name: &str, type_: &str, bound: &Quantity, requested: &RequestedResources) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {type_} is {}", text(bound));
    let some = |list: &ResourceList| list.get(name).map(Amount::of).filter(|amount| !amount.is_zero());
    match (some(&requested.requests), some(&requested.limits)) {
        (None, _) => Some(format!("{rule}, but no request is specified or request is 0")),
        (_, None) => Some(format!("{rule}, but no limit is specified or limit is 0")),
        (Some(request), Some(limit)) => {
            let ratio = limit.as_f64() / request.as_f64();
            (ratio > Amount::of(bound).as_f64()).then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
        }
    }
}

/// Returns a quantity in canonical form: `100m` for `0.1`.
fn text(quantity: &Quantity) -> String {
    Amount::of(quantity).to_text_like(quantity).0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use object::Kind;

    fn violations(item: Value, kind: Kind, object: Value) -> Vec<String> {
        super::violations(&serde_json::from_value(item).unwrap(), &Object::from_value(kind, object).unwrap())
    }

    #[test]
    fn bounds_read_as_in_kubernetes_quo_1() {
        let pod = |requests: Value, limits: Value| {
            let container = json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
            json!({"spec": {"containers": [container.clone(), container]}})
        };
        let item =
            |type_: &str, field: &str, name: &str, bound: &str| json!({"type": type_, field: {name: bound}});
        for (item, requests, limits, expected) in [
            (
                item("Container", "min", "cpu", "200m"),
                json!({"cpu": "0.1"}),
                json!({"cpu": "1"}),
                "minimum cpu usage per Container is 200m, but request is 100m",
            ),
            (
                item("Container", "min", "cpu", "200m"),
                json!({}),
                json!({}),
                "minimum cpu usage per Container is 200m.  No request is specified",
            ),
            (
                item("Container", "max", "memory", "1Gi"),
                json!({"memory": "1Gi"}),
                json!({"memory": "1536Mi"}),
                "maximum memory usage per Container is 1Gi, but limit is 1536Mi",
            ),
            (
                item("Container", "max", "memory", "1Gi"),
                json!({}),
                json!({}),
                "maximum memory usage per Container is 1Gi.  No limit is specified",
            ),
            (
                item("Container", "maxLimitRequestRatio", "cpu", "2"),
                json!({"cpu": "100m"}),
                json!({"cpu": "250m"}),
                "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
            ),
            (
                item("Container", "maxLimitRequestRatio", "cpu", "2"),
                json!({"cpu": "0"}),
                json!({"cpu": "250m"}),
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ),
        ] {
            let found = violations(item.clone(), Kind::Pod, pod(requests, limits));
            assert_eq!(found, [expected, expected], "{item}: once a container");
        }
        let two = pod(json!({"memory": "600Mi"}), json!({"memory": "600Mi"}));
        assert_eq!(
            violations(item("Pod", "max", "memory", "1Gi"), Kind::Pod, two.clone()),
            ["maximum memory usage per Pod is 1Gi, but limit is 1200Mi"]
        );
        assert!(violations(item("Pod", "min", "memory", "1Gi"), Kind::Pod, two.clone()).is_empty());
        assert!(
            violations(item("PersistentVolumeClaim", "max", "storage", "1Gi"), Kind::Pod, two).is_empty()
        );
        let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        for (field, size, expected) in [
            ("max", "3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
            ("min", "1Gi", "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        ] {
            let item = item("PersistentVolumeClaim", field, "storage", "2Gi");
            assert_eq!(violations(item.clone(), Kind::PersistentVolumeClaim, claim(size)), [expected]);
            assert!(violations(item, Kind::PersistentVolumeClaim, claim("2Gi")).is_empty());
        }
    }
}
