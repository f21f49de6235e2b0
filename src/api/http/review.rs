//! Questions about identity and access, answered at once and stored nowhere.
//!
//! Everybody who can show who they are may do everything until roles are enforced (SEC-4).

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::{Review, not_allowed};
use super::respond::Answer;
use super::{Server, body};
use crate::api::ApiError;
use crate::api::identity::{ISSUER, User};

pub(super) async fn answer(
    server: &Server,
    review: Review,
    user: &User,
    request: Request,
) -> Result<Response, ApiError> {
    if request.method() != Method::POST {
        return Err(not_allowed());
    }
    let mut object: Value = body::read_value(request).await?.value;
    let status = match review {
        Review::Access => {
            json!({"allowed": true, "reason": "whoever is known may do everything"})
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
    match server.api().authenticate(token, &wanted) {
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
