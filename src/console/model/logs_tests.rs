//! The logs screen on a test terminal (CON-10).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::tabs_tests::{TestConsole, objects, pod};
use super::*;
use console_data::links::Link;
use console_data::message::{Data, Message};
use console_data::store::{Change, Delta};
use console_screens::logs::{LogLine, LogsData};

/// A console with the logs of a pod's container: so many lines, and a note.
fn logs_of(width: u16, height: u16, count: usize) -> TestConsole {
    logs_with(width, height, (0..count).map(|number| format!("line {number}")))
}

/// A console with the logs of a pod's container: these lines, and a note.
fn logs_with(width: u16, height: u16, texts: impl Iterator<Item = String>) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.press("p l");
    let source: Arc<str> = Arc::from("api/main");
    let line = |text| LogLine::parse(&source, format!("2026-05-01T12:00:00.500Z {text}").as_bytes());
    let mut lines: Vec<LogLine> = texts.map(line).collect();
    lines.push(LogLine::note(&source, "main waits: CrashLoopBackOff"));
    let id = stage.model.top().0;
    stage.model.update(Message::Data(id, Data::new(LogsData::Lines(1, lines))), stage.now);
    stage
}

fn copied(jobs: &[Job]) -> Option<&str> {
    jobs.iter().find_map(|job| if let Job::Copy(text) = job { Some(&**text) } else { None })
}

#[test]
fn all_lines_of_a_log_are_copied_as_they_are_shown_con_10() {
    for (keys, first, last, count) in [
        ("c", "line 0", "▪ main waits: CrashLoopBackOff", 301),
        ("g c", "line 0", "▪ main waits: CrashLoopBackOff", 301),
        ("t c", "12:00:00.500 line 0", "▪ main waits: CrashLoopBackOff", 301),
        // Matching lines only: 7, 17, 27 and so on, and those from 70 to 79 in each hundred.
        ("/ \"7\" enter F c", "line 7", "line 297", 57),
    ] {
        let mut stage = logs_of(80, 24, 300);
        let jobs = stage.press(keys);
        let text = copied(&jobs).unwrap_or_else(|| panic!("{keys}: {jobs:?}"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[lines.len() - 1], lines.len()), (first, last, count), "{keys}");
        let screen = stage.screen();
        assert!(screen.contains(&format!("copied {count} lines")), "{keys}\n{screen}");
    }
    let mut stage = logs_of(80, 24, 300);
    let jobs = stage.press("C c");
    assert!(copied(&jobs).is_none() && stage.screen().contains("no lines to copy"), "{}", stage.screen());
}

/// A terminal takes a limited text for its clipboard.
#[test]
fn of_a_very_long_log_the_newest_lines_are_copied_con_10() {
    let mut stage = logs_of(100, 24, 99_000);
    let jobs = stage.press("c");
    let text = copied(&jobs).unwrap_or_else(|| panic!("{jobs:?}"));
    assert!(text.len() > 900_000 && text.len() <= 1 << 20, "{}", text.len());
    assert!(text.ends_with("line 98999\n▪ main waits: CrashLoopBackOff\n"));
    let screen = stage.screen();
    assert!(screen.contains("of 99 001 lines: ctrl-s saves all"), "{screen}");
}

/// No column is left for the text.
#[test]
fn a_match_beside_a_name_as_wide_as_the_view_closes_no_log_con_10() {
    let mut stage = TestConsole::new(60, 12);
    stage.press("p l a");
    let source: Arc<str> = Arc::from(format!("api/{}", "c".repeat(63)));
    let line = LogLine::parse(&source, b"2026-05-01T12:00:00.500Z needle");
    let id = stage.model.top().0;
    stage.model.update(Message::Data(id, Data::new(LogsData::Lines(2, vec![line]))), stage.now);
    stage.press("/ \"needle\" enter n");
    let screen = stage.screen();
    assert!(screen.contains("╭ logs · default/api") && screen.contains("/needle 1/1"), "{screen}");
}

/// The frame and the footer are hidden.
#[test]
fn a_log_on_the_whole_screen_shows_the_way_back_con_10() {
    for (width, height) in [(40, 10), (80, 24)] {
        let mut stage = logs_of(width, height, 300);
        stage.press("f");
        let screen = stage.screen();
        assert!(screen.lines().last().is_some_and(|line| line.trim() == "<f>frame  <esc>back"), "{screen}");
        assert!(!screen.contains('╭'), "{screen}");
        stage.press("f");
        assert!(stage.screen().contains("╭ logs"), "{}", stage.screen());
        stage.press("f esc");
        assert!(stage.screen().contains("╭ Pods"), "{}", stage.screen());
    }
}

/// Wrapped lines are scrolled by rows: lines that fit into the view by their number may need many more rows.
#[test]
fn every_row_of_wrapped_lines_can_be_reached_con_10() {
    let words = |line: usize| (0..100).map(|word| format!("w{line}-{word}")).collect::<Vec<_>>().join(" ");
    let mut stage = logs_with(80, 24, (0..9).map(words));
    stage.press("w");
    let screen = stage.screen();
    assert!(
        screen.contains("w8-99") && screen.contains("following") && !screen.contains("w0-0 "),
        "{screen}"
    );
    stage.press("g");
    let screen = stage.screen();
    assert!(screen.contains("w0-0 w0-1") && screen.contains("held, 7 below"), "{screen}");
    let mut seen = screen;
    for _ in 0..20 {
        stage.press("pagedown");
        seen += &stage.screen();
    }
    let missing: Vec<String> = (0..9).map(|line| format!("w{line}-50")).collect();
    assert!(missing.iter().all(|word| seen.contains(word)), "{seen}");
    let end = stage.screen();
    assert!(end.contains("following") && end.contains("CrashLoopBackOff"), "{end}");
    stage.press("k");
    let screen = stage.screen();
    assert!(screen.contains("w8-99") && !screen.contains("CrashLoopBackOff"), "one row up: {screen}");
    // A match deep in a wrapped line.
    stage.press("/ \"w4-99\" enter n");
    assert!(stage.screen().contains("w4-99"), "{}", stage.screen());
}

/// A match beyond the edge of lines that are not wrapped scrolls the view to the right, and back again.
#[test]
fn a_match_beyond_the_right_edge_is_shown_con_10() {
    let text = |line: usize| format!("start-{line} {} needle-{line} {}", "x".repeat(200), "y".repeat(200));
    let mut stage = logs_with(80, 24, (0..40).map(text));
    stage.press("g / \"needle\" enter");
    let screen = stage.screen();
    assert!(
        screen.contains("needle-0") && screen.contains("/needle 1/40") && screen.contains('→'),
        "{screen}"
    );
    stage.press("n");
    assert!(stage.screen().contains("needle-1"), "{}", stage.screen());
    stage.press("/ ctrl-u \"start-3\" enter");
    let screen = stage.screen();
    assert!(screen.contains("start-3 ") && !screen.contains('→'), "{screen}");
}

/// While the server does not answer, no line can follow.
#[test]
fn a_log_without_a_connection_is_not_followed_con_18() {
    let mut stage = logs_of(80, 24, 3);
    assert!(stage.screen().contains("● following"), "{}", stage.screen());
    for resource in console_data::builtin_kinds::resources() {
        let down = Link::Down { resource, reason: "gone".to_owned(), retry_at: stage.now };
        stage.model.update(Message::Link(down), stage.now);
    }
    let screen = stage.screen();
    assert!(screen.contains("✖ no connection") && !screen.contains("following"), "{screen}");
    for resource in console_data::builtin_kinds::resources() {
        stage.model.update(Message::Link(Link::Up(resource)), stage.now);
    }
    assert!(stage.screen().contains("● following"), "{}", stage.screen());
}

/// A task that is cancelled may already have sent lines.
#[test]
fn late_lines_do_not_hide_that_a_container_is_gone_con_10() {
    let mut stage = logs_of(80, 24, 3);
    let mut replaced = pod("default", "api");
    replaced["spec"]["containers"][0]["name"] = json!("renamed");
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([replaced]))]));
    stage.press("1");
    let late = LogLine::parse(&Arc::from("api/main"), b"too late");
    let id = stage.model.top().0;
    stage.model.update(Message::Data(id, Data::new(LogsData::Lines(1, vec![late]))), stage.now);
    let screen = stage.screen();
    assert!(screen.contains("the pod has no container \"main\"; it has renamed"), "{screen}");
    assert!(!screen.contains("too late"), "{screen}");
}
