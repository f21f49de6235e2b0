//! Socket paths of any length.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A path that is short enough for a socket address.
pub struct ShortSocketPath {
    /// The short path; valid while this value lives.
    pub path: PathBuf,
    /// Keeps the short path valid.
    _directory: Option<OwnedFd>,
}

/// Returns a short path for a socket. Socket addresses hold about a hundred bytes; longer paths go through a
/// descriptor of their directory.
pub fn reachable(socket: &Path) -> std::io::Result<ShortSocketPath> {
    if socket.as_os_str().len() < 100 {
        return Ok(ShortSocketPath { path: socket.to_path_buf(), _directory: None });
    }
    let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, rustix::fs::Mode::empty())?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
    let path = PathBuf::from(format!("/proc/self/fd/{number}")).join(name);
    Ok(ShortSocketPath { path, _directory: Some(directory) })
}
