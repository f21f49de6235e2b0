//! What an update asks for: moves between screens, and the only I/O that screens have.
//!
//! A screen returns effects; the model carries out those that change only the model, the [`Runner`] those that
//! reach the world. A task is a future that sends messages back through an [`Outbox`]. It lives at most as long
//! as the screen that asked for it.

mod lasting;
mod program;
mod route;
mod run;

use std::fmt;
use std::path::PathBuf;

use futures::future::BoxFuture;

pub(crate) use route::{Connect, FilesRoute, LogRun, Only, Route, TableRoute, TerminalPurpose};
pub use route::{Forward, Shows, Way};
pub use run::{Outbox, Runner};

use super::action::{Action, EntryId};
use super::command::Command;
use super::context::ScreenId;
use super::dialog;
use super::drafts::Draft;
use super::extensions::Run;
use super::message::Data;
use super::moment::Go;
use super::resource::{ClusterId, ObjectRef, ResourceKey};
use super::scope::Scope;
use super::sort_memory::SortOrder;
use super::toast::Toast;

/// A dialog whose answer is effects.
pub(crate) type Dialog = dialog::Dialog<Effect>;

/// What an update asks for.
#[derive(Debug)]
pub enum Effect {
    /// Puts a screen on top of the stack.
    Open(Route),
    /// Opens a table over the clusters of these contexts.
    OpenOver(Vec<String>, Box<TableRoute>),
    /// What a text of the `:` prompt names, once the clusters of these contexts have told of their kinds.
    WhenKnown(Vec<String>, String),
    /// These, on that cluster.
    On(ClusterId, Vec<Effect>),
    /// Asks these questions one after the other, each of its own cluster.
    AskEach(Vec<(ClusterId, Box<Dialog>)>),
    /// Leaves the top screen for the one below.
    Back,
    /// Sends the screen that asked something, as one of its tasks would.
    Send(Data),
    /// Shows a dialog over the screen.
    ShowDialog(Box<Dialog>),
    /// Shows a toast.
    Toast(Toast),
    /// Shows a toast unless the screen that says so is being looked at, which shows the same itself.
    BackgroundToast(Toast),
    /// Shows other namespaces.
    Scope(Scope),
    /// Keeps what the tables of a kind are sorted by.
    KeepSort(ResourceKey, SortOrder),
    /// Looks at the top screen as it was at another moment, or as it is now.
    Travel(Go),
    /// Shows the user's contexts.
    ShowContexts,
    /// Reads them for the screen that asks.
    ListContexts,
    /// Goes to the cluster of a context; none is the one that the console was started on.
    UseContext(Option<String>),
    /// The same, after it was asked about what ends by that.
    LeaveForContext(Option<String>),
    /// Brings a parked screen (see `background`) back on top.
    Resume(ScreenId),
    /// Opens a tab, with the view that this text of the `:` prompt names.
    NewTab(Option<String>),
    /// Opens the tabs of the last run.
    RestoreTabs,
    /// Splits the tab, or lays its panes so; with what the second shows.
    Split(Way, Option<Shows>),
    /// Goes to a tab, counted from nought.
    GoToTab(usize),
    /// Starts a task.
    Task(Task),
    /// Ends the task this screen has in the slot, if any.
    Cancel(&'static str),
    /// Changes the cluster: run, recorded in the journal, reported by a toast.
    Act(Box<Action>),
    /// Runs a program of a plugin's: in the journal, and in a pane or out of sight.
    Run(Box<Run>),
    /// Begins the tour, leaves it, goes on or ends it.
    Tour(Touring),
    /// Runs a plugin by its name on what is selected.
    RunPlugin(String),
    /// Forwards a port of a pod, in the background.
    Forward(Forward),
    /// Shows the port-forwards.
    ShowForwards,
    /// Puts text on the clipboard of the user's terminal.
    Copy(String),
    /// Writes a file and tells where it is.
    Save {
        /// File name, without directories.
        name: String,
        /// Its text.
        text: String,
    },
    /// Hands the terminal to `$EDITOR` on this text; what comes back is sent to the screen as text.
    Editor(String),
    /// Hands the terminal to `$EDITOR` on a file of the user's; the screen hears of its end as [`super::message::FileEdited`].
    EditFile(PathBuf),
    /// Asks for what was typed for this object earlier and not saved.
    ReadDraft(ObjectRef),
    /// Keeps what was typed and is not saved yet.
    KeepDraft(Box<Draft>),
    /// Forgets what was typed for this object.
    ForgetDraft(ObjectRef),
    /// Uses a theme; the name of one that cannot be read is an error toast.
    Theme(String),
    /// Uses a theme, in the next run too.
    KeepTheme(String),
    /// Opens the prompt with this text, for commands that need a word more.
    Prompt(String),
    /// Does the inverse of a line of the journal.
    Undo(EntryId),
    /// Does a command as if its key were pressed.
    Command(Command),
    /// Draws everything anew and asks the server for its kinds again.
    Redraw,
    /// Leaves the console.
    Quit,
}

/// What `:tour` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touring {
    /// It begins, is left, or goes on.
    Toggle,
    /// It ends.
    Stop,
}

type RunTask = Box<dyn FnOnce(Outbox) -> BoxFuture<'static, ()> + Send>;

/// A future to run for a screen. A new task in the same slot of the same screen ends the old one.
pub struct Task {
    /// Set by the model to the screen that asked.
    pub(crate) screen: ScreenId,
    slot: &'static str,
    run: RunTask,
}

impl Task {
    /// What it is called among those of its screen.
    pub(crate) fn slot(&self) -> &'static str {
        self.slot
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("screen", &self.screen).field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Effect {
    /// A task of the screen that returns this effect.
    pub(crate) fn task<F, Fut>(slot: &'static str, run: F) -> Self
    where
        F: FnOnce(Outbox) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let run: RunTask = Box::new(move |outbox| Box::pin(run(outbox)));
        Self::Task(Task { screen: ScreenId::new(0, ClusterId::HOME), slot, run })
    }

    /// Opens a screen.
    pub(crate) fn open(route: impl Into<Route>) -> Self {
        Self::Open(route.into())
    }

    /// Sends the screen that asked something.
    pub(crate) fn send<T: std::any::Any + Send>(data: T) -> Self {
        Self::Send(Data::new(data))
    }

    /// A toast that all went well.
    pub(crate) fn done(text: impl Into<String>) -> Self {
        Self::Toast(Toast::done(text))
    }

    /// A toast that something did not.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Toast(Toast::failed(text))
    }
}
