//! Examines a pod's network from inside: the sockets that listen there, and the outcome of a connection from it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::Access;
use crate::runtime::PodUid;
use api::ApiError;
use api::node_access::Attempt;
use base::dial::{Dialer, LocalDialer, Transport};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// An established connection is watched for this long: the egress path accepts a connection before it knows whether the
/// destination exists, and resets it afterwards.
const RESET_WATCH_TIME: Duration = Duration::from_millis(300);

impl Access {
    /// Returns the addresses on which the pod's processes listen.
    pub(super) async fn every_listener(
        &self,
        pod: &PodUid,
        transport: Transport,
    ) -> Result<Vec<SocketAddr>, ApiError> {
        self.node.runtime.every_listener(pod, transport).await.map_err(|error| super::api_error(&error))
    }

    /// Connects from a pod and returns the outcome.
    pub(super) async fn attempt(&self, pod: &PodUid, to: SocketAddr) -> Result<Attempt, ApiError> {
        // A hollow pod or one that has ended cannot connect.
        self.every_listener(pod, Transport::Tcp).await?;
        let inside = self.node.runtime.pod_dialer(pod);
        // In the machine's network a low port may be served at another port.
        let moved = inside.is_none() && to.ip().is_loopback();
        let port = if moved { self.node.config.low_ports.served(to.port()) } else { to.port() };
        let (dialer, to) =
            (inside.unwrap_or_else(|| Arc::new(LocalDialer) as Dialer), SocketAddr::new(to.ip(), port));
        Ok(match tokio::time::timeout(CONNECT_TIMEOUT, dialer.tcp(to)).await {
            Err(_) => Attempt::TimedOut,
            Ok(Err(error)) => failed(&error),
            Ok(Ok(stream)) => match tokio::time::timeout(RESET_WATCH_TIME, end_of(&stream)).await {
                Ok(Err(error)) => failed(&error),
                Ok(Ok(())) | Err(_) => Attempt::Connected,
            },
        })
    }
}

/// Waits until the peer sends data; returns an error if it resets the connection.
async fn end_of(stream: &TcpStream) -> io::Result<()> {
    stream.readable().await?;
    match stream.try_read(&mut [0]) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

fn failed(error: &io::Error) -> Attempt {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Attempt::Refused,
        io::ErrorKind::TimedOut => Attempt::TimedOut,
        _ => Attempt::Unreachable(base::dial_error::dial_error(error)),
    }
}
