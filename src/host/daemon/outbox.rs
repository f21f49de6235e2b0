//! The frames that wait for the client of a control connection.
//!
//! A control plane may be suspended, and then reads nothing. The queue for it is bounded (SAFE-10): of the changes of a
//! pod it holds only the last one, since the client inspects the pod when it reads the frame; and while it holds
//! [`MAX_WAITING`] frames, the host reads no further request of this client.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::sync::Notify;

use crate::PodUid;
use crate::protocol::HostFrame;

/// While this many frames wait, no further requests are read.
const MAX_WAITING: usize = 1024;

/// A queue of frames in the order in which they are written.
#[derive(Default)]
pub(super) struct Outbox {
    frames: RefCell<VecDeque<HostFrame>>,
    closed: Cell<bool>,
    /// Notified when a frame was added.
    added: Notify,
    /// Notified when a frame was taken.
    taken: Notify,
}

impl Outbox {
    /// Adds an answer; returns false if the client has disconnected.
    pub(super) fn answer(&self, answer: HostFrame) -> bool {
        if self.closed.get() {
            return false;
        }
        self.frames.borrow_mut().push_back(answer);
        self.added.notify_one();
        true
    }

    /// Adds the change of a pod. It is written after all answers so far, which may show the pod before the change.
    pub(super) fn pod_changed(&self, uid: &PodUid) {
        if self.closed.get() {
            return;
        }
        let mut frames = self.frames.borrow_mut();
        frames.retain(|frame| !matches!(frame, HostFrame::PodChanged(waiting) if waiting == uid));
        frames.push_back(HostFrame::PodChanged(uid.clone()));
        self.added.notify_one();
    }

    /// Takes the next frame; waits for one.
    pub(super) async fn next(&self) -> HostFrame {
        loop {
            let frame = self.frames.borrow_mut().pop_front();
            if let Some(frame) = frame {
                self.taken.notify_one();
                return frame;
            }
            self.added.notified().await;
        }
    }

    /// Waits until the client has read enough for its next request to be read.
    pub(super) async fn room(&self) {
        while self.frames.borrow().len() >= MAX_WAITING {
            self.taken.notified().await;
        }
    }

    /// Drops all frames: the client has disconnected.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.frames.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Response;

    fn answer(id: u64) -> HostFrame {
        HostFrame::Answer { id, result: Ok(Response::Done) }
    }

    async fn read(outbox: &Outbox) -> Vec<String> {
        let mut read = Vec::new();
        while !outbox.frames.borrow().is_empty() {
            read.push(match outbox.next().await {
                HostFrame::Answer { id, .. } => id.to_string(),
                HostFrame::PodChanged(uid) => uid,
            });
        }
        read
    }

    #[tokio::test]
    async fn a_suspended_client_gets_each_pod_once_safe_10() {
        let outbox = Outbox::default();
        for _ in 0..10_000 {
            for pod in ["a", "b"] {
                outbox.pod_changed(&pod.to_owned());
            }
        }
        outbox.answer(answer(7));
        outbox.pod_changed(&"a".to_owned());
        assert_eq!(read(&outbox).await, ["b", "7", "a"], "the last change of a follows the answer");
        outbox.pod_changed(&"a".to_owned());
        outbox.close();
        assert!(!outbox.answer(answer(8)));
        outbox.pod_changed(&"a".to_owned());
        assert!(read(&outbox).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_while_answers_are_not_read_safe_10() {
        let outbox = Outbox::default();
        for id in 0..MAX_WAITING as u64 {
            outbox.room().await;
            outbox.answer(answer(id));
        }
        let long = std::time::Duration::from_mins(1);
        assert!(tokio::time::timeout(long, outbox.room()).await.is_err());
        let (_, ()) = tokio::join!(outbox.next(), outbox.room());
    }
}
