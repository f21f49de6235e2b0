//! How the console was set up: by flags, `console.toml` and what the terminal can.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::style::Style;

use crate::command::Bindings;
use crate::forks::Fork;
use crate::node_shell::NodeShell;
use crate::scope::Scope;
use crate::theme::Theme;
use crate::theme::depth::Depth;
use crate::thresholds::Thresholds;

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
    /// Makes forks of the cluster that is looked at; none where its files are not on this machine.
    pub forks: Option<Arc<dyn Fork>>,
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
    pub(super) fn adapted(&self, theme: Theme) -> Theme {
        let theme = theme.in_depth(self.depth);
        if self.still { theme.without_flashes() } else { theme }
    }
}
