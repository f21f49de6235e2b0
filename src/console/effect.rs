//! What an update asks for: moves between screens, and the only I/O there is.
//!
//! A screen returns effects; the model carries out those that change only the model, the runner (this
//! file's second half) those that reach the world. A task is a future that sends messages back through
//! an [`Outbox`]. It lives at most as long as the screen that asked for it.

use std::collections::HashMap;
use std::fmt;

use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::action::{self, Action, Outcome};
use super::dialog::Dialog;
use super::journal::EntryId;
use super::message::{Data, Message, ScreenId};
use super::resource::ObjectRef;
use super::screen::Screen;
use super::toast::Toast;

/// Which namespaces are shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All of them.
    All,
    /// One.
    One(String),
}

impl Scope {
    /// Whether an object of this namespace is shown; cluster-wide objects always are.
    pub fn holds(&self, namespace: Option<&str>) -> bool {
        match (self, namespace) {
            (Self::All, _) | (_, None) => true,
            (Self::One(own), Some(namespace)) => own == namespace,
        }
    }

    /// `all` or the name.
    pub fn label(&self) -> &str {
        match self {
            Self::All => "all",
            Self::One(name) => name,
        }
    }
}

/// What an update asks for.
#[derive(Debug)]
pub enum Effect {
    /// Puts a screen on top of the stack.
    Open(Box<Screen>),
    /// Leaves the top screen for the one below.
    Back,
    /// Shows a dialog over the screen.
    Ask(Box<Dialog>),
    /// Shows a toast.
    Toast(Toast),
    /// Shows a toast unless the screen that says so is being looked at, which shows the same itself.
    News(Toast),
    /// Shows other namespaces.
    Scope(Scope),
    /// Brings a parked screen (see `background`) back on top.
    Resume(ScreenId),
    /// Starts a task.
    Task(Task),
    /// Ends the task this screen has in the slot, if any.
    Cancel(&'static str),
    /// Changes the cluster: run, recorded in the journal, told in a toast.
    Act(Box<Action>),
    /// Puts text on the clipboard of the user's terminal.
    Copy(String),
    /// Writes a file and tells where it is.
    Save {
        /// File name, without directories.
        name: String,
        /// Its text.
        text: String,
    },
    /// Hands the terminal to `$EDITOR` on this text; what comes back is sent as `Data::Edit`.
    Editor(String),
    /// Takes the mouse (clicks select) or gives it back to the terminal (its own selection).
    Mouse(Capture),
    /// Uses a theme; the name of one that cannot be read is an error toast.
    Theme(String),
    /// Uses a theme, in the next run too.
    KeepTheme(String),
    /// Opens the prompt with this text, for commands that need a word more.
    Prompt(String),
    /// Does the inverse of a line of the journal.
    TakeBack(EntryId),
    /// Does a command as if its key were pressed.
    Command(super::command::Command),
    /// Draws everything anew and asks the server for its kinds again.
    Redraw,
    /// Leaves the console.
    Quit,
}

/// Who gets the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The console.
    Taken,
    /// The terminal.
    Released,
}

type Run = Box<dyn FnOnce(Outbox) -> BoxFuture<'static, ()> + Send>;

/// A future to run for a screen. A new task in the same slot of the same screen ends the old one.
pub struct Task {
    /// Set by the model to the screen that asked.
    pub(super) screen: ScreenId,
    slot: &'static str,
    run: Run,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("screen", &self.screen).field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Effect {
    /// A task of the screen that returns this effect.
    pub fn task<F, Fut>(slot: &'static str, run: F) -> Self
    where
        F: FnOnce(Outbox) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let run: Run = Box::new(move |outbox| Box::pin(run(outbox)));
        Self::Task(Task { screen: ScreenId(0), slot, run })
    }

    /// A toast that all went well.
    pub fn done(text: impl Into<String>) -> Self {
        Self::Toast(Toast::done(text))
    }

    /// A toast that something did not.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Toast(Toast::failed(text))
    }
}

/// How a task speaks: to its screen, to the user, and to the cluster.
#[derive(Clone)]
pub struct Outbox {
    client: Client,
    messages: mpsc::Sender<Message>,
    screen: ScreenId,
}

impl Outbox {
    /// A handle for one screen's tasks.
    pub fn new(client: Client, messages: mpsc::Sender<Message>, screen: ScreenId) -> Self {
        Self { client, messages, screen }
    }

    /// The cluster.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Sends the screen something; waits while the loop is behind, which is the back-pressure.
    pub async fn data(&self, data: Data) {
        // The loop ends before its tasks do; what they still say has no hearer.
        let _ = self.messages.send(Message::Data(self.screen, data)).await;
    }

    /// An object as the server has it now; what went wrong in its words.
    pub async fn fetch(&self, target: &ObjectRef) -> Result<serde_json::Value, String> {
        match target.api(self.client()).get(&target.name).await {
            Ok(object) => Ok(serde_json::to_value(object).unwrap_or_default()),
            Err(error) => Err(action::error_text(&error)),
        }
    }

    /// Sends any message.
    pub async fn send(&self, message: Message) {
        let _ = self.messages.send(message).await;
    }

    /// Shows a toast.
    pub async fn toast(&self, toast: Toast) {
        self.send(Message::Toast(toast)).await;
    }

    /// Carries an action out, records it in the journal and tells it; the answer comes back to the
    /// task too. Drains use this for each eviction.
    pub async fn act(&self, action: Action) -> Result<serde_json::Value, kube::Error> {
        let result = action::carry_out(&self.client, &action.mutation).await;
        self.send(Message::Acted(Box::new(Outcome::of(action, &result)))).await;
        result
    }

    /// Records an action that the task carried out by itself.
    pub async fn record<T>(&self, action: Action, result: &Result<T, kube::Error>) {
        let error = result.as_ref().err().map(action::error_text);
        let outcome = Outcome { action, error, after: None };
        self.send(Message::Acted(Box::new(outcome))).await;
    }
}

/// Runs tasks and ends them with their screens.
pub struct Runner {
    client: Client,
    messages: mpsc::Sender<Message>,
    running: HashMap<ScreenId, HashMap<&'static str, AbortHandle>>,
    actions: tokio::task::JoinSet<()>,
}

impl Runner {
    /// A runner that hands out this client and this channel.
    pub fn new(client: Client, messages: mpsc::Sender<Message>) -> Self {
        Self { client, messages, running: HashMap::new(), actions: tokio::task::JoinSet::new() }
    }

    /// Starts a task.
    pub fn start(&mut self, task: Task) {
        let outbox = Outbox::new(self.client.clone(), self.messages.clone(), task.screen);
        let handle = tokio::spawn((task.run)(outbox)).abort_handle();
        if let Some(old) = self.running.entry(task.screen).or_default().insert(task.slot, handle) {
            old.abort();
        }
    }

    /// Carries an action out on its own: it is not undone by leaving the screen that asked for it.
    pub fn act(&mut self, action: Action) {
        while self.actions.try_join_next().is_some() {}
        let outbox = Outbox::new(self.client.clone(), self.messages.clone(), ScreenId(0));
        self.actions.spawn(async move {
            // The result is in the message `act` sends.
            let _ = outbox.act(action).await;
        });
    }

    /// Ends one task of a screen.
    pub fn cancel(&mut self, screen: ScreenId, slot: &'static str) {
        if let Some(task) = self.running.get_mut(&screen).and_then(|slots| slots.remove(slot)) {
            task.abort();
        }
    }

    /// Ends every task of a screen that was left.
    pub fn close(&mut self, screen: ScreenId) {
        for task in self.running.remove(&screen).into_iter().flatten() {
            task.1.abort();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        for task in self.running.drain().flat_map(|(_, slots)| slots.into_values()) {
            task.abort();
        }
    }
}
