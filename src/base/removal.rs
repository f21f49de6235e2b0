//! Removes files and trees. An absent one counts as removed, and no link is followed.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns success instead of the error that a file does not exist.
pub fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes a file, a link or a tree.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_directory(path) { remove_tree(path) } else { unless_missing(fs::remove_file(path)) }
}

/// Removes a tree, even directories that not even their owner may list or write: containers and overlays leave such
/// directories behind.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_directories(path);
            unless_missing(fs::remove_dir_all(path))
        }
        removed => unless_missing(removed),
    }
}

/// Gives the owner access to every directory of a tree as far as permitted; the removal reports the others.
fn open_directories(path: &Path) {
    let mut next = vec![path.to_path_buf()];
    while let Some(path) = next.pop() {
        // The mode of a link's target must not change.
        if is_directory(&path) {
            let _ = fs::set_permissions(&path, Permissions::from_mode(0o700));
            next.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::*;

    /// Runs a check without the rights of root, which would open every directory.
    fn without_capabilities(check: impl FnOnce() + Send) {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                set_capabilities(None, sets).unwrap();
                check();
            });
        });
    }

    /// VOL-2: a claim's directory goes with directories that a container closed, and the targets of links stay.
    #[test]
    fn a_tree_goes_with_its_closed_directories_vol_2() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o500)).unwrap();
        for removal in [remove_tree, remove] {
            for mode in [0o000, 0o500, 0o700] {
                let tree = place.path().join("tree");
                fs::create_dir_all(tree.join("closed/inner")).unwrap();
                fs::write(tree.join("closed/file"), "").unwrap();
                symlink(&outside, tree.join("closed/inner/link")).unwrap();
                for directory in ["closed/inner", "closed"] {
                    fs::set_permissions(tree.join(directory), Permissions::from_mode(mode)).unwrap();
                }
                without_capabilities(|| removal(&tree).unwrap());
                assert!(!tree.exists(), "{mode:o}");
                removal(&tree).unwrap();
            }
        }
        assert!(outside.join("file").exists());
        assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o500);
        fs::set_permissions(&outside, Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_file_and_a_link_are_removed_and_its_target_stays() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        fs::write(&file, "").unwrap();
        symlink(place.path(), &link).unwrap();
        remove(&link).unwrap();
        assert!(fs::symlink_metadata(&link).is_err() && file.exists());
        remove(&file).unwrap();
        remove(&file).unwrap();
        assert!(!file.exists());
    }
}
