//! The file that occupies a file system's free space. It has no name (`O_TMPFILE`): no directory lists it, and the
//! kernel removes it when the descriptor closes, even after `kill -9`.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FallocateFlags, Mode, OFlags, StatVfs, fallocate, fstatvfs, openat};
use rustix::io::Errno;

use super::fill_target::FillTarget;

/// Space that is occupied until this is dropped.
#[derive(Debug)]
pub(super) struct Ballast {
    file: File,
    device: u64,
    /// The file's size, in bytes.
    end: u64,
    /// The free space that could not be occupied, the file system's reserve, in bytes; `None` before the first fill.
    reserved: Option<u64>,
}

impl Ballast {
    /// Creates an empty file on the file system of a directory.
    pub(super) fn at(place: &FillTarget) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(openat(&place.directory, ".", flags, Mode::RUSR | Mode::WUSR)?);
        let device = file.metadata()?.dev();
        if device != place.device {
            return Err(io::Error::other("another file system was mounted there meanwhile"));
        }
        Ok(Self { file, device, end: 0, reserved: None })
    }

    /// Returns true if the file lies on this device.
    pub(super) fn is_on(&self, device: u64) -> bool {
        self.device == device
    }

    /// Occupies all free space.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let before = fstatvfs(&self.file)?;
        if self.reserved.is_some_and(|reserved| free(&before) <= reserved) {
            return Ok(());
        }
        let block = before.f_frsize.max(1);
        let mut chunk = free(&before).max(block) / block * block;
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), self.end, chunk) {
                Ok(()) => self.end += chunk,
                Err(Errno::INTR) => {}
                // `FBIG`: the file would exceed its maximum size; a smaller chunk may still fit.
                Err(Errno::NOSPC | Errno::FBIG) if chunk > block => {
                    chunk = (chunk / 2).max(block) / block * block;
                }
                Err(Errno::NOSPC) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.reserved = Some(free(&fstatvfs(&self.file)?));
        Ok(())
    }
}

/// The free space, including that reserved for root, in bytes.
fn free(about: &StatVfs) -> u64 {
    about.f_bfree.saturating_mul(about.f_frsize)
}
