//! Tasks: the outbox through which they send, and the runner that ends them with their screens.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::detached_tasks::DetachedTasks;
use super::{Task, program};
use crate::diagnostics::Diagnostics;
use console_data::action::{self, Action, Outcome};
use console_data::context::ScreenId;
use console_data::extensions::PluginRun;
use console_data::message::{Data, Message};
use console_data::resource::{ClusterId, ObjectRef};
use console_toolkit::toast::Toast;

/// A task's connection to its screen, to the user, and to the cluster.
#[derive(Clone)]
pub struct Outbox {
    client: Client,
    messages: mpsc::Sender<Message>,
    screen: ScreenId,
    diagnose: Option<Arc<dyn Diagnostics>>,
    detached: DetachedTasks,
}

impl Outbox {
    /// Creates an outbox for the tasks of one screen.
    pub fn new(client: Client, messages: mpsc::Sender<Message>, screen: ScreenId) -> Self {
        Self { client, messages, screen, diagnose: None, detached: DetachedTasks::default() }
    }

    /// Returns the client of the cluster.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the connection diagnostics; `None` if the console was started without.
    pub fn diagnose(&self) -> Option<Arc<dyn Diagnostics>> {
        self.diagnose.clone()
    }

    /// Sends data to the screen; waits while the loop is behind, which is the back-pressure.
    pub async fn data<T: Any + Send>(&self, data: T) {
        // The loop ends before its tasks do; later messages are dropped.
        let _ = self.messages.send(Message::Data(self.screen, Data::new(data))).await;
    }

    /// Sends data to the open dialog of the screen.
    pub(crate) async fn dialog_data<T: Any + Send>(&self, data: T) {
        self.send(Message::DialogData(self.screen, Data::new(data))).await;
    }

    /// Reads an object from the server; the error has the server's message.
    pub async fn fetch(&self, target: &ObjectRef) -> Result<serde_json::Value, String> {
        match target.api(self.client()).get(&target.path_name()).await {
            Ok(object) => Ok(object::json_of(object)),
            Err(error) => Err(action::error_text(&error)),
        }
    }

    /// Shows a toast.
    pub(crate) async fn toast(&self, toast: Toast) {
        self.send(Message::Toast(toast)).await;
    }

    /// Sends a message to the model; it is dropped if the console has ended.
    pub async fn send(&self, message: Message) {
        let _ = self.messages.send(message).await;
    }

    /// Executes an action, records it in the journal and reports it; the response is also returned to the task. Drains
    /// use this for each eviction.
    pub async fn act(&self, action: Action) -> Result<serde_json::Value, kube::Error> {
        let result = action::execute(&self.client, &action.mutation).await;
        self.send(Message::ActionEnded(Box::new(Outcome::of(action, &result)))).await;
        result
    }

    /// Runs work that does not end with this task. Before the console ends, it waits for such work for a limited time.
    pub fn spawn_detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.detached.spawn(Box::pin(work));
    }

    /// Resolves when detached work should finish.
    pub fn ending(&self) -> impl Future<Output = ()> + Send + 'static {
        self.detached.ending()
    }

    /// Records an action that the task executed itself.
    pub async fn record<T>(&self, action: Action, result: &Result<T, kube::Error>) {
        let error = result.as_ref().err().map(action::error_text);
        let outcome = Outcome { action, error, after: None };
        self.send(Message::ActionEnded(Box::new(outcome))).await;
    }
}

/// Runs tasks and ends them with their screens.
pub struct Runner {
    client: Client,
    messages: mpsc::Sender<Message>,
    diagnose: Option<Arc<dyn Diagnostics>>,
    running: HashMap<ScreenId, HashMap<&'static str, AbortHandle>>,
    actions: base::task::JoinSet<()>,
    /// Programs of plugins; they end with the runner.
    programs: base::task::JoinSet<()>,
    lasting: DetachedTasks,
}

impl Runner {
    /// Creates a runner with this client and this channel.
    pub fn new(client: Client, messages: mpsc::Sender<Message>) -> Self {
        let actions = base::task::JoinSet::new();
        let programs = base::task::JoinSet::new();
        let lasting = DetachedTasks::default();
        Self { client, messages, diagnose: None, running: HashMap::new(), actions, programs, lasting }
    }

    /// Sets the connection diagnostics for the tasks.
    #[must_use]
    pub fn diagnosing(mut self, diagnose: Option<Arc<dyn Diagnostics>>) -> Self {
        self.diagnose = diagnose;
        self
    }

    /// Starts a task.
    pub fn start(&mut self, task: Task) {
        let mut outbox = Outbox::new(self.client.clone(), self.messages.clone(), task.screen);
        outbox.diagnose.clone_from(&self.diagnose);
        outbox.detached.clone_from(&self.lasting);
        let handle = base::task::start((task.run)(outbox)).abort_handle();
        if let Some(old) = self.running.entry(task.screen).or_default().insert(task.slot, handle) {
            old.abort();
        }
    }

    /// Executes an action independently of the requesting screen, so that closing the screen does not cancel it.
    pub fn act(&mut self, action: Action) {
        while self.actions.try_join_next().is_some() {}
        let outbox =
            Outbox::new(self.client.clone(), self.messages.clone(), ScreenId::new(0, ClusterId::HOME));
        self.actions.spawn(async move {
            // The result is in the message that `act` sends.
            let _ = outbox.act(action).await;
        });
    }

    /// Runs a program in the background; its end is reported.
    pub fn run(&mut self, run: PluginRun) {
        while self.programs.try_join_next().is_some() {}
        self.programs.spawn(program::run(run, self.messages.clone()));
    }

    /// Reports whether an action or a program is in progress.
    pub fn is_busy(&mut self) -> bool {
        while self.actions.try_join_next().is_some() {}
        while self.programs.try_join_next().is_some() {}
        !self.actions.is_empty() || !self.programs.is_empty() || !self.lasting.is_empty()
    }

    /// Requests that detached work finishes, which removes the objects that were created for screens, open or not.
    pub fn end_detached_tasks(&self) {
        self.lasting.end();
    }

    /// Ends every task of all screens, and requests that detached work finishes ([`Self::end_detached_tasks`]).
    pub fn end_tasks(&mut self) {
        self.running.drain().flat_map(|(_, slots)| slots.into_values()).for_each(|task| task.abort());
        self.lasting.end();
    }

    /// Waits until one action in progress ends. If none is left, waits for detached work, which [`Self::end_tasks`] has
    /// requested to finish, and returns `None`.
    pub async fn next_action(&mut self) -> Option<()> {
        let next = self.actions.join_next().await.map(drop);
        if next.is_none() {
            self.lasting.wait_until_done().await;
        }
        next
    }

    /// Ends one task of a screen.
    pub fn cancel(&mut self, screen: ScreenId, slot: &'static str) {
        if let Some(task) = self.running.get_mut(&screen).and_then(|slots| slots.remove(slot)) {
            task.abort();
        }
    }

    /// Ends every task of a closed screen.
    pub fn close(&mut self, screen: ScreenId) {
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
