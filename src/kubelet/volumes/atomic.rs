//! Replaces a directory's content atomically: files lie in a directory with a name of its own, `..data` links to it,
//! and each visible name links through `..data`. One rename of `..data` changes all of them at once.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::Path;

use super::Content;
use super::ownership::{self, Owners};

const DATA: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Makes `dir` show exactly `content`; writes no file if it already does.
pub(super) fn write(dir: &Path, content: &Content, owners: Owners) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    if let Some(group) = owners.group {
        ownership::set_group(dir, group, ownership::READABLE.directory)?;
    }
    if !shows(dir, content) {
        let fresh = format!("..{:032x}", base::random::random::<u128>());
        let store = dir.join(&fresh);
        fs::create_dir(&store)?;
        if let Err(error) = fill(&store, content, owners).and_then(|()| switch_to(dir, &fresh)) {
            // The write is retried with a directory of another name.
            let _ = fs::remove_dir_all(&store);
            return Err(error);
        }
    }
    // Also after an earlier write that failed behind its switch.
    link_names(dir, content)?;
    remove_earlier(dir)
}

/// Removes the directories of earlier content.
fn remove_earlier(dir: &Path) -> io::Result<()> {
    let current = fs::read_link(dir.join(DATA))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_store =
            name.to_str().is_some_and(|name| name.starts_with("..")) && entry.file_type()?.is_dir();
        if is_store && Path::new(&name) != current {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn fill(store: &Path, content: &Content, owners: Owners) -> io::Result<()> {
    for (path, (bytes, mode)) in &content.files {
        write_file(&store.join(path), bytes, *mode)
            .map_err(|error| io::Error::new(error.kind(), format!("file \"{path}\": {error}")))?;
    }
    if let Some(group) = owners.group {
        ownership::set_group_recursively(store, group, ownership::READABLE)?;
    }
    for path in content.tokens.iter().filter(|_| owners.user.is_some()) {
        lchown(store.join(path), owners.user, None)?;
    }
    Ok(())
}

fn switch_to(dir: &Path, fresh: &str) -> io::Result<()> {
    let _ = fs::remove_file(dir.join(NEXT));
    symlink(fresh, dir.join(NEXT))?;
    fs::rename(dir.join(NEXT), dir.join(DATA))
}

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    // The umask must not restrict the mode.
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// The first components of all paths: the visible names in the volume.
fn names(content: &Content) -> BTreeSet<&str> {
    content.files.keys().filter_map(|path| path.split('/').next()).collect()
}

fn link_names(dir: &Path, content: &Content) -> io::Result<()> {
    let names = names(content);
    for name in &names {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), link)?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let stays = name.to_str().is_some_and(|n| n.starts_with("..") || names.contains(n));
        if !stays && entry.file_type()?.is_symlink() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns true if the directory already holds the content; modes are those it was written with.
fn shows(dir: &Path, content: &Content) -> bool {
    let data = dir.join(DATA);
    let mut found = 0;
    let same = content.files.iter().all(|(path, (bytes, mode))| {
        found += 1;
        let path = data.join(path);
        fs::read(&path).is_ok_and(|now| now == *bytes)
            && fs::metadata(&path).is_ok_and(|m| m.permissions().mode() & 0o7777 == *mode)
    });
    same && data.is_dir() && count_files(&data) == found
}

fn count_files(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => count_files(&entry.path()),
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn content(files: &[(&str, &str)]) -> Content {
        Content {
            files: files.iter().map(|(p, b)| ((*p).into(), (b.as_bytes().to_vec(), 0o640))).collect(),
            ..Content::default()
        }
    }

    fn visible(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| !n.starts_with(".."))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_update_swaps_everything_at_once_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("v");
        write(&dir, &content(&[("a", "1"), ("d/e", "2")]), Owners::default()).unwrap();
        assert_eq!(visible(&dir), ["a", "d"]);
        assert_eq!(fs::read_to_string(dir.join("d/e")).unwrap(), "2");
        assert_eq!(fs::metadata(dir.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        let before = fs::read_link(dir.join(DATA)).unwrap();
        write(&dir, &content(&[("a", "1"), ("d/e", "2")]), Owners::default()).unwrap();
        assert_eq!(fs::read_link(dir.join(DATA)).unwrap(), before, "unchanged content is not written");
        write(&dir, &content(&[("a", "9"), ("b", "3")]), Owners::default()).unwrap();
        assert_eq!(visible(&dir), ["a", "b"]);
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "9");
        assert!(!dir.join(before).exists(), "the old content is gone");
    }

    #[test]
    fn a_failed_write_leaves_the_directory_as_it_was_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("v");
        write(&dir, &content(&[("a", "1")]), Owners::default()).unwrap();
        let entries = || {
            let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = entries();
        let too_long = "x".repeat(300);
        write(&dir, &content(&[("a", "2"), (too_long.as_str(), "3")]), Owners::default()).unwrap_err();
        assert_eq!(entries(), before);
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "1");
        // As after a write that failed behind its switch.
        fs::remove_file(dir.join("a")).unwrap();
        fs::create_dir(dir.join("..earlier")).unwrap();
        write(&dir, &content(&[("a", "1")]), Owners::default()).unwrap();
        assert_eq!(entries(), before);
    }

    /// POD-16: the group of `fsGroup` can read all files, and owns new files of the volume.
    #[test]
    fn files_belong_to_the_group() {
        // Only root may give files to other users and groups.
        crate::needs::needs!(Root);
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("v");
        let owners = Owners { group: Some(4711), user: Some(4712), ..Owners::default() };
        let mut content = content(&[("d/a", "1"), ("token", "2")]);
        content.tokens.insert("token".into());
        content.belong_to(owners);
        write(&dir, &content, owners).unwrap();
        let about = |path: &str| {
            let about = fs::metadata(dir.join(path)).unwrap();
            (about.uid(), about.gid(), about.mode() & 0o7777)
        };
        assert_eq!(about("."), (0, 4711, 0o2755));
        assert_eq!(about("d"), (0, 4711, 0o2755));
        assert_eq!(about("d/a"), (0, 4711, 0o640));
        assert_eq!(about("token"), (4712, 4711, 0o640));
        let before = fs::read_link(dir.join(DATA)).unwrap();
        write(&dir, &content, owners).unwrap();
        assert_eq!(fs::read_link(dir.join(DATA)).unwrap(), before, "unchanged content is not written");
    }
}
