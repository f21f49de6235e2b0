//! The parts that reviews of all webhooks have in common.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The version of reviews that a webhook reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the first supported version among those that a webhook reads.
    pub(crate) fn first_of(versions: &[String]) -> Option<Self> {
        versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    /// Returns the `apiVersion` of reviews in their group.
    pub(crate) fn api_version(self, group: &str) -> String {
        let version = match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        };
        format!("{group}/{version}")
    }
}

/// A review as a webhook returns it, with a response of type `R`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Review<R> {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) api_version: String,
    pub(crate) response: Option<R>,
}

impl<R: DeserializeOwned> Review<R> {
    /// Parses the body of a webhook's response.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_known_is_sent_api_14() {
        let first = |versions: &[&str]| {
            ReviewVersion::first_of(&versions.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(first(&["v2", "v1beta1", "v1"]), Some(ReviewVersion::V1Beta1));
        assert_eq!(first(&["v1", "v1beta1"]), Some(ReviewVersion::V1));
        assert_eq!(first(&["v3"]), None);
    }
}
