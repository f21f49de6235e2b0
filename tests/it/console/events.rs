//! The events screen: readable at every width, grouped, still while it is paused, newest first (CON-7).

use k8s_openapi::api::core::v1::Event;
use podium::console_data::store::{Change, Delta};
use serde_json::Value;

use super::shows;
use super::test_console::{TestConsole, cluster, event, objects};

fn stage(width: u16, height: u16) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.feed(cluster());
    stage
}

fn applied(stage: &mut TestConsole, events: Vec<Value>) {
    let changes = objects(events).into_iter().map(Change::Applied).collect();
    stage.feed(vec![Delta::of::<Event>(changes)]);
}

/// An event with a revision: the server counts up.
fn event_at(
    id: u32,
    revision: u64,
    kind: &str,
    object: &str,
    reason: &str,
    message: &str,
    age: i64,
) -> Value {
    let mut event = event(id, kind, object, reason, message, age, 1);
    event["metadata"]["resourceVersion"] = revision.to_string().into();
    event
}

/// Warnings stand out and messages are legible, also in a small terminal.
#[test]
fn events_are_read_in_every_window_con_7() {
    // In 80 columns a long reason is cut, so that the message beside it is read.
    let sizes = [(80, 24, "ScalingReplic…"), (120, 36, "ScalingReplicaSet"), (200, 60, "ScalingReplicaSet")];
    for (width, height, reason) in sizes {
        let mut stage = stage(width, height);
        stage.press("e");
        let screen = stage.screen();
        shows(&screen, &["SEEN ↑", reason, "⚠ BackOff"]);
        assert!(screen.contains("Back-off pulling image"), "{width}: {screen}");
        shows(&screen, &["deployment/web ScalingReplicaSet", "Scaled up replica set web-new from 1 to 2"]);
        let header = screen.lines().find(|line| line.contains("SEEN ↑")).expect("a header").to_owned();
        for column in ["REASON", "OBJECT", "MESSAGE"] {
            assert!(header.contains(column), "{width}: {header}");
        }
        // The event under the cursor is shown in full.
        stage.press("j");
        shows(&stage.screen(), &["pod/cart-1-a BackOff · ×9", "Back-off pulling image \"nginx:1.91\""]);
    }
}

#[test]
fn events_with_the_same_object_and_reason_are_one_row_con_7() {
    let mut stage = stage(120, 36);
    stage.press("e");
    applied(
        &mut stage,
        vec![
            event_at(11, 20, "Warning", "Pod/a", "Unhealthy", "probe failed: 503", 40),
            event_at(12, 21, "Warning", "Pod/a", "Unhealthy", "probe failed: 500", 5),
            event_at(13, 22, "Normal", "Pod/a", "Pulled", "pulled", 50),
            event_at(14, 23, "Warning", "Pod/b", "Unhealthy", "probe failed: 503", 30),
        ],
    );
    shows(&stage.screen(), &["Events all 7"]);
    stage.press("ctrl-g");
    shows(
        &stage.screen(),
        &[
            "Events all 6 grouped",
            "⚠ Unhealthy pod/a 2 probe failed: 500 (and 1 other)",
            "⚠ Unhealthy pod/b 1",
        ],
    );
    // The cursor stays with its group while that gets another event.
    stage.press("/ \"pod.a\" enter");
    shows(&stage.screen(), &["▸ default 5s ⚠ Unhealthy pod/a 2"]);
    applied(&mut stage, vec![event_at(15, 24, "Warning", "Pod/a", "Unhealthy", "probe failed: 502", 1)]);
    shows(&stage.screen(), &["▸ default 1s ⚠ Unhealthy pod/a 3 probe failed: 502 (and 2 others)"]);
    // Events are removed one by one; the row is removed with the last of them.
    for (id, left) in [
        (15, "▸ default 5s ⚠ Unhealthy pod/a 2"),
        (12, "▸ default 40s ⚠ Unhealthy pod/a 1 probe failed: 503"),
    ] {
        let gone = event_at(id, 25, "Warning", "Pod/a", "Unhealthy", "", 1);
        stage.feed(vec![Delta::of::<Event>(vec![Change::Deleted(objects([gone]).remove(0))])]);
        shows(&stage.screen(), &[left]);
    }
    let gone = event_at(11, 26, "Warning", "Pod/a", "Unhealthy", "", 1);
    stage.feed(vec![Delta::of::<Event>(vec![Change::Deleted(objects([gone]).remove(0))])]);
    assert!(!stage.screen().contains("Unhealthy pod/a"));
    stage.press("esc ctrl-g");
    shows(&stage.screen(), &["Events all 5"]);
    assert!(!stage.screen().contains("grouped"));
}

/// A paused list does not move, and the number of new events is shown.
#[test]
fn a_paused_event_list_does_not_move_and_counts_new_events_con_7() {
    let mut stage = stage(120, 36);
    stage.press("e p");
    let before = stage.screen();
    let rows = |screen: &str| screen.lines().skip(2).take(12).map(str::to_owned).collect::<Vec<_>>();
    for id in 20..32 {
        applied(&mut stage, vec![event_at(id, u64::from(id), "Normal", "Pod/x", "Started", "started", 0)]);
    }
    shows(&stage.screen(), &["‖ held · 12 new"]);
    assert_eq!(rows(&stage.screen()), rows(&before));
    // Opening another view loses nothing.
    stage.press("d");
    stage.press("esc");
    shows(&stage.screen(), &["‖ held · 12 new"]);
    assert_eq!(rows(&stage.screen()), rows(&before));
    stage.press("p");
    shows(&stage.screen(), &["Events all 15"]);
    shows(&stage.screen(), &["following"]);
}

/// Among events of the same second, the newest is first.
#[test]
fn the_newest_of_a_second_comes_first_con_7() {
    let mut stage = stage(120, 36);
    stage.press("e");
    applied(
        &mut stage,
        vec![
            event_at(40, 101, "Normal", "Pod/x", "Scheduled", "1", 1),
            event_at(41, 102, "Normal", "Pod/x", "Pulled", "2", 1),
            event_at(42, 103, "Normal", "Pod/x", "Started", "3", 1),
        ],
    );
    shows(&stage.screen(), &["Started", "Pulled", "Scheduled", "ScalingReplicaSet"]);
    // The overview is up to date, although another screen covered it.
    stage.press("~");
    shows(&stage.screen(), &["pod/x Started", "pod/x Pulled", "pod/x Scheduled"]);
}
