//! Records the events of the loop other than keys and the first cluster's API: terminals, port-forwards, contexts, and
//! connections to other clusters.

use jiff::Timestamp;

use super::client;
use super::format::What;
use super::reached::{Reached, Wanted};
use super::recorder::Recorder;
use crate::context::ScreenId;
use crate::contexts::Connected;
use crate::message::{Data, Message};
use crate::resource::ClusterId;
use crate::screen::contexts::ContextsData;
use crate::screen::forwards::ForwardsData;
use crate::screen::terminal::TerminalData;

impl Recorder {
    /// Records that a cluster is to be joined.
    pub(crate) fn joins(&self, cluster: ClusterId, context: Option<&str>) {
        let id = {
            let mut known = self.known().lock();
            let id = known.attempt();
            known.joining.insert(cluster, id);
            id
        };
        self.began(id, context, false);
    }

    /// Records that the console is to switch to a cluster.
    pub(crate) fn goes(&self, context: &str) {
        let id = {
            let mut known = self.known().lock();
            let id = known.attempt();
            known.going = Some(id);
            id
        };
        self.began(id, Some(context), true);
    }

    fn began(&self, id: u64, context: Option<&str>, goes: bool) {
        self.write_contexts();
        let wanted = Wanted { context: context.map(str::to_owned), goes };
        self.note(What::Reached { id, told: Reached::Began(wanted) });
    }

    /// Records that the cluster to switch to does not answer.
    pub(crate) fn not_gone(&self, why: &str) {
        let id = self.known().lock().going.take();
        if let Some(id) = id {
            self.note(What::Reached { id, told: Reached::Silent { why: why.to_owned(), again_in: None } });
        }
    }

    /// Records that a screen of port-forwards opens.
    pub(crate) fn forwards_begin(&self, screen: ScreenId) {
        let id = {
            let mut known = self.known().lock();
            let id = known.next_forwards;
            known.next_forwards += 1;
            known.forwards.insert(screen, id);
            id
        };
        self.note(What::Forwards { id, told: None });
    }

    /// Records a message before the loop handles it. Replaces the client of a cluster that answers by one that records
    /// its requests.
    pub(crate) fn message(&self, message: &mut Message, now: Timestamp) {
        match message {
            Message::Data(screen, data) => self.data(*screen, data),
            Message::Contexts(listed) => {
                let at = self.elapsed();
                self.known().lock().contexts = Some((at, listed.clone()));
            }
            Message::Connected(connected) => {
                let id = self.known().lock().going.take();
                self.answered(id, connected);
            }
            Message::On(cluster, message) => match &mut **message {
                Message::Data(screen, data) => self.data(*screen, data),
                Message::Joined(joined) => {
                    let id = self.known().lock().joining.get(cluster).copied();
                    self.answered(id, &mut joined.0);
                }
                Message::Unreachable { why, retry_at } => {
                    let id = self.known().lock().joining.get(cluster).copied();
                    let left = retry_at.as_millisecond().saturating_sub(now.as_millisecond());
                    let told = Reached::Silent {
                        why: why.clone(),
                        again_in: Some(u64::try_from(left).unwrap_or(0)),
                    };
                    if let Some(id) = id {
                        self.note(What::Reached { id, told });
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn data(&self, screen: ScreenId, data: &Data) {
        if let Some(TerminalData::Event(event)) = data.peek::<TerminalData>() {
            self.terminal_told(screen, event);
        } else if let Some(ForwardsData::Report(report)) = data.peek::<ForwardsData>() {
            let id = self.known().lock().forwards.get(&screen).copied();
            if let Some(id) = id {
                self.note(What::Forwards { id, told: Some(report.clone()) });
            }
        } else if let Some(ContextsData(listed)) = data.peek::<ContextsData>() {
            self.write_contexts();
            self.note(What::Contexts { shown: true, listed: listed.clone() });
        }
    }

    fn answered(&self, id: Option<u64>, connected: &mut Connected) {
        let Some(id) = id else { return };
        // The client of the start cluster records already.
        let connection = connected.name.as_ref().map_or(0, |_| {
            let mut known = self.known().lock();
            known.connections += 1;
            known.connections
        });
        let Connected { origin, namespace, .. } = connected.clone();
        self.note(What::Reached { id, told: Reached::Answered { connection, origin, namespace } });
        if connection > 0 {
            connected.client = client::recorded(connected.client.clone(), self.over(connection));
        }
    }

    /// Records the contexts that were read last: a session that uses no other cluster reveals none of them.
    fn write_contexts(&self) {
        let contexts = self.known().lock().contexts.take();
        if let Some((at, listed)) = contexts {
            self.note_at(at, What::Contexts { shown: false, listed });
        }
    }
}
