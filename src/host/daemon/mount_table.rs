//! The machine's mounts, as this process sees them: read again for every container, since the machine may mount
//! something at any time.
//!
//! The host mounts much for its pods, and containers are shown none of that. `/proc/self/mountinfo` lists all of it
//! each time, so that the cost of a container would grow with the number of pods. The kernel is queried for mount
//! numbers instead, and for paths only of mounts that are not known to be the host's own: statmount(2) and
//! listmount(2), Linux 6.8.
#![expect(unsafe_code, reason = "listmount and statmount have no safe wrappers")]

use std::collections::BTreeSet;
use std::ffi::{CStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::rootfs::mount_points;

/// The numbers of both calls, on every architecture.
const STATMOUNT: libc::c_long = 457;
const LISTMOUNT: libc::c_long = 458;
/// `LSMT_ROOT`: all below the root of this process.
const ALL: u64 = u64::MAX;
/// `STATMOUNT_MNT_POINT`.
const POINT: u64 = 0x10;
/// The number of mount numbers in one call.
const AT_ONCE: usize = 512;
/// The buffer for one mount has space for a path.
const ABOUT_BYTES: usize = HEAD_BYTES + libc::PATH_MAX as usize;
/// `sizeof(struct statmount)`: strings follow it.
const HEAD_BYTES: usize = 512;
/// `offsetof(struct statmount, mask)`: the fields that the kernel filled in.
const MASK_AT: usize = 8;
/// `offsetof(struct statmount, mnt_point)`: the offset of that string, after the head.
const POINT_AT: usize = 108;

/// `struct mnt_id_req`, in its first version.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    mount: u64,
    parameter: u64,
}

impl Request {
    fn new(mount: u64, parameter: u64) -> Self {
        Self { size: size_of::<Self>() as u32, spare: 0, mount, parameter }
    }
}

/// Finds the machine's mounts.
#[derive(Debug)]
pub(super) struct MountTable {
    /// The directory below which only this host mounts.
    memory: PathBuf,
    /// Numbers of mounts below `memory`, which are never reused.
    own: BTreeSet<u64>,
    /// Counts the mounts queried for their path.
    #[cfg(test)]
    queried: usize,
}

impl MountTable {
    /// No mount below `memory` is known yet.
    pub(super) fn new(memory: PathBuf) -> Self {
        Self {
            memory,
            own: BTreeSet::new(),
            #[cfg(test)]
            queried: 0,
        }
    }

    /// Returns the mount points outside of `memory`, from the kernel's system calls or, if they are not available, from
    /// `/proc/self/mountinfo`; then mount points in `memory` may be among them.
    pub(super) fn of_machine(&mut self) -> io::Result<Vec<PathBuf>> {
        match self.by_number() {
            Ok(points) => Ok(points),
            // An old kernel, or a filter of system calls.
            Err(_) => Ok(mount_points(&std::fs::read("/proc/self/mountinfo")?).collect()),
        }
    }

    fn by_number(&mut self) -> io::Result<Vec<PathBuf>> {
        let all = numbers()?;
        self.own.retain(|number| all.contains(number));
        let mut points = Vec::new();
        for number in all {
            if self.own.contains(&number) {
                continue;
            }
            #[cfg(test)]
            {
                self.queried += 1;
            }
            match mount_path(number) {
                Ok(point) if point.starts_with(&self.memory) && !self.memory.as_os_str().is_empty() => {
                    self.own.insert(number);
                }
                Ok(point) => points.push(point),
                // It was unmounted meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(points)
    }
}

/// The numbers of all mounts.
fn numbers() -> io::Result<BTreeSet<u64>> {
    let mut all = BTreeSet::new();
    loop {
        let request = Request::new(ALL, all.last().copied().unwrap_or(0));
        let mut some = [0_u64; AT_ONCE];
        // SAFETY: a request of the size that it names and an array of that many numbers, both alive for the call.
        let count = unsafe {
            libc::syscall(LISTMOUNT, &raw const request, some.as_mut_ptr(), AT_ONCE, 0 as libc::c_uint)
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let before = all.len();
        all.extend(some.iter().take(count));
        // Each call continues after the greatest number so far. A kernel that ignores this would be queried for ever.
        if count < AT_ONCE || all.len() == before {
            return Ok(all);
        }
    }
}

/// The path of a mount, from the root of this process.
fn mount_path(number: u64) -> io::Result<PathBuf> {
    let request = Request::new(number, POINT);
    let mut about = [0_u8; ABOUT_BYTES];
    // SAFETY: a request of the size that it names and a buffer of the given size, both alive for the call.
    let done = unsafe {
        libc::syscall(STATMOUNT, &raw const request, about.as_mut_ptr(), about.len(), 0 as libc::c_uint)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    point_in(&about).ok_or_else(|| io::Error::other("the kernel returned no mount point"))
}

/// The path in the kernel's response.
fn point_in(about: &[u8]) -> Option<PathBuf> {
    let mask = u64::from_ne_bytes(about.get(MASK_AT..MASK_AT + 8)?.try_into().ok()?);
    let start = u32::from_ne_bytes(about.get(POINT_AT..POINT_AT + 4)?.try_into().ok()?);
    let text = about.get(HEAD_BYTES.checked_add(start as usize)?..)?;
    let text = CStr::from_bytes_until_nul(text).ok()?.to_bytes();
    let point = PathBuf::from(OsString::from_vec(text.to_vec()));
    (mask & POINT != 0 && point.starts_with(Path::new("/"))).then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(mut points: Vec<PathBuf>) -> Vec<PathBuf> {
        points.sort();
        points
    }

    /// POD-16: the result equals the kernel's text, and mounts below the host's own directory are queried once.
    #[test]
    fn machine_mounts_match_the_kernels_text_and_own_ones_are_queried_once_pod_16() {
        if numbers().is_err() {
            return;
        }
        let text = std::fs::read("/proc/self/mountinfo").unwrap();
        let all: Vec<PathBuf> = mount_points(&text).collect();
        let own = Path::new("/sys");
        let (below, others): (Vec<PathBuf>, Vec<PathBuf>) =
            all.iter().cloned().partition(|point| point.starts_with(own));
        let mut table = MountTable::new(own.to_path_buf());
        assert_eq!(sorted(table.of_machine().unwrap()), sorted(others.clone()));
        assert_eq!((table.own.len(), table.queried), (below.len(), all.len()));
        assert_eq!(sorted(table.of_machine().unwrap()), sorted(others.clone()));
        assert_eq!(table.queried, all.len() + others.len(), "own ones are known");

        table.own.insert(u64::MAX - 1);
        table.of_machine().unwrap();
        assert_eq!(table.own.len(), below.len(), "a removed mount is forgotten");
        let mut nothing_own = MountTable::new(PathBuf::new());
        assert_eq!(sorted(nothing_own.of_machine().unwrap()), sorted(all));
    }

    #[test]
    fn mount_attributes_are_read_within_bounds() {
        let read_point = |mask: u64, start: u32, text: &[u8]| {
            let mut about = vec![0; HEAD_BYTES];
            about[MASK_AT..MASK_AT + 8].copy_from_slice(&mask.to_ne_bytes());
            about[POINT_AT..POINT_AT + 4].copy_from_slice(&start.to_ne_bytes());
            about.extend(text);
            point_in(&about)
        };
        assert_eq!(read_point(POINT, 2, b"x\0/a b\0"), Some(PathBuf::from("/a b")));
        assert_eq!(read_point(0, 0, b"/a\0"), None, "the kernel did not report it");
        assert_eq!(read_point(POINT, 0, b"/a"), None, "without an end");
        assert_eq!(read_point(POINT, 9, b"/a\0"), None);
        assert_eq!(read_point(POINT, u32::MAX, b"/a\0"), None);
        assert_eq!(read_point(POINT, 0, b"a\0"), None, "no place of this root");
        assert_eq!(point_in(&[0; 16]), None);
    }
}
