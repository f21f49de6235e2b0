//! What screens see of the model.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::catalogue::Catalogue;
use crate::clusters::{Cluster, Reach};
use crate::command::Bindings;
use crate::context::ScreenId;
use crate::extensions::Extensions;
use crate::forks::Fork;
use crate::journal::Journal;
use crate::links::Links;
use crate::node_shell::NodeShell;
use crate::resource::ClusterId;
use crate::scope::Scope;
use crate::sort_memory::SortMemory;
use crate::store::Stores;
use crate::theme::Theme;
use crate::thresholds::Thresholds;

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
    /// Makes forks of the first cluster.
    pub(crate) forks: Option<Arc<dyn Fork>>,
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
    /// What the user sorts tables by.
    pub(crate) sorts: SortMemory,
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
