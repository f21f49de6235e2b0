//! Requirements of a machine that joins: its bootstrap token, and its first certificate (API-15), on virtual time.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use podium::api::DeleteOptions;
use podium::object::{Key, Kind};
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
        ("unrelated", "jane", &["system:authenticated"][..], kubelet, None),
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

/// The values were computed by Python's `hmac`.
#[tokio::test(start_paused = true)]
async fn cluster_info_has_the_signature_of_every_signing_bootstrap_token_api_15() {
    const FIRST: &str =
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..vH_kT4yiol-nrAWgjfCYqvum5wsKETXe0S7OOp1VgnE";
    const OTHER: &str =
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..rzyC8pS3XexslHRwW9FeqzptOMUVs8LHDZMTZiFNsZ4";
    const SECOND: &str =
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImZlZGNiYSJ9..Y6epujbk5_Z8dJ3-6LWJ8CErPVS_1uZvq4GcUHtTNpA";
    let cluster = Cluster::start(NO_NODES);
    for name in ["kube-system", "kube-public"] {
        cluster.create::<Namespace>(json!({"metadata": {"name": name}}));
    }
    let now = cluster.api.clock().now().as_second();
    let in_a_minute = jiff::Timestamp::from_second(now + 60).unwrap().to_string();
    let key = Key::new("kube-public", "cluster-info");
    let signatures = || {
        let map = cluster.api.get_as::<ConfigMap>(&key).unwrap();
        let data = map.data.clone().unwrap_or_default();
        let signatures = data
            .into_iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("jws-kubeconfig-")?.to_string(), value)));
        signatures.collect::<Vec<_>>()
    };
    let pairs = |expected: &[(&str, &str)]| {
        expected.iter().map(|(id, text)| ((*id).to_string(), (*text).to_string())).collect::<Vec<_>>()
    };
    let token = |name: &str, id: &str, secret: &str, more: &[(&str, &str)]| {
        let mut data = json!({"token-id": id, "token-secret": secret, "usage-bootstrap-signing": "true"});
        for (name, value) in more {
            data[*name] = (*value).into();
        }
        cluster.create::<Secret>(json!({"metadata": {"name": name, "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token", "stringData": data}));
    };
    // A token before there is anything to sign.
    token("bootstrap-token-abcdef", "abcdef", "0123456789abcdef", &[("expiration", &in_a_minute)]);
    cluster.settle().await;
    cluster.create::<ConfigMap>(json!({"metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": "apiVersion: v1\nkind: Config\n", "jws-kubeconfig-gonegone": "old", "other": "kept"}}));
    cluster.settle().await;
    assert_eq!(signatures(), pairs(&[("abcdef", FIRST)]));
    token("bootstrap-token-fedcba", "fedcba", "s3cret", &[]);
    // None of these may sign.
    token("bootstrap-token-nosign", "nosign", "s3cret", &[("usage-bootstrap-signing", "false")]);
    token("bootstrap-token-others", "fedcba", "s3cret", &[]);
    token("bootstrap-token-toolong", "toolong", "s3cret", &[]);
    token("bootstrap-token-empty0", "empty0", "", &[]);
    token("bootstrap-token-over00", "over00", "s3cret", &[("expiration", "tomorrow")]);
    cluster.settle().await;
    assert_eq!(signatures(), pairs(&[("abcdef", FIRST), ("fedcba", SECOND)]));
    // Changes by others are reverted, and unnecessary writes are not made.
    let before = cluster.api.get_as::<ConfigMap>(&key).unwrap().metadata.resource_version.clone();
    cluster.pass(30).await;
    assert_eq!(cluster.api.get_as::<ConfigMap>(&key).unwrap().metadata.resource_version, before);
    let change = |name: &str, value: &str| {
        let set = |map: &mut ConfigMap| {
            map.data.get_or_insert_default().insert(name.into(), value.into());
            Ok(())
        };
        cluster.api.modify::<ConfigMap>(&key, set).unwrap();
    };
    change("jws-kubeconfig-fedcba", "forged");
    cluster.settle().await;
    assert_eq!(signatures(), pairs(&[("abcdef", FIRST), ("fedcba", SECOND)]));
    cluster
        .api
        .delete(Kind::Secret, &Key::new("kube-system", "bootstrap-token-fedcba"), &DeleteOptions::default())
        .unwrap();
    change("kubeconfig", "other: é\n");
    cluster.settle().await;
    assert_eq!(signatures(), pairs(&[("abcdef", OTHER)]));
    cluster.pass(31).await;
    assert_eq!(signatures(), pairs(&[]));
    assert_eq!(cluster.api.get_as::<ConfigMap>(&key).unwrap().data.as_ref().unwrap()["other"], "kept");
    cluster.stop().await;
}
