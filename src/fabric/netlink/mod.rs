//! Netlink sockets: many requests in one send, and the kernel's responses to each.
//!
//! The kernel executes a request during its send, so that all responses lie in the socket when `send` returns: nothing
//! here waits.

pub(crate) mod message;
pub(crate) mod route;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{NLMSG_DONE, NLMSG_ERROR};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use message::{Message, messages};

/// The maximum size of one response: it contains its request.
const RESPONSE_BYTES: usize = 64 << 10;

/// The protocol of a netlink socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Links, addresses, routes, neighbours.
    Route,
    /// nftables and connection tracking.
    Netfilter,
}

impl Family {
    /// Returns the protocol's number; `None` means 0.
    pub(crate) fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Route => None,
            Self::Netfilter => Some(rustix::net::netlink::NETFILTER),
        }
    }
}

/// A netlink socket. It acts in the network namespace in which it was opened, not in that of the process that uses it.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// Opens a netlink socket in the network namespace of this thread.
    pub(crate) fn open(family: Family) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::RAW;
        Ok(Self(rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, family.protocol())?))
    }

    /// Wraps a socket that another process has opened.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Sends requests that each request an acknowledgement, numbered from 1 in their order, and returns the index of
    /// the first that failed.
    pub(crate) fn send(&self, requests: &[u8], count: usize) -> Result<(), RequestError> {
        let unsent = |error: rustix::io::Errno| RequestError { request: 0, error: error.into() };
        self.discard_responses().map_err(unsent)?;
        let sent = rustix::net::send(&self.0, requests, SendFlags::empty()).map_err(unsent)?;
        if sent != requests.len() {
            return Err(RequestError { request: 0, error: io::ErrorKind::WriteZero.into() });
        }
        let mut buffer = vec![0; RESPONSE_BYTES];
        let (mut answered, mut first) = (0, None::<RequestError>);
        while answered < count {
            let (length, _) =
                rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty()).map_err(unsent)?;
            for (request, code) in parse_acks(&buffer[..length]) {
                answered += 1;
                if code != 0 && first.as_ref().is_none_or(|first| request < first.request) {
                    let error = io::Error::from_raw_os_error(code);
                    first = Some(RequestError { request, error });
                }
            }
        }
        first.map_or(Ok(()), Err)
    }
}

impl Netlink {
    /// Sends a batch whose requests are numbered from 1, the last of which may request an acknowledgement, and returns
    /// the first that failed.
    pub(crate) fn transact(&self, batch: &[u8]) -> Result<(), RequestError> {
        let unsent = |error: rustix::io::Errno| RequestError { request: usize::MAX, error: error.into() };
        self.discard_responses().map_err(unsent)?;
        rustix::net::send(&self.0, batch, SendFlags::empty()).map_err(unsent)?;
        let answers = self.drain_responses().map_err(unsent)?;
        match answers.into_iter().filter(|(_, code)| *code != 0).min_by_key(|(request, _)| *request) {
            Some((request, code)) => Err(RequestError { request, error: io::Error::from_raw_os_error(code) }),
            None => Ok(()),
        }
    }

    /// Sends a request with one response, and returns it.
    pub(crate) fn request(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.discard_responses()?;
        rustix::net::send(&self.0, request, SendFlags::empty())?;
        let mut buffer = vec![0; RESPONSE_BYTES];
        let (length, _) = rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
        buffer.truncate(length);
        Ok(buffer)
    }

    /// Sends a request for a list and passes each complete message to `take`. The kernel writes the messages while they
    /// are received.
    pub(crate) fn dump(&self, request: &[u8], mut take: impl FnMut(Message<'_>)) -> io::Result<()> {
        self.discard_responses()?;
        rustix::net::send(&self.0, request, SendFlags::empty())?;
        let mut buffer = vec![0; RESPONSE_BYTES];
        loop {
            let (length, _) = rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            for message in messages(&buffer[..length]) {
                match (message.kind, message.error_number()) {
                    (NLMSG_DONE | NLMSG_ERROR, None | Some(0)) => return Ok(()),
                    (_, Some(code)) => return Err(io::Error::from_raw_os_error(code)),
                    (_, None) => take(message),
                }
            }
        }
    }

    /// Discards responses that a failed call left unread: they would be taken for those to the next requests.
    fn discard_responses(&self) -> rustix::io::Result<()> {
        match self.drain_responses() {
            Ok(_) | Err(rustix::io::Errno::NOBUFS) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads all responses that lie in the socket.
    fn drain_responses(&self) -> rustix::io::Result<Vec<(usize, i32)>> {
        let mut buffer = vec![0; RESPONSE_BYTES];
        let (mut all, mut overflown) = (Vec::new(), false);
        loop {
            match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => all.append(&mut parse_acks(&buffer[..length])),
                // The responses overflowed the buffer, which the kernel reports before the responses that fitted. The
                // lost responses are errors, since without a request for acknowledgement only errors get a response.
                Err(rustix::io::Errno::NOBUFS) if !overflown => overflown = true,
                Err(rustix::io::Errno::AGAIN) if overflown && all.is_empty() => {
                    return Err(rustix::io::Errno::NOBUFS);
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(all),
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A request that was refused.
#[derive(Debug)]
pub(crate) struct RequestError {
    /// The index of the request among those sent, from 0.
    pub(crate) request: usize,
    pub(crate) error: io::Error,
}

/// Returns the acknowledgements in the received bytes: the index of the request, and 0 or an error number.
fn parse_acks(bytes: &[u8]) -> Vec<(usize, i32)> {
    let ack =
        |message: Message<'_>| Some(((message.sequence as usize).saturating_sub(1), message.error_number()?));
    messages(bytes).filter_map(ack).collect()
}
