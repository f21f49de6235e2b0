//! A node's files in memory: its host has them in a mount namespace of its own, and they end with it.
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
    /// The files of a running host, by their path in it; none if they are out of reach.
    pub fn of_host(pid: u32, path: PathBuf) -> Option<Self> {
        let outside =
            Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").ok()?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(outside, flags, Mode::empty()).ok()?;
        Some(Self { path, directory })
    }

    /// A pod's directory as a path for this process, valid until this is dropped. It may not exist yet.
    pub fn reach(&self, pod: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(pod)
    }

    /// A pod's directory as a container's mounts name it.
    pub fn container_path(&self, pod: &str) -> PathBuf {
        self.path.join(pod)
    }
}
