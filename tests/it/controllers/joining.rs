//! What a machine that joins needs: its bootstrap token, and its first certificate (API-15), on virtual time.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use podium::object::Key;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES};

/// A kubelet's request, by this user.
fn request(name: &str, user: &str, groups: &[&str], signer: &str) -> Value {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, "system:node:n1");
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let encoded = serde_json::to_value(k8s_openapi::ByteString(pem.into_bytes())).unwrap();
    json!({"metadata": {"name": name}, "spec": {"request": encoded, "signerName": signer, "username": user,
        "groups": groups, "usages": ["digital signature", "client auth"]}})
}

/// The message of its approval, if it was approved.
fn approval(cluster: &Cluster, name: &str) -> Option<String> {
    let request = cluster.api.get_as::<CertificateSigningRequest>(&Key::new("", name)).unwrap();
    let mut conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let approved = conditions.find(|condition| condition.type_ == "Approved")?;
    assert_eq!(approved.reason.as_deref(), Some("AutoApproved"));
    approved.message.clone()
}

#[tokio::test(start_paused = true)]
async fn a_kubelets_request_is_approved_if_its_maker_may_have_it_api_15() {
    let cluster = Cluster::start(NO_NODES);
    for name in ["kube-system", "kube-public"] {
        cluster.create::<Namespace>(json!({"metadata": {"name": name}}));
    }
    cluster.api.reconcile_default_roles().unwrap();
    for (role, group) in [("nodeclient", "system:bootstrappers"), ("selfnodeclient", "system:nodes")] {
        let role = format!("system:certificates.k8s.io:certificatesigningrequests:{role}");
        cluster.create::<ClusterRoleBinding>(json!({"metadata": {"name": role},
            "subjects": [{"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}}));
    }
    let (joins, node) = (&["system:bootstrappers"][..], &["system:nodes"][..]);
    let kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
    let first = Some("Auto approving kubelet client certificate after SubjectAccessReview.");
    let next = Some("Auto approving self kubelet client certificate after SubjectAccessReview.");
    let cases = [
        ("joins", "system:bootstrap:abcdef", joins, kubelet, first),
        ("renews", "system:node:n1", node, kubelet, next),
        ("of-another", "system:node:n2", node, kubelet, None),
        ("of-nobody", "jane", &["system:authenticated"][..], kubelet, None),
        ("no-kubelet", "system:bootstrap:abcdef", joins, "kubernetes.io/kube-apiserver-client", None),
    ];
    for (name, user, groups, signer, _) in cases {
        cluster.create::<CertificateSigningRequest>(request(name, user, groups, signer));
    }
    cluster.settle().await;
    for (name, .., expected) in cases {
        assert_eq!(approval(&cluster, name).as_deref(), expected, "{name}");
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_token_goes_when_it_has_expired_api_15() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Namespace>(json!({"metadata": {"name": "kube-system"}}));
    let at = |seconds: i64| {
        let at = cluster.api.clock().now().as_second() + seconds;
        jiff::Timestamp::from_second(at).unwrap().to_string()
    };
    let token = |name: &str, type_: &str, expiration: Option<String>| {
        let mut data = json!({"token-id": name, "token-secret": "0123456789abcdef"});
        if let Some(expiration) = expiration {
            data["expiration"] = expiration.into();
        }
        cluster
            .create::<Secret>(json!({"metadata": {"name": name, "namespace": "kube-system"}, "type": type_,
            "stringData": data}));
    };
    let kind = "bootstrap.kubernetes.io/token";
    token("soon", kind, Some(at(60)));
    token("over", kind, Some(at(-60)));
    token("never", kind, None);
    token("unreadable", kind, Some("tomorrow".into()));
    token("empty", kind, Some(String::new()));
    token("another", "Opaque", Some(at(-60)));
    let names = || {
        let secrets = cluster.api.list_as::<Secret>(Some("kube-system"));
        let mut names: Vec<String> = secrets.iter().map(|secret| secret.name().to_string()).collect();
        names.sort();
        names.join(" ")
    };
    cluster.settle().await;
    assert_eq!(names(), "another empty never soon");
    cluster.pass(61).await;
    assert_eq!(names(), "another empty never");
    cluster.stop().await;
}
