//! A runtime without processes: pods live in the API only (NODE-7), thousands of nodes on one machine.
//!
//! Containers start after a delay, fail or end as configured; everything follows from the seed and from
//! `tokio`'s clock, so a run under virtual time is reproducible. There is no task per pod: one per node, and
//! only when containers are to end by themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::{
    ContainerExit, ContainerId, ContainerRecord, ContainerSpec, ExecOutput, PodUid, PulledImage, Runtime,
    RuntimeError, RuntimeEvent, SandboxRecord, SandboxSpec, Usage,
};
use crate::api::session::{Session, SessionStreams};
use crate::kubelet::images::{Catalogue, ImageReference, ResolveError};

/// Where a runtime reads the wall clock.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

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
    pub cpu_millicores: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u32,
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
}

struct State {
    pods: BTreeMap<PodUid, Pod>,
    /// Which pod a container belongs to.
    containers: BTreeMap<ContainerId, PodUid>,
    /// What containers pretend to use, by pod and name.
    loads: BTreeMap<(PodUid, String), HollowLoad>,
    /// Planned ends, earliest first.
    ends: BinaryHeap<Reverse<(Instant, ContainerId, i32)>>,
    random: SmallRng,
    /// The task that ends containers runs.
    ending: bool,
    events: mpsc::Sender<RuntimeEvent>,
    /// An event did not fit into the queue; one `Relist` replaces all that were lost.
    lost_events: bool,
}

struct Pod {
    spec: SandboxSpec,
    created_at: Timestamp,
    ready: bool,
    containers: Vec<ContainerRecord>,
}

impl Pod {
    fn record(&self) -> SandboxRecord {
        SandboxRecord {
            spec: self.spec.clone(),
            created_at: self.created_at,
            ready: self.ready,
            containers: self.containers.clone(),
        }
    }
}

impl State {
    fn tell(&mut self, event: RuntimeEvent) {
        let event = if self.lost_events { RuntimeEvent::Relist } else { event };
        self.lost_events = self.events.try_send(event).is_err();
    }

    fn container(&mut self, id: &ContainerId) -> Result<&mut ContainerRecord, RuntimeError> {
        let not_found = || RuntimeError::NotFound(format!("container {}", id.0));
        let pod = self.containers.get(id).and_then(|uid| self.pods.get_mut(uid)).ok_or_else(not_found)?;
        pod.containers.iter_mut().find(|container| container.id == *id).ok_or_else(not_found)
    }

    /// What the pod's running containers use: nothing, unless they were told to.
    fn usage(&self, pod: &Pod, now: Timestamp) -> BTreeMap<String, Usage> {
        let running = pod.containers.iter().filter(|container| container.exit.is_none());
        running
            .map(|container| {
                let load =
                    self.loads.get(&(pod.spec.pod_uid.clone(), container.name.clone())).copied().unwrap_or_default();
                let millis = crate::base::clock::since(now, container.started_at).as_millis();
                let cpu_millis = millis * u128::from(load.cpu_millicores) / 1000;
                let usage = Usage {
                    cpu_time: Duration::from_millis(u64::try_from(cpu_millis).unwrap_or(u64::MAX)),
                    memory_bytes: load.memory_bytes,
                    processes: load.processes,
                };
                (container.name.clone(), usage)
            })
            .collect()
    }

    /// Ends a running container; nothing happens to one that has ended.
    fn end(&mut self, id: &ContainerId, exit_code: i32, signal: Option<i32>, now: Timestamp) {
        let Ok(container) = self.container(id) else { return };
        if container.exit.is_none() {
            let oom_killed = false;
            container.exit =
                Some(ContainerExit { exit_code, signal, oom_killed, finished_at: now, message: None });
            if let Some(pod) = self.containers.get(id).cloned() {
                self.tell(RuntimeEvent::PodChanged(pod));
            }
        }
    }
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
        }
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
    fn image_id(&self, reference: &str) -> Result<PulledImage, RuntimeError> {
        match self.catalogue.resolve(reference) {
            Ok(image) => Ok(PulledImage { image_id: image.image_id, size_bytes: image.size_bytes }),
            Err(error @ (ResolveError::Invalid(_) | ResolveError::UnknownTag(_))) => Err(error.into()),
            Err(ResolveError::UnknownName(_) | ResolveError::ProgramMissing(_)) => {
                let name = ImageReference::parse(reference)
                    .map_or_else(|_| reference.to_owned(), |parsed| parsed.to_string());
                let image_id = format!("sha256:{:x}", Sha256::digest(name));
                Ok(PulledImage { image_id, size_bytes: 0 })
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
            started_at: (self.wall)(),
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

/// What a hollow container answers to whoever wants to talk with a process.
fn no_process<T>() -> Result<T, RuntimeError> {
    Err(RuntimeError::Os("this pod is on a hollow node: it has no process to talk to".to_owned()))
}

impl Runtime for HollowRuntime {
    fn version(&self) -> String {
        concat!("hollow://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn isolation(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("podium.dev/isolation".to_owned(), "hollow".to_owned())])
    }

    fn events(&self) -> mpsc::Receiver<RuntimeEvent> {
        self.events.lock().take().unwrap_or_else(|| mpsc::channel(1).1)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxRecord>, RuntimeError>> {
        async { Ok(self.state.lock().pods.values().map(Pod::record).collect()) }.boxed()
    }

    fn inspect<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<Option<SandboxRecord>, RuntimeError>> {
        async { Ok(self.state.lock().pods.get(pod).map(Pod::record)) }.boxed()
    }

    fn pull_image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<PulledImage, RuntimeError>> {
        async { self.image_id(reference) }.boxed()
    }

    fn run_sandbox(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<(), RuntimeError>> {
        async {
            let mut state = self.state.lock();
            let known = state.pods.get_mut(&spec.pod_uid);
            match known {
                Some(pod) if pod.ready => {}
                Some(pod) => {
                    pod.ready = true;
                    pod.spec = spec;
                    pod.created_at = (self.wall)();
                }
                None => {
                    let pod = Pod {
                        spec: spec.clone(),
                        created_at: (self.wall)(),
                        ready: true,
                        containers: Vec::new(),
                    };
                    state.pods.insert(spec.pod_uid, pod);
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn write_hosts<'a>(&'a self, _: &'a PodUid, _: String) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { Ok(()) }.boxed()
    }

    fn stop_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            let now = (self.wall)();
            let mut state = self.state.lock();
            let Some(known) = state.pods.get_mut(pod) else { return Ok(()) };
            known.ready = false;
            let ids: Vec<ContainerId> =
                known.containers.iter().map(|container| container.id.clone()).collect();
            for id in ids {
                state.end(&id, 137, Some(9), now);
            }
            Ok(())
        }
        .boxed()
    }

    fn remove_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move {
            self.stop_sandbox(pod).await?;
            let mut state = self.state.lock();
            state.loads.retain(|(of, _), _| of != pod);
            if let Some(known) = state.pods.remove(pod) {
                for container in known.containers {
                    state.containers.remove(&container.id);
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn start_container(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<ContainerRecord, RuntimeError>> {
        async {
            let image = self.image_id(&spec.image)?;
            if !self.config.start_delay.is_zero() {
                tokio::time::sleep(self.config.start_delay).await;
            }
            self.record_start(spec, image.image_id)
        }
        .boxed()
    }

    fn terminate_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            let mut state = self.state.lock();
            state.container(id)?;
            // A well-behaved server: it ends cleanly when asked.
            state.end(id, 0, None, (self.wall)());
            Ok(())
        }
        .boxed()
    }

    fn kill_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            let mut state = self.state.lock();
            state.container(id)?;
            state.end(id, 137, Some(9), (self.wall)());
            Ok(())
        }
        .boxed()
    }

    fn remove_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            let mut state = self.state.lock();
            if state.container(id).is_ok_and(|container| container.exit.is_none()) {
                return Err(RuntimeError::Os(format!("container {} is running", id.0)));
            }
            if let Some(pod) = state.containers.remove(id)
                && let Some(pod) = state.pods.get_mut(&pod)
            {
                pod.containers.retain(|container| container.id != *id);
            }
            Ok(())
        }
        .boxed()
    }

    fn exec<'a>(
        &'a self,
        _id: &'a ContainerId,
        _command: Vec<String>,
        _streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>> {
        async { no_process() }.boxed()
    }

    /// Probes and hooks succeed while the container runs, so that simulated pods become ready.
    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        _command: Vec<String>,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<ExecOutput, RuntimeError>> {
        async {
            match self.state.lock().container(id)?.exit {
                None => Ok(ExecOutput { exit_code: 0, output: Vec::new() }),
                Some(_) => Err(RuntimeError::NotFound(format!("running container {}", id.0))),
            }
        }
        .boxed()
    }

    fn attach<'a>(
        &'a self,
        _id: &'a ContainerId,
        _streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>> {
        async { no_process() }.boxed()
    }

    fn listeners<'a>(
        &'a self,
        _pod: &'a PodUid,
        _port: u16,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, RuntimeError>> {
        async { no_process() }.boxed()
    }

    fn log_files<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Vec<PathBuf>, RuntimeError>> {
        async {
            self.state.lock().container(id)?;
            Ok(Vec::new())
        }
        .boxed()
    }

    fn container_dir(&self, _pod: &PodUid, _id: &ContainerId) -> Option<PathBuf> {
        None
    }

    fn usage_of_all(&self) -> BoxFuture<'_, Result<super::NodeUsage, RuntimeError>> {
        async {
            let (now, state) = ((self.wall)(), self.state.lock());
            Ok(state.pods.iter().map(|(uid, pod)| (uid.clone(), state.usage(pod, now))).collect())
        }
        .boxed()
    }

    fn usage<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<BTreeMap<String, Usage>, RuntimeError>> {
        async {
            let (now, state) = ((self.wall)(), self.state.lock());
            Ok(state.pods.get(pod).map(|pod| state.usage(pod, now)).unwrap_or_default())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostShares, Security};
    use super::*;

    fn runtime(config: HollowConfig) -> HollowRuntime {
        let start = Instant::now();
        let wall = move || Timestamp::UNIX_EPOCH + start.elapsed();
        HollowRuntime::new(config, Arc::new(Catalogue::new(Vec::new(), "CONFIG")), Arc::new(wall))
    }

    fn sandbox(uid: &str) -> SandboxSpec {
        SandboxSpec {
            pod_uid: uid.to_owned(),
            namespace: "default".to_owned(),
            name: uid.to_owned(),
            hostname: uid.to_owned(),
            ip: [127, 0, 0, 9].into(),
            share_process_namespace: false,
            host: HostShares::default(),
            resolv_conf: None,
            hosts: None,
        }
    }

    fn container(uid: &str, attempt: u32, image: &str) -> ContainerSpec {
        ContainerSpec {
            pod_uid: uid.to_owned(),
            name: "main".to_owned(),
            attempt,
            image: image.to_owned(),
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            mounts: Vec::new(),
            stdin: false,
            stdin_once: false,
            tty: false,
            memory_limit_bytes: None,
            cpu_limit_millicores: None,
            cpu_request_millicores: None,
            run_as_user: None,
            run_as_group: None,
            stop_signal: None,
            security: Security::default(),
            termination_message_path: PathBuf::from("/dev/termination-log"),
            target: None,
        }
    }

    /// NODE-7: start delay and planned ends follow virtual time alone.
    #[tokio::test(start_paused = true)]
    async fn containers_start_late_and_end_by_themselves() {
        let config = HollowConfig {
            start_delay: Duration::from_secs(3),
            run_time: Some(Duration::from_mins(1)),
            exit_failure_rate: 1.0,
            ..HollowConfig::default()
        };
        let runtime = runtime(config);
        let mut events = runtime.events();
        runtime.run_sandbox(sandbox("a")).await.unwrap();
        let record = runtime.start_container(container("a", 0, "whatever:v1")).await.unwrap();
        assert_eq!(record.started_at.as_second(), 3);
        let again = runtime.start_container(container("a", 0, "whatever:v1")).await.unwrap();
        assert_eq!(again.id, record.id, "starting twice is starting once");

        assert_eq!(events.recv().await, Some(RuntimeEvent::PodChanged("a".to_owned())));
        let known = runtime.inspect(&"a".to_owned()).await.unwrap().unwrap();
        let exit = known.containers[0].exit.clone().unwrap();
        assert_eq!((exit.exit_code, exit.finished_at.as_second()), (1, 63));

        runtime.remove_sandbox(&"a".to_owned()).await.unwrap();
        assert!(runtime.list().await.unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn images_known_to_be_wrong_fail_and_unknown_ones_do_not() {
        let runtime = runtime(HollowConfig::default());
        assert!(runtime.pull_image("my-company/unknown:v7").await.is_ok());
        assert!(matches!(runtime.pull_image("nginx:1.91").await, Err(RuntimeError::ImageNotFound(_))));
        assert!(matches!(runtime.pull_image("Ünfug").await, Err(RuntimeError::InvalidImageName(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_kills_and_asking_ends_cleanly() {
        let runtime = runtime(HollowConfig::default());
        runtime.run_sandbox(sandbox("a")).await.unwrap();
        let asked = runtime.start_container(container("a", 0, "x")).await.unwrap();
        runtime.terminate_container(&asked.id).await.unwrap();
        runtime.start_container(container("a", 1, "x")).await.unwrap();
        runtime.stop_sandbox(&"a".to_owned()).await.unwrap();
        let known = runtime.inspect(&"a".to_owned()).await.unwrap().unwrap();
        assert!(!known.ready);
        let codes: Vec<i32> =
            known.containers.iter().map(|container| container.exit.as_ref().unwrap().exit_code).collect();
        assert_eq!(codes, [0, 137]);
        assert!(matches!(
            runtime.start_container(container("a", 2, "x")).await,
            Err(RuntimeError::NotFound(_))
        ));
        assert!(runtime.exec(&asked.id, vec![], SessionStreams::default()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_seed_fails_the_same_starts() {
        let outcome = |seed| async move {
            let config = HollowConfig { start_failure_rate: 0.5, seed, ..HollowConfig::default() };
            let runtime = runtime(config);
            runtime.run_sandbox(sandbox("a")).await.unwrap();
            let mut outcome = Vec::new();
            for attempt in 0..32 {
                outcome.push(runtime.start_container(container("a", attempt, "x")).await.is_ok());
            }
            outcome
        };
        assert_eq!(outcome(1).await, outcome(1).await);
        assert_ne!(outcome(1).await, outcome(2).await);
    }
}
