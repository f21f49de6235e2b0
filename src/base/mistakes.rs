//! Deliberate mistakes (FAULT-3): with `podium-lab simulate --mistake NAME` the simulated cluster makes one mistake that a
//! programmer could make, and the simulator's checks must find it. Nothing else switches one on.
//!
//! Release builds contain the mistakes only with the feature `mistakes`; builds with debug assertions always do, so
//! that tests need no build of their own.

use std::sync::atomic::{AtomicU8, Ordering};

/// False in the program that users run, which then contains no code of any mistake.
const COMPILED: bool = cfg!(any(debug_assertions, feature = "mistakes"));

/// This build contains no mistakes.
#[derive(Debug, thiserror::Error)]
#[error("this build contains no mistakes; build podium-lab with `--features mistakes`")]
pub struct MistakesAbsent;

/// None, or the mistake's index in [`Mistake::ALL`] plus one.
static ACTIVE: AtomicU8 = AtomicU8::new(0);

macro_rules! mistakes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A deliberate mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mistake {
            $($(#[$doc])* $variant,)*
        }

        impl Mistake {
            /// All mistakes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name for `--mistake`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

mistakes! {
    /// Pods evicted by controllers are removed at once, even while their containers run.
    ForceDelete = "force-delete";
    /// The kubelet removes a pod's object while its containers still run.
    RemoveBeforeStop = "remove-before-stop";
    /// A write is reported as durable before it is.
    AcknowledgeBeforeSync = "acknowledge-before-sync";
    /// A crash loses a write that was synced.
    LoseSyncedWrite = "lose-synced-write";
    /// After a crash, revisions that clients have seen are assigned again.
    ReuseRevision = "reuse-revision";
    /// A watch omits a change.
    DropWatchEvent = "drop-watch-event";
    /// A watch sends a change twice.
    RepeatWatchEvent = "repeat-watch-event";
    /// A bookmark has a revision beyond the changes that were sent.
    BookmarkAhead = "bookmark-ahead";
    /// A write ignores that the object has changed meanwhile.
    LostUpdate = "lost-update";
    /// A controller acts although its cache does not show its last writes yet.
    ForgetExpectation = "forget-expectation";
    /// Failed reconciles are not tried again.
    ForgetRetry = "forget-retry";
    /// Evictions ignore budgets.
    IgnoreBudget = "ignore-budget";
    /// Pods are created beyond the quota.
    IgnoreQuota = "ignore-quota";
    /// A rollout creates all new pods at once.
    IgnoreSurge = "ignore-surge";
    /// A rollout deletes all old pods at once.
    IgnoreUnavailable = "ignore-unavailable";
    /// Objects that have lost their owners are not deleted.
    KeepOrphans = "keep-orphans";
    /// A node is reported as fenced while its processes still die.
    FenceBeforeDeath = "fence-before-death";
    /// Failed reconciles are tried again at once.
    ForgetBackOff = "forget-back-off";
    /// Finished reconciles are repeated soon, forever.
    NeverRest = "never-rest";
    /// A watch with a selector does not report that an object stopped matching.
    KeepSelected = "keep-selected";
    /// Each page of a list shows the state at its own request, not at the list's revision.
    TearPages = "tear-pages";
    /// A CronJob creates its next Job while one is running, although it forbids that.
    IgnoreForbid = "ignore-forbid";
}

impl Mistake {
    /// Returns true if this process makes this mistake.
    pub fn is_enabled(self) -> bool {
        COMPILED && ACTIVE.load(Ordering::Relaxed) == self as u8 + 1
    }

    /// Makes this process make this mistake, and no other, from now on.
    pub fn make(self) -> Result<(), MistakesAbsent> {
        if !COMPILED {
            return Err(MistakesAbsent);
        }
        ACTIVE.store(self as u8 + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the mistake with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mistake| mistake.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_makes_no_mistake_unless_one_is_switched_on_fault_3() {
        assert!(Mistake::ALL.iter().all(|mistake| !mistake.is_enabled()));
        assert!(Mistake::ALL.iter().all(|mistake| Mistake::named(mistake.name()) == Some(*mistake)));
        assert_eq!(Mistake::named("none"), None);
    }
}
