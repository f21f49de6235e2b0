//! For tests: a server that knows the past of all workloads.

use std::collections::HashMap;
use std::convert::Infallible;

use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::workloads::Workload;

/// Returns a server with revision 20 as its last change. `no` gives status codes per kind: for its history, and for
/// its past list.
pub fn server(no: &[(Workload, u16, u16)]) -> Client {
    let no: HashMap<String, (u16, u16)> = no
        .iter()
        .map(|(kind, history, list)| (kind.kind().resource.plural.to_string(), (*history, *list)))
        .collect();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let plural = path.rsplit('/').next().unwrap_or_default();
        let (history, list) = no.get(plural).copied().unwrap_or((200, 200));
        let is_history = path.starts_with("/apis/podium.dev/");
        let code = if is_history { history } else { list };
        let answer = if code != 200 {
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": format!("{plural} {code}"), "reason": "X", "code": code})
        } else if is_history {
            json!({"metadata": {"resourceVersion": "30"}, "after": "5", "until": "20", "older": 0, "newer": 0,
                "items": [{"type": "ADDED", "resourceVersion": "20"}]})
        } else {
            assert!(query.contains("resourceVersion=20&resourceVersionMatch=Exact"), "{query}");
            listed(plural, query)
        };
        let answer = http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(answer.expect("a response with a valid status code")) }
    });
    Client::new(service, "default")
}

fn listed(plural: &str, query: &str) -> Value {
    let meta = json!({"name": format!("one-of-{plural}"), "namespace": "default", "uid": plural});
    match plural {
        "pods" => json!({"items": [{"metadata": meta, "spec": {"containers": []}}]}),
        "deployments" | "replicasets" => {
            json!({"items": [{"metadata": meta, "spec": {"selector": {}, "template": {}}}]})
        }
        _ => {
            assert!(query.contains("includeObject=Object"), "its state is in the whole object: {query}");
            json!({"kind": "Table", "columnDefinitions": [{"name": "Name", "type": "string"}],
                "rows": [{"cells": ["x"], "object": {"metadata": meta, "spec": {"schedule": "@daily"}}}]})
        }
    }
}
