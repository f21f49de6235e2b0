//! The devices that a container may open: those of its own /dev, and no other that it creates or sees, in any
//! directory.
//!
//! containerd enforces this by a control group, which must exist and be writable. Here each mount enforces it: no mount
//! that a container sees allows opening devices, except one mount for each device of /dev, in which nothing can be
//! created.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::MountFlags;

use super::mount::{hold, mount_points, remount};
use crate::daemon::os;
use base::subordinate_ids::own_process;

/// The devices that every container may open, as in containerd, if the machine has them.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Terminals: a file system in which no device can be created.
pub(super) const TERMINALS: &str = "pts";

/// The mounts of a new /dev that allow opening devices.
#[derive(Debug, Default)]
pub(super) struct DeviceMounts {
    mounts: Vec<OwnedFd>,
    /// This process in the machine's /proc, which is out of reach later.
    own_process: Option<OwnedFd>,
}

impl DeviceMounts {
    /// The mounts of a /dev in which each device is a mount. The mounts are held by descriptors, because another mount
    /// may cover one of them later.
    pub(super) fn of(dev: &Path) -> io::Result<Self> {
        let names = DEVICES.into_iter().chain([TERMINALS]);
        let there = names.filter(|name| Path::new("/dev").join(name).exists());
        let mounts = there.map(|name| hold(&dev.join(name))).collect::<rustix::io::Result<_>>()?;
        Ok(Self { mounts, own_process: Some(own_process()?) })
    }

    /// Adds one more, at the root of a mount.
    pub(super) fn add(&mut self, place: &Path) -> io::Result<()> {
        self.mounts.push(hold(place)?);
        Ok(())
    }

    /// Forbids opening devices in all mounts that this process sees, except these.
    pub(super) fn forbid_other_devices(&self) -> io::Result<()> {
        match os::forbid_devices_everywhere() {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return self.one_by_one(),
            done => done?,
        }
        self.mounts.iter().try_for_each(os::allow_devices)
    }

    /// Forbids devices mount by mount, for kernels before 5.12. Mounts covered by another mount are out of reach, and
    /// stay unchanged.
    fn one_by_one(&self) -> io::Result<()> {
        let own_process = self.own_process.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let read = |name: &str| -> io::Result<Vec<u8>> {
            let file = openat(own_process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            let mut text = Vec::new();
            fs::File::from(file).read_to_end(&mut text)?;
            Ok(text)
        };
        let number = |mount: &OwnedFd| -> io::Result<u64> {
            let about = read(&format!("fdinfo/{}", mount.as_raw_fd()))?;
            let about = String::from_utf8_lossy(&about);
            let number = about.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
            number.ok_or_else(|| io::Error::other("fdinfo has no mnt_id"))
        };
        let allowed = self.mounts.iter().map(number).collect::<io::Result<Vec<u64>>>()?;
        for point in mount_points(&read("mountinfo")?) {
            // If another mount covers this one, the path leads to that mount, which has a line of its own.
            let Ok(top) = hold(&point) else { continue };
            if !allowed.contains(&number(&top)?) {
                remount(&point, MountFlags::NODEV)?;
            }
        }
        Ok(())
    }
}
