//! Scenarios: pods on a node without processes, under virtual time, through the real API.

mod addresses;
mod disk_pressure;
mod durability;
mod early_deletes;
mod environments;
mod hook_events;
mod image_pulls;
mod image_volumes;
mod mounts;
mod registrations;
mod registry_pulls;
mod resizes;
mod runtime_classes;
mod silent_runtimes;
mod stepped_clocks;
mod volume_updates;

use std::fmt::Write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Node as NodeObject, Pod, PodStatus};
use serde_json::{Value, json};

use super::runtime::hollow::{HollowConfig, HollowLoad, HollowRuntime};
use super::runtime::{ContainerId, Runtime};
use super::*;
use api::{ApiConfig, DeleteOptions};
use base::clock::Clock;
use images::Catalogue;
use ipnet::Ipv4Net;
use object::config::Seconds;
use object::{Key, Kind, SharedObject};
use store::Store;

struct KubeletFixture {
    api: Api,
    tasks: Tasks,
    kubelets: Kubelets,
    kubelet: Kubelet,
    runtime: Arc<HollowRuntime>,
}

pub(super) fn config() -> NodeConfig {
    NodeConfig {
        name: "n1".into(),
        zone: Some("z1".into()),
        region: None,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        ip: [127, 1, 0, 1].into(),
        pod_range: Ipv4Net::new_assert([127, 1, 0, 0].into(), 24),
        ipv6: None,
        capacity: BTreeMap::new(),
        pods_dir: "/nonexistent".into(),
        seccomp_dir: "/nonexistent".into(),
        hollow: true,
        static_pods: Vec::new(),
        eviction: pressure::EvictionConfig::default(),
        low_ports: object::low_ports::LowPorts::default(),
        network_note: None,
        users_note: None,
        dns: None,
        domain: "cluster.local".into(),
    }
}

impl KubeletFixture {
    async fn new() -> Self {
        Self::with(HollowConfig::default()).await
    }

    async fn with(hollow: HollowConfig) -> Self {
        Self::start(hollow, config()).await
    }

    async fn with_capacity(capacity: Value) -> Self {
        let config = NodeConfig { capacity: serde_json::from_value(capacity).unwrap(), ..config() };
        Self::start(HollowConfig::default(), config).await
    }

    async fn start(hollow: HollowConfig, config: NodeConfig) -> Self {
        Self::over(Store::ephemeral(), hollow, config).await
    }

    async fn over(store: Store, hollow: HollowConfig, config: NodeConfig) -> Self {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(store, clock.clone(), ApiConfig::default());
        for name in ["default", "kube-node-lease"] {
            let _ = api.create_as(namespace(name));
        }
        // The object that the controllers of a whole cluster would create.
        let certificate = json!({"metadata": {"name": "kube-root-ca.crt", "namespace": "default"},
            "data": {"ca.crt": "PEM"}});
        api.create_as::<ConfigMap>(serde_json::from_value(certificate).unwrap()).unwrap();
        let tasks = Tasks::new();
        let caches = Caches::new(&api, &tasks);
        let wall = Arc::new(move || clock.now());
        let catalogue = Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
        let runtime = Arc::new(HollowRuntime::new(hollow, catalogue, wall));
        let kubelets = Kubelets::new(&api, &caches, &tasks);
        let kubelet = kubelets.start_node(config, runtime.clone()).await.unwrap();
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

    fn pod(&self, key: &Key) -> SharedObject<Pod> {
        self.api.get_as(key).unwrap()
    }

    fn status(&self, key: &Key) -> PodStatus {
        self.pod(key).status.clone().unwrap_or_default()
    }

    /// Waits until the pod's status meets the expectation; virtual time makes a long timeout cheap.
    async fn until(&self, key: &Key, expectation: &str, mut is: impl FnMut(&PodStatus) -> bool) {
        let waiting = async {
            while !is(&self.status(key)) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let over = tokio::time::timeout(Duration::from_hours(1), waiting).await;
        let describe = || format!("{}\n{}", show(&self.status(key)), self.events().join("\n"));
        assert!(over.is_ok(), "never {expectation}: {}", describe());
    }

    async fn until_deleted(&self, key: &Key) {
        let waiting = async {
            while self.api.get(Kind::Pod, key).is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), waiting).await.expect("the pod goes");
    }

    /// Returns the events in the order of their first occurrence: `reason: message ×count`.
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

/// Formats a status as `Phase c=state/restarts …`.
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
    let scene = KubeletFixture::new().await;
    let node = scene.api.get_as::<NodeObject>(&Key::new("", "n1")).unwrap();
    let ready =
        node.status.as_ref().unwrap().conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("True", Some("KubeletReady")));
    assert_eq!(node.metadata.labels.as_ref().unwrap()["topology.kubernetes.io/zone"], "z1");
    assert_eq!(node.spec.as_ref().unwrap().pod_cidr.as_deref(), Some("127.1.0.0/24"));
    tokio::time::sleep(Duration::from_secs(35)).await;
    let lease: SharedObject<k8s_openapi::api::coordination::v1::Lease> =
        scene.api.get_as(&Key::new("kube-node-lease", "n1")).unwrap();
    assert_eq!(
        lease.spec.as_ref().unwrap().renew_time.as_ref().unwrap().0.to_string(),
        "2026-11-21T00:00:30Z"
    );
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_to_a_stopping_node_does_not_start_or_delay_shutdown_cli_5() {
    let scene = KubeletFixture::new().await;
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
    let (ended, late) = both.await.expect("the node ends");
    assert!(ended, "by itself");
    assert_eq!(scene.seconds(), 5, "the hook has its time");
    let uid = scene.pod(&late).uid().to_string();
    assert!(scene.runtime.inspect(&uid).await.unwrap().is_none(), "nothing of it was started");
    assert_eq!(scene.status(&late).phase.as_deref(), Some("Pending"), "it waits for the next start");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_ready_in_one_write_and_goes_when_deleted_pod_7() {
    let scene = KubeletFixture::new().await;
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
    scene.until_deleted(&key).await;
    assert!(scene.runtime.list().await.unwrap().is_empty());
    let events = scene.events();
    for expected in [
        "Pulled: Container image \"app:v1\" already present on machine and can be accessed by the pod",
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
    let scene = KubeletFixture::new().await;
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
    assert_eq!(records, 2, "only the records of the last two attempts remain");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_a_sidecar_stays_init_1() {
    let scene = KubeletFixture::new().await;
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
    let scene = KubeletFixture::new().await;
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
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a",
        "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}]}));
    scene.until(&key, "config error", |s| show(s).contains("CreateContainerConfigError")).await;
    let map = json!({"metadata": {"name": "m", "namespace": "default"}, "data": {"k": "v"}});
    scene.api.create_as::<ConfigMap>(serde_json::from_value(map).unwrap()).unwrap();
    scene.until(&key, "ready", is_ready).await;
    let events = scene.events();
    assert!(events.contains(&"Failed: Error: configmap \"m\" not found".to_string()), "{events:#?}");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_pod_ends_by_deadline_and_hooks_share_the_grace_pod_6_pod_7() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"terminationGracePeriodSeconds": 20, "containers": [
        {"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
        {"name": "b", "lifecycle": {"preStop": {"sleep": {"seconds": 19}}}}]}));
    scene.until(&key, "ready", is_ready).await;
    let from = scene.seconds();
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    scene.until(&key, "a ended", |s| show(s).contains("a=Completed(0)")).await;
    assert_eq!(scene.seconds() - from, 5);
    scene.until_deleted(&key).await;
    assert_eq!(scene.seconds() - from, 19);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_grace_can_be_shortened_and_a_forced_pod_is_killed_by_the_node_pod_8() {
    let scene = KubeletFixture::new().await;
    let hook = json!({"containers": [{"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 500}}}}],
        "terminationGracePeriodSeconds": 600});
    let key = scene.create(hook.clone());
    scene.until(&key, "ready", is_ready).await;
    let from = scene.seconds();
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let sooner = DeleteOptions { grace_period_seconds: Some(15), ..DeleteOptions::default() };
    scene.api.delete(Kind::Pod, &key, &sooner).unwrap();
    scene.until_deleted(&key).await;
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
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"activeDeadlineSeconds": 30, "containers": [{"name": "a"}]}));
    scene.until(&key, "failed", |s| s.phase.as_deref() == Some("Failed")).await;
    assert_eq!(scene.seconds(), 30);
    assert_eq!(scene.status(&key).reason.as_deref(), Some("DeadlineExceeded"));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_kubelet_finds_its_containers_again_safe_7() {
    let scene = KubeletFixture::new().await;
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
    assert_eq!(scene.status(&key), before, "the running pod is neither restarted nor unready");
    assert_eq!(scene.status(&lost).pod_ip.as_deref(), Some("127.1.0.3"));
    again.shutdown(|_| {}).await;
    assert!(scene.runtime.list().await.unwrap().is_empty());
    assert!(scene.api.get(Kind::Pod, &key).is_ok(), "the objects stay for the next start");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_initial_delay_of_a_probe_counts_from_the_start_of_the_container_pod_5_pod_6() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a",
        "lifecycle": {"postStart": {"sleep": {"seconds": 20}}},
        "readinessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 15}}]}));
    scene.until(&key, "ready", is_ready).await;
    assert_eq!(scene.seconds(), 20, "the hook has taken longer than the delay");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn containers_unknown_to_the_api_are_killed_at_start_safe_3() {
    let scene = KubeletFixture::new().await;
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
    let scene = KubeletFixture::new().await;
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
async fn a_failed_start_is_reported_and_backs_off_pod_3() {
    let scene =
        KubeletFixture::with(HollowConfig { start_failure_rate: 1.0, ..HollowConfig::default() }).await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "crash loop", |s| show(s).contains("a=CrashLoopBackOff")).await;
    let status = scene.status(&key);
    let last = status.container_statuses.as_ref().unwrap()[0].last_state.clone().unwrap().terminated.unwrap();
    assert_eq!((last.reason.as_deref(), last.exit_code), (Some("StartError"), 128));
    assert_eq!(status.phase.as_deref(), Some("Running"), "{}", show(&status));
    scene.tasks.stop().await;
}

/// The events of a node, as `reason: message`, in order.
fn node_events(scene: &KubeletFixture) -> Vec<String> {
    let mut events = scene.api.list_as::<Event>(Some("default"));
    events.retain(|e| e.involved_object.kind.as_deref() == Some("Node"));
    events.sort_by_key(|e| e.object().revision());
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    events.iter().map(|e| format!("{}: {}", text(&e.reason), text(&e.message))).collect()
}

fn node_condition(scene: &KubeletFixture, type_: &str) -> String {
    let node = scene.api.get_as::<NodeObject>(&Key::new("", "n1")).unwrap();
    let found = node.status.iter().flat_map(|s| s.conditions.iter().flatten()).find(|c| c.type_ == type_);
    found.map_or_else(String::new, |c| format!("{} {}", c.status, c.reason.clone().unwrap_or_default()))
}

#[tokio::test(start_paused = true)]
async fn a_node_short_of_memory_gives_up_the_greediest_pod_first_node_4() {
    let scene = KubeletFixture::new().await;
    let requests = |memory: &str| json!({"requests": {"memory": memory}});
    let greedy =
        scene.create_named("greedy", json!({"containers": [{"name": "c", "resources": requests("10Mi")}]}));
    let modest =
        scene.create_named("modest", json!({"containers": [{"name": "c", "resources": requests("500Mi")}]}));
    let bound = scene.create_named(
        "bound",
        json!({"terminationGracePeriodSeconds": 300,
        "containers": [{"name": "c", "resources": requests("1Mi")}]}),
    );
    for (key, megabytes) in [(&greedy, 300), (&modest, 400), (&bound, 2)] {
        scene.until(key, "ready", is_ready).await;
        let load = HollowLoad { memory_bytes: megabytes << 20, ..HollowLoad::default() };
        scene.runtime.set_load(&scene.pod(key).uid().to_string(), "c", load);
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    let left = |megabytes: i64| {
        let seen = pressure::Observation { available: megabytes << 20, capacity: 1000 << 20 };
        Some(BTreeMap::from([(pressure::Signal::MemoryAvailable, seen)]))
    };
    scene.kubelet.set_simulated_machine(left(50));
    scene.until(&greedy, "evicted", |s| s.phase.as_deref() == Some("Failed")).await;
    let status = scene.status(&greedy);
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was \
                   using 300Mi, request is 10Mi, has larger consumption of memory. ";
    assert_eq!((status.reason.as_deref(), status.message.as_deref()), (Some("Evicted"), Some(message)));
    let target = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget").unwrap();
    assert_eq!((target.status.as_str(), target.reason.as_deref()), ("True", Some("TerminationByKubelet")));
    assert!(scene.events().contains(&format!("Evicted: {message}")));
    assert_eq!(node_condition(&scene, "MemoryPressure"), "True KubeletHasInsufficientMemory");
    assert_eq!(show(&scene.status(&bound)), "Running c=ready/0", "one at a time");
    scene.kubelet.set_simulated_machine(left(400));

    let newcomer = scene.create_named("newcomer", json!({"containers": [{"name": "c"}]}));
    scene.until(&newcomer, "refused", |s| s.phase.as_deref() == Some("Failed")).await;
    let status = scene.status(&newcomer);
    assert_eq!(status.reason.as_deref(), Some("Evicted"));
    let refused = "Pod was rejected: The node had condition: [MemoryPressure]. ";
    assert_eq!((status.message.as_deref(), status.container_statuses), (Some(refused), None));
    let burstable =
        scene.create_named("burstable", json!({"containers": [{"name": "c", "resources": requests("1Mi")}]}));
    scene.until(&burstable, "ready", is_ready).await;

    tokio::time::sleep(Duration::from_mins(6)).await;
    assert_eq!(node_condition(&scene, "MemoryPressure"), "False KubeletHasSufficientMemory");
    assert!(is_ready(&scene.status(&bound)) && is_ready(&scene.status(&modest)));
    assert_eq!(
        node_events(&scene),
        [
            "NodeHasInsufficientMemory: Node n1 status is now: NodeHasInsufficientMemory",
            "EvictionThresholdMet: Attempting to reclaim memory",
            "NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory",
        ]
    );
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn usage_is_measured_and_reported_to_the_api_pod_12() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    scene.until(&key, "ready", is_ready).await;
    assert!(scene.api.pod_usage(&scene.pod(&key)).is_none(), "one look gives no rate");
    let uid = scene.pod(&key).uid().to_string();
    let load = HollowLoad { cpu_millicores: 250, memory_bytes: 5 << 20, processes: 3 };
    scene.runtime.set_load(&uid, "a", load);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (node, containers) = scene.api.pod_usage(&scene.pod(&key)).unwrap();
    assert_eq!(containers["a"].cpu_nanocores, 250_000_000);
    assert_eq!((containers["a"].memory_bytes, containers["b"].memory_bytes), (5 << 20, 0));
    assert_eq!(node.total, containers["a"]);
    scene.kubelet.detach().await;
    assert!(scene.api.node_usage("n1").is_none());
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_by_hand_where_it_does_not_fit_is_refused_pod_1() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "1", "pods": "5"})).await;
    let asking = |cpu: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], "restartPolicy": "Never"});
    let first = scene.create_named("first", asking("800m"));
    scene.until(&first, "ready", is_ready).await;
    let second = scene.create_named("second", asking("300m"));
    scene.until(&second, "refused", |s| s.phase.as_deref() == Some("Failed")).await;
    let status = scene.status(&second);
    let message =
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 300, used: 800, capacity: 1000";
    assert_eq!((status.reason.as_deref(), status.message.as_deref()), (Some("OutOfcpu"), Some(message)));
    scene.exit(&first, "c", 0).await;
    scene.until(&first, "done", |s| s.phase.as_deref() == Some("Succeeded")).await;
    let third = scene.create_named("third", asking("300m"));
    scene.until(&third, "ready", is_ready).await;
    // The resources of a force-deleted pod are free at once, as the API shows them.
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    scene.api.delete(Kind::Pod, &third, &now).unwrap();
    let fourth = scene.create_named("fourth", asking("900m"));
    scene.until(&fourth, "ready", is_ready).await;
    // Pods that have failed for good do not delay the end of the control plane.
    let over = tokio::time::timeout(Duration::from_mins(5), scene.kubelet.shutdown(|_| {})).await;
    assert!(over.is_ok(), "the shutdown waits for {} pods", scene.kubelet.live_pods());
    assert_eq!(scene.status(&second).reason.as_deref(), Some("OutOfcpu"));
    scene.tasks.stop().await;
}

fn static_web(image: &str) -> StaticManifest {
    let content = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"tier": "x"}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "a", "image": image}]}});
    StaticManifest { source: "web.yaml".into(), content: Ok(content) }
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_keeps_running_after_changes_to_its_mirror_pod_15() {
    let scene = KubeletFixture::new().await;
    let key = Key::new("default", "web-n1");
    scene.kubelet.set_static_pods(&[static_web("app:v1")]);
    let mirrored = async |expectation: &str| {
        let there = async {
            while scene.api.get(Kind::Pod, &key).is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), there).await.expect(expectation);
        scene.until(&key, expectation, is_ready).await;
        scene.pod(&key)
    };
    let mirror = mirrored("the mirror is ready").await;
    let annotations = mirror.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["kubernetes.io/config.source"], "file");
    assert_eq!(annotations["kubernetes.io/config.mirror"], annotations["kubernetes.io/config.hash"]);
    assert_eq!(mirror.metadata.owner_references.as_ref().unwrap()[0].kind, "Node");
    let ran = scene.runtime.list().await.unwrap();
    assert_eq!(ran[0].spec.pod_uid, annotations["kubernetes.io/config.mirror"]);

    // Deleting the mirror pod, gracefully or by force, creates a new one and does not affect the process.
    for grace in [None, Some(0)] {
        let before = scene.pod(&key).uid().to_string();
        let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        scene.api.delete(Kind::Pod, &key, &options).unwrap();
        let replaced = async {
            while scene.api.get(Kind::Pod, &key).map_or(true, |pod| pod.uid() == before) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), replaced).await.expect("a new mirror");
        scene.until(&key, "ready", is_ready).await;
        assert_eq!(scene.runtime.list().await.unwrap(), ran);
    }

    // Its container restarts after a crash, as in any pod.
    let id = ran[0].containers[0].id.clone();
    scene.runtime.exit_container(&id, 1);
    scene.until(&key, "restarted", |s| show(s) == "Running a=ready/1").await;

    // A restarted kubelet finds the pod again, with its restart count.
    let ran = scene.runtime.list().await.unwrap();
    scene.kubelet.detach().await;
    let again = NodeConfig { static_pods: vec![static_web("app:v1")], ..config() };
    let kubelet = scene.kubelets.start_node(again, scene.runtime.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.runtime.list().await.unwrap(), ran);
    assert_eq!(show(&scene.status(&key)), "Running a=ready/1");

    // A changed manifest starts another pod, after the first has ended.
    for _ in 0..20 {
        kubelet.set_static_pods(&[static_web("app:v2")]);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let changed = mirrored("the changed pod is ready").await;
    assert_ne!(
        changed.metadata.annotations.as_ref().unwrap()["kubernetes.io/config.hash"],
        annotations["kubernetes.io/config.hash"]
    );
    assert_eq!(show(&scene.status(&key)), "Running a=ready/0");
    assert_eq!(scene.runtime.list().await.unwrap().len(), 1);

    // An invalid manifest ends no other pod, and is reported once.
    let broken =
        StaticManifest { source: "bad.yaml".into(), content: Err("bad.yaml:1:1: what is this".into()) };
    for _ in 0..3 {
        kubelet.set_static_pods(&[static_web("app:v2"), broken.clone()]);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(is_ready(&scene.status(&key)));
    let events = node_events(&scene);
    assert_eq!(events, ["InvalidStaticPod: static pod bad.yaml: bad.yaml:1:1: what is this"]);

    kubelet.set_static_pods(&[]);
    scene.until_deleted(&key).await;
    assert!(scene.runtime.list().await.unwrap().is_empty());
    scene.tasks.stop().await;
}
