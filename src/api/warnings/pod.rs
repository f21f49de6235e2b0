//! Warnings about pods and pod templates.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use apimachinery::validate::names::dns_1123_label;
use base::quote::quote;
use object::quantity::Amount;
use object::well_known::label::RENAMED_NODE_LABELS;

/// Warns about a pod's name that is not a DNS label.
pub(super) fn name(warnings: &mut Vec<String>, name: &str) {
    if !name.is_empty() && !dns_1123_label(name).is_empty() {
        warnings.push(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS \
             label is recommended"
                .into(),
        );
    }
}

/// Warns about the pod spec at this path.
pub(super) fn spec(warnings: &mut Vec<String>, path: &str, spec: &PodSpec) {
    for key in spec.node_selector.iter().flatten().map(|(key, _)| key) {
        if let Some((_, since, new)) = RENAMED_NODE_LABELS.iter().find(|(old, ..)| old == key) {
            warnings
                .push(format!("{path}.nodeSelector[{key}]: deprecated since {since}; use \"{new}\" instead"));
        }
    }
    let mut seen = HashSet::new();
    for (i, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        let path = format!("{path}.imagePullSecrets[{i}].name");
        if secret.name.is_empty() {
            warnings.push(format!("{path}: invalid empty name \"\""));
        }
        if !seen.insert(&secret.name) {
            warnings.push(format!("{path}: duplicate name {}", quote(&secret.name)));
        }
    }
    let mut seen = HashSet::new();
    for (i, alias) in spec.host_aliases.iter().flatten().enumerate() {
        if !seen.insert(&alias.ip) {
            warnings.push(format!("{path}.hostAliases[{i}].ip: duplicate ip {}", quote(&alias.ip)));
        }
    }
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for (list, containers) in [
        ("initContainers", spec.init_containers.as_deref()),
        ("containers", Some(spec.containers.as_slice())),
    ] {
        for (i, one) in containers.unwrap_or_default().iter().enumerate() {
            container(warnings, &format!("{path}.{list}[{i}]"), one);
        }
    }
}

fn container(warnings: &mut Vec<String>, path: &str, container: &Container) {
    let mut seen = HashSet::new();
    for (i, variable) in container.env.iter().flatten().enumerate() {
        if !seen.insert(&variable.name) {
            warnings.push(format!(
                "{path}.env[{i}]: hides previous definition of {}, which may be dropped when using apply",
                quote(&variable.name)
            ));
        }
    }
    let mut seen = HashSet::new();
    for (i, port) in container.ports.iter().flatten().enumerate() {
        if !seen.insert((port.container_port, port.protocol.as_deref().unwrap_or("TCP"), port.host_port)) {
            warnings.push(format!("{path}.ports[{i}]: duplicate port definition"));
        }
    }
    if let Some(resources) = &container.resources {
        fractions(warnings, &format!("{path}.resources"), resources);
    }
}

/// Warns about fractions of a byte, mostly `100m` for an intended `100M`.
fn fractions(warnings: &mut Vec<String>, path: &str, resources: &ResourceRequirements) {
    for (list, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, quantity) in amounts.iter().flatten() {
            let amount = Amount::of(quantity);
            let bytes = matches!(name.as_str(), "memory" | "ephemeral-storage");
            if bytes && amount != Amount::from_units(amount.units()) {
                warnings.push(format!(
                    "{path}.{list}[{name}]: fractional byte value {} is invalid, must be an integer",
                    quote(&quantity.0)
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::NetworkPolicy;
    use serde_json::{Value, json};

    use crate::warnings::warnings_of;
    use object::{Kind, Object};

    fn pod(extra: &Value) -> Object {
        let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        Object::from_value(Kind::Pod, json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn odd_or_ineffective_fields_produce_warnings_api_16_api_17() {
        let container = |extra: Value| {
            let mut container = json!({"name": "c", "image": "x"});
            container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"containers": [container]})
        };
        for (extra, expected) in [
            (json!({}), vec![]),
            (
                json!({"imagePullSecrets": [{"name": ""}, {"name": "a"}, {"name": "a"}]}),
                vec![
                    "spec.imagePullSecrets[0].name: invalid empty name \"\"",
                    "spec.imagePullSecrets[2].name: duplicate name \"a\"",
                ],
            ),
            (
                json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
                vec![
                    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                ],
            ),
            (
                json!({"terminationGracePeriodSeconds": -1}),
                vec![
                    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be \
                     treated as 1",
                ],
            ),
            (
                container(json!({"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]})),
                vec![
                    "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using \
                     apply",
                ],
            ),
            (
                container(json!({"resources": {"limits": {"memory": "100m", "cpu": "100m"}}})),
                vec![
                    "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be \
                     an integer",
                ],
            ),
        ] {
            assert_eq!(warnings_of(&pod(&extra), None, false), expected, "{extra}");
        }
    }

    #[test]
    fn templates_are_checked_and_unchanged_ones_do_not_warn_again_api_16() {
        let set = |replicas: i32| {
            let template = json!({"spec": {"imagePullSecrets": [{}], "containers": []}});
            Object::from_value(
                Kind::Deployment,
                json!({"metadata": {"name": "d"}, "spec": {"replicas": replicas, "selector": {}, "template": template}}),
            )
            .unwrap()
        };
        let expected = ["spec.template.spec.imagePullSecrets[0].name: invalid empty name \"\""];
        assert_eq!(warnings_of(&set(1), None, false), expected);
        assert_eq!(warnings_of(&set(2), Some(&set(1)), false), expected);
        assert_eq!(warnings_of(&set(2), Some(&set(2)), false), Vec::<String>::new());
        let dotted = Object::from_value(Kind::Pod, json!({"metadata": {"name": "a.b"}})).unwrap();
        assert!(
            warnings_of(&dotted, None, false)[0]
                .starts_with("metadata.name: this is used in the Pod's hostname")
        );
    }

    #[test]
    fn a_network_policy_produces_a_warning_if_it_is_not_enforced_api_17() {
        let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"},
            "spec": {"podSelector": {}}});
        let policy: NetworkPolicy = serde_json::from_value(policy).unwrap();
        let policy = Object::new(policy);
        assert!(warnings_of(&policy, None, false)[0].starts_with("network policies are not enforced"));
        assert_eq!(warnings_of(&policy, None, true), Vec::<String>::new());
    }
}
