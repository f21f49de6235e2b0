//! Content negotiation: the form and media type of a response.

use serde::Serialize;
use serde_json::{Value, json};

use super::protobuf::MEDIA_TYPE as PROTOBUF;
use api::ApiError;
use base::sort::SliceOrder;

/// The forms of an object or list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Representation {
    /// The object itself.
    #[default]
    Object,
    /// A table for printing.
    Table(MetaVersion),
    /// Only its metadata.
    Metadata(MetaVersion),
}

/// The version of `meta.k8s.io` of a table or metadata; both have the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// Returns the value of `apiVersion`.
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }

    /// Returns an object that consists of metadata.
    pub(super) fn partial(self, metadata: &impl Serialize) -> Value {
        json!({"kind": "PartialObjectMetadata", "apiVersion": self.api_version(), "metadata": metadata})
    }
}

/// The media type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MediaType {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

impl MediaType {
    /// Returns the `Content-Type` value, of a stream of events or of a document.
    pub(super) fn content_type(self, is_stream: bool) -> &'static str {
        match (self, is_stream) {
            (Self::Json, _) => "application/json",
            (Self::Yaml, _) => "application/yaml",
            (Self::Protobuf, false) => PROTOBUF,
            (Self::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// The result of a negotiation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MediaTypeOptions {
    pub(super) form: Representation,
    pub(super) media: MediaType,
}

/// The forms that a response can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupportedTypes {
    /// Objects, also as tables and metadata.
    Objects(Messages),
    /// A stream of objects, which has no YAML form.
    Stream(Messages),
    /// Only the document itself, which has no table.
    Plain,
}

/// The protobuf support of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Messages {
    /// The kind has a message for the object, and one for its metadata.
    Whole,
    /// Only the metadata has a message.
    Metadata,
}

/// Returns the best form that a client accepts; plain JSON for a client without preference, and for one that accepts
/// only protobuf if there is no such form, since every such client also reads JSON.
pub(super) fn negotiate(accept: &str, offer: SupportedTypes) -> Result<MediaTypeOptions, ApiError> {
    if accept.trim().is_empty() {
        return Ok(MediaTypeOptions::default());
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    // Stable: the first among equals wins.
    clauses.order_by_key(|clause| std::cmp::Reverse(clause.quality));
    if let Some(accepted) = clauses.iter().find_map(|clause| clause.accepted(offer)) {
        return Ok(accepted);
    }
    if clauses.iter().any(|clause| {
        clause.media_type == PROTOBUF && (offer != SupportedTypes::Plain || clause.as_.is_none())
    }) {
        return Ok(MediaTypeOptions::default());
    }
    let yaml = if matches!(offer, SupportedTypes::Stream(_)) { "" } else { "application/yaml, " };
    Err(ApiError::NotAcceptable(format!(
        "only the following media types are accepted: application/json, {yaml}{PROTOBUF}"
    )))
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    media_type: &'a str,
    as_: Option<&'a str>,
    version: Option<&'a str>,
    /// In thousandths.
    quality: u32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().filter(|media_type| !media_type.is_empty())?;
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let quality = parameter("q").and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0);
        let quality = (quality.clamp(0.0, 1.0) * 1000.0) as u32;
        Some(Self { media_type, as_: parameter("as"), version: parameter("v"), quality })
    }

    fn accepted(&self, offer: SupportedTypes) -> Option<MediaTypeOptions> {
        let media = match self.media_type {
            "application/json" | "*/*" | "application/*" => MediaType::Json,
            "application/yaml" if !matches!(offer, SupportedTypes::Stream(_)) => MediaType::Yaml,
            PROTOBUF => MediaType::Protobuf,
            _ => return None,
        };
        let version = match self.version {
            Some("v1") => Some(MetaVersion::V1),
            Some("v1beta1") => Some(MetaVersion::V1Beta1),
            _ => None,
        };
        let form = match (self.as_, version) {
            (None, _) => Representation::Object,
            _ if offer == SupportedTypes::Plain => return None,
            (Some("Table"), Some(version)) => Representation::Table(version),
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some(version)) => {
                Representation::Metadata(version)
            }
            (Some(_), _) => return None,
        };
        let is_message = match (offer, form) {
            (SupportedTypes::Plain, _) | (_, Representation::Metadata(_)) => true,
            (
                SupportedTypes::Objects(messages) | SupportedTypes::Stream(messages),
                Representation::Object,
            ) => messages == Messages::Whole,
            (_, Representation::Table(_)) => false,
        };
        (media != MediaType::Protobuf || is_message).then_some(MediaTypeOptions { form, media })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conformance test "Servers with support for Table transformation" expects a 406 for a form that is not
    /// served.
    #[test]
    fn clients_get_the_first_form_we_serve_and_none_that_they_did_not_ask_for_api_6() {
        use MetaVersion::{V1, V1Beta1};
        let json = |form| Some(MediaTypeOptions { form, media: MediaType::Json });
        let yaml = |form| Some(MediaTypeOptions { form, media: MediaType::Yaml });
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let old_table = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
        let protobuf = |form| Some(MediaTypeOptions { form, media: MediaType::Protobuf });
        let (all, custom) =
            (SupportedTypes::Objects(Messages::Whole), SupportedTypes::Objects(Messages::Metadata));
        let stream = SupportedTypes::Stream(Messages::Whole);
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                       application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        for (offer, accept, expected) in [
            (all, "", json(Representation::Object)),
            (all, "application/json", json(Representation::Object)),
            (all, &format!("{table},application/json"), json(Representation::Table(V1))),
            (all, &format!("{old_table},application/json"), json(Representation::Table(V1Beta1))),
            (all, "application/json;as=Table;v=v2,application/json", json(Representation::Object)),
            (all, "application/json;as=Table;v=v2", None),
            (all, "application/vnd.kubernetes.protobuf,application/json", protobuf(Representation::Object)),
            (all, "application/json,application/vnd.kubernetes.protobuf", json(Representation::Object)),
            // As in Kubernetes, where `q=0` is the last choice and no refusal.
            (all, "application/json;q=0", json(Representation::Object)),
            (
                all,
                "application/json;q=0,application/vnd.kubernetes.protobuf;q=0.1",
                protobuf(Representation::Object),
            ),
            (all, &format!("application/vnd.kubernetes.protobuf,{table}"), protobuf(Representation::Object)),
            (all, &table.replace("json", "vnd.kubernetes.protobuf"), json(Representation::Object)),
            (custom, "application/vnd.kubernetes.protobuf,application/json", json(Representation::Object)),
            (custom, "application/vnd.kubernetes.protobuf", json(Representation::Object)),
            (all, partial, protobuf(Representation::Metadata(V1))),
            (custom, partial, protobuf(Representation::Metadata(V1))),
            (stream, "application/vnd.kubernetes.protobuf;stream=watch", protobuf(Representation::Object)),
            (all, "application/yaml", yaml(Representation::Object)),
            (all, "application/yaml;as=Table;v=v1;g=meta.k8s.io", yaml(Representation::Table(V1))),
            (all, "application/json;q=0.5, application/yaml", yaml(Representation::Object)),
            (all, "text/html,application/xhtml+xml,*/*;q=0.8", json(Representation::Object)),
            (all, "text/html", None),
            (stream, "application/yaml", None),
            (stream, table, json(Representation::Table(V1))),
            (SupportedTypes::Plain, table, None),
            (SupportedTypes::Plain, &format!("{table},application/json"), json(Representation::Object)),
        ] {
            assert_eq!(negotiate(accept, offer).ok(), expected, "{accept} {offer:?}");
        }
        assert_eq!(
            negotiate("text/html", all).unwrap_err().to_string(),
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf"
        );
    }
}
