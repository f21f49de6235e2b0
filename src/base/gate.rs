//! A gate that futures stand at while it is closed: how tasks are paused where they are.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A gate, and those that it is behind: a future passes where all are open.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    // Changed under the lock of `waiting` alone, so that nobody begins to wait at a gate that opens.
    is_closed: AtomicBool,
    /// Who stands here, by the future's number.
    // Held for single map operations, never while a future is polled.
    waiting: Mutex<HashMap<u64, Waker>>,
    above: Option<Arc<Self>>,
}

/// A future's place in the gates' maps, left when the future is dropped.
struct Place<'a> {
    gate: &'a Gate,
    number: u64,
}

impl Gate {
    /// An open gate behind another.
    pub(crate) fn behind(above: &Arc<Self>) -> Self {
        Self { above: Some(above.clone()), ..Self::default() }
    }

    pub(crate) fn close(&self) {
        let _waiting = self.waiting.lock();
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn open(&self) {
        let waiting = {
            let mut waiting = self.waiting.lock();
            self.is_closed.store(false, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    /// Whether nobody passes.
    pub(crate) fn is_closed(&self) -> bool {
        self.gates().any(|gate| gate.is_closed.load(Ordering::Acquire))
    }

    fn gates(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |gate| gate.above.as_deref())
    }

    /// Whether a future may go on; one that may not is woken when the gate opens that it stands at.
    fn lets_pass(&self, number: u64, context: &Context<'_>) -> bool {
        self.gates().all(|gate| {
            if !gate.is_closed.load(Ordering::Acquire) {
                return true;
            }
            let mut waiting = gate.waiting.lock();
            let is_closed = gate.is_closed.load(Ordering::Acquire);
            if is_closed {
                waiting.insert(number, context.waker().clone());
            }
            !is_closed
        })
    }

    /// The same future, which is not polled while the gate is closed.
    pub(crate) async fn hold<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let place = Place { gate: &self, number };
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            if place.gate.lets_pass(number, context) { future.as_mut().poll(context) } else { Poll::Pending }
        })
        .await
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        for gate in self.gate.gates() {
            gate.waiting.lock().remove(&self.number);
        }
    }
}
