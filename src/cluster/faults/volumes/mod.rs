//! Volumes that are full (FAULT-1): what free room a claim's file system has is taken, second by second, for as long as it is
//! asked for.
//!
//! [`place`] tells whether a volume is a file system of its own that may be filled; [`ballast`] takes the room, by a file
//! without a name that this process holds open. It lists nowhere, and is gone with the process, however that ends: the
//! next one takes the room anew.
//!
//! Architecture Invariant: the machine's own file systems are never filled. What is not known for certain to be a
//! volume's alone is refused.

mod ballast;
mod place;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use ballast::Ballast;
use base::task::Tasks;
use object::Key;
pub(super) use place::Refusal;
use place::{Guarded, look};

/// How often it is looked whether there is room again: programs delete files, volumes grow, file systems are mounted.
const AGAIN: Duration = Duration::from_secs(1);

/// What has become of a volume's free room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is none.
    Taken,
    /// It is not taken, for a reason.
    Refused(Refusal),
}

/// The volumes that are kept full, by claim.
pub(super) struct FullVolumes {
    held: BTreeMap<Key, Held>,
    tasks: Tasks,
    guarded: Arc<Guarded>,
    changed: Arc<dyn Fn() + Send + Sync>,
}

/// A volume that is kept full.
struct Held {
    path: PathBuf,
    room: Arc<Mutex<Option<Room>>>,
    /// Once it is dropped the room is given back.
    _stop: oneshot::Sender<()>,
}

impl FullVolumes {
    /// None yet. `changed` is called whenever something else is to be said of one; below `data_dir` nothing is filled.
    pub(super) fn new(tasks: &Tasks, data_dir: &Path, changed: impl Fn() + Send + Sync + 'static) -> Self {
        let guarded = Arc::new(Guarded::of_machine(data_dir));
        Self { held: BTreeMap::new(), tasks: tasks.clone(), guarded, changed: Arc::new(changed) }
    }

    /// These are to be full from now on, and no others. Never waits for a disk.
    pub(super) fn bring_about(&mut self, wanted: &BTreeMap<Key, PathBuf>) {
        self.held.retain(|claim, held| wanted.get(claim) == Some(&held.path));
        for (claim, path) in wanted {
            if self.held.contains_key(claim) {
                continue;
            }
            let (stop, stopped) = oneshot::channel();
            let room = Arc::default();
            let keeper = Keeper {
                path: path.clone(),
                guarded: self.guarded.clone(),
                room: Arc::clone(&room),
                changed: self.changed.clone(),
            };
            self.tasks.spawn("full volume", keeper.run(stopped));
            self.held.insert(claim.clone(), Held { path: path.clone(), room, _stop: stop });
        }
    }

    /// What has become of the volume of a claim; none while its disk has not answered yet, or where it is not to be full.
    pub(super) fn room(&self, claim: &Key) -> Option<Room> {
        self.held.get(claim)?.room.lock().clone()
    }
}

/// Keeps one volume full.
struct Keeper {
    path: PathBuf,
    guarded: Arc<Guarded>,
    room: Arc<Mutex<Option<Room>>>,
    changed: Arc<dyn Fn() + Send + Sync>,
}

impl Keeper {
    async fn run(self, mut stopped: oneshot::Receiver<()>) {
        let mut ballast = None;
        loop {
            let (path, guarded) = (self.path.clone(), self.guarded.clone());
            let step = tokio::task::spawn_blocking(move || take(&path, &guarded, ballast));
            // A panic has let go of the ballast; the next look takes the room anew.
            let (kept, room) = step.await.unwrap_or_else(|error| {
                (None, Room::Refused(Refusal { reason: place::FAILED, message: error.to_string() }))
            });
            ballast = kept;
            if self.room.lock().replace(room.clone()) != Some(room) {
                (self.changed)();
            }
            tokio::select! {
                _ = &mut stopped => break,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
        // The disk takes its time to give back what is large.
        let _ = tokio::task::spawn_blocking(move || drop(ballast)).await;
    }
}

/// Takes what room there is, beside what `ballast` has already.
fn take(path: &Path, guarded: &Guarded, ballast: Option<Ballast>) -> (Option<Ballast>, Room) {
    let taken = look(path, guarded).and_then(|place| {
        let mut ballast = match ballast.filter(|ballast| ballast.is_on(place.device)) {
            Some(ballast) => ballast,
            None => Ballast::at(&place).map_err(|error| Refusal::failed(path, &error))?,
        };
        ballast.fill().map_err(|error| Refusal::failed(path, &error))?;
        Ok(ballast)
    });
    match taken {
        Ok(ballast) => (Some(ballast), Room::Taken),
        Err(refusal) => (None, Room::Refused(refusal)),
    }
}
