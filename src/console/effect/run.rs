//! Tasks: the handle they send through, and the runner that ends them with their screens.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::lasting::Lasting;
use super::{Task, program};
use crate::action::{self, Action, Outcome};
use crate::context::ScreenId;
use crate::diagnosis::Diagnose;
use crate::extensions::Run;
use crate::message::{Data, Message};
use crate::resource::{ClusterId, ObjectRef};
use crate::toast::Toast;

/// What a task sends through: to its screen, to the user, and to the cluster.
#[derive(Clone)]
pub struct Outbox {
    client: Client,
    messages: mpsc::Sender<Message>,
    screen: ScreenId,
    diagnose: Option<Arc<dyn Diagnose>>,
    lasting: Lasting,
}

impl Outbox {
    /// A handle for one screen's tasks.
    pub fn new(client: Client, messages: mpsc::Sender<Message>, screen: ScreenId) -> Self {
        Self { client, messages, screen, diagnose: None, lasting: Lasting::default() }
    }

    /// The cluster.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Who knows about connections; nobody where the console was started without.
    pub(crate) fn diagnose(&self) -> Option<Arc<dyn Diagnose>> {
        self.diagnose.clone()
    }

    /// Sends the screen something; waits while the loop is behind, which is the back-pressure.
    pub(crate) async fn data<T: Any + Send>(&self, data: T) {
        // The loop ends before its tasks do; what they still send is dropped.
        let _ = self.messages.send(Message::Data(self.screen, Data::new(data))).await;
    }

    /// Sends something to the open dialog of the screen.
    pub(crate) async fn dialog_data<T: Any + Send>(&self, data: T) {
        self.send(Message::DialogData(self.screen, Data::new(data))).await;
    }

    /// An object as the server has it now; what went wrong in its words.
    pub(crate) async fn fetch(&self, target: &ObjectRef) -> Result<serde_json::Value, String> {
        match target.api(self.client()).get(&target.name).await {
            Ok(object) => Ok(serde_json::to_value(object).unwrap_or_default()),
            Err(error) => Err(action::error_text(&error)),
        }
    }

    /// Tells the user something.
    pub(crate) async fn toast(&self, toast: Toast) {
        self.send(Message::Toast(toast)).await;
    }

    /// Sends any message.
    pub(crate) async fn send(&self, message: Message) {
        let _ = self.messages.send(message).await;
    }

    /// Carries an action out, records it in the journal and tells it; the answer comes back to the
    /// task too. Drains use this for each eviction.
    pub async fn act(&self, action: Action) -> Result<serde_json::Value, kube::Error> {
        let result = action::carry_out(&self.client, &action.mutation).await;
        self.send(Message::Acted(Box::new(Outcome::of(action, &result)))).await;
        result
    }

    /// Runs work that is not ended with this task, and that is waited for, for a while, before the console ends.
    pub(crate) fn last(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.lasting.spawn(work);
    }

    /// Resolves when such work should come to its end.
    pub(crate) fn ending(&self) -> impl Future<Output = ()> + Send + 'static {
        self.lasting.ending()
    }

    /// Records an action that the task carried out by itself.
    pub(crate) async fn record<T>(&self, action: Action, result: &Result<T, kube::Error>) {
        let error = result.as_ref().err().map(action::error_text);
        let outcome = Outcome { action, error, after: None };
        self.send(Message::Acted(Box::new(outcome))).await;
    }
}

/// Runs tasks and ends them with their screens.
pub struct Runner {
    client: Client,
    messages: mpsc::Sender<Message>,
    diagnose: Option<Arc<dyn Diagnose>>,
    running: HashMap<ScreenId, HashMap<&'static str, AbortHandle>>,
    actions: tokio::task::JoinSet<()>,
    /// Programs of plugins; they end with the runner.
    programs: tokio::task::JoinSet<()>,
    lasting: Lasting,
}

impl Runner {
    /// A runner that hands out this client and this channel.
    pub fn new(client: Client, messages: mpsc::Sender<Message>) -> Self {
        let actions = tokio::task::JoinSet::new();
        let programs = tokio::task::JoinSet::new();
        let lasting = Lasting::default();
        Self { client, messages, diagnose: None, running: HashMap::new(), actions, programs, lasting }
    }

    /// Whose tasks may ask about connections.
    #[must_use]
    pub fn diagnosing(mut self, diagnose: Option<Arc<dyn Diagnose>>) -> Self {
        self.diagnose = diagnose;
        self
    }

    /// Starts a task.
    pub fn start(&mut self, task: Task) {
        let mut outbox = Outbox::new(self.client.clone(), self.messages.clone(), task.screen);
        outbox.diagnose.clone_from(&self.diagnose);
        outbox.lasting.clone_from(&self.lasting);
        let handle = tokio::spawn((task.run)(outbox)).abort_handle();
        if let Some(old) = self.running.entry(task.screen).or_default().insert(task.slot, handle) {
            old.abort();
        }
    }

    /// Carries an action out on its own: it is not undone by leaving the screen that asked for it.
    pub fn act(&mut self, action: Action) {
        while self.actions.try_join_next().is_some() {}
        let outbox =
            Outbox::new(self.client.clone(), self.messages.clone(), ScreenId::new(0, ClusterId::HOME));
        self.actions.spawn(async move {
            // The result is in the message `act` sends.
            let _ = outbox.act(action).await;
        });
    }

    /// Runs a program out of sight; its end is told.
    pub(crate) fn run(&mut self, run: Run) {
        while self.programs.try_join_next().is_some() {}
        self.programs.spawn(program::run(run, self.messages.clone()));
    }

    /// Whether an action or a program is on its way.
    pub(crate) fn is_busy(&mut self) -> bool {
        while self.actions.try_join_next().is_some() {}
        while self.programs.try_join_next().is_some() {}
        !self.actions.is_empty() || !self.programs.is_empty() || !self.lasting.is_empty()
    }

    /// Has what was made for screens taken away again, whether they are there or not.
    pub(crate) fn end_lasting(&self) {
        self.lasting.end();
    }

    /// Ends every task of a screen, and has what was made for screens taken away again.
    pub(crate) fn end_tasks(&mut self) {
        self.running.drain().flat_map(|(_, slots)| slots.into_values()).for_each(|task| task.abort());
        self.lasting.end();
    }

    /// Waits for an action that is on its way; then, after [`Self::end_tasks`], until all is taken away that was made for
    /// screens. Nothing when all of that has come.
    pub(crate) async fn next_action(&mut self) -> Option<()> {
        let next = self.actions.join_next().await.map(drop);
        if next.is_none() {
            self.lasting.over().await;
        }
        next
    }

    /// Ends one task of a screen.
    pub(crate) fn cancel(&mut self, screen: ScreenId, slot: &'static str) {
        if let Some(task) = self.running.get_mut(&screen).and_then(|slots| slots.remove(slot)) {
            task.abort();
        }
    }

    /// Ends every task of a screen that was left.
    pub(crate) fn close(&mut self, screen: ScreenId) {
        for task in self.running.remove(&screen).into_iter().flatten() {
            task.1.abort();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.end_tasks();
    }
}
