//! The calls of the kubelet, answered without any process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::HollowRuntime;
use super::state::Pod;
use crate::runtime::{
    ContainerId, ContainerRecord, ContainerSpec, ExecOutput, Image, ImagePull, PodUid, PullProgress,
    ResourceLimits, Runtime, RuntimeError, RuntimeEvents, SandboxRecord, SandboxSpec, Usage, UsageByPod,
};
use base::dial::Transport;
use base::session::{Session, SessionStreams};
use base::sort::CollectMap;
use host::after_all;
use object::well_known::annotation;

/// The error for a client that wants to talk to a process of a hollow container.
fn no_process<T>() -> Result<T, RuntimeError> {
    Err(RuntimeError::Os("the pod is on a hollow node and has no processes".to_owned()))
}

impl Runtime for HollowRuntime {
    fn version(&self) -> String {
        concat!("hollow://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn isolation(&self) -> BTreeMap<String, String> {
        [(annotation::PODIUM_ISOLATION.to_owned(), "hollow".to_owned())].collect_map()
    }

    fn events(&self) -> RuntimeEvents {
        self.state.lock().events.subscribe()
    }

    fn status(&self) -> BoxFuture<'_, Result<(), RuntimeError>> {
        self.faults.answering().boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxRecord>, RuntimeError>> {
        async {
            self.faults.answering().await?;
            Ok(self.state.lock().pods.values().map(Pod::record).collect())
        }
        .boxed()
    }

    fn inspect<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<Option<SandboxRecord>, RuntimeError>> {
        async {
            self.faults.answering().await?;
            Ok(self.state.lock().pods.get(pod).map(Pod::record))
        }
        .boxed()
    }

    fn image_status<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Image, RuntimeError>> {
        async {
            let image = self.resolve_image(reference);
            if image.is_err() {
                self.faults.count_failed_pull();
            }
            image
        }
        .boxed()
    }

    fn can_pull(&self, reference: &str) -> bool {
        self.registry.is_there() && self.catalogue.resolve(reference).is_err_and(|error| error.is_unknown())
    }

    fn pull_image<'a>(&'a self, pull: &'a ImagePull) -> BoxFuture<'a, Result<Image, RuntimeError>> {
        self.registry.pull(pull).boxed()
    }

    fn pull_progress(&self, _: &str) -> Option<PullProgress> {
        self.registry.progress()
    }

    fn is_image_pulled(&self, reference: &str) -> bool {
        self.registry.pulled(reference).is_some()
    }

    fn is_image_loaded(&self, reference: &str) -> bool {
        self.is_image_pulled(reference)
    }

    fn run_sandbox(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxRecord, RuntimeError>> {
        async {
            self.faults.answering().await?;
            let mut state = self.state.lock();
            let now = (self.wall)();
            let fresh = || Pod { spec: spec.clone(), created_at: now, ready: true, containers: Vec::new() };
            let pod = state.pods.entry(spec.pod_uid.clone()).or_insert_with(fresh);
            if !pod.ready {
                (pod.ready, pod.created_at) = (true, after_all(now, &pod.containers));
                pod.spec = spec;
            }
            Ok(pod.record())
        }
        .boxed()
    }

    fn write_hosts<'a>(&'a self, _: &'a PodUid, _: String) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { Ok(()) }.boxed()
    }

    fn stop_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            self.faults.answering().await?;
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
            self.faults.admit_removal()?;
            let mut state = self.state.lock();
            state.loads.retain(|(of, _), _| of != pod);
            state.unready.remove(pod);
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
            self.faults.answering().await?;
            let image = self.resolve_image(&spec.image)?;
            if !self.config.start_delay.0.is_zero() {
                tokio::time::sleep(self.config.start_delay.0).await;
            }
            self.record_start(spec, image.image_id)
        }
        .boxed()
    }

    /// No limits are enforced here.
    fn resize_container<'a>(
        &'a self,
        id: &'a ContainerId,
        _limits: ResourceLimits,
    ) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.state.lock().container(id).map(drop) }.boxed()
    }

    fn terminate_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            self.faults.answering().await?;
            let mut state = self.state.lock();
            state.container(id)?;
            // A well-behaved server: it exits with code 0 when it is stopped.
            if self.config.stop_duration.0.is_zero() {
                state.end(id, 0, None, (self.wall)());
            } else {
                self.plan_end(&mut state, self.config.stop_duration.0, id.clone(), 0);
            }
            Ok(())
        }
        .boxed()
    }

    fn kill_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            self.faults.answering().await?;
            let mut state = self.state.lock();
            state.container(id)?;
            state.end(id, 137, Some(9), (self.wall)());
            Ok(())
        }
        .boxed()
    }

    fn kill_for_memory<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            self.faults.answering().await?;
            self.state.lock().end_for_memory(id, (self.wall)())
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
            self.faults.answering().await?;
            match self.state.lock().container(id)?.exit {
                None => Ok(ExecOutput { exit_code: 0, output: Vec::new() }),
                Some(_) => Err(RuntimeError::NotFound(format!("running container {}", id.0))),
            }
        }
        .boxed()
    }

    fn is_ready(&self, pod: &PodUid) -> bool {
        !self.state.lock().unready.contains(pod)
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

    fn every_listener<'a>(
        &'a self,
        _pod: &'a PodUid,
        _transport: Transport,
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

    fn container_dirs(&self, _pod: &PodUid, _id: &ContainerId) -> Vec<PathBuf> {
        Vec::new()
    }

    fn usage_of_all(&self) -> BoxFuture<'_, Result<UsageByPod, RuntimeError>> {
        async {
            let (now, state) = ((self.wall)(), self.state.lock());
            Ok(state.pods.iter().map(|(uid, pod)| (uid.clone(), state.usage(pod, now))).collect_map())
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
