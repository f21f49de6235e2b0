//! The effects that an update requests: navigation between screens, and the only I/O that screens have.
//!
//! A screen returns effects; the model executes those that change only the model, the [`Runner`] those with I/O. A task
//! is a future that sends messages back through an [`Outbox`]. It ends at the latest with the screen that started it.

mod detached_tasks;
mod program;
mod route;
mod run;

use std::fmt;
use std::path::PathBuf;

use futures::future::BoxFuture;

pub use route::{ConnectionRoute, FilesRoute, Route, RowScope, TableRoute, TerminalPurpose};
pub use route::{ContainerFilter, LogRun, LogStart, LogsRoute};
pub use route::{
    ForwardRequest, ImageContent, ImageScope, ImageTextRoute, ImageUse, PaneContent, SplitDirection,
};
pub use run::{Outbox, Runner};

use super::dialog;
use console_data::action::{Action, EntryId};
use console_data::context::ScreenId;
use console_data::drafts::{Draft, DraftKey};
use console_data::extensions::PluginRun;
use console_data::message::Data;
use console_data::point_in_time::TimeTravel;
use console_data::resource::{ClusterId, ObjectRef, ResourceKey};
use console_data::scope::Scope;
use console_data::sort_memory::SortOrder;
use console_toolkit::command::Command;
use console_toolkit::toast::Toast;

/// A dialog that produces effects.
pub type Dialog = dialog::Dialog<Effect>;

/// An effect that an update requests.
#[derive(Debug)]
pub enum Effect {
    /// Puts a screen on top of the stack.
    Open(Route),
    /// Opens a table over the clusters of these contexts.
    OpenMultiCluster(Vec<String>, Box<TableRoute>),
    /// Runs a `:` command once the discovery of these contexts' clusters has answered.
    AfterDiscovery(Vec<String>, String),
    /// Executes these effects on that cluster.
    InCluster(ClusterId, Vec<Effect>),
    /// Shows these dialogs one after the other, each for its own cluster.
    ShowDialogs(Vec<(ClusterId, Box<Dialog>)>),
    /// Closes the top screen.
    Back,
    /// Sends data to the requesting screen, as one of its tasks would.
    Send(Data),
    /// Shows a dialog over the screen.
    ShowDialog(Box<Dialog>),
    /// Shows a toast.
    Toast(Toast),
    /// Shows a toast unless the requesting screen is visible, which shows the same itself.
    BackgroundToast(Toast),
    /// Changes the namespaces in scope.
    Scope(Scope),
    /// Stores the sort order of a kind's tables.
    SaveSort(ResourceKey, SortOrder),
    /// Shows the top screen as of an earlier time, or live again.
    Travel(TimeTravel),
    /// Shows the user's contexts.
    ShowContexts,
    /// Reads the user's contexts for the requesting screen.
    ListContexts,
    /// Switches to the cluster of a context; `None` is the one that the console was started on.
    UseContext(Option<String>),
    /// As `UseContext`, after the user confirmed the end of background work.
    LeaveForContext(Option<String>),
    /// Brings a parked screen (see `background`) back on top.
    Resume(ScreenId),
    /// Opens a tab, with the view of this `:` command.
    NewTab(Option<String>),
    /// Opens the tabs of the last run.
    RestoreTabs,
    /// Splits the tab, or changes the arrangement of its panes and the view in the second.
    Split(SplitDirection, Option<PaneContent>),
    /// Switches to a tab by its index, from zero.
    GoToTab(usize),
    /// Starts a task.
    Task(Task),
    /// Ends the task that this screen has in the slot, if any.
    Cancel(&'static str),
    /// Changes the cluster: executed, recorded in the journal, and reported by a toast.
    Act(Box<Action>),
    /// Runs a plugin's program: recorded in the journal, in a pane or in the background.
    Run(Box<PluginRun>),
    /// Starts, suspends, resumes or ends the tour.
    Tour(TourCommand),
    /// Runs a plugin by its name on the selection.
    RunPlugin(String),
    /// Forwards a port of a pod, in the background.
    Forward(ForwardRequest),
    /// Shows the port-forwards.
    ShowForwards,
    /// Puts text on the clipboard of the user's terminal.
    Copy(String),
    /// Writes a file and reports its path.
    Save {
        /// File name, without directories.
        name: String,
        /// Its text.
        text: String,
    },
    /// Lends the terminal to `$EDITOR` on this text; the result is sent to the screen as text.
    Editor(String),
    /// Lends the terminal to `$EDITOR` on a user's file; at its end the screen receives
    /// [`console_data::message::FileEdited`].
    EditFile(PathBuf),
    /// Requests the draft of this object.
    ReadDraft(ObjectRef),
    /// Saves a draft.
    SaveDraft(Box<Draft>),
    /// Removes the draft of this object.
    RemoveDraft(DraftKey),
    /// Applies a theme; an unreadable theme gives an error toast.
    Theme(String),
    /// Applies a theme, and saves it for the next run.
    SaveTheme(String),
    /// Opens the prompt with this text, for commands that need an argument.
    Prompt(String),
    /// Runs the inverse of a journal entry.
    Undo(EntryId),
    /// Runs a command as if its key were pressed.
    Command(Command),
    /// Redraws everything and repeats discovery.
    Redraw,
    /// Ends the console.
    Quit,
}

/// A command of the tour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TourCommand {
    /// Starts, suspends or resumes it.
    Toggle,
    /// Ends it.
    Stop,
}

type RunTask = Box<dyn FnOnce(Outbox) -> BoxFuture<'static, ()> + Send>;

/// A future to run for a screen. A new task in the same slot of the same screen ends the old one.
pub struct Task {
    /// The screen that started it; set by the model.
    pub screen: ScreenId,
    slot: &'static str,
    run: RunTask,
}

impl Task {
    /// Returns its name among the tasks of its screen.
    pub fn slot(&self) -> &'static str {
        self.slot
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("screen", &self.screen).field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Effect {
    /// Creates a task of the screen that returns this effect.
    pub fn task<F, Fut>(slot: &'static str, run: F) -> Self
    where
        F: FnOnce(Outbox) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let run: RunTask = Box::new(move |outbox| Box::pin(run(outbox)));
        Self::Task(Task { screen: ScreenId::new(0, ClusterId::HOME), slot, run })
    }

    /// Creates the effect that opens a screen.
    pub fn open(route: impl Into<Route>) -> Self {
        Self::Open(route.into())
    }

    /// Creates the effect that sends data to the requesting screen.
    pub fn send<T: std::any::Any + Send>(data: T) -> Self {
        Self::Send(Data::new(data))
    }

    /// Creates the effect that shows a dialog over the screen.
    pub fn dialog(dialog: Dialog) -> Self {
        Self::ShowDialog(Box::new(dialog))
    }

    /// Creates a toast with information.
    pub fn info(text: impl Into<String>) -> Self {
        Self::Toast(Toast::info(text))
    }

    /// Creates a success toast.
    pub fn done(text: impl Into<String>) -> Self {
        Self::Toast(Toast::done(text))
    }

    /// Creates a failure toast.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Toast(Toast::failed(text))
    }
}
