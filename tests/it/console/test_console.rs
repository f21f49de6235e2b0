//! A console on a test terminal, with a simulated cluster and a stopped clock.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use podium::console::model::{Job, Model, Setup};
use podium::console::view;
use podium::console_data::message::Message;
use podium::console_data::node_shell::NodeShell;
use podium::console_data::resource::{Kind, KindFacts, ResourceKey};
use podium::console_data::scope::Scope;
use podium::console_data::store::{Change, Delta};
use podium::console_data::thresholds::Thresholds;
use podium::console_toolkit::command::Bindings;
use podium::console_toolkit::keys::Key;
use podium::console_toolkit::theme::Theme;
use podium::console_toolkit::theme::depth::Depth;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The time at which the clock of every test stands.
pub(crate) fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().expect("a time")
}

/// Formats the time this many seconds before now as Kubernetes does.
pub(crate) fn ago(seconds: i64) -> String {
    now().saturating_sub(SignedDuration::from_secs(seconds)).expect("in range").to_string()
}

pub(crate) fn objects<K: DeserializeOwned>(list: impl IntoIterator<Item = Value>) -> Vec<Arc<K>> {
    list.into_iter().map(|object| Arc::new(serde_json::from_value(object).expect("an object"))).collect()
}

/// A kind from discovery with every verb, which the console does not know.
pub(crate) fn kind(group: &'static str, version: &'static str, kind: &str, subresources: &[&str]) -> Kind {
    let singular = kind.to_lowercase();
    let verbs: BTreeSet<String> =
        ["create", "delete", "get", "list", "patch", "update", "watch"].map(String::from).into();
    Kind::new(KindFacts {
        resource: ResourceKey {
            group: group.into(),
            version: version.into(),
            plural: format!("{singular}s").into(),
        },
        kind: kind.into(),
        singular,
        namespaced: true,
        short_names: Vec::new(),
        subresources: subresources.iter().map(|name| ((*name).to_owned(), verbs.clone())).collect(),
        verbs,
    })
}

/// The console under test.
pub(crate) struct TestConsole {
    pub(crate) model: Model,
    pub(crate) now: Timestamp,
    terminal: Terminal<TestBackend>,
}

impl TestConsole {
    pub(crate) fn new(width: u16, height: u16) -> Self {
        Self::with(width, height, Scope::All, false)
    }

    pub(crate) fn with(width: u16, height: u16, scope: Scope, read_only: bool) -> Self {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/themes/night.toml"))
            .expect("shipped");
        let setup = Setup {
            cluster: "podium".into(),
            origin: "in process".into(),
            context: None,
            home: ("podium".into(), "in process".into()),
            cluster_styles: Vec::new(),
            thresholds: Thresholds::default(),
            node_shell: NodeShell::default(),
            forks: None,
            project: None,
            theme: Theme::parse("night", "night.toml", &text).expect("good"),
            configured_theme: None,
            depth: Depth::True,
            config_dir: None,
            bindings: Bindings::default(),
            scope,
            read_only,
            quit_warning: String::new(),
            still: false,
        };
        let (model, _) = Model::new(setup, now());
        let terminal = Terminal::new(TestBackend::new(width, height)).expect("a test terminal");
        Self { model, now: now(), terminal }
    }

    pub(crate) fn feed(&mut self, deltas: Vec<Delta>) {
        for delta in deltas {
            self.model.update(Message::Feed(delta), self.now);
        }
    }

    pub(crate) fn send(&mut self, message: Message) -> Vec<Job> {
        self.model.update(message, self.now)
    }

    /// Presses keys: `ctrl-d`, `j`, `enter`, or `"text"` typed letter by letter. The simulated user pauses when a
    /// dialog closes.
    pub(crate) fn press(&mut self, script: &str) -> Vec<Job> {
        let mut jobs = self.keys(script, Self::settle);
        jobs.extend(self.settle());
        jobs
    }

    /// Pauses as long as a user would: after it, keys are no longer ignored because of a closed dialog, and
    /// confirmations count.
    fn settle(&mut self) -> Vec<Job> {
        let Some(at) = self.model.settles_at().filter(|at| *at > self.now) else { return Vec::new() };
        self.now = at;
        self.send(Message::Tick)
    }

    /// Presses keys without looking up, all in the same moment.
    pub(crate) fn burst(&mut self, script: &str) -> Vec<Job> {
        self.keys(script, |_| Vec::new())
    }

    /// Types a text, and pauses long enough that the Enter after it counts as typed, not as pasted.
    pub(crate) fn burst_before_enter(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.burst(text);
            self.now += SignedDuration::from_millis(60);
        }
    }

    fn keys(&mut self, script: &str, before_each: impl Fn(&mut Self) -> Vec<Job>) -> Vec<Job> {
        let mut jobs = Vec::new();
        for word in script.split(' ') {
            let keys: Vec<Key> = match word.strip_prefix('"') {
                Some(text) => text
                    .trim_end_matches('"')
                    .chars()
                    .map(|c| {
                        Key::parse(&if c == '_' { "space".into() } else { c.to_string() }).expect("a key")
                    })
                    .collect(),
                None => vec![Key::parse(word).unwrap_or_else(|| panic!("no key {word:?}"))],
            };
            for key in keys {
                jobs.extend(before_each(self));
                jobs.extend(self.model.update(Message::Key(key.event()), self.now));
            }
        }
        jobs
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.terminal.backend_mut().resize(width, height);
        self.send(Message::Resize(width, height));
    }

    /// Returns true if this text is drawn dim on the screen.
    pub(crate) fn is_dim(&mut self, text: &str) -> bool {
        let screen = self.screen();
        let (row, line) =
            screen.lines().enumerate().skip(2).find(|(_, line)| line.contains(text)).expect("the text");
        let column = line[..line.find(text).unwrap_or(0)].chars().count();
        let cell = &self.terminal.backend().buffer()[(column as u16, row as u16)];
        cell.modifier.contains(ratatui::style::Modifier::DIM)
    }

    /// The content of the screen, without trailing spaces.
    pub(crate) fn screen(&mut self) -> String {
        let (model, now) = (&self.model, self.now);
        self.terminal.draw(|frame| view::draw(model, now, frame)).expect("draws");
        let buffer = self.terminal.backend().buffer();
        let mut text = String::new();
        for row in 0..buffer.area.height {
            let mut line = String::new();
            for column in 0..buffer.area.width {
                line.push_str(buffer[(column, row)].symbol());
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

pub(crate) fn pod(
    namespace: &str,
    name: &str,
    owner: Option<&str>,
    node: Option<&str>,
    state: &str,
    age: i64,
) -> Value {
    let ready = state == "Running";
    let (phase, container) = match state {
        "Running" => ("Running", json!({"running": {"startedAt": ago(age)}})),
        "Pending" => ("Pending", json!({})),
        "Completed" => ("Succeeded", json!({"terminated": {"exitCode": 0, "reason": "Completed"}})),
        "Error" => ("Failed", json!({"terminated": {"exitCode": 1, "reason": "Error"}})),
        "CrashLoopBackOff" => ("Running", json!({"waiting": {"reason": state}})),
        "ImagePullBackOff" | "ContainerCreating" => ("Pending", json!({"waiting": {"reason": state}})),
        other => panic!("no state {other}"),
    };
    let restarts = if state == "CrashLoopBackOff" { 4 } else { 0 };
    let mut status = json!({"phase": phase});
    if node.is_some() {
        status["podIP"] = json!(format!("10.0.0.{}", name.len()));
        status["containerStatuses"] = json!([{
            "name": "main", "ready": ready, "restartCount": restarts, "image": "nginx:1.27", "imageID": "",
            "state": container,
            "lastState": if restarts > 0 { json!({"terminated": {"exitCode": 1, "finishedAt": ago(30)}}) } else { json!({}) },
        }]);
    }
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("pod-{name}"), "resourceVersion": "1204",
            "creationTimestamp": ago(age), "labels": {"app": name.split('-').next()},
            "ownerReferences": owner.map(|owner| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "name": owner, "uid": format!("rs-{owner}"), "controller": true}]))},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1.27",
            "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}}]},
        "status": status,
    })
}

pub(crate) fn deployment(name: &str, want: i32, updated: i32, available: i32, total: i32) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("deploy-{name}"), "generation": 2,
            "creationTimestamp": ago(7200), "annotations": {"deployment.kubernetes.io/revision": "2"}},
        "spec": {"replicas": want, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}}},
        "status": {"observedGeneration": 2, "replicas": total, "updatedReplicas": updated,
            "availableReplicas": available, "readyReplicas": available},
    })
}

pub(crate) fn replica_set(name: &str, deployment: &str, revision: &str, want: i32, ready: i32) -> Value {
    let image = if revision == "2" { "nginx:1.27" } else { "nginx:1.26" };
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("rs-{name}"),
            "creationTimestamp": ago(600), "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment,
                "uid": format!("deploy-{deployment}"), "controller": true}]},
        "spec": {"replicas": want, "selector": {"matchLabels": {"app": deployment}}, "template": {
            "metadata": {"labels": {"app": deployment}},
            "spec": {"containers": [{"name": "main", "image": image}]}}},
        "status": {"replicas": want, "readyReplicas": ready},
    })
}

pub(crate) fn node(name: &str, zone: &str, ready: &str, cordoned: bool) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("node-{name}"), "creationTimestamp": ago(9000),
            "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"unschedulable": cordoned.then_some(true)},
        "status": {"conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    })
}

pub(crate) fn event(
    id: u32,
    kind: &str,
    object: &str,
    reason: &str,
    message: &str,
    age: i64,
    count: i32,
) -> Value {
    let (object_kind, name) = object.split_once('/').expect("kind/name");
    json!({
        "metadata": {"namespace": "default", "name": format!("event-{id}"), "uid": format!("event-{id}")},
        "involvedObject": {"kind": object_kind, "name": name, "namespace": "default", "uid": format!("pod-{name}")},
        "type": kind, "reason": reason, "message": message, "count": count, "lastTimestamp": ago(age),
    })
}

fn reset<K: DeserializeOwned>(list: impl IntoIterator<Item = Value>) -> Vec<Change<K>> {
    vec![Change::Reset(objects(list))]
}

/// A small shop: one deployment at rest, one rolling out, one stuck.
pub(crate) fn cluster() -> Vec<Delta> {
    let namespace = |name: &str| {
        json!({"metadata": {"name": name, "uid": format!("ns-{name}"),
        "creationTimestamp": ago(9000)}, "status": {"phase": "Active"}})
    };
    vec![
        Delta::of::<Namespace>(reset([namespace("default"), namespace("kube-system"), namespace("shop")])),
        Delta::of::<Node>(reset([
            node("node-1", "zone-a", "True", false),
            node("node-2", "zone-b", "True", true),
            node("node-10", "zone-a", "Unknown", false),
        ])),
        Delta::of::<Deployment>(reset([
            deployment("web", 4, 2, 3, 5),
            deployment("api", 2, 2, 2, 2),
            deployment("cart", 1, 1, 0, 1),
        ])),
        Delta::of::<ReplicaSet>(reset([
            replica_set("web-new", "web", "2", 2, 1),
            replica_set("web-old", "web", "1", 3, 2),
            replica_set("api-1", "api", "2", 2, 2),
            replica_set("cart-1", "cart", "2", 1, 0),
        ])),
        Delta::of::<Pod>(reset([
            pod("default", "web-new-a", Some("web-new"), Some("node-1"), "Running", 40),
            pod("default", "web-new-b", Some("web-new"), Some("node-1"), "ContainerCreating", 3),
            pod("default", "web-old-a", Some("web-old"), Some("node-1"), "Running", 7000),
            pod("default", "web-old-b", Some("web-old"), Some("node-2"), "Running", 7000),
            pod("default", "api-1-a", Some("api-1"), Some("node-1"), "Running", 7100),
            pod("default", "api-1-b", Some("api-1"), Some("node-2"), "Running", 7100),
            pod("default", "cart-1-a", Some("cart-1"), Some("node-2"), "ImagePullBackOff", 133),
            pod("shop", "crash", None, Some("node-1"), "CrashLoopBackOff", 300),
            pod("shop", "seed", None, Some("node-1"), "Completed", 500),
            pod("shop", "waiting", None, None, "Pending", 12),
        ])),
        Delta::of::<Event>(reset([
            event(1, "Warning", "Pod/cart-1-a", "BackOff", "Back-off pulling image \"nginx:1.91\"", 12, 9),
            event(
                2,
                "Normal",
                "Deployment/web",
                "ScalingReplicaSet",
                "Scaled up replica set web-new from 1 to 2",
                3,
                1,
            ),
            event(3, "Normal", "Pod/web-old-a", "Started", "Started container main", 6990, 1),
        ])),
        Delta::of::<Service>(reset([])),
        Delta::of::<PodDisruptionBudget>(reset([])),
    ]
}
