//! The parts of a CertificateSigningRequest, as Kubernetes' conformance test uses them.

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use super::{Client, MERGE};

const ALL: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const ONE: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/c";

fn types(object: &Value) -> Vec<&str> {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().map(|condition| condition["type"].as_str().unwrap()).collect()
}

/// Every condition is the approval's to set, and metadata that comes with it is stored.
#[tokio::test(start_paused = true)]
async fn an_approval_changes_conditions_and_metadata_and_nothing_else_api_15() {
    let client = Client::new().await;
    let key = KeyPair::generate().unwrap();
    let pem = CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let encoded = k8s_openapi::ByteString(pem.into_bytes());
    let made = json!({"metadata": {"name": "c"}, "spec": {"request": encoded,
        "signerName": "example.com/e2e", "usages": ["digital signature"]}});
    let created = client.post(ALL, &made).await;
    assert_eq!(created.code, 201, "{created:?}");

    let patch = json!({"metadata": {"annotations": {"patchedapproval": "true"}, "labels": {"a": "b"}},
        "spec": {"signerName": "example.com/other"},
        "status": {"certificate": encoded, "conditions": [{"type": "ApprovalPatch", "status": "True", "reason": "e2e"}]}});
    let patched = client.patch(&format!("{ONE}/approval"), MERGE, &patch).await;
    assert_eq!((patched.code, types(&patched.body)), (200, vec!["ApprovalPatch"]), "{patched:?}");
    assert_eq!(patched.body["metadata"]["annotations"]["patchedapproval"], "true");
    assert_eq!(patched.body["metadata"]["labels"]["a"], "b");
    assert_eq!(patched.body["spec"]["signerName"], "example.com/e2e");
    assert_eq!(patched.body["status"]["certificate"], Value::Null);
    let dated = &patched.body["status"]["conditions"][0];
    assert_eq!(dated["lastUpdateTime"], "2026-11-21T00:00:00Z");
    assert_eq!(dated["lastTransitionTime"], "2026-11-21T00:00:00Z");

    let mut approved = patched.body;
    let conditions = approved["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Approved", "status": "True", "reason": "E2E", "message": "first"}));
    let approved = client.put(&format!("{ONE}/approval"), &approved).await;
    assert_eq!(
        (approved.code, types(&approved.body)),
        (200, vec!["ApprovalPatch", "Approved"]),
        "{approved:?}"
    );

    let mut status = approved.body;
    status["metadata"]["annotations"]["patchedstatus"] = "true".into();
    let conditions = status["status"]["conditions"].as_array_mut().unwrap();
    conditions[1]["message"] = "second".into();
    conditions.push(json!({"type": "StatusUpdate", "status": "True", "reason": "E2E"}));
    let written = client.put(&format!("{ONE}/status"), &status).await;
    let expected = vec!["ApprovalPatch", "Approved", "StatusUpdate"];
    assert_eq!((written.code, types(&written.body)), (200, expected), "{written:?}");
    let message = &written.body["status"]["conditions"][1]["message"];
    assert_eq!(message, "first", "a status changes no condition of approval");
    assert_eq!(written.body["metadata"]["annotations"]["patchedstatus"], "true");
    let mut denied = written.body;
    let conditions = denied["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Denied", "status": "True", "reason": "E2E"}));
    let refused = client.put(&format!("{ONE}/status"), &denied).await;
    assert_ne!(refused.code, 200, "a status adds no condition of approval");
}
