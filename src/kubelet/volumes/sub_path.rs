//! Parts of volumes (`subPath`, `subPathExpr`), created as directories if they are missing.
//!
//! Containers of the pod may replace directories by links at any time. So the result is a path inside the volume, never
//! a path on the machine, and the code that opens it resolves it without leaving the volume ([`RootDir`]).

use std::io;
use std::path::{Path, PathBuf};

use super::join_inside;
use base::layers::Layers;
use base::root_dir::RootDir;

/// Returns the path of `sub` inside the volume at `root`, without links. Missing directories get the mode of the
/// volume, as in Kubernetes' kubelet, and its group if the volume has the set-group-ID bit (`fsGroup`). A path that
/// leads out of the volume is refused (SEC-2).
pub(super) fn prepare(root: &Path, sub: &str) -> Result<PathBuf, String> {
    let path = join_inside(Path::new(""), sub)
        .ok_or_else(|| format!("subPath \"{sub}\" must not leave the volume"))?;
    let failure = |error: io::Error| format!("subPath \"{sub}\": {error}");
    let root = root.canonicalize().map_err(failure)?;
    let mut existing = path.as_path();
    while root.join(existing).symlink_metadata().is_err() {
        existing = existing.parent().ok_or_else(|| failure(io::ErrorKind::NotFound.into()))?;
    }
    let real = root.join(existing).canonicalize().map_err(failure)?;
    let real = real.strip_prefix(&root).map_err(|_| format!("subPath \"{sub}\" leads outside the volume"))?;
    // The missing components follow. They are collected, because joining an empty path would add a slash.
    let missing = path.components().skip(existing.components().count());
    let inside: PathBuf = real.components().chain(missing).collect();
    RootDir::new(&root).and_then(|volume| volume.any(&inside)).map_err(failure)?;
    Ok(inside)
}

/// Returns the path of a directory of an image's merged files, without links: they lead to places inside. As in
/// containerd, nothing but a directory can be shown.
pub(super) fn find_in_image(layers: &[PathBuf], path: &Path) -> Result<PathBuf, String> {
    let layers = Layers::new(layers.to_vec());
    let mut position = layers.root();
    match layers.go(&mut position, path, |_, _| Ok(None)) {
        Ok(true) => Ok(position.last().path.clone()),
        Ok(false) => Err("no such file or directory".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err("only a directory can be a subpath of an image".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    /// VOL-1, SEC-2: a subPath stays inside, also through links that a container made.
    #[test]
    fn sub_paths_stay_inside_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("volume");
        fs::create_dir(&root).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::create_dir(root.join("inner")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        symlink(dir.path().join("outside"), root.join("out")).unwrap();
        symlink("inner", root.join("in")).unwrap();
        symlink(root.canonicalize().unwrap().join("inner"), root.join("absolute")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        for (sub, inside) in [
            ("made/here", "made/here"),
            ("in", "inner"),
            ("in/new/deep", "inner/new/deep"),
            ("absolute/x", "inner/x"),
            ("file", "file"),
            (".", ""),
        ] {
            assert_eq!(prepare(&root, sub), Ok(PathBuf::from(inside)), "{sub}");
            assert!(root.join(inside).exists(), "{sub}");
        }
        for sub in ["../outside", "/etc", "out", "out/new", "a/../../outside", "file/below", "dangling"] {
            let error = prepare(&root, sub).unwrap_err();
            assert!(
                !error.contains(dir.path().to_str().unwrap()),
                "the node's directories are hidden: {error}"
            );
        }
        assert!(!dir.path().join("outside/new").exists(), "nothing is made outside");
    }

    #[test]
    fn directories_created_for_a_sub_path_get_mode_and_group_of_the_volume_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let own_group = rustix::process::getegid().as_raw();
        for (mode, group) in [(0o777, None), (0o2777, Some(4711)), (0o2775, Some(4711)), (0o755, None)] {
            let root = dir.path().join(format!("{mode:o}-{group:?}"));
            fs::create_dir(&root).unwrap();
            // Only root may give files to other users and groups.
            let group = group.filter(|_| is_root).unwrap_or(own_group);
            chown(&root, None, Some(group)).unwrap();
            fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
            fs::create_dir(root.join("there")).unwrap();
            fs::set_permissions(root.join("there"), fs::Permissions::from_mode((mode & 0o2000) | 0o700))
                .unwrap();
            for sub in ["a", "b/c/d", "there/e"] {
                prepare(&root, sub).unwrap();
            }
            for made in ["a", "b", "b/c", "b/c/d", "there/e"] {
                let about = root.join(made).metadata().unwrap();
                assert_eq!((about.mode() & 0o7777, about.gid()), (mode, group), "{mode:o} {made}");
            }
            let there = root.join("there").metadata().unwrap();
            assert_eq!(there.mode() & 0o777, 0o700, "an existing directory keeps its mode");
        }
    }

    /// IMG-11: a part of an image volume is a directory that exists, also through links, which never lead outside.
    #[test]
    fn parts_of_images_are_directories_inside_img_11() {
        let around = tempfile::tempdir().unwrap();
        let [upper, lower] = ["upper", "lower"].map(|name| around.path().join(name));
        for directory in [upper.join("upper"), lower.join("lower/deep"), around.path().join("outside")] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(lower.join("file"), "").unwrap();
        symlink("/lower", upper.join("link")).unwrap();
        symlink("../../outside", upper.join("out")).unwrap();
        symlink("loop", upper.join("loop")).unwrap();
        let layers = [upper, lower];
        let missing = Err("no such file or directory".to_owned());
        let no_directory = Err("only a directory can be a subpath of an image".to_owned());
        for (path, found) in [
            ("upper", Ok("upper".into())),
            ("link/deep", Ok("lower/deep".into())),
            ("", Ok(PathBuf::new())),
            ("none", missing.clone()),
            ("lower/none/deep", missing.clone()),
            ("out", missing),
            ("file", no_directory.clone()),
            ("file/below", no_directory),
        ] {
            assert_eq!(find_in_image(&layers, Path::new(path)), found, "{path}");
        }
        assert!(find_in_image(&layers, Path::new("loop")).is_err());
    }
}
