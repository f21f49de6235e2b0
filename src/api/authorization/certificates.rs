//! Certificate signing requests: the API records the requester, and approvers and signers need permission for
//! the signer (Kubernetes' admission plugins CertificateApproval, CertificateSigning and
//! CertificateSubjectRestriction).

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use super::attributes::{Attributes, RequestTarget, ResourceAttributes};
use crate::identity::User;
use crate::{Api, ApiError, Part};
use apimachinery::certificates::{CLIENT_SIGNER, parsed};
use base::quote::quote;
use kinds::approval_differs;
use object::{Kind, Object};

const GROUP: &str = "certificates.k8s.io";
/// No certificate is issued for this group: nothing restricts its members.
const MASTERS: &str = "system:masters";

impl Api {
    /// Returns true if the author of a certificate signing request has permission to `create` it under this
    /// subresource. The controller that approves requests automatically checks this.
    pub fn requester_may_create(&self, request: &CertificateSigningRequest, subresource: &str) -> bool {
        let spec = &request.spec;
        let user = User {
            uid: spec.uid.clone(),
            extra: spec.extra.clone().unwrap_or_default(),
            ..User::named(spec.username.clone().unwrap_or_default(), spec.groups.clone().unwrap_or_default())
        };
        let resource = "certificatesigningrequests";
        let on = ResourceAttributes { group: GROUP, resource, subresource, ..ResourceAttributes::default() };
        self.decide(&Attributes { user: &user, verb: "create", on: RequestTarget::Resource(on) }).allowed
    }
}

/// Records the requester in a new request.
pub(crate) fn stamp_requester(user: Option<&User>, object: &mut Object) {
    let (Some(user), Some(request)) = (user, object.get_mut::<CertificateSigningRequest>()) else { return };
    let spec = &mut request.spec;
    spec.username = Some(user.name.clone());
    spec.groups = Some(user.groups.clone());
    spec.uid.clone_from(&user.uid);
    spec.extra = Some(user.extra.clone()).filter(|extra| !extra.is_empty());
}

/// Refuses a request, an approval or a certificate that this user may not write.
pub(crate) fn check_certificate(
    api: &Api,
    user: Option<&User>,
    part: Part,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), ApiError> {
    let Some(request) = new.get::<CertificateSigningRequest>() else { return Ok(()) };
    let signer = request.spec.signer_name.as_str();
    let refused =
        |reason: String| Err(ApiError::forbidden(Kind::CertificateSigningRequest, new.name(), reason));
    let Some(old) = old.and_then(|old| old.get::<CertificateSigningRequest>()) else {
        // Validation refuses a request that cannot be parsed.
        let is_master = parsed(&request.spec.request.0)
            .is_ok_and(|parsed| parsed.organizations.iter().any(|group| group == MASTERS));
        if signer == CLIENT_SIGNER && is_master {
            return refused(format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"));
        }
        return Ok(());
    };
    let Some(user) = user else { return Ok(()) };
    let verb = match part {
        Part::Approval => "approve",
        Part::Status if approval_differs(old, request) => {
            return refused(
                "updates of status may not add or remove the conditions Approved and Denied".into(),
            );
        }
        Part::Status if old.status != request.status => "sign",
        _ => return Ok(()),
    };
    let wildcard = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let may = |name: &str| {
        let on =
            ResourceAttributes { group: GROUP, resource: "signers", name, ..ResourceAttributes::default() };
        api.decide(&Attributes { user, verb, on: RequestTarget::Resource(on) }).allowed
    };
    if may(signer) || may(&wildcard) {
        return Ok(());
    }
    refused(format!("user not permitted to {verb} requests with signerName {}", quote(signer)))
}
