//! The status of validating admission policies (API-16).

use podium::api::WriteOptions;
use podium::object::{Key, Kind, Object};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES};

fn policy(expression: &str) -> Object {
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}]},
        "validations": [{"expression": expression}]}});
    Object::from_value(Kind::ValidatingAdmissionPolicy, policy).unwrap()
}

fn status(cluster: &Cluster) -> Value {
    let stored = cluster.store.get(Kind::ValidatingAdmissionPolicy, &Key::new("", "p")).unwrap();
    stored.to_value()["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_in_its_status_what_is_wrong_with_its_types_api_16() {
    let cluster = Cluster::start(NO_NODES);
    cluster.api.create(policy("object.foo == 'bar'"), &WriteOptions::default()).unwrap();
    cluster.settle().await;
    let warning = "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo == 'bar'\n | ......^\n";
    let expected = json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
        {"fieldRef": "spec.validations[0].expression", "warning": warning}]}});
    assert_eq!(status(&cluster), expected);
    let next = policy("object.spec.replicas > 1");
    let edit = |object: &Object| {
        let mut fresh = next.clone();
        fresh.meta_mut().clone_from(object.meta());
        Ok(fresh)
    };
    let key = Key::new("", "p");
    let part = podium::api::Part::Main;
    cluster.api.change(Kind::ValidatingAdmissionPolicy, &key, part, &WriteOptions::default(), edit).unwrap();
    cluster.settle().await;
    assert_eq!(status(&cluster), json!({"observedGeneration": 2, "typeChecking": {}}));
    cluster.stop().await;
}
