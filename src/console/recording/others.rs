//! The clusters of a recording: the first one, and the connections to others, replayed at their times.

use std::collections::HashMap;
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::format::{Beginning, Exchange};
use super::reached::{Attempt, Reached, Wanted};
use super::replayed;
use crate::contexts::{Connected, Identity};
use crate::message::Message;
use crate::resource::ClusterId;
use crate::toast::Toast;
use base::clock::{Clock, saturating_after};

/// The error for a cluster that is not in the recording.
const UNKNOWN: &str = "this cluster is not in the recording";

/// The retry delay for such a cluster: longer than any recording.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// The start of a replay, and its clock.
#[derive(Clone)]
pub(super) struct Playing {
    pub(super) begun: Instant,
    pub(super) clock: Clock,
}

/// All clusters of a recording.
pub(super) struct Others {
    clients: HashMap<u64, Client>,
    /// The attempts that were not replayed yet, in order.
    attempts: Vec<Attempt>,
    home: (String, Option<String>),
    /// The tasks that replay the joining of clusters.
    joining: HashMap<ClusterId, JoinSet<()>>,
    going: JoinSet<()>,
}

impl Others {
    /// Creates the clusters of a recording.
    pub(super) fn new(
        asked: Vec<(u64, (String, String), Exchange)>,
        attempts: Vec<Attempt>,
        beginning: &Beginning,
    ) -> Self {
        Self {
            clients: replayed::clients(asked),
            attempts,
            home: (beginning.origin.clone(), beginning.namespace.clone()),
            joining: HashMap::new(),
            going: JoinSet::new(),
        }
    }

    /// Returns the cluster of the start.
    pub(super) fn home(&self) -> Connected {
        let (origin, namespace) = self.home.clone();
        Connected { name: None, origin, namespace, client: self.client(0) }
    }

    /// Returns a client that replays the requests of a connection.
    fn client(&self, connection: u64) -> Client {
        // An unknown connection has no requests.
        self.clients.get(&connection).cloned().unwrap_or_else(|| replayed::client(Vec::new()))
    }

    /// Returns the events of the next attempt for this target.
    fn attempt(&mut self, wanted: &Wanted) -> Option<Vec<(Duration, Reached)>> {
        let at = self.attempts.iter().position(|attempt| attempt.wanted == *wanted)?;
        Some(self.attempts.remove(at).told)
    }

    /// Returns the cluster that answered over a connection.
    fn connected(&self, name: Option<&String>, told: &Reached) -> Option<Connected> {
        let Reached::Answered { connection, origin, namespace } = told else { return None };
        let client = self.client(*connection);
        Some(Connected { name: name.cloned(), origin: origin.clone(), namespace: namespace.clone(), client })
    }

    /// Replays an attempt to join a cluster.
    pub(super) fn join(
        &mut self,
        cluster: ClusterId,
        name: Option<String>,
        messages: &mpsc::Sender<Message>,
        now: Playing,
    ) {
        let told = self.attempt(&Wanted { context: name.clone(), goes: false });
        let unknown = |at| Reached::Silent { why: UNKNOWN.to_owned(), again_in: at };
        let told = told.unwrap_or_else(|| vec![(now.begun.elapsed(), unknown(None))]);
        let steps: Vec<_> = told
            .into_iter()
            .map(|(at, told)| {
                let connected = self.connected(name.as_ref(), &told);
                (at, told, connected)
            })
            .collect();
        let messages = messages.clone();
        let mut joining = JoinSet::new();
        joining.spawn(async move {
            for (at, told, connected) in steps {
                tokio::time::sleep_until(now.begun + at).await;
                let message = match (told, connected) {
                    (Reached::Silent { why, again_in }, _) => {
                        let again = again_in.map_or(NEVER, Duration::from_millis);
                        Message::Unreachable { why, retry_at: saturating_after(now.clock.now(), again) }
                    }
                    (_, Some(connected)) => {
                        let context = name.clone().unwrap_or_default();
                        Message::Joined(Box::new((connected, Identity { context, ..Identity::default() })))
                    }
                    (Reached::Began(_) | Reached::Answered { .. }, None) => continue,
                };
                // The replay may have ended.
                if messages.send(Message::On(cluster, Box::new(message))).await.is_err() {
                    return;
                }
            }
        });
        self.joining.insert(cluster, joining);
    }

    /// Replays an attempt to switch to a cluster.
    pub(super) fn go(&mut self, name: &str, messages: &mpsc::Sender<Message>, begun: Instant) {
        let told = self.attempt(&Wanted { context: Some(name.to_owned()), goes: true });
        let unknown = Reached::Silent { why: UNKNOWN.to_owned(), again_in: None };
        let told = told.unwrap_or_else(|| vec![(begun.elapsed(), unknown)]);
        let name = name.to_owned();
        let steps: Vec<_> = told
            .into_iter()
            .map(|(at, told)| {
                let connected = self.connected(Some(&name), &told);
                (at, told, connected)
            })
            .collect();
        let messages = messages.clone();
        // An earlier attempt is abandoned.
        self.going = JoinSet::new();
        self.going.spawn(async move {
            for (at, told, connected) in steps {
                tokio::time::sleep_until(begun + at).await;
                let message = match (told, connected) {
                    (Reached::Silent { why, .. }, _) => Message::Toast(Toast::failed(why)),
                    (_, Some(connected)) => Message::Connected(Box::new(connected)),
                    (Reached::Began(_) | Reached::Answered { .. }, None) => continue,
                };
                // The replay may have ended.
                if messages.send(message).await.is_err() {
                    return;
                }
            }
        });
    }
}
