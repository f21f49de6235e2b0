//! Reviews of identity and access, answered directly and never stored.

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::ReviewKind;
use super::respond::Responder;
use super::response_format::not_allowed;
use super::{Server, body};
use api::authorization::{Attributes, RequestTarget, ResourceAttributes, everything};
use api::identity::User;
use api::{Api, ApiError};
use apimachinery::validate::{FieldErrors, Path};
use base::sort::CollectMap;

pub(super) async fn handle(
    server: &Server,
    review: &ReviewKind,
    user: &User,
    request: Request,
) -> Result<Response, ApiError> {
    if request.method() != Method::POST {
        return Err(not_allowed());
    }
    let mut object: Value = body::read_value(request).await?.value;
    let api = server.api();
    let status = match review {
        ReviewKind::Access => access(api, "SelfSubjectAccessReview", &object, ReviewSubject::Caller(user))?,
        ReviewKind::Subject => access(api, "SubjectAccessReview", &object, ReviewSubject::Named(None))?,
        ReviewKind::LocalSubject { namespace } => {
            access(api, "LocalSubjectAccessReview", &object, ReviewSubject::Named(Some(namespace)))?
        }
        ReviewKind::Rules => rules(api, user, &object)?,
        ReviewKind::Identity => json!({"userInfo": to_user_info(user)}),
        ReviewKind::Token => token(server, &object)?,
    };
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiError::BadRequest("the body is not an object".into()));
    };
    fields.insert("status".into(), status);
    fields.entry("metadata").or_insert_with(|| json!({}));
    Responder::json(StatusCode::CREATED, &object)
}

/// The subject of an access review.
#[derive(Clone, Copy)]
enum ReviewSubject<'a> {
    /// The caller.
    Caller(&'a User),
    /// The user that the review names, in the namespace of the path if it has one.
    Named(Option<&'a str>),
}

/// Checks the access of a review's subject: the same decision that the subject's own request would get.
fn access(api: &Api, kind: &'static str, review: &Value, of: ReviewSubject<'_>) -> Result<Value, ApiError> {
    check(kind, review, of)?;
    let named;
    let user = match of {
        ReviewSubject::Caller(user) => user,
        ReviewSubject::Named(_) => {
            named = subject(review);
            &named
        }
    };
    let text = |field: &str| {
        let found = review.pointer(&format!("/spec/{field}")).and_then(Value::as_str);
        found.unwrap_or_default().to_string()
    };
    let decision = if is_set(review, "nonResourceAttributes") {
        let (verb, path) = (text("nonResourceAttributes/verb"), text("nonResourceAttributes/path"));
        api.decide(&Attributes { user, verb: &verb, on: RequestTarget::Path(&path) })
    } else {
        let of = |field: &str| text(&format!("resourceAttributes/{field}"));
        let (verb, group, resource) = (of("verb"), of("group"), of("resource"));
        let (subresource, name, namespace) = (of("subresource"), of("name"), of("namespace"));
        let on_node = demanded_node(review);
        let on = ResourceAttributes {
            group: &group,
            resource: &resource,
            subresource: &subresource,
            name: &name,
            namespace: &namespace,
            on_node: &on_node,
        };
        api.decide(&Attributes { user, verb: &verb, on: RequestTarget::Resource(on) })
    };
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    Ok(status)
}

fn is_set(review: &Value, field: &str) -> bool {
    review.pointer(&format!("/spec/{field}")).is_some_and(|value| !value.is_null())
}

/// Returns true if a field with this value is the same as none.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

/// Returns the node that a review's field selector demands of pods.
fn demanded_node(review: &Value) -> String {
    let requirements = review.pointer("/spec/resourceAttributes/fieldSelector/requirements");
    let requirements = requirements.and_then(Value::as_array).into_iter().flatten();
    let of_node = requirements.filter(|r| r["key"] == "spec.nodeName" && r["operator"] == "In");
    let values = of_node.filter_map(|r| r["values"].as_array()).find(|values| values.len() == 1);
    values.and_then(|values| values[0].as_str()).unwrap_or_default().to_string()
}

/// Returns the user that a review names.
fn subject(review: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(ToString::to_string).collect()
    };
    let spec = &review["spec"];
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        uid: spec["uid"].as_str().map(ToString::to_string),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect_map(),
        ..User::named(spec["user"].as_str().unwrap_or_default(), texts(&spec["groups"]))
    }
}

/// Refuses a review that does not have exactly one type of attributes, that names no subject, or that has metadata:
/// reviews are never stored.
fn check(kind: &'static str, review: &Value, of: ReviewSubject<'_>) -> Result<(), ApiError> {
    let text = |pointer: &str| review.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (resource, path) = (is_set(review, "resourceAttributes"), is_set(review, "nonResourceAttributes"));
    let mut errors = FieldErrors::default();
    let spec = Path::root("spec");
    let (at_resource, at_path) = (spec.child("resourceAttributes"), spec.child("nonResourceAttributes"));
    if resource && path {
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.invalid_itself(&at_path, detail);
    }
    if !resource && !path {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid(&at_resource, &Value::Null, detail);
    }
    let is_unspecified = text("/spec/user").is_empty()
        && review.pointer("/spec/groups").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if matches!(of, ReviewSubject::Named(_)) && is_unspecified {
        errors.invalid(&spec.child("user"), "", "at least one of user or group must be specified");
    }
    let is_local = matches!(of, ReviewSubject::Named(Some(_)));
    let is_meaningless = |field: &str| field == "managedFields" || (is_local && field == "namespace");
    let mut metadata = review["metadata"].as_object().into_iter().flatten();
    if metadata.any(|(field, value)| !is_meaningless(field) && !is_empty(value)) {
        let allowed = if is_local { " except for namespace" } else { "" };
        errors.invalid(&Path::root("metadata"), &review["metadata"], format!("must be empty{allowed}"));
    }
    if let ReviewSubject::Named(Some(namespace)) = of {
        if path {
            errors.invalid_itself(&at_path, "disallowed on this kind of request");
        }
        let requested = text("/spec/resourceAttributes/namespace");
        if requested != namespace {
            errors.invalid(&at_resource.child("namespace"), requested, "must match metadata.namespace");
        }
    }
    errors.refuse_request(kind, "authorization.k8s.io", "")
}

/// Returns all permissions of the user in a namespace.
fn rules(api: &Api, user: &User, review: &Value) -> Result<Value, ApiError> {
    let namespace = review.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::BadRequest("no namespace on request".into()));
    }
    let (mut rules, faults) = api.rules_for(user, namespace);
    let all =
        |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| list.iter().any(|one| one == "*"));
    if user.is_master() && !rules.iter().any(|rule| all(&rule.resources) && all(&rule.api_groups)) {
        // A master may do everything, even if the role that grants it was deleted.
        rules.extend(everything());
    }
    let (paths, resources): (Vec<_>, Vec<_>) = rules
        .into_iter()
        .partition(|rule| rule.non_resource_urls.as_ref().is_some_and(|urls| !urls.is_empty()));
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !faults.is_empty() {
        status["incomplete"] = true.into();
        status["evaluationError"] = faults.join(", ").into();
    }
    Ok(status)
}

fn to_user_info(user: &User) -> Value {
    let mut shown = json!({"username": user.name, "groups": user.groups});
    if let Some(uid) = &user.uid {
        shown["uid"] = uid.clone().into();
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}

/// Returns the result of a TokenReview: servers that accept pods' tokens request it to learn the token's
/// user.
fn token(server: &Server, review: &Value) -> Result<Value, ApiError> {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::BadRequest("token is required for TokenReview in authentication".into()));
    }
    let requested = review.pointer("/spec/audiences").and_then(Value::as_array);
    let requested: Vec<String> =
        requested.into_iter().flatten().filter_map(Value::as_str).map(ToString::to_string).collect();
    Ok(match server.inner.credentials.authenticate(server.api(), token, &requested) {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": to_user_info(&user), "audiences": audiences})
        }
        Err(error) => json!({"user": {}, "error": format!("[invalid bearer token, {error}]")}),
    })
}

/// Returns the OpenID configuration with which others verify our tokens by themselves.
pub(super) fn openid(issuer: &str, server: &str) -> Value {
    json!({
        "issuer": issuer,
        "jwks_uri": format!("https://{server}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: both kinds of review got 404.
    #[test]
    fn a_review_names_a_subject_and_exactly_one_kind_of_attributes_sec_4() {
        let validate = |spec: &Value, namespace| {
            check("SubjectAccessReview", &json!({"spec": spec}), ReviewSubject::Named(namespace))
        };
        let pods = json!({"namespace": "a", "verb": "get", "resource": "pods"});
        for (spec, namespace) in [
            (json!({"user": "system:serviceaccount:a:b", "resourceAttributes": pods}), None),
            (json!({"groups": ["team"], "nonResourceAttributes": {"path": "/", "verb": "get"}}), None),
            (json!({"user": "bob", "resourceAttributes": pods}), Some("a")),
        ] {
            assert_eq!(validate(&spec, namespace), Ok(()), "{spec}");
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
            let error = validate(&spec, namespace).unwrap_err();
            assert_eq!((error.code(), error.to_string()), (422, format!("{invalid}{expected}")));
        }
    }

    /// Regression: metadata was accepted and sent back.
    #[test]
    fn an_access_review_has_no_metadata_api_15() {
        let spec = json!({"user": "bob", "resourceAttributes": {"namespace": "a"}});
        let validate = |metadata: Value, namespace| {
            let review = json!({"metadata": metadata, "spec": spec});
            check("SubjectAccessReview", &review, ReviewSubject::Named(namespace)).map_err(|e| e.to_string())
        };
        assert_eq!(validate(json!({"creationTimestamp": null, "labels": {}, "name": ""}), None), Ok(()));
        assert_eq!(validate(json!({"namespace": "a"}), Some("a")), Ok(()));
        let refused = validate(json!({"name": "a"}), None).unwrap_err();
        assert!(refused.ends_with(r#"metadata: Invalid value: {"name":"a"}: must be empty"#), "{refused}");
        let refused = validate(json!({"labels": {"a": "b"}}), Some("a")).unwrap_err();
        assert!(refused.ends_with("must be empty except for namespace"), "{refused}");
    }
}
