//! Receives the datagrams of a transparent socket, each with its original destination.
#![expect(unsafe_code, reason = "the control message with the original destination has no safe wrapper")]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// The length in bytes; bytes beyond the buffer are lost.
    pub length: usize,
    /// The sender.
    pub from: SocketAddr,
    /// The destination; none if the kernel does not report it.
    pub to: Option<SocketAddr>,
}

/// Space for the ancillary data of a datagram: one address.
const BESIDE_BYTES: usize = 128;

/// Receives one datagram.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<ReceivedDatagram> {
    /// Aligned as the kernel's headers require.
    #[repr(align(8))]
    struct ControlBuffer([u8; BESIDE_BYTES]);
    let mut beside = ControlBuffer([0; BESIDE_BYTES]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: these structures are numbers and pointers, for which zero is a value.
    let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    message.msg_controllen = BESIDE_BYTES;
    // SAFETY: all that the message points to lives for the call and is as long as it says.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut to = None;
    // SAFETY: the kernel has filled in the message; its macros stay within the control buffer's length, which the
    // message has.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let kind = ((*header).cmsg_level, (*header).cmsg_type);
            let data = libc::CMSG_DATA(header);
            if kind == (libc::SOL_IP, libc::IP_ORIGDSTADDR) {
                to = Some(of_v4(&std::ptr::read_unaligned(data.cast())));
            } else if kind == (libc::SOL_IPV6, libc::IPV6_ORIGDSTADDR) {
                to = Some(of_v6(&std::ptr::read_unaligned(data.cast())));
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    let from = match i32::from(from.ss_family) {
        // SAFETY: the family determines the type of the address.
        libc::AF_INET => of_v4(unsafe { &*(&raw const from).cast() }),
        // SAFETY: as above.
        libc::AF_INET6 => of_v6(unsafe { &*(&raw const from).cast() }),
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(ReceivedDatagram { length, from, to })
}

fn of_v4(address: &libc::sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    SocketAddr::new(ip.into(), u16::from_be(address.sin_port))
}

fn of_v6(address: &libc::sockaddr_in6) -> SocketAddr {
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    SocketAddr::new(ip.into(), u16::from_be(address.sin6_port))
}
