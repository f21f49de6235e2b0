//! Paths that must stay inside a directory (SEC-2).

use std::path::{Component, Path, PathBuf};

/// Returns `root/relative`; `None` if `relative` is absolute or contains `..` anywhere.
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
}
