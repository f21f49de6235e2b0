//! A gate at which futures wait while it is closed. It pauses tasks at their next await.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A gate, and the gates above it: a future passes if all are open.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    // Changed only under the lock of `waiting`, so that no future starts to wait at a gate that is opening.
    is_closed: AtomicBool,
    /// The waiting futures, by number.
    // Held for single map operations, never while a future is polled.
    waiting: Mutex<HashMap<u64, Waker>>,
    above: Option<Arc<Self>>,
}

/// A future's entries in the gates' maps, removed when the future is dropped.
struct GateWaiter<'a> {
    gate: &'a Gate,
    number: u64,
}

impl Gate {
    /// Creates an open gate below another.
    pub(crate) fn below(above: &Arc<Self>) -> Self {
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

    /// Returns true if futures cannot pass.
    pub(crate) fn is_closed(&self) -> bool {
        self.gates().any(|gate| gate.is_closed.load(Ordering::Acquire))
    }

    fn gates(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |gate| gate.above.as_deref())
    }

    /// Returns true if a future may go on. Otherwise registers it, to be woken when the closed gate opens.
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

    /// Wraps a future so that it is not polled while the gate is closed.
    pub(crate) async fn hold<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let place = GateWaiter { gate: &self, number };
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            if place.gate.lets_pass(number, context) { future.as_mut().poll(context) } else { Poll::Pending }
        })
        .await
    }
}

impl Drop for GateWaiter<'_> {
    fn drop(&mut self) {
        for gate in self.gate.gates() {
            gate.waiting.lock().remove(&self.number);
        }
    }
}
