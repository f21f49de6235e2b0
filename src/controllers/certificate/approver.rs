//! Approves kubelets' certificate requests if roles allow it: a client that may `create`
//! `certificatesigningrequests/nodeclient` gets a node's first certificate, a node that may `…/selfnodeclient` its
//! next one.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use super::{answer, has};
use crate::context::Context;
use api::{Api, Part, WriteOptions};
use apimachinery::certificates::{KUBELET_CLIENT_SIGNER, parsed};
use object::{Key, Kind};
use reconcile::{Cache, ReconcileError, Reconciler, ignore_not_found};

/// The subresource for the permission check, and the message of an approval.
const RECOGNIZED: [(&str, &str); 2] = [
    ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
    ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
];

/// Starts the approver.
pub(crate) fn start(context: &Context) {
    context
        .controller(|_| Approver::new(&context.api, context.caches.of()))
        .for_::<CertificateSigningRequest>()
        .run(&context.tasks);
}

pub(super) struct Approver {
    api: Api,
    requests: Cache<CertificateSigningRequest>,
}

impl Approver {
    pub(super) fn new(api: &Api, requests: Cache<CertificateSigningRequest>) -> Self {
        Self { api: api.clone(), requests }
    }
}

impl Reconciler for Approver {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(request) = self.requests.get(key).filter(|request| is_pending(request)) else {
            return Ok(());
        };
        let may = |subresource: &str| self.api.requester_may_create(&request, subresource);
        let recognized = RECOGNIZED.iter().filter(|(subresource, _)| is_recognized(&request, subresource));
        let Some((_, message)) = recognized.into_iter().find(|(subresource, _)| may(subresource)) else {
            return Ok(());
        };
        let now = self.api.clock().now();
        let options = WriteOptions::default();
        let changed =
            self.api.change(Kind::CertificateSigningRequest, key, Part::Approval, &options, |current| {
                let mut next = current.clone();
                // The requesting client chooses the name: another request may have it by now.
                if let Some(current) = next.get_mut::<CertificateSigningRequest>()
                    && current.metadata.uid == request.metadata.uid
                    && is_pending(current)
                {
                    let status = current.status.get_or_insert_default();
                    let approved = answer("Approved", "AutoApproved", message, now);
                    status.conditions.get_or_insert_default().push(approved);
                }
                Ok(next)
            });
        Ok(ignore_not_found(changed)?)
    }
}

/// Returns true if the request is neither approved nor denied.
fn is_pending(request: &CertificateSigningRequest) -> bool {
    !has(request, "Approved") && !has(request, "Denied")
}

/// Returns true if the request is a kubelet's, for any node or for the requesting node itself.
fn is_recognized(request: &CertificateSigningRequest, subresource: &str) -> bool {
    let spec = &request.spec;
    let (usages, requester) =
        (spec.usages.as_deref().unwrap_or_default(), spec.username.as_deref().unwrap_or_default());
    let Ok(csr) = parsed(&spec.request.0) else { return false };
    spec.signer_name == KUBELET_CLIENT_SIGNER
        && csr.fault(KUBELET_CLIENT_SIGNER, usages, requester).is_none()
        && (subresource != "selfnodeclient" || csr.common_name == requester)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
    use serde_json::{Value, json};

    use super::*;
    use crate::test_cluster::TestCluster;

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
    fn approval(cluster: &TestCluster, name: &str) -> Option<String> {
        let request = cluster.get::<CertificateSigningRequest>(name);
        let mut conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let approved = conditions.find(|condition| condition.type_ == "Approved")?;
        assert_eq!(approved.reason.as_deref(), Some("AutoApproved"));
        approved.message.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelets_request_is_approved_if_its_maker_may_have_it_api_15() {
        let cluster = TestCluster::start(&["certificatesigningrequest-approving-controller"]);
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
        let kubelet = KUBELET_CLIENT_SIGNER;
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
}
