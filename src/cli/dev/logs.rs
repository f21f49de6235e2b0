//! Follows the logs of a project's pods, merged, where there is no console.

use std::collections::HashMap;
use std::sync::Arc;

use base::task::JoinSet;
use kube::Client;
use tokio::sync::watch;

use super::report::Report;
use console_operations::effect::{ContainerFilter, LogStart};
use console_screens::logs::{LogSelection, Pods, follow, next_batch};
use console_toolkit::log_line::{LineOrigin, LogLine};

/// The number of earlier lines of containers that ran before.
const TAIL: i64 = 20;
/// The maximum number of containers whose last note is known.
const MOST_NOTES: usize = 1000;

/// Follows the logs in these namespaces, as they change, until it is dropped.
pub(super) async fn follow_logs(
    client: Client,
    selector: String,
    mut namespaces: watch::Receiver<Vec<String>>,
    report: Report,
) {
    let mut followed: Vec<String> = Vec::new();
    let mut readers = JoinSet::new();
    loop {
        for namespace in namespaces.borrow_and_update().clone() {
            if !followed.contains(&namespace) {
                followed.push(namespace.clone());
                readers.spawn(follow_namespace(client.clone(), selector.clone(), namespace, report.clone()));
            }
        }
        if namespaces.changed().await.is_err() {
            return;
        }
    }
}

async fn follow_namespace(client: Client, selector: String, namespace: String, report: Report) {
    let selection = LogSelection {
        namespace,
        pods: Pods::Selected(selector),
        which: ContainerFilter::All,
        start: LogStart::Tail(TAIL),
        previous: false,
    };
    let (reading, mut batches) = follow(client, selection);
    let print = async {
        let mut notes = Notes::default();
        while let Some(lines) = next_batch(&mut batches).await {
            let shown = lines.iter().filter(|line| notes.shows(line));
            shown.for_each(|line| report.log_line(line));
        }
    };
    tokio::join!(reading, print);
}

/// The last note about each container, which is not printed twice in a row: without a server, every container has the
/// same one again and again.
#[derive(Default)]
struct Notes(HashMap<Arc<str>, String>);

impl Notes {
    fn shows(&mut self, line: &LogLine) -> bool {
        if line.kind != LineOrigin::Note {
            self.0.remove(&line.source);
            return true;
        }
        // Notes without a container are about pods that come and go, which rollouts do all the time.
        if line.source.is_empty() || self.0.get(&line.source) == Some(&line.text) {
            return false;
        }
        if self.0.len() >= MOST_NOTES {
            self.0.clear();
        }
        self.0.insert(line.source.clone(), line.text.clone());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_not_printed_twice_in_a_row_dev_6() {
        let (one, other) = (Arc::from("web-1/app"), Arc::from("web-2/app"));
        let note = |source, text| LogLine::note(source, text);
        let output = LogLine::parse(&one, b"serving");
        let mut notes = Notes::default();
        assert!(notes.shows(&note(&one, "no answer")) && notes.shows(&note(&other, "no answer")));
        assert!(!notes.shows(&note(&one, "no answer")));
        assert!(notes.shows(&note(&one, "restarted")) && notes.shows(&note(&one, "no answer")));
        assert!(notes.shows(&output) && notes.shows(&output) && notes.shows(&note(&one, "no answer")));
        assert!(!notes.shows(&note(&Arc::from(""), "web-1 is gone")));
    }
}
