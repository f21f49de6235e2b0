//! Other clusters in a recording: which contexts there were, how each was reached, and by which connection what was asked of
//! it; and what became of port-forwards.
//!
//! A console asks for a cluster in attempts: each is told of until the cluster answers or nobody wants it any more. The
//! same console makes them in the same order, so that the next one of a context is the one that is meant.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::contexts::ContextEntry;
use crate::screen::forwards::carry::Report;

/// The contexts of a kubeconfig, or why it could not be read.
pub(super) type Contexts = Result<Vec<ContextEntry>, String>;

/// A cluster that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wanted {
    /// The context; none is the cluster that the console was started on.
    pub(super) context: Option<String>,
    /// Whether it is gone to, and not looked at beside the others.
    pub(super) goes: bool,
}

/// What is told in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reached {
    /// It is asked for: the next attempt of all.
    Began(Wanted),
    /// It answers. What is asked of it from now on is asked over this connection.
    #[serde(rename_all = "camelCase")]
    Answered {
        /// Which, counted from 1; 0 is the one of the start.
        connection: u64,
        /// How it is reached.
        origin: String,
        /// The namespace to start in.
        namespace: Option<String>,
    },
    /// It does not, for this reason.
    #[serde(rename_all = "camelCase")]
    Silent {
        /// Why.
        why: String,
        /// In how many milliseconds it is asked again; none is never.
        again_in: Option<u64>,
    },
}

/// One attempt, and what was told in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) wanted: Wanted,
    pub(super) told: Vec<(Duration, Reached)>,
}

/// Takes a line of an attempt; why it makes no sense.
pub(super) fn take(all: &mut Vec<Attempt>, at: Duration, id: u64, told: Reached) -> Result<(), String> {
    let place = usize::try_from(id).unwrap_or(usize::MAX);
    if let Reached::Began(wanted) = told {
        if place != all.len() {
            return Err(format!("attempt {id} is not the next one"));
        }
        all.push(Attempt { wanted, told: Vec::new() });
        return Ok(());
    }
    let attempt = all.get_mut(place).ok_or_else(|| format!("nobody began attempt {id}"))?;
    attempt.told.push((at, told));
    Ok(())
}

/// Takes what became of a port-forward of the screen of this number, the next one of all where nothing is told of it yet;
/// why that makes no sense.
pub(super) fn take_forward(
    all: &mut Vec<Vec<(Duration, Report)>>,
    at: Duration,
    id: u64,
    told: Option<Report>,
) -> Result<(), String> {
    let place = usize::try_from(id).unwrap_or(usize::MAX);
    match told {
        None if place == all.len() => all.push(Vec::new()),
        None => return Err(format!("port-forwards {id} are not the next ones")),
        Some(report) => {
            let reports = all.get_mut(place).ok_or_else(|| format!("nobody opened port-forwards {id}"))?;
            reports.push((at, report));
        }
    }
    Ok(())
}
