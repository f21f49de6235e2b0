//! `ConversionReview`: the request to a webhook, and the check of its response. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::webhook_client::{Review, ReviewVersion};
use base::quote::quote;
use object::Object;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";

/// Returns the first supported version among those that a webhook reads.
pub(super) fn version(versions: &[String]) -> Result<ReviewVersion, String> {
    let none = || format!("no supported conversion review versions in [{}]", versions.join(" "));
    ReviewVersion::first_of(versions).ok_or_else(none)
}

/// Returns the review that requests these objects in a version.
pub(super) fn request<'a>(
    version: ReviewVersion,
    uid: &str,
    desired: &str,
    objects: impl Iterator<Item = &'a Object>,
) -> Vec<u8> {
    let (kind, api_version) = (json!(KIND), json!(version.api_version(GROUP)));
    let head = format!(
        "{{\"kind\":{kind},\"apiVersion\":{api_version},\"request\":{{\"uid\":{},\"desiredAPIVersion\":{},\"objects\":[",
        json!(uid),
        json!(desired)
    );
    let mut out = head.into_bytes();
    for (i, object) in objects.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        object.write_json(&mut out);
    }
    out.extend(b"]}}");
    out
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    converted_objects: Option<Vec<Value>>,
    #[serde(default)]
    result: Option<Outcome>,
}

#[derive(Default, Deserialize)]
struct Outcome {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

/// Reads a response; the error says why the response is unusable.
pub(super) fn read(version: ReviewVersion, uid: &str, body: &[u8]) -> Result<Vec<Value>, String> {
    let review = Review::<Response>::parse(body)?;
    let expected = version.api_version(GROUP);
    let found = (review.api_version.as_str(), review.kind.as_str());
    // As in Kubernetes, the type of v1beta1 responses is not checked.
    if version == ReviewVersion::V1 && found != (expected.as_str(), KIND) {
        return Err(format!(
            "expected webhook response of {expected}, Kind={KIND}, got {}, Kind={}",
            found.0, found.1
        ));
    }
    let response = review.response.ok_or("no response provided")?;
    if version == ReviewVersion::V1 && response.uid != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(&response.uid)));
    }
    let outcome = response.result.unwrap_or_default();
    let status = outcome.status.unwrap_or_default();
    if status != "Success" {
        let message = outcome.message.filter(|message| !message.is_empty());
        return Err(
            message.unwrap_or_else(|| format!("response.result.status was '{status}', not 'Success'"))
        );
    }
    Ok(response.converted_objects.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_review_response_is_reported_as_in_kubernetes_api_14() {
        let review = |version: &str, response: Value| json!({"kind": KIND, "apiVersion": format!("apiextensions.k8s.io/{version}"), "response": response});
        let done = json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [{"a": 1}]});
        let mut of_another = done.clone();
        of_another["uid"] = json!("x");
        let v1 = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got ";
        for (version, answer, expected) in [
            (ReviewVersion::V1, review("v1", done.clone()), Ok(1)),
            (ReviewVersion::V1Beta1, review("v1beta1", done.clone()), Ok(1)),
            (ReviewVersion::V1Beta1, json!({"response": of_another}), Ok(1)),
            (
                ReviewVersion::V1,
                review("v1", of_another.clone()),
                Err("expected response.uid=\"u\", got \"x\"".into()),
            ),
            (
                ReviewVersion::V1,
                review("v1beta1", done.clone()),
                Err(format!("{v1}apiextensions.k8s.io/v1beta1, Kind=ConversionReview")),
            ),
            (ReviewVersion::V1, json!({}), Err(format!("{v1}, Kind="))),
            (ReviewVersion::V1, review("v1", Value::Null), Err("no response provided".into())),
            (
                ReviewVersion::V1,
                review("v1", json!({"uid": "u", "result": {"status": "Failed", "message": "not today"}})),
                Err("not today".into()),
            ),
            (
                ReviewVersion::V1,
                review("v1", json!({"uid": "u"})),
                Err("response.result.status was '', not 'Success'".into()),
            ),
            (ReviewVersion::V1, review("v1", json!({"uid": "u", "result": {"status": "Success"}})), Ok(0)),
        ] {
            let read = read(version, "u", answer.to_string().as_bytes()).map(|objects| objects.len());
            assert_eq!(read, expected, "{answer}");
        }
        for garbage in ["", "<html>", "[]", "{\"response\": 7}", "\u{0}"] {
            assert!(read(ReviewVersion::V1, "u", garbage.as_bytes()).is_err(), "{garbage}");
        }
    }
}
