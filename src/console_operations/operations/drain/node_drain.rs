//! The state machine of one node's drain, without I/O: takes responses and the time, returns the requests to make.
//!
//! Architecture invariant: it never requests a second eviction of a terminating pod, and ends only when every pod that
//! must leave is gone or has failed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use console_data::resource::Uid;

/// Pause between two tries while a budget blocks; the same as kubectl's.
pub(crate) const RETRY: SignedDuration = SignedDuration::from_secs(5);

/// The state of a pod's eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionState {
    /// The request is in flight.
    InFlight,
    /// A budget blocks the eviction; it is retried at `retry_at`.
    Waiting {
        /// Time of the first request.
        since: Timestamp,
        /// Time of the next request.
        retry_at: Timestamp,
        /// The server's message.
        message: String,
    },
    /// The eviction was allowed; the pod is terminating.
    Ending {
        /// Time of the response.
        since: Timestamp,
    },
    /// The pod was deleted.
    Deleted {
        /// Time since the first request.
        after: SignedDuration,
    },
    /// The pod stays, with the reason.
    Failed(String),
}

impl EvictionState {
    /// Returns whether the state is final.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Deleted { .. } | Self::Failed(_))
    }
}

/// The server's response to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EvictionResponse {
    /// Accepted; the pod terminates.
    Accepted,
    /// 429: a budget blocks the eviction for now.
    Blocked(String),
    /// 404 or another uid: the pod does not exist any more.
    NotFound,
    /// Any other error.
    Failed(String),
}

/// The drain of one node.
#[derive(Debug)]
pub struct NodeDrain {
    pods: BTreeMap<Uid, PodEviction>,
    deadline: Option<(Timestamp, Duration)>,
}

#[derive(Debug)]
struct PodEviction {
    eviction: EvictionState,
    started: Timestamp,
}

impl NodeDrain {
    /// Starts a drain: it evicts all pods of `ask` at once; the pods of `wait` are already terminating, so that it only
    /// waits for them.
    pub(crate) fn start(
        ask: impl IntoIterator<Item = Uid>,
        wait: impl IntoIterator<Item = Uid>,
        timeout: Option<Duration>,
        now: Timestamp,
    ) -> Self {
        let mut pods = BTreeMap::new();
        for uid in ask {
            pods.insert(uid, PodEviction { eviction: EvictionState::InFlight, started: now });
        }
        for uid in wait {
            pods.insert(uid, PodEviction { eviction: EvictionState::Ending { since: now }, started: now });
        }
        let deadline = timeout.and_then(|timeout| {
            let at = now.checked_add(SignedDuration::try_from(timeout).ok()?).ok()?;
            Some((at, timeout))
        });
        Self { pods, deadline }
    }

    pub(crate) fn eviction(&self, uid: &Uid) -> Option<&EvictionState> {
        self.pods.get(uid).map(|course| &course.eviction)
    }

    /// Returns every pod with its eviction.
    pub(crate) fn evictions(&self) -> impl Iterator<Item = (&Uid, &EvictionState)> {
        self.pods.iter().map(|(uid, course)| (uid, &course.eviction))
    }

    /// Applies a response; returns true if the pod's eviction changed.
    pub(crate) fn answered(&mut self, uid: &Uid, answer: EvictionResponse, now: Timestamp) -> bool {
        let Some(course) = self.pods.get_mut(uid) else { return false };
        // The object may have been deleted before the response arrived.
        if course.eviction.is_over() {
            return false;
        }
        course.eviction = match answer {
            EvictionResponse::Accepted => EvictionState::Ending { since: now },
            EvictionResponse::Blocked(message) => EvictionState::Waiting {
                since: course.started,
                retry_at: now.checked_add(RETRY).unwrap_or(now),
                message,
            },
            EvictionResponse::NotFound => {
                EvictionState::Deleted { after: now.duration_since(course.started) }
            }
            EvictionResponse::Failed(message) => EvictionState::Failed(message),
        };
        true
    }

    /// Records the deletion of a pod; returns true if the deletion was not known before.
    pub(crate) fn pod_deleted(&mut self, uid: &Uid, now: Timestamp) -> bool {
        match self.pods.get_mut(uid) {
            Some(course) if !matches!(course.eviction, EvictionState::Deleted { .. }) => {
                course.eviction = EvictionState::Deleted { after: now.duration_since(course.started) };
                true
            }
            _ => false,
        }
    }

    /// Advances the time and returns the pods to request again. At the deadline all unfinished evictions fail.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<Uid> {
        if let Some((at, timeout)) = self.deadline
            && now >= at
        {
            for course in self.pods.values_mut().filter(|course| !course.eviction.is_over()) {
                course.eviction =
                    EvictionState::Failed(format!("global timeout reached: {}s", timeout.as_secs()));
            }
            return Vec::new();
        }
        let mut again = Vec::new();
        for (uid, course) in &mut self.pods {
            if matches!(course.eviction, EvictionState::Waiting { retry_at, .. } if retry_at <= now) {
                course.eviction = EvictionState::InFlight;
                again.push(uid.clone());
            }
        }
        again
    }

    /// Returns the next time at which [`NodeDrain::tick`] has work.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let retries = self.pods.values().filter_map(|course| match course.eviction {
            EvictionState::Waiting { retry_at, .. } => Some(retry_at),
            _ => None,
        });
        retries.chain(self.deadline.map(|(at, _)| at)).min()
    }

    /// Returns whether every pod is gone or has failed.
    pub(crate) fn is_over(&self) -> bool {
        self.pods.values().all(|course| course.eviction.is_over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn uid(name: &str) -> Uid {
        Uid::from(name)
    }

    /// CON-6: a blocked eviction is retried every five seconds until the pod is gone.
    #[test]
    fn a_blocked_eviction_is_retried_after_five_seconds() {
        let mut machine = NodeDrain::start([uid("a"), uid("b")], [uid("c")], None, at(0));
        assert!(machine.answered(&uid("a"), EvictionResponse::Accepted, at(1)));
        assert!(machine.answered(&uid("b"), EvictionResponse::Blocked("no".to_owned()), at(1)));
        assert_eq!(machine.wake_at(), Some(at(6)));
        assert!(machine.tick(at(5)).is_empty());
        assert_eq!(machine.tick(at(6)), [uid("b")]);
        assert_eq!(machine.eviction(&uid("b")), Some(&EvictionState::InFlight));
        assert!(machine.tick(at(7)).is_empty(), "not asked twice");
        machine.answered(&uid("b"), EvictionResponse::Blocked("no".to_owned()), at(7));
        assert!(matches!(machine.eviction(&uid("b")), Some(EvictionState::Waiting { since, retry_at, .. })
                if *since == at(0) && *retry_at == at(12)));
        machine.tick(at(12));
        machine.answered(&uid("b"), EvictionResponse::Accepted, at(12));
        assert!(!machine.is_over());
        for name in ["a", "b", "c"] {
            assert!(machine.pod_deleted(&uid(name), at(20)), "{name}");
            assert!(!machine.pod_deleted(&uid(name), at(20)), "{name} is gone once");
        }
        assert!(machine.is_over());
    }

    #[test]
    fn an_answer_after_the_object_went_changes_nothing() {
        let mut machine = NodeDrain::start([uid("a")], [], None, at(0));
        machine.pod_deleted(&uid("a"), at(1));
        assert!(!machine.answered(&uid("a"), EvictionResponse::Failed("late".to_owned()), at(2)));
        assert!(machine.is_over());
        let mut machine = NodeDrain::start([uid("a")], [], None, at(0));
        machine.answered(&uid("a"), EvictionResponse::NotFound, at(2));
        assert_eq!(
            machine.eviction(&uid("a")),
            Some(&EvictionState::Deleted { after: SignedDuration::from_secs(2) })
        );
    }

    #[test]
    fn the_timeout_ends_what_is_left_in_kubectls_words() {
        let mut machine = NodeDrain::start([uid("a"), uid("b")], [], Some(Duration::from_secs(40)), at(0));
        machine.pod_deleted(&uid("a"), at(3));
        assert_eq!(machine.wake_at(), Some(at(40)));
        machine.tick(at(40));
        assert_eq!(
            machine.eviction(&uid("b")),
            Some(&EvictionState::Failed("global timeout reached: 40s".to_owned()))
        );
        assert!(matches!(machine.eviction(&uid("a")), Some(EvictionState::Deleted { .. })));
    }
}
