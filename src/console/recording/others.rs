//! The clusters of a recording: the first one, and how the others were reached, once more at their times.

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

/// Said of a cluster that nothing is known of.
const UNKNOWN: &str = "what this cluster told is not in the recording";

/// So long a cluster that nothing is known of is said not to be asked again: longer than any recording.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// When a replay began, and its clock.
#[derive(Clone)]
pub(super) struct Playing {
    pub(super) begun: Instant,
    pub(super) clock: Clock,
}

/// All of them.
pub(super) struct Others {
    clients: HashMap<u64, Client>,
    /// Those that were not made again yet, in order.
    attempts: Vec<Attempt>,
    home: (String, Option<String>),
    /// Who waits for clusters to be looked at, by the clusters.
    joining: HashMap<ClusterId, JoinSet<()>>,
    going: JoinSet<()>,
}

impl Others {
    /// Those of a recording.
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

    /// The cluster of the start.
    pub(super) fn home(&self) -> Connected {
        let (origin, namespace) = self.home.clone();
        Connected { name: None, origin, namespace, client: self.client(0) }
    }

    /// What was asked over a connection.
    fn client(&self, connection: u64) -> Client {
        // Over one that is not there nothing was asked.
        self.clients.get(&connection).cloned().unwrap_or_else(|| replayed::client(Vec::new()))
    }

    /// What was told in the next attempt of this kind.
    fn attempt(&mut self, wanted: &Wanted) -> Option<Vec<(Duration, Reached)>> {
        let at = self.attempts.iter().position(|attempt| attempt.wanted == *wanted)?;
        Some(self.attempts.remove(at).told)
    }

    /// A cluster that answers over a connection.
    fn connected(&self, name: Option<&String>, told: &Reached) -> Option<Connected> {
        let Reached::Answered { connection, origin, namespace } = told else { return None };
        let client = self.client(*connection);
        Some(Connected { name: name.cloned(), origin: origin.clone(), namespace: namespace.clone(), client })
    }

    /// Asks for a cluster to be looked at beside the others, as it was asked for then.
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
                // The replay may be over.
                if messages.send(Message::On(cluster, Box::new(message))).await.is_err() {
                    return;
                }
            }
        });
        self.joining.insert(cluster, joining);
    }

    /// Asks for a cluster to be gone to, as it was asked for then.
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
        // Whoever was asked before is not waited for any more.
        self.going = JoinSet::new();
        self.going.spawn(async move {
            for (at, told, connected) in steps {
                tokio::time::sleep_until(begun + at).await;
                let message = match (told, connected) {
                    (Reached::Silent { why, .. }, _) => Message::Toast(Toast::failed(why)),
                    (_, Some(connected)) => Message::Connected(Box::new(connected)),
                    (Reached::Began(_) | Reached::Answered { .. }, None) => continue,
                };
                // The replay may be over.
                if messages.send(message).await.is_err() {
                    return;
                }
            }
        });
    }
}
