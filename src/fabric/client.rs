//! The client of the fabric's process: requests from outside for sockets inside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::descriptors::AT_ONCE;
use crate::protocol::{Request, Response, SocketSpec, receive, send};
use base::socket_path::reachable;

use crate::{FabricError, LeafSpec, Namespaces, RouterHandle};

/// Timeout of a request. The fabric's process never waits for a client: if it does not respond, it has a defect or is
/// suspended.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a fabric's process. Requests block for some ten microseconds; those for leaves, for some
/// milliseconds.
#[derive(Debug)]
pub struct Fabric {
    connection: Mutex<OwnedFd>,
}

impl Fabric {
    /// Connects to the process that listens at this path.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let connection =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        for way in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&connection, way, Some(REQUEST_TIMEOUT))?;
        }
        let path = reachable(socket)?;
        rustix::net::connect(&connection, &SocketAddrUnix::new(&path.path)?)?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Returns the process's id.
    pub fn process(&self) -> io::Result<u32> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = sockopt::socket_peercred(&*connection)?;
        Ok(peer.pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// Returns the fabric's namespaces.
    pub fn namespaces(&self) -> Result<Namespaces, FabricError> {
        let mut descriptors = self.request(&Request::Namespaces)?.into_iter();
        let network =
            descriptors.next().ok_or_else(|| FabricError::new("namespaces", missing_descriptor()))?;
        Ok(Namespaces { network, user: descriptors.next() })
    }

    /// Returns the handle for creating leaves, for a process that has entered the namespaces.
    pub fn trunk(&self) -> Result<RouterHandle, FabricError> {
        let route = self.socket(&SocketSpec::new(crate::SocketKind::Route))?;
        Ok(RouterHandle::new(self.namespaces()?.network, route))
    }

    /// Creates a leaf that the process retains, unless it exists.
    pub fn leaf(&self, leaf: LeafSpec) -> Result<(), FabricError> {
        self.request(&Request::Leaf(leaf)).map(drop)
    }

    /// Returns the namespace of a leaf that the process retains.
    pub fn leaf_namespace(&self, link: &str) -> Result<OwnedFd, FabricError> {
        let namespace = self.request(&Request::LeafNamespace(link.to_owned()))?.pop();
        namespace.ok_or_else(|| FabricError::new(format!("leaf {link}"), missing_descriptor()))
    }

    /// Passes an existing leaf to the process, which an earlier process retained.
    pub fn adopt_leaf(&self, leaf: LeafSpec, namespace: &OwnedFd) -> Result<(), FabricError> {
        self.request_with_descriptors(&Request::AdoptLeaf(leaf), &[namespace.as_fd()]).map(drop)
    }

    /// Releases a leaf.
    pub fn remove_leaf(&self, link: &str) -> Result<(), FabricError> {
        self.request(&Request::RemoveLeaf(link.to_owned())).map(drop)
    }

    /// Creates a detour in a slot below [`crate::DETOURS`], replacing an existing one, and returns the socket that
    /// receives its packets and sends them on ([`crate::DelayBox`]). The detour exists for as long as the socket.
    pub fn detour(&self, slot: u8) -> Result<OwnedFd, FabricError> {
        let socket = self.request(&Request::Detour(slot))?.pop();
        socket.ok_or_else(|| FabricError::new(format!("detour {slot}"), missing_descriptor()))
    }

    /// Stops routing packets by a detour, if there is one.
    pub fn remove_detour(&self, slot: u8) -> Result<(), FabricError> {
        self.request(&Request::RemoveDetour(slot)).map(drop)
    }

    /// Opens a socket.
    pub fn socket(&self, spec: &SocketSpec) -> Result<OwnedFd, FabricError> {
        let socket = self.sockets(spec, 1)?.pop();
        socket.ok_or_else(|| FabricError::new("socket", missing_descriptor()))
    }

    /// Opens `count` equal sockets, 64 at most.
    pub fn sockets(&self, spec: &SocketSpec, count: usize) -> Result<Vec<OwnedFd>, FabricError> {
        self.request(&Request::Sockets { spec: spec.clone(), count: count.min(AT_ONCE) })
    }

    /// Ends the process, which has exited when this returns. Namespaces live on while other processes hold descriptors
    /// of them.
    pub fn shut_down(&self) -> Result<(), FabricError> {
        self.request(&Request::Shutdown)?;
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        match receive::<Response>(&*connection).map_err(FabricError::at("ask the fabric"))? {
            None => Ok(()),
            Some(_) => Err(FabricError::new("ask the fabric", io::Error::other("the process did not exit"))),
        }
    }

    fn request(&self, request: &Request) -> Result<Vec<OwnedFd>, FabricError> {
        self.request_with_descriptors(request, &[])
    }

    fn request_with_descriptors(
        &self,
        request: &Request,
        beside: &[BorrowedFd<'_>],
    ) -> Result<Vec<OwnedFd>, FabricError> {
        // The mutex is never poisoned in the middle of an exchange: no code between request and response panics.
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let received = send(&*connection, request, beside).and_then(|()| receive::<Response>(&*connection));
        if received.is_err() {
            // A late response would be taken for that of the next request: this connection gets no further one.
            let _ = rustix::net::shutdown(&*connection, Shutdown::Both);
        }
        let answered = received.map_err(FabricError::at("ask the fabric"))?;
        match answered {
            Some((Response::Done, descriptors)) => Ok(descriptors),
            Some((Response::Failed { step, code }, _)) => {
                Err(FabricError::new(step, io::Error::from_raw_os_error(code)))
            }
            None => Err(FabricError::new("ask the fabric", io::ErrorKind::ConnectionReset.into())),
        }
    }
}

fn missing_descriptor() -> io::Error {
    io::Error::other("the fabric sent no descriptor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_late_is_not_that_to_the_next_request_net_5() {
        let flags = SocketFlags::CLOEXEC;
        let (own, process) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let soon = Some(Duration::from_millis(1));
        sockopt::set_socket_timeout(&own, sockopt::Timeout::Recv, soon).unwrap();
        let fabric = Fabric { connection: Mutex::new(own) };
        let late = fabric.leaf_namespace("one").unwrap_err();
        assert_eq!(late.source.kind(), io::ErrorKind::WouldBlock);
        let (request, _) = receive::<Request>(&process).unwrap().unwrap();
        assert_eq!(request, Request::LeafNamespace("one".to_owned()));
        // The process finds the connection closed, or the client does not read the response.
        let _ = send(&process, &Response::Done, &[process.as_fd()]);
        assert!(fabric.leaf_namespace("two").is_err(), "the descriptor of another");
    }
}
