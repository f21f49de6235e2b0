//! Documents about the server itself: discovery, schemas, version, health, keys, and the list of paths.

use axum::extract::Request;
use axum::response::Response;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, ETAG, EXPIRES, HeaderName, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use jiff::{Timestamp, ToSpan};
use serde_json::json;

use super::discovery::{self, GroupVersionEntry};
use super::encoding::VerbatimBody;
use super::negotiate::SupportedTypes;
use super::openapi::{BlockBody, Encoding};
use super::respond::Responder;
use super::response_format::{ResponseFormat, not_allowed};
use super::{Server, health, metrics_page, openapi, review};
use api::ApiError;
use base::sort::SliceOrder;

/// Returns true for documents that need no credential: those of Kubernetes' role `system:public-info-viewer`.
pub(super) fn are_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

pub(super) fn handle(
    server: &Server,
    request: &Request,
    format: &mut ResponseFormat,
) -> Result<Response, ApiError> {
    let found = find(server, request, format)?;
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(found);
    }
    let mut refusal = Responder::error(&not_allowed());
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Ok(refusal)
}

fn find(server: &Server, request: &Request, format: &mut ResponseFormat) -> Result<Response, ApiError> {
    let path = request.uri().path();
    if let Some(answer) = health::handle(server, path, &format.query) {
        return Ok(answer);
    }
    match path {
        "/" => {
            let documents = server.documents();
            let all = discovery::listed(server.api().api_services(), documents.served());
            return Responder::json(StatusCode::OK, &json!({"paths": paths(&all)}));
        }
        "/statusz" => return Ok(health::status_page(server)),
        "/flagz" => return Ok(health::flag_page(server)),
        "/metrics" => {
            return Ok(Responder::typed(
                StatusCode::OK,
                metrics_page::TEXT,
                metrics_page::page(server).into(),
            ));
        }
        "/openid/v1/jwks" => {
            let keys = server.api().token_keys().to_string();
            return Ok(Responder::typed(StatusCode::OK, "application/jwk-set+json", keys.into()));
        }
        "/.well-known/openid-configuration" => {
            return Responder::json(
                StatusCode::OK,
                &review::openid(&server.api().issuer(), &server.address()),
            );
        }
        _ => {}
    }
    if let Some(name) = path.strip_prefix("/openapi/") {
        return schemas(server, name, request.headers(), format);
    }
    let accept = format.accept().to_string();
    let documents = server.documents();
    let all = discovery::listed(server.api().api_services(), documents.served());
    let document =
        discovery::document(&all, path, &accept, &server.address()).ok_or(ApiError::NoSuchResource)?;
    if document.content_type == "application/json" {
        format.negotiate(SupportedTypes::Plain)?;
        return Ok(Responder::typed(StatusCode::OK, document.content_type, document.body.into()));
    }
    let hash = openapi::hash_of(&document.body);
    Ok(tagged(request.headers(), document.content_type, &hash, || document.body.into()))
}

/// Returns an OpenAPI document, which clients cache under its hash.
fn schemas(
    server: &Server,
    name: &str,
    headers: &HeaderMap,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let documents = server.documents();
    let index;
    let json = "application/json";
    let (type_, hash, body): (&'static str, &str, Box<dyn Fn() -> BlockBody + '_>) = match name {
        "v2" if openapi::accepts_protobuf_2(accept) => {
            let body = || documents.version_2(Encoding::Protobuf);
            (openapi::PROTOBUF_2, documents.version_2_hash(), Box::new(body))
        }
        "v2" => (json, documents.version_2_hash(), Box::new(|| documents.version_2(Encoding::Json))),
        "v3" => {
            index = documents.index_with(server.api().api_services());
            (json, &index.hash, Box::new(|| BlockBody::from(index.body.clone())))
        }
        name => {
            let found = name.strip_prefix("v3/").and_then(|path| documents.version_3(path));
            let found = found.ok_or(ApiError::NoSuchResource)?;
            (json, &found.hash, Box::new(|| BlockBody::from(&found.document)))
        }
    };
    let requested = format.query.get("hash");
    if requested.is_some_and(|requested| requested != hash) {
        return moved(&format!("/openapi/{name}?hash={hash}"));
    }
    let mut response = tagged(headers, type_, hash, || axum::body::Body::new(body()));
    response.extensions_mut().insert(VerbatimBody);
    if requested.is_some() {
        set(&mut response, CACHE_CONTROL, "public, immutable");
        set(&mut response, EXPIRES, &in_a_year(server.api().server_clock().now()));
    }
    Ok(response)
}

/// Returns a document with its hash as `ETag`, or status 304 if the client has it.
fn tagged(
    headers: &HeaderMap,
    content_type: &'static str,
    hash: &str,
    body: impl FnOnce() -> axum::body::Body,
) -> Response {
    let etag = format!("\"{hash}\"");
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|one| {
        let one = one.trim();
        one == "*" || one.trim_start_matches("W/") == etag
    });
    let mut response = if is_known {
        Responder::typed(StatusCode::NOT_MODIFIED, content_type, axum::body::Body::empty())
    } else {
        Responder::typed(StatusCode::OK, content_type, body())
    };
    set(&mut response, ETAG, &etag);
    set(&mut response, VARY, "Accept");
    response
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn moved(to: &str) -> Result<Response, ApiError> {
    let location = HeaderValue::try_from(to).map_err(|error| ApiError::BadRequest(error.to_string()))?;
    let mut response = Responder::text(StatusCode::MOVED_PERMANENTLY, "");
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

fn in_a_year(now: Timestamp) -> String {
    let then = now.checked_add((365 * 24).hours()).unwrap_or(now);
    then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Returns the paths in the index at `/`: those that can be read without parameters.
fn paths(all: &[GroupVersionEntry<'_>]) -> Vec<String> {
    let fixed = [
        "/.well-known/openid-configuration", "/api", "/apis", "/flagz", "/metrics", "/openapi/v2",
        "/openapi/v3", "/openid/v1/jwks", "/statusz", "/version",
    ];
    let mut paths: Vec<String> = fixed.iter().map(ToString::to_string).collect();
    paths.extend(health::paths());
    for listed in all {
        paths.push(format!("/{}", listed.path()));
        paths.push(format!("/openapi/v3/{}", listed.path()));
        if !listed.is_core() {
            paths.push(format!("/apis/{}", listed.group));
        }
    }
    paths.order();
    paths.dedup();
    paths
}
