//! The content of admission requests: for every operation on an object, and for its subresources.

use http::Method;
use serde_json::{Value, json};

use super::server::{Reply, Webhook, allowed, patched};
use super::{MUTATING, VALIDATING, configure, hook, map, post};
use crate::http::{InMemoryServer, OWNER};

/// `OPERATION group/version/resource/subresource kind name object oldObject options`.
fn summary(request: &Value) -> String {
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_string();
    let kind_of = |field: &str| match &request[field] {
        Value::Null => "-".to_string(),
        object => format!(
            "{}:{}",
            object["apiVersion"].as_str().unwrap_or("?"),
            object["kind"].as_str().unwrap_or("?")
        ),
    };
    [
        text("/operation"),
        format!("{}/{}/{}", text("/resource/group"), text("/resource/version"), text("/resource/resource")),
        text("/subResource"),
        format!("{}/{}.{}", text("/kind/group"), text("/kind/version"), text("/kind/kind")),
        text("/name"),
        kind_of("object"),
        kind_of("oldObject"),
        kind_of("options"),
    ]
    .join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_receives_the_operation_and_its_target_api_16() {
    let webhook = Webhook::start(|_, review| Reply::Json(allowed(review)));
    let face = InMemoryServer::new();
    let labels = json!({"app": "web"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "nginx:1.7.9"}]}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "nginx:1.7.9"}]}}}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let namespaced = "/api/v1/namespaces/default";
    for (path, object) in [
        (format!("{namespaced}/pods"), &pod),
        ("/apis/apps/v1/namespaces/default/replicasets".into(), &set),
        (format!("{namespaced}/serviceaccounts"), &account),
    ] {
        let made = post(&face, &path, object).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    let rules =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    configure(
        &face,
        VALIDATING,
        "c",
        &[hook("w.made.test", &webhook.client_config("/"), &json!({"rules": rules}))],
    )
    .await;
    let old_autoscaler = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"}, "spec": {"maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r"}}});
    let merge = json!({"metadata": {"labels": {"x": "y"}}});
    let status = json!({"status": {"phase": "Running"}});
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "r", "namespace": "default"},
        "spec": {"replicas": 0}});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["a"], "expirationSeconds": 600}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let meta = "meta.k8s.io/v1";
    for (method, path, body, expected) in [
        (
            Method::POST,
            format!("{namespaced}/configmaps"),
            map("m"),
            vec![format!("CREATE /v1/configmaps - /v1.ConfigMap m v1:ConfigMap - {meta}:CreateOptions")],
        ),
        (
            Method::PATCH,
            format!("{namespaced}/configmaps/m"),
            merge.clone(),
            vec![format!(
                "UPDATE /v1/configmaps - /v1.ConfigMap m v1:ConfigMap v1:ConfigMap {meta}:UpdateOptions"
            )],
        ),
        (
            Method::DELETE,
            format!("{namespaced}/configmaps"),
            Value::Null,
            vec![format!("DELETE /v1/configmaps - /v1.ConfigMap m - v1:ConfigMap {meta}:DeleteOptions")],
        ),
        (
            Method::PATCH,
            format!("{namespaced}/pods/p/status"),
            status,
            vec![format!("UPDATE /v1/pods status /v1.Pod p v1:Pod v1:Pod {meta}:UpdateOptions")],
        ),
        (
            Method::PUT,
            "/apis/apps/v1/namespaces/default/replicasets/r/scale".into(),
            json!({"spec": {"replicas": 1}, "metadata": scale["metadata"]}),
            vec![format!(
                "UPDATE apps/v1/replicasets scale autoscaling/v1.Scale r autoscaling/v1:Scale autoscaling/v1:Scale \
                 {meta}:UpdateOptions"
            )],
        ),
        (
            Method::POST,
            "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers".into(),
            old_autoscaler,
            vec![format!(
                "CREATE autoscaling/v1/horizontalpodautoscalers - autoscaling/v1.HorizontalPodAutoscaler h \
                 autoscaling/v1:HorizontalPodAutoscaler - {meta}:CreateOptions"
            )],
        ),
        (
            Method::POST,
            format!("{namespaced}/serviceaccounts/default/token"),
            token,
            vec![format!(
                "CREATE /v1/serviceaccounts token authentication.k8s.io/v1.TokenRequest default \
                 authentication.k8s.io/v1:TokenRequest - {meta}:CreateOptions"
            )],
        ),
        (
            Method::POST,
            "/api/v1/namespaces".into(),
            namespace,
            vec![format!("CREATE /v1/namespaces - /v1.Namespace n v1:Namespace - {meta}:CreateOptions")],
        ),
        (
            Method::POST,
            format!("{namespaced}/pods/p/exec?command=id&stdout=true"),
            Value::Null,
            vec!["CONNECT /v1/pods exec /v1.PodExecOptions p v1:PodExecOptions - -".into()],
        ),
        (
            Method::GET,
            format!("{namespaced}/pods/p:80/proxy/x"),
            Value::Null,
            vec!["CONNECT /v1/pods proxy /v1.PodProxyOptions p v1:PodProxyOptions - -".into()],
        ),
        (
            Method::POST,
            format!("{namespaced}/pods/p/binding"),
            binding,
            vec![format!("CREATE /v1/pods binding /v1.Binding p v1:Binding - {meta}:CreateOptions")],
        ),
        (
            Method::POST,
            format!("{namespaced}/pods/p/eviction"),
            eviction,
            vec![format!(
                "CREATE /v1/pods eviction policy/v1.Eviction p policy/v1:Eviction - {meta}:CreateOptions"
            )],
        ),
    ] {
        let mut headers = vec![OWNER];
        if method == Method::PATCH {
            headers.push(("content-type", "application/merge-patch+json"));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = face.ask(method.clone(), &path, &headers, &body).await;
        let seen: Vec<_> = webhook.take_seen().iter().map(summary).collect();
        assert_eq!(seen, expected, "{method} {path}: {}", answer.body);
    }
}

/// With `Equivalent`, a webhook gets the object in its rule's version, and its patch applies; with `Exact`, it is not
/// called for another version.
#[tokio::test(flavor = "multi_thread")]
async fn an_equivalent_rule_receives_the_object_in_its_own_version_api_16() {
    let webhook = Webhook::start(|_, review| {
        Reply::Json(patched(review, &json!([{"op": "replace", "path": "/spec/maxReplicas", "value": 7}])))
    });
    let face = InMemoryServer::new();
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
        "resources": ["horizontalpodautoscalers"]}]);
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    for (policy, most) in [("Exact", 2), ("Equivalent", 7)] {
        let more = json!({"rules": rules, "matchPolicy": policy});
        configure(&face, MUTATING, "c", &[hook("w.made.test", &webhook.client_config("/"), &more)]).await;
        let old = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": policy.to_lowercase()}, "spec": {"maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        let made = post(&face, path, &old).await;
        assert_eq!(made.status, 201, "{}", made.body);
        assert_eq!(made.json()["spec"]["maxReplicas"], most, "{policy}");
    }
    let seen = webhook.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["object"]["apiVersion"], "autoscaling/v2");
    assert_eq!(
        (&seen[0]["requestResource"]["version"], &seen[0]["resource"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
}

/// A write of a part changes only that part, regardless of the webhook's other changes; and a scale is changed as a
/// scale.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_changes_no_more_than_the_request_may_api_16() {
    let webhook = Webhook::start(|path, review| {
        let patch = match path {
            "/status" => json!([{"op": "add", "path": "/metadata/uid", "value": "other"},
                {"op": "replace", "path": "/spec/replicas", "value": 5},
                {"op": "add", "path": "/status/observedGeneration", "value": 9}]),
            _ => json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]),
        };
        Reply::Json(patched(review, &patch))
    });
    let face = InMemoryServer::new();
    let labels = json!({"app": "web"});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "nginx:1.7.9"}]}}}});
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let made = post(&face, sets, &set).await.json();
    let rule = |resource: &str| json!([{"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": [resource]}]);
    let status =
        hook("s.made.test", &webhook.client_config("/status"), &json!({"rules": rule("replicasets/status")}));
    let scale =
        hook("c.made.test", &webhook.client_config("/scale"), &json!({"rules": rule("replicasets/scale")}));
    configure(&face, MUTATING, "c", &[status, scale]).await;
    let merge = [OWNER, ("content-type", "application/merge-patch+json")];
    let body = json!({"status": {"replicas": 1}}).to_string();
    let changed = face.ask(Method::PATCH, &format!("{sets}/r/status"), &merge, &body).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let changed = changed.json();
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(
        (
            &changed["spec"]["replicas"], &changed["status"]["replicas"],
            &changed["status"]["observedGeneration"]
        ),
        (&json!(0), &json!(1), &json!(9))
    );
    let body = json!({"spec": {"replicas": 1}}).to_string();
    let scaled = face.ask(Method::PATCH, &format!("{sets}/r/scale"), &merge, &body).await;
    assert_eq!(scaled.status, 200, "{}", scaled.body);
    assert_eq!(scaled.json()["spec"]["replicas"], 3);
}

/// A quota's usage is written while its books are locked: no webhook is called that could hold the lock.
#[tokio::test(flavor = "multi_thread")]
async fn quota_usage_is_written_without_calling_webhooks_api_16() {
    let webhook = Webhook::start(|_, _| Reply::Hangs);
    let face = InMemoryServer::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"configmaps": "5"}}});
    assert_eq!(post(&face, "/api/v1/namespaces/default/resourcequotas", &quota).await.status, 201);
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["resourcequotas", "resourcequotas/status"]}]);
    configure(
        &face,
        VALIDATING,
        "c",
        &[hook("w.made.test", &webhook.client_config("/"), &json!({"rules": rules}))],
    )
    .await;
    let key = podium::object::Key::new("default", "q");
    face.api.recount_quota(&key).unwrap();
    assert_eq!(post(&face, "/api/v1/namespaces/default/configmaps", &map("m")).await.status, 201);
    let used = face.get("/api/v1/namespaces/default/resourcequotas/q", &[]).await.json();
    assert_eq!(used["status"]["used"]["configmaps"], "1", "{used}");
    assert_eq!(webhook.seen().len(), 0);
}
