//! Requests without a seat wait, each in its flow's queues, for a limited time (API-17).

use bytes::Bytes;
use futures::FutureExt;
use futures::channel::mpsc;
use http::Method;

use super::*;

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";

/// A client of a cluster with this many seats, in which every user may do everything.
async fn client(seats: usize) -> Client {
    let limits = object::config::Limits { max_requests_in_flight: Some(seats), ..Default::default() };
    let client = Client::with(ApiConfig { limits, ..ApiConfig::default() }).await;
    client.server.api().reconcile_flow_control().unwrap();
    let subjects =
        json!([{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}]);
    let role = json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]}]});
    let binding = json!({"metadata": {"name": "all"}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"}});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    assert_eq!(client.post(&format!("{rbac}/clusterroles"), &role).await.code, 201);
    assert_eq!(client.post(&format!("{rbac}/clusterrolebindings"), &binding).await.code, 201);
    client
}

fn request(user: &str, method: Method, path: &str, body: Body) -> Request {
    let mut request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    request = request.header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    if !user.is_empty() {
        request = request.header("impersonate-user", user);
    }
    request.body(body).unwrap()
}

/// A request of this user that holds its seat until its body arrives.
fn open_request(
    client: &Client,
    user: &str,
) -> (mpsc::Sender<Result<Bytes, std::io::Error>>, impl Future<Output = u16>) {
    let (body, sent) = mpsc::channel(1);
    let request = request(user, Method::POST, MAPS, Body::from_stream(sent));
    let server = client.server.clone();
    (body, async move { server.handle(request).await.status().as_u16() })
}

async fn get(client: &Client, user: &str) -> http::response::Parts {
    client.server.handle(request(user, Method::GET, MAPS, Body::empty())).await.into_parts().0
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_seat_waits_for_a_limited_time_api_17() {
    let client = client(1).await;
    let (mut body, holder) = open_request(&client, "jo");
    let mut holder = Box::pin(holder);
    assert_eq!(holder.as_mut().now_or_never(), None);
    let refused = get(&client, "al").await;
    assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(get(&client, "").await.status, 200, "the owner is exempt");
    assert_eq!(get(&client, "system:serviceaccount:kube-system:x").await.status, 200, "another level");
    let mut waits = Box::pin(get(&client, "al"));
    assert!(waits.as_mut().now_or_never().is_none());
    body.try_send(Ok(json!({"metadata": {"name": "a"}}).to_string().into())).unwrap();
    drop(body);
    assert_eq!(holder.await, 201);
    assert_eq!(waits.await.status, 200);
    // A client that leaves frees its position in the queue, or its seat.
    let (_body, holder) = open_request(&client, "jo");
    let mut holder = Box::pin(holder);
    assert_eq!(holder.as_mut().now_or_never(), None);
    let mut leaves = Box::pin(get(&client, "al"));
    assert!(leaves.as_mut().now_or_never().is_none());
    let mut waits = Box::pin(get(&client, "al"));
    assert!(waits.as_mut().now_or_never().is_none());
    drop(leaves);
    drop(holder);
    assert_eq!(waits.await.status, 200);
    let metrics = client.send("GET", "/metrics", "", String::new()).await;
    assert_eq!(metrics.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_level_without_queues_refuses_at_once_api_17() {
    let client = client(10).await;
    let level = json!({"metadata": {"name": "narrow"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}});
    let rule = json!({"subjects": [{"kind": "User", "user": {"name": "jo"}}], "resourceRules": [{"verbs": ["*"],
        "apiGroups": [""], "resources": ["configmaps"], "namespaces": ["default"]}]});
    let schema = json!({"metadata": {"name": "of-jo"}, "spec": {"matchingPrecedence": 50, "rules": [rule],
        "priorityLevelConfiguration": {"name": "narrow"}, "distinguisherMethod": {"type": "ByUser"}}});
    let made = client.post(SCHEMAS, &schema).await;
    assert_eq!((made.code, made.warnings.len()), (201, 0));
    let uid = made.body["metadata"]["uid"].as_str().unwrap();
    let answered = get(&client, "jo").await;
    assert_ne!(answered.headers["x-kubernetes-pf-flowschema-uid"], uid, "its level is not there");
    let made = client.post(LEVELS, &level).await;
    assert_eq!((made.code, made.warnings.len()), (201, 0));
    let (_body, holder) = open_request(&client, "jo");
    let mut holder = Box::pin(holder);
    assert_eq!(holder.as_mut().now_or_never(), None);
    let refused = get(&client, "jo").now_or_never().unwrap();
    assert_eq!(refused.status, 429);
    drop(holder);
    let answered = get(&client, "jo").await;
    assert_eq!(answered.status, 200);
    assert_eq!(answered.headers["x-kubernetes-pf-flowschema-uid"], uid);
    assert_eq!(
        answered.headers["x-kubernetes-pf-prioritylevel-uid"],
        made.body["metadata"]["uid"].as_str().unwrap()
    );
    // Watches release their seat once they have started; sessions need none.
    let watch =
        client.server.handle(request("jo", Method::GET, &format!("{MAPS}?watch=1"), Body::empty())).await;
    assert_eq!((watch.status().as_u16(), get(&client, "jo").await.status.as_u16()), (200, 200));
    assert_eq!(client.delete(&format!("{SCHEMAS}/of-jo"), &json!({})).await.code, 200);
    assert_ne!(get(&client, "jo").await.headers["x-kubernetes-pf-flowschema-uid"], uid);
}
