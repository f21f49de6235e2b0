//! A pod's network seen from inside, for `why-not-connected` (NET-8): `GET
//! …/pods/NAME/exec?podium.dev/network=…` with `listeners`, or `connect` and `to=IP:PORT`.
//!
//! A user could learn both by running a command in the pod, so both belong to that subresource: they need the
//! permission to `create` `pods/exec`, and discovery has nothing that Kubernetes lacks.

use std::net::SocketAddr;

use axum::response::Response;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::Server;
use super::query::Query;
use super::respond::Responder;
use api::ApiError;
use base::dial::Transport;
use object::Key;
use object::well_known::parameter::PODIUM_NETWORK;

/// Returns true if the query requests the pod's network.
pub(super) fn is_requested(query: &Query) -> bool {
    query.has(PODIUM_NETWORK)
}

pub(super) async fn handle(server: &Server, key: &Key, query: &Query) -> Result<Response, ApiError> {
    let pod = server.api().get_as::<Pod>(key)?;
    let node = server.node_of(&pod)?;
    match query.get(PODIUM_NETWORK) {
        Some("listeners") => {
            let transport = match query.get("protocol") {
                None | Some("TCP") => Transport::Tcp,
                Some("UDP") => Transport::Udp,
                Some(_) => return Err(ApiError::BadRequest("protocol must be TCP or UDP".into())),
            };
            let listeners = node.listeners(pod, transport).await?;
            Responder::json(StatusCode::OK, &json!({ "listeners": listeners }))
        }
        Some("connect") => {
            let to = query.get("to").and_then(|to| to.parse::<SocketAddr>().ok());
            let to = to.ok_or_else(|| {
                ApiError::BadRequest("to must be an address and a port, such as 10.0.0.1:80".into())
            })?;
            let attempt = node.connect(pod, to).await?;
            Responder::json(StatusCode::OK, &json!({ "attempt": attempt }))
        }
        _ => Err(ApiError::BadRequest(format!("{PODIUM_NETWORK} must be listeners or connect"))),
    }
}
