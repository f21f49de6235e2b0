//! The logs screen on a test terminal (CON-10).

use std::sync::Arc;

use super::tabs_tests::TestConsole;
use super::*;
use console_data::message::{Data, Message};
use console_screens::logs::{LogLine, LogsData};

/// A console with the logs of a pod's container: so many lines, and a note.
fn logs_of(width: u16, height: u16, count: usize) -> TestConsole {
    let mut stage = TestConsole::new(width, height);
    stage.press("p l");
    let source: Arc<str> = Arc::from("api/main");
    let line = |number| LogLine::parse(&source, format!("2026-05-01T12:00:00.500Z line {number}").as_bytes());
    let mut lines: Vec<LogLine> = (0..count).map(line).collect();
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
