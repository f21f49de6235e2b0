//! Records the events of the loop other than keys and the first cluster's API: terminals, port-forwards, contexts, and
//! connections to other clusters.

use jiff::Timestamp;

use super::client;
use super::connect_events::{ConnectEvent, ConnectRequest};
use super::format::RecordedEvent;
use super::recorder::Recorder;
use console_data::context::ScreenId;
use console_data::contexts::ConnectedCluster;
use console_data::message::{Data, Message};
use console_data::resource::ClusterId;
use console_screens::contexts::ContextsData;
use console_screens::forwards::ForwardsData;
use console_screens::terminal::TerminalData;

impl Recorder {
    /// Records that a cluster is to be joined.
    pub(crate) fn joins(&self, cluster: ClusterId, context: Option<&str>) {
        let id = {
            let mut known = self.connection_ids().lock();
            let id = known.attempt();
            known.joining.insert(cluster, id);
            id
        };
        self.began(id, context, false);
    }

    /// Records that the console is to switch to a cluster.
    pub(crate) fn record_context_switch(&self, context: &str) {
        let id = {
            let mut known = self.connection_ids().lock();
            let id = known.attempt();
            known.going = Some(id);
            id
        };
        self.began(id, Some(context), true);
    }

    fn began(&self, id: u64, context: Option<&str>, goes: bool) {
        self.write_contexts();
        let request = ConnectRequest { context: context.map(str::to_owned), goes };
        self.record(RecordedEvent::Reached { id, event: ConnectEvent::Began(request) });
    }

    /// Records that the cluster to switch to does not answer.
    pub(crate) fn record_failed_switch(&self, reason: &str) {
        let id = self.connection_ids().lock().going.take();
        if let Some(id) = id {
            self.record(RecordedEvent::Reached {
                id,
                event: ConnectEvent::Silent { why: reason.to_owned(), again_in: None },
            });
        }
    }

    /// Records that a screen of port-forwards opens.
    pub(crate) fn forwards_begin(&self, screen: ScreenId) {
        let id = self.connection_ids().lock().forwards.begin(screen);
        self.record(RecordedEvent::Forwards { id, report: None });
    }

    /// Records a message before the loop handles it. Replaces the client of a cluster that answers by one that records
    /// its requests.
    pub(crate) fn message(&self, message: &mut Message, now: Timestamp) {
        match message {
            Message::Data(screen, data) => self.data(*screen, data),
            Message::Contexts(listed) => {
                let at = self.elapsed();
                self.connection_ids().lock().contexts = Some((at, listed.clone()));
            }
            Message::Connected(connected) => {
                let id = self.connection_ids().lock().going.take();
                self.answered(id, connected);
            }
            Message::On(cluster, message) => match &mut **message {
                Message::Data(screen, data) => self.data(*screen, data),
                Message::Joined(joined) => {
                    let id = self.connection_ids().lock().joining.get(cluster).copied();
                    self.answered(id, &mut joined.0);
                }
                Message::Unreachable { reason: why, retry_at } => {
                    let id = self.connection_ids().lock().joining.get(cluster).copied();
                    let left = retry_at.as_millisecond().saturating_sub(now.as_millisecond());
                    let event = ConnectEvent::Silent {
                        why: why.clone(),
                        again_in: Some(u64::try_from(left).unwrap_or(0)),
                    };
                    if let Some(id) = id {
                        self.record(RecordedEvent::Reached { id, event });
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn data(&self, screen: ScreenId, data: &Data) {
        if let Some(TerminalData::Event(event)) = data.peek::<TerminalData>() {
            self.record_terminal_event(screen, event);
        } else if let Some(ForwardsData::Report(report)) = data.peek::<ForwardsData>() {
            let id = self.connection_ids().lock().forwards.of(screen);
            if let Some(id) = id {
                self.record(RecordedEvent::Forwards { id, report: Some(report.clone()) });
            }
        } else if let Some(ContextsData(listed)) = data.peek::<ContextsData>() {
            self.write_contexts();
            self.record(RecordedEvent::Contexts { shown: true, listed: listed.clone() });
        }
    }

    fn answered(&self, id: Option<u64>, connected: &mut ConnectedCluster) {
        let Some(id) = id else { return };
        // The client of the start cluster records already.
        let connection = connected.name.as_ref().map_or(0, |_| {
            let mut known = self.connection_ids().lock();
            known.connections += 1;
            known.connections
        });
        let ConnectedCluster { origin, namespace, .. } = connected.clone();
        self.record(RecordedEvent::Reached {
            id,
            event: ConnectEvent::Answered { connection, origin, namespace },
        });
        if connection > 0 {
            connected.client = client::recorded(connected.client.clone(), self.over(connection));
        }
    }

    /// Writes the contexts that were read last. They are written only when needed, so that the recording of a session
    /// that uses no other cluster reveals none of them.
    fn write_contexts(&self) {
        let contexts = self.connection_ids().lock().contexts.take();
        if let Some((at, listed)) = contexts {
            self.record_at(at, RecordedEvent::Contexts { shown: false, listed });
        }
    }
}
