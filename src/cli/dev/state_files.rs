//! The files of runs in a data directory, `DATA/dev`: replaced as a whole, and locked by one run.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use base::hex::hex;

/// `DATA/dev`.
pub(super) fn directory(data_dir: &Path) -> Result<PathBuf> {
    let directory = data_dir.join("dev");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.with_context(|| directory.display().to_string())?;
    Ok(directory)
}

/// Locks a file for this process; `None` if another process has it.
pub(super) fn lock(path: &Path) -> Result<Option<File>> {
    let file = File::options().create(true).append(true).open(path);
    let file = file.with_context(|| path.display().to_string())?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Replaces a file as a whole.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, content).with_context(|| new.display().to_string())?;
    fs::rename(&new, path).with_context(|| path.display().to_string())
}

/// A name as part of a file's name, different for different names.
pub(super) fn file_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let plain: String =
        name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).take(60).collect();
    if plain == name { plain } else { format!("{plain}-{}", &hex(Sha256::digest(name))[..8]) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_images_become_different_names_of_files_dev_5() {
        let names = ["app", "me/app", "me_app", "me.app", "../../etc/passwd", &"x".repeat(300)];
        let files: BTreeSet<String> = names.iter().map(|name| file_name(name)).collect();
        assert_eq!(files.len(), names.len());
        assert!(files.iter().all(|file| file.len() < 80 && !file.contains(['/', '.'])), "{files:?}");
    }
}
