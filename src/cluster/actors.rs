//! Starts the controllers and the scheduler, except disabled ones. A restore stops and restarts all of them together;
//! faults crash or pause single ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::config::ClusterConfig;
use api::Api;
use apimachinery::certificates::CertificateAuthority;
use base::clock::Clock;
use base::task::Tasks;
use base::time_zone;
use controllers::{BalancerPool, Controllers, Settings, VolumeDirectory};
use kubelet::volumes::user_of;
use operators::faults::{ActorFaults, SCHEDULER_ACTOR};
use reconcile::Caches;
use scheduler::config::{ConfigError, profiles};
use scheduler::{Scheduler, SchedulerConfig};
use tokio::sync::Mutex;

/// The field manager of the controllers' writes, as in Kubernetes.
const CONTROLLERS: &str = "kube-controller-manager";
/// The field manager of the scheduler's writes.
const SCHEDULER: &str = "kube-scheduler";

/// The control loops, running or not.
pub(super) struct Actors {
    api: Api,
    caches: Caches,
    /// The parent of the control loops' tasks: the control loops end when it ends.
    tasks: Tasks,
    settings: Settings,
    /// The clocks of the controllers and of the scheduler.
    clocks: (Clock, Clock),
    /// `None` if the scheduler is disabled.
    scheduler: Option<Scheduler>,
    // Locked while actors are started or stopped.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` while all actors are stopped.
    running: Option<RunningActors>,
    faults: ActorFaults,
}

struct RunningActors {
    controllers: Controllers,
    /// `None` while the scheduler is crashed, or if it is disabled.
    scheduler: Option<Tasks>,
}

impl Actors {
    /// Creates the actors of a cluster; none runs before [`Actors::restart_all`].
    pub(super) fn new(
        api: &Api,
        caches: &Caches,
        tasks: &Tasks,
        config: &ClusterConfig,
        authority: &Arc<CertificateAuthority>,
        balancers: Option<BalancerPool>,
        data_dir: &Path,
    ) -> Result<Self, ConfigError> {
        let nodes = data_dir.join("nodes");
        let volumes = VolumeDirectory::new(data_dir.join("volumes"), move |path| user_of(&nodes, path));
        let settings = Settings {
            disabled: config.disabled.clone(),
            paused: BTreeSet::new(),
            time_zone: Some(time_zone::local()),
            root_certificate: authority.certificate_pem.clone(),
            authority: Some(authority.clone()),
            volumes: Some(volumes),
            balancers,
            node_lifecycle: config.file.node_lifecycle.clone(),
            terminated_pod_threshold: config.file.terminated_pod_threshold,
        };
        let mut scheduler_config = SchedulerConfig::default();
        if let Some(configuration) = &config.file.scheduler {
            scheduler_config.profiles = profiles(configuration)?;
        }
        let clocks = (api.clock().apart(), api.clock().apart());
        let scheduler = (!config.is_disabled("scheduler")).then(|| {
            Scheduler::new(&api.acting_as(SCHEDULER).with_clock(&clocks.1), caches, scheduler_config)
        });
        let (api, caches, tasks) = (api.clone(), caches.clone(), tasks.clone());
        let actors = Self { api, caches, tasks, settings, clocks, scheduler, state: Mutex::default() };
        // The API lists every enabled actor, even one that a fault crashes from the start.
        actors.api.expect_controllers(actors.names());
        Ok(actors)
    }

    /// The names of the actors that are not disabled.
    pub(super) fn names(&self) -> BTreeSet<&'static str> {
        let scheduler = self.scheduler.is_some().then_some(SCHEDULER_ACTOR);
        let controllers = Controllers::names()
            .filter(|name| !self.settings.disabled.iter().any(|disabled| disabled == name));
        scheduler.into_iter().chain(controllers).collect()
    }

    /// Replaces the set of crashed and paused actors. An actor that is no longer crashed restarts with nothing but the
    /// store's state; one that is no longer paused continues where it was.
    pub(super) async fn set_faults(&self, faults: ActorFaults) {
        let mut state = self.state.lock().await;
        self.clocks.0.set_skew_millis(faults.controllers_skew);
        self.clocks.1.set_skew_millis(faults.scheduler_skew);
        state.faults = faults;
        let State { running: Some(running), faults } = &mut *state else { return };
        self.apply_faults(running, faults).await;
    }

    async fn apply_faults(&self, running: &mut RunningActors, faults: &ActorFaults) {
        for name in self.names().into_iter().filter(|name| *name != SCHEDULER_ACTOR) {
            if faults.crashed.contains(name) {
                running.controllers.stop_one(name).await;
            } else if faults.paused.contains(name) {
                running.controllers.start_paused(name);
            } else {
                running.controllers.start_one(name);
            }
            running.controllers.pause_one(name, faults.paused.contains(name));
        }
        let Some(scheduler) = &self.scheduler else { return };
        if faults.crashed.contains(SCHEDULER_ACTOR) {
            if let Some(tasks) = running.scheduler.take() {
                tasks.stop().await;
            }
            return;
        }
        let tasks = running.scheduler.get_or_insert_with(|| {
            let tasks = self.tasks.child();
            if faults.paused.contains(SCHEDULER_ACTOR) {
                // Paused before it runs: the scheduler decides nothing until it is resumed.
                tasks.pause();
            }
            scheduler.run(&tasks);
            tasks
        });
        if faults.paused.contains(SCHEDULER_ACTOR) {
            tasks.pause();
        } else {
            tasks.resume();
        }
    }

    /// Starts all actors except crashed ones, with nothing but the store's state; does nothing if they run.
    pub(super) async fn restart_all(&self) {
        let mut state = self.state.lock().await;
        if state.running.is_some() {
            return;
        }
        let mut settings = self.settings.clone();
        settings.disabled.extend(state.faults.crashed.iter().map(ToString::to_string));
        settings.paused.clone_from(&state.faults.paused);
        let api = self.api.acting_as(CONTROLLERS).with_clock(&self.clocks.0);
        let controllers = Controllers::start(&api, &self.caches, &self.tasks, settings);
        let mut running = RunningActors { controllers, scheduler: None };
        self.apply_faults(&mut running, &state.faults).await;
        state.running = Some(running);
    }

    /// Stops all actors, at any point of their work, and waits for their ends; does nothing if none runs.
    pub(super) async fn pause(&self) {
        let mut state = self.state.lock().await;
        if let Some(RunningActors { controllers, scheduler }) = state.running.take() {
            if let Some(scheduler) = scheduler {
                scheduler.stop().await;
            }
            controllers.stop().await;
        }
    }
}
