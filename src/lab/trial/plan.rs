//! The disturbances of a controller, drawn from a seed. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use base::count::counted;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng};

/// The maximum number of disturbances in one run.
const MAX_DISTURBANCES: usize = 5;

/// A resource: its plural and its group.
pub(super) type WatchedResource = (String, String);

/// The disturbances of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The disturbances, in any order.
    pub(super) disturbances: Vec<Disturbance>,
}

/// A disturbance of the controller, and its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disturbance {
    /// The index of the step, from 0.
    pub(super) step: usize,
    pub(super) kind: DisturbanceKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DisturbanceKind {
    /// The watches of a resource deliver no events for a time, so that the controller's cache of the resource is stale.
    Stale {
        watched: WatchedResource,
        lasts: Duration,
        /// If true, the watches then expire, so that the controller has to list and misses the states in between.
        misses: bool,
    },
    /// The controller is killed after this write of the step (counted from 1) is executed and before its response
    /// arrives; then it is restarted.
    Killed { write: u32 },
    /// This write of the step (counted from 1) fails.
    Refused { write: u32, how: Refusal },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// 409: another client has changed the object first.
    Conflict,
    /// 503: the server is temporarily unavailable.
    Unavailable,
    /// 504: the write is executed, but the response reports a timeout.
    AnswerLost,
}

impl Plan {
    /// Draws a plan for a controller with this number of writes in each step, which watches these resources.
    pub(super) fn draw(seed: u64, writes: &[u32], watched: &BTreeSet<WatchedResource>) -> Self {
        let mut chance = SmallRng::seed_from_u64(seed);
        let writing: Vec<usize> = (0..writes.len()).filter(|step| writes[*step] > 0).collect();
        let watched: Vec<&WatchedResource> = watched.iter().collect();
        let mut disturbances = Vec::new();
        for _ in 0..chance.random_range(1..=MAX_DISTURBANCES) {
            let stale = writing.is_empty() || (!watched.is_empty() && chance.random_bool(0.4));
            if stale {
                if watched.is_empty() || writes.is_empty() {
                    continue;
                }
                let kind = DisturbanceKind::Stale {
                    watched: watched[chance.random_range(0..watched.len())].clone(),
                    lasts: Duration::from_millis(chance.random_range(200..=4000)),
                    misses: chance.random_bool(0.5),
                };
                disturbances.push(Disturbance { step: chance.random_range(0..writes.len()), kind });
                continue;
            }
            let step = writing[chance.random_range(0..writing.len())];
            let write = chance.random_range(1..=writes[step]);
            let kind = match chance.random_range(0..4) {
                0 => DisturbanceKind::Refused { write, how: Refusal::Conflict },
                1 => DisturbanceKind::Refused {
                    write,
                    how: if chance.random_bool(0.5) { Refusal::AnswerLost } else { Refusal::Unavailable },
                },
                _ => DisturbanceKind::Killed { write },
            };
            // A write has at most one disturbance: the first that was drawn.
            let is_taken = |known: &Disturbance| known.step == step && known.kind.write() == Some(write);
            if !disturbances.iter().any(is_taken) {
                disturbances.push(Disturbance { step, kind });
            }
        }
        Self { disturbances }
    }

    pub(super) fn of(&self, step: usize) -> impl Iterator<Item = &DisturbanceKind> {
        self.disturbances.iter().filter(move |disturbance| disturbance.step == step).map(|own| &own.kind)
    }

    /// Returns a summary like `3 disturbances (1 kill, 2 stale views)`.
    pub(super) fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for disturbance in &self.disturbances {
            let label = match &disturbance.kind {
                DisturbanceKind::Stale { misses: false, .. } => "stale view",
                DisturbanceKind::Stale { .. } => "missed state",
                DisturbanceKind::Killed { .. } => "kill",
                DisturbanceKind::Refused { .. } => "refused write",
            };
            *counts.entry(label).or_default() += 1;
        }
        let each: Vec<String> = counts.into_iter().map(|(word, count)| counted(count, word)).collect();
        format!("{} ({})", counted(self.disturbances.len(), "disturbance"), each.join(", "))
    }
}

impl DisturbanceKind {
    /// Returns the number of the write in its step that is disturbed.
    pub(super) fn write(&self) -> Option<u32> {
        match self {
            Self::Stale { .. } => None,
            Self::Killed { write } | Self::Refused { write, .. } => Some(*write),
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in step {}, ", self.step + 1)?;
        match &self.kind {
            DisturbanceKind::Stale { watched: (resource, _), lasts, misses } => {
                write!(f, "the controller's watches of {resource} deliver nothing for {lasts:?}")?;
                if *misses {
                    f.write_str(", and then end: it lists again and misses the changes in between")
                } else {
                    Ok(())
                }
            }
            DisturbanceKind::Killed { write } => {
                write!(f, "the controller is killed after its write {write}, before the response")
            }
            DisturbanceKind::Refused { write, how } => {
                let how = match how {
                    Refusal::Conflict => "is refused with a conflict (409)",
                    Refusal::Unavailable => "is refused (503)",
                    Refusal::AnswerLost => "succeeds, but the response is a timeout (504)",
                };
                write!(f, "the controller's write {write} {how}")
            }
        }
    }
}
