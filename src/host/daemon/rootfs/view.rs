//! What a container is to see of files: plain data.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::devices::Allowed;
use super::hidden::Hidden;
use super::mount::{hold, lock_all_read_only, lock_read_only};
use crate::daemon::program::os_text;
use crate::daemon::user::User;
use base::root_dir::RootDir;

/// An image with files of its own.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct ImageRoot {
    /// Its root file system in the store.
    pub(in crate::daemon) files: PathBuf,
    /// Whom the container believes to be, where only a user namespace can make it so.
    pub(in crate::daemon) seems: Option<User>,
}

/// The writable layer's directory below a container's `layers`.
pub(in crate::daemon) const UPPER: &str = "upper-root";

/// What a root of overlays needs to know beside the view.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Overlay {
    /// The host's own files in memory, which are nobody else's to see.
    pub(in crate::daemon) memory: PathBuf,
    /// Where something is mounted on the machine; what is mounted in `memory` may be left out.
    pub(in crate::daemon) mounts: Vec<PathBuf>,
    /// What the container that this one looks at has written over the machine's files.
    pub(in crate::daemon) beside: Option<PathBuf>,
}

/// What a root was made of, as the container will see it.
#[derive(Debug, Default)]
pub(in crate::daemon) struct RootLayout {
    /// The machine's: not to be written.
    pub(in crate::daemon) machine: Vec<PathBuf>,
    /// The container's own.
    pub(in crate::daemon) own: Vec<PathBuf>,
    /// Where its /dev has its devices.
    pub(super) devices: Allowed,
}

/// One thing to show at a path of the container's.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Show {
    /// A directory or file of the machine's.
    pub(in crate::daemon) source: PathBuf,
    /// What of it: looked up in it as if it were the root, and made as a directory when it is not there.
    pub(in crate::daemon) sub_path: Option<PathBuf>,
    /// Where the container sees it.
    pub(in crate::daemon) target: PathBuf,
    pub(in crate::daemon) read_only: bool,
    /// Nor may what is mounted in it be written.
    pub(in crate::daemon) recursive: bool,
}

impl Show {
    /// A directory or file that may be written.
    pub(in crate::daemon) fn new(source: PathBuf, target: PathBuf) -> Self {
        Self { source, sub_path: None, target, read_only: false, recursive: false }
    }

    /// The path of what is shown.
    pub(in crate::daemon) fn path(&self) -> PathBuf {
        self.sub_path.as_ref().map_or_else(|| self.source.clone(), |inside| self.source.join(inside))
    }

    /// A descriptor of what is shown.
    pub(in crate::daemon) fn hold(&self) -> io::Result<OwnedFd> {
        match &self.sub_path {
            None => Ok(hold(&self.source)?),
            Some(inside) => RootDir::new(&self.source)?.any(inside),
        }
    }

    /// Why it cannot be shown, as runc words it, without the path on the machine: that may be the node's own.
    pub(super) fn failure(&self, error: &io::Error) -> String {
        let target = self.target.display().to_string();
        format!("error mounting to rootfs at {target:?}: {}", os_text(error))
    }

    /// Makes what is mounted at a path as read only as it should be.
    pub(in crate::daemon) fn lock(&self, place: &Path) -> io::Result<()> {
        match (self.read_only, self.recursive) {
            (false, _) => Ok(()),
            (true, false) => lock_read_only(place),
            (true, true) => lock_all_read_only(place),
        }
    }
}

/// What a container is to see.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct View {
    /// The container's private root directory, in memory.
    pub(in crate::daemon) root: PathBuf,
    /// Its /tmp, on disk.
    pub(in crate::daemon) tmp: PathBuf,
    /// Its own directory on disk, made when one is needed: a working directory that is not there is made below it.
    /// Never shared between containers, and neither are the layers.
    pub(in crate::daemon) dir: PathBuf,
    /// Where private layers over the machine's directories go, in memory; made when one is needed.
    pub(in crate::daemon) layers: PathBuf,
    /// Beside the usual, in order of mounting.
    pub(in crate::daemon) shows: Vec<Show>,
    /// A directory that must exist, the working directory.
    pub(in crate::daemon) working_dir: PathBuf,
    /// What of the machine's directories is not shown.
    pub(in crate::daemon) hidden: Option<Hidden>,
    /// The network is not the machine's: /sys is to show it.
    pub(in crate::daemon) own_network: bool,
    /// All of /proc is shown, and may be written (`procMount: Unmasked`, `privileged`).
    pub(in crate::daemon) unmasked: bool,
    /// The pod's own terminals; else the machine's are shown.
    pub(in crate::daemon) terminals: Option<PathBuf>,
    /// Devices may be opened wherever there are some (`privileged`), and not only in its own /dev.
    pub(in crate::daemon) every_device: bool,
    /// The machine's own /tmp and /dev are shown.
    pub(in crate::daemon) of_machine: bool,
    /// Only what is shown may be written.
    pub(in crate::daemon) read_only: bool,
    /// An image's files are the root, instead of the machine's.
    pub(in crate::daemon) image: Option<ImageRoot>,
    /// What is written over the machine's files goes into a layer.
    pub(in crate::daemon) overlay: Option<Overlay>,
}
