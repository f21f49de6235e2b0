//! Certificate requests: those of kubelets are approved (`approver`), those that were approved are signed; those that are done with, or that nobody cares for, go.

mod approver;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};

pub(super) use self::approver::start as start_approver;
use super::context::Context;
use api::certificates::{CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, parsed};
use api::http::CertificateAuthority;
use api::{Api, DeleteOptions};
use base::clock::{time, until};
use object::{Key, Kind, Shared};
use reconcile::{Cache, ReconcileError, Reconciler, ignore_not_found};

/// How long a certificate holds when the request does not say; Kubernetes' `--cluster-signing-duration`.
const DEFAULT_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Clocks of others may be behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// How long a request stays that is approved or denied, and one that nobody has answered.
const ANSWERED_STAYS: SignedDuration = SignedDuration::from_hours(1);
const PENDING_STAYS: SignedDuration = SignedDuration::from_hours(24);

/// Starts the signer; without an authority it signs nothing.
pub(super) fn start_signer(context: &Context) {
    let Some(authority) = context.settings.authority.clone() else { return };
    let signer = Signer { api: context.api.clone(), requests: context.caches.of(), authority };
    context.controller(signer, context.queue()).for_::<CertificateSigningRequest>().run(&context.tasks);
}

/// Starts the cleaner.
pub(super) fn start_cleaner(context: &Context) {
    let cleaner = Cleaner { api: context.api.clone(), requests: context.caches.of() };
    context.controller(cleaner, context.queue()).for_::<CertificateSigningRequest>().run(&context.tasks);
}

struct Signer {
    api: Api,
    requests: Cache<CertificateSigningRequest>,
    authority: Arc<CertificateAuthority>,
}

impl Reconciler for Signer {
    type Key = Key;

    fn name(&self) -> &'static str {
        "certificatesigningrequest-signing-controller"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(request) = self.requests.get(key).filter(|request| waits_for_signature(request)) else {
            return Ok(());
        };
        let signed = self.sign(&request);
        let now = self.api.clock().now();
        let changed = self.api.modify_status::<CertificateSigningRequest>(key, |current| {
            if !waits_for_signature(current) {
                return Ok(());
            }
            let status = current.status.get_or_insert_with(CertificateSigningRequestStatus::default);
            match &signed {
                Ok(pem) => status.certificate = Some(ByteString(pem.clone().into_bytes())),
                Err(why) => status.conditions.get_or_insert_default().push(failed(why, now)),
            }
            Ok(())
        });
        Ok(ignore_not_found(changed.map(drop))?)
    }
}

impl Signer {
    fn sign(&self, request: &Shared<CertificateSigningRequest>) -> Result<String, String> {
        let spec = &request.spec;
        let asked = parsed(&spec.request.0)?;
        let usages = spec.usages.as_deref().unwrap_or_default();
        let requester = spec.username.as_deref().unwrap_or_default();
        if let Some(fault) = asked.fault(&spec.signer_name, usages, requester) {
            return Err(fault.into());
        }
        let life = spec.expiration_seconds.map_or(DEFAULT_LIFE, |s| SignedDuration::from_secs(s.into()));
        let now = self.api.clock().now();
        let from = now.checked_sub(BACKDATE).unwrap_or(now);
        let until = now.checked_add(life).unwrap_or(Timestamp::MAX);
        self.authority.sign(asked, usages, from, until)
    }
}

fn failed(why: &str, now: Timestamp) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: "Failed".into(),
        status: "True".into(),
        reason: Some("SignerValidationFailure".into()),
        message: Some(why.into()),
        last_update_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    }
}

fn has(request: &CertificateSigningRequest, type_: &str) -> bool {
    condition(request, type_).is_some()
}

fn condition<'a>(
    request: &'a CertificateSigningRequest,
    type_: &str,
) -> Option<&'a CertificateSigningRequestCondition> {
    let mut conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == type_)
}

/// Whether one of our signers has to answer it.
fn waits_for_signature(request: &CertificateSigningRequest) -> bool {
    let ours = [CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER];
    let issued =
        request.status.as_ref().and_then(|s| s.certificate.as_ref()).is_some_and(|c| !c.0.is_empty());
    ours.contains(&request.spec.signer_name.as_str())
        && has(request, "Approved")
        && !has(request, "Denied")
        && !has(request, "Failed")
        && !issued
}

struct Cleaner {
    api: Api,
    requests: Cache<CertificateSigningRequest>,
}

impl Reconciler for Cleaner {
    type Key = Key;

    fn name(&self) -> &'static str {
        "certificatesigningrequest-cleaner-controller"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(request) = self.requests.get(key) else { return Ok(()) };
        let Some(at) = goes_at(&request) else { return Ok(()) };
        let left = until(self.api.clock().now(), at);
        if !left.is_zero() {
            return Err(ReconcileError::After(left));
        }
        let this = DeleteOptions::uid(request.uid());
        Ok(ignore_not_found(self.api.delete(Kind::CertificateSigningRequest, key, &this).map(drop))?)
    }
}

/// When a request has stayed long enough.
fn goes_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let answered = ["Denied", "Failed", "Approved"].iter().find_map(|type_| condition(request, type_));
    let created = request.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let (since, stays) = match answered {
        Some(condition) => {
            let changed = condition.last_update_time.as_ref().or(condition.last_transition_time.as_ref());
            (changed.map(|t| t.0).or(created)?, ANSWERED_STAYS)
        }
        None => (created?, PENDING_STAYS),
    };
    since.checked_add(stays).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_go_when_they_have_stayed_long_enough_api_15() {
        let goes = |conditions: Value| {
            let request: CertificateSigningRequest = serde_json::from_value(json!({
                "metadata": {"name": "r", "creationTimestamp": "2026-11-22T00:00:00Z"},
                "spec": {"request": "", "signerName": CLIENT_SIGNER, "usages": []},
                "status": {"conditions": conditions},
            }))
            .unwrap();
            (goes_at(&request).unwrap().to_string(), waits_for_signature(&request))
        };
        let at =
            |type_: &str| json!({"type": type_, "status": "True", "lastUpdateTime": "2026-11-22T10:00:00Z"});
        for (conditions, expected, waits) in [
            (json!([]), "2026-11-23T00:00:00Z", false),
            (json!([at("Approved")]), "2026-11-22T11:00:00Z", true),
            (json!([at("Denied")]), "2026-11-22T11:00:00Z", false),
            (json!([at("Approved"), at("Failed")]), "2026-11-22T11:00:00Z", false),
        ] {
            assert_eq!(goes(conditions), (expected.to_string(), waits));
        }
    }
}
