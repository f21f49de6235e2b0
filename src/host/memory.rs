//! A node's files in memory: they are in the mount namespace of the node's host, and end with the host.
//!
//! The files that the kubelet writes for a pod from API objects (tokens, secrets, config maps) lie there, as in
//! Kubernetes: they are never on a disk, and writing them costs no disk access.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The files in memory of one host process.
#[derive(Debug)]
pub struct Memory {
    path: PathBuf,
    directory: OwnedFd,
}

impl Memory {
    /// Returns the files of a running host, at `path` in its mount namespace; `None` if this process cannot reach them.
    pub fn of_host(pid: u32, path: PathBuf) -> Option<Self> {
        let outside =
            Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").ok()?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(outside, flags, Mode::empty()).ok()?;
        Some(Self { path, directory })
    }

    /// Returns the path of a pod's directory for this process, valid until this value is dropped. The directory may not
    /// exist yet.
    pub fn reach(&self, pod: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(pod)
    }

    /// Returns the path of a pod's directory in the host's mount namespace, as a container's mounts name it.
    pub fn container_path(&self, pod: &str) -> PathBuf {
        self.path.join(pod)
    }
}
