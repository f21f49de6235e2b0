//! What a replay tells in the place of tasks that talk to more than an API: terminals, port-forwards, the user's contexts.
//! What of it is not in the recording is said where it would be.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::format::{WITH_OTHERS, WITH_TERMINALS};
use super::reached::Contexts;
use super::terminals;
use crate::context::ScreenId;
use crate::effect::Task;
use crate::message::{Data, Message};
use crate::screen::contexts::ContextsData;
use crate::screen::forwards::carry::Report;
use crate::screen::forwards::{ForwardsData, LISTENING};
use crate::screen::terminal::pane::{Outcome, PaneEvent};
use crate::screen::terminal::{SESSION, TerminalData};
use crate::toast::Toast;

/// What is told in their place.
pub(super) struct Told {
    version: u32,
    terminals: VecDeque<terminals::Told>,
    forwards: VecDeque<Vec<(Duration, Report)>>,
    contexts: VecDeque<(Duration, Contexts)>,
    /// Those who wait for its time; they end with it.
    telling: JoinSet<()>,
}

impl Told {
    /// What a recording of this version has of them.
    pub(super) fn new(
        version: u32,
        terminals: Vec<terminals::Told>,
        forwards: Vec<Vec<(Duration, Report)>>,
        contexts: Vec<(Duration, Contexts)>,
    ) -> Self {
        let telling = JoinSet::new();
        Self {
            version,
            terminals: terminals.into(),
            forwards: forwards.into(),
            contexts: contexts.into(),
            telling,
        }
    }

    /// Whether a task is one of those.
    pub(super) fn tells(task: &Task) -> bool {
        matches!(task.slot(), SESSION | LISTENING)
    }

    /// Tells the screen of a task what that told, when it did.
    pub(super) fn tell(&mut self, task: &Task, messages: &mpsc::Sender<Message>, begun: Instant) {
        let screen = task.screen;
        if task.slot() == SESSION {
            let missing = || unrecorded(begun.elapsed(), self.version);
            let of = self.terminals.pop_front().unwrap_or_else(missing);
            let data = |event| Data::new(TerminalData::Event(event));
            self.telling.spawn(tell(messages.clone(), screen, begun, of, data));
            return;
        }
        let messages = messages.clone();
        if let Some(of) = self.forwards.pop_front() {
            let data = |report| Data::new(ForwardsData::Report(report));
            self.telling.spawn(tell(messages, screen, begun, of, data));
            return;
        }
        let why = if self.version < WITH_OTHERS {
            "port-forwards are not in the recording: the program that made it did not record them"
        } else {
            "what became of port-forwards is not in the recording"
        };
        self.telling.spawn(async move {
            // The replay may be over.
            let _ = messages.send(Message::Toast(Toast::warning(why))).await;
        });
    }

    /// Lists the contexts for a screen as they were then.
    pub(super) fn list_contexts(
        &mut self,
        screen: ScreenId,
        messages: &mpsc::Sender<Message>,
        begun: Instant,
    ) {
        let (at, listed) = self.contexts.pop_front().unwrap_or_else(|| {
            (begun.elapsed(), Err("which contexts there were is not in the recording".to_owned()))
        });
        self.telling.spawn(tell(messages.clone(), screen, begun, vec![(at, listed)], |listed| {
            Data::new(ContextsData(listed))
        }));
    }
}

/// Tells a screen these things, each at its time.
async fn tell<T>(
    messages: mpsc::Sender<Message>,
    screen: ScreenId,
    begun: Instant,
    told: Vec<(Duration, T)>,
    data: impl Fn(T) -> Data,
) {
    for (at, one) in told {
        tokio::time::sleep_until(begun + at).await;
        if messages.send(Message::Data(screen, data(one))).await.is_err() {
            return;
        }
    }
}

/// In the place of a terminal that is not in the recording.
fn unrecorded(now: Duration, version: u32) -> terminals::Told {
    let why = if version < WITH_TERMINALS {
        "what this terminal printed is not in the recording: the program that made it did not record terminals"
    } else {
        "what this terminal printed is not in the recording"
    };
    vec![(now, PaneEvent::Ended(Outcome::Failed(why.to_owned())))]
}
