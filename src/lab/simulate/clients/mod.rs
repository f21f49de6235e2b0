//! The clients of the cluster: each operation is executed by a client of its own, which reports the response to the
//! checkers.
//!
//! A client learns of a write once it is durable, as over HTTP. A request that has no response when the control plane
//! dies may have been executed or not, and is not repeated.

mod objects;
mod over_http;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ResourceQuota, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::checks::Checks;
use super::plan::{NAMESPACES, Operation, QUOTA_PODS};
use super::world::{ControlPlane, World, node_name};
use api::{Api, ApiError, DeleteOptions, Part, Propagation, WriteOptions};
use extension::node_fence::NodeFence;
use object::pod::{Phase, is_ready, node_name as node_of, phase};
use object::{Key, Kind, Object, Revision, SharedObject, TypedKind};
use objects::{
    class_of_disks, cron_job, daemon_set, deployment, job, make_disks, register_key, service, set_with_disks,
    stateful_set, template,
};

/// The timeout after which a client gives up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Creates the clients' namespaces, and the quota of one of them. Retries until the API accepts them.
pub(super) async fn prepare(world: &World) {
    loop {
        if let Some(plane) = world.plane()
            && let Ok(revision) = make_namespaces(&plane.api)
            && plane.api.durable(revision).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn make_namespaces(api: &Api) -> Result<Revision, ApiError> {
    for name in NAMESPACES {
        ensure(api, typed::<Namespace>(json!({"metadata": {"name": name}})))?;
    }
    let quota = json!({"metadata": {"name": "quota", "namespace": NAMESPACES[1]},
        "spec": {"hard": {"pods": QUOTA_PODS.to_string()}}});
    ensure(api, typed::<ResourceQuota>(quota))?;
    ensure(api, typed::<StorageClass>(class_of_disks()))?;
    Ok(api.revision())
}

fn ensure<T: TypedKind>(api: &Api, value: T) -> Result<(), ApiError> {
    match api.create_as(value) {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the simulator's own objects have their kinds' fields")
}

/// Executes an operation, and reports its result to the checkers.
pub(super) async fn operate(world: Arc<World>, checks: Arc<Checks>, operation: Operation) {
    let Some(plane) = world.plane() else {
        world.trace.record(format!("{operation:?}: no control plane"));
        return;
    };
    let client = Client {
        world: &world,
        checks: &checks,
        api: plane.api.acting_as("simulated-client"),
        plane: &plane,
    };
    let outcome = client.operate(&operation).await;
    world.trace.record(match outcome {
        Ok(text) => format!("{operation:?}: {text}"),
        Err(error) => format!("{operation:?}: failed: {error}"),
    });
}

struct Client<'w> {
    world: &'w World,
    checks: &'w Checks,
    plane: &'w ControlPlane,
    api: Api,
}

type ClientResult = Result<String, String>;

fn refused(error: &ApiError) -> String {
    error.to_string()
}

impl Client<'_> {
    async fn operate(&self, operation: &Operation) -> ClientResult {
        let in_namespace = |namespace: usize, name: String| Key::new(NAMESPACES[namespace], name);
        match operation {
            Operation::Deployment { namespace, name, replicas, version, bounds } => {
                let key = in_namespace(*namespace, format!("web-{name}"));
                let desired: Deployment = typed(deployment(&key, *replicas, *version, *bounds));
                self.checks.rollouts.record_request(&key, i64::from(*replicas), *bounds);
                self.apply(&key, desired, |desired, there: &mut Deployment| there.spec = desired.spec.clone())
                    .await
            }
            Operation::Scale { namespace, name, replicas } => {
                let key = in_namespace(*namespace, format!("web-{name}"));
                self.checks.rollouts.scaled(&key, i64::from(*replicas));
                let options = WriteOptions::default();
                let replicas = i32::from(*replicas);
                let scaled = self.api.change_scale(Kind::Deployment, &key, &options, |mut scale| {
                    scale.spec.get_or_insert_default().replicas = Some(replicas);
                    Ok(scale)
                });
                scaled.map_err(|error| refused(&error))?;
                self.answered(self.api.revision()).await
            }
            Operation::DeleteDeployment { namespace, name, foreground } => {
                let how = if *foreground { Propagation::Foreground } else { Propagation::Background };
                let key = in_namespace(*namespace, format!("web-{name}"));
                self.checks.rollouts.deleted(&key);
                self.delete(Kind::Deployment, &key, Some(how)).await
            }
            Operation::StatefulSet { namespace, replicas, version } => {
                let key = in_namespace(*namespace, "db".into());
                let desired: StatefulSet = typed(stateful_set(&key, *replicas, *version));
                self.apply(&key, desired, |desired, there: &mut StatefulSet| {
                    there.spec.replicas = desired.spec.replicas;
                    there.spec.template = desired.spec.template.clone();
                })
                .await
            }
            Operation::DeleteStatefulSet { namespace } => {
                self.delete(Kind::StatefulSet, &in_namespace(*namespace, "db".into()), None).await
            }
            Operation::Job { namespace, name, completions, seconds } => {
                let key = in_namespace(*namespace, format!("job-{name}"));
                self.create(typed::<Job>(job(&key, *completions, *seconds))).await
            }
            Operation::DeleteJob { namespace, name } => {
                self.delete(Kind::Job, &in_namespace(*namespace, format!("job-{name}")), None).await
            }
            Operation::Budget { namespace, name } => {
                let key = in_namespace(*namespace, format!("web-{name}"));
                let budget = json!({"metadata": {"name": key.name, "namespace": key.namespace},
                    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": key.name}}}});
                self.create(typed::<PodDisruptionBudget>(budget)).await
            }
            Operation::Pod { name } => {
                let mut pod = template("bare", 0, "app:v1");
                pod["metadata"]["name"] = json!(format!("bare-{name}"));
                pod["metadata"]["namespace"] = json!(NAMESPACES[1]);
                let created = self.create(typed::<Pod>(pod)).await;
                if matches!(&created, Err(error) if error.contains("already exists")) {
                    return self.delete(Kind::Pod, &in_namespace(1, format!("bare-{name}")), None).await;
                }
                created
            }
            Operation::Drain { node } => self.drain(*node).await,
            Operation::Uncordon { node } => self.cordon(*node, false).await,
            Operation::CompareAndSwap { register, thinks } => self.compare_and_swap(*register, *thinks).await,
            Operation::Read { register } => {
                let read = self.read(*register).await?;
                Ok(read.map_or("nothing".into(), |read| read.revision().to_string()))
            }
            Operation::DeleteRegister { register } => {
                let key = register_key(*register);
                let deleted = self.api.delete(Kind::ConfigMap, &key, &DeleteOptions::default());
                deleted.map_err(|error| refused(&error))?;
                let revision = self.api.revision();
                self.checks.registers.deleted(&key, revision, self.plane.start_revision);
                self.answered(revision).await
            }
            Operation::Disks { replicas, version } => {
                make_disks(&self.api).map_err(|error| refused(&error))?;
                let desired: StatefulSet = typed(set_with_disks(*replicas, *version));
                let key = Key::of(&desired.metadata);
                self.apply(&key, desired, |desired, there: &mut StatefulSet| {
                    there.spec.replicas = desired.spec.replicas;
                    there.spec.template = desired.spec.template.clone();
                })
                .await
            }
            Operation::DaemonSet { version } => {
                let key = in_namespace(0, "agent".into());
                let desired: DaemonSet = typed(daemon_set(&key, *version));
                self.apply(&key, desired, |desired, there: &mut DaemonSet| {
                    there.spec.template = desired.spec.template.clone();
                })
                .await
            }
            Operation::DeleteDaemonSet => {
                self.delete(Kind::DaemonSet, &in_namespace(0, "agent".into()), None).await
            }
            Operation::CronJob { replaces, seconds } => {
                let key = in_namespace(0, "cron".into());
                let desired: CronJob = typed(cron_job(&key, *replaces, *seconds));
                self.apply(&key, desired, |desired, there: &mut CronJob| there.spec = desired.spec.clone())
                    .await
            }
            Operation::DeleteCronJob => {
                self.delete(Kind::CronJob, &in_namespace(0, "cron".into()), None).await
            }
            Operation::Service { name } => {
                let key = in_namespace(0, format!("web-{name}"));
                self.create(typed::<Service>(service(&key))).await
            }
            Operation::DeleteService { name } => {
                self.delete(Kind::Service, &in_namespace(0, format!("web-{name}")), None).await
            }
            Operation::CompareAndSwapOverHttp { register, thinks } => {
                self.compare_and_swap_over_http(*register, *thinks).await
            }
            Operation::ExitContainer { pod } => {
                self.checks.rollouts.disturbed();
                Ok(self.world.exit_some(usize::from(*pod)).unwrap_or_else(|| "no running container".into()))
            }
        }
    }

    /// Waits until the state written or read at this revision is durable: no client may learn of it before.
    async fn answered(&self, revision: Revision) -> ClientResult {
        match tokio::time::timeout(TIMEOUT, self.plane.api.durable(revision)).await {
            Ok(Ok(())) => Ok(format!("at revision {revision}")),
            Ok(Err(error)) => Err(format!("unknown outcome: {error}")),
            Err(_) => Err("unknown outcome: timed out".into()),
        }
    }

    async fn create<T: TypedKind>(&self, value: T) -> ClientResult {
        let created = self.api.create_as(value).map_err(|error| refused(&error))?;
        self.answered(created.object().revision()).await
    }

    async fn apply<T: TypedKind + Clone>(
        &self,
        key: &Key,
        desired: T,
        edit: impl Fn(&T, &mut T),
    ) -> ClientResult {
        let created = match self.api.create_as(desired.clone()) {
            Err(error) if error.is_already_exists() => self.api.modify::<T>(key, |there| {
                edit(&desired, there);
                Ok(())
            }),
            other => other,
        };
        self.answered(created.map_err(|error| refused(&error))?.object().revision()).await
    }

    async fn delete(&self, kind: Kind, key: &Key, propagation: Option<Propagation>) -> ClientResult {
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        self.api.delete(kind, key, &options).map_err(|error| refused(&error))?;
        self.answered(self.api.revision()).await
    }

    async fn cordon(&self, node: usize, closed: bool) -> ClientResult {
        let written = self.api.modify::<Node>(&Key::new("", node_name(node)), |node| {
            node.spec.get_or_insert_default().unschedulable = closed.then_some(true);
            Ok(())
        });
        self.answered(written.map_err(|error| refused(&error))?.object().revision()).await
    }

    async fn drain(&self, node: usize) -> ClientResult {
        self.cordon(node, true).await?;
        let name = node_name(node);
        let (mut evicted, mut refusals) = (0, 0);
        for pod in self.api.list_as::<Pod>(None).iter().filter(|pod| node_of(pod) == Some(&name)) {
            self.checks.rollouts.disturbed();
            let forbidden = self.budget_that_forbids(pod);
            let outcome = self.api.evict(&pod.key(), &DeleteOptions::default());
            match outcome {
                Ok(()) => evicted += 1,
                Err(_) => refusals += 1,
            }
            if let (Some(budget), Ok(())) = (forbidden, outcome) {
                let message = format!("{} was evicted, though {budget} allows no disruption", pod.key());
                self.world.trace.violation("budgets", message);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(format!("{evicted} evicted, {refusals} refused"))
    }

    /// Returns a budget that currently forbids a disruption of this pod, according to the stored state.
    fn budget_that_forbids(&self, pod: &SharedObject<Pod>) -> Option<Key> {
        let pod = self.api.get_as::<Pod>(&pod.key()).ok()?;
        let going = pod.metadata.deletion_timestamp.is_some();
        if going || phase(&pod) != Phase::Running || !is_ready(&pod) {
            return None;
        }
        let app = pod.metadata.labels.as_ref()?.get("app")?;
        let budget = self.api.get_as::<PodDisruptionBudget>(&Key::new(pod.namespace(), app.as_str())).ok()?;
        let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0);
        (allowed <= 0).then(|| budget.key())
    }

    /// Reads a register, and returns once the version read is durable: no client sees a version that a crash can take
    /// away.
    async fn read(&self, register: u8) -> Result<Option<SharedObject<ConfigMap>>, String> {
        let key = register_key(register);
        let floor = self.checks.registers.floor(&key, self.plane.start_revision);
        let read = match self.api.get_as::<ConfigMap>(&key) {
            Ok(read) => Some(read),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(refused(&error)),
        };
        let shown = read.as_ref().map_or_else(|| self.api.revision(), |read| read.object().revision());
        self.answered(shown).await?;
        if let Some(wrong) =
            self.checks.registers.read(&key, floor, read.as_ref().map(|read| &**read.object()))
        {
            self.world.trace.violation("linearizable objects", wrong);
        }
        Ok(read)
    }

    async fn compare_and_swap(&self, register: u8, thinks: Duration) -> ClientResult {
        let key = register_key(register);
        let before = self.read(register).await?;
        tokio::time::sleep(thinks).await;
        let (expected, written) = match &before {
            None => {
                let new = json!({"metadata": {"name": key.name, "namespace": key.namespace},
                    "data": {"count": "1"}});
                (Revision(0), self.api.create_as(typed::<ConfigMap>(new)).map(|new| new.object().clone()))
            }
            Some(before) => {
                let mut next = ConfigMap::clone(before);
                let data = next.data.get_or_insert_default();
                let count: u64 = data.get("count").and_then(|count| count.parse().ok()).unwrap_or(0);
                data.insert("count".into(), (count + 1).to_string());
                let (next, options) = (Object::new(next), WriteOptions::default());
                (before.object().revision(), self.api.update(&next, Part::Main, &options))
            }
        };
        let written = written.map_err(|error| refused(&error))?;
        let result = self.answered(written.revision()).await?;
        if let Some(wrong) = self.checks.registers.written(&key, expected, &written) {
            self.world.trace.violation("linearizable objects", wrong);
        }
        Ok(result)
    }
}

/// Creates a fence for a node. Returns true if the API accepted it.
pub(super) async fn fence(world: &World, node: &str) -> bool {
    let Some(plane) = world.plane() else { return false };
    let api = plane.api.acting_as("simulated-client");
    let fence = typed::<NodeFence>(json!({"metadata": {"name": node}, "spec": {"reason": "simulation"}}));
    match api.create_as(fence) {
        Ok(created) => {
            // The fence counts even if it does not become durable, because a controller may have acted on it.
            let durable = plane.api.durable(created.object().revision());
            let _ = tokio::time::timeout(TIMEOUT, durable).await;
            true
        }
        Err(error) => {
            world.trace.record(format!("{node} is not fenced: {error}"));
            false
        }
    }
}

/// Deletes a node's fence. Retries until the fence no longer exists.
pub(super) async fn unfence(world: &World, node: &str) {
    loop {
        if let Some(plane) = world.plane() {
            let key = Key::new("", node);
            match plane.api.delete(NodeFence::kind(), &key, &DeleteOptions::default()) {
                Ok(_) => return world.trace.record(format!("{node} is unfenced")),
                Err(error) if error.is_not_found() => return,
                Err(_) => {}
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Prepares the final state after the last fault: suspends CronJobs, uncordons all nodes, and deletes all fences and
/// the pods without a controller.
pub(super) fn tidy(api: &Api) {
    for cron_job in api.list_as::<CronJob>(None) {
        let _ = api.modify::<CronJob>(&cron_job.key(), |cron_job| {
            cron_job.spec.suspend = Some(true);
            Ok(())
        });
    }
    for node in api.list_as::<Node>(None) {
        // The caller tidies again in its next round, so errors are ignored.
        let _ = api.modify::<Node>(&node.key(), |node| {
            node.spec.get_or_insert_default().unschedulable = None;
            Ok(())
        });
    }
    for fence in api.list_as::<NodeFence>(None) {
        if fence.metadata.deletion_timestamp.is_none() {
            let _ = api.delete(NodeFence::kind(), &fence.key(), &DeleteOptions::default());
        }
    }
    for pod in api.list_as::<Pod>(Some(NAMESPACES[1])) {
        if pod.name().starts_with("bare-") && pod.metadata.deletion_timestamp.is_none() {
            let _ = api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default());
        }
    }
}
