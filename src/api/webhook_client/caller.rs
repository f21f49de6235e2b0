//! Runs calls of webhooks on a thread and clock of their own, while the writing thread waits. This keeps the
//! write path synchronous, and an external server cannot delay the tasks of this process. Requests for
//! extension API servers run there too; only their clients wait for them.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::client::DEADLINE_EXCEEDED;
use super::queue::{CallQueue, Callee, CalleePermit, acquire_permits_for_call};
use base::panics::panic_text;

/// The limit of actors of this process that wait for webhooks at once. Each holds a thread of the pool that
/// also stands in for the workers (tokio has 512), and there may be thousands of kubelets. Requests are held
/// before they get here, and wait for a permit (`apiserver::webhook_queue`). Actors may occupy as many permits of
/// one callee as requests may.
const MAX_WAITING_ACTORS: usize = 64;

/// The wait after which a caller releases the permits of servers that it would call afterwards.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// The error of a call beyond the limit.
const TOO_MANY: &str = "too many concurrent webhook calls";

/// The kind of caller that waits for webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// A request, with its permit.
    Request,
    /// An actor of this process.
    Actor,
}

/// The error of all calls if their task ended early.
const CALLS_LOST: &str = "the webhook calls ended without a response";

/// The error of all calls if no thread could be started.
const NO_THREAD: &str = "cannot start a thread for webhook calls";

/// The addition to the error of a timeout on a single-threaded runtime.
const ONE_THREAD: &str = " (the runtime's only thread waited for the response, so no task of this runtime could send \
 it: serve the webhook in another runtime, or use #[tokio::test(flavor = \"multi_thread\")])";

/// Calls webhooks.
pub struct Caller {
    /// Started for the first call.
    runtime: OnceLock<Option<Runtime>>,
    actors: CallQueue,
}

/// A call of one server.
pub(crate) struct Call<F> {
    pub(crate) of: Callee,
    pub(crate) call: F,
}

impl Default for Caller {
    fn default() -> Self {
        Self { runtime: OnceLock::new(), actors: CallQueue::new(MAX_WAITING_ACTORS) }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // No caller waits any more: each had a handle to the API.
        if let Some(runtime) = self.runtime.take().flatten() {
            runtime.shutdown_background();
        }
    }
}

impl Caller {
    /// As [`Caller::wait_for`], for one call and without blocking a thread. Dropping the future cancels the
    /// call.
    pub async fn execute<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> (Result<T, String>, Duration) {
        let Some(runtime) = self.runtime.get_or_init(start) else {
            return (Err(NO_THREAD.into()), Duration::ZERO);
        };
        let (answer, answered) = oneshot::channel();
        let timed = async {
            let started = Instant::now();
            let result = contained(call).await;
            // The caller waits until this arrives.
            let _ = answer.send((result, started.elapsed()));
        };
        let _call = AbortOnDropHandle::new(runtime.spawn(timed.boxed()));
        answered.await.unwrap_or_else(|_| (Err(CALLS_LOST.into()), Duration::ZERO))
    }

    /// Runs all these calls at once and waits for them; returns their results and the time that they took.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        who: CallerKind,
        calls: Vec<Call<impl Future<Output = Result<T, String>> + Send + 'static>>,
    ) -> (Vec<Result<T, String>>, Duration) {
        let refused =
            |reason: &str| (calls.iter().map(|_| Err(reason.to_string())).collect(), Duration::ZERO);
        let Some(runtime) = self.runtime.get_or_init(start) else {
            return refused(NO_THREAD);
        };
        let mut parties: Vec<Callee> = Vec::new();
        for call in &calls {
            if !parties.contains(&call.of) {
                parties.push(call.of.clone());
            }
        }
        let (_turn, (places, reserved)) = match who {
            CallerKind::Request => (None, acquire_permits_for_call(&parties)),
            CallerKind::Actor => match self.actors.try_begin("") {
                Some(turn) => {
                    let places = parties.iter().filter_map(|party| turn.try_acquire(party)).collect();
                    (Some(turn), (places, None))
                }
                None => return refused(TOO_MANY),
            },
        };
        // A server's permit is released when the last call of that server has its response.
        let places: Vec<Arc<CalleePermit>> = places.into_iter().map(Arc::new).collect();
        let expected = calls.len();
        let mut placed = Vec::with_capacity(expected);
        for Call { of, call } in calls {
            let place = places.iter().find(|place| place.callee() == &of).cloned();
            let is_refused = who == CallerKind::Actor && place.is_none();
            placed.push(async move {
                let _place = place;
                if is_refused { Err(TOO_MANY.to_string()) } else { contained(call).await }
            });
        }
        drop(places);
        let (result, (done, is_done)) = (Arc::new(Mutex::new(None)), mpsc::sync_channel(1));
        let slot = result.clone();
        let waiting = async move {
            let started = Instant::now();
            let _later = reserved.map(|reserved| {
                let leaves = async move {
                    tokio::time::sleep(LONG_WAIT).await;
                    reserved.release_all();
                };
                AbortOnDropHandle::new(base::task::start(leaves))
            });
            // Terminates: each call has a timeout.
            *slot.lock() = Some((join_all(placed).await, started.elapsed()));
            // The caller waits until this arrives.
            let _ = done.send(());
        };
        drop(runtime.spawn(waiting.boxed()));
        // Without a response no webhook has agreed.
        let wait = || {
            let lost = || ((0..expected).map(|_| Err(CALLS_LOST.to_string())).collect(), Duration::ZERO);
            is_done.recv().ok().and_then(|()| result.lock().take()).unwrap_or_else(lost)
        };
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
            // A single-threaded runtime, as in tests: a webhook that the test itself serves has no thread to
            // respond on.
            Ok(_) => {
                let (mut answers, time) = wait();
                for why in answers.iter_mut().filter_map(|answer| answer.as_mut().err()) {
                    if why.ends_with(DEADLINE_EXCEEDED) {
                        why.push_str(ONE_THREAD);
                    }
                }
                (answers, time)
            }
            // The thread belongs to no runtime whose tasks could be blocked.
            Err(_) => wait(),
        }
    }
}

/// Returns the result of a call; a panic fails only this call.
async fn contained<T>(call: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let ended = AssertUnwindSafe(call).catch_unwind().await;
    ended.unwrap_or_else(|panic| Err(format!("the call panicked: {}", panic_text(&*panic))))
}

fn start() -> Option<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("webhooks").enable_all().build();
    runtime.inspect_err(|error| tracing::error!("cannot call webhooks: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn call<F>(call: F) -> Call<F> {
        Call { of: Callee::new("p", MAX_WAITING_ACTORS), call }
    }

    #[test]
    fn an_actor_too_many_is_refused_at_once_and_a_request_is_not_api_16() {
        let caller = Caller::default();
        let done = || vec![call(async { Ok::<_, String>(()) })];
        let all: Vec<_> = (0..MAX_WAITING_ACTORS).filter_map(|_| caller.actors.try_begin("")).collect();
        assert_eq!(caller.wait_for(CallerKind::Actor, done()).0, [Err(TOO_MANY.to_string())]);
        assert_eq!(caller.wait_for(CallerKind::Request, done()).0, [Ok(())]);
        drop(all);
        assert_eq!(caller.wait_for(CallerKind::Actor, done()).0, [Ok(())]);
        // A callee that hangs with others' calls has its own calls refused.
        let permit = caller.actors.try_begin("").unwrap();
        let hangs = Callee::new("hangs", 1);
        let _place = permit.try_acquire(&hangs);
        let both = vec![Call { of: hangs, call: ready(Ok(())) }, call(ready(Ok(())))];
        assert_eq!(caller.wait_for(CallerKind::Actor, both).0, [Err(TOO_MANY.to_string()), Ok(())]);
    }

    /// The error that a test sees if its own thread serves the webhook.
    #[tokio::test]
    async fn a_call_that_its_own_thread_cannot_answer_says_so_api_16_api_20() {
        let caller = Caller::default();
        let failing = |reason: &str| {
            let reason = reason.to_string();
            async { Err::<(), _>(reason) }
        };
        let calls =
            move || vec![call(failing("Post \"u\": context deadline exceeded")), call(failing("EOF"))];
        let (answers, _) = caller.wait_for(CallerKind::Request, calls());
        let message = answers[0].as_ref().unwrap_err();
        assert!(
            message.starts_with("Post \"u\": context deadline exceeded (the runtime's only thread"),
            "{message}"
        );
        assert_eq!(answers[1], Err("EOF".into()));
        let other_runtime = tokio::task::spawn_blocking(move || {
            let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
            runtime.block_on(async { caller.wait_for(CallerKind::Request, calls()).0 })
        });
        assert_eq!(other_runtime.await.unwrap()[0], Err("Post \"u\": context deadline exceeded".into()));
    }

    /// A panic in a call fails only that call.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_that_panics_is_one_that_failed_api_16() {
        let caller = Caller::default();
        let calls = [true, false].map(|panics| {
            call(async move {
                assert!(!panics, "on purpose");
                Ok::<_, String>(())
            })
        });
        let (answers, _) = caller.wait_for(CallerKind::Actor, calls.into());
        assert!(matches!(&answers[..], [Err(_), Ok(())]), "{answers:?}");
    }
}
