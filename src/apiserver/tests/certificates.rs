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

/// Every condition may be set through the approval, and metadata in the same request is stored.
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

fn request(name: &str, signer: &str) -> Value {
    let key = KeyPair::generate().unwrap();
    let pem = CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let encoded = k8s_openapi::ByteString(pem.into_bytes());
    json!({"metadata": {"name": name}, "spec": {"request": encoded, "signerName": signer,
        "usages": ["digital signature"]}})
}

/// Kubelets name their requests by hashes that are no DNS names.
#[tokio::test(start_paused = true)]
async fn a_request_has_any_name_and_keeps_its_spec_api_15() {
    let client = Client::new().await;
    let created = client.post(ALL, &request("node-csr-Ab_9", "example.com/e2e")).await;
    assert_eq!(created.code, 201, "{created:?}");
    let mut other = created.body;
    other["spec"]["signerName"] = "example.com/other".into();
    other["metadata"]["labels"] = json!({"a": "b"});
    let written = client.put(&format!("{ALL}/node-csr-Ab_9"), &other).await;
    assert_eq!(written.code, 200, "{written:?}");
    assert_eq!(written.body["spec"]["signerName"], "example.com/e2e");
    assert_eq!(written.body["metadata"]["labels"]["a"], "b");

    let legacy = client.post(ALL, &request("l", "kubernetes.io/legacy-unknown")).await;
    let expected = "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via \
               this API version";
    assert_eq!(legacy.code, 422, "{legacy:?}");
    assert!(legacy.body["message"].as_str().unwrap().ends_with(expected), "{legacy:?}");
}

#[tokio::test(start_paused = true)]
async fn an_issued_certificate_is_valid_and_cannot_be_changed_api_15() {
    let client = Client::new().await;
    let created = client.post(ALL, &request("c", "example.com/e2e")).await;
    assert_eq!(created.code, 201, "{created:?}");
    let certificate = |label: &str| {
        let key = KeyPair::generate().unwrap();
        let pem = CertificateParams::new(vec!["a.b".to_string()]).unwrap().self_signed(&key).unwrap().pem();
        pem.replace("CERTIFICATE", label)
    };
    let issue = async |pem: String| {
        let status = json!({"status": {"certificate": k8s_openapi::ByteString(pem.into_bytes())}});
        client.patch(&format!("{ONE}/status"), MERGE, &status).await
    };
    let at = "status.certificate: Invalid value: \"<certificate data>\"";
    for (pem, why) in [
        ("nothing".to_string(), "must contain at least one CERTIFICATE PEM block"),
        (certificate("RSA KEY"), "only CERTIFICATE PEM blocks are allowed, found \"RSA KEY\""),
    ] {
        let refused = issue(pem).await;
        assert_eq!(refused.code, 422, "{refused:?}");
        assert!(refused.body["message"].as_str().unwrap().ends_with(&format!("{at}: {why}")), "{refused:?}");
    }
    let issued = certificate("CERTIFICATE");
    for _ in 0..2 {
        let written = issue(issued.clone()).await;
        assert_eq!(written.code, 200, "{written:?}");
    }
    let again = issue(certificate("CERTIFICATE")).await;
    let expected = "status.certificate: Forbidden: updates may not modify existing certificate content";
    assert_eq!(again.code, 422, "{again:?}");
    assert!(again.body["message"].as_str().unwrap().ends_with(expected), "{again:?}");
}
