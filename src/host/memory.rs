//! A node's files in memory: its host has them in a mount namespace of its own, and they go with it.
//!
//! What the kubelet writes for a pod from API objects (tokens, secrets, config maps) lies there, as Kubernetes has
//! it: it is never on a disk, and writing it costs none.

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
    /// Those of a running host, by the path that it has for them; none where they are out of reach.
    pub fn of_host(pid: u32, path: PathBuf) -> Option<Self> {
        let outside =
            Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").ok()?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(outside, flags, Mode::empty()).ok()?;
        Some(Self { path, directory })
    }

    /// A pod's directory as this process reaches it, as long as this is not dropped. It may not be there yet.
    pub fn reach(&self, pod: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(pod)
    }

    /// The same directory as a container's mounts name it.
    pub fn seen(&self, pod: &str) -> PathBuf {
        self.path.join(pod)
    }
}
