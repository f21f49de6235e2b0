//! The files of snapshots: `snapshots/NAME.json` below the data directory, and beside it `snapshots/NAME.claims/VOLUME`
//! if the claims' content is included.
//!
//! A file is written under a temporary name (`.NAME…`) and then renamed, so that it is complete or does not exist; the
//! next start removes an unfinished one. No name of a snapshot leads to a path outside the directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use base::removal::{remove, unless_missing};
use base::sort::SliceOrder;
use object::{Object, Revision};
use operators::snapshots::SnapshotMetadata;
use store::archive::{self, Archive, ArchiveError};

/// The maximum number of snapshots, whether users or restores have requested them.
const MAX_SNAPSHOTS: usize = 100;
/// The maximum size of the objects of a snapshot, in bytes.
const MAX_BYTES: u64 = 8 << 30;
/// The maximum depth of a claim's directory tree.
const DEEPEST: usize = 200;
/// The space that must stay free on the disk when claims are copied, in bytes.
const FREE_BYTES: u64 = 64 << 20;

/// A snapshot's file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path that failed.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is damaged.
    #[error("{}: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: ArchiveError,
    },
    /// There are [`MAX_SNAPSHOTS`] snapshots already.
    #[error("the limit of {MAX_SNAPSHOTS} snapshots is reached; delete one first")]
    TooMany,
    /// The file exceeds the maximum size.
    #[error("all snapshots together would exceed {MAX_BYTES} bytes; delete one first")]
    TooLarge,
    /// The claims' content exceeds the free space.
    #[error("the claims contain {required} bytes, and the disk has {free} bytes free")]
    NoRoom {
        /// The required space in bytes.
        required: u64,
        /// The free space in bytes.
        free: u64,
    },
    /// There is no snapshot of this name.
    #[error("snapshot {0:?} not found")]
    Missing(String),
    /// The name is not a plain file name, or begins with a dot.
    #[error("{0:?} is not a valid file name")]
    Name(String),
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_path_buf();
    |source| SnapshotError::Io { path, source }
}

/// The snapshots' directory and the volumes' directory of a data directory.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
    volumes: PathBuf,
}

impl Files {
    /// The snapshots of this data directory.
    pub fn of(data_dir: &Path) -> Self {
        Self { root: data_dir.join("snapshots"), volumes: data_dir.join("volumes") }
    }

    /// The path of the file of the snapshot with this name.
    pub fn path(&self, name: &str) -> Result<PathBuf, SnapshotError> {
        self.below(name, ".json")
    }

    /// The path of the directory with the claims' content of the snapshot with this name.
    pub fn claims(&self, name: &str) -> Result<PathBuf, SnapshotError> {
        self.below(name, ".claims")
    }

    fn below(&self, name: &str, suffix: &str) -> Result<PathBuf, SnapshotError> {
        if is_step(name) && !name.starts_with('.') {
            Ok(self.root.join(format!("{name}{suffix}")))
        } else {
            Err(SnapshotError::Name(name.to_owned()))
        }
    }

    /// The path of a volume's directory; `None` if the name is not a plain file name.
    pub(super) fn volume(&self, name: &str) -> Option<PathBuf> {
        is_step(name).then(|| self.volumes.join(name))
    }

    /// Returns the names of all snapshots, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?.strip_suffix(".json")?.to_owned();
            (!name.starts_with('.')).then_some(name)
        });
        let mut names: Vec<String> = named.collect();
        names.order();
        names
    }

    /// Removes unfinished files.
    pub(super) fn tidy(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with('.')
                && let Err(error) = remove(&entry.path())
            {
                tracing::warn!("cannot remove {}: {error}", entry.path().display());
            }
        }
    }

    /// Writes a snapshot, with the claims' content; returns the size of the objects in bytes. Replaces an existing
    /// snapshot of this name.
    pub(super) fn write(
        &self,
        name: &str,
        revision: Revision,
        about: &SnapshotMetadata,
        objects: &[Arc<Object>],
    ) -> Result<u64, SnapshotError> {
        let path = self.path(name)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root).map_err(at(&self.root))?;
        let names = self.names();
        if names.len() >= MAX_SNAPSHOTS && !names.iter().any(|one| one == name) {
            return Err(SnapshotError::TooMany);
        }
        let size = |name: &String| self.path(name).ok().and_then(|path| path.metadata().ok());
        let others = names.iter().filter(|one| *one != name);
        let used: u64 = others.filter_map(size).map(|about| about.len()).sum();
        let part = self.root.join(format!(".{name}.json"));
        let write_part = || -> io::Result<u64> {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
            let mut file = BufWriter::with_capacity(1 << 20, file);
            let bytes = archive::write(&mut file, revision, about, objects)?;
            file.into_inner()?.sync_all()?;
            Ok(bytes)
        };
        let replace = || fs::rename(&part, &path).and_then(|()| File::open(&self.root)?.sync_all());
        let write = || -> Result<u64, SnapshotError> {
            let bytes = write_part().map_err(at(&path))?;
            if used + bytes > MAX_BYTES {
                return Err(SnapshotError::TooLarge);
            }
            self.write_claims(name, &about.claims)?;
            replace().map_err(at(&path))?;
            Ok(bytes)
        };
        write().inspect_err(|_| drop(fs::remove_file(&part)))
    }

    /// Copies the content of volumes; the file that names them is written afterwards.
    fn write_claims(&self, name: &str, volumes: &[String]) -> Result<(), SnapshotError> {
        let path = self.claims(name)?;
        let part = self.root.join(format!(".{name}.claims"));
        for old in [&path, &part] {
            remove(old).map_err(at(old))?;
        }
        if volumes.is_empty() {
            return Ok(());
        }
        let all: Vec<(String, PathBuf)> =
            volumes.iter().filter_map(|name| Some((name.clone(), self.volume(name)?))).collect();
        let required: u64 = all.iter().map(|(_, volume)| bytes_in(volume, 0)).sum();
        let free = free_bytes(&self.root).map_err(at(&self.root))?;
        if required.saturating_add(FREE_BYTES) > free {
            return Err(SnapshotError::NoRoom { required, free });
        }
        let copy = || -> io::Result<()> {
            DirBuilder::new().mode(0o700).create(&part)?;
            for (name, volume) in &all {
                copy_tree(volume, &part.join(name), 0)?;
            }
            fs::rename(&part, &path)
        };
        copy().map_err(|error| {
            let _ = remove(&part);
            at(&path)(error)
        })
    }

    fn open(&self, name: &str) -> Result<(PathBuf, File), SnapshotError> {
        let path = self.path(name)?;
        match File::open(&path) {
            Ok(file) => Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(SnapshotError::Missing(name.to_owned()))
            }
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Reads a snapshot.
    pub fn read(&self, name: &str) -> Result<Archive<SnapshotMetadata>, SnapshotError> {
        let (path, file) = self.open(name)?;
        archive::read(BufReader::with_capacity(1 << 20, file)).map_err(|source| damaged(&path, source))
    }

    /// Reads a snapshot's metadata, and its size in bytes.
    pub fn about(&self, name: &str) -> Result<(Revision, SnapshotMetadata, u64), SnapshotError> {
        let (path, file) = self.open(name)?;
        let bytes = file.metadata().map_err(at(&path))?.len();
        let read = archive::read_about(BufReader::new(file));
        let (revision, about) = read.map_err(|source| damaged(&path, source))?;
        Ok((revision, about, bytes))
    }

    /// Removes a snapshot and its claims; a missing one is no error.
    pub(super) fn remove(&self, name: &str) -> Result<(), SnapshotError> {
        let (path, claims) = (self.path(name)?, self.claims(name)?);
        // The file first: without it the claims' content is no longer a snapshot.
        for path in [path, claims] {
            remove(&path).map_err(at(&path))?;
        }
        Ok(())
    }

    /// Replaces the content of a volume's directory with that of the snapshot.
    pub(super) fn restore_claim(&self, name: &str, volume: &str) -> Result<(), SnapshotError> {
        let saved = self.claims(name)?.join(volume);
        let path = self.volume(volume).ok_or_else(|| SnapshotError::Name(volume.to_owned()))?;
        let part = self.root.join(format!(".{volume}.volume"));
        let old = self.root.join(format!(".{volume}.old"));
        for left in [&part, &old] {
            remove(left).map_err(at(left))?;
        }
        if !saved.is_dir() {
            // The volume had no content when the snapshot was taken, not even a directory.
            return Ok(());
        }
        let required = bytes_in(&saved, 0);
        let free = free_bytes(&self.root).map_err(at(&self.root))?;
        if required.saturating_add(FREE_BYTES) > free {
            return Err(SnapshotError::NoRoom { required, free });
        }
        let put = || -> io::Result<()> {
            copy_tree(&saved, &part, 0)?;
            DirBuilder::new().recursive(true).mode(0o700).create(&self.volumes)?;
            unless_missing(fs::rename(&path, &old))?;
            fs::rename(&part, &path).inspect_err(|_| {
                // If the new content cannot be moved there, the old content is put back.
                let _ = fs::rename(&old, &path);
            })
        };
        put().map_err(at(&path))?;
        remove(&old).map_err(at(&old))
    }

    /// Copies a snapshot into another data directory.
    pub fn copy_to(&self, name: &str, other: &Self) -> Result<(), SnapshotError> {
        DirBuilder::new().recursive(true).mode(0o700).create(&other.root).map_err(at(&other.root))?;
        let (from, to) = (self.claims(name)?, other.claims(name)?);
        if from.exists() {
            copy_tree(&from, &to, 0).map_err(at(&to))?;
        }
        let (from, to) = (self.path(name)?, other.path(name)?);
        fs::copy(&from, &to).map(drop).map_err(at(&to))
    }
}

fn damaged(path: &Path, source: ArchiveError) -> SnapshotError {
    match source {
        ArchiveError::Io(source) => at(path)(source),
        source @ ArchiveError::Damaged { .. } => SnapshotError::Damaged { path: path.to_path_buf(), source },
    }
}

/// Returns true if a name is exactly one path component.
fn is_step(name: &str) -> bool {
    let mut steps = Path::new(name).components();
    matches!((steps.next(), steps.next()), (Some(Component::Normal(step)), None) if step == name)
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let about = rustix::fs::statvfs(path)?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

/// The disk usage of a tree's files, in bytes.
fn bytes_in(path: &Path, depth: usize) -> u64 {
    let Ok(about) = path.symlink_metadata() else { return 0 };
    if !about.is_dir() || depth > DEEPEST {
        return about.blocks().saturating_mul(512);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes_in(&entry.path(), depth + 1)).fold(0, u64::saturating_add)
}

/// Copies a tree: directories, files and links, with their modes, and their owners if permitted. The file system shares
/// blocks if it can. Sockets, pipes and devices are left out: they are of use only to processes, which a restore ends.
fn copy_tree(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other(format!("{} is more than {DEEPEST} directories deep", from.display())));
    }
    let about = match from.symlink_metadata() {
        // The file was deleted during the copy, or the volume has no directory because it has no content.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about?,
    };
    let kind = about.file_type();
    if kind.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else if kind.is_dir() {
        DirBuilder::new().mode(0o700).create(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy_tree(&entry.path(), &to.join(entry.file_name()), depth + 1)?;
        }
    } else if kind.is_file() {
        match fs::copy(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            copied => copied?,
        };
    } else if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
        return Ok(());
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(to, Some(about.uid()), Some(about.gid()))?;
    }
    if !kind.is_symlink() {
        fs::set_permissions(to, fs::Permissions::from_mode(about.mode() & 0o7777))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use jiff::Timestamp;

    use super::*;

    fn about(claims: &[&str]) -> SnapshotMetadata {
        SnapshotMetadata {
            taken_at: Timestamp::UNIX_EPOCH,
            objects: 1,
            services: vec!["10.96.0.0/12".parse().unwrap()],
            data_dir: "/data".into(),
            claims: claims.iter().map(|name| (*name).to_owned()).collect(),
            podium: "0".into(),
        }
    }

    fn objects() -> Vec<Arc<Object>> {
        let mut map = Object::new(ConfigMap::default());
        map.meta_mut().name = Some("a".into());
        vec![Arc::new(map)]
    }

    #[test]
    fn a_snapshot_is_written_listed_read_and_removed_safe_8() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::of(data.path());
        assert_eq!(files.names(), [""; 0]);
        let bytes = files.write("first", Revision(7), &about(&[]), &objects()).unwrap();
        let path = files.path("first").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
        assert_eq!(files.about("first").unwrap(), (Revision(7), about(&[]), bytes));
        fs::write(files.root.join(".cut.json"), "x").unwrap();
        assert_eq!(files.names(), ["first"]);
        files.tidy();
        assert!(!files.root.join(".cut.json").exists());
        let read = files.read("first").unwrap();
        assert_eq!((read.revision, read.objects.len()), (Revision(7), 1));
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = files.read("first").unwrap_err().to_string();
        assert!(error.contains("first.json: line 2: "), "{error}");
        files.remove("first").unwrap();
        files.remove("first").unwrap();
        assert_eq!(files.names(), [""; 0]);
        for name in ["", ".", "..", "../x", "a/b", ".hidden", "/etc"] {
            assert!(matches!(files.path(name), Err(SnapshotError::Name(_))), "{name}");
        }
    }

    #[test]
    fn there_are_only_so_many_snapshots_safe_8() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::of(data.path());
        for n in 0..MAX_SNAPSHOTS {
            files.write(&format!("s{n}"), Revision(1), &about(&[]), &[]).unwrap();
        }
        let refused = files.write("more", Revision(1), &about(&[]), &[]).unwrap_err();
        assert!(matches!(refused, SnapshotError::TooMany), "{refused}");
        files.write("s0", Revision(2), &about(&[]), &[]).unwrap();
    }

    #[test]
    fn all_snapshots_together_have_a_limited_size_safe_8() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::of(data.path());
        files.write("first", Revision(1), &about(&[]), &objects()).unwrap();
        let large = File::options().write(true).open(files.path("first").unwrap()).unwrap();
        large.set_len(MAX_BYTES - 1).unwrap();
        let refused = files.write("second", Revision(1), &about(&[]), &objects()).unwrap_err();
        assert!(matches!(refused, SnapshotError::TooLarge), "{refused}");
        assert_eq!(fs::read_dir(&files.root).unwrap().count(), 1, "an unfinished file is left");
        files.write("first", Revision(2), &about(&[]), &objects()).unwrap();
        files.write("second", Revision(1), &about(&[]), &objects()).unwrap();
    }

    #[test]
    fn claims_come_back_as_they_were_and_nothing_else_is_touched_safe_8() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::of(data.path());
        let volume = files.volume("pvc-1").unwrap();
        fs::create_dir_all(volume.join("deep/er")).unwrap();
        fs::write(volume.join("deep/er/file"), "then").unwrap();
        fs::set_permissions(volume.join("deep"), fs::Permissions::from_mode(0o2750)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", volume.join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            volume.join("pipe"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        files.write("first", Revision(7), &about(&["pvc-1", "pvc-never-made"]), &objects()).unwrap();
        fs::write(volume.join("deep/er/file"), "now").unwrap();
        fs::write(volume.join("more"), "now").unwrap();
        files.restore_claim("first", "pvc-1").unwrap();
        assert_eq!(fs::read_to_string(volume.join("deep/er/file")).unwrap(), "then");
        assert_eq!(volume.join("deep").metadata().unwrap().mode() & 0o7777, 0o2750);
        assert_eq!(fs::read_link(volume.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(!volume.join("more").exists() && !volume.join("pipe").exists());
        // A claim can be restored twice, and into another data directory.
        files.restore_claim("first", "pvc-1").unwrap();
        files.restore_claim("first", "pvc-never-made").unwrap();
        let other = tempfile::tempdir().unwrap();
        files.copy_to("first", &Files::of(other.path())).unwrap();
        let other = Files::of(other.path());
        other.restore_claim("first", "pvc-1").unwrap();
        assert_eq!(fs::read_to_string(other.volume("pvc-1").unwrap().join("deep/er/file")).unwrap(), "then");
        assert_eq!(other.read("first").unwrap().objects.len(), 1);
        assert!(files.restore_claim("first", "../x").is_err());
    }
}
