//! The screens: a closed enum on a back stack. Each is a module with its state, update and view.
//!
//! Writing a screen (`src/console_screens/NAME/`):
//! - It is a struct that implements [`View`] and is a variant of [`Screen`]. It is created by `new(…)`, without I/O,
//!   and starts its tasks on [`console_data::message::ScreenMessage::Opened`].
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
//!   `object_commands`, in every screen.
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

pub(crate) mod access;
pub mod connection;
pub(crate) mod containers;
pub mod contexts;
pub mod controller;
pub mod describe;
pub mod drain;
pub mod drills;
pub mod dumps;
pub mod edit;
pub(crate) mod explain;
#[cfg(any(test, feature = "fixtures"))]
pub mod faulty_screen;
pub mod files;
pub mod forwards;
pub mod help;
pub mod images;
pub mod journal;
pub mod kinds;
pub mod logs;
pub mod object_commands;
pub mod overview;
pub mod pending;
pub mod rollout;
mod saved_view;
pub mod table;
pub mod terminal;
pub mod timeline;
pub(crate) mod topology;
pub mod transfer;
pub(crate) mod tree;
pub mod versions;
pub mod yaml;

use std::ops::{Deref, DerefMut};

use ratatui::Frame;
use ratatui::layout::Rect;

use console_data::context::Context;
use console_data::list::List;
use console_data::message::ScreenMessage;
use console_data::point_in_time::{PointInTime, WayBack};
use console_data::resource::{ClusterId, Kind, ObjectRef};
use console_operations::command_availability;
use console_operations::effect::{Effect, Route};
use console_toolkit::command::{Command, KeyContext};

/// The interface of a screen. `update` decides, `view` draws; neither does I/O.
pub trait View {
    /// Returns the breadcrumb in the header: `Pods`, `web-1 · logs`.
    fn title(&self, cx: &Context<'_>) -> String;

    /// Returns the contexts in which the screen's keys are looked up, the most specific first. `Everywhere` is added as
    /// the last context, unless the screen takes all keys.
    fn key_contexts(&self, cx: &Context<'_>) -> Vec<KeyContext>;

    /// Handles a message and returns the requested effects.
    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect>;

    /// Draws the screen.
    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect);

    /// Returns the reason why a command of the screen's key contexts does not apply to the current selection; `None` if
    /// the command applies. Refused commands are not offered either. By default, what the server cannot do with objects
    /// of the selection's kind is refused.
    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        let object = self.selected(cx)?;
        command_availability::refuses(cx.catalogue, &object.kind, command)
    }

    /// Returns whether keys are text input: only the commands of the screen's own contexts work, and every other key is
    /// text.
    fn takes_all_keys(&self) -> bool {
        false
    }

    /// Returns whether the screen draws over the header and the footer, too.
    fn full_screen(&self) -> bool {
        false
    }

    /// Returns whether the screen has work that is done step by step between other messages ([`ScreenMessage::Work`]).
    fn works(&self) -> bool {
        false
    }

    /// Returns a short line about work that continues when the screen is closed (`drain node-2 3/9`). While there is
    /// such a line, closing parks the screen with its tasks instead of dropping it.
    fn background(&self, _cx: &Context<'_>) -> Option<String> {
        None
    }

    /// Returns whether the screen shows the result of finished work: such a screen can be reopened after it was closed.
    fn has_a_result(&self, _cx: &Context<'_>) -> bool {
        false
    }

    /// Returns the point in the past that the screen shows; `None` for the present.
    fn moment(&self) -> Option<PointInTime> {
        None
    }

    /// Returns the target of Esc while the screen shows the past.
    fn back_target(&self) -> WayBack {
        WayBack::Now
    }

    /// Returns the rows of a screen that linear mode reads row by row; `None` if linear mode
    /// reads the screen as drawn.
    fn list(&self, _cx: &Context<'_>) -> Option<List> {
        None
    }

    /// Returns the line that the user is typing, if keys are text input.
    fn typed(&self) -> Option<String> {
        None
    }

    /// Returns the object under the cursor, if any; a linked pane shows it.
    fn selected(&self, _cx: &Context<'_>) -> Option<ObjectRef> {
        None
    }

    /// Returns the cluster of the object under the cursor in a table over several clusters; `None` for the screen's own
    /// cluster.
    fn cluster_of_selected(&self) -> Option<ClusterId> {
        None
    }

    /// Returns the variables of the selection for plugins and hotkeys, besides its kind and name: `COL-STATUS`,
    /// `CONTAINER`.
    fn variables(&self, _cx: &Context<'_>) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the current search or filter, as the initial text of the prompt; `None` if there is nothing to filter.
    fn query(&self) -> Option<&str> {
        None
    }

    /// Filters or searches; called for each key typed in the `/` prompt, which shows the error. An empty text ends the
    /// search.
    fn set_query(&mut self, _cx: &Context<'_>, query: &str) -> Result<(), String> {
        if query.is_empty() { Ok(()) } else { Err("nothing to filter here".to_owned()) }
    }
}

/// The part of the cluster that a screen shows live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveScope {
    /// Objects of this kind.
    Kind(Kind),
    /// Several kinds, or data that the screen requests itself.
    Cluster,
}

/// The position of toasts at the right edge of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToastArea {
    /// Below the header.
    Top,
    /// Above the footer.
    Bottom,
    /// Above this number of lines at the bottom of the screen.
    Above(u16),
    /// Below this number of lines at the top of the screen.
    Below(u16),
    /// At the top or at the bottom of the screen, on the side of this line that has more space: the line has the cursor.
    BesideLine(u16),
}

macro_rules! screens {
    ($( $(#[$meta:meta])* $name:ident($type:ty) ),* $(,)?) => {
        /// A screen on the stack.
        #[derive(Debug)]
        pub enum Screen {
            $( $(#[$meta])* $name($type), )*
        }

        impl Deref for Screen {
            type Target = dyn View;

            #[allow(unused_doc_comments, reason = "of a variant, beside what it is compiled for")]
            fn deref(&self) -> &Self::Target {
                match self { $( $(#[$meta])* Self::$name(screen) => screen, )* }
            }
        }

        impl DerefMut for Screen {
            #[allow(unused_doc_comments, reason = "of a variant, beside what it is compiled for")]
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self { $( $(#[$meta])* Self::$name(screen) => screen, )* }
            }
        }

        #[cfg(any(test, feature = "fixtures"))]
        impl Screen {
            /// The names of the variants.
            pub const NAMES: &[&str] = &[$( stringify!($name), )*];

            /// Returns the name of the screen's variant.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => stringify!($name), )* }
            }
        }

        $( $(#[$meta])* impl From<$type> for Screen {
            fn from(screen: $type) -> Self {
                Self::$name(screen)
            }
        } )*
    };
}

screens! {
    /// Health, phases, rollouts, nodes, events.
    Overview(overview::Overview),
    /// Objects of a kind.
    Table(table::Table),
    /// An object as YAML.
    Yaml(yaml::Yaml),
    /// An object in the editor.
    Edit(edit::Edit),
    /// Port-forwards.
    Forwards(forwards::Forwards),
    /// Directories with manifests.
    Files(files::Files),
    /// The saved files.
    Dumps(dumps::DumpsScreen),
    /// A saved file.
    DumpText(dumps::DumpText),
    /// The images of nodes.
    Images(images::Images),
    /// A text about an image.
    ImageText(images::ImageText),
    /// All keys.
    Help(help::Help),
    /// The journal of changes.
    Journal(journal::JournalScreen),
    /// The kinds of the server.
    Kinds(kinds::Kinds),
    /// The description of an object.
    Describe(describe::Describe),
    /// The containers of a pod.
    Containers(containers::Containers),
    /// Logs.
    Logs(logs::Logs),
    /// The rollout of a deployment.
    Rollout(rollout::Rollout),
    /// A drain.
    Drain(drain::Drain),
    /// The explanation of why an object is not ready.
    Explain(explain::Explain),
    /// The explanation of why a pod is pending.
    Pending(pending::PendingScreen),
    /// The diagnosis of a pod's connection to a destination.
    Connection(connection::Connection),
    /// A controller of the control plane.
    Controller(controller::Controller),
    /// Permission queries: the user's rules, one decision, the allowed subjects.
    Access(access::Access),
    /// The owner tree.
    Tree(tree::Tree),
    /// Zones, nodes and pods.
    Topology(topology::Topology),
    /// A copy out of or into a container.
    Transfer(transfer::Transfer),
    /// A terminal in a pod.
    Terminal(terminal::Terminal),
    /// The contexts of the user's kubeconfig.
    Contexts(contexts::Contexts),
    /// The versions of an object.
    Versions(versions::VersionsScreen),
    /// The timeline of an owner tree.
    Timeline(timeline::Timeline),
    /// The drills, and the one that is running.
    Drills(drills::Drills),
    /// A screen that panics.
    #[cfg(any(test, feature = "fixtures"))]
    Faulty(faulty_screen::FaultyScreen),
}

impl Screen {
    /// Reports whether both are the same view without parameters, so that one of them on top of the other would be
    /// useless.
    pub fn is_same_view(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Contexts(_), Self::Contexts(_))
                | (Self::Drills(_), Self::Drills(_))
                | (Self::Journal(_), Self::Journal(_))
                | (Self::Kinds(_), Self::Kinds(_))
        )
    }

    /// Returns the clusters of a table over several clusters; `None` for screens of a single cluster.
    pub fn over(&self) -> Option<&[ClusterId]> {
        match self {
            Self::Table(table) => table.over(),
            _ => None,
        }
    }

    /// Returns the part of the screen that becomes stale while the server does not respond; `None` for screens with
    /// text input or with content that does not change.
    pub fn follows(&self) -> Option<LiveScope> {
        match self {
            Self::Table(table) => Some(LiveScope::Kind(table.kind.clone())),
            Self::Overview(_)
            | Self::Yaml(_)
            | Self::Describe(_)
            | Self::Containers(_)
            | Self::Rollout(_)
            | Self::Drain(_)
            | Self::Pending(_)
            | Self::Connection(_)
            | Self::Controller(_)
            | Self::Access(_)
            | Self::Drills(_)
            | Self::Explain(_)
            | Self::Images(_)
            | Self::Timeline(_)
            | Self::Topology(_)
            | Self::Versions(_)
            | Self::Tree(_) => Some(LiveScope::Cluster),
            Self::Edit(_)
            | Self::Contexts(_)
            | Self::Files(_)
            | Self::Dumps(_)
            | Self::DumpText(_)
            | Self::Forwards(_)
            | Self::Help(_)
            | Self::ImageText(_)
            | Self::Journal(_)
            | Self::Kinds(_)
            | Self::Logs(_)
            | Self::Transfer(_)
            | Self::Terminal(_) => None,
            #[cfg(any(test, feature = "fixtures"))]
            Self::Faulty(_) => None,
        }
    }

    /// Returns the position where toasts may cover the screen for a moment.
    pub fn toast_area(&self) -> ToastArea {
        match self {
            // The user looks at the cursor.
            Self::Terminal(terminal) => terminal.cursor_line().map_or(ToastArea::Top, ToastArea::BesideLine),
            Self::Edit(edit) => edit.cursor_line().map_or(ToastArea::Top, ToastArea::BesideLine),
            // The last line is the newest one.
            Self::Logs(_) => ToastArea::Top,
            // Toasts cover the revisions, not the cockpit with its totals.
            Self::Rollout(rollout) => ToastArea::Below(rollout.head.get()),
            // Toasts go between the pods, which rarely fill the screen, and the options.
            Self::Drain(drain) => ToastArea::Above(drain.foot.get()),
            _ => ToastArea::Bottom,
        }
    }
}

impl From<Route> for Screen {
    fn from(route: Route) -> Self {
        match route {
            Route::Table(table) => table::Table::new(table).into(),
            Route::Describe(object) => describe::Describe::new(object).into(),
            Route::Yaml(object) => yaml::Yaml::new(object).into(),
            Route::YamlAt(object, moment) => yaml::Yaml::at(object, moment).into(),
            Route::DescribeAt(object, moment) => describe::Describe::at(object, moment).into(),
            Route::Versions(object) => versions::VersionsScreen::new(object).into(),
            Route::Timeline(object) => timeline::Timeline::new(object).into(),
            Route::Edit(object) => edit::Edit::new(object).into(),
            Route::Logs(route) => logs::Logs::new(route).into(),
            Route::Project => logs::Logs::of_project().into(),
            Route::Containers(pod) => containers::Containers::new(pod).into(),
            Route::Decoded(object) => yaml::Yaml::decoded(object).into(),
            Route::Tree(kind) => tree::Tree::new(kind).into(),
            Route::Files(route) => files::Files::new(route).into(),
            Route::Dumps(dir) => dumps::DumpsScreen::new(dir).into(),
            Route::Dump(path) => dumps::DumpText::new(path).into(),
            Route::Images(only) => images::Images::new(only).into(),
            Route::ImageText(route) => images::ImageText::new(route).into(),
            Route::Topology => topology::Topology::default().into(),
            Route::Rollout(object) => rollout::Rollout::new(object).into(),
            Route::RolloutAt(object, set) => rollout::Rollout::at(object, set).into(),
            Route::Drain(nodes) => drain::Drain::new(nodes).into(),
            Route::Explain(object) => explain::Explain::new(object).into(),
            Route::Pending(pod) => pending::PendingScreen::new(pod).into(),
            Route::Access(question) => access::Access::new(question).into(),
            Route::Controller(controller) => controller::Controller::new(controller).into(),
            Route::Connection(way) => connection::Connection::new(way).into(),
            Route::ContainerTerminal(pod, purpose, container) => {
                terminal::Terminal::in_container(pod, purpose, container).into()
            }
            Route::Transfer(pod, container) => transfer::Transfer::new(pod, container).into(),
            Route::Terminal(pod, purpose) => terminal::Terminal::new(pod, purpose).into(),
        }
    }
}
