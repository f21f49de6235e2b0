//! Layers: directories that lie over each other and are seen as one tree, as overlayfs merges them.
//!
//! Used for unpacking a layer over those below it, for reading an image's files without a mount, and for copying an
//! image where the kernel mounts no overlay. Links are resolved inside the tree, as for a process whose root it is.
//!
//! Nothing here writes to a layer. A layer must not change while it is read here, except by its only writer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

/// The extended attribute of a directory that hides the content of the directories below it. The kernel reads it from
/// overlays that are mounted with `userxattr`; any user may set it.
pub const OPAQUE: &str = "user.overlay.opaque";
/// The prefix of overlayfs' own attributes, which are no part of a file.
pub const OVERLAY_ATTRIBUTES: &str = "user.overlay.";
/// The number of links that one lookup follows.
const MAX_LINKS: u8 = 40;

/// Layers, the topmost one first.
#[derive(Clone, Debug)]
pub struct Layers {
    directories: Vec<PathBuf>,
}

/// A directory of the merged tree.
#[derive(Clone, Debug)]
pub struct MergedDirectory {
    /// Its path in the tree, without links.
    pub path: PathBuf,
    /// The layers that have a part of it, by number, the topmost one first; never empty.
    pub layers: Vec<usize>,
}

/// The meaning of a name in a merged directory.
#[derive(Debug)]
pub enum MergedEntry {
    /// A directory.
    Directory(MergedDirectory),
    /// Anything else.
    Other {
        /// Its path in its layer's directory.
        place: PathBuf,
        /// Its metadata.
        about: Metadata,
    },
}

/// A directory of the merged tree, with the directories that contain it: the root comes first.
#[derive(Clone, Debug)]
pub struct Position {
    /// Never empty.
    pub ancestors: Vec<MergedDirectory>,
}

impl Position {
    /// The directory itself.
    pub fn last(&self) -> &MergedDirectory {
        self.ancestors.last().expect("a position has at least the root")
    }

    /// The directory itself.
    pub fn last_mut(&mut self) -> &mut MergedDirectory {
        self.ancestors.last_mut().expect("a position has at least the root")
    }
}

/// Returns true if a file hides the files of its name in the layers below: a character device 0:0, or a socket, which
/// replaces the device where the file system refuses it (no image contains a socket).
pub fn is_whiteout(about: &Metadata) -> bool {
    let kind = about.file_type();
    (kind.is_char_device() && about.rdev() == 0) || kind.is_socket()
}

fn is_opaque(directory: &Path) -> bool {
    let mut value = [0; 1];
    // A longer value is none of overlayfs' for this.
    matches!(rustix::fs::lgetxattr(directory, OPAQUE, &mut value), Ok(1)) && value == *b"y"
}

impl Layers {
    /// Layers, the topmost one first.
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories }
    }

    /// The directories of the layers, the topmost one first.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// The directory of a layer.
    pub fn directory(&self, layer: usize) -> &Path {
        &self.directories[layer]
    }

    /// The root of the tree.
    pub fn root(&self) -> Position {
        let root = MergedDirectory { path: PathBuf::new(), layers: (0..self.directories.len()).collect() };
        Position { ancestors: vec![root] }
    }

    /// Looks a name up in a directory; follows no link.
    pub fn find(&self, directory: &MergedDirectory, name: &OsStr) -> io::Result<Option<MergedEntry>> {
        let path = directory.path.join(name);
        let mut layers = Vec::new();
        for &layer in &directory.layers {
            let place = self.directories[layer].join(&path);
            let about = match fs::symlink_metadata(&place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                about => about?,
            };
            if about.is_dir() {
                layers.push(layer);
                if is_opaque(&place) {
                    break;
                }
            } else if layers.is_empty() && !is_whiteout(&about) {
                return Ok(Some(MergedEntry::Other { place, about }));
            } else {
                break;
            }
        }
        Ok((!layers.is_empty()).then_some(MergedEntry::Directory(MergedDirectory { path, layers })))
    }

    /// Moves a position to a directory, whose path begins at the root. Calls `missing` for each directory that does
    /// not exist; returns false if that creates none.
    pub fn go(
        &self,
        position: &mut Position,
        path: &Path,
        mut missing: impl FnMut(&mut Position, &OsStr) -> io::Result<Option<MergedDirectory>>,
    ) -> io::Result<bool> {
        let parts: Vec<&OsStr> = path.components().filter_map(normal).collect();
        let known = position.ancestors.iter().skip(1);
        let common =
            known.zip(&parts).take_while(|(known, part)| known.path.file_name() == Some(part)).count();
        // Equal names from the root on lead to the same directories: a position's path has no links.
        position.ancestors.truncate(common + 1);
        let mut rest: VecDeque<OsString> = parts[common..].iter().map(|&part| part.to_owned()).collect();
        let mut links_left = MAX_LINKS;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                if position.ancestors.len() > 1 {
                    position.ancestors.pop();
                }
                continue;
            }
            match self.find(position.last(), &part)? {
                Some(MergedEntry::Directory(directory)) => position.ancestors.push(directory),
                Some(MergedEntry::Other { place, about }) if about.is_symlink() => {
                    links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
                    let target = fs::read_link(place)?;
                    if target.is_absolute() {
                        position.ancestors.truncate(1);
                    }
                    for part in target.components().rev() {
                        match part {
                            Component::Normal(part) => rest.push_front(part.to_owned()),
                            Component::ParentDir => rest.push_front("..".into()),
                            _ => {}
                        }
                    }
                }
                Some(MergedEntry::Other { .. }) => return Err(Errno::NOTDIR.into()),
                None => match missing(position, &part)? {
                    Some(made) => position.ancestors.push(made),
                    None => return Ok(false),
                },
            }
        }
        Ok(true)
    }

    /// Returns the text of a file; `None` if it is not a regular file below 4 MiB.
    pub fn read(&self, path: &Path) -> Option<String> {
        let mut position = self.root();
        let mut path = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            let directory = path.parent().unwrap_or(Path::new(""));
            if !self.go(&mut position, directory, |_, _| Ok(None)).ok()? {
                return None;
            }
            let Some(MergedEntry::Other { place, about }) =
                self.find(position.last(), path.file_name()?).ok()?
            else {
                return None;
            };
            if about.is_symlink() {
                // The link's directory has a path without links, to which `..` in the target is relative.
                path = position.last().path.join(fs::read_link(place).ok()?);
                continue;
            }
            let is_file = about.is_file() && about.len() < 4 << 20;
            return if is_file { fs::read_to_string(place).ok() } else { None };
        }
        None
    }

    /// Copies the merged tree into an existing directory: types, modes, owners, times, attributes and hard links.
    pub fn copy(&self, to: &Path) -> io::Result<()> {
        let root = self.root().last().clone();
        let mut linked = HashMap::new();
        let mut next = vec![root.clone()];
        // Modes and times of directories are set after their content is there, inner ones first.
        let mut directories = Vec::new();
        while let Some(directory) = next.pop() {
            for name in self.names(&directory)? {
                let place = to.join(&directory.path).join(&name);
                match self.find(&directory, &name)? {
                    Some(MergedEntry::Directory(inner)) => {
                        fs::create_dir(&place)?;
                        next.push(inner);
                    }
                    Some(MergedEntry::Other { place: source, about }) => {
                        copy_file(&source, &about, &place, &mut linked)?;
                    }
                    None => {}
                }
            }
            directories.push(directory);
        }
        for directory in directories.iter().rev() {
            let source = self.directories[directory.layers[0]].join(&directory.path);
            copy_attributes(&source, &fs::symlink_metadata(&source)?, &to.join(&directory.path))?;
        }
        Ok(())
    }

    /// The names in a directory.
    fn names(&self, directory: &MergedDirectory) -> io::Result<HashSet<OsString>> {
        let mut names = HashSet::new();
        for &layer in &directory.layers {
            for entry in fs::read_dir(self.directories[layer].join(&directory.path))? {
                names.insert(entry?.file_name());
            }
        }
        Ok(names)
    }
}

/// Copies what is not a directory; `linked` has the first copies of files with several names.
fn copy_file(
    source: &Path,
    about: &Metadata,
    place: &Path,
    linked: &mut HashMap<(u64, u64), PathBuf>,
) -> io::Result<()> {
    let identity = (about.dev(), about.ino());
    if let Some(first) = linked.get(&identity) {
        return fs::hard_link(first, place);
    }
    if about.is_symlink() {
        symlink(fs::read_link(source)?, place)?;
    } else if about.is_file() {
        fs::copy(source, place)?;
    } else if about.file_type().is_fifo() {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(CWD, place, rustix::fs::FileType::Fifo, mode, 0)?;
    } else {
        return Ok(());
    }
    if about.nlink() > 1 {
        linked.insert(identity, place.to_path_buf());
    }
    copy_attributes(source, about, place)
}

/// Gives a copy of a file or directory its owner (as root), its mode, its attributes and its times. Attributes that the
/// file system does not accept are lost.
pub fn copy_attributes(source: &Path, about: &Metadata, place: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(place, Some(about.uid()), Some(about.gid()))?;
    }
    if !about.is_symlink() {
        // Set after the owner, because a change of the owner clears the set-user-id bit.
        fs::set_permissions(place, fs::Permissions::from_mode(about.mode() & 0o7777))?;
    }
    if about.is_file() || about.is_dir() {
        copy_extended_attributes(source, place);
    }
    let time = |seconds: i64, nanoseconds: i64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(about.atime(), about.atime_nsec()),
        last_modification: time(about.mtime(), about.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, place, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn copy_extended_attributes(source: &Path, place: &Path) {
    // The kernel's limits are 64 KiB for the names and for each value.
    let mut names = vec![0; 1 << 16];
    let Ok(length) = rustix::fs::llistxattr(source, &mut names) else { return };
    for name in names[..length].split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        let is_copied = (name.starts_with("user.") && !name.starts_with(OVERLAY_ATTRIBUTES))
            || name == "security.capability";
        let mut value = vec![0; 1 << 16];
        if is_copied && let Ok(length) = rustix::fs::lgetxattr(source, name, &mut value) {
            let _ = rustix::fs::lsetxattr(place, name, &value[..length], XattrFlags::empty());
        }
    }
}

fn normal(part: Component<'_>) -> Option<&OsStr> {
    match part {
        Component::Normal(part) => Some(part),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    /// A character device 0:0, or a socket.
    fn whiteout(place: &Path, as_socket: bool) {
        let kind =
            if as_socket { rustix::fs::FileType::Socket } else { rustix::fs::FileType::CharacterDevice };
        rustix::fs::mknodat(CWD, place, kind, rustix::fs::Mode::empty(), 0).unwrap();
    }

    /// IMG-3: a copy of merged layers has what an overlay of them shows, and is independent of them.
    #[test]
    fn a_copy_is_as_the_layers_and_private() {
        let around = tempfile::tempdir().unwrap();
        let path = |name: &str| around.path().join(name);
        for name in ["lower", "middle", "upper", "copy"] {
            fs::create_dir(path(name)).unwrap();
        }
        let lower = path("lower");
        write(&lower, "a/program", "code");
        write(&lower, "a/b/stays", "stays");
        write(&lower, "gone/file", "old");
        write(&lower, "hidden/old", "old");
        write(&lower, "covered", "old");
        fs::set_permissions(lower.join("a/program"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::set_permissions(lower.join("a/b"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::hard_link(lower.join("a/program"), lower.join("a/b/same")).unwrap();
        symlink("../../elsewhere", lower.join("a/link")).unwrap();
        whiteout(&path("middle").join("gone"), false);
        write(&path("middle"), "hidden/new", "new");
        rustix::fs::lsetxattr(path("middle").join("hidden"), OPAQUE, b"y", XattrFlags::empty()).unwrap();
        write(&path("upper"), "covered/inside", "directory");
        write(&path("upper"), "a/b/added", "added");
        whiteout(&path("upper").join("a/b/stays"), true);
        fs::set_permissions(path("upper").join("a/b"), fs::Permissions::from_mode(0o1770)).unwrap();
        let copy = path("copy");
        Layers::new(vec![path("upper"), path("middle"), lower.clone()]).copy(&copy).unwrap();

        let about = |path: &str| fs::symlink_metadata(copy.join(path)).unwrap();
        assert_eq!(about("a/program").permissions().mode() & 0o7777, 0o4755);
        assert_eq!(about("a/b").permissions().mode() & 0o7777, 0o1770);
        assert_eq!(fs::read_link(copy.join("a/link")).unwrap(), Path::new("../../elsewhere"));
        assert_eq!(about("a/program").ino(), about("a/b/same").ino());
        assert_eq!(fs::read_to_string(copy.join("a/b/added")).unwrap(), "added");
        assert!(about("covered/inside").is_file() && about("hidden/new").is_file());
        for gone in ["gone", "hidden/old", "a/b/stays"] {
            assert!(fs::symlink_metadata(copy.join(gone)).is_err(), "{gone}");
        }
        fs::write(copy.join("a/program"), "mine").unwrap();
        assert_eq!(fs::read_to_string(lower.join("a/b/same")).unwrap(), "code");
    }

    /// IMG-3: files are read through the links of all layers, which lead to places inside.
    #[test]
    fn files_are_read_in_the_merged_tree() {
        let around = tempfile::tempdir().unwrap();
        let (lower, upper) = (around.path().join("lower"), around.path().join("upper"));
        write(&lower, "etc/passwd", "lower");
        write(&lower, "secret", "inside");
        write(&upper, "usr/etc/passwd", "upper");
        write(around.path(), "secret", "outside");
        symlink("usr/etc", upper.join("etc2")).unwrap();
        symlink("/etc/passwd", upper.join("absolute")).unwrap();
        symlink("../../../secret", upper.join("usr/up")).unwrap();
        symlink("../../etc2/../up", upper.join("usr/etc/odd")).unwrap();
        symlink("/proc/self/root/etc/passwd", upper.join("magic")).unwrap();
        symlink("loop", upper.join("loop")).unwrap();
        whiteout(&upper.join("removed"), false);
        write(&lower, "removed", "x");
        let layers = Layers::new(vec![upper, lower]);
        for (path, expect) in [
            ("etc/passwd", Some("lower")),
            ("/etc2/passwd", Some("upper")),
            ("absolute", Some("lower")),
            ("usr/up", Some("inside")),
            ("usr/etc/odd", Some("inside")),
            ("../secret", Some("inside")),
            ("magic", None),
            ("loop", None),
            ("etc", None),
            ("removed", None),
            ("etc/passwd/x", None),
            ("none/at/all", None),
        ] {
            assert_eq!(layers.read(Path::new(path)).as_deref(), expect, "{path}");
        }
    }
}
