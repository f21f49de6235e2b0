//! The directory for copies of built programs, `/var/tmp/podium-dev-UID/KEY`. Containers must be able to read it: they
//! have a `/tmp` of their own, the data directory is hidden from them, and root's pods may run as other users.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use base::hex::hex;
use base::subordinate_ids::real_user;

/// The file that names the data directory of a directory with programs.
const ORIGIN: &str = "data-directory";

/// Returns the directory for the programs of a data directory, and creates it. Removes those of data directories that
/// are gone.
pub(super) fn directory(data_dir: &Path) -> Result<PathBuf> {
    let shared = shared_directory();
    create(&shared)?;
    let about = fs::symlink_metadata(&shared).with_context(|| shared.display().to_string())?;
    let is_own = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
    if !is_own || about.mode() & 0o022 != 0 {
        bail!("{} is not a directory of yours that only you can write: remove it", shared.display());
    }
    remove_orphans(&shared);
    let own = shared.join(key(data_dir));
    create(&own)?;
    fs::write(own.join(ORIGIN), data_dir.as_os_str().as_encoded_bytes())
        .with_context(|| own.display().to_string())?;
    Ok(own)
}

/// Returns true if a path is that of a copy.
pub(super) fn is_copy(path: &str) -> bool {
    Path::new(path).starts_with(shared_directory())
}

/// Removes the programs of a data directory that ends with its run.
pub(super) fn remove(data_dir: &Path) {
    // The next run removes what cannot be removed now.
    let _ = fs::remove_dir_all(shared_directory().join(key(data_dir)));
}

fn shared_directory() -> PathBuf {
    // In a user namespace every user is root.
    let uid = real_user().map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
    Path::new("/var/tmp").join(format!("podium-dev-{uid}"))
}

fn key(data_dir: &Path) -> String {
    hex(Sha256::digest(data_dir.as_os_str().as_encoded_bytes()))[..16].to_owned()
}

/// Others may use known paths in it, but not list it.
fn create(directory: &Path) -> Result<()> {
    match fs::DirBuilder::new().mode(0o711).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.with_context(|| directory.display().to_string()),
    }
}

fn remove_orphans(shared: &Path) {
    for entry in fs::read_dir(shared).into_iter().flatten().flatten() {
        let Ok(origin) = fs::read_to_string(entry.path().join(ORIGIN)) else { continue };
        if matches!(Path::new(&origin).try_exists(), Ok(false)) {
            // Another run may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
