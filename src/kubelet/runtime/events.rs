//! Events on their way from a node's runtime to its kubelet.
//!
//! A queue holds each pod at most once: no event is lost, and memory is bounded by the pods of the node. Every starting
//! kubelet subscribes again, since the one before it may have crashed.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{PodUid, RuntimeEvent};

/// The runtime's side; events without a subscriber are dropped.
#[derive(Debug, Default)]
pub(super) struct EventSource {
    subscriber: Mutex<Weak<Queue>>,
}

/// The kubelet's side.
#[derive(Debug)]
pub struct RuntimeEvents {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    pending: Mutex<PendingEvents>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct PendingEvents {
    pods: VecDeque<PodUid>,
    /// The uids in `pods`, so that each is queued once.
    queued: HashSet<PodUid>,
    relist: bool,
    is_closed: bool,
}

impl EventSource {
    /// Sends all further events to the caller, and closes the queue of the subscriber before it.
    pub(super) fn subscribe(&self) -> RuntimeEvents {
        let queue = Arc::new(Queue::default());
        let before = std::mem::replace(&mut *self.subscriber.lock(), Arc::downgrade(&queue));
        close(&before);
        RuntimeEvents { queue }
    }

    /// Queues an event; never waits.
    pub(super) fn emit(&self, event: RuntimeEvent) {
        let Some(queue) = self.subscriber.lock().upgrade() else { return };
        queue.pending.lock().push(event);
        queue.changed.notify_one();
    }

    /// Closes the subscriber's queue because the runtime ends: the subscriber gets the queued events, then `None`.
    pub(super) fn close(&self) {
        close(&self.subscriber.lock());
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        self.close();
    }
}

fn close(queue: &Weak<Queue>) {
    if let Some(queue) = queue.upgrade() {
        queue.pending.lock().is_closed = true;
        queue.changed.notify_one();
    }
}

impl RuntimeEvents {
    /// The next event; `None` once the runtime has ended or another kubelet has subscribed. Cancelling loses nothing.
    pub async fn recv(&mut self) -> Option<RuntimeEvent> {
        loop {
            {
                let mut pending = self.queue.pending.lock();
                let event = pending.pop();
                if event.is_some() || pending.is_closed {
                    return event;
                }
            }
            self.queue.changed.notified().await;
        }
    }
}

impl PendingEvents {
    fn push(&mut self, event: RuntimeEvent) {
        match event {
            RuntimeEvent::Relist => {
                // A relist covers every pod.
                self.pods.clear();
                self.queued.clear();
                self.relist = true;
            }
            RuntimeEvent::PodChanged(pod) => {
                if !self.relist && self.queued.insert(pod.clone()) {
                    self.pods.push_back(pod);
                }
            }
        }
    }

    fn pop(&mut self) -> Option<RuntimeEvent> {
        if std::mem::take(&mut self.relist) {
            return Some(RuntimeEvent::Relist);
        }
        let pod = self.pods.pop_front()?;
        self.queued.remove(&pod);
        Some(RuntimeEvent::PodChanged(pod))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(pod: &str) -> RuntimeEvent {
        RuntimeEvent::PodChanged(pod.to_owned())
    }

    #[tokio::test]
    async fn each_subscriber_gets_events_and_ends_the_one_before_safe_7() {
        let source = EventSource::default();
        source.emit(changed("before"));
        let mut first = source.subscribe();
        source.emit(changed("a"));
        assert_eq!(first.recv().await, Some(changed("a")));
        source.emit(changed("b"));
        let mut second = source.subscribe();
        source.emit(changed("c"));
        assert_eq!([first.recv().await, first.recv().await], [Some(changed("b")), None]);
        drop(first);
        source.emit(changed("d"));
        assert_eq!([second.recv().await, second.recv().await], [Some(changed("c")), Some(changed("d"))]);
        drop(source);
        assert_eq!(second.recv().await, None);
    }

    #[tokio::test]
    async fn a_kubelet_that_stands_still_loses_no_event_and_holds_each_pod_once_safe_7() {
        let source = EventSource::default();
        let mut events = source.subscribe();
        for _ in 0..1000 {
            source.emit(changed("a"));
            source.emit(changed("b"));
        }
        assert_eq!(events.queue.pending.lock().pods.len(), 2);
        assert_eq!([events.recv().await, events.recv().await], [Some(changed("a")), Some(changed("b"))]);
        source.emit(changed("a"));
        source.emit(RuntimeEvent::Relist);
        source.emit(changed("b"));
        assert_eq!(events.recv().await, Some(RuntimeEvent::Relist));
        source.emit(changed("b"));
        source.close();
        assert_eq!([events.recv().await, events.recv().await], [Some(changed("b")), None]);
    }
}
