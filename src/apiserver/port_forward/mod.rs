//! Port-forward: relays a client's connections to ports of a pod.
//!
//! Clients use SPDY (`portforward.k8s.io`), SPDY inside WebSocket messages, or, in older versions, two
//! WebSocket channels per port. The relay itself is the same for all.
//!
//! Architecture Invariant: no connection is opened here; the pod's node opens them.

mod pairs;
mod spdy;
mod web_socket;

use axum::extract::Request;
use axum::response::Response;
use k8s_openapi::api::core::v1::Pod;

use super::Server;
use super::query::Query;
use super::upgrade::{self, Upgrade};
use api::ApiError;
use api::node_access::PodPorts;
use object::Key;

/// The protocol inside SPDY.
const PROTOCOL: &str = "portforward.k8s.io";

/// SPDY inside WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// Two WebSocket channels per port.
const CHANNELS: &str = "v4.channel.k8s.io";

pub(super) async fn handle(
    server: &Server,
    key: &Key,
    request: Request,
    query: &Query,
) -> Result<Response, ApiError> {
    let upgrade = Upgrade::of(request)?;
    let pod = server.api().get_as::<Pod>(key)?;
    let ports = server.node_of(&pod)?.port_forward(pod).await.map_err(upgrade::refusal)?;
    match upgrade {
        Upgrade::Spdy(upgrade) => match upgrade.choose(&[PROTOCOL]) {
            Ok(protocol) => Ok(upgrade.switch(server, protocol, move |socket| spdy::forward(socket, ports))),
            Err(refusal) => Ok(*refusal),
        },
        Upgrade::WebSocket(mut upgrade) => {
            let served = [TUNNEL, CHANNELS, "v4.base64.channel.k8s.io"];
            let protocol = upgrade.choose(&served, CHANNELS)?;
            if protocol == TUNNEL {
                return Ok(
                    upgrade.switch(server, move |socket| spdy::forward(upgrade::byte_stream(socket), ports))
                );
            }
            let requested = web_socket::requested_ports(&query.all("ports"))?;
            Ok(upgrade.switch(server, move |socket| async move {
                web_socket::forward(socket, protocol, &requested, &*ports).await;
            }))
        }
    }
}

/// Returns the message on a connection's error stream.
fn failure(ports: &dyn PodPorts, port: u16, reason: &str) -> String {
    format!("error forwarding port {port} to pod {}, uid : {reason}", ports.sandbox())
}

/// Parses a port.
fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) => Err(format!("port \"{text}\" must be > 0")),
        Ok(port) => Ok(port),
        Err(_) => Err(format!("unable to parse \"{text}\" as a port")),
    }
}
