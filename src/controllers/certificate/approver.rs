//! Approves kubelets' certificate requests if roles allow it: a client that may `create`
//! `certificatesigningrequests/nodeclient` gets a node's first certificate, a node that may `…/selfnodeclient` its
//! next one.

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};

use super::has;
use crate::context::Context;
use api::{Api, Part, WriteOptions};
use apimachinery::certificates::{KUBELET_CLIENT_SIGNER, parsed};
use base::clock::time;
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
        let now = time(self.api.clock().now());
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
                    status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
                        type_: "Approved".into(),
                        status: "True".into(),
                        reason: Some("AutoApproved".into()),
                        message: Some((*message).into()),
                        last_update_time: Some(now.clone()),
                        last_transition_time: Some(now.clone()),
                    });
                }
                Ok(next)
            });
        Ok(ignore_not_found(changed.map(drop))?)
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
