//! The commands.

use clap::{CommandFactory, Parser, Subcommand};

use super::flags::{ClusterArgs, ConsoleArgs, ConsoleTarget, InstanceArgs, ManifestRequest, ReplayRequest};

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
        #[command(flatten)]
        replay: ReplayRequest,
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
    /// Your shell, or a command, inside the cluster's network: every address and name of the cluster works.
    Shell(super::shell::ShellRequest),
    /// Print the addresses of services and pods for programs of this machine: addresses of 127.0.0.0/8 and ports.
    Address(super::address::AddressRequest),
    /// Explain why a pod cannot connect to a destination: names, ports, endpoints, policies, listeners, and a try.
    WhyNotConnected(super::why::WhyRequest),
    /// Break the pods' network, components, nodes, disks, clocks and pods on purpose, and heal them.
    Fault {
        #[command(subcommand)]
        command: Box<super::fault::FaultCommand>,
    },
    /// Play a scenario: trouble at set times, what must hold afterwards, and a score; exits 0 when it was passed.
    Run(super::drill::RunRequest),
    /// Drills that teach: trouble to find and repair, with hints and a verdict.
    Drill {
        #[command(subcommand)]
        command: super::drill::DrillCommand,
    },
    /// Kill the processes of a node for certain, so that its pods and volumes may go elsewhere.
    Fence(super::fence::FenceRequest),
    /// The whole cluster kept in a file, brought back from it, or begun anew elsewhere.
    Snapshot {
        #[command(subcommand)]
        command: super::snapshot::SnapshotCommand,
    },
    /// The control plane under virtual time with faults, all from a seed; checks what clients were told.
    Simulate(super::simulate::SimulateRequest),
    /// An instance of its own on real processes, killed, frozen and cut again and again; checks that nothing ran twice and nothing was lost.
    Torture(super::torture::TortureRequest),
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
        #[command(flatten)]
        console: super::bench::ConsoleSizes,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
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
