//! Terminals of a pod: a devpts of its own, which every container of the pod has at /dev/pts, so that neither the
//! machine's terminals nor those of other pods are within reach. The devpts ends with the pod, or with the host.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::pty::OpenptFlags;

use crate::IdRange;

/// The directory of terminals, below the pod's private directory.
const DEVPTS_DIR: &str = "pts";
/// The mount options, like containerd's but for the group.
const OPTIONS: &str = "newinstance,ptmxmode=0666,mode=0620";
/// The group of terminals, which this process's user namespace has only for root.
const GROUP: u32 = 5;
/// The flags for both ends of a terminal.
const FLAGS: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY).union(OpenptFlags::CLOEXEC);

/// Creates the pod's terminals, unless they exist. If the kernel refuses, the pod uses the machine's.
pub(super) fn mount_own(pod_private: &Path, users: Option<IdRange>) -> io::Result<()> {
    if own(pod_private).is_some() {
        return Ok(());
    }
    let place = pod_private.join(DEVPTS_DIR);
    fs::create_dir_all(&place)?;
    let group = users.map_or(Some(GROUP), |ids| ids.on_machine(GROUP));
    let group = group.filter(|_| rustix::process::geteuid().is_root());
    let options = group.map_or(OPTIONS.to_owned(), |group| format!("{OPTIONS},gid={group}"));
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    if let Err(error) = mount("devpts", &place, "devpts", flags, options.as_c_str()) {
        eprintln!(
            "cannot mount devpts on {}: {error}; using the machine's terminals instead",
            place.display()
        );
    }
    Ok(())
}

/// Unmounts the pod's terminals, if it has its own.
pub(super) fn unmount_own(pod_private: &Path) -> io::Result<()> {
    match own(pod_private) {
        Some(place) => Ok(unmount(place, UnmountFlags::DETACH)?),
        None => Ok(()),
    }
}

/// The directory of the pod's terminals; none if it uses the machine's.
pub(super) fn own(pod_private: &Path) -> Option<PathBuf> {
    let place = pod_private.join(DEVPTS_DIR);
    place.join("ptmx").exists().then_some(place)
}

/// A new terminal, (master, slave): of the pod's, or else of the machine's.
pub(super) fn open(own: Option<&Path>) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = if let Some(own) = own {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(own.join("ptmx"), flags, Mode::empty())?
    } else {
        let master = rustix::pty::openpt(FLAGS)?;
        rustix::pty::grantpt(&master)?;
        master
    };
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, FLAGS)?;
    Ok((master, slave))
}
