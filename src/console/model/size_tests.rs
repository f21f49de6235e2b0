//! A large cluster on a test terminal: paged lists, slow filters, heartbeats of nodes (CON-1).

use console_data::resource::ResourceKey;
use k8s_openapi::api::core::v1::{Node, Pod};
use std::sync::Arc;

use serde_json::json;

use super::tabs_tests::{TestConsole, objects, pod};
use console_data::message::Message;
use console_data::store::{Change, Delta, Object, ObjectPacker};
use console_toolkit::theme::depth::Depth;

fn packed_pods(names: &[&str]) -> Vec<Arc<dyn Object>> {
    let mut keeper = ObjectPacker::default();
    let pods: Vec<Arc<Pod>> = objects(names.iter().map(|name| pod("default", name)));
    pods.into_iter().map(|pod| keeper.keep(pod)).collect()
}

#[test]
fn the_first_page_is_shown_while_the_others_are_on_their_way_con_1() {
    let mut stage = TestConsole::without_lists(120, 30, Depth::True);
    stage.feed(Delta::of::<Node>(vec![Change::Reset(Vec::new())]));
    stage.press("p");
    assert!(stage.screen().contains("loading…"), "{}", stage.screen());
    let all = packed_pods(&["cart", "web", "api", "db"]);
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(all[..2].to_vec())]));
    let screen = stage.screen();
    assert!(screen.contains("2+ pods") && screen.contains("Pods all 2+ "), "{screen}");
    assert!(screen.contains("▸ default       cart"), "{screen}");
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(all[2..].to_vec())]));
    let screen = stage.screen();
    assert!(
        screen.contains("4+ pods") && screen.contains("▸ default       api"),
        "the cursor stays at the top: {screen}"
    );
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(all)]));
    let screen = stage.screen();
    assert!(screen.contains("4 pods") && !screen.contains("4+"), "{screen}");
    assert!(screen.contains("▸ default       api") && screen.contains("web"), "{screen}");
}

#[test]
fn the_cursor_stays_on_its_row_while_further_pages_arrive_con_1() {
    let mut stage = TestConsole::without_lists(120, 30, Depth::True);
    stage.press("p");
    let all = packed_pods(&["cart", "web", "api", "db"]);
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(all[..2].to_vec())]));
    stage.press("j");
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(all[2..].to_vec())]));
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(all)]));
    assert!(stage.screen().contains("▸ default       web"), "{}", stage.screen());
}

#[test]
fn a_filter_of_very_many_rows_lets_what_is_typed_be_seen_first_con_1() {
    let mut stage = TestConsole::without_lists(120, 30, Depth::True);
    let names: Vec<String> = (0..10_300).map(|n| format!("pod-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(packed_pods(&names))]));
    stage.press("p");
    stage.work();
    stage.press("/ \"pod-10299\"");
    assert!(stage.model.works());
    let screen = stage.screen();
    assert!(screen.contains("Pods all 10 300 /pod-10299 … ") && screen.contains(" pod-0 "), "{screen}");
    stage.work();
    let screen = stage.screen();
    assert!(screen.contains("1 of 10 300 /pod-10299 ─") && screen.contains("pod-10299 "), "{screen}");
    stage.press("esc");
    assert!(!stage.model.works(), "to show all needs no look at them");
    assert!(stage.screen().contains("pod-10299 "), "{}", stage.screen());
}

#[test]
fn a_table_of_very_many_rows_opens_at_once_and_keys_go_on_con_1() {
    let mut stage = TestConsole::without_lists(120, 30, Depth::True);
    let names: Vec<String> = (0..2000).map(|n| format!("pod-{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(packed_pods(&names))]));
    stage.press("p");
    assert!(stage.model.works() && stage.screen().contains("loading…"), "{}", stage.screen());
    stage.model.update(Message::Work, stage.now);
    // Changes and filters during the build apply to rows already built and to the rest.
    let deleted: Vec<Arc<dyn Object>> = packed_pods(&names).into_iter().step_by(3).collect();
    let new = packed_pods(&["a-first", "pod-2000"]);
    stage.feed(Delta::from_packed(
        ResourceKey::of::<Pod>(),
        deleted.into_iter().map(Change::Deleted).collect(),
    ));
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), new.into_iter().map(Change::Applied).collect()));
    assert!(stage.model.works() && stage.screen().contains("loading…"), "{}", stage.screen());
    stage.work();
    let screen = stage.screen();
    assert!(screen.contains("Pods all 1 335 ─") && screen.contains("▸ default      a-first"), "{screen}");
    assert!(
        !screen.contains("pod-0000") && screen.contains("pod-0001") && screen.contains("pod-0002"),
        "{screen}"
    );
    stage.press("G");
    assert!(stage.screen().contains("▸ default      pod-2000"), "{}", stage.screen());
}

#[test]
fn a_table_of_very_many_rows_that_is_seen_again_is_right_where_one_looks_con_1() {
    let mut stage = TestConsole::without_lists(120, 30, Depth::True);
    let names: Vec<String> = (0..2000).map(|n| format!("pod-{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(packed_pods(&names))]));
    stage.press("p");
    stage.work();
    stage.press("G k d");
    let deleted = packed_pods(&["pod-1999", "pod-0001"]).into_iter().map(Change::Deleted);
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), deleted.collect()));
    stage.feed(Delta::from_packed(
        ResourceKey::of::<Pod>(),
        packed_pods(&["pod-2000"]).into_iter().map(Change::Applied).collect(),
    ));
    stage.press("esc");
    let screen = stage.screen();
    assert!(screen.contains("Pods all 1 999 ─") && screen.contains("▸ default      pod-1998"), "{screen}");
    assert!(!screen.contains("pod-1999"), "{screen}");
    assert!(stage.model.works(), "the others are built anew one after the other");
    stage.work();
    assert_eq!(stage.screen(), screen);
    stage.press("G");
    assert!(stage.screen().contains("▸ default      pod-2000"), "{}", stage.screen());
    // Keys typed while a table loads apply to the new rows.
    stage.press("~ p");
    assert!(stage.model.works() && stage.screen().contains("loading…"), "{}", stage.screen());
    stage.press("G");
    assert!(stage.screen().contains("▸ default      pod-2000"), "{}", stage.screen());
    // Another namespace has none of these rows, and rows out of scope are never shown.
    stage.press(": \"pods_other\" enter");
    assert!(!stage.screen().contains("pod-1998"), "{}", stage.screen());
}

#[test]
fn a_heartbeat_draws_nothing_con_1() {
    let mut stage = TestConsole::new(120, 30);
    let node = |beat: u32, status: &str| {
        let time = format!("2026-05-01T11:00:{beat:02}Z");
        let node = json!({"metadata": {"name": "node-1", "uid": "n", "resourceVersion": beat.to_string()},
            "status": {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": time}]}});
        Delta::of::<Node>(vec![Change::Applied(objects([node]).remove(0))])
    };
    stage.feed(node(1, "True"));
    for keys in ["", ": \"nodes\" enter"] {
        if !keys.is_empty() {
            stage.press(keys);
        }
        let before = stage.screen();
        stage.model.dirty = false;
        stage.feed(node(if keys.is_empty() { 2 } else { 4 }, "True"));
        assert!(!stage.model.dirty, "{before}");
        assert_eq!(stage.screen(), before);
    }
    stage.feed(node(6, "Unknown"));
    assert!(stage.model.dirty && stage.screen().contains("NotReady"), "{}", stage.screen());
}
