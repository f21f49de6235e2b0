//! Everything that can happen to the console: one closed enum, and what of it a screen receives.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use crossterm::event::{KeyEvent, MouseEvent};
use jiff::Timestamp;

use super::action::Outcome;
use super::catalogue::Catalogue;
use super::command::Command;
use super::context::ScreenId;
use super::contexts::{Connected, ContextEntry, Identity};
use super::drafts::{Draft, DraftKey};
use super::extensions::Extensions;
use super::journal::Entry;
use super::kept_tabs::{KeptTabs, KeptView, Since};
use super::links::Link;
use super::moment::Go;
use super::resource::{ClusterId, ResourceKey};
use super::store::{Delta, PodsUsed, Touched, Used};
use super::toast::Toast;

/// What the loop feeds to `Model::update`.
#[derive(Debug)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// Text was pasted (bracketed paste).
    Paste(String),
    /// The terminal has a new size.
    Resize(u16, u16),
    /// A watcher saw changes.
    Feed(Delta),
    /// The connection to the cluster came or went.
    Link(Link),
    /// What each node really uses; none where nobody measures it.
    Usage(Option<HashMap<String, Used>>),
    /// What each pod really uses; none where nobody measures it.
    PodUsage(Option<PodsUsed>),
    /// Discovery answered.
    Catalogue(Catalogue),
    /// A task of a screen has something for it. Dropped when the screen is gone.
    Data(ScreenId, Data),
    /// A task of a screen has something for the dialog that it was started with. Dropped when the dialog is closed.
    DialogData(ScreenId, Data),
    /// An action ended.
    Acted(Box<Outcome>),
    /// What earlier runs changed in this cluster, oldest first.
    Journal(Vec<Entry>),
    /// Whom the cluster is asked as, for other programs.
    Identity(Box<Identity>),
    /// What the user's files hold now.
    Extensions(Extensions),
    /// The tabs that an earlier run left of this cluster.
    KeptTabs(KeptTabs),
    /// What was typed for the object of that screen and not saved.
    Draft(ScreenId, Box<Draft>),
    /// What was typed in earlier runs and not saved, oldest first: for which objects, and when.
    Drafts(Vec<(DraftKey, Timestamp)>),
    /// What became of the object of a view that came back, and that view.
    KeptObject(ScreenId, Box<(KeptView, Since)>),
    /// The cluster of another context answers: it is looked at from now on.
    Connected(Box<Connected>),
    /// The same of another cluster than the one that the console is on.
    On(ClusterId, Box<Message>),
    /// A cluster that is to be looked at beside the others answers; and whom it is asked as.
    Joined(Box<(Connected, Identity)>),
    /// It does not, or its context is not in the kubeconfig.
    Unreachable {
        /// Why.
        why: String,
        /// When it is asked again.
        retry_at: Timestamp,
    },
    /// The contexts of the user's kubeconfig as they are now; or why they cannot be read.
    Contexts(Result<Vec<ContextEntry>, String>),
    /// Something to tell.
    Toast(Toast),
    /// The caller is stopping the cluster: shown in a banner until the console is ended.
    Stopping(String),
    /// Time passed that changes what is drawn.
    Tick,
    /// Nothing else is waiting: a screen that works step by step (see `View::works`) goes on.
    Work,
}

/// What a screen receives.
#[derive(Debug)]
pub(crate) enum ScreenMessage {
    /// It was just pushed on the stack: the place to start its tasks.
    Opened,
    /// It is on top again after another screen was left.
    Shown,
    /// A key that means this command in the screen's contexts.
    Command(Command),
    /// A key that means no command here; every key when the screen takes all keys.
    Key(KeyEvent),
    /// Pasted text.
    Paste(String),
    /// The mouse, in screen coordinates.
    Mouse(MouseEvent),
    /// Objects changed. Only the top screen receives it; `Shown` makes up for what was missed. The first screen receives
    /// changes of events, too, of which there are too many to make up for.
    Changed(ResourceKey, Touched),
    /// The same of one of the clusters that a table is over.
    ChangedIn(ClusterId, ResourceKey, Touched),
    /// The next step of its own work.
    Work,
    /// The namespace scope changed.
    Scoped,
    /// The user's columns may be others.
    Extended,
    /// It is to be looked at as it was at another moment, or as it is now. Only screens with the keys of time travel
    /// receive it.
    Travel(Go),
    /// What one of its tasks sent.
    Data(Data),
}

/// An editor was left that a screen had opened on a file: what is in it may be another, or none.
#[derive(Debug)]
pub(crate) struct FileEdited(pub(crate) PathBuf);

/// What a task of a screen sends it; only the screen knows what that is.
pub struct Data(Box<dyn Any + Send>);

impl Data {
    /// Something for a screen.
    pub fn new<T: Any + Send>(data: T) -> Self {
        Self(Box::new(data))
    }

    /// What it is, where it is of this type, without taking it.
    pub(crate) fn peek<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// What it is, where it is of this type.
    pub fn take<T: Any>(self) -> Option<T> {
        let data = self.0.downcast::<T>().ok();
        debug_assert!(data.is_some(), "a screen hears only what its own tasks send");
        data.map(|data| *data)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").finish_non_exhaustive()
    }
}
