//! What the console keeps of each cluster from one run to the next: a JSON document for each, for its owner alone, in a
//! directory of its kind. It is whole at every moment, whoever else starts or stops a console.
//!
//! What is read is somebody's file, not ours: it is bounded, and what cannot be read is as what is not there.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::resource::Uid;

/// Clusters of which something is kept; those that were left long ago are forgotten.
pub(crate) const CLUSTERS: usize = 32;

/// Documents of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterFiles {
    /// The directory, below the user's.
    pub(crate) place: &'static str,
    /// Bytes of a file at most; a longer one was not written by us.
    pub(crate) longest: u64,
    /// What is in them, for the log.
    pub(crate) what: &'static str,
}

impl ClusterFiles {
    /// Where that of a cluster is; the cluster is named by what no other has.
    pub(crate) fn path(self, dir: &Path, cluster: &Uid) -> PathBuf {
        let name: String =
            cluster.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
        dir.join(self.place).join(format!("{name}.json"))
    }

    /// Reads that of a cluster; none where there is no file, or none that can be read.
    pub(crate) fn read<T: DeserializeOwned>(self, dir: &Path, cluster: &Uid) -> Option<T> {
        let path = self.path(dir, cluster);
        // A pipe of that name must not hold the console.
        if !std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= self.longest) {
            return None;
        }
        let mut text = String::new();
        std::fs::File::open(&path).ok()?.take(self.longest).read_to_string(&mut text).ok()?;
        let read = serde_json::from_str(&text);
        read.inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "{} of the last run cannot be read", self.what);
        })
        .ok()
    }

    /// Writes that of a cluster.
    pub(crate) fn write(self, dir: &Path, cluster: &Uid, document: &impl Serialize) -> std::io::Result<()> {
        let path = self.path(dir, cluster);
        let place = dir.join(self.place);
        std::fs::create_dir_all(&place)?;
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        let written = file
            .write_all(&serde_json::to_vec(document)?)
            .and_then(|()| std::fs::rename(&beside, &path))
            .inspect_err(|_| drop(std::fs::remove_file(&beside)));
        forget_the_oldest(&place);
        written
    }

    /// Removes that of a cluster, if there is one.
    pub(crate) fn remove(self, dir: &Path, cluster: &Uid) -> std::io::Result<()> {
        match std::fs::remove_file(self.path(dir, cluster)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A cluster that is made anew with each run must not fill the disk.
fn forget_the_oldest(place: &Path) {
    let Ok(all) = std::fs::read_dir(place) else { return };
    let mut all: Vec<_> = all
        .filter_map(Result::ok)
        .filter(|file| file.path().extension().is_some_and(|ending| ending == "json"))
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    all.sort_by(|(a, _), (b, _)| b.cmp(a));
    for (_, path) in all.into_iter().skip(CLUSTERS) {
        // Who cannot forget one keeps one more.
        let _ = std::fs::remove_file(path);
    }
}
