//! `AdmissionReview`: the request to a webhook, and the check of its response. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ApiError;
use crate::webhook_client::{Review, ReviewVersion, first_errors_within_limit, truncate_error};
use base::quote::quote;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// The type of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebhookType {
    Mutating,
    Validating,
}

impl WebhookType {
    /// Returns the name in metrics.
    pub(super) fn step(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// Returns the review that is sent to a webhook.
pub(super) fn request(version: ReviewVersion, request: Value) -> Value {
    let mut review = json!({"kind": KIND, "apiVersion": version.api_version(GROUP)});
    review["request"] = request;
    review
}

/// A webhook's response.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ReviewResult {
    /// The refusal; `None` if the request is allowed.
    pub(super) refusal: Option<Status>,
    /// The JSON patch to apply.
    pub(super) patch: Option<Vec<u8>>,
    pub(super) warnings: Vec<String>,
    /// Audit annotations.
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    allowed: bool,
    status: Option<Status>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

/// Parses a response; the error is the problem with it.
pub(super) fn read(
    version: ReviewVersion,
    webhook_type: WebhookType,
    uid: &str,
    body: &[u8],
) -> Result<ReviewResult, String> {
    let review = Review::<Response>::parse(body)?;
    let expected = version.api_version(GROUP);
    let found = (review.api_version.as_str(), review.kind.as_str());
    if found != (expected.as_str(), KIND) && (version == ReviewVersion::V1 || found != ("", "")) {
        return Err(format!(
            "received invalid webhook response: expected webhook response of {expected}, Kind={KIND}, got {}, Kind={}",
            found.0, found.1
        ));
    }
    let invalid = |reason: &str| Err(format!("received invalid webhook response: {reason}"));
    let Some(response) = review.response else { return invalid("webhook response was absent") };
    if version == ReviewVersion::V1 && response.uid != uid {
        return invalid(&format!("expected response.uid={}, got {}", quote(uid), quote(&response.uid)));
    }
    let encoded = response.patch.filter(|patch| !patch.is_empty());
    match (webhook_type, encoded.is_some(), response.patch_type.as_deref()) {
        (WebhookType::Validating, true, _) => {
            return invalid("validating webhook may not return response.patch");
        }
        (WebhookType::Validating, _, Some(_)) => {
            return invalid("validating webhook may not return response.patchType");
        }
        (WebhookType::Mutating, true, None) if version == ReviewVersion::V1 => {
            return invalid("webhook returned response.patch but not response.patchType");
        }
        (WebhookType::Mutating, false, Some(_)) if version == ReviewVersion::V1 => {
            return invalid("webhook returned response.patchType but not response.patch");
        }
        (WebhookType::Mutating, true, Some(other)) if other != "JSONPatch" => {
            return Err(format!("unsupported patch type {}", quote(other)));
        }
        _ => {}
    }
    let patch = match encoded.map(|patch| STANDARD.decode(patch)).transpose() {
        Ok(patch) => patch,
        Err(error) => return invalid(&format!("response.patch: {error}")),
    };
    let refusal = (!response.allowed).then(|| response.status.unwrap_or_default());
    Ok(ReviewResult {
        refusal,
        patch,
        warnings: response.warnings.unwrap_or_default(),
        annotations: response.audit_annotations.unwrap_or_default(),
    })
}

/// Returns a refusal in Kubernetes' words.
pub(super) fn denied(webhook: &str, status: Status) -> ApiError {
    let by = format!("admission webhook {} denied the request", quote(webhook));
    let text = |text: Option<String>| text.filter(|text| !text.is_empty()).map(truncate_error);
    let reason = text(status.reason);
    let message = match (text(status.message), &reason) {
        (Some(message), _) => format!("{by}: {message}"),
        (None, Some(reason)) => format!("{by}: {reason}"),
        (None, None) => format!("{by} without explanation"),
    };
    let code = status.code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    let mut details = status.details;
    if let Some(details) = &mut details {
        for text in [&mut details.name, &mut details.group, &mut details.kind, &mut details.uid] {
            *text = text.take().map(truncate_error);
        }
        let length = |cause: &StatusCause| {
            [&cause.field, &cause.message, &cause.reason]
                .iter()
                .filter_map(|text| text.as_ref())
                .map(String::len)
                .sum()
        };
        details.causes = details.causes.take().map(|causes| first_errors_within_limit(causes, length));
    }
    let details = details.and_then(|details| serde_json::to_value(details).ok()).map(Box::new);
    ApiError::Denied { code: code.unwrap_or(400), reason: reason.unwrap_or_default(), message, details }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_or_is_refused_in_kubernetes_words_api_16() {
        use WebhookType::{Mutating, Validating};
        let v1 = |response: Value| json!({"kind": KIND, "apiVersion": "admission.k8s.io/v1", "response": response});
        let beta = |response: Value| json!({"kind": KIND, "apiVersion": "admission.k8s.io/v1beta1", "response": response});
        let invalid = "received invalid webhook response: ";
        for (version, sort, body, expected) in [
            (ReviewVersion::V1, Validating, v1(json!({"uid": "u", "allowed": true})), ""),
            (
                ReviewVersion::V1,
                Mutating,
                v1(json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"})),
                "",
            ),
            (ReviewVersion::V1Beta1, Mutating, beta(json!({"allowed": true, "patch": "W10="})), ""),
            (ReviewVersion::V1Beta1, Validating, json!({"response": {"allowed": true}}), ""),
            (
                ReviewVersion::V1,
                Validating,
                v1(json!({"uid": "other", "allowed": true})),
                "expected response.uid=\"u\", got \"other\"",
            ),
            (ReviewVersion::V1, Validating, v1(Value::Null), "webhook response was absent"),
            (
                ReviewVersion::V1,
                Validating,
                beta(json!({"uid": "u", "allowed": true})),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
                 admission.k8s.io/v1beta1, Kind=AdmissionReview",
            ),
            (
                ReviewVersion::V1,
                Validating,
                v1(json!({"uid": "u", "allowed": false, "patch": "W10="})),
                "validating webhook may not return response.patch",
            ),
            (
                ReviewVersion::V1,
                Validating,
                v1(json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"})),
                "validating webhook may not return response.patchType",
            ),
            (
                ReviewVersion::V1,
                Mutating,
                v1(json!({"uid": "u", "allowed": true, "patch": "W10="})),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                ReviewVersion::V1,
                Mutating,
                v1(json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"})),
                "webhook returned response.patchType but not response.patch",
            ),
        ] {
            let read = read(version, sort, "u", body.to_string().as_bytes()).map(|_| String::new());
            let expected =
                if expected.is_empty() { Ok(String::new()) } else { Err(format!("{invalid}{expected}")) };
            assert_eq!(read, expected, "{body}");
        }
        let merge = v1(json!({"uid": "u", "allowed": true, "patch": "e30=", "patchType": "Merge"}));
        let merge = read(ReviewVersion::V1, Mutating, "u", merge.to_string().as_bytes());
        assert_eq!(merge.unwrap_err(), "unsupported patch type \"Merge\"");
        for garbage in ["", "<html>", "[]", "{\"response\": 7}", "\u{0}"] {
            assert!(read(ReviewVersion::V1, Validating, "u", garbage.as_bytes()).is_err(), "{garbage}");
        }
    }

    #[test]
    fn a_denial_says_who_and_why_api_16() {
        let denied = |status: Value| {
            let error = denied("a.b.c", serde_json::from_value(status).unwrap());
            (error.code(), error.reason().to_string(), error.to_string())
        };
        let by = "admission webhook \"a.b.c\" denied the request";
        assert_eq!(denied(json!({})), (400, String::new(), format!("{by} without explanation")));
        assert_eq!(
            denied(json!({"code": 403, "reason": "Forbidden", "message": "not you"})),
            (403, "Forbidden".into(), format!("{by}: not you"))
        );
        assert_eq!(denied(json!({"code": 200, "reason": "NotToday"})).2, format!("{by}: NotToday"));
        assert_eq!(denied(json!({"code": 200})).0, 400);
        assert_eq!(denied(json!({"code": 99_999})).0, 400);
    }

    #[test]
    fn of_a_denial_so_much_is_passed_on_api_16() {
        let long = "no! ".repeat(100_000);
        let causes: Vec<_> =
            (0..1_000).map(|i| json!({"field": format!("spec.f{i}"), "message": "not so"})).collect();
        let status = json!({"message": long, "reason": long, "details": {"name": long, "causes": causes}});
        let error = denied("a.b.c", serde_json::from_value(status).unwrap());
        assert!(error.to_string().len() < 5_000 && error.to_string().ends_with("..."));
        assert!(error.reason().len() < 5_000);
        let ApiError::Denied { details: Some(details), .. } = &error else { panic!("{error:?}") };
        let causes = details["causes"].as_array().unwrap();
        assert!((100..999).contains(&causes.len()) && details.to_string().len() < 40_000);
        assert_eq!(causes[0], json!({"field": "spec.f0", "message": "not so"}));
    }
}
