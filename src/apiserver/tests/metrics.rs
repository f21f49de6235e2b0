//! The metrics of requests, webhooks and policies in `/metrics` (API-19).

#![expect(clippy::float_cmp, reason = "the counts are whole numbers")]

use std::collections::BTreeMap;

use http_body_util::BodyExt;

use super::*;

/// Every series of `/metrics` with its value.
async fn series(client: &Client) -> BTreeMap<String, f64> {
    let text = page(client).await;
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').map(|(name, v)| (name.to_string(), v.parse().unwrap())).unwrap())
        .collect()
}

async fn page(client: &Client) -> String {
    let response = client.server.handle(request("GET", "/metrics")).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn request(method: &str, path: &str) -> Request {
    let request = Request::builder().method(method).uri(path);
    request.header(AUTHORIZATION, format!("Bearer {TOKEN}")).body(Body::empty()).unwrap()
}

fn total(code: &str, dry_run: &str, resource: &str, scope: &str, verb: &str) -> String {
    format!(
        "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"{dry_run}\",group=\"\",resource=\"{resource}\",scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\"}}"
    )
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_under_kubernetes_names_api_19() {
    let client = Client::new().await;
    let map = json!({"metadata": {"name": "a"}});
    assert_eq!(client.post(&format!("{MAPS}?dryRun=All"), &map).await.code, 201);
    assert_eq!(client.post(MAPS, &map).await.code, 201);
    assert_eq!(client.post(MAPS, &map).await.code, 409);
    let a = format!("{MAPS}/a");
    client.get(&a).await;
    client.get(&format!("{MAPS}/none")).await;
    client.get(MAPS).await;
    client.get("/api/v1/configmaps").await;
    client.patch(&a, MERGE, &json!({"data": {"k": "v"}})).await;
    let applied = client.patch(&a, "application/apply-patch+yaml", &json!({})).await.code.to_string();
    client.delete(MAPS, &json!({})).await;
    client.get("/livez/ping").await;
    client.get("/apis/metrics.k8s.io/v1beta1/nodes").await;
    client.get("/apis/podium.dev/v1alpha1/schedulingverdicts").await;
    let series = series(&client).await;
    for (code, dry_run, scope, verb) in [
        ("201", "All", "resource", "POST"),
        ("201", "", "resource", "POST"),
        ("409", "", "resource", "POST"),
        ("200", "", "resource", "GET"),
        ("404", "", "resource", "GET"),
        ("200", "", "namespace", "LIST"),
        ("200", "", "cluster", "LIST"),
        ("200", "", "resource", "PATCH"),
        (applied.as_str(), "", "resource", "APPLY"),
        ("200", "", "namespace", "DELETECOLLECTION"),
    ] {
        let name = total(code, dry_run, "configmaps", scope, verb);
        assert_eq!(series.get(&name), Some(&1.0), "{name}");
    }
    let rest = "component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"LIST\",version=\"v1\"";
    assert_eq!(series[&format!("apiserver_request_duration_seconds_bucket{{{rest},le=\"0.005\"}}")], 1.0);
    assert_eq!(series[&format!("apiserver_request_duration_seconds_bucket{{{rest},le=\"60\"}}")], 1.0);
    let sized = rest.replace("dry_run=\"\",", "");
    assert_eq!(series[&format!("apiserver_response_sizes_count{{{sized}}}")], 1.0);
    assert!(series[&format!("apiserver_response_sizes_sum{{{sized}}}")] > 100.0);
    for part in [
        "subresource=\"/livez\",verb=\"GET\"",
        "group=\"metrics.k8s.io\",resource=\"nodes\",scope=\"cluster\",subresource=\"\",verb=\"LIST\"",
        "group=\"podium.dev\",resource=\"schedulingverdicts\",scope=\"cluster\",subresource=\"\",verb=\"LIST\"",
    ] {
        assert!(series.keys().any(|name| name.contains(part)), "{part}");
    }
    assert_eq!(series["apiserver_current_inflight_requests{request_kind=\"readOnly\"}"], 1.0, "this one");
    assert_eq!(series["apiserver_current_inflight_requests{request_kind=\"mutating\"}"], 0.0);
    assert_eq!(series["apiserver_resource_objects{group=\"\",resource=\"namespaces\"}"], 1.0);
    assert_eq!(series["apiserver_storage_objects{resource=\"deployments.apps\"}"], 0.0);
    assert!(series["process_resident_memory_bytes"] > 1e6 && series["process_start_time_seconds"] > 1e9);
    assert!(series.keys().any(|name| name.starts_with("kubernetes_build_info{build_date=")));
    let page = page(&client).await;
    for line in [
        "# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
        "# TYPE apiserver_request_total counter",
        "# TYPE apiserver_request_duration_seconds histogram",
        "# TYPE process_cpu_seconds_total counter",
    ] {
        assert!(page.lines().any(|printed| printed == line), "{line}");
    }
}

/// No text of a client becomes a series of its own.
#[tokio::test(start_paused = true)]
async fn clients_cannot_create_unlimited_series_api_19() {
    let client = Client::new().await;
    let make_up = async |n: usize| {
        for (method, path) in [
            ("GET", format!("/made/up/{n}")),
            ("GET", format!("/healthz/made-up-{n}")),
            ("GET", format!("/api/v1/made-up-{n}")),
            ("GET", format!("/apis/made-up-{n}.example.com/v1/things")),
            ("GET", format!("{MAPS}/made-up-{n}")),
            ("GET", format!("/api/v1/namespaces/made-up-{n}/configmaps?dryRun=made-up-{n}")),
            ("GET", format!("{PODS}/p/made-up-{n}")),
            ("GET", format!("/%ff{n}")),
        ] {
            client.server.handle(request(method, &path)).await;
        }
        client.server.handle(request(&format!("MADEUP{n}"), MAPS)).await;
        let stranger = Request::builder().uri(format!("/apis/x{n}/v1/y")).body(Body::empty()).unwrap();
        client.server.handle(stranger).await;
    };
    make_up(0).await;
    series(&client).await;
    let before: Vec<String> = series(&client).await.into_keys().collect();
    for n in 1..20 {
        make_up(n).await;
    }
    assert_eq!(series(&client).await.into_keys().collect::<Vec<_>>(), before);
    assert!(!before.iter().any(|name| name.contains("made-up")), "{before:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_under_way_until_its_client_leaves_api_19() {
    let client = Client::new().await;
    client.post(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let response = client.server.handle(request("GET", &format!("{MAPS}?watch=true"))).await;
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    let running = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"}";
    let ended = total("200", "", "configmaps", "namespace", "WATCH");
    let during = series(&client).await;
    assert_eq!((during[running], during.get(&ended)), (1.0, None));
    assert_eq!(
        during["apiserver_current_inflight_requests{request_kind=\"readOnly\"}"], 1.0,
        "a watch is none"
    );
    assert_eq!(during["apiserver_watch_events_total{group=\"\",kind=\"ConfigMap\",version=\"v1\"}"], 1.0);
    drop(body);
    let after = series(&client).await;
    assert_eq!((after[running], after[&ended]), (0.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn series_of_custom_resources_end_with_their_definition_api_19() {
    let client = Client::new().await;
    let spec = json!({"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "singular": "thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]});
    let kind = client.server.api().define(&serde_json::from_value(spec).unwrap()).unwrap();
    let things = "/apis/example.com/v1/namespaces/default/things";
    let response = client.server.handle(request("GET", &format!("{things}?watch=true"))).await;
    assert_eq!(client.get(things).await.code, 200);
    let of_things = async || {
        let series = series(&client).await;
        series.into_keys().filter(|name| name.contains("things")).collect::<Vec<_>>()
    };
    assert!(of_things().await.iter().any(|name| name.starts_with("apiserver_request_total{")));
    client.server.api().undefine(kind);
    assert_eq!(of_things().await, Vec::<String>::new());
    // A request in progress is counted when it ends.
    drop(response);
    assert_eq!(of_things().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn webhooks_and_policies_are_counted_by_their_names_while_they_are_api_19() {
    let client = Client::new().await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    // Nothing listens on the discard port.
    let hook = |name: &str, failure_policy: &str| {
        json!({"name": name, "sideEffects": "None", "failurePolicy": failure_policy,
        "clientConfig": {"url": "https://127.0.0.1:9/"}, "admissionReviewVersions": ["v1"], "rules": rules})
    };
    let configuration = json!({"metadata": {"name": "c"},
        "webhooks": [hook("open.example.com", "Ignore"), hook("shut.example.com", "Fail")]});
    let group = "/apis/admissionregistration.k8s.io/v1";
    let configurations = format!("{group}/validatingwebhookconfigurations");
    assert_eq!(client.post(&configurations, &configuration).await.code, 201);
    assert_eq!(client.post(MAPS, &json!({"metadata": {"name": "a"}})).await.code, 500);
    let gathered = series(&client).await;
    for name in [
        "apiserver_admission_webhook_rejection_count{error_type=\"calling_webhook_error\",name=\"shut.example.com\",operation=\"CREATE\",rejection_code=\"0\",type=\"validating\"}",
        "apiserver_admission_webhook_fail_open_count{name=\"open.example.com\",type=\"validating\"}",
        "apiserver_admission_webhook_request_total{code=\"0\",name=\"open.example.com\",operation=\"CREATE\",rejected=\"false\",type=\"validating\"}",
        "apiserver_admission_webhook_admission_duration_seconds_count{name=\"shut.example.com\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"}",
    ] {
        assert_eq!(gathered.get(name), Some(&1.0), "{name}");
    }
    assert_eq!(client.delete(&format!("{configurations}/c"), &json!({})).await.code, 200);

    let policy = json!({"metadata": {"name": "p"}, "spec": {"validations": [{"expression": "false"}],
        "matchConstraints": {"resourceRules": rules}}});
    assert_eq!(client.post(&format!("{group}/validatingadmissionpolicies"), &policy).await.code, 201);
    let bindings = format!("{group}/validatingadmissionpolicybindings");
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    assert_eq!(client.post(&bindings, &binding).await.code, 201);
    assert_eq!(client.post(MAPS, &json!({"metadata": {"name": "a"}})).await.code, 422);
    let gathered = series(&client).await;
    let name = "apiserver_validating_admission_policy_check_total{enforcement_action=\"deny\",error_type=\"invalid_error\",policy=\"p\",policy_binding=\"b\"}";
    assert_eq!(gathered.get(name), Some(&1.0));
    assert!(!gathered.keys().any(|name| name.contains("example.com")), "the webhooks are gone");
    assert_eq!(client.delete(&format!("{bindings}/b"), &json!({})).await.code, 200);
    assert!(!series(&client).await.contains_key(name));
}

/// A scheduler that panics when its verdict is requested.
struct FailingScheduler;

impl api::verdicts::SchedulingVerdicts for FailingScheduler {
    fn verdict(&self, _: &str) -> Option<api::verdicts::SchedulingVerdict> {
        panic!("index out of bounds")
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_panics_is_answered_and_noted_and_others_go_on_safe_10() {
    let client = Client::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(client.post("/api/v1/namespaces/default/pods", &pod).await.code, 201);
    client.server.api().set_scheduling_verdicts(std::sync::Arc::new(FailingScheduler));
    let path = "/apis/podium.dev/v1alpha1/namespaces/default/schedulingverdicts/p";
    let answer = client.get(path).await;
    assert_eq!(
        (answer.code, answer.body["reason"].as_str()),
        (500, Some("InternalError")),
        "{}",
        answer.body
    );
    assert!(answer.message().contains("caused apiserver to panic"), "{}", answer.message());
    assert_eq!(client.get("/api/v1/namespaces/default/pods/p").await.code, 200);
    let panics = client.server.api().contained().all();
    assert_eq!(panics[&("api", "request")].last, "index out of bounds");
    client.server.api().metrics().self_checks().panicked("api", "request", 1);
    assert_eq!(series(&client).await[r#"podium_panics_total{name="request",part="api"}"#], 1.0);
}
