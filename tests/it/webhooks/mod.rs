//! Admission webhooks as their users see them: external servers are called for writes (API-16).

mod calls;
mod closing;
mod requests;
pub(crate) mod server;

use http::Method;
use serde_json::{Value, json};

use crate::http::{InMemoryServer, OWNER, Response};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A webhook's configuration: it is called for all creations of ConfigMaps, except for the settings in `more`.
fn hook(name: &str, client_config: &Value, more: &Value) -> Value {
    let mut hook = json!({"name": name, "clientConfig": client_config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    for (field, value) in more.as_object().into_iter().flatten() {
        hook[field] = value.clone();
    }
    hook
}

/// Replaces the configuration by one with these webhooks.
async fn configure(face: &InMemoryServer, sort: &str, name: &str, hooks: &[Value]) {
    let path = format!("{GROUP}/{}configurations", sort.to_lowercase());
    face.ask(Method::DELETE, &format!("{path}/{name}"), &[OWNER], "").await;
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{sort}Configuration"),
        "metadata": {"name": name}, "webhooks": hooks});
    let made = face.ask(Method::POST, &path, &[OWNER], &body.to_string()).await;
    assert_eq!((made.status.as_u16(), made.header("warning")), (201, ""), "{}", made.body);
}

const MUTATING: &str = "MutatingWebhook";
const VALIDATING: &str = "ValidatingWebhook";

async fn post(face: &InMemoryServer, path: &str, body: &Value) -> Response {
    face.ask(Method::POST, path, &[OWNER], &body.to_string()).await
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn status_and_message(answer: &Response) -> (u16, String) {
    (answer.status.as_u16(), answer.json()["message"].as_str().unwrap_or_default().to_string())
}
