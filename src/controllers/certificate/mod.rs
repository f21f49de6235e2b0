//! Certificate requests: approves those of kubelets (`approver`), signs approved ones, and deletes those that are
//! finished or unanswered for long.

mod approver;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};

pub(super) use self::approver::start as start_approver;
use super::context::Context;
use api::Api;
use apimachinery::certificates::CertificateAuthority;
use apimachinery::certificates::{CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, parsed};
use base::clock::{time, until};
use object::{Key, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, ignore_not_found, preconditions};

/// The default and the longest validity of a certificate; Kubernetes' `--cluster-signing-duration`.
const LONGEST_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// The shortest validity; as in Kubernetes.
const SHORTEST_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// Certificates are valid from this long before their signing, so that peers with clocks that lag accept them.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// The time after which answered requests are deleted.
const ANSWERED_STAYS: SignedDuration = SignedDuration::from_hours(1);
/// The time after which unanswered requests are deleted.
const PENDING_STAYS: SignedDuration = SignedDuration::from_hours(24);

/// Starts the signer; without an authority it does not run.
pub(super) fn start_signer(context: &Context) {
    let Some(authority) = context.settings.authority.clone() else { return };
    context
        .controller(|_| Signer { api: context.api.clone(), requests: context.caches.of(), authority })
        .for_::<CertificateSigningRequest>()
        .run(&context.tasks);
}

pub(super) fn start_cleaner(context: &Context) {
    context
        .controller(|_| CertificateCleaner { api: context.api.clone(), requests: context.caches.of() })
        .for_::<CertificateSigningRequest>()
        .run(&context.tasks);
}

struct Signer {
    api: Api,
    requests: Cache<CertificateSigningRequest>,
    authority: Arc<CertificateAuthority>,
}

impl Reconciler for Signer {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(request) = self.requests.get(key).filter(|request| waits_for_signature(request)) else {
            return Ok(());
        };
        let signed = self.sign(&request);
        let now = self.api.clock().now();
        // The requesting client chooses the name: another request may have it by now.
        let changed = preconditions::modify_status(&self.api, &request, |current| {
            if !waits_for_signature(current) {
                return;
            }
            let status = current.status.get_or_insert_with(CertificateSigningRequestStatus::default);
            match &signed {
                Ok(pem) => status.certificate = Some(ByteString(pem.clone().into_bytes())),
                Err(why) => {
                    let failed = answer("Failed", "SignerValidationFailure", why, now);
                    status.conditions.get_or_insert_default().push(failed);
                }
            }
        });
        Ok(ignore_not_found(changed)?)
    }
}

impl Signer {
    fn sign(&self, request: &SharedObject<CertificateSigningRequest>) -> Result<String, String> {
        let spec = &request.spec;
        let csr = parsed(&spec.request.0)?;
        let usages = spec.usages.as_deref().unwrap_or_default();
        let requester = spec.username.as_deref().unwrap_or_default();
        if let Some(fault) = csr.fault(&spec.signer_name, usages, requester) {
            return Err(fault.into());
        }
        let life = life(spec.expiration_seconds);
        let now = self.api.clock().now();
        let from = now.checked_sub(BACKDATE).unwrap_or(now);
        let until = now.checked_add(life).unwrap_or(Timestamp::MAX);
        self.authority.sign(csr, usages, from, until)
    }
}

/// Returns the validity for the requested number of seconds.
fn life(requested: Option<i32>) -> SignedDuration {
    requested.map_or(LONGEST_LIFE, |s| SignedDuration::from_secs(s.into()).clamp(SHORTEST_LIFE, LONGEST_LIFE))
}

/// Returns a condition that answers a request.
fn answer(type_: &str, reason: &str, message: &str, now: Timestamp) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: type_.into(),
        status: "True".into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
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

/// Returns true if the request waits for one of our signers.
fn waits_for_signature(request: &CertificateSigningRequest) -> bool {
    let signers = [CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER];
    let issued =
        request.status.as_ref().and_then(|s| s.certificate.as_ref()).is_some_and(|c| !c.0.is_empty());
    signers.contains(&request.spec.signer_name.as_str())
        && has(request, "Approved")
        && !has(request, "Denied")
        && !has(request, "Failed")
        && !issued
}

struct CertificateCleaner {
    api: Api,
    requests: Cache<CertificateSigningRequest>,
}

impl Reconciler for CertificateCleaner {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(request) = self.requests.get(key) else { return Ok(()) };
        let Some(at) = goes_at(&request) else { return Ok(()) };
        let left = until(self.api.clock().now(), at);
        if !left.is_zero() {
            return Err(ReconcileError::After(left));
        }
        Ok(preconditions::delete(&self.api, &request)?)
    }
}

/// Returns the time at which a request is deleted.
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
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::{Value, json};

    use super::approver::Approver;
    use super::*;
    use crate::test_cluster::TestCluster;
    use api::DeleteOptions;
    use object::Kind;

    /// The requesting client chooses the name: between decision and write another request may have taken it.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_took_anothers_name_has_not_its_answer_api_15() {
        let cluster = TestCluster::start(&[]);
        let (api, requests): (_, Cache<CertificateSigningRequest>) = (&cluster.api, cluster.caches.of());
        let approver = Approver::new(api, cluster.caches.of());
        let authority = Arc::new(CertificateAuthority::generate().unwrap());
        let signer = Signer { api: api.clone(), requests: cluster.caches.of(), authority };
        let request = |user: &str, group: &str, signer: &str, subject: [&str; 2], status: Value| {
            let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(rcgen::DnType::OrganizationName, subject[0]);
            params.distinguished_name.push(rcgen::DnType::CommonName, subject[1]);
            let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
            let encoded = serde_json::to_value(ByteString(pem.into_bytes())).unwrap();
            cluster.create::<CertificateSigningRequest>(json!({"metadata": {"name": "r"},
                "spec": {"request": encoded, "signerName": signer, "username": user, "groups": [group],
                    "usages": ["digital signature", "client auth"]}, "status": status}))
        };
        let key = Key::new("", "r");
        let kubelets = || {
            request(
                "boss",
                "system:masters",
                KUBELET_CLIENT_SIGNER,
                ["system:nodes", "system:node:n1"],
                json!({}),
            )
        };
        let others =
            || request("mallory", "system:authenticated", CLIENT_SIGNER, ["admins", "mallory"], json!({}));
        let approve = || {
            let approved = json!([{"type": "Approved", "status": "True"}]);
            let approved = api.modify_status::<CertificateSigningRequest>(&key, |request| {
                request.status.get_or_insert_default().conditions =
                    Some(serde_json::from_value(approved.clone()).unwrap());
                Ok(())
            });
            approved.unwrap();
        };
        let replace = || {
            api.delete(Kind::CertificateSigningRequest, &key, &DeleteOptions::default()).unwrap();
            others();
        };
        kubelets();
        requests.synced().await;
        // Before the cache shows it, another request has the name.
        replace();
        approver.reconcile(&key).unwrap();
        let now = cluster.get::<CertificateSigningRequest>("r");
        assert_eq!((now.spec.username.as_deref(), has(&now, "Approved")), (Some("mallory"), false));
        api.delete(Kind::CertificateSigningRequest, &key, &DeleteOptions::default()).unwrap();
        kubelets();
        approve();
        cluster.settle().await;
        assert!(
            requests.get(&key).is_some_and(|request| has(&request, "Approved")),
            "the approval is cached"
        );
        replace();
        approve();
        signer.reconcile(&key).unwrap();
        let now = cluster.get::<CertificateSigningRequest>("r");
        let answered = now.status.as_ref().is_some_and(|status| status.certificate.is_some());
        assert!(!answered && !has(&now, "Failed"));
        cluster.stop().await;
    }

    #[test]
    fn a_certificate_is_valid_as_long_as_requested_within_bounds_api_15() {
        let year = LONGEST_LIFE.as_secs();
        for (requested, expected) in
            [(None, year), (Some(i32::MAX), year), (Some(3600), 3600), (Some(1), 600), (Some(-1), 600)]
        {
            assert_eq!(life(requested).as_secs(), expected, "{requested:?}");
        }
    }

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
