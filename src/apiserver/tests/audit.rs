//! The audit log's events of requests (API-19).

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;

use super::*;
use crate::audit::{AuditFile, AuditLog, AuditPolicy};

struct AuditFixture {
    client: Client,
    log: AuditLog,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl AuditFixture {
    /// A cluster with the namespace `default` and this audit policy.
    async fn with_rules(rules: &str) -> Self {
        let policy = format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: {rules}"
        );
        Self::with(AuditPolicy::read(&policy).unwrap()).await
    }

    async fn with(policy: AuditPolicy) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut client = Client::new().await;
        let file = AuditFile {
            path: Some(path.clone()),
            max_bytes: 1 << 30,
            max_backups: 0,
            max_age: Duration::ZERO,
        };
        let log = AuditLog::start(client.server.api(), policy, file).unwrap();
        client.server = client.server.audited_by(log.clone());
        Self { client, log, path, _directory: directory }
    }

    /// All events in the log.
    async fn events(&self) -> Vec<Value> {
        self.log.flush().await;
        let text = std::fs::read_to_string(&self.path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn last(&self) -> Value {
        self.events().await.pop().unwrap()
    }

    /// Sends a request with these headers, and reads its whole response.
    async fn send_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> http::response::Parts {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.server.handle(request.body(Body::empty()).unwrap()).await;
        let (parts, body) = response.into_parts();
        body.collect().await.unwrap();
        parts
    }
}

#[tokio::test]
async fn the_audit_log_records_user_request_and_result_api_19() {
    let audited = AuditFixture::with_rules("[{level: Metadata}]").await;
    let client = &audited.client;
    client
        .post(&format!("{MAPS}?fieldManager=me"), &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))
        .await;
    let event = audited.last().await;
    let (received, stage) = (event["requestReceivedTimestamp"].clone(), event["stageTimestamp"].clone());
    assert_eq!(received.as_str().unwrap().len(), "2026-11-21T00:00:00.000000Z".len(), "{received}");
    let id = event["auditID"].clone();
    assert_eq!(id.as_str().unwrap().len(), 36);
    let expected = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": id,
        "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/default/configmaps?fieldManager=me",
        "verb": "create",
        "user": {"username": "podium-admin", "groups": ["system:masters", "system:authenticated"]},
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": received, "stageTimestamp": stage,
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    });
    assert_eq!(event, expected);
    client.get("/apis/apps/v1/namespaces/default/deployments/none/scale").await;
    let event = audited.last().await;
    let of = json!({"resource": "deployments", "namespace": "default", "name": "none", "apiGroup": "apps",
        "apiVersion": "v1", "subresource": "scale"});
    assert_eq!((&event["verb"], &event["objectRef"]), (&json!("get"), &of));
    let status = &event["responseStatus"];
    assert_eq!(
        (&status["status"], &status["reason"], &status["code"]),
        (&json!("Failure"), &json!("NotFound"), &json!(404))
    );
    assert_eq!((status.get("kind"), status["details"]["name"].as_str()), (None, Some("none")));
    client.delete(&format!("{MAPS}/a"), &json!({})).await;
    assert_eq!(audited.last().await["responseStatus"]["status"], "Success");
    client.get("/healthz?verbose").await;
    let event = audited.last().await;
    assert_eq!((&event["verb"], &event["requestURI"]), (&json!("get"), &json!("/healthz?verbose")));
    assert_eq!(event.get("objectRef"), None);
    assert_eq!(event.get("requestObject"), None);
}

#[tokio::test]
async fn the_audit_log_records_refused_and_impersonating_users_api_19() {
    let audited = AuditFixture::with_rules("[{level: Metadata}]").await;
    let token = format!("Bearer {TOKEN}");
    audited.send_request("GET", MAPS, &[("authorization", "Bearer unknown")]).await;
    let event = audited.last().await;
    assert_eq!((&event["user"], &event["responseStatus"]["code"]), (&json!({}), &json!(401)));
    let headers = [
        ("authorization", token.as_str()),
        ("impersonate-user", "jo"),
        ("user-agent", "kubectl/v1"),
        ("x-forwarded-for", "10.1.2.3, nonsense, 10.1.2.4"),
        ("audit-id", "mine"),
    ];
    let parts = audited.send_request("GET", MAPS, &headers).await;
    let event = audited.last().await;
    assert_eq!((parts.status.as_u16(), &parts.headers["audit-id"]), (403, &"mine".parse().unwrap()));
    assert_eq!((&event["auditID"], &event["userAgent"]), (&json!("mine"), &json!("kubectl/v1")));
    assert_eq!(event["user"]["username"], "podium-admin");
    assert_eq!(event["impersonatedUser"], json!({"username": "jo", "groups": ["system:authenticated"]}));
    assert_eq!(event["sourceIPs"], json!(["10.1.2.3", "10.1.2.4"]));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert!(event["responseStatus"]["message"].as_str().unwrap().contains("User \"jo\" cannot list"));
    let long = "x".repeat(100);
    let parts = audited.send_request("GET", "/version", &[("audit-id", &long)]).await;
    assert_eq!(parts.headers["audit-id"].len(), 64);
    assert_eq!(audited.last().await["user"]["username"], "system:anonymous");
}

#[tokio::test]
async fn the_audit_log_has_bodies_as_the_policy_says_api_19() {
    let audited = AuditFixture::with_rules(
        "[{level: RequestResponse, resources: [{resources: [configmaps]}], omitManagedFields: true}, \
          {level: Request, resources: [{resources: [secrets]}]}, {level: None}]",
    )
    .await;
    let client = &audited.client;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    client.post(MAPS, &map).await;
    let event = audited.last().await;
    assert_eq!((&event["requestObject"], &event["responseObject"]["data"]["k"]), (&map, &json!("v")));
    assert_eq!(event["responseObject"]["metadata"].get("managedFields"), None);
    // Patches are logged as they were sent; YAML becomes JSON.
    let a = format!("{MAPS}/a");
    client.patch(&a, MERGE, &json!({"data": {"k": "w"}})).await;
    assert_eq!(audited.last().await["requestObject"], json!({"data": {"k": "w"}}));
    let apply = "apiVersion: v1\nkind: ConfigMap\ndata: {k: x}\n";
    let applied = format!("{a}?fieldManager=me&force=true");
    assert_eq!(client.send("PATCH", &applied, "application/apply-patch+yaml", apply.into()).await.code, 200);
    let event = audited.last().await;
    assert_eq!((&event["verb"], &event["requestObject"]["data"]["k"]), (&json!("patch"), &json!("x")));
    // Independent of the format that the client accepts.
    let token = format!("Bearer {TOKEN}");
    for accept in [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf,application/json",
    ] {
        let headers = [("authorization", token.as_str()), ("accept", accept), ("accept-encoding", "gzip")];
        for path in [a.as_str(), MAPS] {
            assert_eq!(audited.send_request("GET", path, &headers).await.status, 200, "{accept}");
            let event = audited.last().await;
            let object = &event["responseObject"];
            let one = if path == MAPS { &object["items"][0] } else { object };
            assert_eq!(one["data"]["k"], "x", "{accept} {path}: {event}");
            assert_eq!(one["metadata"].get("managedFields"), None, "{accept} {path}");
        }
    }
    let table =
        [("authorization", token.as_str()), ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    audited.send_request("GET", MAPS, &table).await;
    let event = audited.last().await;
    assert_eq!(event["responseObject"]["kind"], "Table");
    assert_eq!(event["responseObject"]["rows"][0]["object"]["metadata"].get("managedFields"), None);
    client.delete(&a, &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(audited.last().await["requestObject"], json!({"gracePeriodSeconds": 0}));
    client.post("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await;
    let event = audited.last().await;
    assert_eq!(
        (event["requestObject"]["metadata"]["name"].as_str(), event.get("responseObject")),
        (Some("s"), None)
    );
    let before = audited.events().await.len();
    client.get(PODS).await;
    assert_eq!(audited.events().await.len(), before, "nothing of what no rule wants");
}

#[tokio::test]
async fn the_audit_log_records_start_and_end_of_a_watch_api_19() {
    let audited = AuditFixture::with(
        AuditPolicy::read("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]")
            .unwrap(),
    )
    .await;
    let request = Request::builder().uri(format!("{MAPS}?watch=1"));
    let request = request.header(AUTHORIZATION, format!("Bearer {TOKEN}")).body(Body::empty()).unwrap();
    let response = audited.client.server.handle(request).await;
    let mut events = response.into_body().into_data_stream();
    audited.client.post(MAPS, &json!({"metadata": {"name": "a"}})).await;
    assert!(events.next().await.is_some());
    let stages = |events: Vec<Value>| -> Vec<(String, String)> {
        let watches = events.into_iter().filter(|event| event["verb"] == "watch");
        watches
            .map(|e| (e["stage"].as_str().unwrap().into(), e["responseStatus"]["code"].to_string()))
            .collect()
    };
    let started =
        [("RequestReceived", "null"), ("ResponseStarted", "200")].map(|(a, b)| (a.into(), b.into()));
    assert_eq!(stages(audited.events().await), started);
    drop(events);
    let last = audited.last().await;
    assert_eq!((&last["verb"], &last["stage"]), (&json!("watch"), &json!("ResponseComplete")));
    assert_eq!(last.get("responseObject"), None);
}

#[tokio::test]
async fn admission_tells_what_it_found_api_16() {
    let audited = AuditFixture::with_rules("[{level: Metadata, verbs: [create]}]").await;
    let client = &audited.client;
    let labels = json!({"metadata": {"name": "safe", "labels": {
        "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/warn": "privileged"}}});
    assert_eq!(client.post("/api/v1/namespaces", &labels).await.code, 201);
    let policy = json!({"metadata": {"name": "p.example.com"}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["pods"]}]},
        "validations": [{"expression": "true"}, {"expression": "object.metadata.name != 'a'", "message": "not a"}],
        "auditAnnotations": [{"key": "image", "valueExpression": "object.spec.containers[0].image"},
            {"key": "none", "valueExpression": "object.metadata.name == 'b' ? 'b' : dyn(null)"}]}});
    let admission = "/apis/admissionregistration.k8s.io/v1";
    assert_eq!(client.post(&format!("{admission}/validatingadmissionpolicies"), &policy).await.code, 201);
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p.example.com",
        "validationActions": ["Audit"]}});
    assert_eq!(
        client.post(&format!("{admission}/validatingadmissionpolicybindings"), &binding).await.code,
        201
    );
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}});
    let made = client.post("/api/v1/namespaces/safe/pods?dryRun=All", &pod).await;
    assert_eq!((made.code, made.warnings.len()), (201, 0), "{made:?}");
    let annotations = audited.last().await["annotations"].take();
    assert_eq!(annotations["pod-security.kubernetes.io/enforce-policy"], "baseline:latest");
    let violations = annotations["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
    assert!(violations.starts_with("would violate PodSecurity \"restricted:latest\": "), "{violations}");
    let failures = annotations["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap();
    let failures: Value = serde_json::from_str(failures).unwrap();
    let expected = json!([{"message": "not a", "policy": "p.example.com", "binding": "b", "expressionIndex": 1,
        "validationActions": ["Audit"]}]);
    assert_eq!(failures, expected);
    assert_eq!(annotations["p.example.com/image"], "busybox");
    assert_eq!(annotations.get("p.example.com/none"), None);
    client
        .post("/apis/batch/v1beta1/namespaces/safe/cronjobs?dryRun=All", &json!({"metadata": {"name": "c"}}))
        .await;
    let annotations = audited.last().await["annotations"].take();
    assert_eq!(
        (&annotations["k8s.io/deprecated"], &annotations["k8s.io/removed-release"]),
        (&json!("true"), &json!("1.25"))
    );
}

#[tokio::test]
async fn an_annotation_that_cannot_be_made_refuses_where_the_policy_is_strict_api_16() {
    let client = Client::new().await;
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    assert_eq!(
        client.post(&format!("{admission}/validatingadmissionpolicybindings"), &binding).await.code,
        201
    );
    let policies = format!("{admission}/validatingadmissionpolicies");
    for (failure_policy, code) in [("Fail", 422), ("Ignore", 201)] {
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "failurePolicy": failure_policy,
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "auditAnnotations": [{"key": "k", "valueExpression": "object.data['none']"}]}});
        assert_eq!(client.post(&policies, &policy).await.code, 201);
        let made = client.post(&format!("{MAPS}?dryRun=All"), &json!({"metadata": {"name": "a"}})).await;
        assert_eq!(made.code, code, "{failure_policy}: {made:?}");
        assert_eq!(client.delete(&format!("{policies}/p"), &json!({})).await.code, 200);
    }
}

/// A field may contain any type although an object is expected there.
#[tokio::test]
async fn no_body_ends_the_log_api_19() {
    let audited = AuditFixture::with_rules("[{level: RequestResponse, omitManagedFields: true}]").await;
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for body in [
        json!({"rows": [1]}),
        json!({"rows": [{"object": 1}, null], "items": [[], "x"], "metadata": []}),
        json!({"rows": {"object": {}}, "items": 3, "metadata": {"managedFields": 1}}),
    ] {
        audited.client.post(reviews, &body).await;
        let event = audited.last().await;
        assert_eq!(event["requestURI"], reviews);
        assert_eq!(event["requestObject"]["rows"], body["rows"]);
    }
}

#[tokio::test]
async fn a_client_that_goes_away_is_no_panic_api_19() {
    let audited = AuditFixture::with_rules("[{level: Metadata}]").await;
    let body = Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let request = Request::builder()
        .method("POST")
        .uri(MAPS)
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json");
    let answer = audited.client.server.handle(request.body(body).unwrap());
    assert!(futures::FutureExt::now_or_never(answer).is_none());
    let event = audited.last().await;
    let status =
        json!({"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200});
    assert_eq!((&event["stage"], &event["responseStatus"]), (&json!("ResponseComplete"), &status));
}
