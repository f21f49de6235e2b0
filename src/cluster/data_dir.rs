//! The data directory: one instance at a time, private to its owner (API-1, CLI-6).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another instance uses it.
    #[error("{} is in use by another podium with pid {pid}; stop that one or choose another --data-dir", directory.display())]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The other instance.
        pid: String,
    },
    /// The file system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// No place for data is known.
    #[error("no home directory is known; give one with --data-dir")]
    NoHome,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_path_buf();
    |source| DataDirError::Io { path, source }
}

/// The platform's data directory and `podium`.
pub fn default_data_dir() -> Result<PathBuf, DataDirError> {
    directories::BaseDirs::new().map(|dirs| dirs.data_dir().join("podium")).ok_or(DataDirError::NoHome)
}

/// A data directory that is ours until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    // Holds the lock; the kernel frees it however we end.
    _lock: File,
    /// Removed at the end, with everything in it or only what we made.
    ephemeral: Option<Ephemeral>,
}

#[derive(Debug)]
enum Ephemeral {
    Whole,
    OurFiles,
}

impl DataDir {
    /// Takes a directory, making it when it is not there.
    pub fn open(path: &Path, ephemeral: bool) -> Result<Self, DataDirError> {
        Self::take(path, ephemeral.then_some(Ephemeral::OurFiles))
    }

    /// Takes a new temporary directory that is gone afterwards.
    pub fn temporary() -> Result<Self, DataDirError> {
        let name = format!("podium-{}-{:08x}", std::process::id(), rand::random::<u32>());
        Self::take(&std::env::temp_dir().join(name), Some(Ephemeral::Whole))
    }

    fn take(path: &Path, ephemeral: Option<Ephemeral>) -> Result<Self, DataDirError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at(path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(at(path))?;
        let path = path.canonicalize().map_err(at(path))?;
        let lock_path = path.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(at(&lock_path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            let pid = pid.trim().to_string();
            let pid = if pid.is_empty() { "unknown".into() } else { pid };
            return Err(DataDirError::Locked { directory: path, pid });
        }
        lock.set_len(0).map_err(at(&lock_path))?;
        writeln!(lock, "{}", std::process::id()).map_err(at(&lock_path))?;
        Ok(Self { path, _lock: lock, ephemeral })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A private file's content, made by `make` when the file is not there.
    pub(super) fn secret(&self, name: &str, make: impl FnOnce() -> String) -> Result<String, DataDirError> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = make();
                write_private(&path, &text)?;
                Ok(text)
            }
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// A small file's content.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.join(name)).ok()
    }

    /// Writes a private file.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), DataDirError> {
        write_private(&self.path.join(name), text)
    }

    /// A private directory below it.
    pub(super) fn directory(&self, name: &str) -> Result<PathBuf, DataDirError> {
        let path = self.path.join(name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(at(&path))?;
        Ok(path)
    }
}

/// Writes a file only its owner can read, whole or not at all.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), DataDirError> {
    let temporary = path.with_extension(format!("new-{:08x}", rand::random::<u32>()));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        at(path)(error)
    })
}

/// What we make in a data directory.
const OUR_FILES: [&str; 12] = [
    "lock",
    "token",
    "ca.crt",
    "ca.key",
    "sa.key",
    "kubeconfig",
    "slot",
    "state",
    "state.reserve",
    "nodes",
    "volumes",
    "logs",
];

impl Drop for DataDir {
    fn drop(&mut self) {
        let removed = match self.ephemeral {
            None => return,
            Some(Ephemeral::Whole) => fs::remove_dir_all(&self.path),
            Some(Ephemeral::OurFiles) => OUR_FILES.iter().try_for_each(|name| {
                let path = self.path.join(name);
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                match removed {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }),
        };
        if let Err(error) = removed {
            tracing::warn!("{} could not be cleaned up: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_is_told_the_first_ones_pid_cli_6() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let first = DataDir::open(&path, false).unwrap();
        let error = DataDir::open(&path, false).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(first);
        DataDir::open(&path, false).unwrap();
    }

    #[test]
    fn an_ephemeral_directory_loses_only_our_files_cli_2() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("mine.txt"), "keep").unwrap();
        let data = DataDir::open(parent.path(), true).unwrap();
        let token = data.secret("token", || "secret".into()).unwrap();
        assert_eq!(
            (token.as_str(), data.secret("token", || "other".into()).unwrap().as_str()),
            ("secret", "secret")
        );
        let mode = fs::metadata(data.path().join("token")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(data);
        let left: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["mine.txt"]);
    }
}
