//! Deliberately broken builds, at run time (FAULT-3): by `podium simulate --break NAME` this process makes one mistake that
//! somebody could make in earnest, and the simulator's checkers must find it. Nothing else switches one on.

use std::sync::atomic::{AtomicU8, Ordering};

/// None, or the mistake's place in [`Mistake::ALL`] and one.
static MADE: AtomicU8 = AtomicU8::new(0);

macro_rules! mistakes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A mistake to be found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mistake {
            $($(#[$doc])* $variant,)*
        }

        impl Mistake {
            /// Each there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// What `--break` calls it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

mistakes! {
    /// Pods that controllers drive away are removed at once, whatever still runs.
    ForceDelete = "force-delete";
    /// The kubelet removes a pod's object while its containers still run.
    RemoveBeforeStop = "remove-before-stop";
    /// A write is said to be durable before it is.
    AcknowledgeBeforeSync = "acknowledge-before-sync";
    /// A crash takes a write that was synced.
    LoseSyncedWrite = "lose-synced-write";
    /// After a crash revisions are given out again that somebody has seen.
    ReuseRevision = "reuse-revision";
    /// A watch leaves out a change.
    DropWatchEvent = "drop-watch-event";
    /// A watch tells a change twice.
    RepeatWatchEvent = "repeat-watch-event";
    /// A bookmark says more than was seen.
    BookmarkAhead = "bookmark-ahead";
    /// A write does not mind that the object has changed meanwhile.
    LostUpdate = "lost-update";
    /// A controller acts though its cache does not show yet what it did.
    ForgetExpectation = "forget-expectation";
    /// What failed is not tried again.
    ForgetRetry = "forget-retry";
    /// Evictions do not ask budgets.
    IgnoreBudget = "ignore-budget";
    /// Pods are made beyond the quota.
    IgnoreQuota = "ignore-quota";
    /// A rollout makes all new pods at once.
    IgnoreSurge = "ignore-surge";
    /// A rollout takes all old pods at once.
    IgnoreUnavailable = "ignore-unavailable";
    /// What nobody owns any more is kept.
    KeepOrphans = "keep-orphans";
    /// A node is said to be fenced while its processes still die.
    FenceBeforeDeath = "fence-before-death";
    /// What failed is tried again at once.
    ForgetBackOff = "forget-back-off";
    /// What is done is looked at again soon, for ever.
    NeverRest = "never-rest";
    /// A watch of a selection does not tell that an object has left it.
    KeepSelected = "keep-selected";
    /// Each page of a list is of the moment at which it is asked for.
    TearPages = "tear-pages";
    /// A CronJob makes its next Job though one is at work and it forbids that.
    IgnoreForbid = "ignore-forbid";
}

impl Mistake {
    /// Whether this process makes it.
    pub fn is_made(self) -> bool {
        MADE.load(Ordering::Relaxed) == self as u8 + 1
    }

    /// From now on this process makes it, and no other.
    pub fn make(self) {
        MADE.store(self as u8 + 1, Ordering::Relaxed);
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mistake| mistake.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_makes_no_mistake_unless_it_is_told_fault_3() {
        assert!(Mistake::ALL.iter().all(|mistake| !mistake.is_made()));
        assert!(Mistake::ALL.iter().all(|mistake| Mistake::named(mistake.name()) == Some(*mistake)));
        assert_eq!(Mistake::named("none"), None);
    }
}
