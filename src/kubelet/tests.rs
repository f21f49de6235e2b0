//! Scenarios: pods on a node without processes, under virtual time, through the real API.

mod image_pulls;

use std::fmt::Write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node as NodeObject, Pod, PodStatus};
use serde_json::{Value, json};

use super::images::Catalogue;
use super::runtime::hollow::{HollowConfig, HollowRuntime};
use super::runtime::{ContainerId, Runtime};
use super::*;
use crate::api::{AddressRange, ApiConfig, DeleteOptions};
use crate::base::clock::Clock;
use crate::object::{Key, Kind, Shared};
use crate::store::Store;

struct Scene {
    api: Api,
    tasks: Tasks,
    kubelets: Kubelets,
    kubelet: Kubelet,
    runtime: Arc<HollowRuntime>,
}

fn config() -> NodeConfig {
    NodeConfig {
        name: "n1".into(),
        zone: Some("z1".into()),
        region: None,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        ip: [127, 1, 0, 1].into(),
        pod_range: AddressRange { base: [127, 1, 0, 0].into(), bits: 8 },
        capacity: BTreeMap::new(),
        pods_dir: "/nonexistent".into(),
        hollow: true,
        low_ports: crate::object::low_ports::LowPorts::default(),
        dns: None,
        domain: "cluster.local".into(),
    }
}

impl Scene {
    async fn new() -> Self {
        Self::with(HollowConfig::default()).await
    }

    async fn with(hollow: HollowConfig) -> Self {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock.clone(), ApiConfig::default());
        for name in ["default", "kube-node-lease"] {
            let _ = api.create_as(namespace(name));
        }
        let tasks = Tasks::new();
        let caches = Caches::new(&api, &tasks);
        let wall = Arc::new(move || clock.now());
        let catalogue = Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
        let runtime = Arc::new(HollowRuntime::new(hollow, catalogue, wall));
        let kubelets = Kubelets::new(&api, &caches, &tasks);
        let kubelet = kubelets.start_node(config(), runtime.clone()).await.unwrap();
        Self { api, tasks, kubelets, kubelet, runtime }
    }

    fn create(&self, spec: Value) -> Key {
        self.create_named("p", spec)
    }

    fn create_named(&self, name: &str, mut spec: Value) -> Key {
        spec["nodeName"] = json!("n1");
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if container.get("image").is_none() {
                    container["image"] = json!("app:v1");
                }
            }
        }
        let pod = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        self.api.create_as::<Pod>(serde_json::from_value(pod).unwrap()).unwrap().key()
    }

    fn pod(&self, key: &Key) -> Shared<Pod> {
        self.api.get_as(key).unwrap()
    }

    fn status(&self, key: &Key) -> PodStatus {
        self.pod(key).status.clone().unwrap_or_default()
    }

    /// Waits until the pod's status is so; virtual time makes a far deadline cheap.
    async fn until(&self, key: &Key, what: &str, mut is: impl FnMut(&PodStatus) -> bool) {
        let waiting = async {
            while !is(&self.status(key)) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let over = tokio::time::timeout(Duration::from_hours(1), waiting).await;
        let told = || format!("{}\n{}", show(&self.status(key)), self.events().join("\n"));
        assert!(over.is_ok(), "never {what}: {}", told());
    }

    async fn until_gone(&self, key: &Key) {
        let waiting = async {
            while self.api.get(Kind::Pod, key).is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), waiting).await.expect("the pod goes");
    }

    /// The events in the order of their first telling: `reason: message ×count`.
    fn events(&self) -> Vec<String> {
        let mut events = self.api.list_as::<Event>(Some("default"));
        events.sort_by_key(|e| e.object().revision());
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        events.iter().map(|e| format!("{}: {}", text(&e.reason), text(&e.message))).collect()
    }

    async fn running_id(&self, key: &Key, container: &str) -> ContainerId {
        let uid = self.pod(key).uid().to_string();
        let sandbox = self.runtime.inspect(&uid).await.unwrap().unwrap();
        let record = sandbox.containers.iter().rfind(|c| c.name == container && c.exit.is_none());
        record.map_or_else(|| panic!("{container} does not run"), |c| c.id.clone())
    }

    async fn exit(&self, key: &Key, container: &str, code: i32) {
        let id = self.running_id(key, container).await;
        self.runtime.exit_container(&id, code);
    }

    fn seconds(&self) -> u64 {
        self.api.clock().monotonic().as_secs()
    }
}

fn namespace(name: &str) -> k8s_openapi::api::core::v1::Namespace {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// `Phase c=state/restarts …`
fn show(status: &PodStatus) -> String {
    let mut out = status.phase.clone().unwrap_or_default();
    let lists =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    for container in lists.into_iter().flatten().flatten() {
        let state = container.state.clone().unwrap_or_default();
        let state = if let Some(waiting) = state.waiting {
            waiting.reason.unwrap_or_default()
        } else if let Some(ended) = state.terminated {
            format!("{}({})", ended.reason.unwrap_or_default(), ended.exit_code)
        } else if container.ready {
            "ready".into()
        } else {
            "running".into()
        };
        write!(out, " {}={state}/{}", container.name, container.restart_count).unwrap();
    }
    out
}

fn is_ready(status: &PodStatus) -> bool {
    condition(status, "Ready") == "True"
}

fn condition(status: &PodStatus, type_: &str) -> String {
    let found = status.conditions.iter().flatten().find(|c| c.type_ == type_);
    found.map_or_else(String::new, |c| match &c.reason {
        Some(reason) => format!("{} {reason}", c.status),
        None => c.status.clone(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_and_renews_its_lease_node_1() {
    let scene = Scene::new().await;
    let node = scene.api.get_as::<NodeObject>(&Key::new("", "n1")).unwrap();
    let ready =
        node.status.as_ref().unwrap().conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("True", Some("KubeletReady")));
    assert_eq!(node.metadata.labels.as_ref().unwrap()["topology.kubernetes.io/zone"], "z1");
    assert_eq!(node.spec.as_ref().unwrap().pod_cidr.as_deref(), Some("127.1.0.0/24"));
    tokio::time::sleep(Duration::from_secs(35)).await;
    let lease: Shared<k8s_openapi::api::coordination::v1::Lease> =
        scene.api.get_as(&Key::new("kube-node-lease", "n1")).unwrap();
    assert_eq!(
        lease.spec.as_ref().unwrap().renew_time.as_ref().unwrap().0.to_string(),
        "2026-11-21T00:00:30Z"
    );
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_to_a_node_that_stops_does_not_start_and_holds_nobody_up_cli_5() {
    let scene = Scene::new().await;
    let hook = json!({"preStop": {"sleep": {"seconds": 5}}});
    let running = scene.create(json!({"containers": [{"name": "a", "lifecycle": hook}]}));
    scene.until(&running, "ready", is_ready).await;
    let mut left = Vec::new();
    let stopping = scene.kubelet.shutdown(|n| left.push(n));
    let late = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.create_named("late", json!({"containers": [{"name": "a"}]}))
    };
    let both = tokio::time::timeout(Duration::from_mins(1), futures::future::join(stopping, late));
    let ((), late) = both.await.expect("the node ends");
    assert_eq!(scene.seconds(), 5, "the hook has its time");
    let uid = scene.pod(&late).uid().to_string();
    assert!(scene.runtime.inspect(&uid).await.unwrap().is_none(), "nothing of it was started");
    assert_eq!(scene.status(&late).phase.as_deref(), Some("Pending"), "it waits for the next start");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_ready_in_one_write_and_goes_when_deleted_pod_7() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    let created = scene.pod(&key).object().revision();
    scene.until(&key, "ready", is_ready).await;
    let status = scene.status(&key);
    assert_eq!(show(&status), "Running a=ready/0 b=ready/0");
    assert_eq!(status.pod_ip.as_deref(), Some("127.1.0.2"));
    assert_eq!(status.host_ip.as_deref(), Some("127.1.0.1"));
    assert!(status.start_time.is_some() && status.observed_generation == Some(1));
    let id = status.container_statuses.as_ref().unwrap()[0].container_id.clone().unwrap();
    assert!(id.starts_with("podium://"), "{id}");
    assert!(created < scene.pod(&key).object().revision());
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    scene.until_gone(&key).await;
    assert!(scene.runtime.list().await.unwrap().is_empty());
    let events = scene.events();
    for expected in [
        "Pulling: Pulling image \"app:v1\"",
        "Created: Created container: a",
        "Started: Started container a",
        "Killing: Stopping container b",
    ] {
        assert!(events.contains(&expected.to_string()), "{expected} in {events:#?}");
    }
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crashing_container_backs_off_and_good_running_forgives_it_pod_4() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "ready", is_ready).await;
    let mut waits = Vec::new();
    for restarts in 1..=7 {
        scene.exit(&key, "a", 1).await;
        let from = scene.seconds();
        scene.until(&key, "restarted", |s| show(s) == format!("Running a=ready/{restarts}")).await;
        waits.push(scene.seconds() - from);
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300]);
    scene.exit(&key, "a", 1).await;
    scene.until(&key, "backing off", |s| show(s).contains("CrashLoopBackOff")).await;
    let status = scene.status(&key);
    let container = &status.container_statuses.as_ref().unwrap()[0];
    let waiting = container.state.as_ref().unwrap().waiting.as_ref().unwrap();
    let uid = scene.pod(&key).uid().to_string();
    assert_eq!(
        waiting.message.clone().unwrap(),
        format!("back-off 5m0s restarting failed container=a pod=p_default({uid})")
    );
    assert_eq!(container.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 1);
    assert_eq!(condition(&status, "Ready"), "False ContainersNotReady");
    scene.until(&key, "running", |s| show(s) == "Running a=ready/8").await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    scene.exit(&key, "a", 1).await;
    let from = scene.seconds();
    scene.until(&key, "running at once", |s| show(s) == "Running a=ready/9").await;
    assert_eq!(scene.seconds(), from);
    let records = scene.runtime.inspect(&uid).await.unwrap().unwrap().containers.len();
    assert_eq!(records, 2, "only the last two attempts are kept");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_a_sidecar_stays_init_1() {
    let scene = Scene::new().await;
    let key = scene.create(json!({
        "initContainers": [{"name": "i1"}, {"name": "side", "restartPolicy": "Always"}, {"name": "i2"}],
        "containers": [{"name": "a"}], "restartPolicy": "Never"}));
    scene.until(&key, "first", |s| show(s).starts_with("Pending i1=running")).await;
    assert_eq!(
        show(&scene.status(&key)),
        "Pending i1=running/0 side=PodInitializing/0 i2=PodInitializing/0 a=PodInitializing/0"
    );
    assert_eq!(condition(&scene.status(&key), "Initialized"), "False ContainersNotInitialized");
    scene.exit(&key, "i1", 0).await;
    scene.until(&key, "second", |s| show(s).contains("i2=running")).await;
    assert_eq!(
        show(&scene.status(&key)),
        "Pending i1=Completed(0)/0 side=ready/0 i2=running/0 a=PodInitializing/0"
    );
    scene.exit(&key, "i2", 0).await;
    scene.until(&key, "ready", is_ready).await;
    scene.exit(&key, "side", 3).await;
    scene.until(&key, "sidecar again", |s| show(s).contains("side=ready/1")).await;
    scene.exit(&key, "a", 0).await;
    scene.until(&key, "done", |s| s.phase.as_deref() == Some("Succeeded")).await;
    assert_eq!(
        show(&scene.status(&key)),
        "Succeeded i1=Completed(0)/0 side=Completed(0)/1 i2=Completed(0)/0 a=Completed(0)/0"
    );
    assert_eq!(condition(&scene.status(&key), "Ready"), "False PodCompleted");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_backs_off_img_1() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"containers": [{"name": "a", "image": "nginx:1.91"}, {"name": "b"}]}));
    scene.until(&key, "pull error", |s| show(s).contains("a=ErrImagePull")).await;
    scene.until(&key, "pull back-off", |s| show(s).contains("a=ImagePullBackOff")).await;
    assert_eq!(show(&scene.status(&key)), "Pending a=ImagePullBackOff/0 b=ready/0");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let events = scene.events();
    assert!(events.contains(&"BackOff: Back-off pulling image \"nginx:1.91\"".to_string()), "{events:#?}");
    assert!(events.contains(&"Failed: Error: ImagePullBackOff".to_string()));
    scene
        .api
        .modify::<Pod>(&key, |pod| {
            pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:1.9.1".into());
            Ok(())
        })
        .unwrap();
    scene.until(&key, "ready with the good image", is_ready).await;
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_config_map_is_waited_for_pod_13() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"containers": [{"name": "a",
        "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}]}));
    scene.until(&key, "config error", |s| show(s).contains("CreateContainerConfigError")).await;
    let map = json!({"metadata": {"name": "m", "namespace": "default"}, "data": {"k": "v"}});
    scene
        .api
        .create_as::<k8s_openapi::api::core::v1::ConfigMap>(serde_json::from_value(map).unwrap())
        .unwrap();
    scene.until(&key, "ready", is_ready).await;
    let events = scene.events();
    assert!(events.contains(&"Failed: Error: configmap \"m\" not found".to_string()), "{events:#?}");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_pod_ends_by_deadline_and_hooks_share_the_grace_pod_6_pod_7() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"terminationGracePeriodSeconds": 20, "containers": [
        {"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
        {"name": "b", "lifecycle": {"preStop": {"sleep": {"seconds": 19}}}}]}));
    scene.until(&key, "ready", is_ready).await;
    let from = scene.seconds();
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    scene.until(&key, "a ended", |s| show(s).contains("a=Completed(0)")).await;
    assert_eq!(scene.seconds() - from, 5);
    scene.until_gone(&key).await;
    assert_eq!(scene.seconds() - from, 19);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_grace_can_be_shortened_and_a_forced_pod_is_killed_by_the_node_pod_8() {
    let scene = Scene::new().await;
    let hook = json!({"containers": [{"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 500}}}}],
        "terminationGracePeriodSeconds": 600});
    let key = scene.create(hook.clone());
    scene.until(&key, "ready", is_ready).await;
    let from = scene.seconds();
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let sooner = DeleteOptions { grace_period_seconds: Some(15), ..DeleteOptions::default() };
    scene.api.delete(Kind::Pod, &key, &sooner).unwrap();
    scene.until_gone(&key).await;
    assert_eq!(scene.seconds() - from, 15);

    let key = scene.create(hook);
    scene.until(&key, "ready", is_ready).await;
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    scene.api.delete(Kind::Pod, &key, &now).unwrap();
    assert!(scene.api.get(Kind::Pod, &key).is_err(), "the object is gone at once");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(scene.runtime.list().await.unwrap().is_empty());
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_fails_the_pod_pod_9() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"activeDeadlineSeconds": 30, "containers": [{"name": "a"}]}));
    scene.until(&key, "failed", |s| s.phase.as_deref() == Some("Failed")).await;
    assert_eq!(scene.seconds(), 30);
    assert_eq!(scene.status(&key).reason.as_deref(), Some("DeadlineExceeded"));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_kubelet_finds_its_containers_again_safe_7() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"containers": [{"name": "a",
        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 5}}]}));
    scene.until(&key, "ready", is_ready).await;
    let before = scene.status(&key);
    let lost = scene.create_named("lost", json!({"containers": [{"name": "a"}]}));
    scene.until(&lost, "ready", is_ready).await;
    scene.kubelet.detach().await;
    let uid = scene.pod(&lost).uid().to_string();
    scene.runtime.remove_sandbox(&uid).await.unwrap();
    let again = scene.kubelets.start_node(config(), scene.runtime.clone()).await.unwrap();
    scene.until(&lost, "restarted", |s| show(s) == "Running a=ready/1").await;
    assert_eq!(scene.status(&key), before, "what ran is neither restarted nor unready");
    assert_eq!(scene.status(&lost).pod_ip.as_deref(), Some("127.1.0.3"));
    again.shutdown(|_| {}).await;
    assert!(scene.runtime.list().await.unwrap().is_empty());
    assert!(scene.api.get(Kind::Pod, &key).is_ok(), "the objects stay for the next start");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_api_does_not_know_is_killed_at_start_safe_3() {
    let scene = Scene::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "ready", is_ready).await;
    scene.kubelet.detach().await;
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    scene.api.delete(Kind::Pod, &key, &now).unwrap();
    let _again = scene.kubelets.start_node(config(), scene.runtime.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(scene.runtime.list().await.unwrap().is_empty());
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn readiness_gates_hold_back_ready_pod_2() {
    let scene = Scene::new().await;
    let key =
        scene.create(json!({"readinessGates": [{"conditionType": "lb"}], "containers": [{"name": "a"}]}));
    scene.until(&key, "containers ready", |s| condition(s, "ContainersReady") == "True").await;
    assert_eq!(condition(&scene.status(&key), "Ready"), "False ReadinessGatesNotReady");
    scene
        .api
        .modify_status::<Pod>(&key, |pod| {
            let gate = json!({"type": "lb", "status": "True"});
            let conditions = pod.status.as_mut().unwrap().conditions.get_or_insert_default();
            conditions.push(serde_json::from_value(gate).unwrap());
            Ok(())
        })
        .unwrap();
    scene.until(&key, "ready", is_ready).await;
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_is_told_and_backs_off_pod_3() {
    let scene = Scene::with(HollowConfig { start_failure_rate: 1.0, ..HollowConfig::default() }).await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "crash loop", |s| show(s).contains("a=CrashLoopBackOff")).await;
    let status = scene.status(&key);
    let last = status.container_statuses.as_ref().unwrap()[0].last_state.clone().unwrap().terminated.unwrap();
    assert_eq!((last.reason.as_deref(), last.exit_code), (Some("StartError"), 128));
    assert_eq!(status.phase.as_deref(), Some("Running"), "{}", show(&status));
    scene.tasks.stop().await;
}
