//! The freshness of the console's copy of the cluster, per kind (CON-18): live, silent, or refused.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::resource::ResourceKey;

/// A shorter interruption is not reported: most watches are back by then.
const MIN_OUTAGE: SignedDuration = SignedDuration::from_secs(1);

/// A watcher's report on its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// The list or watch of this kind works again.
    Up(ResourceKey),
    /// The list or watch failed.
    Down {
        /// The kind.
        resource: ResourceKey,
        /// The error.
        reason: String,
        /// The time of the next attempt.
        retry_at: Timestamp,
    },
    /// The server refuses this kind; the console retries only at the user's request.
    Refused(ResourceKey, UnavailableReason),
}

impl Link {
    /// Returns the kind that the report is about.
    pub fn resource(&self) -> &ResourceKey {
        match self {
            Self::Up(resource) | Self::Down { resource, .. } | Self::Refused(resource, _) => resource,
        }
    }
}

/// The reason why the server refuses a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnavailableReason {
    /// 403, and the server's message.
    NotAllowed(String),
    /// 404: the server does not serve the kind.
    Absent,
}

impl UnavailableReason {
    /// Returns a short text that is shown in place of the rows.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "not allowed",
            Self::Absent => "not on this server",
        }
    }
}

/// A kind with a failing list or watch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedKind {
    since: Timestamp,
    retry_at: Timestamp,
    reason: String,
}

/// A report on kinds with a failing list or watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The kinds; empty if the server answers nothing at all.
    pub resources: Vec<ResourceKey>,
    /// The start of the outage.
    pub since: Timestamp,
    /// The time of the first retry.
    pub retry_at: Timestamp,
    /// The last error.
    pub reason: String,
}

/// The state of all connections.
#[derive(Debug, Default)]
pub struct Links {
    /// The kinds that are always watched: if the server answers for none of them, the whole server is silent.
    always: Vec<ResourceKey>,
    down: BTreeMap<ResourceKey, FailedKind>,
    refused: BTreeMap<ResourceKey, UnavailableReason>,
}

impl Links {
    /// Creates the state for a console that always watches these kinds.
    pub fn new(always: Vec<ResourceKey>) -> Self {
        Self { always, ..Self::default() }
    }

    /// Applies a watcher's report; returns whether the state changed.
    pub fn take(&mut self, link: Link, now: Timestamp) -> bool {
        match link {
            Link::Up(resource) => self.mark_up(&resource),
            Link::Down { resource, reason: why, retry_at } => {
                self.refused.remove(&resource);
                let since = self.down.get(&resource).map_or(now, |down| down.since);
                let down = FailedKind { since, retry_at, reason: why };
                self.down.insert(resource, down.clone()) != Some(down)
            }
            Link::Refused(resource, refusal) => {
                self.down.remove(&resource);
                self.refused.insert(resource, refusal.clone()) != Some(refusal)
            }
        }
    }

    /// Records that the server answered for a resource; returns whether the state changed.
    pub fn mark_up(&mut self, resource: &ResourceKey) -> bool {
        let was_down = self.down.remove(resource).is_some();
        self.refused.remove(resource).is_some() || was_down
    }

    /// Drops a resource that is no longer watched.
    pub fn forget(&mut self, resource: &ResourceKey) {
        self.down.remove(resource);
        self.refused.remove(resource);
    }

    /// Returns the reason why the server refuses a resource.
    pub fn refused(&self, resource: &ResourceKey) -> Option<&UnavailableReason> {
        self.refused.get(resource)
    }

    /// Returns a copy with the refusals only, for a view of the cluster at an earlier time.
    pub fn refusals(&self) -> Self {
        Self { refused: self.refused.clone(), ..Self::default() }
    }

    /// Returns the start of a resource's outage.
    pub fn down(&self, resource: &ResourceKey) -> Option<Timestamp> {
        self.down.get(resource).map(|down| down.since)
    }

    /// Returns the error of a resource's outage.
    pub(crate) fn outage_reason(&self, resource: &ResourceKey) -> Option<&str> {
        self.down.get(resource).map(|down| down.reason.as_str())
    }

    /// Adds a resource to those that are always watched.
    pub fn subscribe(&mut self, resource: ResourceKey) {
        if !self.always.contains(&resource) {
            self.always.push(resource);
        }
    }

    /// Returns the time since which the server has answered nothing at all: everything shown is as old as that.
    pub fn silent_since(&self) -> Option<Timestamp> {
        let all =
            self.always.iter().all(|kind| self.down.contains_key(kind) || self.refused.contains_key(kind));
        if all { self.down.values().map(|down| down.since).max() } else { None }
    }

    /// Returns the outage to report now. The error is the time at which an outage is to be reported if the server stays
    /// silent; `None` if no list or watch is failing.
    pub fn outage(&self, now: Timestamp) -> Result<Outage, Option<Timestamp>> {
        let Some(since) = self.down.values().map(|down| down.since).min() else { return Err(None) };
        let shown_at = since.saturating_add(MIN_OUTAGE).unwrap_or(since);
        if now < shown_at {
            return Err(Some(shown_at));
        }
        let last = self.down.values().max_by_key(|down| down.retry_at);
        Ok(Outage {
            resources: if self.silent_since().is_some() {
                Vec::new()
            } else {
                self.down.keys().cloned().collect()
            },
            since,
            retry_at: self.down.values().map(|down| down.retry_at).min().unwrap_or(now),
            reason: last.map(|down| down.reason.clone()).unwrap_or_default(),
        })
    }
}
