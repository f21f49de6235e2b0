//! The node agent: runs the pods bound to its node.
//!
//! `pod_workers` has the table of pods and schedules them, `sync_pod` executes the decisions of `plan`, `status`
//! composes the reported status. [`Kubelets`] is the public interface: one per process, with any number of nodes.

mod access;
mod admit;
mod adopt;
mod context;
pub(crate) mod environment;
pub(crate) mod eviction;
mod faults;
mod hooks;
mod id_ranges;
mod ips;
mod logs;
mod mirror_pod;
pub(crate) mod needed_images;
#[cfg(test)]
#[path = "../../tests/it/needs.rs"]
#[expect(dead_code, reason = "the library's tests need less of the machine than the others")]
mod needs;
mod node;
pub(crate) mod observed;
mod oom_score;
pub(crate) mod plan;
mod pleg;
mod pod_ips;
mod pod_timers;
mod pod_workers;
pub mod pressure;
pub(crate) mod probe;
pub(crate) mod resize;
mod restart_all;
mod retry;
pub mod runtime;
mod runtime_class;
mod sandbox;
mod seccomp;
mod security;
mod service_names;
pub(crate) mod spec;
mod static_pods;
pub(crate) mod status;
mod sync_pod;
mod sysctls;
#[cfg(test)]
mod tests;
mod usage;
pub mod volumes;
mod volumes_in_use;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use api::{Api, ApiError};
use base::backoff::BackoffPolicy;
use base::disk_fault::DiskFault;
use base::task::Tasks;
use context::Context;
pub use context::RemoveUnusedImages;
pub use faults::PullFault;
pub use ips::NodeIpv6;
use node::{Node, ShutdownMode};
pub use node::{NodeConfig, StaticManifest};
use object::SharedObject;
use pod_workers::{PodEvent, PodWorkers};
use reconcile::Caches;
use runtime::{PodUid, Runtime, RuntimeError, SandboxSpec};
use sync_pod::RuntimeSyncer;

/// A node could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The runtime does not respond.
    #[error("the runtime of node {node} does not answer: {error}")]
    Runtime {
        /// The node's name.
        node: String,
        /// The runtime's error.
        error: RuntimeError,
    },
    /// The Node object could not be written.
    #[error("cannot register node {node}: {error:?}")]
    Register {
        /// The node's name.
        node: String,
        /// The API's error.
        error: ApiError,
    },
}

/// All kubelets of this process; cheap to clone.
#[derive(Clone)]
pub struct Kubelets {
    workers: Arc<PodWorkers>,
}

impl Kubelets {
    /// No node yet.
    pub fn new(api: &Api, caches: &Caches, tasks: &Tasks) -> Self {
        let context = Context::new(api, caches, tasks);
        let workers = PodWorkers::new(context, caches, Box::new(RuntimeSyncer));
        let measured = workers.clone();
        tasks.spawn_restarting("usage", move || usage::measure(measured.clone()));
        let guarded = workers.clone();
        tasks.spawn_restarting("eviction", move || eviction::watch(guarded.clone()));
        Self { workers }
    }

    /// Sets what removes unused images when a disk runs full, before pods are evicted. Only the first call counts.
    pub fn set_image_removal(&self, remove: RemoveUnusedImages) {
        let _ = self.workers.context.remove_unused_images.set(remove);
    }

    /// Replaces the image pull faults in force. A pull that has taken longer than the new faults prescribe completes at
    /// once.
    pub fn set_pull_faults(&self, faults: Vec<PullFault>) {
        if self.workers.context.pulls.set(faults) {
            for node in self.workers.nodes() {
                self.workers.push_event_to_all(&node.config.name, &PodEvent::Resync);
            }
        }
    }

    /// Starts a node: finds its running containers, registers the Node object, runs its pods.
    pub async fn start_node(
        &self,
        config: NodeConfig,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Kubelet, StartError> {
        let workers = &self.workers;
        let name = config.name.clone();
        let node = Arc::new(Node::new(&workers.context.api, config, runtime, workers.context.tasks.child()));
        // Subscribed before the list: later changes must come as events.
        let events = node.runtime.events();
        let found =
            node.runtime.list().await.map_err(|error| StartError::Runtime { node: name.clone(), error })?;
        if let Some(nodes) = node.config.pods_dir.ancestors().nth(2).filter(|_| !node.config.hollow) {
            workers.context.id_ranges.learn(nodes);
        }
        for sandbox in &found {
            if let Some(range) = sandbox.spec.users {
                workers.context.id_ranges.reserve(&sandbox.spec.pod_uid, range);
            }
            // The address of an ended pod may belong to another pod by now.
            if sandbox.is_alive() {
                node.ips.lock().reserve(sandbox.spec.ip, &sandbox.spec.pod_uid);
            }
            for container in &sandbox.containers {
                // An image that became unknown meanwhile causes an error when a container needs it again.
                if let Ok(image) = node.runtime.image_status(&container.image).await
                    && !node.runtime.is_image_loaded(&container.image)
                {
                    node.images.lock().add(&container.image, image);
                }
            }
        }
        volumes::restore_disks(&workers.context, &node, &found);
        node::report(&workers.context, &node)
            .map_err(|error| StartError::Register { node: name.clone(), error })?;
        workers.context.api.set_node_access(
            &name,
            Arc::new(access::Access { node: node.clone(), clock: workers.context.clock.clone() }),
        );
        workers.context.config_maps.synced().await;
        workers.context.secrets.synced().await;
        workers.context.services.synced().await;
        let manifests = node.config.static_pods.clone();
        static_pods::set(workers, &node, &manifests);
        let awaited = workers.add_node(&node);
        let is_known = |uid: &str| workers.knows(uid) || awaited.contains(uid);
        volumes::remove_strays(&node, |uid| {
            is_known(uid) || found.iter().any(|sandbox| sandbox.spec.pod_uid == uid)
        })
        .await;
        // A pod that the API does not know must not run (SAFE-3).
        for sandbox in found.iter().filter(|sandbox| !is_known(&sandbox.spec.pod_uid)) {
            let removal = remove_stray(workers.clone(), node.clone(), sandbox.spec.clone());
            node.tasks.spawn("stray pod", removal);
        }
        if sandbox::needs_service_lines(&node.config) {
            let (workers, follower) = (workers.clone(), node.clone());
            node.tasks.spawn("service names", async move {
                service_names::follow(&workers.context, &follower).await;
            });
        }
        node.tasks.spawn("runtime events", workers.clone().follow_runtime(node.clone(), events));
        let beating = (workers.clone(), node.clone());
        node.tasks.spawn_restarting("node heartbeat", move || {
            let (workers, node) = beating.clone();
            async move { node::heartbeat(&workers.context, &node).await }
        });
        let watched = (workers.clone(), node.clone());
        node.tasks.spawn_restarting("node health", move || pleg::watch(watched.0.clone(), watched.1.clone()));
        Ok(Kubelet { workers: workers.clone(), node })
    }
}

/// Ends a pod that the API does not know, with as many attempts as necessary.
async fn remove_stray(workers: Arc<PodWorkers>, node: Arc<Node>, spec: SandboxSpec) {
    let uid = spec.pod_uid;
    let timings = &workers.context.timings;
    let policy =
        BackoffPolicy { initial: timings.cleanup_back_off_initial.0, max: timings.cleanup_back_off_max.0 };
    let mut reported = None;
    for failures in 1.. {
        let removed = match node.runtime.stop_sandbox(&uid).await {
            Ok(()) => node.runtime.remove_sandbox(&uid).await,
            error => error,
        };
        let Err(error) = removed else { break };
        if reported.as_ref() != Some(&error) {
            tracing::warn!(pod = uid, "cannot remove a pod that the API does not have: {error}");
            reported = Some(error);
        }
        workers.context.clock.sleep(policy.delay(failures)).await;
    }
    node.ips.lock().release(spec.ip, &uid);
    workers.context.id_ranges.release(&uid);
    volumes::remove_of(&node, &uid).await;
    if let Err(error) = volumes::release_disks(&workers.context, &node, &uid) {
        tracing::warn!(pod = uid, "cannot report the released disks yet: {error}");
    }
    tracing::info!(pod = uid, "removed a pod that the API does not have");
}

/// The grace periods that a wait for the end of pods allows.
#[derive(Clone, Copy)]
enum ShutdownGrace {
    /// The pods' own grace periods.
    Whole,
    /// The grace periods as the shutdown of a node shortens them.
    Cut,
}

/// One node's kubelet.
#[derive(Clone)]
pub struct Kubelet {
    workers: Arc<PodWorkers>,
    node: Arc<Node>,
}

impl Kubelet {
    /// The node's name.
    pub(crate) fn name(&self) -> &str {
        &self.node.config.name
    }

    /// Reconciles the node's static pods with these manifests, which are the complete set (POD-15).
    pub fn set_static_pods(&self, manifests: &[StaticManifest]) {
        static_pods::set(&self.workers, &self.node, manifests);
    }

    /// Sets the simulated state of the node's machine; `None` means the real one. For faults and simulations: a hollow
    /// node has no machine of its own.
    pub fn set_simulated_machine(&self, observations: Option<pressure::Observations>) {
        self.node.eviction.pretend(observations);
    }

    /// Suspends the kubelet, as SIGSTOP would: it syncs no pods, sends no heartbeats and answers no requests until
    /// [`Kubelet::resume`]. The node's containers continue to run.
    pub fn pause(&self) {
        self.node.tasks.pause();
    }

    /// Resumes a paused kubelet.
    pub fn resume(&self) {
        self.node.tasks.resume();
    }

    /// Skews the kubelet's clock by this many milliseconds: its heartbeats, its events, the pods' statuses, and the
    /// times of later log lines and measurements. Its timeouts follow the steady clock.
    pub fn set_skew_millis(&self, millis: i64) {
        self.node.clock.set_skew_millis(millis);
        self.node.push_faults();
    }

    /// Sets the fault of the node's disk; `None` means a healthy disk.
    pub fn set_disk_fault(&self, fault: Option<DiskFault>) {
        self.node.disk.set(fault);
        self.node.push_faults();
    }

    /// Kills running containers of a pod as the kernel's OOM killer does: the container of this name, or all if it is
    /// `None`, unless they started after `until`. Returns their number.
    pub async fn kill_for_memory(
        &self,
        pod: &PodUid,
        container: Option<&str>,
        until: Timestamp,
    ) -> Result<usize, RuntimeError> {
        let Some(sandbox) = self.node.runtime.inspect(pod).await? else { return Ok(0) };
        let mut killed = 0;
        for one in sandbox.containers {
            let is_meant = container.is_none_or(|name| name == one.name);
            if is_meant && one.exit.is_none() && one.started_at <= until {
                self.node.runtime.kill_for_memory(&one.id).await?;
                killed += 1;
            }
        }
        Ok(killed)
    }

    /// Returns true if the kubelet is paused.
    pub fn is_paused(&self) -> bool {
        self.node.tasks.is_paused()
    }

    /// Counts the pods that still have something on the node.
    pub fn live_pods(&self) -> usize {
        self.workers.live_pods(self.name())
    }

    /// Returns true when none of these pods has anything on the node any more; false if the runtime does not respond,
    /// or does not end the containers in time.
    pub async fn wait_pods_removed(&self, pods: &BTreeSet<PodUid>) -> bool {
        let all_removed =
            self.wait_until_empty(|_| {}, || pods.iter().filter(|uid| self.workers.knows(uid)).count());
        tokio::select! {
            () = all_removed => true,
            () = self.shutdown_overdue(ShutdownGrace::Whole) => false,
        }
    }

    /// Ends every pod within its grace period (POD-7), cut at `shutdown_grace_period`, and returns when all have ended;
    /// `progress` gets the number of remaining pods each time it changes. The pods' objects stay, and the pods run
    /// again after the next start.
    ///
    /// Returns false if the runtime does not respond, or does not end the containers. Then the caller must end the
    /// runtime itself.
    pub async fn shutdown(&self, progress: impl FnMut(usize)) -> bool {
        self.close(ShutdownMode::Gracefully);
        let all_removed = self.wait_until_empty(progress, || self.live_pods());
        let ended = tokio::select! {
            () = all_removed => true,
            () = self.shutdown_overdue(ShutdownGrace::Cut) => false,
        };
        if !ended {
            let (node, left) = (self.name(), self.live_pods());
            tracing::warn!(node, "the runtime did not stop {left} pods; stopping its node host instead");
        }
        self.detach().await;
        ended
    }

    /// Returns when `left` returns 0, and reports each change.
    async fn wait_until_empty(&self, mut progress: impl FnMut(usize), left: impl Fn() -> usize) {
        let mut reported = None;
        loop {
            let pod_left = self.workers.pod_removed.notified();
            tokio::pin!(pod_left);
            pod_left.as_mut().enable();
            let left = left();
            if reported != Some(left) {
                progress(left);
                reported = Some(left);
            }
            if left == 0 {
                return;
            }
            pod_left.await;
        }
    }

    /// Returns when terminating pods should have ended by now and the runtime cannot end them: it does not respond, or
    /// it has had the time of a request beyond all grace periods. The check of the runtime begins no later than the
    /// moment at which a shutdown would cut the grace periods.
    async fn shutdown_overdue(&self, which: ShutdownGrace) {
        let (workers, timings) = (&self.workers, &self.workers.context.timings);
        let pods = workers.pods_of(self.name());
        let grace = |pod: &SharedObject<Pod>| match pod.metadata.deletion_grace_period_seconds {
            Some(seconds) => spec::seconds(Some(seconds), 0),
            None => spec::grace(pod),
        };
        let whole = pods.iter().map(grace).max().unwrap_or_default();
        let cut = whole.min(timings.shutdown_grace_period.0);
        tokio::select! {
            () = workers.context.clock.sleep(cut) => {}
            () = self.node.forced() => {}
        }
        let unanswered = async {
            let timeout = timings.runtime_status_timeout.0;
            while let Ok(Ok(())) = tokio::time::timeout(timeout, self.node.runtime.status()).await {
                workers.context.clock.sleep(timings.pleg_relist_period.0).await;
            }
        };
        let left = match which {
            ShutdownGrace::Whole => whole.saturating_sub(cut),
            ShutdownGrace::Cut => Duration::ZERO,
        };
        let late = left.saturating_add(timings.runtime_request_timeout.0);
        let forced = async {
            self.node.forced().await;
            workers.context.clock.sleep(timings.runtime_status_timeout.0).await;
        };
        tokio::select! {
            () = unanswered => {}
            () = forced => {}
            () = workers.context.clock.sleep(late) => {}
        }
    }

    /// Cuts the grace periods of a running [`Kubelet::shutdown`] short: kills everything now.
    pub fn force(&self) {
        self.close(ShutdownMode::Forced);
    }

    fn close(&self, how: ShutdownMode) {
        self.node.close(how);
        self.workers.push_event_to_all(self.name(), &PodEvent::Resync);
    }

    /// Stops the kubelet and leaves its containers running; the next start finds them again (SAFE-7).
    pub async fn detach(&self) {
        self.node.tasks.stop().await;
        self.workers.forget_node(self.name());
    }
}
