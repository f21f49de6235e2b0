//! The part of the model that screens read.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ratatui::layout::Rect;
use ratatui::style::Style;

use console_data::clusters::Cluster;
use console_data::context::ScreenId;
use console_data::extensions::Extensions;
use console_data::forks::Fork;
use console_data::node_shell::NodeShell;
use console_data::project::Project;
use console_data::resource::ClusterId;
use console_data::scope::Scope;
use console_data::sort_memory::SortMemory;
use console_data::thresholds::Thresholds;
use console_toolkit::command::Bindings;
use console_toolkit::theme::Theme;

/// The part of the model that screens read.
#[derive(Debug)]
pub struct SharedModel {
    /// The id of the front cluster.
    pub(crate) front: ClusterId,
    /// The front cluster.
    pub cluster: Cluster,
    /// The clusters that are not in front.
    pub(crate) away: BTreeMap<ClusterId, Cluster>,
    /// The user's colours for cluster names.
    pub(crate) cluster_styles: Vec<(String, Style)>,
    /// The thresholds from which CPU and memory usage are highlighted.
    pub thresholds: Thresholds,
    /// The configuration of shells on nodes.
    pub(crate) node_shell: NodeShell,
    /// Creates forks of the first cluster.
    pub(crate) forks: Option<Arc<dyn Fork>>,
    /// The project that is built for the first cluster.
    pub(crate) project: Option<Arc<Project>>,
    /// The theme in force.
    pub theme: Theme,
    /// The key bindings.
    pub(crate) bindings: Bindings,
    /// The user's extensions.
    pub(crate) extensions: Extensions,
    /// The user's sort orders of tables.
    pub(crate) sorts: SortMemory,
    /// The namespaces in scope.
    pub(crate) scope: Scope,
    /// Changes are refused.
    pub(crate) read_only: bool,
    /// The next time at which the drawn content becomes stale.
    pub wake: Cell<Option<Timestamp>>,
    /// The window is too small to show anything.
    pub(crate) cramped: Cell<bool>,
    /// The areas of the tab titles, for the mouse.
    pub(crate) tab_areas: RefCell<Vec<Rect>>,
    /// The drawn areas that link to URLs.
    pub(crate) anchors: RefCell<Vec<(Rect, String)>>,
    /// The area of the pane without the focus, for the mouse.
    pub(crate) other_pane_area: Cell<Option<Rect>>,
    /// The screens that panicked while drawing, with the messages; the next key retries them.
    pub(crate) undrawn: RefCell<Vec<(ScreenId, String)>>,
}
