//! The configuration at start: from flags, `console.toml` and the terminal's capabilities.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::style::Style;

use console_data::forks::Fork;
use console_data::node_shell::NodeShell;
use console_data::project::Project;
use console_data::scope::Scope;
use console_data::thresholds::Thresholds;
use console_toolkit::command::Bindings;
use console_toolkit::theme::Theme;
use console_toolkit::theme::depth::Depth;

/// The configuration at start.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cluster's name in the header.
    pub cluster: String,
    /// The server's address: `in process`, a host.
    pub origin: String,
    /// The context of the kubeconfig in use; `None` for the cluster that the console was started on.
    pub context: Option<String>,
    /// The name and the address of the start cluster.
    pub home: (String, String),
    /// The user's colours for cluster names; `*` is a wildcard.
    pub cluster_styles: Vec<(String, Style)>,
    /// The thresholds from which CPU and memory usage are highlighted.
    pub thresholds: Thresholds,
    /// The configuration of shells on nodes.
    pub node_shell: NodeShell,
    /// Creates forks of the cluster; `None` if its files are not on this machine.
    pub forks: Option<Arc<dyn Fork>>,
    /// The project that is built for the cluster.
    pub project: Option<Arc<Project>>,
    /// The initial theme.
    pub theme: Theme,
    /// The theme in the user's `console.toml`.
    pub configured_theme: Option<String>,
    /// The terminal's colour depth.
    pub depth: Depth,
    /// The user's configuration directory.
    pub config_dir: Option<PathBuf>,
    /// The key bindings.
    pub bindings: Bindings,
    /// The namespaces to show first.
    pub scope: Scope,
    /// Changes are refused.
    pub read_only: bool,
    /// The consequence of leaving, shown in a confirmation; empty if nothing is lost.
    pub quit_warning: String,
    /// Changed cells do not flash.
    pub still: bool,
}

impl Setup {
    /// Adapts a theme to the terminal and the user's settings.
    pub(super) fn adapted(&self, theme: Theme) -> Theme {
        let theme = theme.in_depth(self.depth);
        if self.still { theme.without_flashes() } else { theme }
    }
}
