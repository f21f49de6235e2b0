//! Full volumes (FAULT-1), and emptyDirs on a node's disk that is full, fails or is slow: checked every second, for as
//! long as the fault lasts.
//!
//! [`place`] decides if a volume is a file system of its own that may be filled; [`ballast`] occupies its free space,
//! by a file without a name that this process holds open. If it is a directory among others, [`gate`] makes writes
//! fail. Both are invisible in listings, and end with the process in every case: the next one starts from scratch.
//!
//! Architecture Invariant: the machine's own file systems are never filled. A file system that does not certainly
//! belong to one volume alone is refused.

mod ballast;
mod gate;
mod place;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use ballast::Ballast;
use base::task::Tasks;
pub(super) use gate::Denial;
use gate::Gate;
pub(super) use place::Refusal;
use place::{Guarded, directory, look};

/// The interval at which free space is checked again: programs delete files, volumes grow, file systems are mounted.
const AGAIN: Duration = Duration::from_secs(1);

/// The state of a volume's free space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is none.
    Taken,
    /// There is free space, but writes fail as if there were none.
    Denied {
        /// The number of descriptors opened before, which can still write.
        open_before: usize,
    },
    /// It is not filled, for a reason.
    Refused(Refusal),
}

/// The directories to affect, and the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The one volume; or all emptyDirs on a disk.
    pub(super) paths: Vec<PathBuf>,
    pub(super) how: How,
}

/// The effect on directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// A volume is full.
    Full,
    /// They lie on a disk with this effect on writes.
    OnDisk(Denial),
}

/// The affected volumes, by their owners.
pub(super) struct FullVolumes {
    held: BTreeMap<String, Held>,
    tasks: Tasks,
    guarded: Arc<Guarded>,
    changed: Arc<dyn Fn() + Send + Sync>,
}

/// A volume or disk under the effect of a fault.
struct Held {
    paths: Arc<Mutex<Vec<PathBuf>>>,
    how: How,
    room: Arc<Mutex<Option<Room>>>,
    /// Dropping it releases the space.
    _stop: oneshot::Sender<()>,
}

impl FullVolumes {
    /// Starts without volumes. `changed` is called whenever the state of one changes; nothing below `data_dir` is
    /// filled.
    pub(super) fn new(tasks: &Tasks, data_dir: &Path, changed: impl Fn() + Send + Sync + 'static) -> Self {
        let guarded = Arc::new(Guarded::of_machine(data_dir));
        Self { held: BTreeMap::new(), tasks: tasks.clone(), guarded, changed: Arc::new(changed) }
    }

    /// Replaces the set of affected volumes. Never waits for a disk.
    pub(super) fn bring_about(&mut self, wanted: &BTreeMap<String, Wanted>) {
        let is_same = |held: &Held, wanted: &Wanted| {
            held.how == wanted.how && (held.how != How::Full || *held.paths.lock() == wanted.paths)
        };
        self.held.retain(|of, held| wanted.get(of).is_some_and(|wanted| is_same(held, wanted)));
        for (of, wanted) in wanted {
            if let Some(held) = self.held.get(of) {
                // The pods on a disk change.
                held.paths.lock().clone_from(&wanted.paths);
                continue;
            }
            let paths = Arc::new(Mutex::new(wanted.paths.clone()));
            let (stop, stopped) = oneshot::channel();
            let room = Arc::default();
            let keeper = Keeper {
                paths: paths.clone(),
                how: wanted.how,
                guarded: self.guarded.clone(),
                room: Arc::clone(&room),
                changed: self.changed.clone(),
            };
            self.tasks.spawn("full volume", keeper.run(stopped));
            self.held.insert(of.clone(), Held { paths, how: wanted.how, room, _stop: stop });
        }
    }

    /// The state of a volume; none while its disk has not responded yet, or if it is not to be full.
    pub(super) fn room(&self, of: &str) -> Option<Room> {
        self.held.get(of)?.room.lock().clone()
    }
}

/// Fills one volume, or gates the directories of one disk.
struct Keeper {
    paths: Arc<Mutex<Vec<PathBuf>>>,
    how: How,
    guarded: Arc<Guarded>,
    room: Arc<Mutex<Option<Room>>>,
    changed: Arc<dyn Fn() + Send + Sync>,
}

/// The means that fills a volume.
enum Means {
    Ballast(Ballast),
    Gate(Gate),
}

impl Keeper {
    async fn run(self, mut stopped: oneshot::Receiver<()>) {
        let mut means = None;
        loop {
            let (how, paths, guarded) = (self.how, self.paths.lock().clone(), self.guarded.clone());
            let step = tokio::task::spawn_blocking(move || match (how, &paths[..]) {
                (How::Full, [path]) => keep(path, &guarded, means),
                (How::Full, _) => (None, Room::Denied { open_before: 0 }),
                (How::OnDisk(denial), paths) => stand(paths, &guarded, denial, means),
            });
            // A panic has dropped the means; the next check starts from scratch.
            let (kept, room) = step.await.unwrap_or_else(|error| {
                (None, Room::Refused(Refusal { reason: place::FAILED, message: error.to_string() }))
            });
            means = kept;
            if self.room.lock().replace(room.clone()) != Some(room) {
                (self.changed)();
            }
            tokio::select! {
                _ = &mut stopped => break,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
        // The disk needs time to release large files.
        let _ = tokio::task::spawn_blocking(move || drop(means)).await;
    }
}

/// Occupies the free space, in addition to what is occupied already; or makes writes fail if others share that space.
fn keep(path: &Path, guarded: &Guarded, means: Option<Means>) -> (Option<Means>, Room) {
    let (ballast, mut gate) = match means {
        Some(Means::Ballast(ballast)) => (Some(ballast), None),
        Some(Means::Gate(gate)) => (None, Some(gate)),
        None => (None, None),
    };
    match take(path, guarded, ballast) {
        Ok(ballast) => (Some(Means::Ballast(ballast)), Room::Taken),
        Err(refusal) if refusal.reason == place::FAILED => (None, Room::Refused(refusal)),
        Err(refusal) => match deny(path, guarded, Denial::Full, &mut gate) {
            Ok(()) => denied(gate),
            Err(why) => {
                let message = format!("{}; Podium cannot refuse writes there either: {why}", refusal.message);
                (None, Room::Refused(Refusal { reason: refusal.reason, message }))
            }
        },
    }
}

fn take(path: &Path, guarded: &Guarded, ballast: Option<Ballast>) -> Result<Ballast, Refusal> {
    let place = look(path, guarded)?;
    let mut ballast = match ballast.filter(|ballast| ballast.is_on(place.device)) {
        Some(ballast) => ballast,
        None => Ballast::at(&place).map_err(|error| Refusal::failed(path, &error))?,
    };
    ballast.fill().map_err(|error| Refusal::failed(path, &error))?;
    Ok(ballast)
}

/// Gates all existing directories of a disk.
fn stand(
    paths: &[PathBuf],
    guarded: &Guarded,
    denial: Denial,
    means: Option<Means>,
) -> (Option<Means>, Room) {
    let mut gate = match means {
        Some(Means::Gate(gate)) => Some(gate),
        _ => None,
    };
    // A pod's volumes come and go with it.
    for path in paths.iter().filter(|path| path.is_dir()) {
        if let Err(message) = deny(path, guarded, denial, &mut gate)
            && path.is_dir()
        {
            return (None, Room::Refused(Refusal { reason: place::FAILED, message }));
        }
    }
    denied(gate)
}

fn denied(mut gate: Option<Gate>) -> (Option<Means>, Room) {
    let open_before = gate.as_mut().map(Gate::open_before).unwrap_or_default();
    (gate.map(Means::Gate), Room::Denied { open_before })
}

/// Adds a directory to the gate; an error gives the reason against it.
fn deny(path: &Path, guarded: &Guarded, denial: Denial, gate: &mut Option<Gate>) -> Result<(), String> {
    let directory = directory(path, guarded)?;
    let stands = match gate {
        Some(gate) => gate.stand_before(directory.as_fd()),
        None => Gate::before(directory.as_fd(), denial).map(|made| *gate = Some(made)),
    };
    stands.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => "this requires root on the machine".to_owned(),
        Some(libc::EINVAL) => "this requires Linux 6.14 with fanotify's permission events".to_owned(),
        Some(libc::EOPNOTSUPP) => "the file system does not support fanotify's permission events".to_owned(),
        _ => error.to_string(),
    })
}
