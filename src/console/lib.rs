//! The console: a terminal program that controls any Kubernetes cluster through its API alone (CON-14).
//!
//! One Elm loop. [`model::Model::update`] takes a [`message::Message`] and returns jobs, [`view::draw`] draws the
//! model; only [`effect`] (tasks), [`feed`] (watchers) and [`terminal`] do I/O.
//!
//! ```text
//!  terminal input ─┐                        ┌─► effect::Runner ── tasks ──┐
//!  feed (watch) ───┼─► Message ─► Model ────┤                             │
//!  tasks ──────────┘      ▲       │         └─► dirty? ─► view::draw      │
//!                         └───────┴───────────────────────────────────────┘
//! ```
//!
//! The modules from the bottom up; the modules in a row use only modules in the rows above:
//!
//! | modules | content |
//! |---|---|
//! | [`jq`], [`desktop_notification`], [`scope`], [`pod_status`], [`thresholds`], [`node_shell`], [`forks`] | basics for drawing and input |
//! | [`resource`], [`builtin_kinds`], [`workloads`], [`server_table`], [`catalogue`], [`links`], [`store`] | the cluster as reported by discovery and watches: objects of any kind, by group, version and plural name |
//! | [`extensions`] | the user's files in k9s' formats |
//! | [`changes`], [`action`], [`journal`] | changes of the cluster as data, and their undo |
//! | [`clusters`] | the clusters that are shown at the same time, each with its own stores, kinds, links and journal |
//! | [`context`], [`container_state`], [`rows`], [`list`], [`kind_view`], [`command_availability`], [`index`], [`query`], [`sort_memory`] | the state that screens may read; rows of tables; the operations that the server offers for a kind |
//! | [`access`] | permissions: the user's own, and the subjects to which RBAC grants one |
//! | [`diagnostics`] | interface to the program that embeds the console |
//! | [`cluster_file`], [`drafts`] | files saved for each cluster; among them unsaved editor texts |
//! | [`point_in_time`], [`past`] | earlier states of the cluster: their names, and requests for them |
//! | [`dialog`], [`message`], [`effect`] | dialogs, events, requested work; a [`effect::Route`] names a screen without depending on it |
//! | [`contexts`], [`saved_tabs`] | the user's other clusters; the tabs of the last run |
//! | [`disk_writer`], `reload` | writing of the journal and the tabs to disk; detection of changes in the user's files |
//! | [`feed`], [`operations`], [`related`], [`navigate`] | watchers; operations on objects, with their dialogs; navigation from object to object |
//! | [`pane`], [`transfer`] | a terminal within the terminal; copies out of and into containers |
//! | [`tour`] | the tour for newcomers, and its progress |
//! | [`screen`] | one module per screen, none of which uses another |
//! | [`joined_clusters`], [`model`], [`view`], [`linear`], [`recording`], `display`, `shell` | the application: drawing, linear mode, and recording of sessions |
//!
//! Writing a screen (`screen/NAME/`):
//! - It is a struct that implements [`screen::View`] and is a variant of [`screen::Screen`]. It is created by `new(…)`,
//!   without I/O, and starts its tasks on [`message::ScreenMessage::Opened`].
//! - `update(&mut self, cx, message) -> Vec<Effect>`: keys arrive as [`console_toolkit::command::Command`]s of the
//!   contexts the screen names in `key_contexts`; all else as `Key`. `Effect::task("slot", |out| async move {…})` runs
//!   a future with an [`effect::Outbox`]: `out.client()`, `out.data(…).await` (arrives as `ScreenMessage::Data`),
//!   `out.act(action).await` (changes the cluster, adds the change to the journal, and shows a toast). A task ends with
//!   its screen, with `Effect::Cancel("slot")`, or when another takes its slot.
//! - It opens another screen by [`effect::Route`].
//! - It belongs to one cluster: `cx` is of that cluster, and its requests go there ([`context::ScreenId`]). Only a
//!   table may cover several; it states the cluster of each row ([`effect::Effect::InCluster`]).
//! - `view(&self, cx, frame, area)`: reads `cx.stores`, `cx.theme`, `cx.now`. Ages through `cx.age(ts)` and countdowns
//!   with `cx.redraw_at(ts)` make the loop draw again when the text changes; nothing else makes it draw while the
//!   console is idle.
//! - `selected`: the object under the cursor, if any; a second pane follows it. Commands on an object end in
//!   `screen::object_commands`, in every screen.
//! - A list moves by [`console_toolkit::widget::cursor`], a text by [`console_toolkit::widget::scroll`]: a page is the
//!   visible height.
//! - `refuses`: the reason why a command cannot work now; a refused command is not offered ([`command_availability`]).
//! - A selection is a uid. Text of the server goes through [`console_toolkit::text::clean`].
//! - Work that should outlive the screen's place on the stack is declared in `background`.
//! - A change of the cluster is an [`action::Action`] in `Effect::Act`, never a call of the client.
//!
//! A kind needs nothing here: the server's Table lists it, and discovery reports its operations. A kind that deserves
//! more gets a [`kind_view::KindView`].
//!
//! Below it are crates that each use only those above them:
//!
//! | crate | content |
//! |---|---|
//! | [`console_toolkit`] | text, keys, the table of commands, themes and widgets; knows no cluster |
//!
//! Architecture invariant: of all other crates, the console and these use only `object`, `manifest` and `base`. It
//! knows nothing of the control plane it may share a process with, except through the API.

pub(crate) mod access;
pub mod action;
pub mod builtin_kinds;
pub(crate) mod capacity;
pub mod catalogue;
pub mod changes;
pub(crate) mod cluster_file;
pub(crate) mod clusters;
pub(crate) mod command_availability;
pub(crate) mod config;
pub mod console_state;
pub(crate) mod container;
pub(crate) mod container_state;
pub mod context;
pub mod contexts;
pub mod decoded;
pub(crate) mod desktop_notification;
pub mod diagnostics;
pub(crate) mod dialog;
pub(crate) mod disk_writer;
mod display;
pub mod drafts;
pub mod effect;
pub mod extensions;
pub mod feed;
pub mod forks;
pub(crate) mod index;
pub mod joined_clusters;
pub mod journal;
pub(crate) mod jq;
pub(crate) mod kind_view;
pub mod linear;
pub mod links;
pub(crate) mod list;
pub mod message;
pub mod model;
pub(crate) mod navigate;
pub mod node_shell;
pub mod operations;
pub mod pane;
pub mod past;
pub(crate) mod pod_status;
pub mod point_in_time;
pub(crate) mod query;
pub(crate) mod read_only;
pub mod recording;
pub(crate) mod related;
mod reload;
pub mod resource;
pub(crate) mod rows;
pub mod saved_tabs;
pub mod scope;
pub mod screen;
pub(crate) mod screen_dumps;
pub mod server_table;
mod shell;
pub(crate) mod sort_memory;
pub mod store;
pub(crate) mod template;
pub mod terminal;
pub mod thresholds;
pub(crate) mod tour;
pub(crate) mod transfer;
pub mod view;
pub(crate) mod workloads;

pub use shell::{ConsoleOptions, ExitReason, NoTerminalError, require_terminal, run};
