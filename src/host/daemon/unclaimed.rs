//! Ends a host once no control plane will claim its pods any more.
//!
//! A host outlives its control plane so that the next one finds its pods. If none can come any more, because the node's
//! directory is gone, or none came for a long time, its pods would run unnoticed for ever.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::Host;

/// The interval at which an unclaimed host checks its directory.
const LOOK: Duration = Duration::from_secs(1);

/// Counts a connected control plane until it is dropped.
pub(super) struct Claim(Rc<Host>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.claims.send_modify(|claims| *claims -= 1);
    }
}

impl Host {
    /// Counts a control plane that has connected.
    pub(super) fn claim(self: &Rc<Self>) -> Claim {
        self.claims.send_modify(|claims| *claims += 1);
        Claim(Rc::clone(self))
    }

    /// Waits until no control plane can claim this host any more, or none has for this long, and returns the reason.
    /// The time that the machine sleeps does not count.
    pub(super) async fn orphaned(&self, timeout: Duration) -> String {
        let mut claims = self.claims.subscribe();
        let own = self.directory();
        loop {
            // The wait cannot fail, because this host owns the sender.
            let _ = claims.wait_for(|claims| *claims == 0).await;
            tokio::select! {
                why = self.alone(own, timeout) => return why,
                _ = claims.wait_for(|claims| *claims > 0) => {}
            }
        }
    }

    async fn alone(&self, own: Option<(u64, u64)>, timeout: Duration) -> String {
        let since = Instant::now();
        loop {
            tokio::time::sleep(LOOK.min(timeout)).await;
            if self.directory() != own {
                return format!("{} is gone", self.dir.display());
            }
            if since.elapsed() >= timeout {
                return format!("no control plane connected for {}s", timeout.as_secs_f64());
            }
        }
    }

    /// Identifies the directory that is at the node's path now.
    fn directory(&self) -> Option<(u64, u64)> {
        fs::metadata(&self.dir).ok().map(|about| (about.dev(), about.ino()))
    }
}
