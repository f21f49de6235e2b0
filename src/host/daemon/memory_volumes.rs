//! Volumes in memory (emptyDir of medium Memory), and a pod's `/dev/shm`: a tmpfs for each, in the host's own mounts,
//! which every container of the pod sees. They end with the pod, or with the host.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::MemoryVolume;

fn volume_path(pod_private: &Path, name: &str) -> PathBuf {
    pod_private.join("volumes").join(name)
}

/// A pod's shared memory, below its private directory.
const SHARED_MEMORY: &str = "shm";
/// Like containerd's: the size of shared memory is bounded, regardless of the pod's limits.
const SHARED_MEMORY_OPTIONS: &std::ffi::CStr = c"mode=1777,size=65536k";

/// Creates the pod's `/dev/shm`, unless it exists: a recreated sandbox keeps its content.
pub(super) fn mount_shared_memory(pod_private: &Path) -> io::Result<()> {
    let place = pod_private.join(SHARED_MEMORY);
    if is_mounted(&place)? {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", &place, "tmpfs", flags, SHARED_MEMORY_OPTIONS)
        .map_err(|error| io::Error::other(format!("/dev/shm: {error}")))
}

/// The size of the content of the pod's `/dev/shm`, in bytes; none if it is only a directory.
pub(super) fn shared_memory_bytes(pod_private: &Path) -> u64 {
    bytes_at(&pod_private.join(SHARED_MEMORY))
}

/// Mounts the volumes that are not mounted yet: a recreated sandbox keeps its volumes' content.
pub(super) fn mount_all(pod_private: &Path, volumes: &[MemoryVolume]) -> io::Result<()> {
    for volume in volumes {
        let place = volume_path(pod_private, &volume.name);
        fs::create_dir_all(&place)?;
        if is_mounted(&place)? {
            continue;
        }
        let size = volume.size_bytes.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
        let group = volume.group.map(|group| format!(",gid={group}")).unwrap_or_default();
        let options = format!("mode={:o}{size}{group}", volume.mode & 0o7777);
        let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
        mount("tmpfs", &place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
            .map_err(|error| io::Error::other(format!("volume {} in memory: {error}", volume.name)))?;
    }
    Ok(())
}

/// Unmounts the pod's memory volumes and its shared memory, which drops their content.
pub(super) fn unmount_all(pod_private: &Path, volumes: &[MemoryVolume]) -> io::Result<()> {
    let places = volumes.iter().map(|volume| volume_path(pod_private, &volume.name));
    for place in places.chain([pod_private.join(SHARED_MEMORY)]) {
        while place.exists() && is_mounted(&place)? {
            unmount(&place, UnmountFlags::DETACH)?;
        }
    }
    Ok(())
}

/// The size of the content of some of a pod's volumes, in bytes.
pub(super) fn bytes(pod_private: &Path, names: &[String]) -> u64 {
    names.iter().map(|name| bytes_at(&volume_path(pod_private, name))).sum()
}

fn bytes_at(place: &Path) -> u64 {
    if !is_mounted(place).unwrap_or(false) {
        return 0;
    }
    let about = rustix::fs::statvfs(place);
    about.map_or(0, |about| about.f_blocks.saturating_sub(about.f_bfree).saturating_mul(about.f_frsize))
}

fn is_mounted(place: &Path) -> io::Result<bool> {
    let above = place.parent().unwrap_or(place);
    Ok(fs::metadata(place)?.dev() != fs::metadata(above)?.dev())
}
