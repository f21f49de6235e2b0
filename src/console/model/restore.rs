//! Saves the tabs, and restores them at the next start.
//!
//! Tabs are restored once the cluster's identity is known, and its kinds if one of them is not built in. A user who
//! opened other views earlier keeps those, and learns how to get the saved ones.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;

use super::split::SplitPane;
use super::tabs::Tab;
use super::{DiskJob, Job, Model};
use base::sort::SliceOrder;
use console_data::builtin_kinds;
use console_data::context::ScreenId;
use console_data::resource::{ClusterId, Kind, ObjectRef, Uid};
use console_data::saved_tabs::{
    HOME, SavedDrain, SavedScope, SavedScreen, SavedSplit, SavedStage, SavedTab, SavedTabs, SavedView,
};
use console_data::scope::Scope;
use console_data::store::uid_of;
use console_data::workloads;
use console_operations::effect::{PaneContent, SplitDirection};
use console_screens::Screen;
use console_screens::drain::Drain;
use console_screens::terminal::Terminal;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;

/// The progress of restoring the tabs of the last run.
#[derive(Debug, Default)]
pub(crate) enum RestoreState {
    /// It is unknown whether there are saved tabs; nothing may overwrite them.
    #[default]
    Unread,
    /// The tabs wait for discovery.
    Waiting(SavedTabs),
    /// The user can open the tabs; other views were open when the tabs could be restored.
    Offered(SavedTabs),
    /// Restoring is complete.
    Done,
}

impl Model {
    /// Returns the tabs to save and their cluster; `None` before the saved ones have been read.
    pub fn saved_tabs(&self) -> Option<(Uid, SavedTabs)> {
        if matches!(self.restore, RestoreState::Unread | RestoreState::Waiting(_)) {
            return None;
        }
        let cluster = self.home_uid()?;
        let keep = |screens: &[(ScreenId, Screen)], split: Option<&SplitPane>, scope: &Scope| SavedTab {
            namespace: match scope {
                Scope::One(name) => Some(name.clone()),
                Scope::All => None,
            },
            views: first_pane(screens, split).iter().filter_map(|screen| self.view_of(screen).ok()).collect(),
            split: split.map(|split| self.keep_split(screens, split)),
        };
        let mut tabs: Vec<SavedTab> = self
            .tabs
            .in_order()
            .map(|tab: &Tab| keep(&tab.screens, tab.split.as_ref(), &tab.scope))
            .collect();
        let front = self.tabs.number();
        tabs.insert(front, keep(&self.screens, self.split.as_ref(), &self.shared.scope));
        let background = self.parked.iter().filter_map(|screen| self.background_view(screen)).collect();
        Some((cluster, SavedTabs { front, tabs, background, was_left: self.is_leaving }))
    }

    /// Saves the tabs if other views are open than at the last save, or if a drain has progressed, because a console
    /// that is killed saves nothing at its end.
    pub(super) fn keep_changed_tabs(&mut self) -> Option<Job> {
        let fingerprint = self.tabs_fingerprint();
        if self.saved_fingerprint == Some(fingerprint) {
            return None;
        }
        let (cluster, tabs) = self.saved_tabs()?;
        self.saved_fingerprint = Some(fingerprint);
        Some(Job::Disk(cluster, DiskJob::SaveTabs(tabs)))
    }

    /// Returns a hash of the open views and the progress of drains.
    fn tabs_fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let scope = |scope: &Scope| match scope {
            Scope::One(name) => Some(name.clone()),
            Scope::All => None,
        };
        (self.tabs.number(), scope(&self.shared.scope), self.screens.len()).hash(&mut hasher);
        for tab in self.tabs.in_order() {
            (scope(&tab.scope), tab.screens.len()).hash(&mut hasher);
        }
        for (id, screen) in self.all_screens() {
            id.hash(&mut hasher);
            if let Screen::Drain(drain) = screen {
                let saved = drain.keep();
                (saved.stage, saved.gone, saved.leaving).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Returns a context's name in saved tabs; `None` is the console's own cluster.
    pub(super) fn saved_context(&self, cluster: ClusterId) -> Option<String> {
        (cluster != ClusterId::HOME).then(|| self.shared.cluster_name(cluster).to_owned())
    }

    fn keep_split(&self, screens: &[(ScreenId, Screen)], split: &SplitPane) -> SavedSplit {
        let second = if split.in_second { screens } else { &split.other };
        let (cluster, object) = &split.at;
        SavedSplit {
            below: split.direction == SplitDirection::Below,
            share: split.share,
            shows: PaneContent::ARGUMENTS
                .iter()
                .find(|(_, shows)| *shows == split.shows)
                .map(|(word, _)| (*word).to_owned())
                .unwrap_or_default(),
            follows: split.follows,
            in_second: split.in_second,
            at: SavedView { context: self.saved_context(*cluster), ..SavedView::of_object(object) },
            views: second.iter().skip(1).filter_map(|screen| self.view_of(screen).ok()).collect(),
        }
    }

    /// Receives the saved tabs.
    pub(super) fn tabs_were_read(&mut self, saved: SavedTabs, now: Timestamp) -> Vec<Job> {
        if !matches!(self.restore, RestoreState::Unread) {
            return Vec::new();
        }
        self.restore = if saved.tabs.is_empty() { RestoreState::Done } else { RestoreState::Waiting(saved) };
        self.restore_when_ready(now)
    }

    /// Starts with the overview, because the saved tabs are open in another console.
    pub(super) fn tabs_are_in_use(&mut self, now: Timestamp) {
        if matches!(self.restore, RestoreState::Unread) {
            self.restore = RestoreState::Done;
            let text = "another console is open on this cluster: this one starts with the overview, and saves its tabs once the other ends";
            self.toast(Toast::info(text), now);
        }
    }

    /// Restores the tabs once everything that they need is known.
    pub(super) fn restore_when_ready(&mut self, now: Timestamp) -> Vec<Job> {
        let RestoreState::Waiting(saved) = &self.restore else { return Vec::new() };
        let known = |view: &SavedView| {
            let kinds = kinds_of(view);
            kinds
                .iter()
                .all(|(group, plural)| builtin_kinds::kinds().iter().any(|kind| is_of(kind, group, plural)))
        };
        let second = saved.tabs.iter().filter_map(|tab| tab.split.as_ref());
        let second = second.flat_map(|split| split.views.iter().chain([&split.at]));
        let needs_discovery =
            !saved.tabs.iter().flat_map(|tab| &tab.views).chain(second).chain(&saved.background).all(known);
        if needs_discovery && !self.shared.cluster.catalogue.discovered {
            return Vec::new();
        }
        let RestoreState::Waiting(saved) = std::mem::replace(&mut self.restore, RestoreState::Done) else {
            return Vec::new();
        };
        let untouched = self.screens.len() == 1
            && self.tabs.count() == 1
            && self.split.is_none()
            && self.dialog.is_none()
            && self.prompt.is_none();
        if !untouched {
            self.restore = RestoreState::Offered(saved);
            self.toast(Toast::info(":restore opens the tabs of the last run"), now);
            return Vec::new();
        }
        self.restore_tabs(saved, now)
    }

    /// Opens the offered tabs beside the present ones.
    pub(super) fn restore_offered(&mut self, now: Timestamp) -> Vec<Job> {
        match std::mem::replace(&mut self.restore, RestoreState::Done) {
            RestoreState::Offered(saved) => {
                let jobs = self.new_tab(None, now);
                jobs.into_iter().chain(self.restore_tabs(saved, now)).collect()
            }
            other => {
                self.restore = other;
                self.toast(Toast::info("no tabs of the last run to restore"), now);
                Vec::new()
            }
        }
    }

    fn restore_tabs(&mut self, saved: SavedTabs, now: Timestamp) -> Vec<Job> {
        // A half-restored state must not overwrite the saved tabs.
        self.restore = RestoreState::Unread;
        let mut jobs = Vec::new();
        let mut missing: Vec<String> = Vec::new();
        let cut_off = self.drains_cut_off(&saved);
        let mut front = self.tabs.number() + saved.front;
        for (number, tab) in saved.tabs.into_iter().enumerate() {
            if number > 0 {
                let before = self.tabs.count();
                jobs.extend(self.new_tab(None, now));
                if self.tabs.count() == before {
                    break;
                }
            }
            let namespaces = self.shared.cluster.stores.namespaces();
            let scope = match tab.namespace {
                // If namespaces cannot be listed, any name is accepted. Views of other clusters may use a namespace
                // that this one does not have.
                Some(name)
                    if namespaces.is_empty()
                        || namespaces.by_name("", &name).is_some()
                        || tab
                            .views
                            .iter()
                            .any(|view| !view.contexts.is_empty() || view.context.is_some()) =>
                {
                    Scope::One(name)
                }
                Some(name) => {
                    missing.push(format!("namespace {name}"));
                    Scope::All
                }
                None => Scope::All,
            };
            jobs.extend(self.rescope(scope, now));
            for view in tab.views {
                jobs.extend(self.open_saved(view, &mut missing, now));
            }
            if let Some(split) = tab.split {
                jobs.extend(self.restore_split(split, &mut missing, now));
            }
        }
        front = front.min(self.tabs.count() - 1);
        jobs.extend(self.select_tab(front, now));
        let left: Vec<String> = saved
            .background
            .into_iter()
            .filter_map(|view| self.park_saved(view, &mut missing, now))
            .collect();
        self.restore = RestoreState::Done;
        let how = if saved.was_left {
            "restored the last run; --no-restore starts without it"
        } else {
            "the last run ended unexpectedly: restored its last saved views; --no-restore starts without them"
        };
        self.toast(Toast::info(how), now);
        if let Some(cut_off) = cut_off {
            self.toast(Toast::warning(cut_off), now);
        }
        if !left.is_empty() {
            let left = clean(&left.join(", ")).into_owned();
            self.toast(Toast::info(format!("ended with the last run, :background shows them: {left}")), now);
        }
        if !missing.is_empty() {
            missing.order();
            missing.dedup();
            let missing = clean(&missing.join(", ")).into_owned();
            self.toast(Toast::warning(format!("not restored, no longer in this cluster: {missing}")), now);
        }
        jobs
    }
}

impl Model {
    /// Finds a kind by its resource; one that the server no longer serves is added to `missing`.
    pub(super) fn saved_kind(&self, group: &str, plural: &str, missing: &mut Vec<String>) -> Option<Kind> {
        let workloads = workloads::kind();
        let mut kinds = self.shared.cluster.catalogue.kinds().iter().chain([&workloads]);
        let kind = kinds.find(|kind| is_of(kind, group, plural)).cloned();
        if kind.is_none() {
            missing.push(if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") });
        }
        kind
    }

    /// Finds the cluster of a saved view; a context that no longer exists is added to `missing`.
    pub(super) fn saved_cluster(&mut self, view: &SavedView, missing: &mut Vec<String>) -> Option<ClusterId> {
        let context = view.context.clone().unwrap_or_else(|| HOME.to_owned());
        let cluster = self.clusters_of(std::slice::from_ref(&context)).0.first().copied();
        if cluster.is_none() {
            missing.push(format!("context {context}"));
        }
        cluster
    }

    /// Finds the kind, the object if any, and the cluster of a saved view; missing ones are added to `missing`.
    fn find_saved(
        &mut self,
        view: &SavedView,
        missing: &mut Vec<String>,
    ) -> Option<(Kind, Option<ObjectRef>, ClusterId)> {
        let kind = self.saved_kind(&view.group, &view.plural, missing)?;
        let cluster = self.saved_cluster(view, missing)?;
        let object = view.object.clone().map(|(namespace, name)| ObjectRef {
            namespace: namespace.filter(|_| kind.namespaced),
            kind: kind.clone(),
            name,
            uid: view.uid.as_deref().map(Uid::from),
        });
        Some((kind, object, cluster))
    }

    /// Restores a drain for those of its nodes that still exist.
    pub(super) fn restore_drain(
        &self,
        kind: &Kind,
        cluster: ClusterId,
        mut saved: SavedDrain,
        missing: &mut Vec<String>,
    ) -> Option<Drain> {
        let view = self.shared.clusters().get(cluster)?;
        let nodes = view.stores.nodes();
        let (there, left): (Vec<String>, Vec<String>) = std::mem::take(&mut saved.nodes)
            .into_iter()
            .partition(|name| !nodes.synced() || nodes.by_name("", name).is_some());
        missing.extend(left.into_iter().map(|name| format!("node {name}")));
        let of = |name: String| {
            let uid = nodes.by_name("", &name).and_then(uid_of);
            ObjectRef { kind: kind.clone(), namespace: None, name, uid }
        };
        let nodes: Vec<ObjectRef> = there.into_iter().map(of).collect();
        (!nodes.is_empty()).then(|| Drain::restored(nodes, saved))
    }

    /// Describes the progress of interrupted drains, and the commands for their nodes.
    fn drains_cut_off(&self, saved: &SavedTabs) -> Option<String> {
        let bindings = &self.shared.bindings;
        let key = |command| {
            bindings.key_in(command, KeyContext::Drain).map(|key| key.to_string()).unwrap_or_default()
        };
        let views = saved.tabs.iter().flat_map(|tab| &tab.views).chain(&saved.background);
        let drains = views.filter_map(|view| match &view.screen {
            SavedScreen::Drain(drain) if drain.stage == SavedStage::Running => Some(drain),
            _ => None,
        });
        let drains: Vec<String> = drains
            .map(|SavedDrain { gone, leaving, nodes, .. }| {
                format!("drain of {} interrupted, {gone} of {leaving} pods gone", clean(&nodes.join(", ")))
            })
            .collect();
        let (start, uncordon) = (key(Command::DrainStart), key(Command::Uncordon));
        (!drains.is_empty()).then(|| {
            format!("{}; nodes stay cordoned: {start} there resumes, {uncordon} uncordons", drains.join(", "))
        })
    }

    /// Restores a view in the background, from which the user can open it; returns its title. Does not start its work.
    fn park_saved(&mut self, view: SavedView, missing: &mut Vec<String>, now: Timestamp) -> Option<String> {
        let (kind, object, cluster) = self.find_saved(&view, missing)?;
        let screen: Screen = match (view.screen, object?) {
            (SavedScreen::Terminal { what, container }, object) => {
                Terminal::restored(object, what, container).into()
            }
            (SavedScreen::Drain(saved), _) => self.restore_drain(&kind, cluster, saved, missing)?.into(),
            _ => return None,
        };
        self.next_id += 1;
        let id = ScreenId::new(self.next_id, cluster);
        let title = screen.title(&self.shared.context_of(id, now));
        self.parked.push((id, screen));
        Some(title)
    }

    /// Splits the front tab as in the last run.
    fn restore_split(&mut self, saved: SavedSplit, missing: &mut Vec<String>, now: Timestamp) -> Vec<Job> {
        let Some((_, Some(object), cluster)) = self.find_saved(&saved.at, missing) else { return Vec::new() };
        let direction = if saved.below { SplitDirection::Below } else { SplitDirection::Beside };
        let shows = PaneContent::ARGUMENTS.iter().find(|(word, _)| *word == saved.shows);
        let shows = shows.map_or(PaneContent::Default, |(_, shows)| *shows);
        let mut jobs = self.split_at((cluster, object), direction, shows, now);
        let Some(split) = &mut self.split else { return jobs };
        split.share = saved.share;
        split.follows = saved.follows;
        self.trade_panes();
        for view in saved.views {
            jobs.extend(self.open_saved(view, missing, now));
        }
        if !saved.in_second {
            self.trade_panes();
        }
        jobs
    }
}

fn is_of(kind: &Kind, group: &str, plural: &str) -> bool {
    *kind.resource.group == *group && *kind.resource.plural == *plural
}

/// Returns the kinds that a view requires: group and plural name.
fn kinds_of(view: &SavedView) -> Vec<(&str, &str)> {
    let own = (view.is_of_a_kind() || !view.plural.is_empty()).then_some((&*view.group, &*view.plural));
    let other = match &view.only {
        SavedScope::Belonging(_, object) => Some((&*object.group, &*object.plural)),
        _ => None,
    };
    own.into_iter().chain(other).collect()
}

/// Returns the stack of the first pane, with or without the focus. The second pane is left out, because it follows the
/// selection.
fn first_pane<'a>(
    focused: &'a [(ScreenId, Screen)],
    split: Option<&'a SplitPane>,
) -> &'a [(ScreenId, Screen)] {
    match split {
        Some(split) if split.in_second => &split.other,
        _ => focused,
    }
}
