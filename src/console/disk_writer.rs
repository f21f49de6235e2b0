//! Reads and writes the journal, the tabs and the drafts on disk, one operation after another, so that the loop never
//! waits for a disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::model::DiskJob;
use console_data::drafts;
use console_data::journal::file;
use console_data::message::Message;
use console_data::resource::{ClusterId, Uid};
use console_data::saved_tabs::{self, TabsHolder};
use console_toolkit::toast::Toast;

/// The number of operations that may wait for a slow disk; further ones are reported as lost.
const MAX_PENDING: usize = 256;
/// The maximum time that the console waits for pending writes at its end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The handle on the task.
pub(crate) struct DiskWriter {
    work: mpsc::Sender<(Uid, DiskJob)>,
    task: JoinHandle<()>,
}

impl DiskWriter {
    /// Starts the task for this directory; it sends its results to the loop.
    pub(crate) fn start(dir: PathBuf, messages: mpsc::Sender<Message>) -> Self {
        let (work, waiting) = mpsc::channel(MAX_PENDING);
        Self { work, task: base::task::start(write_on(dir, waiting, messages)) }
    }

    /// Queues a job for what is saved of a cluster.
    pub(crate) fn enqueue(&self, cluster: Uid, job: DiskJob) -> Result<(), Toast> {
        let queued = self.work.try_send((cluster, job));
        queued.map_err(|_| Toast::failed("the journal is not saved: the disk is too slow"))
    }

    /// Waits briefly for pending writes.
    pub(crate) async fn end(self) {
        drop(self.work);
        let mut task = self.task;
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

async fn write_on(
    dir: PathBuf,
    mut waiting: mpsc::Receiver<(Uid, DiskJob)>,
    messages: mpsc::Sender<Message>,
) {
    let mut complained = false;
    let holder = Arc::new(Mutex::new(TabsHolder::default()));
    while let Some((cluster, job)) = waiting.recv().await {
        let place = dir.clone();
        let holder = holder.clone();
        let done = base::task::blocking(move || match job {
            DiskJob::ReadJournal(of) => {
                let read = Message::Journal(file::read(&place, &cluster));
                Ok(Some(if of == ClusterId::HOME { read } else { Message::On(of, Box::new(read)) }))
            }
            DiskJob::ReadTabs => Ok(Some(if holder.lock().hold(&place, &cluster) {
                Message::SavedTabs(saved_tabs::read(&place, &cluster))
            } else {
                Message::TabsInUse
            })),
            DiskJob::ListDrafts => {
                let drafts = drafts::read(&place, &cluster);
                let listed: Vec<_> = drafts.into_iter().map(|draft| (draft.key, draft.at)).collect();
                Ok(if listed.is_empty() { None } else { Some(Message::Drafts(listed)) })
            }
            DiskJob::ReadDraft(screen, key) => {
                let draft = drafts::read_one(&place, &cluster, &key);
                Ok(draft.map(|draft| Message::Draft(screen, Box::new(draft))))
            }
            DiskJob::SaveDraft(draft) => drafts::keep(&place, &cluster, *draft).map(|()| None),
            DiskJob::RemoveDraft(key) => drafts::forget(&place, &cluster, &key).map(|()| None),
            DiskJob::SaveTabs(_) if !holder.lock().hold(&place, &cluster) => Ok(None),
            DiskJob::SaveTabs(tabs) => saved_tabs::write(&place, &cluster, &tabs).map(|()| None),
            DiskJob::AppendJournal(lines) => file::append(&place, &cluster, &lines).map(|()| None),
        });
        let message = match done.await {
            Ok(Ok(Some(read))) => read,
            // A directory that cannot be written is reported once, not at each change.
            Ok(Err(error)) if !std::mem::replace(&mut complained, true) => {
                let text = format!(
                    "cannot save the journal, tabs and unsaved edits for the next run: {}: {error}",
                    dir.display()
                );
                Message::Toast(Toast::info(text))
            }
            _ => continue,
        };
        // The loop may have ended; the remaining writes continue all the same.
        let _ = messages.try_send(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_data::saved_tabs::{SavedTab, SavedTabs};

    #[tokio::test]
    async fn the_last_requested_lines_are_written_before_the_end_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, mut inbox) = mpsc::channel(8);
        let scribe = DiskWriter::start(dir.path().to_owned(), messages.clone());
        for line in ["one\n", "two\n"] {
            assert!(scribe.enqueue(Uid::from("c"), DiskJob::AppendJournal(line.into())).is_ok());
        }
        assert!(scribe.enqueue(Uid::from("c"), DiskJob::ReadJournal(ClusterId::HOME)).is_ok());
        scribe.end().await;
        assert_eq!(std::fs::read_to_string(dir.path().join("journal/c.jsonl")).unwrap(), "one\ntwo\n");
        assert!(matches!(inbox.recv().await, Some(Message::Journal(entries)) if entries.is_empty()));

        let missing = dir.path().join("journal/c.jsonl");
        let scribe = DiskWriter::start(missing, messages);
        for _ in 0..3 {
            assert!(scribe.enqueue(Uid::from("c"), DiskJob::AppendJournal("lost\n".into())).is_ok());
        }
        scribe.end().await;
        let received = std::iter::from_fn(|| inbox.try_recv().ok());
        assert_eq!(received.filter(|message| matches!(message, Message::Toast(_))).count(), 1, "said once");
    }

    #[tokio::test]
    async fn only_one_running_console_reads_and_writes_the_tabs_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, mut inbox) = mpsc::channel(8);
        let cluster = || Uid::from("c");
        let tabs = |namespace: &str| SavedTabs {
            tabs: vec![SavedTab { namespace: Some(namespace.to_owned()), ..SavedTab::default() }; 2],
            ..SavedTabs::default()
        };
        let start = || DiskWriter::start(dir.path().to_owned(), messages.clone());
        let first = start();
        assert!(first.enqueue(cluster(), DiskJob::ReadTabs).is_ok());
        assert!(first.enqueue(cluster(), DiskJob::SaveTabs(tabs("one"))).is_ok());
        assert!(matches!(inbox.recv().await, Some(Message::SavedTabs(saved)) if saved.tabs.is_empty()));

        let second = start();
        assert!(second.enqueue(cluster(), DiskJob::ReadTabs).is_ok());
        assert!(matches!(inbox.recv().await, Some(Message::TabsInUse)), "the first console runs");
        assert!(second.enqueue(cluster(), DiskJob::SaveTabs(tabs("two"))).is_ok());
        second.end().await;

        // The first console is killed: it saves nothing more.
        first.end().await;
        let third = start();
        assert!(third.enqueue(cluster(), DiskJob::ReadTabs).is_ok());
        assert!(matches!(inbox.recv().await, Some(Message::SavedTabs(saved)) if saved == tabs("one")));
        third.end().await;
    }
}
