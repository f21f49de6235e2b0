//! Flags, and the groups of flags that several commands share.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use base::quote::shell_word;
use cluster::{AuditConfig, MOST_HOLLOW_NODES, MOST_NODES, NetworkMode, default_data_dir};

#[derive(Debug, clap::Args)]
pub(super) struct ClusterArgs {
    /// Directory of state, logs and keys [default: $XDG_DATA_HOME/podium, or ~/.local/share/podium]
    #[arg(long, value_name = "DIR", env = "PODIUM_DATA_DIR")]
    pub(super) data_dir: Option<PathBuf>,
    /// Delete all state when the run ends
    #[arg(long)]
    pub(super) ephemeral: bool,
    /// Start with the readable part of the state although the rest is lost
    #[arg(long, conflicts_with = "ephemeral")]
    pub(super) accept_data_loss: bool,
    /// Address that the API listens on [default: 127.0.0.1:6443; if taken, the last port or a free one]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<SocketAddr>,
    /// Allow --listen to use an address that other machines can reach
    #[arg(long)]
    pub(super) expose: bool,
    /// Number of nodes that run processes [default: the config file's nodeCount, or 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=i64::from(MOST_NODES)))]
    pub(super) nodes: Option<u16>,
    /// Number of hollow nodes, which report containers as running without starting them [default: the
    /// config file's hollowNodeCount, or 0]
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u16).range(0..=i64::from(MOST_HOLLOW_NODES)))]
    pub(super) hollow_nodes: Option<u16>,
    /// Path to the config file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Add the cluster also to this kubeconfig, whose other contexts stay [default: only the file in the data
    /// directory]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Level of the log: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: tracing::Level,
    /// List API versions that Kubernetes has removed (extensions/v1beta1 …) in discovery, for clients that support
    /// nothing newer. Requests at their paths are accepted in any case
    #[arg(long, alias = "legacy-versions")]
    pub(super) removed_api_versions: bool,
    /// Network of the pods [default: the config file's network.mode, or auto]
    #[arg(long, value_name = "MODE", env = "PODIUM_NETWORK")]
    pub(super) network: Option<NetworkMode>,
    #[command(flatten)]
    pub(super) audit: AuditArgs,
    /// Do not start this component (repeatable): scheduler, kubelet, proxy, dns, ingress, an admission plugin, or a
    /// controller
    #[arg(long, value_name = "NAME")]
    pub(super) disable: Vec<String>,
}

/// The manifests that `up` and `serve` apply at the start.
#[derive(Debug, clap::Args)]
pub(super) struct StartManifests {
    /// Apply these manifests once the API is up: a file, a directory, or - for stdin (repeatable). Existing
    /// objects are left unchanged; those that differ from their manifests are listed
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub(super) filename: Vec<PathBuf>,
    /// Apply the manifests of -f to existing objects too
    #[arg(long, requires = "filename")]
    pub(super) reapply: bool,
}

/// The audit log. The config file's `audit` applies where a flag is missing.
#[derive(Debug, clap::Args)]
pub(super) struct AuditArgs {
    /// Write an audit log of API requests to this file, or - for stdout, one event per line
    #[arg(long = "audit-log-path", value_name = "FILE")]
    pub(super) log_path: Option<PathBuf>,
    /// Path to an audit.k8s.io/v1 Policy that selects requests and the level of detail [default: metadata of all
    /// requests]
    #[arg(long = "audit-policy-file", value_name = "FILE")]
    pub(super) policy_file: Option<PathBuf>,
    /// Size in megabytes at which the audit log is rotated [default: 100]
    #[arg(long = "audit-log-maxsize", value_name = "MEGABYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) log_maxsize: Option<u64>,
    /// Maximum number of rotated audit logs to retain; 0 retains all [default: 10]
    #[arg(long = "audit-log-maxbackup", value_name = "N")]
    pub(super) log_maxbackup: Option<usize>,
    /// Maximum number of days to retain rotated audit logs; 0 means no limit [default: 0]
    #[arg(long = "audit-log-maxage", value_name = "DAYS")]
    pub(super) log_maxage: Option<u32>,
}

impl AuditArgs {
    /// Overrides the config file's settings with those of the flags.
    pub(super) fn apply_to(&self, config: &mut AuditConfig) {
        if let Some(path) = &self.log_path {
            config.log_path = Some(path.clone());
        }
        if let Some(file) = &self.policy_file {
            config.policy_file = Some(file.clone());
        }
        config.max_size_megabytes = self.log_maxsize.unwrap_or(config.max_size_megabytes);
        config.max_backups = self.log_maxbackup.unwrap_or(config.max_backups);
        config.max_age_days = self.log_maxage.unwrap_or(config.max_age_days);
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ConsoleArgs {
    /// Theme of the console
    #[arg(long, value_name = "NAME")]
    pub(super) theme: Option<String>,
    /// Start the console with the overview instead of the tabs of the last run
    #[arg(long, alias = "fresh")]
    pub(super) no_restore: bool,
    /// Do not allow changes from the console
    #[arg(long)]
    pub(super) read_only: bool,
    /// Print changes line by line instead of drawing a screen, for screen readers (docs/use/accessibility.md)
    #[arg(long)]
    pub(super) linear: bool,
    /// Record the session to a new file: keys and API responses (including Secrets that are viewed)
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
}

/// A recorded session, replayed without a cluster or a terminal.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayRequest {
    /// Replay a recorded session without a cluster or a terminal, and write its screens to --screens
    #[arg(long, value_name = "FILE", requires = "screens", conflicts_with_all = ["record", "linear", "context"])]
    pub(super) replay: Option<PathBuf>,
    /// Directory for the replayed screens: the screen before each key and the last one, as text and SVG, and the whole
    /// session as an asciinema cast
    #[arg(long, value_name = "DIR", requires = "replay")]
    pub(super) screens: Option<PathBuf>,
    /// Size of the replayed screens [default: the size at recording]
    #[arg(long, value_name = "COLUMNSxROWS", requires = "replay", value_parser = parse_size)]
    pub(super) size: Option<(u16, u16)>,
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let parts =
        text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    parts
        .filter(|(columns, rows)| (1..=500).contains(columns) && (1..=500).contains(rows))
        .ok_or_else(|| "expected columns and rows from 1 to 500, such as 120x34".to_owned())
}

#[derive(Debug, clap::Args)]
pub(super) struct ConsoleTarget {
    /// Path to the kubeconfig file [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Namespace to show first
    #[arg(short, long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct InstanceArgs {
    /// Data directory of the running instance
    #[arg(long, value_name = "DIR", env = "PODIUM_DATA_DIR")]
    pub(super) data_dir: Option<PathBuf>,
}

impl InstanceArgs {
    /// Returns the data directory, or the default one.
    pub(super) fn directory(&self) -> Result<PathBuf> {
        match &self.data_dir {
            Some(directory) => Ok(directory.clone()),
            None => Ok(default_data_dir()?),
        }
    }

    /// Returns a command for the same instance, which a user may paste into a shell.
    pub(super) fn podium(&self, command: &str) -> String {
        let directory = self.data_dir.as_ref().map(|directory| directory.display().to_string());
        let option = directory.map(|directory| format!(" --data-dir {}", shell_word(&directory)));
        format!("podium {command}{}", option.unwrap_or_default())
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ManifestRequest {
    #[command(flatten)]
    pub(super) instance: InstanceArgs,
    /// Manifests: a file, a directory, or - for stdin (repeatable)
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    pub(super) filename: Vec<PathBuf>,
    /// Process directories recursively
    #[arg(short = 'R', long)]
    pub(super) recursive: bool,
    /// Check the manifests without changing anything
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Namespace for objects whose manifests have none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(super) namespace: String,
}
