//! Flags, and the groups of them that several commands share.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cluster::{AuditConfig, MOST_HOLLOW_NODES, MOST_NODES, NetworkMode};

#[derive(Debug, clap::Args)]
pub(super) struct ClusterArgs {
    /// Where state, logs and keys live [default: the platform's data directory + /podium].
    #[arg(long, value_name = "DIR", env = "PODIUM_DATA_DIR")]
    pub(super) data_dir: Option<PathBuf>,
    /// Nothing outlives the run.
    #[arg(long)]
    pub(super) ephemeral: bool,
    /// Start although a part of the state is lost, with what can be read of it.
    #[arg(long, conflicts_with = "ephemeral")]
    pub(super) accept_data_loss: bool,
    /// Where the API listens [default: 127.0.0.1:6443, or any free port when that is taken].
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<SocketAddr>,
    /// Allow --listen to be reached from other machines.
    #[arg(long)]
    pub(super) expose: bool,
    /// Nodes that run processes [default: the config file's nodeCount, or 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=i64::from(MOST_NODES)))]
    pub(super) nodes: Option<u16>,
    /// Nodes that only pretend, for scale [default: the config file's hollowNodeCount, or 0].
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u16).range(0..=i64::from(MOST_HOLLOW_NODES)))]
    pub(super) hollow_nodes: Option<u16>,
    /// The config file.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Manifests to apply once the API is up: a file, a directory, or - (repeatable). Objects that are there already stay
    /// as they are; it is said which of them differ.
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub(super) filename: Vec<PathBuf>,
    /// Apply the manifests of -f to objects that are there already, too.
    #[arg(long, requires = "filename")]
    pub(super) reapply: bool,
    /// Where to write the kubeconfig [default: in the data directory].
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// What the log tells: error, warn, info, debug, trace.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: tracing::Level,
    /// List the API versions that Kubernetes has removed (extensions/v1beta1 …) in discovery, for clients that write
    /// nothing else. They are taken at their paths in any case.
    #[arg(long)]
    pub(super) legacy_versions: bool,
    /// Whose network pods are in [default: the config file's network.mode, or auto].
    #[arg(long, value_name = "MODE", env = "PODIUM_NETWORK")]
    pub(super) network: Option<NetworkMode>,
    #[command(flatten)]
    pub(super) audit: AuditArgs,
    /// Leave a component out (repeatable): scheduler, kubelet, proxy, dns, an admission plugin, or a controller.
    #[arg(long, value_name = "NAME")]
    pub(super) disable: Vec<String>,
}

/// The audit log; where a flag is not given, the config file's `audit` says.
#[derive(Debug, clap::Args)]
pub(super) struct AuditArgs {
    /// Write who asks the API for what to this file, or - for stdout, one event a line.
    #[arg(long = "audit-log-path", value_name = "FILE")]
    pub(super) log_path: Option<PathBuf>,
    /// What of which requests is written: a Policy of audit.k8s.io/v1 [default: of all who asked for what].
    #[arg(long = "audit-policy-file", value_name = "FILE")]
    pub(super) policy_file: Option<PathBuf>,
    /// Megabytes after which a log is put aside and begun anew [default: 100].
    #[arg(long = "audit-log-maxsize", value_name = "MEGABYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) log_maxsize: Option<u64>,
    /// How many logs that were put aside are kept, 0 = all [default: 10].
    #[arg(long = "audit-log-maxbackup", value_name = "N")]
    pub(super) log_maxbackup: Option<usize>,
    /// For how many days, 0 = for ever [default: 0].
    #[arg(long = "audit-log-maxage", value_name = "DAYS")]
    pub(super) log_maxage: Option<u32>,
}

impl AuditArgs {
    /// What the flags say goes before what the config file says.
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
    /// The console's theme.
    #[arg(long, value_name = "NAME")]
    pub(super) theme: Option<String>,
    /// Start the console with its overview, not with the tabs of the last run.
    #[arg(long)]
    pub(super) fresh: bool,
    /// Change nothing from the console.
    #[arg(long)]
    pub(super) read_only: bool,
    /// Say what is there line by line, without drawing: for screen readers (docs/use/accessibility.md).
    #[arg(long)]
    pub(super) linear: bool,
    /// Record the session in a new file: keys, and what the API says (Secrets too, where they are looked at).
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
}

/// A recorded session, shown without a cluster or a terminal.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayRequest {
    /// Show a recorded session instead, without a cluster or a terminal: write its screens.
    #[arg(long, value_name = "FILE", requires = "screens", conflicts_with_all = ["record", "linear", "context"])]
    pub(super) replay: Option<PathBuf>,
    /// Where to write them: what was to be seen before each key and in the end, as text and as SVG, and all of it as a
    /// cast for asciinema.
    #[arg(long, value_name = "DIR", requires = "replay")]
    pub(super) screens: Option<PathBuf>,
    /// Their size [default: as it was].
    #[arg(long, value_name = "COLUMNSxROWS", requires = "replay", value_parser = parse_size)]
    pub(super) size: Option<(u16, u16)>,
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let parts =
        text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    parts
        .filter(|(columns, rows)| (1..=500).contains(columns) && (1..=500).contains(rows))
        .ok_or_else(|| "columns and rows, each up to 500: 120x34".to_owned())
}

#[derive(Debug, clap::Args)]
pub(super) struct ConsoleTarget {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context in it [default: its current one].
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// The namespace to show first.
    #[arg(short, long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct InstanceArgs {
    /// The running instance's data directory.
    #[arg(long, value_name = "DIR", env = "PODIUM_DATA_DIR")]
    pub(super) data_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ManifestRequest {
    #[command(flatten)]
    pub(super) instance: InstanceArgs,
    /// A file, a directory, or - (repeatable).
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    pub(super) filename: Vec<PathBuf>,
    /// Look into directories below as well.
    #[arg(short = 'R', long)]
    pub(super) recursive: bool,
    /// Only check.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// The namespace of objects that name none.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(super) namespace: String,
}
