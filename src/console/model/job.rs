//! What the model cannot do by itself: jobs for the shell around it.

use std::path::PathBuf;

use crate::action::Action;
use crate::context::ScreenId;
use crate::contexts::Connected;
use crate::drafts::{Draft, DraftKey};
use crate::effect::Task;
use crate::extensions::Run;
use crate::kept_tabs::KeptTabs;
use crate::memory::Memory;
use crate::resource::{ClusterId, Kind, ResourceKey, Uid};
use crate::server_table::Include;

/// What the shell around the model has to do.
#[derive(Debug)]
pub enum Job {
    /// Start a task.
    Start(Task),
    /// End a task of a screen.
    Cancel(ScreenId, &'static str),
    /// End all tasks of a screen that is gone.
    Close(ScreenId),
    /// Change the cluster.
    Act(Box<Action>),
    /// Run a program out of sight.
    Run(Box<Run>),
    /// Copy to the clipboard.
    Copy(String),
    /// Write a file.
    Save(String, String),
    /// Run `$EDITOR` for a screen.
    Editor(ScreenId, String),
    /// Run `$EDITOR` on a file, for a screen.
    EditFile(ScreenId, PathBuf),
    /// Keep something for the next run.
    Remember(Memory),
    /// Read what earlier runs changed in this cluster.
    ReadJournal(Uid),
    /// Read the tabs that earlier runs left of this cluster.
    ReadTabs(Uid),
    /// Keep the tabs of this cluster.
    KeepTabs(Uid, KeptTabs),
    /// Tell which edits of earlier runs were not saved in this cluster.
    TellDrafts(Uid),
    /// Read what was typed for an object of this cluster and not saved, for a screen.
    ReadDraft(Uid, ScreenId, DraftKey),
    /// Keep what was typed for an object of this cluster.
    KeepDraft(Uid, Box<Draft>),
    /// Forget it.
    ForgetDraft(Uid, DraftKey),
    /// Keep lines of the journal of this cluster.
    KeepJournal(Uid, String),
    /// Watch a resource as the server's Table, in one namespace or in all.
    Watch(Kind, Option<String>, Include),
    /// Ask what pods use, as often as that is measured; or do not any more.
    MeasurePods(bool),
    /// Nothing shows that resource any more.
    Unwatch(ResourceKey),
    /// Read the user's contexts for a screen.
    ListContexts(ScreenId),
    /// Read the user's contexts for what is typed.
    ReadContexts,
    /// Of another cluster than the one that the console is on.
    On(ClusterId, Box<Job>),
    /// Ask the cluster of this context until it answers, to look at it beside the others; none is the one that the console
    /// was started on.
    Join(Option<String>),
    /// It has answered: what is asked for of it can be.
    Attach(Box<Connected>),
    /// Watch a resource of every Kubernetes there from now on.
    Need(ResourceKey),
    /// Nothing of that cluster is shown any more.
    Rest,
    /// Ask the cluster of a context for an answer; none is the one that the console was started on.
    Connect(Option<String>),
    /// Look at another cluster from now on.
    Adopt(Box<Connected>),
    /// Draw everything anew, discover anew.
    Redraw,
    /// The user wants to leave.
    Quit,
}
