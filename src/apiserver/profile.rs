//! `/debug/pprof/`: CPU time of the running server by thread, from the kernel's accounting.
//!
//! No thread is interrupted: a sampler would have to unwind stacks in a signal handler, between any two
//! instructions of a process that holds a cluster. Therefore there are no stacks, and no file for `go tool
//! pprof`. Access is granted by roles (`nonResourceURLs`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use axum::response::Response;
use http::header::{ALLOW, HeaderValue};
use http::{Method, StatusCode};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Server;
use super::query::Query;
use super::respond::Responder;
use super::response_format::not_allowed;
use api::ApiError;
use base::optional_file::read_optional;
use base::sort::SliceOrder;

const ROOT: &str = "/debug/pprof";
/// The default and maximum observation time, in seconds.
const SECONDS: u64 = 5;
const MAX_SECONDS: u64 = 30;
/// The limit on listed threads; beyond it only their number is shown.
const MAX_THREADS: usize = 1000;
const MILLISECOND: u64 = 1_000_000;

/// One profile at a time in this process.
static PERMITS: Semaphore = Semaphore::const_new(1);

/// Returns true for `/debug/pprof` and the paths below it.
pub(super) fn is_path(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Responds to a request below `/debug/pprof`.
pub(super) async fn handle(
    server: &Server,
    method: &Method,
    path: &str,
    query: &Query,
) -> Result<Response, ApiError> {
    let name = path.strip_prefix(ROOT).unwrap_or_default().trim_matches('/');
    if !matches!(name, "" | "threads") {
        return Ok(Responder::text(StatusCode::NOT_FOUND, "Unknown profile\n"));
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refusal = Responder::error(&not_allowed());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(refusal);
    }
    if name.is_empty() {
        let index = format!(
            "{ROOT}/\n\nProfiles:\nthreads?seconds=N  processor time of each thread; {SECONDS} seconds by default, at \
             most {MAX_SECONDS}\n"
        );
        return Ok(Responder::text(StatusCode::OK, index));
    }
    let seconds = seconds(query)?;
    let Ok(_turn) = PERMITS.try_acquire() else {
        return Err(ApiError::TooManyRequests {
            message: "another profile is running; try again later".into(),
            causes: Vec::new(),
            retry_after_seconds: i32::try_from(MAX_SECONDS).unwrap_or(i32::MAX),
        });
    };
    let (started, before) = (Instant::now(), threads().await);
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
        () = server.inner.stopping.cancelled() => {
            return Err(ApiError::Unavailable("the server is shutting down".into()));
        }
    }
    let (after, elapsed) = (threads().await, started.elapsed());
    Ok(Responder::text(StatusCode::OK, page(elapsed, &RuntimeLoad::now(), &before, &after)))
}

fn seconds(query: &Query) -> Result<u64, ApiError> {
    let Some(text) = query.get("seconds") else { return Ok(SECONDS) };
    let seconds = text.parse().ok().filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    seconds.ok_or_else(|| {
        ApiError::BadRequest(format!(
            "invalid value of the parameter seconds: must be from 1 to {MAX_SECONDS}"
        ))
    })
}

/// The counters of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thread {
    name: String,
    /// Time on a processor, in nanoseconds.
    run: u64,
    /// Time runnable without a free processor, in nanoseconds.
    waited: u64,
    /// The number of times it got a processor.
    timeslices: u64,
}

type Threads = BTreeMap<u32, Thread>;

/// Returns the threads of this process by id; empty if the system does not report them.
async fn threads() -> Threads {
    base::task::blocking(|| {
        let mut threads = Threads::new();
        for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(id) = entry.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
            // The thread may have exited meanwhile.
            let Ok(counts) = std::fs::read_to_string(path.join("schedstat")) else { continue };
            let name = read_optional(path.join("comm"));
            threads.extend(thread(name.trim_end(), &counts).map(|thread| (id, thread)));
        }
        threads
    })
    .await
    .unwrap_or_else(|error| {
        tracing::warn!("cannot sample the threads: {error}");
        Threads::new()
    })
}

/// Reads `schedstat` (Linux, `Documentation/scheduler/sched-stats.rst`).
fn thread(name: &str, counts: &str) -> Option<Thread> {
    let mut counts = counts.split_whitespace().map(str::parse::<u64>);
    let mut next = || counts.next()?.ok();
    Some(Thread { run: next()?, waited: next()?, timeslices: next()?, name: name.into() })
}

/// The load of the runtime that serves requests.
struct RuntimeLoad {
    workers: usize,
    tasks: usize,
    queued: usize,
}

impl RuntimeLoad {
    fn now() -> Self {
        let metrics = Handle::current().metrics();
        Self {
            workers: metrics.num_workers(),
            tasks: metrics.num_alive_tasks(),
            queued: metrics.global_queue_depth(),
        }
    }
}

/// Returns the differences of each thread between two readings, most CPU time first.
fn page(elapsed: Duration, work: &RuntimeLoad, before: &Threads, after: &Threads) -> String {
    let spent = |(id, thread): (&u32, &Thread)| {
        // A new thread started at zero. An id may have been reused by another thread.
        let before = before.get(id).filter(|before| before.run <= thread.run).cloned().unwrap_or_default();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let (run, waited) = (since(thread.run, before.run), since(thread.waited, before.waited));
        (run, waited, since(thread.timeslices, before.timeslices), *id, thread.name.clone())
    };
    let mut threads: Vec<_> = after.iter().map(spent).collect();
    threads.order_by(|a, b| b.0.cmp(&a.0).then(a.3.cmp(&b.3)));
    let mut page = format!(
        "seconds {:.3}\nworkers {}\ntasks {}\nqueued tasks {}\nthreads {}\n\n",
        elapsed.as_secs_f64(),
        work.workers,
        work.tasks,
        work.queued,
        threads.len()
    );
    // Writing to a String cannot fail.
    let _ =
        writeln!(page, "{:>9} {:>6} {:>9} {:>9} {:>9} thread", "run ms", "share", "wait ms", "turns", "id");
    for (run, waited, turns, id, name) in threads.iter().take(MAX_THREADS) {
        let share = *run as f64 / elapsed.as_nanos().max(1) as f64 * 100.0;
        let (run, waited) = (run / MILLISECOND, waited / MILLISECOND);
        let _ = writeln!(page, "{run:>9} {share:>5.1}% {waited:>9} {turns:>9} {id:>9} {name}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_threads_are_read_as_the_system_writes_them_api_19() {
        let read = thread("web", "85207 3448826 2\n");
        assert_eq!(read, Some(Thread { name: "web".into(), run: 85207, waited: 3_448_826, timeslices: 2 }));
        for broken in ["", "1", "1 2", "a b c", "-1 2 3", "1 2 99999999999999999999999"] {
            assert_eq!(thread("web", broken), None, "{broken}");
        }
    }

    #[test]
    fn the_busiest_threads_come_first_api_19() {
        let threads = |all: &[(u32, &str, u64, u64, u64)]| -> Threads {
            let thread = |(id, name, run, waited, turns): &(u32, &str, u64, u64, u64)| {
                let name = (*name).to_string();
                (
                    *id,
                    Thread { name, run: run * MILLISECOND, waited: waited * MILLISECOND, timeslices: *turns },
                )
            };
            all.iter().map(thread).collect()
        };
        let before = threads(&[(7, "main", 100, 5, 10), (8, "gone", 50, 0, 1), (9, "old", 900, 0, 5)]);
        // 9 was reused by another thread, 10 is new.
        let after = threads(&[(7, "main", 110, 6, 12), (9, "new", 20, 1, 2), (10, "disk", 500, 0, 3)]);
        let page =
            page(Duration::from_secs(1), &RuntimeLoad { workers: 2, tasks: 31, queued: 4 }, &before, &after);
        let lines: Vec<String> =
            page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "seconds 1.000", "workers 2", "tasks 31", "queued tasks 4", "threads 3", "",
                "run ms share wait ms turns id thread", "500 50.0% 0 3 10 disk", "20 2.0% 1 2 9 new",
                "10 1.0% 1 2 7 main",
            ]
        );
    }
}
