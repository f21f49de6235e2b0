//! What a screen may read: everything shared, nothing mutable, and the one clock reading of this turn.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::wildcard;
use jiff::{SignedDuration, Timestamp};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::catalogue::Catalogue;
use super::clusters::{ClusterView, Clusters};
use super::command::Bindings;
use super::extensions::Extensions;
use super::forks::Fork;
use super::journal::Journal;
use super::links::Links;
use super::node_shell::NodeShell;
use super::resource::ClusterId;
use super::scope::Scope;
use super::sort_memory::SortMemory;
use super::store::Stores;
use super::text;
use super::theme::Theme;
use super::thresholds::Thresholds;

/// Names one screen for as long as it lives; never used again. It says as well on which cluster that screen looks and
/// acts, which is no part of its name: what a table over several clusters asks for is done by the same name on the cluster
/// of the row.
#[derive(Clone, Copy, Debug)]
pub struct ScreenId {
    number: u64,
    cluster: ClusterId,
}

impl ScreenId {
    /// Of a screen of this cluster.
    pub const fn new(number: u64, cluster: ClusterId) -> Self {
        Self { number, cluster }
    }

    /// The cluster that it looks and acts on.
    pub const fn cluster(self) -> ClusterId {
        self.cluster
    }

    /// The same screen, acting on that cluster.
    #[must_use]
    pub(crate) const fn on(self, cluster: ClusterId) -> Self {
        Self { cluster, ..self }
    }
}

impl PartialEq for ScreenId {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for ScreenId {}

impl Hash for ScreenId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl PartialOrd for ScreenId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScreenId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

/// The view of the world of one update or one draw.
#[derive(Debug)]
pub struct Context<'a> {
    /// The cluster that it is of.
    pub(crate) cluster: ClusterId,
    /// All that are looked at.
    pub(crate) clusters: Clusters<'a>,
    /// Colours of clusters by their names, as the user has them: `*` stands for anything.
    pub(crate) cluster_styles: &'a [(String, Style)],
    /// From which shares CPU and memory are said to be used up.
    pub(crate) thresholds: Thresholds,
    /// What shells on nodes are.
    pub(crate) node_shell: &'a NodeShell,
    /// Makes forks of the cluster that the console was started on; none where its files are not on this machine.
    pub(crate) forks: Option<&'a Arc<dyn Fork>>,
    /// The live copy of the cluster.
    pub stores: &'a Stores,
    /// Colours and glyphs.
    pub(crate) theme: &'a Theme,
    /// The kinds the server has.
    pub(crate) catalogue: &'a Catalogue,
    /// The keys in force.
    pub(crate) bindings: &'a Bindings,
    /// What the user brings.
    pub(crate) extensions: &'a Extensions,
    /// How fresh that copy is.
    pub(crate) links: &'a Links,
    /// What was changed from here.
    pub(crate) journal: &'a Journal,
    /// What the user sorts tables by.
    pub(crate) sorts: &'a SortMemory,
    /// Which namespaces are shown.
    pub(crate) scope: &'a Scope,
    /// The namespaces of the keys 1 to 9.
    pub(crate) favourites: &'a [String],
    /// Whether changes of the cluster are refused.
    pub(crate) read_only: bool,
    /// Whether what is drawn has the focus: the other pane of a tab has not.
    pub(crate) focused: bool,
    /// Now; the same for the whole update or draw.
    pub(crate) now: Timestamp,
    /// Places that lead somewhere, with their URLs; collected while drawing.
    pub(super) anchors: &'a RefCell<Vec<(Rect, String)>>,
    /// When what is drawn now stops being true; collected while drawing.
    pub(super) wake: &'a Cell<Option<Timestamp>>,
}

impl<'a> Context<'a> {
    /// The same moment, seen from another cluster; none where that is not looked at.
    pub(crate) fn on(&self, cluster: ClusterId) -> Option<Context<'a>> {
        let ClusterView { id, stores, catalogue, links, journal, favourites, .. } =
            self.clusters.get(cluster)?;
        let forks = self.forks.filter(|_| id == ClusterId::HOME);
        Some(Context { cluster: id, forks, stores, catalogue, links, journal, favourites, ..*self })
    }

    /// The colour of a cluster's name: the user's, or else the theme's.
    pub(crate) fn style_of_cluster(&self, name: &str) -> Style {
        let own = self.cluster_styles.iter().find(|(known, _)| wildcard::matches(known, name));
        own.map_or_else(|| self.theme.of_cluster(name), |(_, style)| *style)
    }
}

impl Context<'_> {
    /// The age of something as kubectl prints it; asks to be drawn again when the text changes.
    pub(crate) fn age(&self, since: Timestamp) -> String {
        let (text, next) = text::age_and_next(text::seconds_between(since, self.now));
        // The text changes on the second of `since`, not of `now`.
        let elapsed = text::seconds_between(since, self.now);
        let at = since.saturating_add(SignedDuration::from_secs(elapsed.max(0) + next));
        self.redraw_at(at.unwrap_or(Timestamp::MAX));
        text
    }

    /// Says that a place leads to a URL.
    pub(crate) fn leads_to(&self, place: Rect, url: String) {
        self.anchors.borrow_mut().push((place, url));
    }

    /// The time left until something, in words; asks to be drawn again when the text changes.
    pub(crate) fn left(&self, until: Timestamp) -> String {
        let seconds = text::seconds_until(self.now, until);
        if seconds > 0 {
            self.redraw_at(Timestamp::from_second(self.now.as_second() + 1).unwrap_or(until));
        }
        text::age(seconds)
    }

    /// Asks to be drawn again at a moment: the end of a flash, the next frame of a countdown.
    pub(crate) fn redraw_at(&self, at: Timestamp) {
        let floor = self.now.saturating_add(SignedDuration::from_millis(100)).unwrap_or(at);
        let at = at.max(floor);
        if self.wake.get().is_none_or(|wake| at < wake) {
            self.wake.set(Some(at));
        }
    }
}
