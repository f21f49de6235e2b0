//! The responses in progress on one connection, and their clients' progress in reading them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::load::Load;

/// The time limit for clients without progress while connections or memory are scarce.
const SCARCITY_TIMEOUT: Duration = Duration::from_secs(5);

/// The expected reading behaviour of a response's client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// The client reads at once.
    #[default]
    Promptly,
    /// The client reads event by event; if it falls behind, it has to list again.
    Followed,
    /// The client reads like a person, with pauses of hours.
    Interactive,
}

/// The time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// Until the first request.
    pub(super) header: Duration,
    /// Without a request in progress.
    pub(super) idle: Duration,
    /// For reading a response's next bytes.
    pub(super) request: Duration,
}

/// The reason why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// No request is in progress.
    Idle,
    /// The client does not read a response.
    Unread,
}

/// The responses of one connection.
#[derive(Debug)]
pub(super) struct ResponseTracker {
    load: Arc<Load>,
    timeouts: Timeouts,
    /// True for a connection with several responses at once (HTTP/2): an unread watch does not end the
    /// others.
    multiplexed: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The time since which no request is in progress.
    idle_since: Option<Instant>,
    had_request: bool,
    open: Vec<Weak<TrackedResponse>>,
}

impl ResponseTracker {
    pub(super) fn new(load: Arc<Load>, timeouts: Timeouts, multiplexed: bool) -> Arc<Self> {
        let state = State { idle_since: Some(Instant::now()), had_request: false, open: Vec::new() };
        Arc::new(Self { load, timeouts, multiplexed, state: Mutex::new(state) })
    }

    /// Starts the record of a request.
    pub(super) fn begin(self: &Arc<Self>) -> Arc<TrackedResponse> {
        let answer = TrackedResponse {
            of: self.clone(),
            waker: AtomicWaker::new(),
            progress: Mutex::new(Progress {
                unread: 0,
                server_works: true,
                since: None,
                read_mode: ReadMode::Promptly,
            }),
        };
        let answer = Arc::new(answer);
        let mut state = self.state.lock();
        state.open.push(Arc::downgrade(&answer));
        (state.idle_since, state.had_request) = (None, true);
        answer
    }

    /// Checks if the client has exceeded a time limit.
    fn verdict(&self, now: Instant) -> Option<CloseReason> {
        let scarce = self.load.is_scarce();
        let over = |since: Instant, timeout: Duration| {
            now.saturating_duration_since(since)
                > if scarce { timeout.min(SCARCITY_TIMEOUT) } else { timeout }
        };
        let (idle, open) = {
            let state = self.state.lock();
            let idle_timeout = if state.had_request { self.timeouts.idle } else { self.timeouts.header };
            (state.idle_since.is_some_and(|since| over(since, idle_timeout)), state.open.clone())
        };
        let unread = |answer: Arc<TrackedResponse>| {
            let progress = answer.progress.lock();
            let must = match progress.read_mode {
                ReadMode::Promptly => true,
                ReadMode::Followed => !self.multiplexed,
                ReadMode::Interactive => false,
            };
            (must || scarce) && progress.since.is_some_and(|since| over(since, self.timeouts.request))
        };
        if idle {
            return Some(CloseReason::Idle);
        }
        open.iter().filter_map(Weak::upgrade).any(unread).then_some(CloseReason::Unread)
    }

    /// Waits until the client has exceeded a time limit.
    pub(super) async fn overdue(&self) -> CloseReason {
        let shortest = self.timeouts.header.min(self.timeouts.idle).min(self.timeouts.request);
        let every = (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            tokio::time::sleep(every).await;
            if let Some(overdue) = self.verdict(Instant::now()) {
                return overdue;
            }
        }
    }
}

/// A response, from its request until its last byte is taken.
#[derive(Debug)]
pub(super) struct TrackedResponse {
    of: Arc<ResponseTracker>,
    /// Wakes the body, which waits until the connection has taken its bytes.
    pub(super) waker: AtomicWaker,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// Bytes given to the connection and not taken by the client.
    unread: usize,
    /// True while the server has not produced the next bytes, so that the client has nothing to take.
    server_works: bool,
    /// The time since which the client could have read and has read nothing.
    since: Option<Instant>,
    read_mode: ReadMode,
}

impl Progress {
    fn moved(&mut self) {
        self.since = (self.unread > 0 || !self.server_works).then(Instant::now);
    }
}

impl TrackedResponse {
    /// Records that the response is complete up to its body, and that no byte of the body was requested yet.
    pub(super) fn ready(&self, taken: ReadMode) {
        let mut progress = self.progress.lock();
        (progress.server_works, progress.read_mode) = (false, taken);
        progress.moved();
    }

    pub(super) fn load(&self) -> &Load {
        &self.of.load
    }

    pub(super) fn unread(&self) -> usize {
        self.progress.lock().unread
    }

    /// Records that the connection requests bytes that the server has not produced yet.
    pub(super) fn waits_for_server(&self) {
        let mut progress = self.progress.lock();
        if !progress.server_works {
            progress.server_works = true;
            progress.moved();
        }
    }

    pub(super) fn add_buffered(&self, bytes: usize) {
        self.load().add_buffered(bytes);
        let mut progress = self.progress.lock();
        progress.unread += bytes;
        progress.server_works = false;
        progress.moved();
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.load().add_sent(bytes);
        let mut progress = self.progress.lock();
        progress.unread -= bytes;
        progress.moved();
        drop(progress);
        self.waker.wake();
    }
}

impl Drop for TrackedResponse {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        state.open.retain(|answer| answer.strong_count() > 0);
        if state.open.is_empty() {
            state.idle_since = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::load::Limits;

    const TIMEOUTS: Timeouts = Timeouts {
        header: Duration::from_secs(32),
        idle: Duration::from_secs(90),
        request: Duration::from_mins(1),
    };

    fn tracker(multiplexed: bool) -> Arc<ResponseTracker> {
        ResponseTracker::new(
            Arc::new(Load::new(Limits { connections: 2, unread_bytes: 1000 })),
            TIMEOUTS,
            multiplexed,
        )
    }

    /// Half a header, or no request at all.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_nothing_is_sent_away_api_1() {
        let (start, answers) = (Instant::now(), tracker(false));
        assert_eq!(answers.overdue().await, CloseReason::Idle);
        assert_eq!(start.elapsed().as_secs(), 33);

        drop(answers.begin());
        let start = Instant::now();
        assert_eq!(answers.overdue().await, CloseReason::Idle);
        assert_eq!(start.elapsed().as_secs(), 91);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_sent_away_but_a_slow_server_is_not_its_fault_api_1() {
        for (taken, multiplexed, cut) in [
            (ReadMode::Promptly, false, true),
            (ReadMode::Promptly, true, true),
            (ReadMode::Followed, false, true),
            (ReadMode::Followed, true, false),
            (ReadMode::Interactive, false, false),
        ] {
            let answers = tracker(multiplexed);
            let answer = answers.begin();
            tokio::time::sleep(Duration::from_secs(1000)).await;
            assert_eq!(answers.verdict(Instant::now()), None, "the server works");
            answer.ready(taken);
            tokio::time::sleep(Duration::from_secs(61)).await;
            let is_cut = |answers: &ResponseTracker| answers.verdict(Instant::now()).is_some();
            assert_eq!(is_cut(&answers), cut, "nothing was asked for: {taken:?} {multiplexed}");
            answer.add_buffered(10);
            assert!(!is_cut(&answers), "it moves");
            answer.waits_for_server();
            tokio::time::sleep(Duration::from_secs(61)).await;
            assert_eq!(
                is_cut(&answers),
                cut,
                "the client does not read the response: {taken:?} {multiplexed}"
            );
            answer.add_sent(10);
            tokio::time::sleep(Duration::from_secs(1000)).await;
            assert!(!is_cut(&answers), "there is nothing to take");
        }
    }

    /// A client that holds a scarce connection has less time.
    #[tokio::test(start_paused = true)]
    async fn patience_is_short_when_something_is_scarce_api_1() {
        let answers = tracker(true);
        let (_one, _two) = (answers.load.connection().await, answers.load.connection().await);
        let start = Instant::now();
        assert_eq!(answers.overdue().await, CloseReason::Idle);
        assert_eq!(start.elapsed().as_secs(), 6);

        let answers = self::tracker(true);
        let answer = answers.begin();
        answer.ready(ReadMode::Interactive);
        answer.add_buffered(1000);
        let start = Instant::now();
        assert_eq!(answers.overdue().await, CloseReason::Unread);
        assert_eq!(start.elapsed().as_secs(), 6);
    }
}
