//! The directory of one torture: the instance's data, the records of holders and clients, and logs.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::processes::Processes;
use base::mistakes::Mistake;

/// Configuration of the instance. Timings are short, so that a minute of torture has many events.
const CONFIG: &str = "\
timings:
  containerBackOffInitial: 0.2
  containerBackOffMax: 2
  jobBackOffInitial: 0.2
  jobBackOffMax: 2
  nodeLeaseRenewInterval: 1
  nodeMonitorGracePeriod: 4
  nodeStartupGracePeriod: 10
  plegRelistThreshold: 4
  runtimeRequestTimeout: 10
  runtimeStatusTimeout: 3
  cleanupBackOffInitial: 0.1
  cleanupBackOffMax: 2
  defaultTolerationSeconds: 2
  reconcileBackOffMax: 5
  podInitialBackoff: 0.1
  podMaxBackoff: 2
  podMaxInUnschedulablePodsDuration: 10
  selfCheckInterval: 5
  unclaimedHostTimeout: 600
nodeLifecycle: {nodeEvictionRate: 10, secondaryNodeEvictionRate: 1}
ingress: {enabled: false}
";

/// The directory of a torture.
#[derive(Clone, Debug)]
pub(super) struct TortureDir {
    directory: PathBuf,
    is_temporary: bool,
    /// The deliberate mistake of the instance's control plane.
    pub(super) mistake: Option<Mistake>,
}

impl TortureDir {
    /// Creates a temporary directory, or uses the given one, which must be empty.
    pub(super) fn new(named: Option<&Path>) -> Result<Self> {
        let made = named.is_none();
        let own =
            || std::env::temp_dir().join(format!("podium-torture-{:08x}", base::random::random::<u32>()));
        let directory = named.map_or_else(own, Path::to_path_buf);
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists && !made => {
                let mut entries =
                    fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
                if entries.next().is_some() {
                    bail!("{} is not empty; choose an empty directory for the torture", directory.display());
                }
            }
            Err(error) => return Err(error).with_context(|| directory.display().to_string()),
        }
        // The canonical path, as processes report it.
        let place = Self { directory: directory.canonicalize()?, is_temporary: made, mistake: None };
        for part in [place.witness(), place.log("")] {
            fs::create_dir(&part).with_context(|| part.display().to_string())?;
        }
        fs::write(place.config(), CONFIG)?;
        Ok(place)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The instance's data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The directory of the holders' locks and logs.
    pub(super) fn witness(&self) -> PathBuf {
        self.directory.join("identities")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.directory.join("config.yaml")
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.directory.join("logs").join(name)
    }

    pub(super) fn processes(&self) -> Processes {
        Processes { data: self.data(), witness: self.witness() }
    }

    /// Removes the files of the torture.
    pub(super) fn remove(&self) -> Result<()> {
        if self.is_temporary {
            return Ok(fs::remove_dir_all(&self.directory)?);
        }
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_is_taken_fault_3() {
        let directory = std::env::temp_dir().join(format!("torture-place-{:x}", std::process::id()));
        let place = TortureDir::new(Some(&directory)).unwrap();
        assert!(place.witness().is_dir() && place.config().is_file());
        assert!(TortureDir::new(Some(&directory)).unwrap_err().to_string().contains("is not empty"));
        place.remove().unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "the directory itself stays");
        fs::remove_dir(&directory).unwrap();
    }
}
