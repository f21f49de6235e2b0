//! When a host ends by itself: nobody is left who could want what it runs.
//!
//! A host outlives its control plane so that the next one finds its pods. Where none can come any more, for the
//! node's directory is gone, or where none came for a long time, its pods would run for ever and nobody would know.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::Host;

/// How often a host that nobody claims looks for its directory.
const LOOK: Duration = Duration::from_secs(1);

/// A control plane is connected for as long as this lives.
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

    /// Waits until nobody can claim this host any more, or nobody has for so long, and says which. The time that the
    /// machine sleeps does not count.
    pub(super) async fn orphaned(&self, patience: Duration) -> String {
        let mut claims = self.claims.subscribe();
        let own = self.directory();
        loop {
            // The sender is this host's own.
            let _ = claims.wait_for(|claims| *claims == 0).await;
            tokio::select! {
                why = self.alone(own, patience) => return why,
                _ = claims.wait_for(|claims| *claims > 0) => {}
            }
        }
    }

    async fn alone(&self, own: Option<(u64, u64)>, patience: Duration) -> String {
        let since = Instant::now();
        loop {
            tokio::time::sleep(LOOK.min(patience)).await;
            if self.directory() != own {
                return format!("{} is gone", self.dir.display());
            }
            if since.elapsed() >= patience {
                return format!("no control plane has claimed it for {} s", patience.as_secs_f64());
            }
        }
    }

    /// Which directory is at the place of the node's.
    fn directory(&self) -> Option<(u64, u64)> {
        fs::metadata(&self.dir).ok().map(|about| (about.dev(), about.ino()))
    }
}
