//! Certificate signing requests. Approvers write the conditions through `approval` and signers the certificate through
//! `status`; the spec never changes.

use std::collections::HashSet;

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::columns::Column;
use super::resource::{Resource, SelectableField, selectable, text};
use apimachinery::certificates::{check_certificates, parsed};
use apimachinery::validate::{FieldErrors, Path, names, signer};
use base::quote::quote;
use object::time::human_duration;

/// The shortest lifetime, in seconds, that a client may request.
const MIN_SECONDS: i32 = 600;

/// The usages of a key, as Kubernetes names them.
const USAGES: &[&str] = &[
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system",
    "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc",
    "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
];

/// The signer of requests from older versions of the API, in which the signer's name was optional.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// The conditions that only `approval` sets.
const APPROVAL: [&str; 2] = ["Approved", "Denied"];

/// The conditions with no status but `True`; they cannot be removed.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

impl Resource for CertificateSigningRequest {
    /// Any path segment is a valid name: kubelets name their requests by hashes.
    const NAME_RULE: fn(&str) -> Vec<String> = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::age(),
        Column::text("SignerName", "The requested signer.", |request, _| json!(request.spec.signer_name)),
        Column::text("Requestor", "The user who created the request.", |request, _| {
            json!(request.spec.username.as_deref().unwrap_or_default())
        }),
        Column::text("RequestedDuration", "The requested duration of the certificate.", |request, _| {
            let seconds = request.spec.expiration_seconds;
            json!(seconds.map_or_else(|| "<none>".to_string(), |s| human_duration(i64::from(s))))
        }),
        Column::text("Condition", "The state of the request.", |request, _| json!(condition(request))),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] =
        &[selectable("spec.signerName", |request| text(Some(&request.spec.signer_name)))];

    fn apply_defaults(&mut self) {
        for condition in self.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten()) {
            if condition.status.is_empty() {
                condition.status = "True".into();
            }
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        let spec = Path::root("spec");
        if let Err(why) = parsed(&self.spec.request.0) {
            errors.invalid_itself(&spec.child("request"), why);
        }
        let usages = self.spec.usages.as_deref().unwrap_or_default();
        let path = spec.child("usages");
        if usages.is_empty() {
            errors.required(&path, "");
        }
        let mut seen = HashSet::new();
        for (i, usage) in usages.iter().enumerate() {
            errors.one_of(&path.index(i), usage, USAGES);
            errors.unique(&mut seen, &path.index(i), usage);
        }
        let (path, signer) = (spec.child("signerName"), &self.spec.signer_name);
        if signer == LEGACY_SIGNER {
            errors.invalid(&path, signer, "the legacy signerName is not allowed via this API version");
        } else {
            signer::signer_name(errors, &path, signer);
        }
        if let Some(seconds) = self.spec.expiration_seconds.filter(|seconds| *seconds < MIN_SECONDS) {
            let detail = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.invalid(&spec.child("expirationSeconds"), &seconds, detail);
        }
    }

    /// Drops clients' changes of the spec, which is immutable.
    fn prepare_for_update(&mut self, old: &Self) {
        self.spec = old.spec.clone();
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        let path = Path::root("status.conditions");
        let new: Vec<_> = conditions(self).collect();
        for (i, condition) in new.iter().enumerate() {
            let path = path.index(i);
            if condition.type_.is_empty() {
                errors.required(&path.child("type"), "");
            }
            let statuses: &[&str] = if FINAL.contains(&condition.type_.as_str()) {
                &["True"]
            } else {
                &["False", "True", "Unknown"]
            };
            errors.required_one_of(&path.child("status"), Some(&condition.status), statuses);
            let earlier = new[..i].iter().any(|other| other.type_ == condition.type_);
            if earlier {
                errors.duplicate(&path.child("type"), &condition.type_);
            }
        }
        let has = |type_: &str| new.iter().any(|condition| condition.type_ == type_);
        if has("Approved") && has("Denied") {
            errors.invalid_itself(&path, "Approved and Denied conditions are mutually exclusive");
        }
        for type_ in FINAL {
            if conditions(old).any(|condition| condition.type_ == type_) && !has(type_) {
                errors
                    .forbidden(&path, format!("updates may not remove a condition of type {}", quote(type_)));
            }
        }
        let (new, old) = (certificate(self), certificate(old));
        let path = Path::root("status.certificate");
        if new != old && !old.is_empty() {
            errors.forbidden(&path, "updates may not modify existing certificate content");
        }
        if new != old
            && !new.is_empty()
            && let Err(why) = check_certificates(new)
        {
            errors.invalid(&path, "<certificate data>", why);
        }
    }
}

fn conditions(
    request: &CertificateSigningRequest,
) -> impl Iterator<Item = &CertificateSigningRequestCondition> {
    request.status.iter().flat_map(|status| status.conditions.iter().flatten())
}

/// Returns the certificate that the signer issued; empty before that.
fn certificate(request: &CertificateSigningRequest) -> &[u8] {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.map(|certificate| certificate.0.as_slice()).unwrap_or_default()
}

/// Returns `Pending`, `Approved` or `Denied`, followed by `,Failed` and `,Issued` where they apply.
fn condition(request: &CertificateSigningRequest) -> String {
    let has = |type_: &str| conditions(request).any(|condition| condition.type_ == type_);
    let mut text = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_string();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !certificate(request).is_empty() {
        text.push_str(",Issued");
    }
    text
}

/// Returns the current request with the edited metadata and conditions. `approval` writes all conditions and nothing
/// else of the status, as in Kubernetes' strategy.
pub fn with_approval(
    current: &CertificateSigningRequest,
    edited: &CertificateSigningRequest,
) -> CertificateSigningRequest {
    let mut next = current.clone();
    next.metadata = edited.metadata.clone();
    let all: Vec<_> = conditions(edited).cloned().collect();
    next.status.get_or_insert_default().conditions = Some(all).filter(|all| !all.is_empty());
    next
}

/// Restores the conditions `Approved` and `Denied`, which a write of the status cannot change.
pub fn preserve_approval(current: &CertificateSigningRequest, edited: &mut CertificateSigningRequest) {
    for type_ in APPROVAL {
        let old: Vec<_> = conditions(current).filter(|condition| condition.type_ == type_).collect();
        let all = edited.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
        let new: Vec<_> = all.filter(|condition| condition.type_ == type_).collect();
        // Validation refuses a write that adds or removes such a condition.
        if old.len() == new.len() {
            new.into_iter().zip(old).for_each(|(new, old)| new.clone_from(old));
        }
    }
}

/// Fills in missing times of conditions. The transition time is that of the old condition with the same type and
/// status, or now.
pub fn date_conditions(request: &mut CertificateSigningRequest, old: &CertificateSigningRequest, now: &Time) {
    for condition in request.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten()) {
        if condition.last_transition_time.is_none() {
            let same = |old: &&CertificateSigningRequestCondition| {
                old.type_ == condition.type_ && old.status == condition.status
            };
            let before = conditions(old).filter(same).find_map(|old| old.last_transition_time.clone());
            condition.last_transition_time = Some(before.unwrap_or_else(|| now.clone()));
        }
        condition.last_update_time.get_or_insert_with(|| now.clone());
    }
}

/// Returns whether the types of the approval conditions differ.
pub fn approval_differs(a: &CertificateSigningRequest, b: &CertificateSigningRequest) -> bool {
    let of = |request: &CertificateSigningRequest| -> Vec<String> {
        let types = conditions(request).map(|condition| condition.type_.clone());
        types.filter(|type_| APPROVAL.contains(&type_.as_str())).collect()
    };
    of(a) != of(b)
}
