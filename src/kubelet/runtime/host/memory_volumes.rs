//! Volumes in memory (emptyDir of medium Memory): a tmpfs for each, in the host's own mounts, which every container
//! of the pod is shown. They go with the pod, or with the host.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::super::MemoryVolume;

fn place(pod_private: &Path, name: &str) -> PathBuf {
    pod_private.join("volumes").join(name)
}

/// Mounts what is not mounted yet: a sandbox made anew keeps what is in its volumes.
pub(super) fn mount_all(pod_private: &Path, volumes: &[MemoryVolume]) -> io::Result<()> {
    for volume in volumes {
        let place = place(pod_private, &volume.name);
        fs::create_dir_all(&place)?;
        if is_mounted(&place)? {
            continue;
        }
        let mut options = format!("mode={:o}", volume.mode & 0o7777);
        if let Some(bytes) = volume.size_bytes {
            options.push_str(&format!(",size={bytes}"));
        }
        if let Some(group) = volume.group {
            options.push_str(&format!(",gid={group}"));
        }
        let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
        mount("tmpfs", &place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
            .map_err(|error| io::Error::other(format!("volume {} in memory: {error}", volume.name)))?;
    }
    Ok(())
}

/// Lets go of all of them, with what is in them.
pub(super) fn unmount_all(pod_private: &Path, volumes: &[MemoryVolume]) -> io::Result<()> {
    for volume in volumes {
        let place = place(pod_private, &volume.name);
        while place.exists() && is_mounted(&place)? {
            unmount(&place, UnmountFlags::DETACH)?;
        }
    }
    Ok(())
}

/// What lies in some of a pod's volumes, in bytes.
pub(super) fn bytes(pod_private: &Path, names: &[String]) -> u64 {
    let of = |name: &String| {
        let place = place(pod_private, name);
        if !is_mounted(&place).unwrap_or(false) {
            return 0;
        }
        let about = rustix::fs::statvfs(&place);
        about.map_or(0, |about| about.f_blocks.saturating_sub(about.f_bfree).saturating_mul(about.f_frsize))
    };
    names.iter().map(of).sum()
}

fn is_mounted(place: &Path) -> io::Result<bool> {
    let above = place.parent().unwrap_or(place);
    Ok(fs::metadata(place)?.dev() != fs::metadata(above)?.dev())
}
