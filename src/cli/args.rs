//! What can be said on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::cluster::{MOST_HOLLOW_NODES, MOST_NODES};

/// A Kubernetes you hold in one terminal.
///
/// Without a command: control plane and console in this terminal.
#[derive(Debug, Parser)]
#[command(name = "podium", version, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) console: ConsoleArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Control plane and console in this terminal (the default).
    Up {
        #[command(flatten)]
        cluster: ClusterArgs,
        #[command(flatten)]
        console: ConsoleArgs,
    },
    /// Control plane only: logs on stderr, one line on stdout when ready, until SIGINT or SIGTERM.
    Serve {
        #[command(flatten)]
        cluster: ClusterArgs,
    },
    /// Console only, on any cluster a kubeconfig knows.
    Console {
        #[command(flatten)]
        console: ConsoleArgs,
        #[command(flatten)]
        target: ConsoleTarget,
    },
    /// Create or change objects of the running instance.
    Apply(ManifestRequest),
    /// Delete objects of the running instance.
    Delete(ManifestRequest),
    /// Print the running instance's kubeconfig.
    Kubeconfig {
        #[command(flatten)]
        instance: InstanceArgs,
    },
    /// The nodes of this user that run, with their data directories and who claims them.
    Ps,
    /// Stop the instance of a data directory, and end what a killed one has left running there.
    Stop {
        #[command(flatten)]
        instance: InstanceArgs,
    },
    /// Images: list them, load an archive, remove a loaded one.
    Image {
        #[command(subcommand)]
        command: super::image::ImageCommand,
    },
    /// Measure this build on this machine, each figure beside a limit or a peer.
    Bench {
        /// What to measure [default: everything but the soak].
        suites: Vec<super::bench::Suite>,
        /// How long the soak takes; the first third, at most five minutes, is for settling.
        #[arg(long, default_value_t = 15.0, value_parser = minutes)]
        minutes: f64,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

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
    /// Manifests to apply once the API is up: a file, a directory, or - (repeatable).
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub(super) filename: Vec<PathBuf>,
    /// Where to write the kubeconfig [default: in the data directory].
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// What the log tells: error, warn, info, debug, trace.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: tracing::Level,
    /// Leave a component out (repeatable): scheduler, kubelet, proxy, dns, an admission plugin, or a controller.
    #[arg(long, value_name = "NAME")]
    pub(super) disable: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ConsoleArgs {
    /// The console's theme.
    #[arg(long, value_name = "NAME")]
    pub(super) theme: Option<String>,
    /// Change nothing from the console.
    #[arg(long)]
    pub(super) read_only: bool,
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

/// Prints the shell's completion script.
pub(super) fn print_completions(shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "podium", &mut script);
    super::output::say(String::from_utf8_lossy(&script).trim_end());
}

/// A positive number of minutes, at most a week.
fn minutes(text: &str) -> Result<f64, String> {
    const MOST: f64 = 7.0 * 24.0 * 60.0;
    match text.parse() {
        Ok(minutes) if minutes > 0.0 && minutes <= MOST => Ok(minutes),
        _ => Err(format!("a number of minutes above 0, at most {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_cli_1() {
        Args::command().debug_assert();
        let args = Args::parse_from(["podium", "-f", "a", "-f", "b", "--theme", "x"]);
        assert_eq!((args.cluster.filename.len(), args.console.theme.as_deref()), (2, Some("x")));
        let Some(Command::Serve { cluster }) =
            Args::parse_from(["podium", "serve", "--ephemeral", "--listen", "127.0.0.1:0"]).command
        else {
            panic!("serve is a command")
        };
        assert!(cluster.ephemeral);
        assert!(Args::try_parse_from(["podium", "--nodes", "-1"]).is_err());
    }
}
