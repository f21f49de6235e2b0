//! `ConversionReview`: the request to a webhook, and the check of its response. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use base::quote::quote;
use object::Object;

const KIND: &str = "ConversionReview";

/// The version of reviews that a webhook reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

impl Version {
    /// Returns the first supported version among those that a webhook reads.
    pub(super) fn first_of(versions: &[String]) -> Result<Self, String> {
        let known = versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        });
        known.ok_or_else(|| format!("no supported conversion review versions in [{}]", versions.join(" ")))
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "apiextensions.k8s.io/v1",
            Self::V1Beta1 => "apiextensions.k8s.io/v1beta1",
        }
    }
}

/// Returns the review that requests these objects in a version.
pub(super) fn request<'a>(
    version: Version,
    uid: &str,
    desired: &str,
    objects: impl Iterator<Item = &'a Object>,
) -> Vec<u8> {
    let (kind, api_version) = (json!(KIND), json!(version.api_version()));
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
struct Review {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    response: Option<Response>,
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
pub(super) fn read(version: Version, uid: &str, body: &[u8]) -> Result<Vec<Value>, String> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    let found = (review.api_version.as_str(), review.kind.as_str());
    // As in Kubernetes, the type of v1beta1 responses is not checked.
    if version == Version::V1 && found != (version.api_version(), KIND) {
        return Err(format!(
            "expected webhook response of {}, Kind={KIND}, got {}, Kind={}",
            version.api_version(),
            found.0,
            found.1
        ));
    }
    let response = review.response.ok_or("no response provided")?;
    if version == Version::V1 && response.uid != uid {
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
            (Version::V1, review("v1", done.clone()), Ok(1)),
            (Version::V1Beta1, review("v1beta1", done.clone()), Ok(1)),
            (Version::V1Beta1, json!({"response": of_another}), Ok(1)),
            (
                Version::V1,
                review("v1", of_another.clone()),
                Err("expected response.uid=\"u\", got \"x\"".into()),
            ),
            (
                Version::V1,
                review("v1beta1", done.clone()),
                Err(format!("{v1}apiextensions.k8s.io/v1beta1, Kind=ConversionReview")),
            ),
            (Version::V1, json!({}), Err(format!("{v1}, Kind="))),
            (Version::V1, review("v1", Value::Null), Err("no response provided".into())),
            (
                Version::V1,
                review("v1", json!({"uid": "u", "result": {"status": "Failed", "message": "not today"}})),
                Err("not today".into()),
            ),
            (
                Version::V1,
                review("v1", json!({"uid": "u"})),
                Err("response.result.status was '', not 'Success'".into()),
            ),
            (Version::V1, review("v1", json!({"uid": "u", "result": {"status": "Success"}})), Ok(0)),
        ] {
            let read = read(version, "u", answer.to_string().as_bytes()).map(|objects| objects.len());
            assert_eq!(read, expected, "{answer}");
        }
        for garbage in ["", "<html>", "[]", "{\"response\": 7}", "\u{0}"] {
            assert!(read(Version::V1, "u", garbage.as_bytes()).is_err(), "{garbage}");
        }
    }

    #[test]
    fn the_first_form_that_is_known_is_sent_api_14() {
        let first = |versions: &[&str]| {
            Version::first_of(&versions.iter().map(ToString::to_string).collect::<Vec<_>>()).ok()
        };
        assert_eq!(first(&["v2", "v1beta1", "v1"]), Some(Version::V1Beta1));
        assert_eq!(first(&["v1", "v1beta1"]), Some(Version::V1));
        assert_eq!(first(&["v3"]), None);
    }
}
