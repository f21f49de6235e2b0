//! A project under development (`podium dev`): the selection of its pods, the output of its builds, and its failures.
//! The program that starts the console writes it, and the console shows it (DEV-6).

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use console_toolkit::log_line::{Level, LogLine};
use console_toolkit::toast::Toast;

/// The maximum number of lines that stay for views which open later.
const MOST_LINES: usize = 5000;
/// The maximum number of messages that the console has not shown yet.
const MOST_NOTICES: usize = 16;

/// A project that the program of this console builds and applies.
#[derive(Debug)]
pub struct Project {
    /// The name, for titles.
    pub name: String,
    /// The label selector of its pods, in the form of query parameters.
    pub selector: String,
    namespaces: watch::Sender<Vec<String>>,
    lines: Mutex<ProjectLines>,
    /// The number of lines so far.
    count: watch::Sender<u64>,
    failure: Mutex<Option<String>>,
    notices: Mutex<VecDeque<Toast>>,
    notified: Notify,
}

#[derive(Debug, Default)]
struct ProjectLines {
    lines: VecDeque<LogLine>,
    /// The number of the line after the last one.
    end: u64,
}

impl Project {
    /// Creates a project without lines.
    pub fn new(name: String, selector: String, namespace: String) -> Self {
        Self {
            name,
            selector,
            namespaces: watch::Sender::new(vec![namespace]),
            lines: Mutex::default(),
            count: watch::Sender::new(0),
            failure: Mutex::default(),
            notices: Mutex::default(),
            notified: Notify::new(),
        }
    }

    /// Sets the namespaces of its pods.
    pub fn set_namespaces(&self, namespaces: Vec<String>) {
        self.namespaces.send_if_modified(|known| {
            let is_other = *known != namespaces;
            *known = namespaces;
            is_other
        });
    }

    /// The namespaces of its pods, as they change.
    pub fn namespaces(&self) -> watch::Receiver<Vec<String>> {
        self.namespaces.subscribe()
    }

    /// Adds a line to the project's log.
    pub fn write(&self, source: &str, text: &str, now: Timestamp) {
        self.add(line(source, text, now));
    }

    /// Adds a line that reports a failure.
    pub fn write_error(&self, source: &str, text: &str, now: Timestamp) {
        self.add(LogLine { level: Level::Error, ..line(source, text, now) });
    }

    fn add(&self, line: LogLine) {
        let end = {
            let mut log = self.lines.lock();
            if log.lines.len() >= MOST_LINES {
                log.lines.pop_front();
            }
            log.lines.push_back(line);
            log.end += 1;
            log.end
        };
        self.count.send_replace(end);
    }

    /// Returns the lines from a number on, once there are any, and moves the number behind them.
    pub async fn lines_from(&self, number: &mut u64) -> Vec<LogLine> {
        let mut count = self.count.subscribe();
        // The sender lives as long as this borrow.
        let _ = count.wait_for(|end| end > number).await;
        let log = self.lines.lock();
        let first = log.end - log.lines.len() as u64;
        let skipped = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        *number = log.end;
        log.lines.iter().skip(skipped).cloned().collect()
    }

    /// Sets the failure that lasts until the next success; `None` ends it.
    pub fn set_failure(&self, failure: Option<String>) {
        *self.failure.lock() = failure;
        self.notified.notify_one();
    }

    /// The failure that lasts.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Shows a message in the console.
    pub fn notify(&self, toast: Toast) {
        let mut notices = self.notices.lock();
        if notices.len() >= MOST_NOTICES {
            notices.pop_front();
        }
        notices.push_back(toast);
        drop(notices);
        self.notified.notify_one();
    }

    /// Waits for a message or a change of the failure; `None` stands for the latter. Only one task may wait.
    pub async fn next_notice(&self) -> Option<Toast> {
        let waiting = self.notices.lock().pop_front();
        if waiting.is_some() {
            return waiting;
        }
        self.notified.notified().await;
        self.notices.lock().pop_front()
    }
}

/// A line as the log of a container has it.
fn line(source: &str, text: &str, now: Timestamp) -> LogLine {
    LogLine::parse(&Arc::from(source), format!("{now} {text}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_view_that_opens_later_has_the_earlier_lines_dev_6() {
        let project = Project::new("app".into(), "a=b".into(), "default".into());
        for number in 0..MOST_LINES + 10 {
            project.write("build", &number.to_string(), Timestamp::UNIX_EPOCH);
        }
        let mut at = 0;
        let lines = project.lines_from(&mut at).await;
        assert_eq!((lines.len(), lines[0].text.as_str(), at), (MOST_LINES, "10", MOST_LINES as u64 + 10));
        project.write_error("build", "it failed\u{1b}[2J", Timestamp::UNIX_EPOCH);
        let lines = project.lines_from(&mut at).await;
        assert_eq!(lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["it failed"]);
        for number in 0..100 {
            project.notify(Toast::info(number.to_string()));
        }
        assert_eq!(project.next_notice().await, Some(Toast::info("84")));
    }
}
