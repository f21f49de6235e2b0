//! Work that the model requests from the shell around it.

use std::path::PathBuf;

use crate::console_state::ConsoleState;
use console_data::action::Action;
use console_data::context::ScreenId;
use console_data::contexts::ConnectedCluster;
use console_data::drafts::{Draft, DraftKey};
use console_data::extensions::PluginRun;
use console_data::resource::{ClusterId, Kind, ResourceKey, Uid};
use console_data::saved_tabs::SavedTabs;
use console_data::server_table::Include;
use console_operations::effect::Task;

/// A job for what is saved of a cluster: its journal, tabs and drafts.
#[derive(Debug)]
pub enum DiskJob {
    /// Reads the journal of earlier runs; it arrives as a message of this cluster.
    ReadJournal(ClusterId),
    /// Appends lines to the journal.
    AppendJournal(String),
    /// Reads the tabs of earlier runs, unless another running console has them open; the result arrives as a message.
    ReadTabs,
    /// Writes the tabs, unless another running console has them open.
    SaveTabs(SavedTabs),
    /// Reports the drafts of earlier runs, if there are any.
    ListDrafts,
    /// Reads the draft of an object; if there is one, it arrives as a message for the screen.
    ReadDraft(ScreenId, DraftKey),
    /// Writes the draft of an object.
    SaveDraft(Box<Draft>),
    /// Removes the draft of an object.
    RemoveDraft(DraftKey),
}

/// A job for the shell.
#[derive(Debug)]
pub enum Job {
    /// Starts a task.
    Start(Task),
    /// Ends a task of a screen.
    Cancel(ScreenId, &'static str),
    /// Ends all tasks of a closed screen.
    Close(ScreenId),
    /// Changes the cluster.
    Act(Box<Action>),
    /// Runs a program in the background.
    Run(Box<PluginRun>),
    /// Copies to the clipboard.
    Copy(String),
    /// Writes a file.
    Save(String, String),
    /// Runs `$EDITOR` on a text for a screen.
    Editor(ScreenId, String),
    /// Runs `$EDITOR` on a file for a screen.
    EditFile(ScreenId, PathBuf),
    /// Saves state for the next run.
    SaveState(ConsoleState),
    /// Reads or writes what is saved of the cluster with this uid.
    Disk(Uid, DiskJob),
    /// Watches a resource as the server's Table, in one namespace or in all.
    Watch(Kind, Option<String>, Include),
    /// Starts or stops polling the usage of pods.
    MeasurePods(bool),
    /// Stops watching a resource that no table shows any more.
    Unwatch(ResourceKey),
    /// Reads the user's contexts for a screen.
    ListContexts(ScreenId),
    /// Reads the user's contexts for completion.
    ReadContexts,
    /// A job of another cluster than the front one.
    On(ClusterId, Box<Job>),
    /// Joins the cluster of this context, and retries until it answers; `None` is the cluster that the console was
    /// started on.
    Join(Option<String>),
    /// Attaches a client after the cluster answered, so that its jobs can run.
    Attach(Box<ConnectedCluster>),
    /// Starts watching a built-in resource of that cluster.
    Need(ResourceKey),
    /// Releases a cluster that is no longer shown.
    Release,
    /// Connects to the cluster of a context; `None` is the one that the console was started on.
    Connect(Option<String>),
    /// Switches to another cluster.
    SwitchCluster(Box<ConnectedCluster>),
    /// Redraws everything and repeats discovery.
    Redraw,
    /// Ends the console.
    Quit,
}
