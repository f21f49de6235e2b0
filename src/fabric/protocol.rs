//! The protocol between the fabric's process and its clients: datagrams of JSON over a Unix socket, with descriptors
//! beside them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{LeafSpec, descriptors};

/// The maximum length of a message in bytes.
const MESSAGE_BYTES: usize = 16 << 10;

/// The protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SocketKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over IPv4.
    UdpV4,
    /// UDP over IPv6.
    UdpV6,
    /// The kernel's links, addresses and routes.
    Route,
    /// The kernel's nftables.
    Netfilter,
}

/// A socket to be opened inside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SocketSpec {
    /// The link name of the leaf in which the socket is opened; `None` means the fabric itself.
    pub leaf: Option<String>,
    /// Its protocol.
    pub kind: SocketKind,
    /// The socket may bind addresses that its namespace does not have, and receives the original destinations of
    /// datagrams.
    pub transparent: bool,
    /// The address to bind.
    pub bind: Option<SocketAddr>,
    /// The socket listens, with this backlog. The fabric's process retains a listening socket, so that connections wait
    /// while no process accepts them; a repeated request gets the same socket.
    pub listen: Option<u32>,
}

impl SocketSpec {
    /// Specifies a socket of this kind in the fabric itself.
    pub fn new(kind: SocketKind) -> Self {
        Self { leaf: None, kind, transparent: false, bind: None, listen: None }
    }

    /// Opens the socket in a leaf instead.
    #[must_use]
    pub fn in_leaf(mut self, link: &str) -> Self {
        self.leaf = Some(link.to_owned());
        self
    }
}

/// A request to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Return the descriptors of the namespaces: the network's, then the user's, if there is one.
    Namespaces,
    /// Create a leaf that this process retains, unless it exists.
    Leaf(LeafSpec),
    /// Return the namespace of a retained leaf.
    LeafNamespace(String),
    /// Retain an existing leaf; its namespace goes with the request.
    AdoptLeaf(LeafSpec),
    /// Release a leaf and the sockets retained in it.
    RemoveLeaf(String),
    /// Create a detour in this slot; its socket goes with the response, and the process retains nothing of it.
    Detour(u8),
    /// Stop routing packets by the detour of this slot.
    RemoveDetour(u8),
    /// Open sockets, all alike.
    Sockets { spec: SocketSpec, count: usize },
    /// End the process.
    Shutdown,
}

/// The response of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Response {
    /// Done; the requested descriptors go with the response.
    Done,
    /// The failed step, and the kernel's error number.
    Failed { step: String, code: i32 },
}

/// Sends a message with descriptors.
pub(crate) fn send(socket: impl AsFd, message: &impl Serialize, beside: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MESSAGE_BYTES {
        return Err(io::Error::other(format!("the message is longer than {MESSAGE_BYTES} bytes")));
    }
    descriptors::send(socket, &bytes, beside)
}

/// Receives a message; none when the peer has hung up.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    let (length, beside) = descriptors::receive(socket, &mut bytes)?;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((base::json::from_slice(&bytes[..length]).map_err(io::Error::other)?, beside)))
}
