//! Reads and writes the journal, the tabs and the drafts on disk, one operation after another, so that the loop never
//! waits for a disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
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
        queued.map_err(|error| {
            let (_, job) = error.into_inner();
            Toast::failed(format!("{}: the disk is too slow", loss(&job)))
        })
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

/// Describes the consequence of a job that is not done.
fn loss(job: &DiskJob) -> &'static str {
    match job {
        DiskJob::ReadJournal(_) => "the journal of earlier runs is not read",
        DiskJob::AppendJournal(_) => "the journal is not saved",
        DiskJob::ReadTabs => "the tabs of earlier runs are not read",
        DiskJob::SaveTabs(_) => "the tabs are not saved",
        DiskJob::ListDrafts | DiskJob::ReadDraft(..) => "unsaved edits of earlier runs are not read",
        DiskJob::SaveDraft(_) => "an unsaved edit is not saved for the next run",
        DiskJob::RemoveDraft(_) => "an edit that was saved or discarded is not removed",
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
        match done.await {
            Ok(Ok(Some(read))) => {
                deliver(&messages, read);
            }
            // A directory that cannot be written is reported once, not at each change.
            Ok(Err(error)) if !std::mem::replace(&mut complained, true) => {
                let text = format!(
                    "cannot save the journal, tabs and unsaved edits for the next run: {}: {error}",
                    dir.display()
                );
                deliver(&messages, Message::Toast(Toast::info(text)));
            }
            _ => {}
        }
    }
}

/// Sends a message to the loop without waiting for it: at its end the loop waits for the last writes, and reads no
/// messages meanwhile.
fn deliver(messages: &mpsc::Sender<Message>, message: Message) {
    if let Err(TrySendError::Full(message)) = messages.try_send(message) {
        let messages = messages.clone();
        base::task::start(async move {
            // The loop may have ended.
            let _ = messages.send(message).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_data::saved_tabs::{SavedTab, SavedTabs};

    /// Waits for all jobs, however slow the disk is.
    async fn finish(writer: DiskWriter) {
        let DiskWriter { work, task } = writer;
        drop(work);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn the_last_requested_lines_are_written_before_the_end_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, mut inbox) = mpsc::channel(8);
        let writer = DiskWriter::start(dir.path().to_owned(), messages.clone());
        for line in ["one\n", "two\n"] {
            assert!(writer.enqueue(Uid::from("c"), DiskJob::AppendJournal(line.into())).is_ok());
        }
        assert!(writer.enqueue(Uid::from("c"), DiskJob::ReadJournal(ClusterId::HOME)).is_ok());
        finish(writer).await;
        assert_eq!(std::fs::read_to_string(dir.path().join("journal/c.jsonl")).unwrap(), "one\ntwo\n");
        assert!(matches!(inbox.recv().await, Some(Message::Journal(entries)) if entries.is_empty()));

        let missing = dir.path().join("journal/c.jsonl");
        let writer = DiskWriter::start(missing, messages);
        for _ in 0..3 {
            assert!(writer.enqueue(Uid::from("c"), DiskJob::AppendJournal("lost\n".into())).is_ok());
        }
        finish(writer).await;
        let received = std::iter::from_fn(|| inbox.try_recv().ok());
        assert_eq!(received.filter(|message| matches!(message, Message::Toast(_))).count(), 1, "said once");
    }

    #[tokio::test]
    async fn results_of_reads_arrive_although_the_loop_is_behind_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, mut inbox) = mpsc::channel(1);
        messages.try_send(Message::Tick).expect("an empty channel has space");
        let writer = DiskWriter::start(dir.path().to_owned(), messages);
        assert!(writer.enqueue(Uid::from("c"), DiskJob::ReadTabs).is_ok());
        assert!(writer.enqueue(Uid::from("c"), DiskJob::AppendJournal("one\n".into())).is_ok());
        finish(writer).await;
        assert_eq!(std::fs::read_to_string(dir.path().join("journal/c.jsonl")).unwrap(), "one\n");
        assert!(matches!(inbox.recv().await, Some(Message::Tick)));
        assert!(matches!(inbox.recv().await, Some(Message::SavedTabs(_))));
    }

    #[tokio::test]
    async fn a_failed_write_is_reported_although_the_loop_is_behind_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (messages, mut inbox) = mpsc::channel(1);
        messages.try_send(Message::Tick).expect("an empty channel has space");
        let writer = DiskWriter::start(file, messages);
        assert!(writer.enqueue(Uid::from("c"), DiskJob::AppendJournal("lost\n".into())).is_ok());
        finish(writer).await;
        assert!(matches!(inbox.recv().await, Some(Message::Tick)));
        assert!(matches!(inbox.recv().await, Some(Message::Toast(_))));
    }

    #[tokio::test]
    async fn a_job_that_a_slow_disk_refuses_is_named_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, _inbox) = mpsc::channel(1);
        let writer = DiskWriter::start(dir.path().to_owned(), messages);
        // The task does not run before this test waits.
        for _ in 0..MAX_PENDING {
            assert!(writer.enqueue(Uid::from("c"), DiskJob::ReadTabs).is_ok());
        }
        let refused = writer.enqueue(Uid::from("c"), DiskJob::SaveTabs(SavedTabs::default()));
        assert_eq!(refused.unwrap_err().text, "the tabs are not saved: the disk is too slow");
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
        finish(second).await;

        // The first console is killed: it saves nothing more.
        finish(first).await;
        let third = start();
        assert!(third.enqueue(cluster(), DiskJob::ReadTabs).is_ok());
        assert!(matches!(inbox.recv().await, Some(Message::SavedTabs(saved)) if saved == tabs("one")));
        finish(third).await;
    }
}
