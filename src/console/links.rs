//! How fresh the console's copy of the cluster is, kind by kind (CON-18): live, not answered, refused.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::resource::ResourceKey;

/// A stumble shorter than this is nobody's business: most watches are back by then.
const STUMBLE: SignedDuration = SignedDuration::from_secs(1);

/// What a watcher tells of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// The list or watch of this kind works again.
    Up(ResourceKey),
    /// It does not.
    Down {
        /// Of what.
        resource: ResourceKey,
        /// Why.
        why: String,
        /// When it is tried again.
        retry_at: Timestamp,
    },
    /// The server will not give us this kind; tried again only when the user asks for it.
    Refused(ResourceKey, Refusal),
}

impl Link {
    /// Of what it tells.
    pub(crate) fn resource(&self) -> &ResourceKey {
        match self {
            Self::Up(resource) | Self::Down { resource, .. } | Self::Refused(resource, _) => resource,
        }
    }
}

/// Why a kind is not given to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 403, and what the server said.
    NotAllowed(String),
    /// 404: it has no such kind.
    Absent,
}

impl Refusal {
    /// In a word or two, for the place where the objects would be.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "not allowed",
            Self::Absent => "not on this server",
        }
    }
}

/// A kind without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Down {
    since: Timestamp,
    retry_at: Timestamp,
    why: String,
}

/// What to tell of kinds without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// Which; empty when the server answers nothing at all.
    pub(crate) resources: Vec<ResourceKey>,
    /// Since when.
    pub(crate) since: Timestamp,
    /// When the first of them is tried again.
    pub(crate) retry_at: Timestamp,
    /// What went wrong last.
    pub(crate) why: String,
}

/// The state of all connections.
#[derive(Debug, Default)]
pub struct Links {
    /// What is asked for all the time: when none of it is answered, nothing is.
    always: Vec<ResourceKey>,
    down: BTreeMap<ResourceKey, Down>,
    refused: BTreeMap<ResourceKey, Refusal>,
}

impl Links {
    /// Of a console that asks for these all the time.
    pub(crate) fn new(always: Vec<ResourceKey>) -> Self {
        Self { always, ..Self::default() }
    }

    /// Takes what a watcher tells; whether that is news.
    pub(crate) fn take(&mut self, link: Link, now: Timestamp) -> bool {
        match link {
            Link::Up(resource) => self.is_up(&resource),
            Link::Down { resource, why, retry_at } => {
                self.refused.remove(&resource);
                let since = self.down.get(&resource).map_or(now, |down| down.since);
                let down = Down { since, retry_at, why };
                self.down.insert(resource, down.clone()) != Some(down)
            }
            Link::Refused(resource, refusal) => {
                self.down.remove(&resource);
                self.refused.insert(resource, refusal.clone()) != Some(refusal)
            }
        }
    }

    /// A resource gave an answer; whether that is news.
    pub(crate) fn is_up(&mut self, resource: &ResourceKey) -> bool {
        let was_down = self.down.remove(resource).is_some();
        self.refused.remove(resource).is_some() || was_down
    }

    /// A resource is not asked for any more.
    pub(crate) fn forget(&mut self, resource: &ResourceKey) {
        self.down.remove(resource);
        self.refused.remove(resource);
    }

    /// Why the server does not give us a resource.
    pub(crate) fn refused(&self, resource: &ResourceKey) -> Option<&Refusal> {
        self.refused.get(resource)
    }

    /// What is refused, and nothing else: what is known of the cluster as it was.
    pub(crate) fn refusals(&self) -> Self {
        Self { refused: self.refused.clone(), ..Self::default() }
    }

    /// Since when a resource has not been answered.
    pub fn down(&self, resource: &ResourceKey) -> Option<Timestamp> {
        self.down.get(resource).map(|down| down.since)
    }

    /// Why a resource is not answered.
    pub(crate) fn why_down(&self, resource: &ResourceKey) -> Option<&str> {
        self.down.get(resource).map(|down| down.why.as_str())
    }

    /// From now on that is asked for all the time, too.
    pub(crate) fn ask_always(&mut self, resource: ResourceKey) {
        if !self.always.contains(&resource) {
            self.always.push(resource);
        }
    }

    /// Since when nothing at all has been answered: all that is shown is as old as that.
    pub(crate) fn silent_since(&self) -> Option<Timestamp> {
        let all =
            self.always.iter().all(|kind| self.down.contains_key(kind) || self.refused.contains_key(kind));
        if all { self.down.values().map(|down| down.since).max() } else { None }
    }

    /// The outage to tell of now; or when there would be one, if nothing is answered until then.
    pub(crate) fn outage(&self, now: Timestamp) -> Result<Outage, Option<Timestamp>> {
        let Some(since) = self.down.values().map(|down| down.since).min() else { return Err(None) };
        let shown_at = since.saturating_add(STUMBLE).unwrap_or(since);
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
            why: last.map(|down| down.why.clone()).unwrap_or_default(),
        })
    }
}
