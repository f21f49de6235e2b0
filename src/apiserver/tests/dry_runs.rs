//! Dry runs of subresources (API-5).

use super::*;

#[tokio::test(start_paused = true)]
async fn a_binding_for_trial_binds_nothing_api_5() {
    let client = Client::new().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    assert_eq!(client.post("/api/v1/namespaces/default/serviceaccounts", &account).await.code, 201);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(client.post(PODS, &pod).await.code, 201);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"}});
    let path = format!("{PODS}/p/binding");
    assert_eq!(client.post(&format!("{path}?dryRun=All"), &binding).await.code, 201);
    assert_eq!(client.get(&format!("{PODS}/p")).await.body["spec"]["nodeName"], Value::Null);
    assert_eq!(client.post(&format!("{path}?dryRun=Some"), &binding).await.code, 422);
    assert_eq!(client.post(&path, &binding).await.code, 201);
    assert_eq!(client.get(&format!("{PODS}/p")).await.body["spec"]["nodeName"], "n");
    let again = client.post(&format!("{path}?dryRun=All"), &binding).await;
    assert_eq!(again.code, 409, "{}", again.body);
}

#[tokio::test(start_paused = true)]
async fn a_token_for_trial_is_none_api_5() {
    let client = Client::new().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    assert_eq!(client.post(accounts, &account).await.code, 201);
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let path = format!("{accounts}/a/token");
    let tried = client.post(&format!("{path}?dryRun=All"), &request).await;
    assert_eq!((tried.code, &tried.body["status"]["token"]), (201, &json!("")));
    let issued = client.post(&path, &request).await;
    assert_ne!(issued.body["status"]["token"], "");
}
