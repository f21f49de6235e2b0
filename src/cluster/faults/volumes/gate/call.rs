//! Determines the system call of a thread that waits at a gate, since the kernel sends the same event before reads and
//! writes: reads it from `/proc`, and classifies it purely.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use base::optional_file::read_optional;
use rustix::fs::{Stat, fstat, stat};

/// A call's effect on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Writes through a descriptor.
    Writes {
        /// The number of the descriptor in the waiting thread.
        descriptor: u64,
        /// True if it appends, regardless of the descriptor's mode.
        appends: bool,
        /// The offset in the file; `None` means the descriptor's position.
        at: Option<u64>,
        /// The number of bytes; none if the call's arguments do not contain it.
        count: Option<u64>,
    },
    /// Allocates space without writing.
    Allocates,
    /// Changes the file's length or releases space, and allocates none.
    Resizes,
    /// A read, or an unknown call, which may not change the file.
    Other,
}

/// The unit in which the kernel reports accesses, in bytes: the smallest page size.
const PAGE: u64 = 4096;
/// `RWF_APPEND` of linux/fs.h.
const AT_THE_END: u64 = 0x10;
/// The number and interval of checks whether the thread waits already; some hundredths of a second in total.
const LOOKS: u32 = 300;
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);
/// The modes of fallocate(2) that release space: `FALLOC_FL_PUNCH_HOLE` and `FALLOC_FL_COLLAPSE_RANGE`.
const GIVES_BACK: u64 = 0x02 | 0x08;

/// Reads a line of `/proc/THREAD/syscall`: the number of the call and its arguments.
pub(super) fn call(line: &str) -> Call {
    let mut fields = line.split_ascii_whitespace();
    let number: Option<i64> = fields.next().and_then(|word| word.parse().ok());
    let hexadecimal = |field: &str| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok();
    let arguments: Vec<Option<u64>> = fields.map(hexadecimal).collect();
    let argument = |at: usize| arguments.get(at).copied().flatten();
    let writes = |descriptor: usize, appends: bool, at: Option<u64>, count: Option<u64>| {
        argument(descriptor).map_or(Call::Other, |descriptor| Call::Writes { descriptor, appends, at, count })
    };
    match number {
        Some(libc::SYS_write) => writes(0, false, None, argument(2)),
        Some(libc::SYS_pwrite64) => writes(0, false, argument(3), argument(2)),
        Some(libc::SYS_writev | libc::SYS_sendfile) => writes(0, false, None, None),
        Some(libc::SYS_pwritev) => writes(0, false, argument(3), None),
        Some(libc::SYS_pwritev2) => {
            let appends = argument(5).is_some_and(|flags| flags & AT_THE_END != 0);
            writes(0, appends, argument(3), None)
        }
        Some(libc::SYS_splice | libc::SYS_copy_file_range) => writes(2, false, None, None),
        Some(libc::SYS_fallocate) if argument(1).is_some_and(|mode| mode & GIVES_BACK == 0) => {
            Call::Allocates
        }
        Some(libc::SYS_truncate | libc::SYS_ftruncate | libc::SYS_fallocate) => Call::Resizes,
        _ => Call::Other,
    }
}

/// A call that changes a file, with its need for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// It needs space that the file does not have yet.
    pub(super) needs_space: bool,
}

/// The change that a thread is about to make to a file; `None` if there is no change, or it is unknown.
pub(super) fn change(thread: i32, file: BorrowedFd<'_>, range: Option<(u64, u64)>) -> Option<Change> {
    let line = waits_in(thread)?;
    let (descriptor, appends, at, count) = match call(&line) {
        Call::Other => return None,
        Call::Resizes => return Some(Change { needs_space: false }),
        Call::Allocates => return Some(Change { needs_space: true }),
        Call::Writes { descriptor, appends, at, count } => (descriptor, appends, at, count),
    };
    let about = fstat(file.as_fd()).ok()?;
    // A copying call reads one file and writes another, and may cause an event for each.
    let written = stat(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
    if !is_same(&about, &written) {
        return None;
    }
    let opened = read_optional(format!("/proc/{thread}/fdinfo/{descriptor}"));
    let end = count.and_then(|count| Some(at.or(position(&opened))?.saturating_add(count)));
    let written = match end {
        _ if appends || opened_to_append(&opened) => WriteExtent::AtTheEnd,
        Some(end) => WriteExtent::Until(end),
        None => range.map_or(WriteExtent::AtTheEnd, |(offset, count)| {
            WriteExtent::InPagesUntil(offset.saturating_add(count))
        }),
    };
    Some(Change { needs_space: written.needs_space(u64::try_from(about.st_size).unwrap_or(0)) })
}

/// The extent of a write in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteExtent {
    /// The write starts at the file's end, or at an unknown position.
    AtTheEnd,
    /// The write ends at this offset, in bytes.
    Until(u64),
    /// The write ends at this offset at most, in bytes: the kernel reports whole pages.
    InPagesUntil(u64),
}

impl WriteExtent {
    /// Returns true if the write makes a file of this size grow; if only pages are known, if the file needs more pages.
    fn needs_space(self, size: u64) -> bool {
        match self {
            Self::AtTheEnd => true,
            Self::Until(end) => end > size,
            Self::InPagesUntil(end) => end > size.next_multiple_of(PAGE),
        }
    }
}

/// Returns the line of `/proc/THREAD/syscall` once the thread waits. The kernel sends the event earlier, and the file
/// reads `running` until then.
fn waits_in(thread: i32) -> Option<String> {
    for _ in 0..LOOKS {
        let line = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        if line.trim() != "running" {
            return Some(line);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    None
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Returns true if `/proc/THREAD/fdinfo/DESCRIPTOR` has `O_APPEND`.
fn opened_to_append(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_APPEND != 0)
}

/// A descriptor's position in its file, by `/proc/THREAD/fdinfo/DESCRIPTOR`.
fn position(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pending_operation_of_a_thread_is_read_from_its_system_call_fault_1() {
        let line = |number: i64, arguments: &str| format!("{number} {arguments} 0x7ffe58f743c8 0x7fe0eb\n");
        let writes = |descriptor, appends, at, count| Call::Writes { descriptor, appends, at, count };
        for (number, arguments, expected) in [
            (libc::SYS_write, "0x3 0x7fe0 0x4 0x0 0x0 0x0", writes(3, false, None, Some(4))),
            (libc::SYS_pwrite64, "0x1f 0x7fe0 0x4 0x10 0x0 0x0", writes(31, false, Some(16), Some(4))),
            (libc::SYS_writev, "0x3 0x7fe0 0x2 0x0 0x0 0x0", writes(3, false, None, None)),
            (libc::SYS_pwritev, "0x3 0x7fe0 0x2 0x8 0x0 0x0", writes(3, false, Some(8), None)),
            (libc::SYS_pwritev2, "0x3 0x1 0x1 0x0 0x0 0x10", writes(3, true, Some(0), None)),
            (libc::SYS_pwritev2, "0x3 0x1 0x1 0x0 0x0 0x0", writes(3, false, Some(0), None)),
            (libc::SYS_sendfile, "0x4 0x5 0x0 0x10 0x0 0x0", writes(4, false, None, None)),
            (libc::SYS_copy_file_range, "0x4 0x0 0x5 0x0 0x10 0x0", writes(5, false, None, None)),
            (libc::SYS_fallocate, "0x4 0x0 0x0 0x10 0x0 0x0", Call::Allocates),
            (libc::SYS_fallocate, "0x4 0x3 0x0 0x10 0x0 0x0", Call::Resizes),
            (libc::SYS_ftruncate, "0x4 0x0 0x0 0x10 0x0 0x0", Call::Resizes),
            (libc::SYS_read, "0x3 0x7fe0 0x4 0x0 0x0 0x0", Call::Other),
            (libc::SYS_write, "soon", Call::Other),
        ] {
            assert_eq!(call(&line(number, arguments)), expected, "{number} {arguments}");
        }
        for text in ["running", "-1 0x7ffe 0x7f", ""] {
            assert_eq!(call(text), Call::Other, "{text}");
        }
    }

    #[test]
    fn a_write_that_extends_a_file_takes_space_fault_1() {
        for (written, size, expected) in [
            (WriteExtent::Until(4), 4, false),
            (WriteExtent::Until(5), 4, true),
            (WriteExtent::AtTheEnd, 4, true),
            (WriteExtent::InPagesUntil(4096), 4, false),
            (WriteExtent::InPagesUntil(4096), 0, true),
            (WriteExtent::InPagesUntil(8192), 4096, true),
        ] {
            assert_eq!(written.needs_space(size), expected, "{written:?} {size}");
        }
        assert_eq!(position("pos:\t17\nflags:\t02100001\n"), Some(17));
        assert!(opened_to_append("pos:\t0\nflags:\t02102001\nmnt_id:\t28\n"));
        assert!(!opened_to_append("pos:\t0\nflags:\t02100001\n") && !opened_to_append(""));
    }
}
