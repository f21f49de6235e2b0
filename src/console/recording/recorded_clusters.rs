//! The clusters of a recording: the first one, and the connections to others, replayed at their times.

use std::collections::HashMap;
use std::time::Duration;

use base::task::JoinSet;
use kube::Client;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::connect_events::{Attempt, ConnectEvent, ConnectRequest};
use super::format::{Exchange, SessionHeader};
use super::replay_client;
use base::clock::{Clock, saturating_after};
use console_data::contexts::{ConnectedCluster, Identity};
use console_data::message::Message;
use console_data::resource::ClusterId;
use console_toolkit::toast::Toast;

/// The error for a cluster that is not in the recording.
const UNKNOWN: &str = "this cluster is not in the recording";

/// The retry delay for a cluster that is not in the recording: longer than any recording.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// The start of a replay, and its clock.
#[derive(Clone)]
pub(super) struct ReplayClock {
    pub(super) started: Instant,
    pub(super) clock: Clock,
}

pub(super) struct RecordedClusters {
    clients: HashMap<u64, Client>,
    /// The attempts that were not replayed yet, in order.
    attempts: Vec<Attempt>,
    home: (String, Option<String>),
    /// The tasks that replay the joining of clusters.
    joining: HashMap<ClusterId, JoinSet<()>>,
    going: JoinSet<()>,
}

impl RecordedClusters {
    pub(super) fn new(
        exchanges: Vec<(u64, (String, String), Exchange)>,
        attempts: Vec<Attempt>,
        beginning: &SessionHeader,
    ) -> Self {
        Self {
            clients: replay_client::clients(exchanges),
            attempts,
            home: (beginning.origin.clone(), beginning.namespace.clone()),
            joining: HashMap::new(),
            going: JoinSet::new(),
        }
    }

    /// Returns the cluster that the session was started on.
    pub(super) fn home(&self) -> ConnectedCluster {
        let (origin, namespace) = self.home.clone();
        ConnectedCluster { name: None, origin, namespace, client: self.client(0) }
    }

    /// Returns a client that replays the requests of a connection.
    fn client(&self, connection: u64) -> Client {
        // An unknown connection has no requests.
        self.clients.get(&connection).cloned().unwrap_or_else(|| replay_client::client(Vec::new()))
    }

    /// Returns the events of the next attempt for this target, each with the cluster that answered. A target that is
    /// not in the recording does not answer.
    fn attempt(
        &mut self,
        request: &ConnectRequest,
        started: Instant,
    ) -> Vec<(Duration, ConnectEvent, Option<ConnectedCluster>)> {
        let recorded = self.attempts.iter().position(|attempt| attempt.request == *request);
        let events = match recorded {
            Some(at) => self.attempts.remove(at).events,
            None => {
                vec![(started.elapsed(), ConnectEvent::Silent { why: UNKNOWN.to_owned(), again_in: None })]
            }
        };
        let step = |(at, event): (Duration, ConnectEvent)| {
            let connected = self.connected(request.context.as_ref(), &event);
            (at, event, connected)
        };
        events.into_iter().map(step).collect()
    }

    /// Returns the cluster that answered over a connection.
    fn connected(&self, name: Option<&String>, event: &ConnectEvent) -> Option<ConnectedCluster> {
        let ConnectEvent::Answered { connection, origin, namespace } = event else { return None };
        let client = self.client(*connection);
        Some(ConnectedCluster {
            name: name.cloned(),
            origin: origin.clone(),
            namespace: namespace.clone(),
            client,
        })
    }

    /// Replays an attempt to join a cluster.
    pub(super) fn join(
        &mut self,
        cluster: ClusterId,
        name: Option<String>,
        messages: &mpsc::Sender<Message>,
        now: ReplayClock,
    ) {
        let steps = self.attempt(&ConnectRequest { context: name.clone(), goes: false }, now.started);
        let messages = messages.clone();
        let mut joining = JoinSet::new();
        joining.spawn(async move {
            for (at, event, connected) in steps {
                tokio::time::sleep_until(now.started + at).await;
                let message = match (event, connected) {
                    (ConnectEvent::Silent { why, again_in }, _) => {
                        let again = again_in.map_or(NEVER, Duration::from_millis);
                        Message::Unreachable {
                            reason: why,
                            retry_at: saturating_after(now.clock.now(), again),
                        }
                    }
                    (_, Some(connected)) => {
                        let context = name.clone().unwrap_or_default();
                        Message::Joined(Box::new((connected, Identity { context, ..Identity::default() })))
                    }
                    (ConnectEvent::Began(_) | ConnectEvent::Answered { .. }, None) => continue,
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
    pub(super) fn go(&mut self, name: &str, messages: &mpsc::Sender<Message>, started: Instant) {
        let steps = self.attempt(&ConnectRequest { context: Some(name.to_owned()), goes: true }, started);
        let messages = messages.clone();
        // An earlier attempt is abandoned.
        self.going = JoinSet::new();
        self.going.spawn(async move {
            for (at, event, connected) in steps {
                tokio::time::sleep_until(started + at).await;
                let message = match (event, connected) {
                    (ConnectEvent::Silent { why, .. }, _) => Message::Toast(Toast::failed(why)),
                    (_, Some(connected)) => Message::Connected(Box::new(connected)),
                    (ConnectEvent::Began(_) | ConnectEvent::Answered { .. }, None) => continue,
                };
                // The replay may have ended.
                if messages.send(message).await.is_err() {
                    return;
                }
            }
        });
    }
}
