//! A webhook's responses and their effects, and requests without a response.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::server::{Reply, Webhook, allowed, denied, patched};
use super::{GROUP, MAPS, MUTATING, VALIDATING, configure, hook, map, post, status_and_message};
use crate::controllers::cluster::{Cluster, NO_NODES};
use crate::http::{InMemoryServer, OWNER};
use k8s_openapi::api::apps::v1::ReplicaSet;
use podium::api::{ApiConfig, WriteOptions};
use podium::object::config::Limits;
use podium::object::{Kind, Object};

/// A sidecar is injected into the pods that a ReplicaSet creates: actors of this process pass webhooks like all other
/// clients. The sidecar gets the plugins' additions to containers (the account's token) as well.
#[tokio::test(start_paused = true)]
async fn a_sidecar_is_injected_into_the_pods_of_a_replica_set_api_16() {
    let webhook = Webhook::start(|_, review| {
        let sidecar = json!({"name": "sidecar", "image": "nginx:1.7.9"});
        Reply::Json(patched(review, &json!([{"op": "add", "path": "/spec/containers/-", "value": sidecar}])))
    });
    let cluster = Cluster::start(NO_NODES);
    let rules =
        json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]);
    let injector = hook("sidecar.made.test", &webhook.client_config("/"), &json!({"rules": rules}));
    let configuration = json!({"metadata": {"name": "injector"}, "webhooks": [injector]});
    let configuration = Object::from_value(Kind::MutatingWebhookConfiguration, configuration).unwrap();
    cluster.api.create(configuration, &WriteOptions::default()).unwrap();
    let labels = json!({"app": "web"});
    cluster.create::<ReplicaSet>(json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "nginx:1.7.9"}]}}}}));
    cluster.settle().await;
    let pods = cluster.pods();
    assert_eq!(pods.len(), 2);
    for pod in pods {
        let containers = &pod.spec.as_ref().unwrap().containers;
        let described: Vec<_> = containers
            .iter()
            .map(|c| {
                (c.name.as_str(), c.volume_mounts.as_ref().map_or(0, Vec::len), c.image_pull_policy.clone())
            })
            .collect();
        let pull = Some("IfNotPresent".to_string());
        assert_eq!(described, [("main", 1, pull.clone()), ("sidecar", 1, pull)]);
    }
    let seen = webhook.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0]["userInfo"]["username"], "system:apiserver", "{}", seen[0]);
    assert_eq!((&seen[0]["name"], &seen[0]["object"]["metadata"]["name"]), (&Value::Null, &Value::Null));
    assert_eq!(seen[0]["object"]["metadata"]["generateName"], "web-");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_followed_or_refused_in_kubernetes_words_api_16() {
    let webhook = Webhook::start(|path, review| match path {
        "/deny" => {
            Reply::Json(denied(review, &json!({"code": 403, "reason": "Forbidden", "message": "not today"})))
        }
        "/silent" => Reply::Json(denied(review, &Value::Null)),
        "/uid" => {
            let mut answer = allowed(review);
            answer["response"]["uid"] = "another".into();
            Reply::Json(answer)
        }
        "/garbage" => Reply::Text(200, "<html>".into()),
        "/long" => Reply::Text(200, "x".repeat(4 * 1024 * 1024)),
        "/error" => Reply::Text(500, "oops\n".into()),
        "/missing" => Reply::Text(404, String::new()),
        "/moved" => Reply::Text(302, String::new()),
        "/patch" => Reply::Json(patched(review, &json!([{"op": "add", "path": "/data/b", "value": "2"}]))),
        "/broken" => Reply::Json(patched(review, &json!([{"op": "replace", "path": "/data", "value": 7}]))),
        "/nowhere" => Reply::Json(patched(review, &json!([{"op": "remove", "path": "/spec"}]))),
        "/away" => Reply::Json(patched(
            review,
            &json!([{"op": "replace", "path": "/metadata/namespace", "value": "x"}]),
        )),
        "/invalid" => Reply::Json(patched(review, &json!([{"op": "add", "path": "/data/~1", "value": "2"}]))),
        _ => Reply::Json(allowed(review)),
    });
    let face = InMemoryServer::new();
    let failed = "Internal error occurred: failed calling webhook \"w.made.test\": ";
    let call = "failed to call webhook: ";
    let by = "admission webhook \"w.made.test\" denied the request";
    for (sort, path, code, expected) in [
        (VALIDATING, "/", 201, String::new()),
        (VALIDATING, "/deny", 403, format!("{by}: not today")),
        (MUTATING, "/deny", 403, format!("{by}: not today")),
        (VALIDATING, "/silent", 400, format!("{by} without explanation")),
        (VALIDATING, "/garbage", 500, format!("{failed}couldn't get version/kind; json parse error: ")),
        (VALIDATING, "/long", 500, format!("{failed}{call}the response is longer than 3145728 bytes")),
        (
            VALIDATING,
            "/error",
            500,
            format!(
                "{failed}{call}an error on the server (\"oops\") has prevented the request from succeeding"
            ),
        ),
        (
            VALIDATING,
            "/missing",
            500,
            format!("{failed}{call}the server could not find the requested resource"),
        ),
        (VALIDATING, "/moved", 500, format!("{failed}{call}the server responded with the status code 302")),
        (
            VALIDATING,
            "/uid",
            500,
            format!("{failed}received invalid webhook response: expected response.uid="),
        ),
        (
            VALIDATING,
            "/patch",
            500,
            format!(
                "{failed}received invalid webhook response: validating webhook may not return response.patch"
            ),
        ),
        (MUTATING, "/patch", 201, String::new()),
        (MUTATING, "/broken", 500, "Internal error occurred: cannot decode ConfigMap: ".into()),
        (MUTATING, "/nowhere", 500, "Internal error occurred: remove operation does not apply".into()),
        (MUTATING, "/away", 400, "the namespace of the provided object does not match".into()),
        (MUTATING, "/invalid", 422, "ConfigMap \"m-invalid\" is invalid: data[/]: ".into()),
    ] {
        configure(&face, MUTATING, "c", &[]).await;
        configure(&face, VALIDATING, "c", &[]).await;
        configure(&face, sort, "c", &[hook("w.made.test", &webhook.client_config(path), &json!({}))]).await;
        let name = format!("m-{}{}", path.trim_start_matches('/'), if sort == MUTATING { "" } else { "v" });
        let answer = post(&face, MAPS, &map(&name)).await;
        let (status, message) = status_and_message(&answer);
        assert_eq!(status, code, "{sort} {path}: {message}");
        assert!(message.starts_with(&expected), "{sort} {path}: {message}");
        if (sort, path) == (MUTATING, "/patch") {
            assert_eq!(answer.json()["data"], json!({"a": "1", "b": "2"}));
        }
    }
}

/// No server, no response, a wrong server: the failure policy decides.
#[tokio::test(flavor = "multi_thread")]
async fn the_failure_policy_decides_about_an_unreachable_webhook_api_16() {
    let webhook = Webhook::start(|_, _| Reply::Hangs);
    let stranger = Webhook::start(|_, review| Reply::Json(allowed(review)));
    let face = InMemoryServer::new();
    let closed = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let mut refused = webhook.client_config("/");
    refused["url"] = format!("https://{closed}/").into();
    let mut untrusted = stranger.client_config("/");
    untrusted["caBundle"] = webhook.client_config("/")["caBundle"].clone();
    let mut no_bundle = webhook.client_config("/");
    no_bundle["caBundle"] = "bm90aGluZw==".into();
    let lost = json!({"service": {"name": "none", "namespace": "default", "path": "/x"},
        "caBundle": webhook.client_config("/")["caBundle"]});
    for (what, config, expected) in [
        ("hangs", webhook.client_config("/"), "?timeout=1s\": context deadline exceeded".to_string()),
        ("refused", refused, format!("?timeout=1s\": dial tcp {closed}: connect: connection refused")),
        (
            "untrusted",
            untrusted,
            "tls: failed to verify certificate: x509: certificate signed by unknown authority".into(),
        ),
        ("bundle", no_bundle, "unable to load root certificates: unable to parse bytes as PEM block".into()),
        ("lost", lost, "service \"none\" not found".into()),
    ] {
        for (policy, code) in [("Fail", 500), ("Ignore", 201)] {
            for sort in [MUTATING, VALIDATING] {
                configure(&face, MUTATING, "c", &[]).await;
                configure(&face, VALIDATING, "c", &[]).await;
                let more = json!({"failurePolicy": policy, "timeoutSeconds": 1});
                configure(&face, sort, "c", &[hook("w.made.test", &config, &more)]).await;
                let name = format!("{what}-{}", sort.to_lowercase());
                let (status, message) = status_and_message(&post(&face, MAPS, &map(&name)).await);
                assert_eq!(status, code, "{what} {policy} {sort}: {message}");
                assert!(code == 201 || message.ends_with(&expected), "{what} {sort}: {message}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_service_is_called_by_its_own_name_api_16() {
    let ip = "127.72.213.9".parse().unwrap();
    let webhook = Webhook::start_at(ip, "guard.default.svc", |_, review| {
        Reply::Json(denied(review, &json!({"message": review["request"]["name"]})))
    });
    let face = InMemoryServer::new();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "guard"},
        "spec": {"ports": [{"name": "web", "port": 443, "targetPort": webhook.address.port()}]}});
    let made = post(&face, "/api/v1/namespaces/default/services", &service).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let bundle = webhook.client_config("/")["caBundle"].clone();
    let config =
        json!({"service": {"name": "guard", "namespace": "default", "path": "/x"}, "caBundle": bundle});
    configure(&face, VALIDATING, "c", &[hook("w.made.test", &config, &json!({}))]).await;
    let (_, message) = status_and_message(&post(&face, MAPS, &map("m")).await);
    assert!(message.contains("failed to call webhook: "), "no endpoints yet: {message}");
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "guard"},
        "subsets": [{"addresses": [{"ip": "127.72.213.9"}], "ports": [{"name": "web", "port": webhook.address.port()}]}]});
    let made = post(&face, "/api/v1/namespaces/default/endpoints", &endpoints).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let (code, message) = status_and_message(&post(&face, MAPS, &map("m")).await);
    assert_eq!((code, message.as_str()), (400, "admission webhook \"w.made.test\" denied the request: m"));
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_reach_the_client_also_of_what_is_refused_api_16() {
    let webhook = Webhook::start(|path, review| {
        let mut answer =
            if path == "/deny" { denied(review, &json!({"message": "no"})) } else { allowed(review) };
        answer["response"]["warnings"] = json!(["mind the gap", "mind the gap", "a \"quoted\" one"]);
        Reply::Json(answer)
    });
    let face = InMemoryServer::new();
    for (path, code) in [("/", 201), ("/deny", 400)] {
        configure(&face, VALIDATING, "c", &[hook("w.made.test", &webhook.client_config(path), &json!({}))])
            .await;
        let answer = post(&face, MAPS, &map("m")).await;
        assert_eq!(answer.status, code, "{}", answer.body);
        let warnings: Vec<_> =
            answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(warnings, ["299 - \"mind the gap\"", "299 - \"a \\\"quoted\\\" one\""]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_asks_only_webhooks_without_side_effects_api_16() {
    let webhook = Webhook::start(|_, review| Reply::Json(allowed(review)));
    let face = InMemoryServer::new();
    let dry = format!("{MAPS}?dryRun=All");
    configure(&face, VALIDATING, "c", &[hook("w.made.test", &webhook.client_config("/"), &json!({}))]).await;
    assert_eq!(post(&face, &dry, &map("m")).await.status, 201);
    let seen = webhook.take_seen();
    assert_eq!((&seen[0]["dryRun"], &seen[0]["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    // Stored configurations may still have this value; new ones are refused.
    let old = json!({"sideEffects": "Some"});
    let old = json!({"metadata": {"name": "c"}, "webhooks": [hook("w.made.test", &webhook.client_config("/"), &old)]});
    let path = format!("{GROUP}/validatingwebhookconfigurations");
    let refused = post(&face, &path, &old).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
}

/// In the order of the configurations' names; a webhook with reinvocation is called again for a changed object.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_called_in_order_and_again_after_the_object_changed_api_16() {
    let webhook = Webhook::start(|path, review| {
        let steps = review["request"]["object"]["data"]["steps"].as_str().unwrap_or_default();
        let steps = format!("{steps}{}", path.trim_start_matches('/'));
        Reply::Json(patched(review, &json!([{"op": "add", "path": "/data/steps", "value": steps}])))
    });
    let face = InMemoryServer::new();
    let one = |name: &str, path: &str, again: &str| {
        hook(name, &webhook.client_config(path), &json!({"reinvocationPolicy": again}))
    };
    configure(
        &face,
        MUTATING,
        "b",
        &[one("d.made.test", "/d", "Never"), one("e.made.test", "/e", "IfNeeded")],
    )
    .await;
    configure(
        &face,
        MUTATING,
        "a",
        &[one("a.made.test", "/a", "IfNeeded"), one("c.made.test", "/c", "Never")],
    )
    .await;
    let answer = post(&face, MAPS, &map("m")).await;
    // At the second call, `a` changes the object again, so that `e` is called again.
    assert_eq!(answer.json()["data"]["steps"], "acdeae", "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_and_conditions_exempt_what_they_do_not_mean_api_16() {
    let webhook = Webhook::start(|_, review| Reply::Json(denied(review, &json!({"message": "no"}))));
    let face = InMemoryServer::new();
    let exempt = json!({"metadata": {"name": "exempt", "labels": {"exempt": "yes"}}});
    assert_eq!(post(&face, "/api/v1/namespaces", &exempt).await.status, 201);
    let selector = json!({"matchExpressions": [{"key": "exempt", "operator": "DoesNotExist"}]});
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    for (more, namespace, code) in [
        (json!({"namespaceSelector": selector}), "exempt", 201),
        (json!({"namespaceSelector": selector}), "default", 400),
        (json!({"objectSelector": {"matchLabels": {"a": "b"}}}), "default", 201),
        (json!({"objectSelector": {"matchLabels": {"l": "1"}}}), "default", 400),
        (condition("object.metadata.name != 'm'"), "default", 201),
        (
            condition("object.data.a == '1' && oldObject == null && request.operation == 'CREATE'"),
            "default",
            400,
        ),
        (condition("request.userInfo.username != 'podium-admin'"), "default", 201),
        (condition("object.nothing.there == 1"), "default", 403),
        (
            condition(
                "authorizer.requestResource.check('create').allowed() && namespaceObject.metadata.name == 'default'",
            ),
            "default",
            400,
        ),
        (
            condition("authorizer.serviceAccount('default', 'missing').path('/').check('get').allowed()"),
            "default",
            201,
        ),
    ] {
        configure(&face, VALIDATING, "c", &[hook("w.made.test", &webhook.client_config("/"), &more)]).await;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let mut labelled = map("m");
        labelled["metadata"]["labels"] = json!({"l": "1"});
        let answer = post(&face, &path, &labelled).await;
        assert_eq!(answer.status.as_u16(), code, "{more}: {}", answer.body);
        face.ask(Method::DELETE, &format!("{path}/m"), &[OWNER], "").await;
    }
    let broken = json!({"metadata": {"name": "d"}, "webhooks":
        [hook("w.made.test", &webhook.client_config("/"), &condition("params.a == 1"))]});
    let refused = post(&face, &format!("{GROUP}/validatingwebhookconfigurations"), &broken).await;
    let (code, message) = status_and_message(&refused);
    assert_eq!(code, 422, "{message}");
    assert!(message.contains("undeclared reference to 'params'"), "{message}");
}

/// A configuration that refuses everything can still be deleted: webhooks are never called for webhook configurations.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_blocks_everything_can_be_deleted_api_16() {
    let webhook = Webhook::start(|_, review| Reply::Json(denied(review, &json!({"message": "no"}))));
    let face = InMemoryServer::new();
    let rules =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    for sort in [MUTATING, VALIDATING] {
        let all = hook("w.made.test", &webhook.client_config("/"), &json!({"rules": rules}));
        configure(&face, sort, "c", &[all]).await;
    }
    assert_eq!(post(&face, MAPS, &map("m")).await.status, 400);
    for sort in ["mutating", "validating"] {
        let path = format!("{GROUP}/{sort}webhookconfigurations/c");
        let gone = face.ask(Method::DELETE, &path, &[OWNER], "").await;
        assert_eq!(gone.status, 200, "{}", gone.body);
    }
    assert_eq!(post(&face, MAPS, &map("m")).await.status, 201);
}

/// An update that changes nothing still calls the webhook, which can refuse it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_without_changes_still_calls_the_webhook_api_16() {
    let webhook = Webhook::start(|_, review| {
        let is_update = review["request"]["operation"] == "UPDATE";
        Reply::Json(if is_update { denied(review, &json!({"message": "no"})) } else { allowed(review) })
    });
    let face = InMemoryServer::new();
    let rules =
        json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let webhooks = [hook("w.made.test", &webhook.client_config("/"), &json!({ "rules": rules }))];
    configure(&face, VALIDATING, "c", &webhooks).await;
    assert_eq!(post(&face, MAPS, &map("m")).await.status, 201);
    let merge = [OWNER, ("content-type", "application/merge-patch+json")];
    let refused = face.ask(Method::PATCH, &format!("{MAPS}/m"), &merge, "{}").await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(webhook.seen().len(), 2);
}

/// A namespace that is deleted during a webhook's call accepts no object that would outlive it (API-10).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_may_be_deleted_during_a_webhook_call_api_16() {
    let webhook = Webhook::start(|_, _| Reply::Hangs);
    let face = std::sync::Arc::new(InMemoryServer::new());
    configure(&face, VALIDATING, "c", &[hook("w.made.test", &webhook.client_config("/"), &json!({}))]).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}});
    assert_eq!(post(&face, "/api/v1/namespaces", &namespace).await.status, 201);
    let maps = "/api/v1/namespaces/going/configmaps";
    let writer = tokio::spawn({
        let face = face.clone();
        async move { post(&face, maps, &map("m")).await }
    });
    let called = async {
        while webhook.seen().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), called).await.unwrap();
    let gone = face.ask(Method::DELETE, "/api/v1/namespaces/going", &[OWNER], "").await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    webhook.release();
    let refused = writer.await.unwrap();
    assert!([403, 404].contains(&refused.status.as_u16()), "{}", refused.body);
    assert_eq!(face.get(maps, &[]).await.json()["items"], json!([]));
}

/// A webhook that hangs blocks a bounded number of requests, each of its own kind; all others are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_writers_wait_for_a_webhook_without_blocking_others_api_16() {
    const MAX_CONCURRENT_CALLS: usize = 16;
    let (webhook, works) =
        (Webhook::start(|_, _| Reply::Hangs), Webhook::start(|_, r| Reply::Json(allowed(r))));
    let face = std::sync::Arc::new(InMemoryServer::new());
    configure(&face, VALIDATING, "c", &[hook("w.made.test", &webhook.client_config("/"), &json!({}))]).await;
    // A second webhook is called for the same kind, and for others.
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps", "services", "secrets"]}]);
    let both = [hook("w.made.test", &works.client_config("/"), &json!({ "rules": rules }))];
    configure(&face, VALIDATING, "d", &both).await;
    configure(&face, MUTATING, "d", &both).await;
    let writers: Vec<_> = (0..200)
        .map(|i| {
            let face = face.clone();
            tokio::spawn(async move { post(&face, MAPS, &map(&format!("m{i}"))).await.status.as_u16() })
        })
        .collect();
    let patience = Duration::from_mins(1);
    let all_wait = async {
        while webhook.seen().len() < MAX_CONCURRENT_CALLS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(patience, all_wait).await.unwrap();
    let others = async {
        for i in 0..50 {
            assert_eq!(face.get(MAPS, &[]).await.status, 200);
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{i}")}});
            assert_eq!(post(&face, "/api/v1/namespaces/default/secrets", &secret).await.status, 201);
        }
    };
    tokio::time::timeout(patience, others).await.unwrap();
    assert_eq!(webhook.seen().len(), MAX_CONCURRENT_CALLS, "the others wait for their turn");
    webhook.release();
    for writer in writers {
        assert_eq!(tokio::time::timeout(patience, writer).await.unwrap().unwrap(), 201);
    }
    assert_eq!(webhook.seen().len(), 200);
}

/// A request that waits for a webhook has no seat: requests of the webhook itself at the same level are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_a_webhook_occupies_no_seat_api_16() {
    let webhook = Webhook::start(|_, _| Reply::Hangs);
    let api_config = ApiConfig {
        limits: Limits { max_requests_in_flight: Some(1), ..Limits::default() },
        ..ApiConfig::default()
    };
    let face = std::sync::Arc::new(InMemoryServer::of(api_config));
    face.api.reconcile_flow_control().unwrap();
    let everything = json!({"metadata": {"name": "all"},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    let bound = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "someone"}]});
    for (kind, body) in [("clusterroles", everything), ("clusterrolebindings", bound)] {
        let made = post(&face, &format!("/apis/rbac.authorization.k8s.io/v1/{kind}"), &body).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    configure(&face, VALIDATING, "c", &[hook("w.made.test", &webhook.client_config("/"), &json!({}))]).await;
    let someone = [OWNER, ("impersonate-user", "someone")];
    let writers: Vec<_> = (0..30)
        .map(|i| {
            let face = face.clone();
            let body = map(&format!("m{i}")).to_string();
            tokio::spawn(async move { face.ask(Method::POST, MAPS, &someone, &body).await.status.as_u16() })
        })
        .collect();
    let called = async {
        while webhook.seen().len() < 16 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), called).await.expect("they wait for it");
    let answered = face.ask(Method::GET, MAPS, &someone, "").await;
    assert_eq!(answered.status, 200, "{}", answered.body);
    assert!(writers.iter().all(|writer| !writer.is_finished()));
    webhook.release();
    for writer in writers {
        assert_eq!(writer.await.unwrap(), 201);
    }
}
