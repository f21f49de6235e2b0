//! The parameters of a policy, which are custom resources stored in another version.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::{V1, correct_answer, define, post, site, sites_converted_by};
use crate::http::InMemoryServer;
use crate::webhooks::server::{Reply, Webhook};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_sees_its_parameters_in_the_version_that_it_names_api_14_api_16() {
    let is_broken = std::sync::Arc::new(AtomicBool::new(false));
    let broken = is_broken.clone();
    let webhook = Webhook::start(move |_, review| {
        if broken.load(Ordering::Relaxed) {
            return Reply::Text(500, "oops".into());
        }
        Reply::Json(correct_answer(review))
    });
    let face = InMemoryServer::new();
    define(&face, &sites_converted_by(&webhook, "v1"));
    assert_eq!(post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await.0, 201);
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "paramKind": {"apiVersion": "conv.test/v2", "kind": "Site"},
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "params.apiVersion == 'conv.test/v2' && object.data.port == params.spec.port",
            "messageExpression": "'port ' + params.spec.port + ' of ' + params.spec.host"}]}});
    assert_eq!(post(&face, &format!("{ADMISSION}/validatingadmissionpolicies"), &policy).await.0, 201);
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "a", "namespace": "default", "parameterNotFoundAction": "Deny"}}});
    assert_eq!(post(&face, &format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding).await.0, 201);
    let map = |port: &str| json!({"metadata": {"name": "m"}, "data": {"port": port}});
    assert_eq!(post(&face, MAPS, &map("1")).await.0, 201);
    let (code, refused) = post(&face, MAPS, &map("2")).await;
    let message = refused["message"].as_str().unwrap();
    assert!(code == 422 && message.ends_with("port 1 of h"), "{code} {message}");
    // The converter fails.
    is_broken.store(true, Ordering::Relaxed);
    let (code, refused) = post(&face, MAPS, &map("1")).await;
    let message = refused["message"].as_str().unwrap();
    assert!(
        code >= 400 && message.contains("conversion webhook for conv.test/v1, Kind=Site failed"),
        "{refused}"
    );
}
