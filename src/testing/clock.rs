//! The clock of a test's cluster: the machine's, or one that stands still until every task waits.
//!
//! The manual clock is tokio's paused time: when no task of the runtime can run, time jumps to the next timer of any
//! task. So the cluster, the operator under test and the test itself share one clock, and their timers fire in order.

use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor};

use api::{Api, Visibility};
use base::clock::Clock;
use object::{Kind, Revision};

use super::error::Error;

/// The time without writes after which a cluster is at rest.
pub(super) const QUIET: Duration = Duration::from_millis(100);
/// The timeout for a cluster to come to rest, so that a livelock fails instead of hanging.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);
/// A time after which the machine's clock has certainly advanced.
const TICK: Duration = Duration::from_micros(20);

/// The requested clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum ClockChoice {
    /// The manual clock if the runtime's time is paused, else the machine's.
    #[default]
    Default,
    /// A manual clock that starts at this time; `None` means the current time.
    Manual(Option<Timestamp>),
}

impl ClockChoice {
    /// Returns the manual clock, or `None` if the cluster uses the machine's. Pauses the runtime's time for a manual
    /// clock.
    pub(super) fn take(self) -> Result<Option<Clock>, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let is_single = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        let is_paused = is_single && is_paused();
        let start = match self {
            Self::Default if is_paused => None,
            Self::Default => return Ok(None),
            Self::Manual(_) if !is_single => return Err(Error::ManualClock),
            Self::Manual(start) => start,
        };
        if !is_paused {
            tokio::time::pause();
        }
        // The clock starts at a whole second, because objects' timestamps have whole seconds.
        let now = Clock::machine().time().0;
        Ok(Some(Clock::starting_at(start.unwrap_or(now))))
    }
}

/// Returns true if tokio's time is paused, so that it stands still while the machine's clock advances.
fn is_paused() -> bool {
    let (before, machine) = (tokio::time::Instant::now(), Clock::machine());
    let start = machine.now();
    while machine.now().duration_since(start).unsigned_abs() < TICK {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == before
}

/// Lets time pass until there has been no write for `quiet`. Writes of leases do not count, since nodes and leaders
/// renew them for ever.
///
/// This is [`Cluster::settle`](super::Cluster::settle) for a control plane that a test has assembled from the layers,
/// on paused time.
///
/// # Errors
///
/// [`Error::Restless`] after a minute of continued writes.
pub async fn settle(api: &Api, quiet: Duration) -> Result<(), Error> {
    let start = tokio::time::Instant::now();
    loop {
        let before = api.revision();
        // Paused time advances only when every task waits.
        tokio::time::sleep(quiet).await;
        let written = written_since(api, before);
        if written.is_empty() {
            return Ok(());
        }
        let waited = start.elapsed();
        if waited > SETTLE_TIMEOUT {
            let names: Vec<&str> = written.iter().map(|kind| kind.info().name).collect();
            return Err(Error::Restless { waited, kinds: names.join(", ") });
        }
    }
}

/// Returns the kinds with writes after `revision`, except leases.
fn written_since(api: &Api, revision: Revision) -> Vec<Kind> {
    if api.revision() == revision {
        return Vec::new();
    }
    let written = |kind: &Kind| {
        let changes = api.watch(*kind, revision, Visibility::Applied).take();
        // An error means that the history no longer reaches back to `revision`, so there were many writes.
        changes.map_or(true, |changes| !changes.is_empty())
    };
    Kind::all().filter(|kind| *kind != Kind::Lease).filter(written).collect()
}
