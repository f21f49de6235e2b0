//! The console: a terminal program that controls any Kubernetes cluster through its API alone (CON-14).
//!
//! One Elm loop. [`model::Model::update`] takes a [`console_data::message::Message`] and returns jobs, [`view::draw`]
//! draws the model; only [`console_operations::effect`] (tasks), [`console_data::feed`] (watchers) and [`terminal`] do
//! I/O.
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
//! | [`desktop_notification`] | basics for drawing and input |
//! | [`disk_writer`], `reload` | writing of the journal and the tabs to disk; detection of changes in the user's files |
//! | [`tour`] | the tour for newcomers, and its progress |
//! | [`screen`] | one module per screen, none of which uses another |
//! | [`joined_clusters`], [`model`], [`view`], [`linear`], [`recording`], `display`, `shell` | the application: drawing, linear mode, and recording of sessions |
//!
//! Writing a screen (`screen/NAME/`):
//! - It is a struct that implements [`screen::View`] and is a variant of [`screen::Screen`]. It is created by `new(…)`,
//!   without I/O, and starts its tasks on [`console_data::message::ScreenMessage::Opened`].
//! - `update(&mut self, cx, message) -> Vec<Effect>`: keys arrive as [`console_toolkit::command::Command`]s of the
//!   contexts the screen names in `key_contexts`; all else as `Key`. `Effect::task("slot", |out| async move {…})` runs
//!   a future with an [`console_operations::effect::Outbox`]: `out.client()`, `out.data(…).await` (arrives as
//!   `ScreenMessage::Data`), `out.act(action).await` (changes the cluster, adds the change to the journal, and shows a
//!   toast). A task ends with its screen, with `Effect::Cancel("slot")`, or when another takes its slot.
//! - It opens another screen by [`console_operations::effect::Route`].
//! - It belongs to one cluster: `cx` is of that cluster, and its requests go there
//!   ([`console_data::context::ScreenId`]). Only a table may cover several; it states the cluster of each row
//!   ([`console_operations::effect::Effect::InCluster`]).
//! - `view(&self, cx, frame, area)`: reads `cx.stores`, `cx.theme`, `cx.now`. Ages through `cx.age(ts)` and countdowns
//!   with `cx.redraw_at(ts)` make the loop draw again when the text changes; nothing else makes it draw while the
//!   console is idle.
//! - `selected`: the object under the cursor, if any; a second pane follows it. Commands on an object end in
//!   `screen::object_commands`, in every screen.
//! - A list moves by [`console_toolkit::widget::cursor`], a text by [`console_toolkit::widget::scroll`]: a page is the
//!   visible height.
//! - `refuses`: the reason why a command cannot work now; a refused command is not offered
//!   ([`console_operations::command_availability`]).
//! - A selection is a uid. Text of the server goes through [`console_toolkit::text::clean`].
//! - Work that should outlive the screen's place on the stack is declared in `background`.
//! - A change of the cluster is an [`console_data::action::Action`] in `Effect::Act`, never a call of the client.
//!
//! A kind needs nothing here: the server's Table lists it, and discovery reports its operations. A kind that deserves
//! more gets a [`console_data::kind_view::KindView`].
//!
//! Below it are crates that each use only those above them:
//!
//! | crate | content |
//! |---|---|
//! | [`console_toolkit`] | text, keys, the table of commands, themes and widgets; knows no cluster |
//! | [`console_data`] | what the console knows: the cluster as reported by discovery and watches, the rows of tables, the journal, the past, the user's files; and the messages that bring it |
//! | [`console_operations`] | what the console does: effects, dialogs, operations on objects, drains, copies, terminals in containers |
//!
//! Architecture invariant: of all other crates, the console and these use only `object`, `manifest` and `base`. It
//! knows nothing of the control plane it may share a process with, except through the API.

pub(crate) mod config;
pub mod console_state;
pub(crate) mod desktop_notification;
pub(crate) mod disk_writer;
mod display;
pub mod joined_clusters;
pub mod linear;
pub mod model;
pub mod recording;
mod reload;
pub mod screen;
mod shell;
pub mod terminal;
pub(crate) mod tour;
pub mod view;

pub use shell::{ConsoleOptions, ExitReason, NoTerminalError, require_terminal, run};
