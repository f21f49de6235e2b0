//! Questions about identity and access, answered at once and stored nowhere.
//!
//! Everybody who can show who they are may do everything until roles are enforced (SEC-4).

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::Review;
use super::respond::Answer;
use super::response_format::not_allowed;
use super::{Server, body};
use crate::identity::{ISSUER, User};
use crate::{ApiError, Cause};
use base::quote::quote;

pub(super) async fn answer(
    server: &Server,
    review: &Review,
    user: &User,
    request: Request,
) -> Result<Response, ApiError> {
    if request.method() != Method::POST {
        return Err(not_allowed());
    }
    let mut object: Value = body::read_value(request).await?.value;
    let status = match review {
        Review::Access => access(true),
        Review::Subject => access(subject_access("SubjectAccessReview", &object, None)?),
        Review::LocalSubject { namespace } => {
            access(subject_access("LocalSubjectAccessReview", &object, Some(namespace))?)
        }
        Review::Rules => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        Review::Identity => json!({"userInfo": shown(user)}),
        Review::Token => token(server, &object),
    };
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiError::BadRequest("the body is not an object".into()));
    };
    fields.insert("status".into(), status);
    fields.entry("metadata").or_insert_with(|| json!({}));
    Answer::json(StatusCode::CREATED, &object)
}

fn access(allowed: bool) -> Value {
    if allowed {
        json!({"allowed": true, "reason": "whoever is known may do everything"})
    } else {
        json!({"allowed": false, "reason": "only who is known may do anything"})
    }
}

/// Who has shown no credential that holds; requests of theirs are refused.
const ANONYMOUS: (&str, &str) = ("system:anonymous", "system:unauthenticated");

/// Whether the subject of a review may do what it asks: the answer that their own request would get.
fn subject_access(what: &'static str, review: &Value, namespace: Option<&str>) -> Result<bool, ApiError> {
    let text = |pointer: &str| review.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let given = |pointer: &str| review.pointer(pointer).is_some_and(|value| !value.is_null());
    let groups: Vec<&str> = review
        .pointer("/spec/groups")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let user = text("/spec/user");
    let (resource, path) = (given("/spec/resourceAttributes"), given("/spec/nonResourceAttributes"));
    let mut causes = Vec::new();
    let mut wrong = |field: &str, message: String| {
        causes.push(Cause { reason: "FieldValueInvalid".into(), message, field: field.into() });
    };
    if resource && path {
        let why = "cannot be specified in combination with resourceAttributes";
        wrong("spec.nonResourceAttributes", format!("Invalid value: {why}"));
    }
    if !resource && !path {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        wrong("spec.resourceAttributes", format!("Invalid value: null: {why}"));
    }
    if user.is_empty() && groups.is_empty() {
        wrong("spec.user", "Invalid value: \"\": at least one of user or group must be specified".into());
    }
    if let Some(namespace) = namespace {
        if path {
            wrong("spec.nonResourceAttributes", "Invalid value: disallowed on this kind of request".into());
        }
        let asked = text("/spec/resourceAttributes/namespace");
        if asked != namespace {
            let why = "must match metadata.namespace";
            wrong("spec.resourceAttributes.namespace", format!("Invalid value: {}: {why}", quote(asked)));
        }
    }
    if !causes.is_empty() {
        let (group, name) = ("authorization.k8s.io", String::new());
        return Err(ApiError::InvalidRequest { what, group, name, causes });
    }
    Ok(user != ANONYMOUS.0 && !groups.contains(&ANONYMOUS.1))
}

fn shown(user: &User) -> Value {
    let mut shown = json!({"username": user.name, "groups": user.groups});
    if let Some(uid) = &user.uid {
        shown["uid"] = uid.clone().into();
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}

/// Whose token it is: what servers ask that take the tokens of pods.
fn token(server: &Server, review: &Value) -> Value {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    let wanted = review.pointer("/spec/audiences").and_then(Value::as_array);
    let wanted: Vec<String> =
        wanted.into_iter().flatten().filter_map(Value::as_str).map(ToString::to_string).collect();
    match server.inner.credentials.authenticate(server.api(), token, &wanted) {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": shown(&user), "audiences": audiences})
        }
        Err(error) => json!({"user": {}, "error": format!("[invalid bearer token, {error}]")}),
    }
}

/// What others need to know to check our tokens by themselves.
pub(super) fn openid(server: &str) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("https://{server}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-FOUND 14: both kinds of review were 404.
    #[test]
    fn a_review_of_others_is_answered_as_their_own_request_would_be_sec_4() {
        let ask =
            |spec: Value, namespace| subject_access("SubjectAccessReview", &json!({"spec": spec}), namespace);
        let pods = json!({"namespace": "a", "verb": "get", "resource": "pods"});
        for (spec, namespace, allowed) in [
            (json!({"user": "system:serviceaccount:a:b", "resourceAttributes": pods}), None, true),
            (json!({"groups": ["team"], "nonResourceAttributes": {"path": "/", "verb": "get"}}), None, true),
            (json!({"user": "bob", "resourceAttributes": pods}), Some("a"), true),
            (json!({"user": "system:anonymous", "resourceAttributes": pods}), None, false),
            (json!({"groups": ["system:unauthenticated"], "resourceAttributes": pods}), None, false),
        ] {
            assert_eq!(ask(spec.clone(), namespace), Ok(allowed), "{spec}");
        }
        let invalid = "SubjectAccessReview.authorization.k8s.io \"\" is invalid: ";
        for (spec, namespace, expected) in [
            (
                json!({"resourceAttributes": pods}),
                None,
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ),
            (
                json!({"user": "bob"}),
                None,
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or \
                 resourceAttributes must be specified",
            ),
            (
                json!({"user": "bob", "resourceAttributes": pods}),
                Some("b"),
                "spec.resourceAttributes.namespace: Invalid value: \"a\": must match metadata.namespace",
            ),
        ] {
            let error = ask(spec, namespace).unwrap_err();
            assert_eq!((error.code(), error.to_string()), (422, format!("{invalid}{expected}")));
        }
    }
}
