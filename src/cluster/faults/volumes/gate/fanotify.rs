//! The two calls of fanotify(7) that a gate uses, and the events on its descriptor.
#![expect(unsafe_code, reason = "fanotify has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `FAN_PRE_ACCESS` of linux/fanotify.h (6.14): before a file's content is read or changed.
const PRE_ACCESS: u64 = 0x0010_0000;
/// `FAN_EVENT_INFO_TYPE_RANGE`.
const RANGE: u8 = 6;
/// The size of `struct fanotify_event_metadata`, in bytes.
const METADATA: usize = 24;
/// The size of the record of a range, in bytes.
const RANGE_RECORD: usize = 24;

/// An event: a thread waits for permission to read or change a file.
#[derive(Debug)]
pub(super) struct Event {
    /// The file. The response refers to this descriptor; closing it does not count as a response.
    pub(super) file: OwnedFd,
    /// The waiting thread's id in this process's PID namespace; 0 if the thread is not visible there.
    pub(super) thread: i32,
    /// The offset and length of the access, in bytes; none if the kernel does not report them.
    pub(super) range: Option<(u64, u64)>,
}

/// An fanotify group for pre-content events. It requires root's rights in the first user namespace, and Linux 6.14.
pub(super) fn group() -> io::Result<OwnedFd> {
    let flags = libc::FAN_CLASS_PRE_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_REPORT_TID;
    let files = (libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC).cast_unsigned();
    // SAFETY: the call takes two numbers, and returns a new descriptor or an error.
    let fd = unsafe { libc::fanotify_init(flags, files) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Subscribes a group to the files in a directory, but not to those of its subdirectories.
pub(super) fn mark(group: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> io::Result<()> {
    let mask = PRE_ACCESS | libc::FAN_EVENT_ON_CHILD;
    // SAFETY: both descriptors are open during the call, and a null path means the directory itself.
    let outcome = unsafe {
        libc::fanotify_mark(
            group.as_raw_fd(),
            libc::FAN_MARK_ADD,
            mask,
            directory.as_raw_fd(),
            std::ptr::null(),
        )
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Encodes a response to the group: the error that the call returns, or `None` to let it continue.
pub(super) fn encode_response(file: BorrowedFd<'_>, error: Option<i32>) -> [u8; 8] {
    // `FAN_DENY_ERRNO`.
    let response: u32 = match error {
        None => libc::FAN_ALLOW,
        Some(error) => libc::FAN_DENY | (error.cast_unsigned() << 24),
    };
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&file.as_raw_fd().to_ne_bytes());
    bytes[4..].copy_from_slice(&response.to_ne_bytes());
    bytes
}

/// The events in the bytes read from a group. Must be called only once for these bytes, because it takes ownership of
/// the descriptors in them.
pub(super) fn events(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while bytes.len() >= METADATA {
        let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let length = u32::from_ne_bytes(four(0)) as usize;
        let own = usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]));
        if length < METADATA || length > bytes.len() {
            break;
        }
        let fd = RawFd::from_ne_bytes(four(16));
        if fd >= 0 {
            // SAFETY: the kernel opened the descriptor for this event, and it has no other owner.
            let file = unsafe { OwnedFd::from_raw_fd(fd) };
            let thread = i32::from_ne_bytes(four(20));
            events.push(Event { file, thread, range: range(bytes.get(own..length).unwrap_or_default()) });
        }
        bytes = &bytes[length..];
    }
    events
}

/// The range in the records behind an event.
fn range(mut records: &[u8]) -> Option<(u64, u64)> {
    while records.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([records[2], records[3]]));
        if length < 4 || length > records.len() {
            return None;
        }
        if records[0] == RANGE && length >= RANGE_RECORD {
            let eight = |at: usize| records[at..at + 8].try_into().map(u64::from_ne_bytes).ok();
            return Some((eight(8)?, eight(16)?));
        }
        records = &records[length..];
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd, IntoRawFd};

    use super::*;

    /// An event as Linux 6.18 writes one, with the record of a range behind it.
    fn written(fd: RawFd, range: Option<(u64, u64)>) -> Vec<u8> {
        let length: u32 = if range.is_some() { 48 } else { 24 };
        let mut bytes = Vec::new();
        bytes.extend(length.to_ne_bytes());
        bytes.extend([3, 0]);
        bytes.extend(24_u16.to_ne_bytes());
        bytes.extend(PRE_ACCESS.to_ne_bytes());
        bytes.extend(fd.to_ne_bytes());
        bytes.extend(77_i32.to_ne_bytes());
        if let Some((offset, count)) = range {
            bytes.extend([RANGE, 0]);
            bytes.extend(24_u16.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(offset.to_ne_bytes());
            bytes.extend(count.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn events_are_read_as_the_kernel_writes_them_fault_1() {
        let fd = || File::open("/dev/null").unwrap().into_raw_fd();
        let mut bytes = written(fd(), Some((4096, 7)));
        // An event without an opened file needs no response.
        bytes.extend(written(-1, None));
        bytes.extend(written(fd(), None));
        bytes.extend([1, 2, 3]);
        let events = events(&bytes);
        let reported: Vec<_> = events.iter().map(|event| (event.thread, event.range)).collect();
        assert_eq!(reported, [(77, Some((4096, 7))), (77, None)]);
        assert!(super::events(&[0; 100]).is_empty(), "no length leads nowhere");
        assert_eq!(range(&[RANGE, 0, 0, 0, 1, 2]), None);
        let file = events[0].file.as_fd();
        assert_eq!(encode_response(file, None)[4..], libc::FAN_ALLOW.to_ne_bytes());
        let no_space = encode_response(file, Some(libc::ENOSPC));
        assert_eq!(no_space[4..], (2_u32 | (28 << 24)).to_ne_bytes());
    }
}
