//! Sockets in a network namespace that this thread is not in: opened there and brought back.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::namespaces::in_network;
use crate::netlink::Family;
use crate::{FabricError, SocketKind, SocketSpec};

/// Opens sockets in the namespace that this thread is in.
pub fn open_sockets(spec: &SocketSpec, count: usize) -> Result<Vec<OwnedFd>, FabricError> {
    let name = || spec.bind.map_or_else(|| "socket".to_owned(), |address| format!("socket at {address}"));
    (0..count).map(|_| open(spec).map_err(|error| FabricError::new(name(), error))).collect()
}

/// Opens sockets in another namespace and comes back to `home`, the namespace that this thread is in.
///
/// # Panics
///
/// Ends the process if it cannot come back.
pub fn open_in(
    network: BorrowedFd<'_>,
    home: BorrowedFd<'_>,
    spec: &SocketSpec,
    count: usize,
) -> Result<Vec<OwnedFd>, FabricError> {
    in_network(network, home, || open_sockets(spec, count))?
}

fn open(spec: &SocketSpec) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let netlink = |family: Family| (AddressFamily::NETLINK, SocketType::RAW, family.protocol());
    let (family, kind, protocol) = match spec.kind {
        SocketKind::TcpV4 => (AddressFamily::INET, SocketType::STREAM, None),
        SocketKind::TcpV6 => (AddressFamily::INET6, SocketType::STREAM, None),
        SocketKind::UdpV4 => (AddressFamily::INET, SocketType::DGRAM, None),
        SocketKind::UdpV6 => (AddressFamily::INET6, SocketType::DGRAM, None),
        SocketKind::Route => netlink(Family::Route),
        SocketKind::Netfilter => netlink(Family::Netfilter),
    };
    let socket = rustix::net::socket_with(family, kind, flags, protocol)?;
    if spec.bind.is_some() || spec.listen.is_some() {
        // A socket that closed a moment ago must not occupy the address.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if family == AddressFamily::INET6 {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if spec.transparent {
        transparent(&socket, family)?;
    }
    if let Some(address) = spec.bind {
        rustix::net::bind(&socket, &address)?;
    }
    if let Some(backlog) = spec.listen {
        rustix::net::listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    }
    Ok(socket)
}

/// Lets a socket use addresses that its namespace does not have, and receive the original destinations of datagrams.
fn transparent(socket: &OwnedFd, family: AddressFamily) -> io::Result<()> {
    let options = if family == AddressFamily::INET6 {
        [(libc::SOL_IPV6, libc::IPV6_TRANSPARENT), (libc::SOL_IPV6, libc::IPV6_RECVORIGDSTADDR)]
    } else {
        [(libc::SOL_IP, libc::IP_TRANSPARENT), (libc::SOL_IP, libc::IP_RECVORIGDSTADDR)]
    };
    options.into_iter().try_for_each(|(level, option)| enable(socket, level, option))
}

/// Switches an option of a socket on.
#[expect(unsafe_code, reason = "only some options have a safe wrapper")]
pub(crate) fn enable(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: a number of the given size that lives for the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
