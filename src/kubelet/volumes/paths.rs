//! Paths that must stay inside a directory (SEC-2).

use std::io;
use std::path::{Component, Path, PathBuf};

/// `root/relative`; none when `relative` is absolute or climbs (`..`) anywhere.
pub(crate) fn join_inside(root: &Path, relative: &str) -> Option<PathBuf> {
    let mut path = root.to_path_buf();
    for component in Path::new(relative).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Whether an existing `path`, all links followed, lies inside `root`.
pub(crate) fn is_inside(root: &Path, path: &Path) -> io::Result<bool> {
    Ok(path.canonicalize()?.starts_with(root.canonicalize()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_climbs_out_vol_1() {
        for (relative, expected) in [
            ("a/b", Some("/r/a/b")),
            ("./a//b/", Some("/r/a/b")),
            ("..", None),
            ("a/../../b", None),
            ("a/..", None),
            ("/etc", None),
        ] {
            assert_eq!(join_inside(Path::new("/r"), relative), expected.map(PathBuf::from), "{relative}");
        }
    }

    #[test]
    fn a_link_that_leads_out_is_seen_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(root.join("inner")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
        std::os::unix::fs::symlink("inner", root.join("in")).unwrap();
        assert!(is_inside(&root, &root.join("in")).unwrap());
        assert!(!is_inside(&root, &root.join("out")).unwrap());
    }
}
