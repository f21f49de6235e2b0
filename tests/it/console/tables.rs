//! Tables: stable columns, correct marks, sorting, the mouse, copying.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use k8s_openapi::api::core::v1::Pod;
use podium::console::model::Job;
use podium::console_data::message::Message;
use podium::console_data::scope::Scope;
use podium::console_data::store::{Change, Delta};
use serde_json::json;

use super::shows;
use super::test_console::{TestConsole, cluster, objects, pod};

fn applied(pod: serde_json::Value) -> Vec<Delta> {
    vec![Delta::of::<Pod>(vec![Change::Applied(objects([pod]).remove(0))])]
}

fn heading_line(stage: &mut TestConsole) -> String {
    stage.screen().lines().nth(2).expect("the heads").to_owned()
}

fn pods(width: u16) -> TestConsole {
    let mut stage = TestConsole::new(width, 36);
    stage.feed(cluster());
    stage.press("p");
    stage
}

#[test]
fn columns_stay_where_they_are_while_states_change_con_4() {
    for width in [80, 120] {
        let mut stage = pods(width);
        let before = heading_line(&mut stage);
        for state in ["ContainerCreating", "CrashLoopBackOff", "Error", "Completed", "Running"] {
            stage.feed(applied(pod("default", "api-1-a", Some("api-1"), Some("node-1"), state, 7100)));
            assert_eq!(heading_line(&mut stage), before, "{state} at {width}");
        }
        // Other rows become visible, others disappear: the columns do not move.
        stage.press("/ \"seed\" enter");
        assert_eq!(heading_line(&mut stage), before, "filtered at {width}");
    }
}

#[test]
fn columns_grow_once_and_never_shrink_con_4() {
    let mut stage = pods(120);
    let before = heading_line(&mut stage);
    let long = "a-name-that-is-longer-than-all-others";
    stage.feed(applied(pod("default", long, None, Some("node-1"), "Running", 1)));
    let grown = heading_line(&mut stage);
    assert_ne!(grown, before);
    let gone = objects([pod("default", long, None, None, "Running", 1)]).remove(0);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(gone)])]);
    assert_eq!(heading_line(&mut stage), grown);
}

#[test]
fn names_sort_both_ways_con_3() {
    let mut stage = pods(120);
    shows(&stage.screen(), &["NAME ↑", "api-1-a", "api-1-b", "cart-1-a", "seed", "waiting"]);
    stage.press("N");
    shows(&stage.screen(), &["NAME ↓", "waiting", "seed", "cart-1-a", "api-1-b", "api-1-a"]);
    stage.press("shift-right shift-right shift-right shift-right O O");
    shows(&stage.screen(), &["RESTARTS ↓", "crash", "api-1-a"]);
}

#[test]
fn wide_leads_to_every_column_con_3() {
    let mut stage = pods(80);
    stage.press("ctrl-w");
    assert!(heading_line(&mut stage).contains(" →"));
    let mut seen = String::new();
    for _ in 0..10 {
        seen.push_str(&heading_line(&mut stage));
        stage.press("right");
    }
    for head in ["NAME", "READY", "STATUS", "RESTARTS", "NODE", "IP", "QOS", "IMAGES", "AGE"] {
        assert!(seen.contains(head), "{head}");
    }
}

#[test]
fn only_what_exists_is_marked_con_3() {
    let mut stage = pods(120);
    stage.press("space j space");
    shows(&stage.screen(), &["◆ 2 marked"]);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Reset(objects([pod(
        "default",
        "api-1-b",
        None,
        Some("node-1"),
        "Running",
        9,
    )]))])]);
    shows(&stage.screen(), &["◆ 1 marked", "◆ default api-1-b"]);
    stage.press("2");
    assert!(!stage.screen().contains("marked"), "rows out of scope are no longer marked");
}

#[test]
fn ranges_of_marks_and_none_con_3() {
    let mut stage = pods(120);
    stage.press("space j j j ctrl-space");
    shows(&stage.screen(), &["◆ 4 marked", "◆ default api-1-a", "◆ default api-1-b", "◆ default cart-1-a"]);
    stage.press("ctrl-\\");
    assert!(!stage.screen().contains('◆'));
}

#[test]
fn rows_are_copied_as_names_and_saved_as_csv_con_3() {
    let mut stage = pods(120);
    let jobs = stage.press("space j space c");
    assert!(matches!(&jobs[..], [Job::Copy(text)] if text == "api-1-a\napi-1-b"), "{jobs:?}");
    let comma = json!({
        "metadata": {"namespace": "default", "name": "odd", "uid": "pod-odd"},
        "spec": {"containers": [{"name": "a", "image": "x,\"y\""}]}, "status": {"phase": "Pending"},
    });
    stage.feed(applied(comma));
    let jobs = stage.press("/ \"odd\" enter ctrl-s");
    let [Job::Save(name, text)] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!(name, "pods.csv");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("NAMESPACE,NAME,READY,STATUS,RESTARTS,NODE,IP,QOS,IMAGES,AGE"));
    assert_eq!(lines.next(), Some("default,odd,0/1,Pending,0,<none>,<none>,<none>,\"x,\"\"y\"\"\","));
    assert_eq!(lines.next(), None);
}

fn mouse(stage: &mut TestConsole, kind: MouseEventKind, column: u16, row: u16) {
    stage.screen();
    stage.send(Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
}

#[test]
fn the_mouse_moves_takes_and_opens_con_1() {
    let click = MouseEventKind::Down(MouseButton::Left);
    let mut stage = pods(120);
    stage.press("space j");
    mouse(&mut stage, MouseEventKind::ScrollDown, 5, 5);
    shows(&stage.screen(), &["◆ 1 marked", "▸ default web-new-b"]);
    mouse(&mut stage, MouseEventKind::ScrollUp, 5, 5);
    mouse(&mut stage, MouseEventKind::ScrollUp, 5, 5);
    mouse(&mut stage, click, 20, 5);
    shows(&stage.screen(), &["◆ 1 marked", "▸ default cart-1-a"]);
    // The headings, the frame and the space below the rows are not rows.
    for row in [1, 2, 30, 35] {
        mouse(&mut stage, click, 20, row);
        shows(&stage.screen(), &["▸ default cart-1-a"]);
    }
    mouse(&mut stage, click, 20, 5);
    shows(&stage.screen(), &["▸ Overview ▸ Pods ▸ cart-1-a"]);
}

#[test]
fn the_overview_is_clicked_and_filtered_con_2() {
    let click = MouseEventKind::Down(MouseButton::Left);
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    let screen = stage.screen();
    let row = screen.lines().position(|line| line.contains("● node-1 ")).expect("a node") as u16;
    mouse(&mut stage, click, 10, row);
    shows(&stage.screen(), &["▸ Overview"]);
    mouse(&mut stage, click, 10, row);
    shows(&stage.screen(), &["Pods on node-1 6"]);

    stage.press("~ / \"cart\" enter");
    let screen = stage.screen();
    shows(
        &screen,
        &["Deployments /cart", "cart", "Nodes /cart", "nothing matches", "Events /cart", "pod/cart-1-a"],
    );
    assert!(!screen.contains(" api "), "{screen}");
    stage.press("esc");
    shows(&stage.screen(), &[" api ", "node-1"]);
}

#[test]
fn a_table_in_a_namespace_that_does_not_exist_says_so_con_3() {
    let mut stage = TestConsole::with(80, 24, Scope::One("nosuch".into()), false);
    stage.feed(cluster());
    stage.press("p");
    shows(&stage.screen(), &["the namespace nosuch does not exist; <0> shows all"]);
    // Objects without a namespace are listed as usual, and a namespace without pods is not missing.
    stage.press(": \"nodes\" enter");
    shows(&stage.screen(), &["node-1"]);
    let mut stage = TestConsole::with(80, 24, Scope::One("kube-system".into()), false);
    stage.feed(cluster());
    stage.press("p");
    shows(&stage.screen(), &["no pods in namespace kube-system; <0> shows all"]);
}
