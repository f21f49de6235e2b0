//! Connections to a pod's ports, for port-forward.
//!
//! A container runtime connects to localhost inside the pod's network namespace, and Podium does the same if the pod
//! has one. Where pods share the machine's namespace, a connection to an address may end at another pod: at one that
//! listens on every address, or on the machine's own localhost. There Podium first asks the runtime for the addresses
//! on which processes of this very pod listen, and connects only to those.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::node::Node;
use crate::runtime::{PodUid, RuntimeError};
use api::node_access::{PodPorts, UnreachableError};
use base::dial::{Dialer, LocalDialer};
use base::dial_error::dial_error;
use base::duplex::Duplex;

/// The ports of one sandbox.
pub(super) struct Ports {
    pub(super) node: Arc<Node>,
    pub(super) sandbox: PodUid,
}

impl Ports {
    /// Returns the addresses on which the pod's processes listen on a port, or on the port at which the node serves it
    /// instead.
    async fn listeners(&self, port: u16) -> Result<Vec<SocketAddr>, UnreachableError> {
        let mut found = Vec::new();
        let served = self.node.config.low_ports.served(port);
        let candidates = if served == port { vec![port] } else { vec![port, served] };
        for port in candidates {
            match self.node.runtime.listeners(&self.sandbox, port).await {
                Ok(listeners) => found.extend(listeners),
                Err(RuntimeError::NotFound(_)) => {
                    return Err(UnreachableError(format!(
                        "sandbox container \"{}\" is not running",
                        self.sandbox
                    )));
                }
                Err(error) => return Err(UnreachableError(error.to_string())),
            }
        }
        Ok(found)
    }
}

impl PodPorts for Ports {
    fn sandbox(&self) -> &str {
        &self.sandbox
    }

    fn connect(&self, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, UnreachableError>> {
        async move {
            let (dialer, addresses) = match self.node.runtime.pod_dialer(&self.sandbox) {
                Some(inside) => {
                    let localhost: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
                    (inside, localhost.map(|ip| SocketAddr::new(ip, port)).to_vec())
                }
                None => (Arc::new(LocalDialer) as Dialer, self.listeners(port).await?),
            };
            let mut last = None;
            for address in addresses {
                match dialer.tcp(address).await {
                    Ok(stream) => {
                        // Small writes are a user's keystrokes.
                        let _ = stream.set_nodelay(true);
                        return Ok(Box::new(stream) as Box<dyn Duplex>);
                    }
                    // The error of the first address is reported: runtimes try IPv4 first.
                    Err(error) => drop(last.get_or_insert((address, error))),
                }
            }
            Err(refused(port, last))
        }
        .boxed()
    }
}

/// The error that container runtimes report when nothing listens.
fn refused(port: u16, last: Option<(SocketAddr, std::io::Error)>) -> UnreachableError {
    let reason = match last {
        Some((address, error)) => {
            let family = if address.is_ipv4() { "tcp4" } else { "tcp6" };
            format!("dial {family} {address}: {}", dial_error(&error))
        }
        None => format!("dial tcp4 127.0.0.1:{port}: connect: connection refused"),
    };
    UnreachableError(format!("failed to connect to localhost:{port} inside the pod: {reason}"))
}
