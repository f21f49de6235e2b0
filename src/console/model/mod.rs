//! The state of the console, and its update by messages. I/O is returned as jobs; the only files that the model reads
//! itself are themes, so that changes to a theme appear at once.

#[cfg(test)]
mod access_tests;
mod cluster_identity;
pub(crate) mod clusters;
#[cfg(test)]
mod columns_tests;
mod commands;
#[cfg(test)]
mod concurrent_change_tests;
#[cfg(test)]
mod contexts_tests;
#[cfg(test)]
mod describe_tests;
mod drafts;
#[cfg(test)]
mod drafts_tests;
#[cfg(test)]
mod drills_tests;
#[cfg(test)]
mod dumps_tests;
#[cfg(test)]
mod empty_lists_tests;
#[cfg(test)]
mod explain_tests;
#[cfg(test)]
mod extensions_tests;
#[cfg(test)]
mod images_tests;
mod input;
mod job;
mod joining;
#[cfg(test)]
mod kubectl_habits_tests;
#[cfg(test)]
mod logs_tests;
#[cfg(test)]
mod marks_tests;
mod messages;
#[cfg(test)]
mod narrow_terminal_tests;
#[cfg(test)]
mod outage_tests;
pub(crate) mod palette;
#[cfg(test)]
mod panic_tests;
#[cfg(test)]
mod project_tests;
mod restore;
#[cfg(test)]
mod restore_tests;
mod saved_views;
#[cfg(test)]
mod saved_views_tests;
#[cfg(test)]
mod scale_tests;
mod setup;
mod shared;
#[cfg(test)]
mod size_tests;
pub(crate) mod split;
#[cfg(test)]
mod split_tests;
mod stack;
pub(crate) mod tabs;
#[cfg(test)]
mod tabs_tests;
#[cfg(test)]
mod terminal_tests;
mod tour;
#[cfg(test)]
mod tour_tests;
#[cfg(test)]
mod typed_text_tests;
mod user_keys;
#[cfg(test)]
mod verbs_tests;
mod watches;
#[cfg(test)]
mod workloads_tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use jiff::Timestamp;

use super::tour::Tour;
use base::sort::SliceOrder;
use console_data::builtin_kinds;
use console_data::clusters::{Cluster, ConnectionState};
use console_data::context::ScreenId;
use console_data::contexts::{ContextEntry, Identity};
use console_data::drafts::DraftKey;
use console_data::extensions::Extensions;
use console_data::links::Links;
use console_data::message::ScreenMessage;
use console_data::resource::{ClusterId, ResourceKey, Uid};
use console_data::scope::Scope;
use console_data::server_table::Include;
use console_data::sort_memory::SortMemory;
use console_operations::effect::Dialog;
use console_screens::{Screen, overview::Overview};
use console_toolkit::command::{CommandImpact, Entry, KeyContext};
use console_toolkit::prompt::Prompt;
use console_toolkit::theme::library;
use console_toolkit::theme::{Theme, ThemeError};
use console_toolkit::toast::{Toast, Toasts};

pub use job::{DiskJob, Job};
pub use setup::Setup;
pub use shared::SharedModel;

/// The state of the console.
#[derive(Debug)]
pub struct Model {
    /// The state that screens read.
    pub shared: SharedModel,
    /// The configuration at start.
    pub setup: Setup,
    /// The stack of screens; the last is on top. Never empty.
    pub screens: Vec<(ScreenId, Screen)>,
    /// The second pane, if the front tab is split.
    pub(crate) split: Option<split::SplitPane>,
    /// The tabs that are not in front.
    pub(crate) tabs: tabs::Tabs,
    /// The saved tabs of the last run.
    restore: restore::RestoreState,
    /// The fingerprint of the views and drains that were saved last.
    saved_fingerprint: Option<u64>,
    /// The user is leaving the console: saved tabs record that from now on.
    pub(crate) is_leaving: bool,
    /// Work in a hidden tab ended or opened a dialog, while the model's fields held that tab.
    needs_attention: bool,
    /// Closed screens with work that continues, or with a result.
    pub(crate) parked: Vec<(ScreenId, Screen)>,
    /// The open dialog and its screen.
    pub dialog: Option<(ScreenId, Box<Dialog>)>,
    /// The open prompt.
    pub(crate) prompt: Option<Prompt>,
    /// The toasts.
    pub toasts: Toasts,
    /// The header is shown.
    pub(crate) header: bool,
    /// The embedding program's message that it is stopping.
    pub(crate) stopping: Option<String>,
    /// The screen differs from the last frame.
    pub dirty: bool,
    settling: Option<input::DialogCooldown>,
    typing: input::TypingDetector,
    history: Vec<String>,
    history_at: usize,
    /// The command of the present view; `last_view` has that of the previous one.
    current_view: Option<String>,
    last_view: Option<String>,
    /// The command after `:` that opened a view last, and the view.
    opened_by: Option<(String, ScreenId)>,
    /// The resources watched for tables on the stack, with namespace and amount of data.
    watched: BTreeMap<ResourceKey, (Option<String>, Include)>,
    /// The uid of the cluster once known; `early_lines` has the journal lines that wait for it.
    cluster_uid: Option<Uid>,
    early_lines: String,
    /// The usage of pods is polled.
    measures_pods: bool,
    /// The tour, also while it is suspended.
    pub(crate) tour: Option<Tour>,
    /// The identity used on the cluster, for other programs.
    pub(crate) identity: Identity,
    /// The time of the last message: the reference for typed times.
    pub(crate) last_message_at: Timestamp,
    next_id: u64,
    /// The model's state of the clusters that are not in front.
    background_clusters: BTreeMap<ClusterId, clusters::BackgroundCluster>,
    /// The last number that was assigned to a joined cluster.
    next_cluster: u16,
    /// Dropped clusters that may still receive requests.
    dropped: Vec<ClusterId>,
    /// The built-in resources that are watched on the front cluster, if it is not the console's own.
    needs: BTreeSet<ResourceKey>,
    /// Dialogs that wait until the open one is answered.
    pub(super) asking: VecDeque<(ScreenId, Box<Dialog>)>,
    /// The contexts of the user's kubeconfig once read, or the error of reading it.
    pub(crate) contexts: Option<Result<Vec<ContextEntry>, String>>,
    /// A command that waits for the discovery of the clusters that it names.
    delayed_command: Option<(Vec<ClusterId>, String)>,
    /// The model has looked for node shell pods left by killed consoles.
    looked_for_leftovers: bool,
    /// The drill ends that were announced.
    announced: VecDeque<Uid>,
    /// The objects of the unsaved edits of earlier runs, oldest first.
    earlier_drafts: Vec<DraftKey>,
}

impl Model {
    /// Creates the model, and the jobs of its first screen.
    pub fn new(setup: Setup, now: Timestamp) -> (Self, Vec<Job>) {
        let favourites = match &setup.scope {
            Scope::One(name) if name != "default" => vec!["default".to_owned(), name.clone()],
            _ => vec!["default".to_owned()],
        };
        let mut model = Self {
            shared: SharedModel {
                front: ClusterId::HOME,
                cluster: Cluster {
                    name: setup.cluster.clone(),
                    origin: setup.origin.clone(),
                    connection: ConnectionState::Reached,
                    links: Links::new(builtin_kinds::resources()),
                    favourites,
                    ..Cluster::default()
                },
                away: BTreeMap::new(),
                cluster_styles: setup.cluster_styles.clone(),
                thresholds: setup.thresholds,
                node_shell: setup.node_shell.clone(),
                forks: setup.forks.clone(),
                project: setup.project.clone(),
                theme: setup.adapted(setup.theme.clone()),
                bindings: setup.bindings.clone(),
                extensions: Extensions::default(),
                sorts: SortMemory::default(),
                scope: setup.scope.clone(),
                read_only: setup.read_only,
                wake: Cell::new(None),
                cramped: Cell::new(false),
                tab_areas: RefCell::default(),
                anchors: RefCell::default(),
                other_pane_area: Cell::default(),
                undrawn: RefCell::default(),
            },
            setup,
            screens: vec![(ScreenId::new(1, ClusterId::HOME), Overview::default().into())],
            split: None,
            tabs: tabs::Tabs::default(),
            restore: restore::RestoreState::default(),
            saved_fingerprint: None,
            is_leaving: false,
            needs_attention: false,
            parked: Vec::new(),
            dialog: None,
            prompt: None,
            toasts: Toasts::default(),
            header: true,
            stopping: None,
            dirty: true,
            settling: None,
            typing: input::TypingDetector::default(),
            history: Vec::new(),
            history_at: 0,
            current_view: None,
            last_view: None,
            opened_by: None,
            watched: BTreeMap::new(),
            cluster_uid: None,
            early_lines: String::new(),
            measures_pods: false,
            tour: None,
            identity: Identity::default(),
            last_message_at: now,
            next_id: 1,
            background_clusters: BTreeMap::new(),
            next_cluster: 0,
            dropped: Vec::new(),
            needs: BTreeSet::new(),
            asking: VecDeque::new(),
            contexts: None,
            delayed_command: None,
            looked_for_leftovers: false,
            announced: VecDeque::new(),
            earlier_drafts: Vec::new(),
        };
        let jobs = model.deliver_to_top(now, ScreenMessage::Opened);
        (model, jobs)
    }

    /// Returns the screen on top.
    pub fn top(&self) -> &(ScreenId, Screen) {
        self.screens.last().expect("the stack is never empty")
    }

    /// Reports whether a visible screen has incremental work: it waits for [`console_data::message::Message::Work`].
    pub fn works(&self) -> bool {
        self.top().1.works() || self.other_top().is_some_and(|(_, screen)| screen.works())
    }

    /// Returns the key contexts in force.
    pub fn key_contexts(&self, now: Timestamp) -> Vec<KeyContext> {
        let (id, screen) = self.top();
        let cx = self.shared.context_of(*id, now);
        let mut contexts = screen.key_contexts(&cx);
        if self.tabs.count() > 1 {
            contexts.push(KeyContext::Tabs);
        }
        if self.split.is_some() {
            contexts.push(KeyContext::Panes);
        }
        if !screen.takes_all_keys() {
            contexts.push(KeyContext::Everywhere);
        }
        contexts
    }

    /// Returns screens with work in the background, and closed ones with a result: the last one first.
    pub fn background(&self, now: Timestamp) -> Vec<(ScreenId, &Screen)> {
        let works = |(id, screen): &&(ScreenId, Screen)| {
            screen.background(&self.shared.context_of(*id, now)).is_some()
        };
        let below = self.screens[..self.screens.len() - 1].iter();
        let other = self.split.iter().flat_map(|split| &split.other[..split.other.len() - 1]);
        let below = below.chain(other);
        let away = self.tabs.away().flat_map(tabs::Tab::screens);
        let all = below.chain(away).filter(works).chain(&self.parked);
        let mut all: Vec<_> = all.map(|(id, screen)| (*id, screen)).collect();
        all.order_by_key(|(id, _)| std::cmp::Reverse(*id));
        all
    }

    /// Reports whether a command of the top screen can work with the selection and in this mode.
    pub fn offers(&self, entry: &Entry, now: Timestamp) -> bool {
        let (id, screen) = self.top();
        let changes = entry.impact == CommandImpact::Cluster;
        !(changes && self.shared.read_only)
            && self.refusal_in_past(entry).is_none()
            && screen.refuses(&self.shared.context_of(*id, now), entry.command).is_none()
    }

    fn toast(&mut self, toast: Toast, now: Timestamp) {
        self.toasts.push(toast, now);
        self.dirty = true;
    }

    /// Applies the theme for the terminal's changed background.
    pub(crate) fn fit_theme(&mut self, name: &str, now: Timestamp) {
        self.use_theme(name, now);
        self.dirty = true;
    }

    /// Returns the available themes as their files are now.
    pub(crate) fn themes(&self) -> Vec<(String, Result<Theme, ThemeError>)> {
        let own = self.setup.config_dir.iter();
        let read = self.shared.extensions.directories();
        let dirs: Vec<PathBuf> = own
            .chain(read.iter().filter(|dir| Some(*dir) != self.setup.config_dir.as_ref()))
            .cloned()
            .collect();
        library::all(&dirs)
    }

    fn use_theme(&mut self, name: &str, now: Timestamp) {
        let themes = self.themes();
        match themes.into_iter().find(|(known, _)| known == name) {
            Some((_, Ok(theme))) => self.shared.theme = self.setup.adapted(theme),
            Some((_, Err(error))) => self.toast(Toast::failed(error.to_string()), now),
            None => self.toast(Toast::failed(format!("no theme {name:?}")), now),
        }
    }
}
