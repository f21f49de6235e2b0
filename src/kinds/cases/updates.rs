//! Fields that an update preserves although it leaves them out.

use serde_json::{Value, json};

use super::*;

fn updated(kind: Kind, new: Value, old: Value) -> Value {
    let mut new = Object::from_value(kind, new).unwrap();
    built_in(kind).carry_over(&mut new, &Object::from_value(kind, old).unwrap());
    new.to_value()
}

#[test]
fn services_keep_their_addresses_and_ports_api_5() {
    let old = json!({"spec": {"type": "NodePort", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"],
        "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}]}});
    let replaced = updated(
        Kind::Service,
        json!({"spec": {"type": "NodePort", "ports": [{"port": 81}, {"port": 80}]}}),
        old.clone(),
    );
    assert_eq!(
        replaced["spec"],
        json!({"type": "NodePort", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"],
            "ports": [{"port": 81}, {"port": 80, "nodePort": 30001}]})
    );
    let mut inward = old.clone();
    inward["spec"]["type"] = "ClusterIP".into();
    assert_eq!(
        updated(Kind::Service, inward, old.clone())["spec"],
        json!({"type": "ClusterIP", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"],
            "ports": [{"port": 80, "protocol": "TCP"}]})
    );
    let mut outward = old.clone();
    outward["spec"]["type"] = "ExternalName".into();
    assert_eq!(updated(Kind::Service, outward, old)["spec"]["clusterIP"], Value::Null);
}

#[test]
fn secrets_keep_their_type_and_namespaces_their_finalizers_api_5() {
    let secret = updated(Kind::Secret, json!({}), json!({"type": "kubernetes.io/tls"}));
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let namespace = updated(Kind::Namespace, json!({}), json!({"spec": {"finalizers": ["kubernetes"]}}));
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
}

/// Regression: `kubectl annotate` of a Deployment left its generation.
#[test]
fn annotations_of_a_deployment_count_as_changes_of_its_spec_api_5() {
    let deployment = |annotation: &str| {
        let value = json!({"metadata": {"generation": 3, "annotations": {"a": annotation}},
            "spec": {"selector": {}, "template": {}}});
        Object::from_value(Kind::Deployment, value).unwrap()
    };
    for (annotation, generation) in [("x", 3), ("y", 4)] {
        let mut new = deployment(annotation);
        built_in(Kind::Deployment).prepare_for_update(&mut new, &deployment("x"));
        assert_eq!(new.meta().generation, Some(generation), "{annotation}");
    }
}

/// Regression: slices and priority classes had no generation.
#[test]
fn slices_and_priority_classes_have_a_generation_api_5() {
    let create = |kind: Kind, value: Value| {
        let mut new = Object::from_value(kind, value).unwrap();
        built_in(kind).prepare_for_create(&mut new);
        new
    };
    let class = create(Kind::PriorityClass, json!({"value": 1}));
    let slice = create(Kind::EndpointSlice, json!({"addressType": "IPv4", "endpoints": []}));
    assert_eq!((class.meta().generation, slice.meta().generation), (Some(1), Some(1)));
    for (field, value, generation) in [
        ("/metadata/annotations", json!({"a": "b"}), 1),
        ("/metadata/labels", json!({"a": "b"}), 2),
        ("/endpoints", json!([{"addresses": ["10.0.0.1"]}]), 2),
        ("/ports", json!([{"port": 80}]), 2),
    ] {
        let mut next = json!({"addressType": "IPv4", "endpoints": [], "ports": null,
            "metadata": {"generation": 1, "annotations": {}, "labels": null}});
        *next.pointer_mut(field).unwrap() = value;
        let mut next = Object::from_value(Kind::EndpointSlice, next).unwrap();
        built_in(Kind::EndpointSlice).prepare_for_update(&mut next, &slice);
        assert_eq!(next.meta().generation, Some(generation), "{field}");
    }
}
