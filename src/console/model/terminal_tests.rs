//! Keys of a terminal pane whose program has not started or has ended (CON-8).

use k8s_openapi::api::core::v1::Pod;

use super::tabs_tests::{TestConsole, objects, pod, setup};
use super::*;
use console_data::message::Message;
use console_data::store::{Change, Delta};
use console_operations::pane::{Outcome, PaneEvent, StartProgress};
use console_screens::terminal::TerminalData;
use console_toolkit::theme::depth::Depth;
use console_toolkit::toast::Toast;

fn footer(stage: &mut TestConsole) -> String {
    stage.screen().lines().last().unwrap_or_default().trim().to_owned()
}

/// A console with an attached terminal.
fn attached() -> (TestConsole, ScreenId) {
    let mut stage = TestConsole::new(80, 12);
    stage.press("p");
    let id = stage.shell();
    (stage, id)
}

#[test]
fn a_starting_terminal_shows_the_key_that_cancels_it_con_8() {
    for key in ["esc", "ctrl-]", "f12"] {
        let (mut stage, id) = attached();
        let waiting =
            StartProgress::Waiting { reason: String::new(), message: "pulling".into(), trouble: false };
        stage.send(id, TerminalData::Event(PaneEvent::Progress(waiting)));
        assert_eq!(footer(&mut stage), "<esc>cancel");
        assert!(stage.screen().contains("esc cancel"), "{}", stage.screen());
        stage.press(key);
        assert!(stage.screen().contains("╭ Pods"), "{key}\n{}", stage.screen());
    }
}

fn ended(stage: &mut TestConsole, id: ScreenId, output: &str) {
    stage.send(id, TerminalData::Event(PaneEvent::Output(output.as_bytes().to_vec().into())));
    stage.send(id, TerminalData::Event(PaneEvent::Ended(Outcome::Exited(0))));
}

#[test]
fn an_ended_terminal_shows_the_keys_that_still_work_con_8() {
    let (mut stage, id) = attached();
    assert_eq!(footer(&mut stage), "<ctrl-]>detach  <f12>end");
    ended(&mut stage, id, "hello");
    // Nothing is above the screen to scroll to.
    assert_eq!(footer(&mut stage), "<r>again  <c>copy  <enter>close");
    let jobs = stage.press("c");
    assert!(matches!(&jobs[..], [Job::Copy(text)] if text.starts_with("hello")), "{jobs:?}");
    // Other keys, such as the rest of a line typed for the program, do nothing.
    let jobs = stage.press("x : j");
    assert!(jobs.is_empty() && footer(&mut stage) == "<r>again  <c>copy  <enter>close", "{jobs:?}");
}

#[test]
fn an_ended_terminal_is_scrolled_and_copied_as_a_whole_con_8() {
    let (mut stage, id) = attached();
    let lines: Vec<String> = (0..40).map(|number| format!("line {number}")).collect();
    stage.screen();
    ended(&mut stage, id, &lines.join("\r\n"));
    assert_eq!(footer(&mut stage), "<r>again  <c>copy  <enter>close  <pageup>scroll");
    assert!(!stage.screen().contains("line 30"), "{}", stage.screen());
    stage.press("pageup up");
    assert!(stage.screen().contains("line 30"), "{}", stage.screen());
    let jobs = stage.press("c");
    assert!(matches!(&jobs[..], [Job::Copy(text)] if text.starts_with(&lines.join("\n"))), "{jobs:?}");
    stage.press("pagedown pagedown");
    assert!(stage.screen().contains("line 39"), "{}", stage.screen());
}

/// The key of the help is text for a terminal.
#[test]
fn a_narrow_terminal_offers_no_help_con_3() {
    let (mut stage, id) = attached();
    let lines: Vec<String> = (0..40).map(|number| format!("line {number}")).collect();
    ended(&mut stage, id, &lines.join("\r\n"));
    stage.resize(40, 12);
    assert!(!footer(&mut stage).contains("<?>"), "{}", stage.screen());
}

#[test]
fn every_key_that_left_a_terminal_closes_it_after_its_end_con_8() {
    for key in ["enter", "esc", "q", "ctrl-]", "f12"] {
        let (mut stage, id) = attached();
        ended(&mut stage, id, "hello");
        stage.press(key);
        assert!(stage.screen().contains("╭ Pods"), "{key}\n{}", stage.screen());
    }
}

#[test]
fn a_read_only_console_starts_no_session_again_con_8() {
    let setup = Setup { read_only: true, ..setup(Depth::True) };
    let mut stage = TestConsole::of(Model::new(setup, TestConsole::new(80, 12).now).0, 80, 12);
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([pod("default", "web")]))]));
    let id = stage.shell();
    ended(&mut stage, id, "hello");
    assert_eq!(footer(&mut stage), "<c>copy  <enter>close");
    let jobs = stage.press("r");
    assert!(jobs.is_empty() && stage.screen().contains("read-only"), "{jobs:?}\n{}", stage.screen());
}

/// A toast is at the other end of the screen than the cursor.
#[test]
fn a_toast_never_covers_the_line_of_the_cursor_con_15() {
    for rows in 0..24 {
        for height in [12, 24] {
            let mut stage = TestConsole::new(80, height);
            stage.press("p");
            let id = stage.shell();
            stage.screen();
            let output = format!("{}{}$ ", "line\r\n".repeat(rows), "x".repeat(70));
            stage.send(id, TerminalData::Event(PaneEvent::Output(output.into_bytes().into())));
            stage.model.update(Message::Toast(Toast::warning("drill passed: 90 of 100")), stage.now);
            let screen = stage.screen();
            assert!(screen.contains("drill passed"), "{height}, {rows}:\n{screen}");
            assert!(screen.contains(&format!("{}$ ", "x".repeat(70))), "{height}, {rows}:\n{screen}");
        }
    }
}
