//! A container's view of files: plain data.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::devices::DeviceMounts;
use super::masked::MaskedDirectory;
use super::mount::{hold, lock_all_read_only, lock_read_only};
use crate::daemon::os;
use crate::daemon::program::os_text;
use crate::daemon::user::User;
use crate::daemon::user_namespace::PodUsers;
use base::layers::Layers;
use base::root_dir::RootDir;
use base::subordinate_ids::real_user;

/// The root file system of an image, for a container that shows it instead of the machine's files.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct ImageRoot {
    /// The layers of a loaded or pulled image in the store, or the directory of the system's files for a built-in one.
    pub(in crate::daemon) layers: Layers,
    /// The machine's directories that a built-in image shows at their paths; none for another image.
    pub(in crate::daemon) machine: Vec<PathBuf>,
    /// The directory of the target container's layers, for a debug container that shows the target's files.
    pub(in crate::daemon) beside: Option<PathBuf>,
    /// The user that the container appears to run as, if only a user namespace can provide it.
    pub(in crate::daemon) apparent_user: Option<User>,
}

/// The writable layer's directory below a container's `layers`.
pub(in crate::daemon) const UPPER: &str = "upper-root";

/// The input of an overlay root besides the view.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Overlay {
    /// The host's own files in memory, which no container may see.
    pub(in crate::daemon) memory: PathBuf,
    /// The machine's mount points; those in `memory` may be left out.
    pub(in crate::daemon) mounts: Vec<PathBuf>,
    /// The directory of the target container's layers, for a debug container that shows the target's files.
    pub(in crate::daemon) beside: Option<PathBuf>,
}

/// The mounts of a root, as the container will see them.
#[derive(Debug, Default)]
pub(in crate::daemon) struct RootLayout {
    /// The mounts of the machine's files, which must not be written.
    pub(in crate::daemon) machine: Vec<PathBuf>,
    /// The container's own mounts.
    pub(in crate::daemon) own: Vec<PathBuf>,
    /// The location of the devices in its /dev.
    pub(super) devices: DeviceMounts,
}

/// One source to mount at a path of the container's.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct BindMount {
    /// A directory or file of the machine's; for an image's files, the place at which they are mounted first.
    pub(in crate::daemon) source: PathBuf,
    /// The image whose files are shown.
    pub(in crate::daemon) image: Option<Layers>,
    /// The part to show: looked up in the source as if it were the root, and created as a directory if it does not
    /// exist.
    pub(in crate::daemon) sub_path: Option<PathBuf>,
    /// The path at which the container sees it.
    pub(in crate::daemon) target: PathBuf,
    pub(in crate::daemon) read_only: bool,
    /// True if mounts in it must be read-only, too.
    pub(in crate::daemon) recursive: bool,
    /// It is part of the machine's system: a pod with its own users sees it with the machine's owners if its file system
    /// knows no others.
    pub(in crate::daemon) of_system: bool,
}

impl BindMount {
    /// A writable directory or file.
    pub(in crate::daemon) fn new(source: PathBuf, target: PathBuf) -> Self {
        Self {
            source,
            image: None,
            sub_path: None,
            target,
            read_only: false,
            recursive: false,
            of_system: false,
        }
    }

    /// The path of the source.
    pub(in crate::daemon) fn path(&self) -> PathBuf {
        self.sub_path.as_ref().map_or_else(|| self.source.clone(), |inside| self.source.join(inside))
    }

    /// A descriptor of the source.
    pub(in crate::daemon) fn hold(&self) -> io::Result<OwnedFd> {
        match &self.sub_path {
            None => Ok(hold(&self.source)?),
            Some(inside) => RootDir::new(&self.source)?.any(inside),
        }
    }

    /// Returns the reason why the source cannot be mounted, as runc words it, without the source's path on the machine,
    /// which may be a path of the node.
    pub(super) fn failure(&self, error: &io::Error) -> String {
        let target = self.target.display().to_string();
        format!("error mounting to rootfs at {target:?}: {}", os_text(error))
    }

    /// Makes the mount at a path read-only as required.
    pub(in crate::daemon) fn lock(&self, place: &Path) -> io::Result<()> {
        match (self.read_only, self.recursive) {
            (false, _) => Ok(()),
            (true, false) => lock_read_only(place),
            (true, true) => lock_all_read_only(place),
        }
    }
}

/// The user that a container with the machine's files appears to run as: the user who started Podium, if it is root of a
/// user namespace only.
pub(in crate::daemon) fn user_of_machine() -> Option<User> {
    real_user().map(|user| User { uid: user.uid, gid: user.gid, groups: Vec::new() })
}

/// The source of a container's /proc.
#[derive(Clone, Debug)]
pub(in crate::daemon) enum ProcSource {
    /// A new mount, by a process in the PID namespace.
    New,
    /// A mount in the host's mounts.
    Mount(PathBuf),
    /// The mount that a process in the PID namespace sees.
    Process(Pid),
}

/// A container's view of files.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct View {
    /// The container's private root directory, in memory.
    pub(in crate::daemon) root: PathBuf,
    pub(in crate::daemon) proc: ProcSource,
    /// Its /tmp, on disk.
    pub(in crate::daemon) tmp: PathBuf,
    /// Its own directory on disk, created on demand: a missing working directory is created below it. Never shared
    /// between containers, and neither are the layers.
    pub(in crate::daemon) dir: PathBuf,
    /// The directory of its private layers, which take its writes; created on demand.
    pub(in crate::daemon) layers: PathBuf,
    /// The mounts besides the usual ones, in the order of mounting.
    pub(in crate::daemon) bind_mounts: Vec<BindMount>,
    /// A directory that must exist, the working directory.
    pub(in crate::daemon) working_dir: PathBuf,
    /// The machine's directories that are not shown.
    pub(in crate::daemon) hidden: Option<MaskedDirectory>,
    /// True if the network is not the machine's, so that /sys must show it.
    pub(in crate::daemon) own_network: bool,
    /// All of /proc is shown, and writable (`procMount: Unmasked`, `privileged`).
    pub(in crate::daemon) unmasked: bool,
    /// The pod's own terminals; else the machine's are shown.
    pub(in crate::daemon) terminals: Option<PathBuf>,
    /// Devices may be opened in every directory (`privileged`), and not only in its own /dev.
    pub(in crate::daemon) every_device: bool,
    /// The machine's own /tmp and /dev are shown.
    pub(in crate::daemon) of_machine: bool,
    /// Only the mounts in `bind_mounts` are writable.
    pub(in crate::daemon) read_only: bool,
    /// The pod's users, if they are not the machine's: every file has the owner that it has for them.
    pub(in crate::daemon) users: Option<PodUsers>,
    /// An image's files are the root, instead of all files of the machine.
    pub(in crate::daemon) image: Option<ImageRoot>,
    /// A layer takes the writes to the machine's files.
    pub(in crate::daemon) overlay: Option<Overlay>,
}

impl View {
    /// The user that the container appears to run as, if it is not the user that it runs as.
    pub(in crate::daemon) fn apparent_user(&self) -> Option<User> {
        match &self.image {
            Some(image) => image.apparent_user.clone(),
            None => user_of_machine(),
        }
    }

    /// Does this with new files that belong to the machine's root, and not to the pod's.
    pub(super) fn as_machine<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(users) = &self.users else { return act() };
        os::create_files_as(0)?;
        let done = act();
        os::create_files_as(users.ids.first)?;
        done
    }
}
