//! Socket paths of any length.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A path that fits into a socket address.
pub struct Reachable {
    /// As short as a socket address wants it; good for as long as this lives.
    pub path: PathBuf,
    /// Keeps the short path meaning what it should.
    _directory: Option<OwnedFd>,
}

/// Socket addresses hold about a hundred bytes; longer paths go through a descriptor of their directory.
pub fn reachable(socket: &Path) -> std::io::Result<Reachable> {
    if socket.as_os_str().len() < 100 {
        return Ok(Reachable { path: socket.to_path_buf(), _directory: None });
    }
    let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, rustix::fs::Mode::empty())?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
    let path = PathBuf::from(format!("/proc/self/fd/{number}")).join(name);
    Ok(Reachable { path, _directory: Some(directory) })
}
