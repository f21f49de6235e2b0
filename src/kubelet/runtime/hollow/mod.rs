//! A runtime without processes: pods live in the API only (NODE-7), thousands of nodes on one machine.
//!
//! Containers start after a delay, fail or end as configured; everything follows from the seed and from
//! `tokio`'s clock, so a run under virtual time is reproducible. There is no task per pod: one per node, and
//! only when containers are to end by themselves.

mod calls;
mod faults;
mod state;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::{ContainerId, ContainerRecord, ContainerSpec, Image, PodUid, RuntimeError, RuntimeEvent};
use crate::images::{Catalogue, ImageReference, ResolveError};
pub use faults::Faults;
use state::State;

/// Where a runtime reads the wall clock.
pub(crate) type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How hollow containers behave.
#[derive(Clone, Debug, PartialEq)]
pub struct HollowConfig {
    /// How long a container takes to start.
    pub start_delay: Duration,
    /// The share of starts that fail, 0 to 1.
    pub start_failure_rate: f64,
    /// After how long containers end by themselves; none runs for ever.
    pub run_time: Option<Duration>,
    /// The share of such ends with exit code 1 instead of 0, 0 to 1.
    pub exit_failure_rate: f64,
    /// Makes failures and jitter reproducible.
    pub seed: u64,
}

impl Default for HollowConfig {
    fn default() -> Self {
        Self {
            start_delay: Duration::ZERO,
            start_failure_rate: 0.0,
            run_time: None,
            exit_failure_rate: 0.0,
            seed: 0,
        }
    }
}

/// What a hollow container pretends to use while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HollowLoad {
    /// Thousandths of a core.
    pub(crate) cpu_millicores: u64,
    /// Bytes of memory.
    pub(crate) memory_bytes: u64,
    /// Processes and threads.
    pub(crate) processes: u32,
}

/// The runtime of one hollow node.
pub struct HollowRuntime {
    config: HollowConfig,
    catalogue: Arc<Catalogue>,
    wall: WallClock,
    /// A mutex, never held across an await: every call is a short change of maps.
    state: Arc<Mutex<State>>,
    /// Wakes the task that ends containers when an earlier end was planned.
    planned: Arc<Notify>,
    events: Mutex<Option<mpsc::Receiver<RuntimeEvent>>>,
    faults: Faults,
}

impl HollowRuntime {
    /// A hollow node's runtime; `wall` gives the timestamps of its records.
    pub fn new(config: HollowConfig, catalogue: Arc<Catalogue>, wall: WallClock) -> Self {
        let (sender, receiver) = mpsc::channel(256);
        let state = State {
            pods: BTreeMap::new(),
            containers: BTreeMap::new(),
            loads: BTreeMap::new(),
            ends: BinaryHeap::new(),
            random: SmallRng::seed_from_u64(config.seed),
            ending: false,
            events: sender,
            lost_events: false,
        };
        Self {
            config,
            catalogue,
            wall,
            state: Arc::new(Mutex::new(state)),
            planned: Arc::new(Notify::new()),
            events: Mutex::new(Some(receiver)),
            faults: Faults::default(),
        }
    }

    /// What can be made to fail.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Ends a container as if its main process had exited: for tests and fault injection.
    pub fn exit_container(&self, id: &ContainerId, exit_code: i32) {
        let signal = (exit_code > 128).then_some(exit_code - 128);
        self.state.lock().end(id, exit_code, signal, (self.wall)());
    }

    /// From now on a container of this name in this pod pretends to use so much; for tests and simulations.
    pub fn set_load(&self, pod: &PodUid, container: &str, load: HollowLoad) {
        self.state.lock().loads.insert((pod.clone(), container.to_owned()), load);
    }

    /// Unknown images are fine here: simulated clusters run other people's manifests. Tags known to be
    /// wrong, and texts that are no reference, fail as everywhere.
    fn resolve_image(&self, reference: &str) -> Result<Image, RuntimeError> {
        match self.catalogue.resolve(reference) {
            Ok(image) => Ok(Image { image_id: image.image_id, size_bytes: image.size_bytes }),
            Err(error @ (ResolveError::Invalid(_) | ResolveError::UnknownTag(_))) => Err(error.into()),
            Err(ResolveError::UnknownName(_) | ResolveError::ProgramMissing(_)) => {
                let name = ImageReference::parse(reference)
                    .map_or_else(|_| reference.to_owned(), |parsed| parsed.to_string());
                let image_id = format!("sha256:{:x}", Sha256::digest(name));
                Ok(Image { image_id, size_bytes: 0 })
            }
        }
    }

    fn record_start(&self, spec: ContainerSpec, image_id: String) -> Result<ContainerRecord, RuntimeError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let pod = state
            .pods
            .get_mut(&spec.pod_uid)
            .filter(|pod| pod.ready)
            .ok_or_else(|| RuntimeError::NotFound(format!("sandbox {}", spec.pod_uid)))?;
        let same = |known: &&ContainerRecord| known.name == spec.name && known.attempt == spec.attempt;
        if let Some(known) = pod.containers.iter().find(same) {
            return Ok(known.clone());
        }
        if state.random.random_bool(self.config.start_failure_rate.clamp(0.0, 1.0)) {
            return Err(RuntimeError::StartFailed(format!("hollow container {} failed to start", spec.name)));
        }
        let id = ContainerId(format!(
            "{:032x}{:032x}",
            state.random.random::<u128>(),
            state.random.random::<u128>()
        ));
        let record = ContainerRecord {
            id: id.clone(),
            name: spec.name,
            attempt: spec.attempt,
            image: spec.image,
            image_id,
            pid: None,
            // It belongs to its sandbox, though the clock was set back meanwhile.
            started_at: (self.wall)().max(pod.created_at),
            exit: None,
        };
        pod.containers.push(record.clone());
        state.containers.insert(id.clone(), spec.pod_uid);
        if let Some(run_time) = self.config.run_time {
            let fails = state.random.random_bool(self.config.exit_failure_rate.clamp(0.0, 1.0));
            state.ends.push(Reverse((Instant::now() + run_time, id, i32::from(fails))));
            if !state.ending {
                state.ending = true;
                let task = end_containers(
                    Arc::downgrade(&self.state),
                    Arc::clone(&self.planned),
                    Arc::clone(&self.wall),
                );
                tokio::spawn(task);
            }
            self.planned.notify_one();
        }
        Ok(record)
    }
}

impl Drop for HollowRuntime {
    /// Lets the task that ends containers see that its node is gone.
    fn drop(&mut self) {
        self.state = Arc::new(Mutex::new(State {
            pods: BTreeMap::new(),
            containers: BTreeMap::new(),
            loads: BTreeMap::new(),
            ends: BinaryHeap::new(),
            random: SmallRng::seed_from_u64(0),
            ending: false,
            events: mpsc::channel(1).0,
            lost_events: false,
        }));
        self.planned.notify_one();
    }
}

/// Ends containers when their time has come, until the runtime is dropped.
async fn end_containers(state: std::sync::Weak<Mutex<State>>, planned: Arc<Notify>, wall: WallClock) {
    loop {
        let next = {
            let Some(state) = state.upgrade() else { return };
            let mut state = state.lock();
            while let Some(Reverse((due, _, _))) = state.ends.peek()
                && *due <= Instant::now()
                && let Some(Reverse((_, id, exit_code))) = state.ends.pop()
            {
                state.end(&id, exit_code, None, wall());
            }
            state.ends.peek().map(|Reverse((due, _, _))| *due)
        };
        match next {
            Some(due) => tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = planned.notified() => {}
            },
            None => planned.notified().await,
        }
    }
}
