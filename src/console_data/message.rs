//! All events of the console: one closed enum, and the part of them that screens receive.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use crossterm::event::{KeyEvent, MouseEvent};
use jiff::Timestamp;

use super::action::Outcome;
use super::catalogue::Catalogue;
use super::context::ScreenId;
use super::contexts::{ConnectedCluster, ContextEntry, Identity};
use super::drafts::{Draft, DraftKey};
use super::extensions::Extensions;
use super::journal::Entry;
use super::links::Link;
use super::point_in_time::TimeTravel;
use super::resource::{ClusterId, ResourceKey};
use super::saved_tabs::{ObjectFate, SavedTabs, SavedView};
use super::store::{Delta, PodUsages, ResourceUsage, TouchedObjects};
use console_toolkit::command::Command;
use console_toolkit::toast::Toast;

/// The input of `Model::update`.
#[derive(Debug)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// A mouse event.
    Mouse(MouseEvent),
    /// Text was pasted (bracketed paste).
    Paste(String),
    /// The terminal has a new size.
    Resize(u16, u16),
    /// A watcher saw changes.
    Feed(Delta),
    /// A watch's connection to the cluster works again, failed, or was refused.
    Link(Link),
    /// The measured usage of each node; `None` if the cluster has no metrics.
    Usage(Option<HashMap<String, ResourceUsage>>),
    /// The measured usage of each pod; `None` if the cluster has no metrics.
    PodUsage(Option<PodUsages>),
    /// Discovery answered.
    Catalogue(Catalogue),
    /// A task of a screen sends it data. Dropped if the screen is closed.
    Data(ScreenId, Data),
    /// A task of a dialog sends it data. Dropped if the dialog is closed.
    DialogData(ScreenId, Data),
    /// An action ended.
    ActionEnded(Box<Outcome>),
    /// The journal of earlier runs for this cluster, oldest first.
    Journal(Vec<Entry>),
    /// The identity used on the cluster, for other programs.
    Identity(Box<Identity>),
    /// The content of the user's extension files.
    Extensions(Extensions),
    /// The tabs that an earlier run saved for this cluster.
    SavedTabs(SavedTabs),
    /// Another running console shows this cluster: the saved tabs are its own.
    TabsInUse,
    /// The draft for the object of that screen.
    Draft(ScreenId, Box<Draft>),
    /// The objects and times of drafts from earlier runs, oldest first.
    Drafts(Vec<(DraftKey, Timestamp)>),
    /// A restored view, and the result of looking up its object.
    SavedObject(ScreenId, Box<(SavedView, ObjectFate)>),
    /// The cluster of another context answered: the console switches to it.
    Connected(Box<ConnectedCluster>),
    /// A message from another cluster than the front one.
    On(ClusterId, Box<Message>),
    /// A cluster to join answered, with the identity used on it.
    Joined(Box<(ConnectedCluster, Identity)>),
    /// A cluster to join does not answer, or its context is not in the kubeconfig.
    Unreachable {
        /// The error.
        reason: String,
        /// The time of the next attempt.
        retry_at: Timestamp,
    },
    /// The contexts of the user's kubeconfig at present, or the error of reading it.
    Contexts(Result<Vec<ContextEntry>, String>),
    /// A toast to show.
    Toast(Toast),
    /// The embedding program is stopping the cluster: a banner shows this until the console ends.
    Stopping(String),
    /// Time passed, and the drawn content changes with it.
    Tick,
    /// No other message waits: a screen with incremental work (see `View::works`) continues.
    Work,
}

/// The input of a screen.
#[derive(Debug)]
pub enum ScreenMessage {
    /// The screen was pushed on the stack: it starts its tasks.
    Opened,
    /// The screen is on top again because the one above was closed.
    Shown,
    /// A key that the screen's key contexts map to this command.
    Command(Command),
    /// A key without a command; every key if the screen takes all keys.
    Key(KeyEvent),
    /// Pasted text.
    Paste(String),
    /// The mouse, in screen coordinates.
    Mouse(MouseEvent),
    /// Objects changed. Only visible screens receive this message; a covered screen catches up on `Shown`. The first
    /// screen receives changes of events even while it is covered, because events are too many to catch up with.
    Changed(ResourceKey, TouchedObjects),
    /// Objects of one of a table's clusters changed.
    ChangedIn(ClusterId, ResourceKey, TouchedObjects),
    /// The next step of its incremental work.
    Work,
    /// The namespace scope changed.
    ScopeChanged,
    /// The user's column definitions may have changed.
    ColumnsChanged,
    /// The user travels to another time, or back to the present. Only screens with the time travel keys receive it.
    Travel(TimeTravel),
    /// Data from one of its tasks.
    Data(Data),
}

/// The editor that a screen had opened on a file was closed: the file may have changed, or not exist.
#[derive(Debug)]
pub struct FileEdited(pub PathBuf);

/// Data from a task to its screen; only the screen knows the type.
pub struct Data(Box<dyn Any + Send>);

impl Data {
    /// Wraps data for a screen.
    pub fn new<T: Any + Send>(data: T) -> Self {
        Self(Box::new(data))
    }

    /// Returns a reference to the data if it is of this type.
    pub fn peek<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Returns the data if it is of this type.
    pub fn take<T: Any>(self) -> Option<T> {
        let data = self.0.downcast::<T>().ok();
        debug_assert!(data.is_some(), "a screen gets data only from its own tasks");
        data.map(|data| *data)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").finish_non_exhaustive()
    }
}
