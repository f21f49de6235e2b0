//! Full volumes (FAULT-1), and emptyDirs on a node's disk that is full, fails or is slow: checked every second, for as
//! long as the fault lasts.
//!
//! [`fill_target`] decides if a volume is a file system of its own that may be filled; [`ballast`] occupies its free
//! space, by a file without a name that this process holds open. If it is a directory among others, [`gate`] makes
//! writes fail. Neither appears in listings, and both end with this process, however it ends: the next process starts
//! from scratch.
//!
//! Architecture Invariant: the machine's own file systems are never filled. A file system is refused unless it
//! certainly belongs to one volume alone.

mod ballast;
mod fill_target;
mod gate;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use operators::faults::{FillMode, FillRefusal, FillRequest, FillState, VolumeChanged};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use ballast::Ballast;
use base::disk_fault::DiskFault;
use base::task::Tasks;
use fill_target::{ProtectedPaths, directory, failed, survey};
use gate::WriteGate;

/// The interval at which free space is checked again: programs delete files, volumes grow, file systems are mounted.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The affected volumes and disks, by their descriptions.
pub(super) struct FullVolumes {
    volumes: BTreeMap<String, FilledVolume>,
    tasks: Tasks,
    guarded: Arc<ProtectedPaths>,
    changed: VolumeChanged,
}

/// A volume or disk under the effect of a fault.
struct FilledVolume {
    paths: Arc<Mutex<Vec<PathBuf>>>,
    how: FillMode,
    state: Arc<Mutex<Option<FillState>>>,
    /// Dropping it releases the space.
    _stop: oneshot::Sender<()>,
}

impl FullVolumes {
    /// Starts without volumes. `changed` is called whenever the state of a volume changes; file systems that contain
    /// `data_dir` are never filled.
    pub(super) fn new(tasks: &Tasks, data_dir: &Path, changed: VolumeChanged) -> Self {
        let guarded = Arc::new(ProtectedPaths::of_machine(data_dir));
        Self { volumes: BTreeMap::new(), tasks: tasks.clone(), guarded, changed }
    }

    /// Replaces the set of affected volumes. Returns without waiting for any disk.
    pub(super) fn apply(&mut self, requests: &BTreeMap<String, FillRequest>) {
        let is_same = |held: &FilledVolume, request: &FillRequest| {
            held.how == request.how && (held.how != FillMode::Full || *held.paths.lock() == request.paths)
        };
        self.volumes.retain(|of, held| requests.get(of).is_some_and(|request| is_same(held, request)));
        for (of, request) in requests {
            if let Some(held) = self.volumes.get(of) {
                // The emptyDirs on a disk change with its pods.
                held.paths.lock().clone_from(&request.paths);
                continue;
            }
            let paths = Arc::new(Mutex::new(request.paths.clone()));
            let (stop, stopped) = oneshot::channel();
            let state = Arc::default();
            let keeper = VolumeFiller {
                paths: paths.clone(),
                how: request.how,
                guarded: self.guarded.clone(),
                state: Arc::clone(&state),
                changed: self.changed.clone(),
            };
            self.tasks.spawn("full volume", keeper.run(stopped));
            self.volumes.insert(of.clone(), FilledVolume { paths, how: request.how, state, _stop: stop });
        }
    }

    /// Returns true if the last [`FullVolumes::apply`] requested an effect on a volume or disk.
    pub(super) fn is_requested(&self, of: &str) -> bool {
        self.volumes.contains_key(of)
    }

    /// The state of a volume or disk; `None` while it has not responded yet, or if no fault affects it.
    pub(super) fn fill_state(&self, of: &str) -> Option<FillState> {
        self.volumes.get(of)?.state.lock().clone()
    }
}

/// Fills one volume, or gates the directories of one disk.
struct VolumeFiller {
    paths: Arc<Mutex<Vec<PathBuf>>>,
    how: FillMode,
    guarded: Arc<ProtectedPaths>,
    state: Arc<Mutex<Option<FillState>>>,
    changed: VolumeChanged,
}

/// The method by which a volume is filled.
enum FillMethod {
    Ballast(Ballast),
    Gate(WriteGate),
}

impl VolumeFiller {
    async fn run(self, mut stopped: oneshot::Receiver<()>) {
        let mut means = None;
        loop {
            let (how, paths, guarded) = (self.how, self.paths.lock().clone(), self.guarded.clone());
            let step = base::task::blocking(move || match (how, &paths[..]) {
                (FillMode::Full, [path]) => keep(path, &guarded, means),
                (FillMode::Full, _) => (None, FillState::Denied { open_before: 0 }),
                (FillMode::OnDisk(denial), paths) => install_gate(paths, &guarded, denial, means),
            });
            // A panic has dropped the method's state; the next check starts from scratch.
            let (retained, room) = step.await.unwrap_or_else(|error| {
                (
                    None,
                    FillState::Refused(FillRefusal {
                        reason: fill_target::FAILED,
                        message: error.to_string(),
                    }),
                )
            });
            means = retained;
            if self.state.lock().replace(room.clone()) != Some(room) {
                (self.changed)();
            }
            tokio::select! {
                _ = &mut stopped => break,
                () = tokio::time::sleep(RECHECK_INTERVAL) => {}
            }
        }
        // Releasing a large file takes the disk some time, so not on a runtime thread.
        let _ = base::task::blocking(move || drop(means)).await;
    }
}

/// Occupies the volume's free space; if its file system may not be filled, makes writes fail instead.
fn keep(path: &Path, guarded: &ProtectedPaths, means: Option<FillMethod>) -> (Option<FillMethod>, FillState) {
    let (ballast, mut gate) = match means {
        Some(FillMethod::Ballast(ballast)) => (Some(ballast), None),
        Some(FillMethod::Gate(gate)) => (None, Some(gate)),
        None => (None, None),
    };
    match take(path, guarded, ballast) {
        Ok(ballast) => (Some(FillMethod::Ballast(ballast)), FillState::Filled),
        Err(refusal) if refusal.reason == fill_target::FAILED => (None, FillState::Refused(refusal)),
        Err(refusal) => match deny(path, guarded, DiskFault::Full, &mut gate) {
            Ok(()) => denied(gate),
            Err(why) => {
                let message = format!("{}; Podium cannot refuse writes there either: {why}", refusal.message);
                (None, FillState::Refused(FillRefusal { reason: refusal.reason, message }))
            }
        },
    }
}

fn take(path: &Path, guarded: &ProtectedPaths, ballast: Option<Ballast>) -> Result<Ballast, FillRefusal> {
    let place = survey(path, guarded)?;
    let mut ballast = match ballast.filter(|ballast| ballast.is_on(place.device)) {
        Some(ballast) => ballast,
        None => Ballast::at(&place).map_err(|error| failed(path, &error))?,
    };
    ballast.fill().map_err(|error| failed(path, &error))?;
    Ok(ballast)
}

/// Gates all existing directories of a disk.
fn install_gate(
    paths: &[PathBuf],
    guarded: &ProtectedPaths,
    denial: DiskFault,
    means: Option<FillMethod>,
) -> (Option<FillMethod>, FillState) {
    let mut gate = match means {
        Some(FillMethod::Gate(gate)) => Some(gate),
        _ => None,
    };
    // An emptyDir may have been removed with its pod.
    for path in paths.iter().filter(|path| path.is_dir()) {
        if let Err(message) = deny(path, guarded, denial, &mut gate)
            && path.is_dir()
        {
            return (None, FillState::Refused(FillRefusal { reason: fill_target::FAILED, message }));
        }
    }
    denied(gate)
}

fn denied(mut gate: Option<WriteGate>) -> (Option<FillMethod>, FillState) {
    let open_before = gate.as_mut().map(WriteGate::open_before).unwrap_or_default();
    (gate.map(FillMethod::Gate), FillState::Denied { open_before })
}

/// Adds a directory to the gate; an error gives the reason for the refusal.
fn deny(
    path: &Path,
    guarded: &ProtectedPaths,
    denial: DiskFault,
    gate: &mut Option<WriteGate>,
) -> Result<(), String> {
    let directory = directory(path, guarded)?;
    let stands = match gate {
        Some(gate) => gate.watch_directory(directory.as_fd()),
        None => WriteGate::before(directory.as_fd(), denial).map(|made| *gate = Some(made)),
    };
    stands.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => "this requires root on the machine".to_owned(),
        Some(libc::EINVAL) => "this requires Linux 6.14 with fanotify's permission events".to_owned(),
        Some(libc::EOPNOTSUPP) => "the file system does not support fanotify's permission events".to_owned(),
        _ => error.to_string(),
    })
}
