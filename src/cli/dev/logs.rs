//! Follows the logs of a project's pods, merged, where there is no console.

use base::task::JoinSet;
use kube::Client;
use tokio::sync::watch;

use super::report::Report;
use console_screens::logs::{ContainerFilter, LogSelection, LogStart, Pods, follow, next_batch};
use console_toolkit::log_line::LineOrigin;

/// The number of earlier lines of containers that ran before.
const TAIL: i64 = 20;

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
        while let Some(lines) = next_batch(&mut batches).await {
            // Notes without a container are about pods that come and go, which rollouts do all the time.
            let shown = lines.iter().filter(|line| line.kind != LineOrigin::Note || !line.source.is_empty());
            shown.for_each(|line| report.log_line(line));
        }
    };
    tokio::join!(reading, print);
}
