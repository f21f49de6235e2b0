//! Other clusters in a recording: the contexts, the attempts to connect, and the connection of each cluster's requests.
//!
//! A console connects to a cluster in attempts; each lasts until the cluster answers or the attempt is abandoned.
//! Replay makes the attempts in the same order, so that the next one for a context is the matching one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use console_data::contexts::ContextEntry;

/// The contexts of a kubeconfig, or the error of reading it.
pub(super) type Contexts = Result<Vec<ContextEntry>, String>;

/// The target of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConnectRequest {
    /// The context; `None` for the cluster that the console was started on.
    pub(super) context: Option<String>,
    /// The console switches to the cluster instead of joining it.
    pub(super) goes: bool,
}

/// An event of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ConnectEvent {
    /// The attempt starts; attempts are numbered in order.
    Began(ConnectRequest),
    /// The cluster answers. Its requests use this connection from now on.
    #[serde(rename_all = "camelCase")]
    Answered {
        /// The number of the connection, from 1; 0 is the connection to the start cluster.
        connection: u64,
        /// The server's address.
        origin: String,
        /// The namespace to start in.
        namespace: Option<String>,
    },
    /// The cluster does not answer.
    #[serde(rename_all = "camelCase")]
    Silent {
        /// The error.
        why: String,
        /// Milliseconds until the next try; `None` for never.
        again_in: Option<u64>,
    },
}

/// An attempt and its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) request: ConnectRequest,
    pub(super) events: Vec<(Duration, ConnectEvent)>,
}

/// Adds an event of an attempt; an error says why it is invalid.
pub(super) fn take(all: &mut Vec<Attempt>, at: Duration, id: u64, event: ConnectEvent) -> Result<(), String> {
    let place = usize::try_from(id).unwrap_or(usize::MAX);
    if let ConnectEvent::Began(request) = event {
        if place != all.len() {
            return Err(format!("attempt {id} is out of order"));
        }
        all.push(Attempt { request, events: Vec::new() });
        return Ok(());
    }
    let attempt = all.get_mut(place).ok_or_else(|| format!("unknown attempt {id}"))?;
    attempt.events.push((at, event));
    Ok(())
}
