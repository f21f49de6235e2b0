//! Permits for requests that wait for external servers. Each such request holds a thread, so their number is
//! limited. So is the number of requests that wait for one server: a server that hangs does not delay
//! requests that call others.
//!
//! A request starts with a reservation at each callee that it may call. It releases the reservation when it
//! has the response; and while it waits long for one callee, it releases its reservations at the callees that
//! it would call afterwards. Once it continues, it does not wait for those reservations again: it has its
//! thread. Requests that wait for a hanging callee therefore count only against the capacity of that callee.
//! Among the requests that wait to start, the flow with the fewest permits goes first; when too many wait,
//! the flow with the most of them loses its newest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::ApiError;

/// The limit on requests that wait to start. They hold no thread, only their requests' memory.
const MAX_WAITING: usize = 600;

tokio::task_local! {
    static CURRENT_PERMIT: CallPermit;
}

/// A callee: the webhooks of one configuration, or the conversion webhook of one definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Callee {
    name: Arc<str>,
    /// The limit on requests that wait for it at once.
    capacity: usize,
}

impl Callee {
    pub(crate) fn new(name: impl Into<Arc<str>>, places: usize) -> Self {
        Self { name: name.into(), capacity: places }
    }
}

/// A handle to the permits.
#[derive(Clone)]
pub struct CallQueue(Arc<Mutex<State>>);

struct State {
    free: usize,
    with: HashMap<Callee, usize>,
    /// The number of permits by flow.
    flows: HashMap<Arc<str>, usize>,
    /// In the order of arrival.
    waiting: Vec<Waiter>,
    next: u64,
}

struct Waiter {
    ticket: u64,
    flow: Arc<str>,
    callees: Vec<Callee>,
    sender: oneshot::Sender<CallPermit>,
}

/// A permit for a request to run; released on drop.
pub struct CallPermit {
    queue: CallQueue,
    flow: Arc<str>,
    reserved: CalleeReservations,
}

/// The reservations of a permit at callees that it has not called yet; a shared handle.
#[derive(Clone)]
pub(super) struct CalleeReservations {
    queue: CallQueue,
    callees: Arc<Mutex<Vec<Callee>>>,
}

/// A permit for a call in progress to one callee; released on drop.
pub struct CalleePermit {
    queue: CallQueue,
    callee: Callee,
}

/// A waiting request, removed from the queue on drop.
struct WaitGuard<'a> {
    queue: &'a CallQueue,
    ticket: u64,
}

impl CallQueue {
    /// Creates a queue with `total` permits.
    pub fn new(total: usize) -> Self {
        let (with, flows) = (HashMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(State { free: total, with, flows, waiting: Vec::new(), next: 0 })))
    }

    /// Waits for a permit of a request that may call these callees; fails when that takes longer than
    /// `timeout`, or too many requests wait.
    pub async fn begin(
        &self,
        flow: &str,
        parties: Vec<Callee>,
        timeout: Duration,
    ) -> Result<CallPermit, ApiError> {
        let flow: Arc<str> = flow.into();
        let (tell, granted) = oneshot::channel();
        let ticket = {
            let mut state = self.0.lock();
            if state.has_capacity(&parties) {
                return Ok(state.start(self, flow, parties));
            }
            let ticket = state.next;
            state.next += 1;
            state.waiting.push(Waiter { ticket, flow, callees: parties, sender: tell });
            state.shed_load();
            ticket
        };
        let _waiting = WaitGuard { queue: self, ticket };
        match tokio::time::timeout(timeout, granted).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) => Err(ApiError::TooManyRequests {
                message: "Too many requests, please try again later.".into(),
                causes: Vec::new(),
                retry_after_seconds: 1,
            }),
            Err(_) => Err(ApiError::Timeout("request did not complete within requested timeout".into())),
        }
    }

    /// Returns a permit at once, if one is free, for a caller that then requests a permit of each callee.
    pub(crate) fn try_begin(&self, flow: &str) -> Option<CallPermit> {
        let mut state = self.0.lock();
        (state.free > 0).then(|| state.start(self, flow.into(), Vec::new()))
    }

    /// Releases capacity, and starts the waiting requests that now fit.
    fn release(&self, give_back: impl FnOnce(&mut State)) {
        let started = {
            let mut state = self.0.lock();
            give_back(&mut state);
            state.begin_waiting(self)
        };
        for (tell, turn) in started {
            // A waiter that has left meanwhile drops the permit, which releases it.
            drop(tell.send(turn));
        }
    }
}

impl State {
    fn has_capacity(&self, parties: &[Callee]) -> bool {
        self.free > 0 && parties.iter().all(|party| self.has_permit(party))
    }

    fn has_permit(&self, party: &Callee) -> bool {
        self.with.get(party).is_none_or(|with| *with < party.capacity)
    }

    fn start(&mut self, queue: &CallQueue, flow: Arc<str>, parties: Vec<Callee>) -> CallPermit {
        self.free -= 1;
        *self.flows.entry(flow.clone()).or_default() += 1;
        for party in &parties {
            self.enter(party);
        }
        CallPermit {
            queue: queue.clone(),
            flow,
            reserved: CalleeReservations { queue: queue.clone(), callees: Arc::new(Mutex::new(parties)) },
        }
    }

    fn enter(&mut self, party: &Callee) {
        *self.with.entry(party.clone()).or_default() += 1;
    }

    fn leave(&mut self, party: &Callee) {
        decrement(&mut self.with, party);
    }

    fn begin_waiting(&mut self, queue: &CallQueue) -> Vec<(oneshot::Sender<CallPermit>, CallPermit)> {
        let mut started = Vec::new();
        loop {
            let can_begin =
                self.waiting.iter().enumerate().filter(|(_, one)| self.has_capacity(&one.callees));
            let next = can_begin.min_by_key(|(i, one)| (self.flows.get(&one.flow).copied(), *i));
            let Some(next) = next.map(|(i, _)| i) else { return started };
            let Waiter { flow, callees: parties, sender: tell, .. } = self.waiting.remove(next);
            started.push((tell, self.start(queue, flow, parties)));
        }
    }

    /// Refuses one waiter if too many wait.
    fn shed_load(&mut self) {
        if self.waiting.len() <= MAX_WAITING {
            return;
        }
        let mut waiting: HashMap<&str, usize> = HashMap::new();
        self.waiting.iter().for_each(|one| *waiting.entry(&one.flow).or_default() += 1);
        let of_most = |one: &Waiter| waiting.get(&*one.flow).copied();
        let loses = self.waiting.iter().enumerate().max_by_key(|(i, one)| (of_most(one), *i));
        if let Some(loses) = loses.map(|(i, _)| i) {
            self.waiting.remove(loses);
        }
    }
}

/// Decrements a count, and removes it at zero.
fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

impl CallPermit {
    /// Runs `work` with this permit, under which the calls that it makes are counted.
    pub fn run_with_permit<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT_PERMIT.sync_scope(self, work)
    }

    /// Turns the reservations at these callees into permits for calls in progress.
    fn acquire_permits(&self, parties: &[Callee]) -> Vec<CalleePermit> {
        let is_called = |party: &mut Callee| parties.contains(party);
        let reserved: Vec<Callee> = self.reserved.callees.lock().extract_if(.., is_called).collect();
        self.queue.release(|state| {
            for party in parties {
                state.enter(party);
            }
            for party in &reserved {
                state.leave(party);
            }
        });
        parties
            .iter()
            .map(|party| CalleePermit { queue: self.queue.clone(), callee: party.clone() })
            .collect()
    }

    /// Returns a permit for a call to this callee, if one is free.
    pub fn try_acquire(&self, party: &Callee) -> Option<CalleePermit> {
        let mut state = self.queue.0.lock();
        let has_place = state.has_permit(party);
        has_place.then(|| {
            state.enter(party);
            CalleePermit { queue: self.queue.clone(), callee: party.clone() }
        })
    }
}

impl CalleePermit {
    /// Returns the callee.
    pub fn callee(&self) -> &Callee {
        &self.callee
    }
}

/// Returns permits for calls to these callees, taken from the permit under which this thread works, and that
/// permit's reservations at other callees; empty if the thread has no permit.
pub(super) fn acquire_permits_for_call(
    parties: &[Callee],
) -> (Vec<CalleePermit>, Option<CalleeReservations>) {
    let permits =
        CURRENT_PERMIT.try_with(|turn| (turn.acquire_permits(parties), Some(turn.reserved.clone())));
    // A call outside of a request's task waits for no permit.
    permits.unwrap_or_else(|_| (Vec::new(), None))
}

impl CalleeReservations {
    /// Releases the reservations.
    pub(super) fn release_all(&self) {
        let parties = std::mem::take(&mut *self.callees.lock());
        if !parties.is_empty() {
            self.queue.release(|state| parties.iter().for_each(|party| state.leave(party)));
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.reserved.release_all();
        self.queue.release(|state| {
            state.free += 1;
            decrement(&mut state.flows, &self.flow);
        });
    }
}

impl Drop for CalleePermit {
    fn drop(&mut self) {
        self.queue.release(|state| state.leave(&self.callee));
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.queue.0.lock().waiting.retain(|one| one.ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn party(name: &str) -> Callee {
        Callee::new(name, 2)
    }

    fn parties(names: &str) -> Vec<Callee> {
        names.split_whitespace().map(party).collect()
    }

    fn now<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        }
    }

    async fn begin(queue: &CallQueue, flow: &str, names: &str) -> Result<CallPermit, ApiError> {
        queue.begin(flow, parties(names), LONG).await
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_takes_no_turn_of_those_who_ask_others_api_16() {
        let queue = CallQueue::new(8);
        // Each request calls both webhooks, and hangs at the first.
        let both = [begin(&queue, "u", "a b").await.unwrap(), begin(&queue, "u", "a b").await.unwrap()];
        let hanging: Vec<_> = both.iter().flat_map(|turn| turn.acquire_permits(&parties("a"))).collect();
        let mut third = pin!(begin(&queue, "u", "a b"));
        assert!(now(third.as_mut()).is_none(), "so many wait for it already");
        let mut early = pin!(begin(&queue, "u", "b"));
        assert!(now(early.as_mut()).is_none(), "those who hang may be done soon, and ask it");
        for turn in &both {
            turn.reserved.release_all();
        }
        drop(now(early.as_mut()).unwrap().unwrap());
        let others = [begin(&queue, "u", "b").await.unwrap(), begin(&queue, "u", "b").await.unwrap()];
        let mut next = pin!(begin(&queue, "u", "b"));
        assert!(now(next.as_mut()).is_none());
        drop(others);
        assert!(now(third.as_mut()).is_none());
        assert!(now(next.as_mut()).is_some());
        // After a response, the requests continue with the other webhook and do not wait for a permit there.
        drop(hanging);
        let onward: Vec<_> = both.iter().flat_map(|turn| turn.acquire_permits(&parties("b"))).collect();
        assert_eq!(onward.len(), 2);
        drop((onward, both));
        assert!(now(third.as_mut()).is_some_and(|turn| turn.is_ok()));
        let state = queue.0.lock();
        assert_eq!((state.free, state.with.len(), state.flows.len(), state.waiting.len()), (8, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flooding_client_waits_behind_others_api_16() {
        let queue = CallQueue::new(1);
        let held = begin(&queue, "flood", "").await.unwrap();
        let mut flood: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(begin(&queue, "flood", ""))).collect();
        assert!(flood.iter_mut().all(|one| now(one.as_mut()).is_none()));
        let mut other = pin!(begin(&queue, "other", ""));
        assert!(now(other.as_mut()).is_none());
        let youngest = now(flood.last_mut().unwrap().as_mut()).unwrap();
        assert_eq!(youngest.map(|_| ()).map_err(|error| error.code()), Err(429), "it makes room");
        flood.pop();
        // Once there are two permits, the flow without a permit precedes the flow that has one.
        queue.release(|state| state.free += 1);
        let other = now(other.as_mut()).unwrap().unwrap();
        assert!(now(flood[0].as_mut()).is_none());
        drop(held);
        assert!(now(flood[0].as_mut()).is_some());
        drop(other);
        drop(flood);
        assert_eq!(queue.0.lock().free, 2, "those who have left have given theirs back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_no_longer_than_requests_last_api_16() {
        let queue = CallQueue::new(1);
        let held = begin(&queue, "u", "a").await.unwrap();
        assert_eq!(begin(&queue, "u", "a").await.map(|_| ()).map_err(|error| error.code()), Err(504));
        assert!(queue.0.lock().waiting.is_empty());
        drop(held);
        assert!(begin(&queue, "u", "a").await.is_ok());
    }

    #[test]
    fn an_actor_finds_a_place_or_not_api_16() {
        let queue = CallQueue::new(3);
        let all: Vec<_> = (0..3).map_while(|_| queue.try_begin("actor")).collect();
        assert!(all.len() == 3 && queue.try_begin("actor").is_none());
        let places: Vec<_> = all.iter().map(|turn| turn.try_acquire(&party("a"))).collect();
        assert_eq!(places.iter().flatten().count(), 2);
        assert!(all[2].try_acquire(&party("b")).is_some(), "another one is free");
    }
}
