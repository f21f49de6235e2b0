//! Screens in narrow terminals: the column that one reads keeps its room (CON-20).

use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::{Value, json};

use super::tabs_tests::{Stage, objects, pod};
use crate::effect::Forward;
use crate::message::{Data, Message};
use crate::resource::{ObjectRef, Uid};
use crate::screen::forwards::ForwardsData;
use crate::screen::forwards::carry::{Report, State};
use crate::store::{Change, Delta};

const LONG_MESSAGE: &str = "Back-off restarting failed container main in pod web-5d9c7b6f4-x2x9k";

fn events() -> Delta {
    let event = |id: usize, reason: &str, message: &str| {
        json!({"metadata": {"name": format!("e{id}"), "namespace": "default", "uid": format!("e{id}")},
            "type": "Warning", "reason": reason, "message": message, "count": 3,
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-5d9c7b6f4-x2x9k"}})
    };
    let all = [event(1, "BackOff", LONG_MESSAGE), event(2, "FailedScheduling", "0/3 nodes are available")];
    Delta::of::<Event>(vec![Change::Reset(objects(all))])
}

/// The columns that a text takes on the screen, from its first letter to the end of its column.
fn columns_of(screen: &str, text: &str) -> usize {
    let line = screen.lines().find(|line| line.contains(&text[..8])).unwrap_or_else(|| panic!("{screen}"));
    let from = line.find(&text[..8]).expect("the line has it");
    line[from..].chars().take_while(|c| !matches!(c, '│' | '…')).count()
}

#[test]
fn events_show_a_readable_message_at_80_and_at_40_columns_con_20() {
    for (width, height, least) in [(80, 24, 22), (40, 12, 15)] {
        let mut stage = Stage::new(width, height);
        stage.feed(events());
        stage.press(": \"events\" enter");
        let screen = stage.screen();
        let columns = columns_of(&screen, LONG_MESSAGE);
        assert!(columns >= least, "{columns} of {least} columns\n{screen}");
        assert!(screen.contains("⚠ BackOff"), "{screen}");
    }
}

fn owned_pod(name: &str) -> Value {
    let mut pod = pod("default", name);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9c7b6f4", "uid": "set", "controller": true}]);
    pod
}

#[test]
fn the_owner_tree_keeps_the_end_of_names_at_40_columns_con_19() {
    let mut stage = Stage::new(40, 12);
    let pods = ["web-5d9c7b6f4-x2x9k", "web-5d9c7b6f4-abcde"].map(owned_pod);
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    stage.press(": \"xray\" enter");
    let screen = stage.screen();
    assert!(screen.contains("x2x9k") && screen.contains("abcde"), "{screen}");
}

#[test]
fn the_owner_tree_of_a_kind_has_each_object_of_the_kind_con_19() {
    let mut stage = Stage::new(120, 30);
    let pods = [owned_pod("web-5d9c7b6f4-x2x9k"), owned_pod("web-5d9c7b6f4-abcde"), pod("default", "alone")];
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    stage.press(": \"xray_po\" enter");
    let screen = stage.screen();
    for name in ["web-5d9c7b6f4-x2x9k", "web-5d9c7b6f4-abcde", "alone"] {
        assert!(screen.contains(&format!("Pod default/{name}")), "{screen}");
    }
}

#[test]
fn a_local_port_that_cannot_be_used_is_asked_for_again_con_16() {
    let mut stage = Stage::new(80, 24);
    stage.press(": \"pf\" enter");
    let id = stage.model.top().0;
    let pod = ObjectRef {
        kind: crate::builtin::kind::<Pod>(),
        namespace: Some("default".into()),
        name: "web".into(),
        uid: Some(Uid::from("default-web")),
    };
    let forward = Forward { pod, remote: 80, local: 8080 };
    stage.model.update(Message::Data(id, Data::new(ForwardsData::Start(forward))), stage.now);
    let refused = State::Failed("127.0.0.1:8080: Address already in use".to_owned());
    let report = Report { id: 1, state: refused };
    stage.model.update(Message::Data(id, Data::new(ForwardsData::Report(report))), stage.now);
    let screen = stage.screen();
    for text in ["Forward a port of", "Address already in use", "local port", "80"] {
        assert!(screen.contains(text), "{text:?} is not in\n{screen}");
    }
}
