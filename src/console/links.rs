//! How fresh the console's copy of the cluster is, kind by kind (CON-18): live, not answered, refused.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::resource::Watched;

/// A stumble shorter than this is nobody's business: most watches are back by then.
const STUMBLE: SignedDuration = SignedDuration::from_secs(1);

/// What a watcher tells of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// The list or watch of this kind works again.
    Up(Watched),
    /// It does not.
    Down {
        /// Of what.
        kind: Watched,
        /// Why.
        why: String,
        /// When it is tried again.
        retry_at: Timestamp,
    },
    /// The server will not give us this kind; tried again only when the user asks for it.
    Refused(Watched, Refusal),
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
    pub fn words(&self) -> &'static str {
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
pub struct Outage {
    /// Which; empty when the server answers nothing at all.
    pub kinds: Vec<Watched>,
    /// Since when.
    pub since: Timestamp,
    /// When the first of them is tried again.
    pub retry_at: Timestamp,
    /// What went wrong last.
    pub why: String,
}

/// The state of all connections.
#[derive(Debug, Default)]
pub struct Links {
    down: BTreeMap<Watched, Down>,
    refused: BTreeMap<Watched, Refusal>,
}

impl Links {
    /// Takes what a watcher tells; whether that is news.
    pub fn take(&mut self, link: Link, now: Timestamp) -> bool {
        match link {
            Link::Up(kind) => self.is_up(kind),
            Link::Down { kind, why, retry_at } => {
                self.refused.remove(&kind);
                let since = self.down.get(&kind).map_or(now, |down| down.since);
                let down = Down { since, retry_at, why };
                self.down.insert(kind, down.clone()) != Some(down)
            }
            Link::Refused(kind, refusal) => {
                self.down.remove(&kind);
                self.refused.insert(kind, refusal.clone()) != Some(refusal)
            }
        }
    }

    /// A kind gave an answer; whether that is news.
    pub fn is_up(&mut self, kind: Watched) -> bool {
        let was_down = self.down.remove(&kind).is_some();
        self.refused.remove(&kind).is_some() || was_down
    }

    /// Why the server does not give us a kind.
    pub fn refused(&self, kind: Watched) -> Option<&Refusal> {
        self.refused.get(&kind)
    }

    /// Since when a kind has not been answered.
    pub fn down(&self, kind: Watched) -> Option<Timestamp> {
        self.down.get(&kind).map(|down| down.since)
    }

    /// Since when nothing at all has been answered: all that is shown is as old as that.
    pub fn silent_since(&self) -> Option<Timestamp> {
        let all =
            Watched::ALL.iter().all(|kind| self.down.contains_key(kind) || self.refused.contains_key(kind));
        if all { self.down.values().map(|down| down.since).max() } else { None }
    }

    /// The outage to tell of now; or when there would be one, if nothing is answered until then.
    pub fn outage(&self, now: Timestamp) -> Result<Outage, Option<Timestamp>> {
        let Some(since) = self.down.values().map(|down| down.since).min() else { return Err(None) };
        let told_at = since.saturating_add(STUMBLE).unwrap_or(since);
        if now < told_at {
            return Err(Some(told_at));
        }
        let last = self.down.values().max_by_key(|down| down.retry_at);
        Ok(Outage {
            kinds: if self.silent_since().is_some() {
                Vec::new()
            } else {
                self.down.keys().copied().collect()
            },
            since,
            retry_at: self.down.values().map(|down| down.retry_at).min().unwrap_or(now),
            why: last.map(|down| down.why.clone()).unwrap_or_default(),
        })
    }
}
