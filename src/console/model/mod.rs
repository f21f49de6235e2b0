//! The state of the console, and what each message does to it. What must reach the world is returned as jobs;
//! the one thing it reads by itself are theme files, so that one that is being edited is seen.

#[cfg(test)]
mod access_tests;
pub(crate) mod clusters;
mod commands;
#[cfg(test)]
mod contained_tests;
#[cfg(test)]
mod contexts_tests;
mod drafts;
#[cfg(test)]
mod drafts_tests;
#[cfg(test)]
mod dumps_tests;
#[cfg(test)]
mod extensions_tests;
#[cfg(test)]
mod habits_tests;
mod input;
mod joining;
mod kept_views;
#[cfg(test)]
mod kept_views_tests;
#[cfg(test)]
mod overtaken_tests;
mod own_keys;
pub(crate) mod palette;
mod restore;
#[cfg(test)]
mod restore_tests;
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
mod tour_tests;
mod touring;
mod watches;
#[cfg(test)]
mod workloads_tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::action::Action;
use super::builtin;
use super::catalogue::Catalogue;
use super::clusters::{Cluster, Reach};
use super::command::{Bindings, Command, KeyContext, Touches};
use super::context::ScreenId;
use super::contexts::{Connected, ContextEntry, Identity};
use super::drafts::{Draft, DraftKey};
use super::effect::{Dialog, Task};
use super::extensions::{Extensions, Run};
use super::journal::Journal;
use super::kept_tabs::KeptTabs;
use super::links::Links;
use super::memory::Memory;
use super::message::{Message, ScreenMessage};
use super::node_shell::NodeShell;
use super::operations::node_shell::word_of_what_is_left;
use super::prompt::Prompt;
use super::resource::{ClusterId, Kind, ResourceKey, Uid};
use super::scope::Scope;
use super::screen::{Screen, View, overview::Overview};
use super::server_table::Include;
use super::store::{Applied, Stores, Touched, uid_of};
use super::text::clean;
use super::theme::depth::Depth;
use super::theme::library;
use super::theme::{Theme, ThemeError};
use super::thresholds::Thresholds;
use super::toast::{Toast, Toasts};
use super::tour::Tour;

/// Bytes of the journal that wait, where a server never says which cluster it is.
const EARLY: usize = 1 << 20;

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

/// What screens see of the model.
#[derive(Debug)]
pub struct Shared {
    /// The cluster whose state stands here; the others are in `away`.
    pub(crate) front: ClusterId,
    /// What the user calls it.
    pub(crate) name: String,
    /// How it is reached.
    pub(crate) origin: String,
    /// Whether it answers at all.
    pub(crate) reach: Reach,
    /// The clusters that are not in front.
    pub(crate) away: BTreeMap<ClusterId, Cluster>,
    /// Colours of clusters by their names, as the user has them.
    pub(crate) cluster_styles: Vec<(String, Style)>,
    /// From which shares CPU and memory are said to be used up.
    pub thresholds: Thresholds,
    /// What shells on nodes are.
    pub(crate) node_shell: NodeShell,
    /// The live copy of the cluster.
    pub(crate) stores: Stores,
    /// The theme in force.
    pub theme: Theme,
    /// The kinds of the server.
    pub(crate) catalogue: Catalogue,
    /// The keys.
    pub(crate) bindings: Bindings,
    /// What the user brings.
    pub(crate) extensions: Extensions,
    /// How fresh that copy is.
    pub links: Links,
    /// What was changed.
    pub journal: Journal,
    /// Which namespaces are shown.
    pub(crate) scope: Scope,
    /// Namespaces of the keys 1 to 9.
    pub(crate) favourites: Vec<String>,
    /// Whether changes are refused.
    pub(crate) read_only: bool,
    /// When what is drawn stops being true.
    pub wake: Cell<Option<Timestamp>>,
    /// Whether the window is too small to show anything.
    pub(crate) cramped: Cell<bool>,
    /// Where the tabs were drawn, for the mouse.
    pub(crate) tab_places: RefCell<Vec<Rect>>,
    /// Places that were drawn and lead somewhere, with their URLs.
    pub(crate) anchors: RefCell<Vec<(Rect, String)>>,
    /// Where the pane without the focus was drawn, likewise.
    pub(crate) other_place: Cell<Option<Rect>>,
    /// The screens that cannot be drawn, and what they said; the next key has them tried again.
    pub(crate) undrawn: RefCell<Vec<(ScreenId, String)>>,
}

/// How the console was set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cluster's name in the header.
    pub cluster: String,
    /// How we reach it: `in process`, a host.
    pub origin: String,
    /// The context of the kubeconfig that is looked at; none is the cluster that the console was started on.
    pub context: Option<String>,
    /// The name of that one, and how it is reached.
    pub home: (String, String),
    /// Colours of clusters by their names, as the user's `console.toml` has them: `*` stands for anything.
    pub cluster_styles: Vec<(String, Style)>,
    /// From which shares CPU and memory are said to be used up.
    pub thresholds: Thresholds,
    /// What shells on nodes are.
    pub node_shell: NodeShell,
    /// The theme to start with.
    pub theme: Theme,
    /// The theme the user's `console.toml` names.
    pub configured_theme: Option<String>,
    /// The colours the terminal has.
    pub depth: Depth,
    /// The user's configuration directory.
    pub config_dir: Option<PathBuf>,
    /// The keys.
    pub bindings: Bindings,
    /// Which namespaces to show first.
    pub scope: Scope,
    /// Whether changes are refused.
    pub read_only: bool,
    /// What leaving does, asked before it: empty when nothing is lost.
    pub quit_warning: String,
    /// Whether what changes is not made to flash.
    pub still: bool,
}

impl Setup {
    /// A theme as this terminal and this user have it.
    fn adapted(&self, theme: Theme) -> Theme {
        let theme = theme.in_depth(self.depth);
        if self.still { theme.without_flashes() } else { theme }
    }
}

/// The state of the console.
#[derive(Debug)]
pub struct Model {
    /// What screens see.
    pub shared: Shared,
    /// How it was set up.
    pub setup: Setup,
    /// The stack; the last is on top. Never empty.
    pub screens: Vec<(ScreenId, Screen)>,
    /// The other pane, where the tab in front is split.
    pub(crate) split: Option<split::Split>,
    /// The tabs that are not in front.
    pub(crate) tabs: tabs::Tabs,
    /// The tabs of the last run.
    restore: restore::Restore,
    /// Whether something in the tab in front ended before it was seen.
    calls: bool,
    /// Screens that were left while their work goes on.
    pub(crate) parked: Vec<(ScreenId, Screen)>,
    /// The open dialog and the screen that asked.
    pub dialog: Option<(ScreenId, Box<Dialog>)>,
    /// The open prompt.
    pub(crate) prompt: Option<Prompt>,
    /// The news.
    pub toasts: Toasts,
    /// Whether the header is shown.
    pub(crate) header: bool,
    /// The caller's words about stopping.
    pub(crate) stopping: Option<String>,
    /// Whether the screen differs from what was drawn.
    pub dirty: bool,
    settling: Option<input::Settling>,
    history: Vec<String>,
    history_at: usize,
    /// The commands that led to the view now shown, and to the one before.
    current_view: Option<String>,
    last_view: Option<String>,
    /// The resources that are watched for tables on the stack, in which namespace, and how much of their objects.
    watched: BTreeMap<ResourceKey, (Option<String>, Include)>,
    /// Which cluster this is, once that is known; and what is to be kept in its journal until then.
    cluster: Option<Uid>,
    early_lines: String,
    /// Whether it is asked what pods use.
    measures_pods: bool,
    /// The tour, also where it was left for now.
    pub(crate) tour: Option<Tour>,
    /// Whom the cluster is asked as, for other programs.
    pub(crate) identity: Identity,
    /// When the last message came: what `now` is for words that name a time.
    pub(crate) heard_at: Timestamp,
    next_id: u64,
    /// What is kept of the clusters that are not in front, the last number that one of them got, and what the one in front
    /// is asked for where it is not the console's own.
    behind: BTreeMap<ClusterId, clusters::Behind>,
    next_cluster: u16,
    /// Clusters that were forgotten, and may still be asked.
    left: Vec<ClusterId>,
    needs: BTreeSet<ResourceKey>,
    /// Questions that wait until the one that is open is answered.
    pub(super) asking: VecDeque<(ScreenId, Box<Dialog>)>,
    /// The contexts of the user's kubeconfig, once they are read; or why they cannot be.
    pub(crate) contexts: Option<Result<Vec<ContextEntry>, String>>,
    /// What was typed and waits until the clusters that it names have told of their kinds.
    waits: Option<(Vec<ClusterId>, String)>,
    /// Whether it was looked for what earlier consoles have left.
    looked_for_leftovers: bool,
}

impl Model {
    /// The model before the first message, and the jobs of its first screen.
    pub fn new(setup: Setup, now: Timestamp) -> (Self, Vec<Job>) {
        let favourites = match &setup.scope {
            Scope::One(name) if name != "default" => vec!["default".to_owned(), name.clone()],
            _ => vec!["default".to_owned()],
        };
        let mut model = Self {
            shared: Shared {
                front: ClusterId::HOME,
                name: setup.cluster.clone(),
                origin: setup.origin.clone(),
                reach: Reach::Reached,
                away: BTreeMap::new(),
                cluster_styles: setup.cluster_styles.clone(),
                thresholds: setup.thresholds,
                node_shell: setup.node_shell.clone(),
                stores: Stores::default(),
                theme: setup.adapted(setup.theme.clone()),
                catalogue: Catalogue::default(),
                bindings: setup.bindings.clone(),
                extensions: Extensions::default(),
                links: Links::new(builtin::resources()),
                journal: Journal::default(),
                scope: setup.scope.clone(),
                favourites,
                read_only: setup.read_only,
                wake: Cell::new(None),
                cramped: Cell::new(false),
                tab_places: RefCell::default(),
                anchors: RefCell::default(),
                other_place: Cell::default(),
                undrawn: RefCell::default(),
            },
            setup,
            screens: vec![(ScreenId::new(1, ClusterId::HOME), Overview::default().into())],
            split: None,
            tabs: tabs::Tabs::default(),
            restore: restore::Restore::default(),
            calls: false,
            parked: Vec::new(),
            dialog: None,
            prompt: None,
            toasts: Toasts::default(),
            header: true,
            stopping: None,
            dirty: true,
            settling: None,
            history: Vec::new(),
            history_at: 0,
            current_view: None,
            last_view: None,
            watched: BTreeMap::new(),
            cluster: None,
            early_lines: String::new(),
            measures_pods: false,
            tour: None,
            identity: Identity::default(),
            heard_at: now,
            next_id: 1,
            behind: BTreeMap::new(),
            next_cluster: 0,
            left: Vec::new(),
            needs: BTreeSet::new(),
            asking: VecDeque::new(),
            contexts: None,
            waits: None,
            looked_for_leftovers: false,
        };
        let jobs = model.deliver_to_top(now, ScreenMessage::Opened);
        (model, jobs)
    }

    /// The screen on top.
    pub fn top(&self) -> &(ScreenId, Screen) {
        self.screens.last().expect("the stack is never empty")
    }

    /// Whether a screen that is seen works step by step: it waits for [`Message::Work`].
    pub fn works(&self) -> bool {
        self.top().1.works() || self.other_top().is_some_and(|(_, screen)| screen.works())
    }

    /// The contexts keys are looked up in now.
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

    /// Screens out of sight that work, and those that were left and have a result: the last one first.
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
        all.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
        all
    }

    /// Whether a command of the top screen can work: on what is selected, and in this mode.
    pub fn offers(&self, command: Command, now: Timestamp) -> bool {
        let (id, screen) = self.top();
        let changes = command.entry().touches == Touches::Cluster;
        !(changes && self.shared.read_only)
            && self.refuses_in_the_past(command).is_none()
            && screen.refuses(&self.shared.context_of(*id, now), command).is_none()
    }

    /// Takes a message.
    pub fn update(&mut self, message: Message, now: Timestamp) -> Vec<Job> {
        self.heard_at = now;
        self.shared.stores.tidy();
        // To look for the selection at each of thousands of changes would cost more than they do; a moment later is soon
        // enough.
        let selects = match &message {
            Message::Feed(_) => false,
            Message::On(_, message) => !matches!(**message, Message::Feed(_)),
            _ => true,
        };
        let parked = self.parked.len();
        let mut jobs = self.take(message, now);
        self.look_at_the_tour();
        if selects {
            jobs.extend(self.follow_the_selection(now));
        }
        jobs.extend(self.watch_what_is_shown());
        jobs.extend(self.measure_what_is_shown());
        if selects {
            jobs.extend(self.look_at_clusters());
        }
        // Who is killed does not keep anything any more.
        if self.parked.len() != parked {
            jobs.extend(self.keep_tabs());
        }
        jobs.into_iter()
            .map(|job| match job {
                Job::On(ClusterId::HOME, job) => *job,
                job => job,
            })
            .collect()
    }

    fn take(&mut self, message: Message, now: Timestamp) -> Vec<Job> {
        match message {
            Message::Feed(delta) => {
                // A watch that was just ended may have sent something before.
                if !self.is_asked_for(&delta.resource) {
                    return Vec::new();
                }
                let Applied { resource, touched, shows } = self.shared.stores.apply(delta);
                self.dirty |= self.shared.links.is_up(&resource);
                let mut jobs = Vec::new();
                if resource == ResourceKey::of::<Namespace>() {
                    self.learn_namespaces();
                    jobs.extend(self.learn_cluster());
                }
                // Hundreds of nodes that say that they are there are nothing to draw.
                self.dirty |= shows;
                if resource == ResourceKey::of::<Pod>()
                    && self.shared.front == ClusterId::HOME
                    && !std::mem::replace(&mut self.looked_for_leftovers, true)
                    && let Some(word) = word_of_what_is_left(&self.shared.stores)
                {
                    self.toast(Toast::warning(word), now);
                }
                if resource == ResourceKey::of::<Event>() {
                    let changed = || ScreenMessage::Changed(resource.clone(), touched.clone());
                    jobs.extend(self.deliver_to_covered_first_ones(now, changed));
                }
                jobs.extend(self.tell_of_changes(&resource, &touched, now));
                return jobs;
            }
            Message::Key(key) => return self.key(key, now),
            Message::Paste(text) => return self.paste(&text, now),
            Message::Mouse(event) => {
                if self.dialog.is_none() && self.prompt.is_none() && !self.shared.cramped.get() {
                    self.dirty = true;
                    return self.mouse(event, now);
                }
            }
            Message::Resize(..) | Message::Tick => self.dirty = true,
            Message::Work => {
                let jobs = self.deliver_to_seen(now, || ScreenMessage::Work);
                self.dirty |= !self.works();
                return jobs;
            }
            // A watch that was let go may have sent something before.
            Message::Link(_) | Message::Catalogue(_) if self.shared.reach == Reach::Resting => {}
            Message::Link(link) => {
                let resource = link.resource().clone();
                if self.shared.links.take(link, now) {
                    self.dirty = true;
                    // A table of several kinds waits for each that gives a list.
                    return self.tell_of_changes(&resource, &Touched::Some(Vec::new()), now);
                }
            }
            Message::Usage(used) => {
                if self.shared.stores.measure(used) {
                    self.dirty = true;
                    return self.tell_of_changes(&ResourceKey::of::<Node>(), &Touched::Use, now);
                }
            }
            Message::PodUsage(used) => {
                if self.shared.stores.measure_pods(used) {
                    self.dirty = true;
                    return self.tell_of_changes(&ResourceKey::of::<Pod>(), &Touched::Use, now);
                }
            }
            Message::Catalogue(catalogue) => {
                self.shared.catalogue = catalogue;
                self.dirty = true;
                let mut jobs = self.tell_tables_over_it(now);
                jobs.extend(self.in_cluster(ClusterId::HOME, |model| {
                    let mut jobs = model.restore_what_waits(now);
                    jobs.extend(model.do_what_waits(now));
                    jobs
                }));
                return jobs;
            }
            Message::Data(id, data) => {
                self.dirty = true;
                return self.deliver(id, now, ScreenMessage::Data(data));
            }
            Message::Acted(outcome) => {
                let toast = match &outcome.error {
                    None if outcome.action.quiet => None,
                    None => Some(Toast::done(self.placed(&outcome.action.title))),
                    Some(error) => {
                        Some(Toast::failed(format!("{}: {error}", self.placed(&outcome.action.title))))
                    }
                };
                let mut outcome = *outcome;
                self.name_context(&mut outcome.action);
                let line = self.shared.journal.record(now, outcome);
                let kept = self.keep_journal(line);
                if let Some(toast) = toast {
                    self.toast(toast, now);
                }
                self.dirty = true;
                return kept.into_iter().collect();
            }
            Message::Journal(earlier) => {
                self.shared.journal.recall(earlier);
                self.dirty = true;
            }
            Message::Extensions(extensions) => {
                for error in extensions.errors() {
                    self.toast(Toast::failed(clean(error).into_owned()), now);
                }
                self.shared.extensions = extensions;
                self.dirty = true;
                return self.deliver_to_seen(now, || ScreenMessage::Extended);
            }
            Message::Identity(identity) => self.identity = *identity,
            Message::KeptTabs(kept) => return self.tabs_were_read(kept, now),
            Message::Draft(id, draft) => return self.draft_was_read(id, *draft, now),
            Message::Drafts(kept) => self.tell_of_drafts(&kept, now),
            Message::KeptObject(id, kept) => {
                let (view, since) = *kept;
                return self.kept_object_was_found(id, view, since, now);
            }
            Message::Connected(connected) => return vec![Job::Adopt(connected)],
            Message::On(cluster, message) => {
                return self.in_cluster(cluster, |model| model.take(*message, now));
            }
            Message::Joined(joined) => {
                let (connected, identity) = *joined;
                return self.was_joined(connected, identity, now);
            }
            Message::Unreachable { why, retry_at } => {
                self.was_not_joined(why, retry_at, now);
                return self.in_cluster(ClusterId::HOME, |model| model.do_what_waits(now));
            }
            Message::Contexts(contexts) => {
                self.contexts = Some(contexts);
                self.suggest_again();
            }
            Message::Toast(toast) => self.toast(toast, now),
            Message::Stopping(text) => {
                self.stopping = Some(text);
                self.dirty = true;
            }
        }
        Vec::new()
    }

    fn toast(&mut self, toast: Toast, now: Timestamp) {
        self.toasts.push(toast, now);
        self.dirty = true;
    }

    /// Learns which cluster this is, by what no other cluster has: the uid of its `kube-system`. Its journal is read then,
    /// and what was done meanwhile is kept.
    fn learn_cluster(&mut self) -> Vec<Job> {
        let system = self.shared.stores.namespaces().by_name("", "kube-system").and_then(uid_of);
        if self.shared.front != ClusterId::HOME && system.is_some() && system != self.cluster {
            // The context leads to another cluster since the kubeconfig was changed.
            if self.cluster.take().is_some() {
                self.shared.journal = Journal::default();
            }
        }
        let Some(uid) = system.filter(|_| self.cluster.is_none() && self.setup.config_dir.is_some()) else {
            return Vec::new();
        };
        self.cluster = Some(uid.clone());
        let mut jobs = vec![Job::ReadJournal(uid.clone()), Job::TellDrafts(uid.clone())];
        if self.shared.front == ClusterId::HOME {
            jobs.push(Job::ReadTabs(uid.clone()));
        }
        let early = std::mem::take(&mut self.early_lines);
        if !early.is_empty() {
            jobs.push(Job::KeepJournal(uid, early));
        }
        jobs
    }

    /// A line of the journal goes to disk as soon as it is known to whose journal it belongs.
    fn keep_journal(&mut self, line: String) -> Option<Job> {
        self.setup.config_dir.as_ref()?;
        if let Some(uid) = &self.cluster {
            return Some(Job::KeepJournal(uid.clone(), line));
        }
        if self.early_lines.len() < EARLY {
            self.early_lines.push_str(&line);
        }
        None
    }

    fn learn_namespaces(&mut self) {
        let names = self.shared.stores.namespaces().iter();
        let mut names: Vec<String> = names.filter_map(|(_, object)| object.metadata.name.clone()).collect();
        // The system's own come last: few people look there often.
        names.sort_by(|a, b| (a.starts_with("kube-"), a).cmp(&(b.starts_with("kube-"), b)));
        self.shared.favourites.retain(|name| names.contains(name));
        for name in names {
            if self.shared.favourites.len() >= 9 {
                break;
            }
            if !self.shared.favourites.contains(&name) {
                self.shared.favourites.push(name);
            }
        }
    }

    /// The terminal's ground is another now.
    pub(crate) fn fit_theme(&mut self, name: &str, now: Timestamp) {
        self.use_theme(name, now);
        self.dirty = true;
    }

    /// The themes there are, as they are in their files now.
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
