//! The storage version of objects, and its migration.

use http::Method;
use serde_json::{Value, json};

use super::{
    V1, V2, ask, calls, converter, define, get, merge, post, site, sites, sites_converted_by, stored,
};
use crate::added_kind::Client;
use crate::controllers::cluster::{Cluster, NO_NODES};
use crate::http::InMemoryServer;
use crate::webhooks::server::{Reply, Webhook};

#[tokio::test(flavor = "multi_thread")]
async fn objects_stored_in_an_old_version_are_read_and_migrated_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    let kind = define(&face, &sites_converted_by(&webhook, "v1"));
    for name in ["a", "b"] {
        post(&face, V1, &site("v1", name, &json!({"hostPort": "h:1"}))).await;
    }
    define(&face, &sites_converted_by(&webhook, "v2"));
    assert_eq!(stored(&face, kind, "a")["apiVersion"], "conv.test/v1");
    calls(&webhook);
    assert_eq!(get(&face, &format!("{V1}/a")).await.1["spec"], json!({"hostPort": "h:1"}));
    assert!(calls(&webhook).is_empty(), "it is in that version yet");
    assert_eq!(get(&face, &format!("{V2}/a")).await.1["spec"], json!({"host": "h", "port": "1"}));
    assert_eq!(calls(&webhook), [1]);

    // As storage migration does it: it writes existing objects unchanged.
    for (path, version) in [(V2, "a"), (V1, "b")] {
        let (_, current) = get(&face, &format!("{path}/{version}")).await;
        let (status, written) =
            ask(&face, Method::PUT, &format!("{path}/{version}"), "application/json", &current).await;
        assert_eq!((status, &written["spec"]), (200, &current["spec"]), "{written}");
        assert_ne!(written["metadata"]["resourceVersion"], current["metadata"]["resourceVersion"]);
        let saved = stored(&face, kind, version);
        assert_eq!(
            (&saved["apiVersion"], &saved["spec"]),
            (&json!("conv.test/v2"), &json!({"host": "h", "port": "1"}))
        );
    }
    // In a mixed list, only the objects in other versions are converted.
    define(&face, &sites_converted_by(&webhook, "v1"));
    merge(&face, &format!("{V1}/a"), &json!({"spec": {"hostPort": "h:2"}})).await;
    calls(&webhook);
    let (_, list) = get(&face, V1).await;
    let specs: Vec<_> = list["items"].as_array().unwrap().iter().map(|o| &o["spec"]["hostPort"]).collect();
    assert_eq!((specs, calls(&webhook)), (vec![&json!("h:2"), &json!("h:1")], vec![1]));
}

/// Versions that differ only in their schemas: fields that the requested version does not have are not shown, and its
/// defaults are.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_webhook_an_object_shows_what_its_version_has_api_14() {
    let face = InMemoryServer::new();
    let kind = define(&face, &sites(&json!({"strategy": "None"}), "v2"));
    let (_, made) = post(&face, V2, &site("v2", "a", &json!({"host": "h", "replicas": 2}))).await;
    assert_eq!(made["spec"], json!({"host": "h", "port": "80", "replicas": 2}));
    assert_eq!(get(&face, &format!("{V1}/a")).await.1["spec"], json!({"replicas": 2}));
    let (_, made) = post(&face, V1, &site("v1", "b", &json!({"hostPort": "h:1", "replicas": 3}))).await;
    assert_eq!(made["spec"], json!({"replicas": 3}), "fields that the stored version lacks are dropped");
    assert_eq!(stored(&face, kind, "b")["spec"], json!({"port": "80", "replicas": 3}));
}

/// A namespace, its objects and their definition can be deleted without the converter.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_emptied_without_the_converter_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let webhook = Webhook::start(|_, _| Reply::Text(500, "no".into()));
    let spec = sites_converted_by(&webhook, "v1");
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.conv.test"}, "spec": spec});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, made) = client.create(definitions, &definition).await;
    assert_eq!(status, 201, "{made}");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    client.create("/api/v1/namespaces", &namespace).await;
    cluster.settle().await;
    let team = "/apis/conv.test/v1/namespaces/team/sites";
    assert_eq!(client.create(team, &site("v1", "a", &json!({"hostPort": "h:1"}))).await.0, 201);
    // From now on, stored objects are in an earlier version.
    let path = format!("{definitions}/sites.conv.test");
    let (_, mut current) = client.ask(Method::GET, &path, &[], &Value::Null).await;
    for (i, version) in ["v1", "v2", "v3"].into_iter().enumerate() {
        current["spec"]["versions"][i]["storage"] = json!(version == "v2");
    }
    let json_type = [("content-type", "application/json")];
    let (status, changed) = client.ask(Method::PUT, &path, &json_type, &current).await;
    assert_eq!(
        (status.as_u16(), &changed["status"]["storedVersions"]),
        (200, &json!(["v1", "v2"])),
        "{changed}"
    );
    client.ask(Method::DELETE, "/api/v1/namespaces/team", &[], &Value::Null).await;
    cluster.pass(60).await;
    assert_eq!(client.ask(Method::GET, "/api/v1/namespaces/team", &[], &Value::Null).await.0, 404);
    client.ask(Method::DELETE, &path, &[], &Value::Null).await;
    cluster.settle().await;
    assert_eq!(client.ask(Method::GET, &path, &[], &Value::Null).await.0, 404);
    assert!(calls(&webhook).is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_conversion_with_faults_is_refused_in_kubernetes_words_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let url = json!({"url": "https://a.b/c"});
    let webhook = |client: &Value, versions: Value| json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": versions}});
    let at = "spec.conversion";
    for (conversion, expected) in [
        (
            json!({"strategy": "Other"}),
            format!("{at}.strategy: Unsupported value: \"Other\": supported values: \"None\", \"Webhook\""),
        ),
        (
            json!({"strategy": "Webhook"}),
            format!("{at}.webhookClientConfig: Required value: required when strategy is set to Webhook"),
        ),
        (
            json!({"strategy": "None", "webhook": {"clientConfig": url, "conversionReviewVersions": []}}),
            format!(
                "{at}.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook"
            ),
        ),
        (
            json!({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}),
            format!(
                "{at}.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook"
            ),
        ),
        (
            webhook(&json!({}), json!(["v1"])),
            format!("{at}.webhookClientConfig: Required value: exactly one of url or service is required"),
        ),
        (
            webhook(
                &json!({"url": "https://a.b", "service": {"name": "a", "namespace": "b"}}),
                json!(["v1"]),
            ),
            format!("{at}.webhookClientConfig: Required value: exactly one of url or service is required"),
        ),
        (
            webhook(&json!({"url": "http://a.b"}), json!(["v1"])),
            format!(
                "{at}.webhookClientConfig.url: Invalid value: \"http://a.b\": 'https' is the only allowed URL scheme"
            ),
        ),
        (
            webhook(&json!({"service": {"name": "", "namespace": "b"}}), json!(["v1"])),
            format!("{at}.webhookClientConfig.service.name: Required value: service name is required"),
        ),
        (
            webhook(&json!({"service": {"name": "a", "namespace": "b", "path": "x"}}), json!(["v1"])),
            format!("{at}.webhookClientConfig.service.path: Invalid value: \"x\": must start with a '/'"),
        ),
        (webhook(&url, json!([])), format!("{at}.conversionReviewVersions: Required value")),
        (
            webhook(&url, json!(["v2"])),
            format!(
                "{at}.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1"
            ),
        ),
        (
            webhook(&url, json!(["v1", "v1"])),
            format!("{at}.conversionReviewVersions[1]: Invalid value: \"v1\": duplicate version"),
        ),
        (
            webhook(&url, json!(["v1", "V"])),
            format!("{at}.conversionReviewVersions[1]: Invalid value: \"V\": "),
        ),
    ] {
        let definition = json!({"metadata": {"name": "sites.conv.test"}, "spec": sites(&conversion, "v1")});
        let (status, refused) = client.create(definitions, &definition).await;
        assert_eq!(status, 422, "{conversion}: {refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(&expected), "{message}\n{expected}");
    }
    let service = json!({"service": {"name": "a", "namespace": "b"}, "caBundle": "Cg=="});
    let conversion = webhook(&service, json!(["v2", "v1"]));
    let definition = json!({"metadata": {"name": "sites.conv.test"}, "spec": sites(&conversion, "v1")});
    let (status, made) = client.create(definitions, &definition).await;
    assert_eq!(status, 201, "the authority may be filled in later: {made}");
    assert_eq!(made["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
    cluster.stop().await;
}
