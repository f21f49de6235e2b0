//! Audit events of requests: on arrival, once the user is known, and with the response.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::header::{CONTENT_TYPE, HeaderName, USER_AGENT};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

use super::body;
use super::connection::{PeerAddress, ReadMode};
use super::request_info::RequestInfo;
use super::respond::AUDIT_ID;
use super::tapped_body::tapped;
use crate::audit::{AuditAttributes, AuditContext, AuditLog, IncomingRequest, RequestTarget};
use api::ApiError;
use api::authorization::Decision;
use api::identity::User;

/// The maximum length of an audit ID that a client sends, as in Kubernetes.
const MAX_ID: usize = 64;
/// The maximum number of source addresses.
const MAX_SOURCES: usize = 16;
/// The maximum length of a user agent, in bytes.
const MAX_USER_AGENT: usize = 1024;

/// Starts the audit context of a request.
pub(super) fn begin(log: &AuditLog, now: Timestamp, request: &Request) -> AuditContext {
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let id = text(AUDIT_ID).filter(|id| !id.is_empty()).map(|id| id.chars().take(MAX_ID).collect());
    let agent = text(USER_AGENT).unwrap_or_default();
    AuditContext::begin(
        log.clone(),
        IncomingRequest {
            id: id.unwrap_or_else(base::random::uuid),
            at: now,
            uri: request.uri().path_and_query().map_or_else(String::new, ToString::to_string),
            user_agent: agent.chars().take(MAX_USER_AGENT).collect(),
            sources: sources(request),
        },
    )
}

/// Returns the addresses that a request claims to come from, and the one that it does come from: Kubernetes'
/// `SourceIPs`.
fn sources(request: &Request) -> Vec<IpAddr> {
    const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
    const REAL: HeaderName = HeaderName::from_static("x-real-ip");
    let peer = request.extensions().get::<PeerAddress>().map(|PeerAddress(address)| *address);
    let values_of = |name: HeaderName| {
        let values = request.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
        let addresses = values.flat_map(|value| value.split(',')).filter_map(|text| text.trim().parse().ok());
        addresses.take(MAX_SOURCES).collect::<Vec<IpAddr>>()
    };
    let mut sources = values_of(FORWARDED);
    sources.extend(values_of(REAL).first().filter(|address| !sources.contains(address)));
    sources.extend(peer.filter(|address| sources.last() != Some(address)));
    sources
}

/// Returns the attributes of a request, by `user`; `None` if the user is not authenticated.
pub(super) fn attributes_of(
    info: Result<RequestInfo, ApiError>,
    request: &Request,
    user: Option<&User>,
) -> AuditAttributes {
    let user = user.cloned().map(Arc::new);
    match info {
        Ok(info) => info.audited(user),
        // An unreadable path names no resource.
        Err(_) => AuditAttributes {
            verb: request.method().as_str().to_ascii_lowercase(),
            user,
            on: RequestTarget::Path(request.uri().path().into()),
        },
    }
}

/// Records the authorization decision and its reason.
pub(super) fn decided(trail: &AuditContext, decision: &Decision) {
    trail.annotate("authorization.k8s.io/decision", if decision.allowed { "allow" } else { "forbid" });
    trail.annotate("authorization.k8s.io/reason", decision.reason.as_str());
}

/// Records the response.
pub(super) fn answered(trail: &AuditContext, response: Response) -> Response {
    let status = response.extensions().get::<Arc<Status>>().cloned();
    trail.response_started(response.status().as_u16(), status);
    if !trail.records_response() || response.extensions().get::<ReadMode>().is_some() {
        return response;
    }
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    trail.begin_response(media_type.unwrap_or_default(), body::value_of);
    let trail = trail.clone();
    response.map(|body| tapped(body, move |piece| trail.record_chunk(piece)))
}
