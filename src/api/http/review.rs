//! Questions about access. There is one user, the cluster's owner, who may do everything.

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::body;
use super::request::{Review, Wanted};
use super::respond::Answer;
use crate::api::ApiError;

/// The one user.
const OWNER: &str = "podium-admin";

pub(super) async fn answer(review: Review, request: Request, _wanted: &Wanted) -> Result<Response, ApiError> {
    if request.method() != Method::POST {
        return Err(ApiError::MethodNotAllowed(
            "the server does not allow this method on the requested resource".into(),
        ));
    }
    let mut object: Value = body::read_value(request).await?.value;
    let status = match review {
        Review::Access => {
            json!({"allowed": true, "reason": "the cluster's owner may do everything"})
        }
        Review::Rules => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        Review::Identity => {
            json!({"userInfo": {"username": OWNER, "groups": ["system:masters", "system:authenticated"]}})
        }
    };
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiError::BadRequest("the body is not an object".into()));
    };
    fields.insert("status".into(), status);
    fields.entry("metadata").or_insert_with(|| json!({}));
    Answer::json(StatusCode::CREATED, &object)
}
