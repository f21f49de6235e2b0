//! The state of source files at one moment, and the files that differ between two moments. Follows no symbolic links.
//!
//! The comparison of whole trees, and not single events, decides about a build: editors write by rename, directories
//! come and go, and events may be lost.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::hash::Hasher;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::patterns::WatchRules;
use base::sort::SliceOrder;

/// The maximum number of watched files in one tree.
const MOST_FILES: usize = 250_000;
/// The maximum depth of directories.
const MOST_DEPTH: usize = 200;
/// The maximum size of a file whose content is compared; larger ones count as changed if their times differ.
const COMPARED_BYTES: u64 = 64 << 20;

/// The files below a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceTree {
    files: HashMap<PathBuf, FileState>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    stamp: (u64, u64, i64, i64, i64, i64, u32),
    /// A hash of the content, known for files that have changed before.
    content: Option<u64>,
}

impl FileState {
    fn new(about: &Metadata) -> Self {
        let times = (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec());
        let stamp = (about.ino(), about.len(), times.0, times.1, times.2, times.3, about.mode());
        Self { stamp, content: None }
    }
}

impl SourceTree {
    /// Reads the tree below `root`. Calls `on_directory` with every directory, relative to the root, before its files
    /// are read. A missing root is an empty tree.
    pub(super) fn read(
        root: &Path,
        rules: &WatchRules,
        on_directory: &mut dyn FnMut(&Path),
    ) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.enter(root, Path::new(""), 0, rules, on_directory)?;
        Ok(tree)
    }

    fn enter(
        &mut self,
        root: &Path,
        directory: &Path,
        depth: usize,
        rules: &WatchRules,
        on_directory: &mut dyn FnMut(&Path),
    ) -> io::Result<()> {
        on_directory(directory);
        let Ok(entries) = fs::read_dir(root.join(directory)) else {
            // It disappeared, or belongs to another user: nothing in it can be built either.
            return Ok(());
        };
        for entry in entries.flatten() {
            let path = directory.join(entry.file_name());
            let Ok(about) = entry.metadata() else { continue };
            let shown = path.to_string_lossy();
            if about.is_dir() {
                if rules.enters_directory(&shown) && depth < MOST_DEPTH {
                    self.enter(root, &path, depth + 1, rules, on_directory)?;
                }
            } else if rules.watches_file(&shown) {
                if self.files.len() >= MOST_FILES {
                    let message = format!(
                        "more than {MOST_FILES} files below {}: name those to watch with `watch:`",
                        root.display()
                    );
                    return Err(io::Error::other(message));
                }
                self.files.insert(path, FileState::new(&about));
            }
        }
        Ok(())
    }

    /// Returns the files that differ from an earlier moment, sorted; learns their contents, so that a file that is
    /// written again with the same content does not count as changed.
    pub(super) fn changes_since(&mut self, earlier: &Self, root: &Path) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        let is_first = earlier.files.is_empty();
        for (path, now) in &mut self.files {
            match earlier.files.get(path) {
                Some(before) if before.stamp == now.stamp => now.content = before.content,
                None if is_first => changed.push(path.clone()),
                before => {
                    now.content = content_of(&root.join(path));
                    let is_same = before.is_some_and(|before| {
                        before.content.is_some()
                            && before.content == now.content
                            && before.stamp.6 == now.stamp.6
                    });
                    if !is_same {
                        changed.push(path.clone());
                    }
                }
            }
        }
        changed.extend(earlier.files.keys().filter(|path| !self.files.contains_key(*path)).cloned());
        changed.order();
        changed
    }

    /// Forgets a file that is ignored from now on.
    pub(super) fn forget(&mut self, path: &Path) {
        self.files.remove(path);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.files.len()
    }
}

/// A hash of a regular file's content.
fn content_of(path: &Path) -> Option<u64> {
    let about = fs::symlink_metadata(path).ok()?;
    if !about.is_file() || about.len() > COMPARED_BYTES {
        return None;
    }
    let mut file = File::open(path).ok()?.take(COMPARED_BYTES);
    let mut hasher = std::hash::DefaultHasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finish()),
            count => hasher.write(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(root: &Path) -> SourceTree {
        SourceTree::read(root, &WatchRules::default(), &mut |_| {}).unwrap()
    }

    #[test]
    fn files_written_by_rename_removed_and_added_are_changes_dev_2() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("app");
        fs::create_dir_all(root.join("src")).unwrap();
        for name in ["src/a", "src/b", "src/c"] {
            fs::write(root.join(name), name).unwrap();
        }
        // A loop of links is a link, and nothing below it.
        std::os::unix::fs::symlink("..", root.join("src/loop")).unwrap();
        let first = read(&root);
        assert_eq!(first.len(), 4);
        fs::write(root.join("new"), "other").unwrap();
        fs::rename(root.join("new"), root.join("src/a")).unwrap();
        fs::remove_file(root.join("src/b")).unwrap();
        fs::write(root.join("src/d"), "d").unwrap();
        let mut second = read(&root);
        let expect = ["src/a", "src/b", "src/d"].map(PathBuf::from);
        assert_eq!(second.changes_since(&first, &root), expect);
        // The same content again is no change, once the content is known.
        fs::write(root.join("new"), "other").unwrap();
        fs::rename(root.join("new"), root.join("src/a")).unwrap();
        let mut third = read(&root);
        assert!(third.changes_since(&second, &root).is_empty());
        fs::remove_dir_all(&root).unwrap();
        let mut gone = read(&root);
        assert_eq!(gone.changes_since(&third, &root).len(), 4);
    }
}
