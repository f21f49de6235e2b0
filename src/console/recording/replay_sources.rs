//! Replays tasks that use more than the API: terminals, port-forwards, and the user's contexts. If their data is not in
//! the recording, their screen says so.

use std::collections::VecDeque;
use std::time::Duration;

use base::task::JoinSet;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::connect_events::Contexts;
use super::format::{WITH_OTHERS, WITH_TERMINALS};
use super::terminals;
use console_data::context::ScreenId;
use console_data::message::{Data, Message};
use console_operations::effect::Task;
use console_operations::pane::{Outcome, PaneEvent};
use console_screens::contexts::ContextsData;
use console_screens::forwards::forwarder::Report;
use console_screens::forwards::{ForwardsData, LISTENING};
use console_screens::terminal::{SESSION, TerminalData};
use console_toolkit::toast::Toast;

/// The recorded events of terminals, port-forwards and contexts.
pub(super) struct ReplaySources {
    version: u32,
    terminals: VecDeque<terminals::TerminalEvents>,
    forwards: VecDeque<Vec<(Duration, Report)>>,
    contexts: VecDeque<(Duration, Contexts)>,
    /// The tasks that wait for the events' times. Dropping the sources ends them.
    tasks: JoinSet<()>,
}

impl ReplaySources {
    /// Creates the sources from the events in a recording of this version.
    pub(super) fn new(
        version: u32,
        terminals: Vec<terminals::TerminalEvents>,
        forwards: Vec<Vec<(Duration, Report)>>,
        contexts: Vec<(Duration, Contexts)>,
    ) -> Self {
        let telling = JoinSet::new();
        Self {
            version,
            terminals: terminals.into(),
            forwards: forwards.into(),
            contexts: contexts.into(),
            tasks: telling,
        }
    }

    /// Reports whether a task is replayed here.
    pub(super) fn is_recorded(task: &Task) -> bool {
        matches!(task.slot(), SESSION | LISTENING)
    }

    /// Replays the events of a task to its screen at their times.
    pub(super) fn replay_task(&mut self, task: &Task, messages: &mpsc::Sender<Message>, started: Instant) {
        let screen = task.screen;
        if task.slot() == SESSION {
            let missing = || unrecorded(started.elapsed(), self.version);
            let of = self.terminals.pop_front().unwrap_or_else(missing);
            let data = |event| Data::new(TerminalData::Event(event));
            self.tasks.spawn(replay_events(messages.clone(), screen, started, of, data));
            return;
        }
        let messages = messages.clone();
        if let Some(of) = self.forwards.pop_front() {
            let data = |report| Data::new(ForwardsData::Report(report));
            self.tasks.spawn(replay_events(messages, screen, started, of, data));
            return;
        }
        let reason = if self.version < WITH_OTHERS {
            "port-forwards are not in the recording: an older version of podium made it"
        } else {
            "these port-forwards are not in the recording"
        };
        self.tasks.spawn(async move {
            // The replay may have ended.
            let _ = messages.send(Message::Toast(Toast::warning(reason))).await;
        });
    }

    /// Sends a screen the recorded contexts.
    pub(super) fn list_contexts(
        &mut self,
        screen: ScreenId,
        messages: &mpsc::Sender<Message>,
        started: Instant,
    ) {
        let (at, listed) = self
            .contexts
            .pop_front()
            .unwrap_or_else(|| (started.elapsed(), Err("the contexts are not in the recording".to_owned())));
        self.tasks.spawn(replay_events(messages.clone(), screen, started, vec![(at, listed)], |listed| {
            Data::new(ContextsData(listed))
        }));
    }
}

/// Sends a screen these messages, each at its time.
async fn replay_events<T>(
    messages: mpsc::Sender<Message>,
    screen: ScreenId,
    started: Instant,
    events: Vec<(Duration, T)>,
    data: impl Fn(T) -> Data,
) {
    for (at, one) in events {
        tokio::time::sleep_until(started + at).await;
        if messages.send(Message::Data(screen, data(one))).await.is_err() {
            return;
        }
    }
}

/// Returns the events for a terminal that is not in the recording.
fn unrecorded(now: Duration, version: u32) -> terminals::TerminalEvents {
    let reason = if version < WITH_TERMINALS {
        "this terminal's output is not in the recording: an older version of podium made it"
    } else {
        "this terminal's output is not in the recording"
    };
    vec![(now, PaneEvent::Ended(Outcome::Failed(reason.to_owned())))]
}
