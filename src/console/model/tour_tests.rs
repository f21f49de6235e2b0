//! The tour on a test terminal: it advances when the cluster shows that a step was done, by any client (CON-20).

use super::tabs_tests::{TestConsole, objects, pod};
use super::*;
use console_data::action::Outcome;
use console_data::catalogue::Catalogue;
use console_data::message::Message;
use console_data::resource::Kind;
use console_data::store::{Change, Delta};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

/// The state of the tour's cluster.
struct TourCluster {
    stage: TestConsole,
    image: &'static str,
    revision: u32,
    ready: u32,
    /// The node of each pod.
    pods: Vec<&'static str>,
    cordoned: Vec<&'static str>,
    nodes: Vec<&'static str>,
    debugged: bool,
}

impl TourCluster {
    fn new(width: u16, height: u16) -> Self {
        let stage = TestConsole::new(width, height);
        let mut shop = Self {
            stage,
            image: "nginx:1.7.9",
            revision: 1,
            ready: 3,
            pods: vec!["node-1", "node-2"],
            cordoned: vec![],
            nodes: vec!["node-1", "node-2"],
            debugged: false,
        };
        shop.show();
        shop
    }

    /// Feeds the state to the console.
    fn show(&mut self) -> Vec<Job> {
        let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]);
        let web = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "web",
                "annotations": {"deployment.kubernetes.io/revision": self.revision.to_string()}},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "replicas": 3,
                "template": {"spec": {"containers": [{"name": "nginx", "image": self.image}]}}},
            "status": {"availableReplicas": self.ready},
        });
        let set = json!({"metadata": {"name": "web-1", "namespace": "default", "uid": "web-1", "ownerReferences": owner("Deployment", "web")},
            "spec": {"selector": {}}});
        let pods: Vec<Value> = self
            .pods
            .iter()
            .enumerate()
            .map(|(at, node)| {
                let mut pod = pod("default", &format!("web-1-{at}"));
                pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web-1");
                pod["spec"]["nodeName"] = json!(node);
                if self.debugged && at == 0 {
                    pod["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "busybox"}]);
                }
                pod
            })
            .collect();
        let nodes = self.nodes.iter().map(|name| {
            json!({"metadata": {"name": name, "uid": name}, "spec": {"unschedulable": self.cordoned.contains(name)},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        });
        let nodes: Vec<Value> = nodes.collect();
        self.stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([web]))]));
        self.stage.feed(Delta::of::<ReplicaSet>(vec![Change::Reset(objects([set]))]));
        self.stage.feed(Delta::of::<Node>(vec![Change::Reset(objects(nodes))]));
        self.stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]))
    }

    /// Returns the title of the panel.
    fn step(&mut self) -> String {
        let screen = self.stage.screen();
        let title =
            screen.lines().find_map(|line| line.split_once("╭ Tour").map(|(_, title)| title.to_owned()));
        title.map(|title| title.split(" ─").next().unwrap_or_default().trim().to_owned()).unwrap_or_default()
    }
}

const PANEL: &str = "╭ Tour 1/5 · Roll out ─────────────────────────────────────────────────────────╮
│ :deploy, go to web, <i> sets another image: nginx:1.9.1. <R> shows the       │
│ progress, <esc> goes back.                                                   │
╰─────────────────────────────────────────────── :tour pauses, :tour stop ends ╯
 <p>pods";

const LOW_PANEL: &str = " Tour 1/5 · Roll out: :deploy, go to
 web, <i> sets another image:
 nginx:1.9.1. <R> shows the progress,
 <p>pods";

#[test]
fn the_tour_sees_by_the_cluster_that_a_step_was_done_con_20() {
    let mut shop = TourCluster::new(80, 24);
    shop.stage.press(": \"tour\" enter");
    assert!(shop.stage.screen().contains(PANEL), "{}", shop.stage.screen());
    // A new revision with the same image does not count; another image does, set by any client.
    shop.revision = 2;
    shop.show();
    assert_eq!(shop.step(), "1/5 · Roll out");
    shop.image = "nginx:1.9.1";
    shop.show();
    assert_eq!(shop.step(), "2/5 · Undo the rollout");
    (shop.image, shop.revision) = ("nginx:1.7.9", 3);
    shop.show();
    assert_eq!(shop.step(), "3/5 · Drain a node");
    // A cordon alone does not count as a drain.
    shop.cordoned = vec!["node-2"];
    shop.show();
    assert_eq!(shop.step(), "3/5 · Drain a node");
    shop.pods = vec!["node-1", "node-1"];
    shop.show();
    assert_eq!(shop.step(), "4/5 · Uncordon the node");
    let screen = shop.stage.screen();
    assert!(
        screen.contains("✔ kubectl drain node-2 --ignore-daemonsets") && screen.contains("go to node-2, <u>"),
        "{screen}"
    );
    shop.cordoned = vec![];
    shop.show();
    assert_eq!(shop.step(), "5/5 · Debug a pod");
    shop.debugged = true;
    shop.show();
    assert_eq!(shop.step(), "✔ · Complete");
    shop.stage.press(": \"tour\" enter");
    assert_eq!(shop.step(), "");
    assert!(shop.stage.model.tour.is_none());
}

/// The README's tour and `:tour` name the same objects, so that the reader of one can do the other.
#[test]
fn the_tour_and_the_readme_name_the_same_objects_con_20() {
    use crate::tour::sample_app;
    const README: &str = include_str!("../../../README.md");
    const PAGE: &str = include_str!("../../../docs/start/tour.md");
    const CRASHING: &str = include_str!("../../../sample-manifests/02-crash-looper.yaml");
    for text in [README, PAGE] {
        let (_, tour) = text.split_once("# A first tour").expect("a tour");
        let part = |from: &str, to: &str| {
            let (_, rest) = tour.split_once(from).unwrap_or_else(|| panic!("no {from} in {tour}"));
            rest.split(to).next().unwrap_or_default().to_owned()
        };
        let roll_out = part("Roll out", "Drain a node");
        for name in [sample_app::NAME, sample_app::OTHER_IMAGE] {
            assert!(roll_out.contains(&format!("`{name}`")), "no {name} in {roll_out}");
        }
        let debug = part("Attach a debugger", "with kubectl");
        assert!(debug.contains(&format!("`{}`", sample_app::CRASHING)), "{debug}");
    }
    assert!(CRASHING.contains(&format!("name: {}", sample_app::CRASHING)));

    let mut shop = TourCluster::new(80, 24);
    shop.stage.press(": \"tour\" enter");
    (shop.image, shop.revision) = (sample_app::OTHER_IMAGE, 2);
    shop.show();
    (shop.image, shop.revision, shop.cordoned) = ("nginx:1.7.9", 3, vec![]);
    shop.show();
    (shop.cordoned, shop.pods) = (vec!["node-2"], vec!["node-1", "node-1"]);
    shop.show();
    shop.cordoned = vec![];
    shop.show();
    assert_eq!(shop.step(), "5/5 · Debug a pod");
    // Without the other samples there are the tour's own pods.
    assert!(shop.stage.screen().contains("go to one of web"), "{}", shop.stage.screen());
    let mut crashing = pod("default", sample_app::CRASHING);
    let apply = |pod: &Value| Delta::of::<Pod>(vec![Change::Applied(objects([pod.clone()]).remove(0))]);
    shop.stage.feed(apply(&crashing));
    assert!(shop.stage.screen().contains("go to crash-looper"), "{}", shop.stage.screen());
    crashing["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "busybox"}]);
    shop.stage.feed(apply(&crashing));
    assert_eq!(shop.step(), "✔ · Complete");
}

/// The README's tour comes before `:tour`: its image is set, and its debugger stays in the pod.
#[test]
fn the_tour_can_be_done_after_the_steps_of_the_readme_con_20() {
    let mut shop = TourCluster::new(80, 24);
    shop.image = "nginx:1.9.1";
    let mut crashing = pod("default", crate::tour::sample_app::CRASHING);
    let debugger = |name: &str| json!({"name": name, "image": "busybox"});
    crashing["spec"]["ephemeralContainers"] = json!([debugger("first")]);
    let apply = |pod: &Value| Delta::of::<Pod>(vec![Change::Applied(objects([pod.clone()]).remove(0))]);
    shop.show();
    shop.stage.press(": \"tour\" enter");
    assert!(shop.stage.screen().contains("nginx:1.25"), "{}", shop.stage.screen());
    (shop.image, shop.revision) = ("nginx:1.25", 2);
    shop.show();
    (shop.image, shop.revision) = ("nginx:1.9.1", 3);
    shop.show();
    (shop.cordoned, shop.pods) = (vec!["node-2"], vec!["node-1", "node-1"]);
    shop.show();
    shop.stage.feed(apply(&crashing));
    shop.cordoned = vec![];
    shop.show();
    shop.stage.feed(apply(&crashing));
    assert_eq!(shop.step(), "5/5 · Debug a pod");
    crashing["spec"]["ephemeralContainers"] = json!([debugger("first"), debugger("second")]);
    shop.stage.feed(apply(&crashing));
    assert_eq!(shop.step(), "✔ · Complete");
}

#[test]
fn an_undo_of_a_third_rollout_is_an_undo_too_con_20() {
    let mut shop = TourCluster::new(80, 24);
    shop.stage.press(": \"tour\" enter");
    (shop.image, shop.revision) = ("nginx:1.9.1", 2);
    shop.show();
    assert_eq!(shop.step(), "2/5 · Undo the rollout");
    // As in the README: a version that does not exist.
    (shop.image, shop.revision) = ("nginx:1.91", 3);
    shop.show();
    assert_eq!(shop.step(), "2/5 · Undo the rollout", "another rollout is none");
    (shop.image, shop.revision) = ("nginx:1.9.1", 4);
    shop.show();
    assert_eq!(shop.step(), "3/5 · Drain a node");
}

#[test]
fn the_tour_is_left_and_taken_up_and_fits_con_20() {
    let mut shop = TourCluster::new(40, 12);
    shop.stage.press(": \"tour\" enter");
    assert!(shop.stage.screen().contains(LOW_PANEL), "{}", shop.stage.screen());
    shop.stage.resize(140, 40);
    assert_eq!(shop.step(), "1/5 · Roll out");
    shop.stage.press(": \"tour\" enter");
    assert_eq!(shop.step(), "");
    // Steps done meanwhile count.
    (shop.image, shop.revision) = ("nginx:1.9.1", 2);
    shop.show();
    shop.stage.press(": \"tour\" enter");
    assert_eq!(shop.step(), "2/5 · Undo the rollout");
    shop.stage.press(": \"tour_stop\" enter");
    assert_eq!(shop.step(), "");
    shop.stage.model.shared.read_only = true;
    shop.stage.press(": \"tour\" enter");
    assert!(
        shop.stage.screen().contains("read-only: the tour changes the cluster"),
        "{}",
        shop.stage.screen()
    );
}

#[test]
fn the_tour_says_what_is_missing_and_offers_it_con_20() {
    let mut shop = TourCluster::new(80, 24);
    shop.stage.feed(Delta::of::<Deployment>(vec![Change::Reset(Vec::new())]));
    let known = |plural: &str, kind: &str, group: &str| {
        Kind::new(console_data::resource::KindFacts {
            resource: ResourceKey {
                group: group.to_owned().into(),
                version: "v1".into(),
                plural: plural.to_owned().into(),
            },
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
            namespaced: true,
            short_names: Vec::new(),
            subresources: BTreeMap::new(),
            verbs: ["list", "create"].map(String::from).into(),
        })
    };
    let kinds = [
        ("deployments", "Deployment", "apps"),
        ("services", "Service", ""),
        ("poddisruptionbudgets", "PodDisruptionBudget", "policy"),
        ("ingresses", "Ingress", "networking.k8s.io"),
    ];
    let kinds = kinds.map(|(plural, kind, group)| known(plural, kind, group)).to_vec();
    shop.stage.model.update(Message::Catalogue(Catalogue::of(kinds)), shop.stage.now);
    // After a refusal, the command offers it again.
    shop.stage.press(": \"tour\" enter esc");
    assert_eq!(shop.step(), "· The sample");
    shop.stage.press(": \"tour\" enter");
    let screen = shop.stage.screen();
    for expected in [
        "Apply the sample of the tour",
        "Deployment default/web",
        "PodDisruptionBudget default/web",
        "kubectl apply -n default -f sample-manifests/01-web.yaml",
    ] {
        assert!(screen.contains(expected), "{screen}");
    }
    let jobs = shop.stage.press("y");
    let action = jobs
        .into_iter()
        .find_map(|job| if let Job::Act(action) = job { Some(*action) } else { None })
        .expect("applied");
    assert!(action.inverse.is_some(), "it can be taken back");
    shop.stage
        .model
        .update(Message::ActionEnded(Box::new(Outcome { action, error: None, after: None })), shop.stage.now);
    assert_eq!(shop.step(), "· The sample");
    shop.ready = 0;
    shop.show();
    assert!(
        shop.stage.screen().contains("continues when one of its pods is ready"),
        "{}",
        shop.stage.screen()
    );
    shop.ready = 1;
    shop.show();
    assert_eq!(shop.step(), "1/5 · Roll out");
    assert!(
        shop.stage.screen().contains("✔ kubectl apply -n default -f sample-manifests/01-web.yaml"),
        "{}",
        shop.stage.screen()
    );
    // One node is too few for a drain.
    shop.nodes = vec!["node-1"];
    (shop.image, shop.revision) = ("nginx:1.9.1", 2);
    shop.show();
    (shop.image, shop.revision) = ("nginx:1.7.9", 3);
    shop.show();
    assert!(shop.stage.screen().contains("This needs a second node"), "{}", shop.stage.screen());
}

#[test]
fn the_tour_is_read_aloud_con_20() {
    let mut shop = TourCluster::new(80, 24);
    shop.stage.press(": \"tour\" enter");
    let mut reader = crate::linear::Reader::default();
    let read = |reader: &mut crate::linear::Reader, stage: &TestConsole| {
        format!("{:?}", reader.read(&stage.model, stage.now))
    };
    let speech = read(&mut reader, &shop.stage);
    assert!(speech.contains("Tour 1/5 · Roll out: :deploy, go to web, <i> sets another image"), "{speech}");
    (shop.image, shop.revision) = ("nginx:1.9.1", 2);
    shop.show();
    let speech = read(&mut reader, &shop.stage);
    assert!(speech.contains("Tour 2/5 · Undo the rollout: :deploy, go to web"), "{speech}");
    let speech = read(&mut reader, &shop.stage);
    assert!(!speech.contains("Tour"), "once is enough: {speech}");
}

/// A change may be in the stores before the console's own action ends and is in the journal.
#[test]
fn the_tour_names_the_command_of_the_completed_step_con_20() {
    let mut shop = TourCluster::new(80, 24);
    shop.stage.press(": \"tour\" enter");
    (shop.image, shop.revision) = ("nginx:1.9.1", 2);
    shop.show();
    assert!(!shop.stage.screen().contains("✔ kubectl"), "{}", shop.stage.screen());
    let ended = |stage: &mut TestConsole, kind: Kind, name: &str, command: &str| {
        let target = console_data::resource::ObjectRef {
            kind,
            namespace: Some("default".to_owned()),
            name: name.to_owned(),
            uid: None,
        };
        let mutation = console_data::action::Mutation::nothing();
        let action = console_data::action::Action::new(&target, command, command, mutation).quietly();
        let outcome = Outcome { action, error: None, after: None };
        stage.model.update(Message::ActionEnded(Box::new(outcome)), stage.now);
    };
    let deployment = console_data::builtin_kinds::kind::<Deployment>;
    ended(&mut shop.stage, deployment(), "web", "kubectl set image deployment/web");
    assert!(shop.stage.screen().contains("✔ kubectl set image deployment/web"), "{}", shop.stage.screen());
    (shop.image, shop.revision) = ("nginx:1.7.9", 3);
    shop.show();
    // Undone by another client: a later command of the console did not complete the step.
    ended(
        &mut shop.stage,
        console_data::builtin_kinds::kind::<Pod>(),
        "web-1-0",
        "kubectl delete pod web-1-0",
    );
    ended(&mut shop.stage, deployment(), "web", "kubectl scale deployment/web");
    assert_eq!(shop.step(), "3/5 · Drain a node");
    assert!(!shop.stage.screen().contains("✔ kubectl"), "{}", shop.stage.screen());
}
