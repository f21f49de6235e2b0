//! Request mirroring: sends copies of requests to further backends and ignores their responses.
//!
//! A copy never delays its request: it is dropped if there is no capacity for it, or if its reader does not keep up.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use tokio::time::timeout;

use super::client::Client;
use super::upstream::{Endpoint, UpstreamRequest};
use super::upstream_request::{address, head_of};
use super::{ForwardPlan, ReverseProxy};

/// Timeout for a copy.
const MIRROR_TIMEOUT: Duration = Duration::from_mins(1);

/// Sends copies of a request to its mirrors.
pub(super) fn send(
    proxy: &Arc<ReverseProxy>,
    client: &Arc<Client>,
    plan: &ForwardPlan,
    request: &mut UpstreamRequest,
) {
    for (pool, protocol) in &plan.mirrors {
        let (protocol, options) = (*protocol, plan.options.clone());
        let Some(to) = pool.pick(proxy, client.address.ip(), &[]) else { continue };
        let Ok(place) = proxy.requests.clone().try_acquire_owned() else { continue };
        let (mut parts, ()) = head_of(request).into_parts();
        if address(&mut parts, protocol, &plan.authority, &plan.uri).is_err() {
            continue;
        }
        // A copy cannot be upgraded to another protocol.
        super::headers::strip(&mut parts.headers, None);
        let copy = Request::from_parts(parts, request.body_mut().copy());
        let upstreams = proxy.upstreams.clone();
        proxy.tasks.spawn("reverse proxy copy", async move {
            let endpoint = Endpoint { address: to, protocol };
            let sent = async {
                let mut connection = upstreams.obtain(endpoint, options.connect_timeout).await?;
                connection.send(copy).await.map_err(|error| std::io::Error::other(error.into_error()))
            };
            match timeout(MIRROR_TIMEOUT, sent).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!("cannot mirror a request to {to}: {error}"),
                Err(_) => tracing::debug!("mirroring a request to {to} took too long"),
            }
            drop(place);
        });
    }
}
