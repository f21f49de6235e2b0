//! Terminals of a pod: a devpts of its own, which every container of the pod has at /dev/pts, so that neither the
//! machine's terminals nor those of other pods are within reach. The devpts ends with the pod, or with the host.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::pty::OpenptFlags;

/// The directory of terminals, below the pod's private directory.
const DEVPTS_DIR: &str = "pts";
/// The mount options for root, like containerd's; in a user namespace there is no group of terminals.
const OF_ROOT: &std::ffi::CStr = c"newinstance,ptmxmode=0666,mode=0620,gid=5";
const OF_A_USER: &std::ffi::CStr = c"newinstance,ptmxmode=0666,mode=0620";
/// The flags for both ends of a terminal.
const FLAGS: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY).union(OpenptFlags::CLOEXEC);

/// Creates the pod's terminals, unless they exist. If the kernel refuses, the pod uses the machine's.
pub(super) fn mount_own(pod_private: &Path) -> io::Result<()> {
    if own(pod_private).is_some() {
        return Ok(());
    }
    let place = pod_private.join(DEVPTS_DIR);
    fs::create_dir_all(&place)?;
    let options = if rustix::process::geteuid().is_root() { OF_ROOT } else { OF_A_USER };
    if let Err(error) = mount("devpts", &place, "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options) {
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
