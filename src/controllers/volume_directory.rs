//! The directories of provisioned volumes, one each below one root.
//!
//! Never touches anything but `ROOT/NAME`, regardless of a volume's object, and never follows a link out of it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

type User = dyn Fn(&Path) -> Option<String> + Send + Sync;

/// The directories of volumes, with a check for their use.
#[derive(Clone)]
pub struct VolumeDirectory {
    root: PathBuf,
    user: Arc<User>,
}

impl VolumeDirectory {
    /// Creates volumes below `root`; `user` returns a pod with processes that may still use a path.
    pub fn new(
        root: impl Into<PathBuf>,
        user: impl Fn(&Path) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { root: root.into(), user: Arc::new(user) }
    }

    /// Returns the path of the volume with this name; `None` for a name that is no single path component.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        let mut steps = Path::new(name).components();
        match (steps.next(), steps.next()) {
            (Some(Component::Normal(step)), None) if step == name => Some(self.root.join(name)),
            _ => None,
        }
    }

    /// Returns a pod that may still use the path.
    pub(super) fn user(&self, path: &Path) -> Option<String> {
        (self.user)(path)
    }

    /// Creates a volume's directory, writable for all users as a fresh volume is; an existing one stays unchanged.
    pub(super) fn make(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.root)?;
        fs::set_permissions(&self.root, fs::Permissions::from_mode(0o700))?;
        match fs::create_dir(path) {
            Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o777)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_directory(path) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for VolumeDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeDirectory").field("root", &self.root).finish_non_exhaustive()
    }
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::removal::remove_tree;

    fn directory(root: &Path) -> VolumeDirectory {
        VolumeDirectory::new(root, |_| None)
    }

    #[test]
    fn no_name_leads_out_of_the_root_vol_2() {
        let directory = directory(Path::new("/volumes"));
        assert_eq!(directory.path("pvc-1"), Some("/volumes/pvc-1".into()));
        for name in ["", ".", "..", "/", "/etc", "a/b", "../x", "a/..", "pvc-1/", "./a"] {
            assert_eq!(directory.path(name), None, "{name}");
        }
    }

    #[test]
    fn a_volume_goes_with_what_is_in_it_and_nothing_else_vol_2() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("keep"), "x").unwrap();
        let directory = directory(&place.path().join("volumes"));
        let path = directory.path("pvc-1").unwrap();
        directory.make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o777);
        fs::create_dir_all(path.join("a/b")).unwrap();
        std::os::unix::fs::symlink(&outside, path.join("a/link")).unwrap();
        fs::set_permissions(path.join("a"), fs::Permissions::from_mode(0o500)).unwrap();
        directory.make(&path).unwrap();
        assert!(path.join("a/b").is_dir(), "existing content stays");
        remove_tree(&path).unwrap();
        remove_tree(&path).unwrap();
        assert!(!path.exists() && outside.join("keep").exists());
        // A link in the volume's place is removed, not its target; nothing is created through a link either.
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        assert!(directory.make(&path).is_err());
        let _ = remove_tree(&path);
        assert!(outside.join("keep").exists());
    }
}
