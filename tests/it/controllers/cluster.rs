//! A control plane of an API and controllers on virtual time, with a kubelet that acts only on demand.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Namespace, Pod, PodCondition};
use podium::api::{Api, ApiConfig, DeleteOptions, WriteOptions};
use podium::base::clock::Clock;
use podium::base::task::Tasks;
use podium::controllers::{Controllers, Settings};
use podium::object::config::Limits;
use podium::object::node_selector::RequiredNodes;
use podium::object::pod::{Phase, is_active, is_ready, phase};
use podium::object::{Key, Kind, Object, SharedObject, TypedKind};
use podium::reconcile::Caches;
use podium::store::Store;
use serde_json::{Value, json};
use std::time::Duration;

/// The cluster under test.
pub(crate) struct Cluster {
    pub(crate) api: Api,
    pub(crate) store: Store,
    pub(crate) controllers: Controllers,
    pub(crate) caches: Caches,
    pub(crate) tasks: Tasks,
}

/// Disabled where pods run on nodes that have no objects.
pub(crate) const NO_NODES: &[&str] = &["podgc", "nodelifecycle"];

/// Maximum number of turns without an end: a livelock fails the test instead of hanging it.
pub(crate) const MAX_TURNS: usize = 2_000;

/// A StatefulSet recreates a pod that someone else deleted within this time.
pub(crate) const RECREATION_DELAY: Duration = Duration::from_millis(250);

/// A key in the default namespace.
pub(crate) fn key(name: &str) -> Key {
    Key::new("default", name)
}

impl Cluster {
    /// Starts a cluster with all controllers except these, and with the namespace `default`.
    pub(crate) fn start(disabled: &[&str]) -> Self {
        Self::start_with(disabled, Settings::default())
    }

    /// Starts the same cluster with these settings.
    pub(crate) fn start_with(disabled: &[&str], settings: Settings) -> Self {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let store = Store::ephemeral();
        // The number of pods is not limited, because most tests have no nodes for them.
        let limits = Limits { active_pods: Some(0), ..Limits::default() };
        let api = Api::new(store.clone(), clock, ApiConfig { limits, ..ApiConfig::default() });
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        api.create_as(namespace).unwrap();
        let tasks = Tasks::new();
        let caches = Caches::new(&api, &tasks);
        let settings = Settings {
            disabled: disabled.iter().map(ToString::to_string).collect(),
            root_certificate: "the CA".into(),
            ..settings
        };
        let controllers = Controllers::start(&api, &caches, &tasks, settings);
        Self { api, store, controllers, caches, tasks }
    }

    /// Lets virtual time pass until there are no more writes.
    pub(crate) async fn settle(&self) {
        let settled = podium::testing::settle(&self.api, Duration::from_millis(30)).await;
        settled.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Lets this much virtual time pass, then settles.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.settle().await;
    }

    pub(crate) async fn stop(self) {
        self.controllers.stop().await;
        self.tasks.stop().await;
    }

    /// Creates an object from its manifest.
    pub(crate) fn create<T: TypedKind>(&self, manifest: Value) -> SharedObject<T> {
        let object = Object::from_value(T::kind(), manifest).unwrap();
        let created = self.api.create(object, &WriteOptions::default()).unwrap();
        SharedObject::from_object(&created).unwrap()
    }

    pub(crate) fn get<T: TypedKind>(&self, name: &str) -> SharedObject<T> {
        self.api.get_as(&key(name)).unwrap()
    }

    pub(crate) fn change<T: TypedKind>(&self, name: &str, mut edit: impl FnMut(&mut T)) {
        self.api
            .modify::<T>(&key(name), |value| {
                edit(value);
                Ok(())
            })
            .unwrap();
    }

    pub(crate) fn pods(&self) -> Vec<SharedObject<Pod>> {
        self.api.list_as(Some("default"))
    }

    /// Deletes every pod as soon as it exists, for this much virtual time; returns their number.
    pub(crate) async fn delete_new_pods_for(&self, span: Duration) -> usize {
        let (mut removed, start) = (0, tokio::time::Instant::now());
        while start.elapsed() < span {
            for pod in self.pods() {
                removed += 1;
                self.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::uid(pod.uid())).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        removed
    }

    /// Formats the ReplicaSets by revision as `name-hash:size/available`, without the hash.
    pub(crate) fn sets(&self) -> String {
        let mut sets = self.api.list_as::<ReplicaSet>(Some("default"));
        let revision = |set: &ReplicaSet| {
            let annotations = set.metadata.annotations.clone().unwrap_or_default();
            annotations
                .get("deployment.kubernetes.io/revision")
                .and_then(|r| r.parse::<i64>().ok())
                .unwrap_or(0)
        };
        sets.sort_by_key(|set| revision(set));
        let described = sets.iter().map(|set| {
            let available = set.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
            format!("{}:{}/{available}", revision(set), set.spec.replicas.unwrap_or(1))
        });
        described.collect::<Vec<_>>().join(" ")
    }

    /// Formats a Deployment's conditions as `type=status reason`.
    pub(crate) fn conditions(&self, deployment: &str) -> Vec<String> {
        let deployment = self.get::<Deployment>(deployment);
        let mut conditions: Vec<String> = deployment
            .status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten())
            .map(|c| {
                let text = |o: &Option<String>| o.clone().unwrap_or_default();
                format!("{}={} {}", text(&c.type_), text(&c.status), text(&c.reason))
            })
            .collect();
        conditions.sort();
        conditions
    }

    /// The messages of events with this reason, oldest first.
    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
        let mut events = self.api.list_as::<Event>(Some("default"));
        events.sort_by_key(|e| e.object().revision());
        let of_reason = events.iter().filter(|e| e.reason.as_deref() == Some(reason));
        of_reason.map(|e| e.message.clone().unwrap_or_default()).collect()
    }

    /// Makes the kubelet's next step for this pod. Returns false if there is none.
    pub(crate) fn act_on(&self, pod: &SharedObject<Pod>) -> bool {
        if pod.metadata.deletion_timestamp.is_some() {
            let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(pod.uid()) };
            return self.api.delete(Kind::Pod, &pod.key(), &now).is_ok();
        }
        if pod.spec.as_ref().is_none_or(|s| s.node_name.is_none()) {
            let required = pod.spec.as_ref().map(RequiredNodes::of).unwrap_or_default();
            let named = required.names().and_then(|names| names.first().copied());
            return self.api.bind(&pod.key(), pod.uid(), named.unwrap_or("n1")).is_ok();
        }
        let bad = pod.spec.iter().flat_map(|s| &s.containers).any(|c| c.image.as_deref() == Some("bad"));
        if is_active(pod) && !is_ready(pod) && !bad {
            self.set_ready(pod, true);
            return true;
        }
        if phase(pod) == Phase::Pending {
            self.set_ready(pod, false);
            return true;
        }
        false
    }

    /// Lets the kubelet act and the cluster settle until nothing is left to do.
    pub(crate) async fn run(&self) {
        self.run_with(|| ()).await;
    }

    /// Does the same, with a callback before each turn.
    pub(crate) async fn run_with(&self, mut look: impl FnMut()) {
        let mut was_idle = false;
        for _ in 0..MAX_TURNS {
            self.settle().await;
            look();
            let acted: Vec<bool> = self.pods().iter().map(|pod| self.act_on(pod)).collect();
            let is_idle = !acted.contains(&true);
            if is_idle && was_idle {
                return;
            }
            if is_idle {
                tokio::time::sleep(RECREATION_DELAY).await;
            }
            was_idle = is_idle;
        }
        panic!("the kubelet always finds something to do");
    }

    /// Sets the pod's status to running since now, and ready or not.
    pub(crate) fn set_ready(&self, pod: &SharedObject<Pod>, ready: bool) {
        let now = self.api.clock().time();
        self.api
            .modify_status::<Pod>(&pod.key(), |pod| {
                let status = pod.status.get_or_insert_default();
                status.phase = Some("Running".into());
                status.pod_ip = Some("127.1.0.1".into());
                let conditions = status.conditions.get_or_insert_default();
                conditions.retain(|c| c.type_ != "Ready");
                conditions.push(PodCondition {
                    type_: "Ready".into(),
                    status: if ready { "True" } else { "False" }.into(),
                    last_transition_time: Some(now.clone()),
                    ..PodCondition::default()
                });
                Ok(())
            })
            .unwrap();
    }

    /// Ends the pod's only container with this exit code; it is not restarted.
    pub(crate) fn end(&self, pod: &SharedObject<Pod>, exit_code: i32) {
        let now = self.api.clock().time();
        let ended: ContainerStatus = serde_json::from_value(json!({"name": "c", "image": "", "imageID": "",
            "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": exit_code, "finishedAt": now}}}))
        .unwrap();
        self.api
            .modify_status::<Pod>(&pod.key(), |pod| {
                let status = pod.status.get_or_insert_default();
                status.phase = Some(if exit_code == 0 { "Succeeded" } else { "Failed" }.into());
                status.container_statuses = Some(vec![ended.clone()]);
                status.conditions = None;
                Ok(())
            })
            .unwrap();
    }

    /// Fails the pod: its processes die and are not restarted.
    pub(crate) fn fail(&self, pod: &SharedObject<Pod>) {
        self.api
            .modify_status::<Pod>(&pod.key(), |pod| {
                let status = pod.status.get_or_insert_default();
                status.phase = Some("Failed".into());
                status.conditions = None;
                Ok(())
            })
            .unwrap();
    }
}

/// Runs one random sequence on a virtual clock of its own.
pub(crate) fn on_virtual_time(play: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(play);
}

/// A Deployment of `app=NAME` pods with absolute bounds.
pub(crate) fn deployment(name: &str, replicas: i32, surge: i32, unavailable: i32) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1.7.9"}]}}}})
}

/// Changes the image of a Deployment's container.
pub(crate) fn set_image(deployment: &mut Deployment, image: &str) {
    let spec = deployment.spec.template.spec.as_mut().unwrap();
    spec.containers[0].image = Some(image.into());
}
