//! The final encoding of a response: as YAML or protobuf, pretty-printed, compressed.

use std::io::Write;

use axum::body::Body as AnyBody;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::connection::ReadMode;
use super::negotiate::MediaType;
use super::protobuf;
use super::query::Query;
use super::respond::Responder;
use super::transformed_body::{Transform, TransformedBody};
use crate::ApiError;

/// Smaller responses are not compressed; Kubernetes' number.
const COMPRESSED_FROM: u64 = 128 << 10;

/// The estimated length of a body that is encoded while it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct EstimatedSize(pub(super) u64);

/// Marks a response that is sent as it is, possibly compressed: it is never pretty-printed, which would need
/// the whole body in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct VerbatimBody;

/// The client's preferences for the encoding of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseEncoding {
    pub(super) media: MediaType,
    /// Pretty-printed JSON.
    pretty: bool,
    gzip: bool,
}

impl ResponseEncoding {
    /// Reads a request's preferences, except for the media type.
    pub(super) fn of(method: &Method, headers: &HeaderMap, query: &Query) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // As in Kubernetes: pretty-printed if the query demands it, and for programs that display responses.
        let agent = text(USER_AGENT);
        let for_people = ["curl", "Wget", "Mozilla/5.0"].iter().any(|people| agent.starts_with(people));
        let pretty = if query.get("pretty").is_some() { query.flag("pretty") } else { for_people };
        let accepts = |one: &str| {
            let mut parts = one.split(';').map(str::trim);
            parts.next() == Some("gzip") && parts.all(|part| !matches!(part, "q=0" | "q=0.0"))
        };
        let gzip = *method == Method::GET && text(ACCEPT_ENCODING).split(',').any(|one| accepts(one.trim()));
        Self { media: MediaType::Json, pretty, gzip }
    }

    /// Returns the response in the client's encoding. Streams pass unchanged.
    pub(super) async fn apply(self, response: Response) -> Response {
        if response.extensions().get::<ReadMode>().is_some() {
            return response;
        }
        let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|type_| type_ == "application/json");
        let is_verbatim = response.extensions().get::<VerbatimBody>().is_some();
        let response = if is_json && !is_verbatim && (self.pretty || self.media != MediaType::Json) {
            self.rewritten(response).await
        } else {
            response
        };
        if self.gzip { compressed(response) } else { response }
    }

    async fn rewritten(self, response: Response) -> Response {
        let (mut parts, body) = response.into_parts();
        let bytes = match body.collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) => return Responder::error(&ApiError::Internal(error.to_string())),
        };
        let value = || serde_json::from_slice::<Value>(&bytes).ok();
        let made = match self.media {
            MediaType::Yaml => value().map(|value| manifest::to_yaml(&value).into_bytes()),
            // A response without a protobuf form stays JSON, which its client reads as well.
            MediaType::Protobuf => value().and_then(|value| protobuf::of_value(&value)),
            MediaType::Json => serde_json::from_slice::<IgnoredAny>(&bytes).is_ok().then(|| indented(&bytes)),
        };
        let Some(made) = made else { return Response::from_parts(parts, bytes.into()) };
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media.content_type(false)));
        parts.extensions.remove::<EstimatedSize>();
        Response::from_parts(parts, made.into())
    }
}

/// Indents JSON text. Its fields stay in their order: a `Value` would sort them.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * json.len());
    let (mut depth, mut in_string, mut is_escaped, mut is_empty) = (0_usize, false, false, false);
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for byte in json.iter().copied() {
        if in_string {
            in_string = byte != b'"' || is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            out.push(byte);
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        // An empty list or object stays on its line.
        if std::mem::take(&mut is_empty) != closes {
            new_line(&mut out, depth);
        }
        out.push(byte);
        match byte {
            b'{' | b'[' => (depth, is_empty) = (depth + 1, true),
            b',' => new_line(&mut out, depth),
            b':' => out.push(b' '),
            b'"' => in_string = true,
            _ => {}
        }
    }
    out
}

/// Compresses a long response.
fn compressed(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let length = body.size_hint().exact().or_else(|| parts.extensions.get::<EstimatedSize>().map(|e| e.0));
    if parts.status != StatusCode::OK
        || parts.headers.contains_key(CONTENT_ENCODING)
        || length.is_none_or(|length| length < COMPRESSED_FROM)
    {
        return Response::from_parts(parts, body);
    }
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, AnyBody::new(Gzip::body(body)))
}

/// Compresses a body as it is read.
pub(super) struct Gzip(GzEncoder<Vec<u8>>);

impl Gzip {
    pub(super) fn body(inner: AnyBody) -> TransformedBody<Self> {
        // The fastest level, as in Kubernetes: most clients are near.
        TransformedBody::new(inner, Self(GzEncoder::new(Vec::new(), Compression::fast())))
    }
}

impl Transform for Gzip {
    fn write(&mut self, data: &[u8]) -> Result<(), axum::Error> {
        self.0.write_all(data).map_err(axum::Error::new)
    }

    fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(self.0.get_mut())
    }

    fn end(self) -> Result<Vec<u8>, axum::Error> {
        self.0.finish().map_err(axum::Error::new)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn indented_text_has_its_fields_in_order_api_6() {
        let text = r#"{"b":[{},[],{"a":[1,-2.5,null]}],"a":{"\"}{,:\\":"x y\\"},"c":""}"#;
        let indented = String::from_utf8(indented(text.as_bytes())).unwrap();
        assert!(
            indented.starts_with("{\n  \"b\": [\n    {},\n    [],\n    {\n      \"a\": [\n        1,\n"),
            "{indented}"
        );
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&indented).unwrap(), value);
        let sorted = value.to_string();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(String::from_utf8(super::indented(sorted.as_bytes())).unwrap(), pretty);
        assert_eq!(super::indented(pretty.as_bytes()), pretty.as_bytes(), "it is indented already");
    }

    #[tokio::test]
    async fn long_answers_are_compressed_for_those_who_ask_api_6() {
        let long = "0123456789".repeat(20_000);
        let negotiated = |encoding: &'static str| {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(encoding))]);
            ResponseEncoding::of(&Method::GET, &headers, &Query::default())
        };
        for (encoding, text, expected) in [
            ("gzip, deflate", long.as_str(), true),
            ("br;q=1.0, gzip;q=0.8", &long, true),
            ("gzip", "short", false),
            ("gzip;q=0", &long, false),
            ("deflate", &long, false),
        ] {
            let answer = negotiated(encoding).apply(Response::new(text.to_string().into())).await;
            assert_eq!(answer.headers().contains_key(CONTENT_ENCODING), expected, "{encoding}");
            let bytes = answer.into_body().collect().await.unwrap().to_bytes();
            if expected {
                let mut back = String::new();
                flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut back).unwrap();
                assert!(back == text && bytes.len() < text.len() / 10);
            } else {
                assert_eq!(bytes, text);
            }
        }
    }
}
