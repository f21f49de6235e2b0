//! The state that screens may read: everything shared, nothing mutable, and the one clock reading of this update.

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
use super::extensions::Extensions;
use super::forks::Fork;
use super::journal::Journal;
use super::links::Links;
use super::node_shell::NodeShell;
use super::project::Project;
use super::resource::ClusterId;
use super::scope::Scope;
use super::sort_memory::SortMemory;
use super::store::Stores;
use super::thresholds::Thresholds;
use console_toolkit::command::Bindings;
use console_toolkit::text;
use console_toolkit::theme::Theme;

/// Identifies a screen; numbers are never reused. The id also carries the cluster that the screen reads and changes.
/// The cluster is not part of the identity: a table over several clusters acts on the cluster of a row with an id of
/// the same number.
#[derive(Clone, Copy, Debug)]
pub struct ScreenId {
    number: u64,
    cluster: ClusterId,
}

impl ScreenId {
    /// Creates the id of a screen of this cluster.
    pub const fn new(number: u64, cluster: ClusterId) -> Self {
        Self { number, cluster }
    }

    /// Returns the cluster that the screen reads and changes.
    pub const fn cluster(self) -> ClusterId {
        self.cluster
    }

    /// Returns the same screen, acting on another cluster.
    #[must_use]
    pub const fn on(self, cluster: ClusterId) -> Self {
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

/// The state for one update or one draw.
#[derive(Debug)]
pub struct Context<'a> {
    /// The cluster of the screen.
    pub cluster: ClusterId,
    /// All clusters that are shown.
    pub clusters: Clusters<'a>,
    /// The user's colours for cluster names; `*` is a wildcard.
    pub cluster_styles: &'a [(String, Style)],
    /// The thresholds from which CPU and memory usage are highlighted.
    pub thresholds: Thresholds,
    /// The configuration of shells on nodes.
    pub node_shell: &'a NodeShell,
    /// Creates forks of the cluster that the console was started on; `None` if its files are not on this machine.
    pub forks: Option<&'a Arc<dyn Fork>>,
    /// The project that the program of this console builds; `None` on other clusters.
    pub project: Option<&'a Arc<Project>>,
    /// The watched objects of the cluster.
    pub stores: &'a Stores,
    /// Colours and glyphs.
    pub theme: &'a Theme,
    /// The kinds that the server serves.
    pub catalogue: &'a Catalogue,
    /// The key bindings in force.
    pub bindings: &'a Bindings,
    /// The user's extensions.
    pub extensions: &'a Extensions,
    /// The freshness of the stores.
    pub links: &'a Links,
    /// The changes made from this console.
    pub journal: &'a Journal,
    /// The user's sort orders of tables.
    pub sorts: &'a SortMemory,
    /// The namespaces in scope.
    pub scope: &'a Scope,
    /// The namespaces on the keys 1 to 9.
    pub favourites: &'a [String],
    /// Changes of the cluster are refused.
    pub read_only: bool,
    /// The pane that is drawn has the focus.
    pub focused: bool,
    /// The current time; the same for the whole update or draw.
    pub now: Timestamp,
    /// False in a past state whose time is unknown: it has no ages, and `now` is the present.
    pub is_time_known: bool,
    /// Screen areas that link to URLs; collected while drawing.
    pub anchors: &'a RefCell<Vec<(Rect, String)>>,
    /// The next time at which the drawn content becomes stale; collected while drawing.
    pub redraw_at_time: &'a Cell<Option<Timestamp>>,
}

impl<'a> Context<'a> {
    /// Returns this context for another cluster; `None` if that cluster is not shown.
    pub fn on(&self, cluster: ClusterId) -> Option<Context<'a>> {
        let ClusterView { id, stores, catalogue, links, journal, favourites, .. } =
            self.clusters.get(cluster)?;
        let forks = self.forks.filter(|_| id == ClusterId::HOME);
        let project = self.project.filter(|_| id == ClusterId::HOME);
        Some(Context { cluster: id, forks, project, stores, catalogue, links, journal, favourites, ..*self })
    }

    /// Returns the colour of a cluster's name: the user's, or else the theme's.
    pub fn style_of_cluster(&self, name: &str) -> Style {
        let own = self.cluster_styles.iter().find(|(known, _)| wildcard::matches(known, name));
        own.map_or_else(|| self.theme.of_cluster(name), |(_, style)| *style)
    }
}

impl Context<'_> {
    /// Returns the time for ages; `None` if it is unknown.
    pub fn known_time(&self) -> Option<Timestamp> {
        self.is_time_known.then_some(self.now)
    }

    /// Returns an age as kubectl prints it, and schedules a redraw for the time when the text changes; an empty text if
    /// the time is unknown.
    pub fn age(&self, since: Timestamp) -> String {
        if !self.is_time_known {
            return String::new();
        }
        let (text, next) = text::age_and_next(text::seconds_between(since, self.now));
        // The text changes on the second of `since`, not of `now`.
        let elapsed = text::seconds_between(since, self.now);
        let at = since.saturating_add(SignedDuration::from_secs(elapsed.max(0) + next));
        self.redraw_at(at.unwrap_or(Timestamp::MAX));
        text
    }

    /// Records that a screen area links to a URL.
    pub fn add_link(&self, place: Rect, url: String) {
        self.anchors.borrow_mut().push((place, url));
    }

    /// Returns the time left as text, and schedules a redraw for the time when the text changes; an empty text if the
    /// time is unknown.
    pub fn format_remaining(&self, until: Timestamp) -> String {
        if !self.is_time_known {
            return String::new();
        }
        let seconds = text::seconds_until(self.now, until);
        if seconds > 0 {
            self.redraw_in(1);
        }
        text::age(seconds)
    }

    /// Schedules a redraw for the start of a later second, for times that are shown in whole seconds.
    pub fn redraw_in(&self, seconds: i64) {
        self.redraw_at(Timestamp::from_second(self.now.as_second() + seconds).unwrap_or(self.now));
    }

    /// Schedules a redraw, such as for the end of a flash or the next frame of a countdown.
    pub fn redraw_at(&self, at: Timestamp) {
        let floor = self.now.saturating_add(SignedDuration::from_millis(100)).unwrap_or(at);
        let at = at.max(floor);
        if self.redraw_at_time.get().is_none_or(|wake| at < wake) {
            self.redraw_at_time.set(Some(at));
        }
    }
}
