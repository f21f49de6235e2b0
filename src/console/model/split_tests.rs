//! Panes on a test terminal: keys, the screen, and following the selection (CON-17).

use crossterm::event::{MouseButton, MouseEventKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use serde_json::json;

use super::tabs_tests::{TestConsole, objects};
use super::*;
use console_data::message::Message;
use console_data::store::{Change, Delta};
use console_operations::effect::SplitDirection;
use console_toolkit::theme::depth::Depth;
use jiff::SignedDuration;

impl TestConsole {
    /// Advances the time, as the loop does.
    fn wait(&mut self, milliseconds: i64) -> Vec<Job> {
        self.now = self.now.saturating_add(SignedDuration::from_millis(milliseconds)).unwrap();
        self.model.update(Message::Tick, self.now)
    }

    fn second(&self) -> String {
        let cx = self.model.shared.context(self.now);
        let split = self.model.split.as_ref().expect("two panes");
        let second = if split.in_second { &self.model.screens } else { &split.other };
        second.last().expect("never empty").1.title(&cx)
    }
}

#[test]
fn a_pane_shows_what_is_selected_beside_or_below_con_17() {
    // Size, keys from the overview, and the expected screen.
    for (size, keys, expected) in [
        ((140, 40), "p |", vec!["▶Pods all 4", "▸ default", "logs · default/api"]),
        ((140, 40), "p : \"vsplit_yaml\" enter", vec!["▶Pods all 4", "Pod default/api"]),
        ((140, 40), "p : \"split_describe\" enter", vec!["▶Pods all 4", "Pod default/api"]),
        ((140, 40), "p : \"vs_events\" enter", vec!["▶Pods all 4", "Events of api"]),
        ((80, 24), "p _", vec!["▶Pods all 4", "▸ default", "logs · default/api"]),
        ((80, 24), "p |", vec!["▶Pods all 4", "▸ api", "logs · default/api"]),
        ((80, 24), "p _ f6", vec!["╭ Pods all 4", "╭▶"]),
        ((40, 12), "p |", vec!["folded, too small for two panes; f6"]),
        ((40, 12), "p _", vec!["folded, too small for two panes; f6"]),
        ((80, 24), "p : \"split_wobble\" enter", vec!["a pane shows logs, yaml, describe or events"]),
        ((80, 24), "ctrl-a |", vec!["nothing is selected to show in a second pane"]),
        ((80, 24), "p : \"pane-focus\" enter", vec!["this tab has one pane; | and _ split it"]),
    ] {
        for depth in [Depth::True, Depth::None] {
            let mut stage = TestConsole::in_depth(size.0, size.1, depth);
            stage.press(keys);
            let screen = stage.screen();
            for want in &expected {
                assert!(screen.contains(want), "{size:?} {keys}: no {want:?} in\n{screen}");
            }
            assert_eq!(screen.lines().count(), usize::from(size.1));
        }
    }
}

#[test]
fn the_second_pane_follows_once_the_selection_stands_con_17() {
    let mut stage = TestConsole::new(140, 40);
    stage.press("p : \"vsplit_yaml\" enter");
    let first = stage.second();
    assert!(first.contains("api"), "{first}");
    let opened = stage.model.other_top().expect("two panes").0;
    assert!(
        !stage.press("j j").iter().any(|job| matches!(job, Job::Close(_))),
        "nothing is opened on the way"
    );
    assert!(stage.second().contains("api"));
    stage.screen();
    assert!(stage.model.shared.wake.get().is_some(), "the loop is asked to come back");
    let jobs = stage.wait(205);
    assert!(jobs.iter().any(|job| matches!(job, Job::Close(id) if *id == opened)), "{jobs:?}");
    assert!(stage.second().contains("web"), "{}", stage.second());
    stage.screen();
    assert!(stage.wait(500).is_empty(), "and then it rests");
    // It can be pinned, and follows again.
    stage.press("f9 k");
    stage.wait(500);
    assert!(stage.second().contains("web"));
    stage.press("f9");
    stage.wait(500);
    assert!(stage.second().contains("cart"), "{}", stage.second());
    // A view opened in it stays, too.
    stage.press("f6 : \"nodes\" enter f6 k");
    stage.wait(500);
    assert_eq!(stage.second(), "Nodes");
}

#[test]
fn a_pane_beside_a_service_shows_the_logs_of_its_pods_con_17() {
    let mut stage = TestConsole::new(140, 40);
    let service = json!({"metadata": {"name": "front", "namespace": "default", "uid": "s"},
        "spec": {"selector": {"app": "web"}}});
    stage.feed(Delta::of::<Service>(vec![Change::Reset(objects([service]))]));
    stage.press(": \"svc\" enter |");
    assert_eq!(stage.second(), "front · logs");
}

/// In events about its node, the kubelet writes the node's name instead of its uid.
#[test]
fn a_pane_beside_a_node_shows_the_events_of_its_kubelet_con_17() {
    let mut stage = TestConsole::new(140, 40);
    let node = json!({"metadata": {"name": "worker", "uid": "n2"}});
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects([node]))]));
    let event = |uid: &str, message: &str, about: &str| {
        json!({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "reason": uid,
            "message": message, "involvedObject": {"kind": "Node", "name": "worker", "uid": about}})
    };
    let events = [
        event("e1", "by kubelet", "worker"),
        event("e2", "by controller", "n2"),
        event("e3", "of earlier", "n1"),
    ];
    stage.feed(Delta::of::<Event>(vec![Change::Reset(objects(events))]));
    stage.press(": \"nodes\" enter : \"vs_events\" enter");
    let screen = stage.screen();
    assert!(screen.contains("Events of worker"), "{screen}");
    for (message, is_shown) in [("by kubelet", true), ("by controller", true), ("of earlier", false)] {
        assert_eq!(screen.contains(message), is_shown, "{message}\n{screen}");
    }
}

#[test]
fn focus_size_and_closing_of_panes_con_17() {
    let mut stage = TestConsole::new(140, 40);
    stage.press("p : \"vsplit_yaml\" enter");
    let width = |stage: &mut TestConsole| {
        let screen = stage.screen();
        let line = screen.lines().nth(1).unwrap().to_owned();
        line.chars().position(|c| c == '╮').unwrap() + 1
    };
    assert_eq!(width(&mut stage), 70);
    stage.press("f8");
    assert_eq!(width(&mut stage), 84);
    stage.press("f7 f7");
    assert_eq!(width(&mut stage), 56);
    stage.press("f6 f8 f8 f8 f8 f8");
    assert_eq!(width(&mut stage), 40, "never less than can be read");
    // Keys go to the focused pane; esc goes back, and closes nothing.
    stage.press("/ \"kind\" enter");
    assert!(stage.screen().contains("▶"), "{}", stage.screen());
    stage.press("esc esc");
    assert!(stage.screen().contains("▶Pods"), "{}", stage.screen());
    stage.press("f6");
    let id = stage.model.top().0;
    let jobs = stage.press("q");
    assert!(jobs.iter().any(|job| matches!(job, Job::Close(closed) if *closed == id)), "{jobs:?}");
    assert!(stage.model.split.is_none() && stage.screen().contains("╭ Pods all 4"), "{}", stage.screen());
    // The other arrangement, and closed.
    stage.press("| _");
    assert!(stage.screen().lines().nth(1).unwrap().trim_end().ends_with('╮'));
    let jobs = stage.press("alt-q");
    assert!(jobs.iter().any(|job| matches!(job, Job::Close(_))));
    assert!(stage.model.split.is_none());
}

/// The compact overview has no frame: its first word stays whole.
#[test]
fn the_mark_of_the_focus_covers_no_text_con_17() {
    let mut stage = TestConsole::new(80, 24);
    let web = json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"replicas": 1, "selector": {}, "template": {}}});
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([web]))]));
    stage.press(": \"vsplit_events\" enter");
    let screen = stage.screen();
    assert!(screen.contains("▶Pods  "), "{screen}");
}

#[test]
fn a_split_stays_with_its_tab_con_17() {
    let mut stage = TestConsole::new(140, 40);
    stage.press("p : \"vsplit_yaml\" enter ctrl-t");
    assert!(stage.model.split.is_none());
    let screen = stage.screen();
    assert!(screen.contains("▸2 Overview") && !screen.contains('▶'), "{screen}");
    stage.press("alt-1");
    assert!(stage.screen().contains("▶Pods"), "{}", stage.screen());
    // Both panes receive changes.
    let seed = |name: &str| super::tabs_tests::pod("default", name);
    stage.press("f6");
    stage.feed(console_data::store::Delta::of::<Pod>(vec![console_data::store::Change::Applied(
        super::tabs_tests::objects([seed("brand-new")]).remove(0),
    )]));
    assert!(stage.screen().contains("brand-new"), "{}", stage.screen());
    let jobs = stage.press("alt-w");
    assert!(jobs.iter().filter(|job| matches!(job, Job::Close(_))).count() >= 3, "{jobs:?}");
}

#[test]
fn a_click_goes_to_the_pane_it_hits_con_17() {
    let mut stage = TestConsole::new(140, 40);
    stage.press("p : \"vsplit_yaml\" enter");
    stage.screen();
    let at = |kind, column| crossterm::event::MouseEvent {
        kind,
        column,
        row: 5,
        modifiers: crossterm::event::KeyModifiers::NONE,
    };
    stage.model.update(Message::Mouse(at(MouseEventKind::ScrollDown, 100)), stage.now);
    assert!(!stage.model.split.as_ref().unwrap().in_second, "the wheel turns what it is over");
    stage.model.update(Message::Mouse(at(MouseEventKind::Down(MouseButton::Left), 100)), stage.now);
    assert!(stage.model.split.as_ref().unwrap().in_second);
    stage.screen();
    stage.model.update(Message::Mouse(at(MouseEventKind::Down(MouseButton::Left), 10)), stage.now);
    assert!(!stage.model.split.as_ref().unwrap().in_second);
}

#[test]
fn a_pane_as_narrow_as_can_be_tells_name_and_state_con_17() {
    for (width, height, keys) in [(80, 24, "p |"), (40, 12, "p")] {
        let mut stage = TestConsole::new(width, height);
        let pod = super::tabs_tests::pod("default", "chatter-6bf8995874-r6rhg-and-more");
        stage.feed(console_data::store::Delta::of::<Pod>(vec![console_data::store::Change::Reset(
            super::tabs_tests::objects([pod]),
        )]));
        stage.press(keys);
        let screen = stage.screen();
        assert!(screen.contains("▸ chatter-6bf8") && screen.contains("● Running"), "{screen}");
    }
}

#[test]
fn the_frame_of_the_pane_with_the_focus_alone_has_its_colour_con_17() {
    // The second pane shows a log, a text, a table, and a screen of several parts.
    for keys in ["p |", "p : \"vsplit_yaml\" enter", "p : \"vs_events\" enter", "p | f6 ~ f6"] {
        let mut stage = TestConsole::new(140, 40);
        stage.press(keys);
        let focus = stage.model.shared.theme.frame.focus.fg.unwrap();
        for in_second in [false, true, false] {
            if stage.model.split.as_ref().is_some_and(|split| split.in_second != in_second) {
                stage.press("f6");
            }
            let screen = stage.screen();
            let coloured = (stage.has_frame(0..70, focus), stage.has_frame(70..140, focus));
            assert_eq!(coloured, (!in_second, in_second), "{keys}: {screen}");
        }
    }
}

#[test]
fn a_pane_beside_goes_below_with_what_is_in_it_con_17() {
    let mut stage = TestConsole::new(140, 40);
    stage.press("p | f6 : \"nodes\" enter f6");
    let second = stage.model.other_top().expect("two panes").0;
    stage.press("_");
    let split = stage.model.split.as_ref().expect("two panes");
    assert_eq!((split.direction, split.other.len(), split.other[1].0), (SplitDirection::Below, 2, second));
    let screen = stage.screen();
    assert!(screen.contains("moved the second pane below"), "{screen}");
    // If the pane is there already, a message names the keys that focus and close it.
    stage.press("_");
    let screen = stage.screen();
    assert!(screen.contains("the second pane is below already: f6 goes to it, alt-q closes it"), "{screen}");
    stage.press("|");
    assert_eq!(stage.model.split.as_ref().map(|split| split.direction), Some(SplitDirection::Beside));
    assert_eq!(stage.model.other_top().expect("two panes").0, second);
}
