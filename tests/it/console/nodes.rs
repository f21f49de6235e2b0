//! Nodes are added, removed, labelled and tainted from the console (NODE-6).

use podium::console::model::Job;
use podium::console_data::action::Mutation;
use podium::console_data::builtin_kinds;
use podium::console_data::catalogue::Catalogue;
use podium::console_data::message::Message;
use podium::console_data::scope::Scope;
use serde_json::{Value, json};

use super::acted;
use super::test_console::{TestConsole, cluster, kind};

/// A console on one of our clusters.
fn stage(read_only: bool) -> TestConsole {
    let mut stage = TestConsole::with(120, 30, Scope::All, read_only);
    stage.feed(cluster());
    let mut kinds = builtin_kinds::kinds();
    kinds.push(kind("podium.dev", "v1alpha1", "SchedulingVerdict", &[]));
    stage.send(Message::Catalogue(Catalogue::of(kinds)));
    stage.press("n");
    stage
}

/// The bodies of the requests of jobs.
fn bodies(jobs: &[Job]) -> Vec<Value> {
    let body = |job: &Job| match job {
        Job::Act(action) => match &action.mutation {
            Mutation::Patch { body, .. } | Mutation::Create { body, .. } => Some(body.clone()),
            _ => None,
        },
        _ => None,
    };
    jobs.iter().filter_map(body).collect()
}

fn undo(jobs: &[Job]) -> Vec<String> {
    let inverse = |job: &Job| match job {
        Job::Act(action) => action.inverse.as_ref().map(|inverse| inverse.kubectl.clone()),
        _ => None,
    };
    jobs.iter().filter_map(inverse).collect()
}

#[test]
fn a_node_is_added_by_a_form_or_in_one_line_node_6() {
    let mut stage = stage(false);
    stage.press("a");
    let screen = stage.screen();
    assert!(screen.contains("Add a node") && screen.contains("zone"), "{screen}");
    let jobs =
        stage.press("\"gpu\" tab space tab \"east\" tab tab \"disk=ssd\" tab \"team=a:NoExecute\" enter");
    let expected = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "gpu", "annotations": {"podium.dev/node": "hollow"},
            "labels": {"topology.kubernetes.io/zone": "east", "disk": "ssd"}},
        "spec": {"taints": [{"key": "team", "value": "a", "effect": "NoExecute"}]},
    });
    assert_eq!(bodies(&jobs), [expected]);

    let jobs = stage.press(": \"add-node_extra_cpu=2\" enter");
    assert_eq!(bodies(&jobs)[0]["status"], json!({"capacity": {"cpu": "2"}}));
    assert_eq!(bodies(&jobs)[0]["metadata"]["annotations"], json!({"podium.dev/node": "process"}));
    let jobs = stage.press(": \"add-node_extra_cpu\" enter");
    assert!(acted(&jobs).is_empty() && stage.screen().contains("write key=value"), "{}", stage.screen());
}

#[test]
fn no_node_is_added_to_a_cluster_of_another_provider_node_6() {
    let mut stage = stage(false);
    stage.send(Message::Catalogue(Catalogue::of(builtin_kinds::kinds())));
    for keys in ["a", ": \"add-node_x\" enter"] {
        let jobs = stage.press(keys);
        assert!(acted(&jobs).is_empty());
        assert!(stage.screen().contains("a node joins it through its kubelet"), "{}", stage.screen());
        stage.press("esc esc");
    }
}

#[test]
fn removing_a_node_lists_the_lost_pods_and_needs_its_name_typed_node_6_con_6() {
    let mut stage = stage(false);
    // node-1 is the first; node-2 has three pods with controllers.
    stage.press("ctrl-d");
    let screen = stage.screen();
    assert!(screen.contains("Remove Node node-1"), "{screen}");
    assert!(screen.contains("node-1 is not drained, pods running: 5, 1 has no controller"), "{screen}");
    assert!(acted(&stage.press("enter")).is_empty(), "nothing is typed yet");
    assert!(stage.screen().contains("type node-1 to remove it"), "{}", stage.screen());
    assert!(acted(&stage.press("\"node-2\" enter")).is_empty());
    assert!(stage.screen().contains("type node-1 to remove it"), "{}", stage.screen());
    let jobs = stage.press("ctrl-u \"node-1\" enter");
    assert_eq!(acted(&jobs), ["kubectl delete node/node-1"]);

    stage.press("space j space ctrl-d");
    assert!(stage.screen().contains("type 2 nodes"), "{}", stage.screen());
    let jobs = stage.press("\"2_nodes\" enter");
    assert_eq!(acted(&jobs).len(), 2);
}

#[test]
fn labels_and_taints_are_typed_as_for_kubectl_and_taken_back_node_6() {
    let mut stage = stage(false);
    stage.press("L");
    assert!(stage.screen().contains("node-1: topology.kubernetes.io/zone=zone-a"), "{}", stage.screen());
    let jobs = stage.press("\"disk=ssd_topology.kubernetes.io/zone-\" enter");
    assert_eq!(acted(&jobs), ["kubectl label node/node-1 disk=ssd topology.kubernetes.io/zone- --overwrite"]);
    assert_eq!(
        undo(&jobs),
        ["kubectl label node/node-1 disk- topology.kubernetes.io/zone=zone-a --overwrite"]
    );
    let labels = json!({"metadata": {"labels": {"disk": "ssd", "topology.kubernetes.io/zone": null}}});
    assert_eq!(bodies(&jobs), [labels]);

    stage.press("t \"gpu=yes:NoExecute\"");
    assert!(stage.screen().contains("NoExecute evicts the pods"), "{}", stage.screen());
    let jobs = stage.press("enter");
    assert_eq!(acted(&jobs), ["kubectl taint node node-1 gpu=yes:NoExecute --overwrite"]);
    assert_eq!(undo(&jobs), ["kubectl taint node node-1 gpu:NoExecute- --overwrite"]);
    // A taint that another client adds in between is not overwritten.
    let taints = json!([{"op": "test", "path": "/spec/taints", "value": null}, {"op": "add", "path": "/spec/taints",
        "value": [{"key": "gpu", "value": "yes", "effect": "NoExecute"}]}]);
    assert_eq!(bodies(&jobs), [taints]);
    stage.press("t");
    assert!(acted(&stage.press("\"other-\" enter")).is_empty());
    assert!(stage.screen().contains("node-1: taint other not found"), "{}", stage.screen());
}

#[test]
fn nothing_of_it_works_in_read_only_mode_node_6() {
    let mut stage = stage(true);
    for keys in ["a", "t", "L", "ctrl-d", ": \"add-node_x\" enter"] {
        assert!(acted(&stage.press(keys)).is_empty());
        assert!(stage.screen().contains("read-only"), "{keys}: {}", stage.screen());
        stage.press("esc esc");
        stage.press("n");
    }
}
