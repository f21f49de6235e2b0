//! A runtime without processes: pods live in the API only (NODE-7), thousands of nodes on one machine.
//!
//! Containers start after a delay, fail or end as configured; everything follows from the seed and from
//! `tokio`'s clock, so a run under virtual time is reproducible. There is no task per pod: one per node, and
//! only when containers are to end by themselves.

mod behavior;
mod calls;
mod faults;
mod registry;
mod state;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{ContainerId, ContainerRecord, ContainerSpec, Image, PodUid, PullProgress, RuntimeError};
use base::hex::hex;
pub use behavior::{BehaviorFn, ContainerBehavior};
pub use faults::Faults;
use images::{Catalogue, ImageReference, ResolveError};
use object::config::Seconds;
use registry::HollowRegistry;
pub use registry::PullFn;
use state::State;

/// Reads the wall clock for a runtime.
pub(crate) type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The behavior of hollow nodes, as the config file sets it (NODE-7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HollowConfig {
    /// The time that a container takes to start, in seconds.
    pub start_delay: Seconds,
    /// The share of containers that fail to start, 0 to 1.
    pub start_failure_rate: f64,
    /// The time in seconds after which every container ends by itself. `None`: `initRunDuration` and `jobRunDuration`
    /// apply, and other containers run for ever.
    #[serde(alias = "runTime")]
    pub run_duration: Option<Seconds>,
    /// The time in seconds after which init containers end ([`ContainerBehavior::Finishes`]), unless `runDuration` is
    /// set.
    #[serde(alias = "initRunTime")]
    pub init_run_duration: Seconds,
    /// The time in seconds after which containers end ([`ContainerBehavior::Completes`]) if their pod's restartPolicy
    /// is not Always, unless `runDuration` is set.
    #[serde(alias = "jobRunTime")]
    pub job_run_duration: Seconds,
    /// The time that a container takes to end once it is stopped, in seconds; a killed one ends at once.
    #[serde(alias = "stopTime")]
    pub stop_duration: Seconds,
    /// The share of containers that end with exit code 1 instead of 0 when they end by themselves, 0 to 1.
    pub exit_failure_rate: f64,
    /// The seed of failures and jitter: equal seeds give equal ones.
    pub seed: u64,
}

impl Default for HollowConfig {
    fn default() -> Self {
        Self {
            start_delay: Seconds(Duration::ZERO),
            start_failure_rate: 0.0,
            run_duration: None,
            init_run_duration: Seconds(Duration::ZERO),
            job_run_duration: Seconds(Duration::from_secs(1)),
            stop_duration: Seconds(Duration::ZERO),
            exit_failure_rate: 0.0,
            seed: 0,
        }
    }
}

/// The reported usage of a hollow container while it runs.
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
    faults: Faults,
    registry: HollowRegistry,
    /// Chooses the containers' behavior; `None` means that the configuration does.
    director: Option<BehaviorFn>,
}

impl HollowRuntime {
    /// A hollow node's runtime; `wall` provides the timestamps of its records.
    pub fn new(config: HollowConfig, catalogue: Arc<Catalogue>, wall: WallClock) -> Self {
        let state = State::new(config.seed);
        Self {
            config,
            catalogue,
            wall,
            state: Arc::new(Mutex::new(state)),
            planned: Arc::new(Notify::new()),
            faults: Faults::default(),
            registry: HollowRegistry::default(),
            director: None,
        }
    }

    /// The same runtime, with `director` choosing the behavior of each container that starts.
    #[must_use]
    pub fn with_behavior(mut self, director: BehaviorFn) -> Self {
        self.director = Some(director);
        self
    }

    /// The injected failures.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// From now on images that are in no catalogue are pulled by this function; before, they count as present.
    pub fn set_registry(&self, pull: PullFn) {
        self.registry.set(pull);
    }

    /// Sets the progress that all pulls report.
    pub fn set_pull_progress(&self, progress: Option<PullProgress>) {
        self.registry.set_progress(progress);
    }

    /// Ends a container as if its main process had exited: for tests and fault injection.
    pub fn exit_container(&self, id: &ContainerId, exit_code: i32) {
        let signal = (exit_code > 128).then_some(exit_code - 128);
        self.state.lock().end(id, exit_code, signal, (self.wall)());
    }

    /// Ends the running containers of a pod, or the one of this name, as if their main processes had exited, and
    /// returns their ids.
    pub fn exit_containers(&self, pod: &PodUid, name: Option<&str>, exit_code: i32) -> Vec<ContainerId> {
        let running: Vec<ContainerId> = {
            let state = self.state.lock();
            let containers = state.pods.get(pod).map(|pod| pod.containers.as_slice()).unwrap_or_default();
            let ends = |c: &&ContainerRecord| c.exit.is_none() && name.is_none_or(|name| c.name == name);
            containers.iter().filter(ends).map(|container| container.id.clone()).collect()
        };
        for id in &running {
            self.exit_container(id, exit_code);
        }
        running
    }

    /// Ends everything at once, as a power failure does: no container and no pod is left. An error simulates a process
    /// that does not die.
    pub fn kill_all(&self) -> Result<(), RuntimeError> {
        self.faults.admit_removal()?;
        let mut state = self.state.lock();
        state.pods.clear();
        state.containers.clear();
        state.loads.clear();
        state.unready.clear();
        state.ends.clear();
        Ok(())
    }

    /// From now on the readiness probes of a pod succeed, or fail.
    pub fn set_ready(&self, pod: &PodUid, ready: bool) {
        let unready = &mut self.state.lock().unready;
        if ready {
            unready.remove(pod);
        } else {
            unready.insert(pod.clone());
        }
    }

    /// Sets the simulated usage of a container of this name in this pod; for tests and simulations.
    pub fn set_load(&self, pod: &PodUid, container: &str, load: HollowLoad) {
        self.state.lock().loads.insert((pod.clone(), container.to_owned()), load);
    }

    /// Without a simulated registry, unknown images are accepted: simulated clusters run other people's manifests. Tags
    /// known to be wrong, and invalid references, fail as on every node.
    fn resolve_image(&self, reference: &str) -> Result<Image, RuntimeError> {
        match self.catalogue.resolve(reference) {
            Ok(image) => Ok(Image { image_id: image.image_id, size_bytes: image.size_bytes }),
            Err(error @ (ResolveError::Invalid(_) | ResolveError::UnknownTag(_))) => Err(error.into()),
            Err(error) if self.registry.is_there() => {
                self.registry.pulled(reference).ok_or_else(|| error.into())
            }
            Err(
                ResolveError::UnknownName(_)
                | ResolveError::UnknownDigest(_)
                | ResolveError::OtherOwners(_)
                | ResolveError::ProgramMissing(_),
            ) => {
                let name = ImageReference::parse(reference)
                    .map_or_else(|_| reference.to_owned(), |parsed| parsed.to_string());
                let image_id = format!("sha256:{}", hex(Sha256::digest(name)));
                Ok(Image { image_id, size_bytes: 0 })
            }
        }
    }

    /// Chooses the behavior of a container that starts. Called without the lock on the state: the director may be slow.
    fn behavior_of(&self, spec: &ContainerSpec) -> ContainerBehavior {
        let Some(director) = &self.director else { return ContainerBehavior::AsConfigured };
        let sandbox = self.state.lock().pods.get(&spec.pod_uid).map(|pod| pod.spec.clone());
        sandbox.map_or(ContainerBehavior::AsConfigured, |sandbox| director(&sandbox, spec))
    }

    fn record_start(&self, spec: ContainerSpec, image_id: String) -> Result<ContainerRecord, RuntimeError> {
        let course = self.behavior_of(&spec);
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
        let is_configured = matches!(
            course,
            ContainerBehavior::AsConfigured | ContainerBehavior::Finishes | ContainerBehavior::Completes
        );
        let mut happens = |rate: f64| is_configured && state.random.random_bool(rate.clamp(0.0, 1.0));
        let fails = course == ContainerBehavior::StartFails || happens(self.config.start_failure_rate);
        if fails {
            return Err(RuntimeError::StartFailed(format!("hollow container {} failed to start", spec.name)));
        }
        // The ids do not come from the node's own generator: a restarted node draws the same numbers again, but ids
        // must be unique.
        let [first, second]: [u128; 2] = base::random::random();
        let id = ContainerId(format!("{first:032x}{second:032x}"));
        let record = ContainerRecord {
            id: id.clone(),
            name: spec.name,
            attempt: spec.attempt,
            image: spec.image,
            image_id,
            pid: None,
            user: None,
            // A container never starts before its sandbox, even if the clock was set back meanwhile.
            started_at: (self.wall)().max(pod.created_at),
            exit: None,
        };
        pod.containers.push(record.clone());
        state.containers.insert(id.clone(), spec.pod_uid.clone());
        let HollowConfig { run_duration, init_run_duration, job_run_duration, .. } = self.config;
        let run_time = match course {
            ContainerBehavior::Finishes => Some(run_duration.unwrap_or(init_run_duration)),
            ContainerBehavior::Completes => Some(run_duration.unwrap_or(job_run_duration)),
            _ => run_duration,
        };
        let end = match course {
            ContainerBehavior::Ends { after, exit_code } => Some((after, exit_code)),
            _ if is_configured => {
                run_time.map(|run_time| (run_time.0, i32::from(happens(self.config.exit_failure_rate))))
            }
            _ => None,
        };
        if course == ContainerBehavior::RunsUnready {
            state.unready.insert(spec.pod_uid);
        }
        if let Some((run_time, exit_code)) = end {
            self.plan_end(state, run_time, id, exit_code);
        }
        Ok(record)
    }

    /// Plans that the container ends by itself after this time.
    fn plan_end(&self, state: &mut State, after: Duration, id: ContainerId, exit_code: i32) {
        state.ends.push(Reverse((Instant::now() + after, id, exit_code)));
        if !state.ending {
            state.ending = true;
            let (state, planned) = (Arc::downgrade(&self.state), Arc::clone(&self.planned));
            base::task::start(end_containers(state, planned, Arc::clone(&self.wall)));
        }
        self.planned.notify_one();
    }

    /// The pods that have running containers: namespace, name and uid.
    pub fn running_pods(&self) -> Vec<(String, String, PodUid)> {
        let state = self.state.lock();
        let runs = |pod: &&state::Pod| pod.containers.iter().any(|container| container.exit.is_none());
        let named =
            |pod: &state::Pod| (pod.spec.namespace.clone(), pod.spec.name.clone(), pod.spec.pod_uid.clone());
        state.pods.values().filter(runs).map(named).collect()
    }
}

impl Drop for HollowRuntime {
    /// Wakes the task that ends containers, so that it notices that the runtime was dropped.
    fn drop(&mut self) {
        self.state = Arc::new(Mutex::new(State::new(0)));
        self.planned.notify_one();
    }
}

/// Ends containers when they are due, until the runtime is dropped.
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
