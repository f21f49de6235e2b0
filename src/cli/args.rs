//! The commands and their arguments.

use clap::{CommandFactory, Parser, Subcommand};

use super::flags::{
    ClusterArgs, ConsoleArgs, ConsoleTarget, InstanceArgs, ManifestRequest, ReplayRequest, StartManifests,
};

/// A Kubernetes cluster in one program for one terminal.
///
/// Without a command, Podium runs the control plane and the console in this terminal.
#[derive(Debug, Parser)]
#[command(name = "podium", version, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) manifests: StartManifests,
    #[command(flatten)]
    pub(super) console: ConsoleArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the control plane and the console in this terminal (default)
    Up {
        #[command(flatten)]
        cluster: ClusterArgs,
        #[command(flatten)]
        manifests: StartManifests,
        #[command(flatten)]
        console: ConsoleArgs,
    },
    /// Develop: build images, apply manifests, and do it again whenever their files change
    Dev(Box<super::dev::DevRequest>),
    /// Run the control plane only; log to stderr, print one line to stdout when ready, and stop on SIGINT or SIGTERM
    Serve {
        #[command(flatten)]
        cluster: ClusterArgs,
        #[command(flatten)]
        manifests: StartManifests,
    },
    /// Run the console only, on any cluster in a kubeconfig
    Console {
        #[command(flatten)]
        console: ConsoleArgs,
        #[command(flatten)]
        target: ConsoleTarget,
        #[command(flatten)]
        replay: ReplayRequest,
    },
    /// Create or change objects of the running instance
    Apply(ManifestRequest),
    /// Delete objects of the running instance
    Delete(ManifestRequest),
    /// Print the running instance's kubeconfig
    Kubeconfig {
        #[command(flatten)]
        instance: InstanceArgs,
    },
    /// List this user's running nodes, with their data directories and the podium processes that own them
    Ps,
    /// Stop the instance of a data directory, and end the processes that a killed instance left there
    Stop {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Delete the cluster afterwards: its state, volumes, logs and stored images
        #[arg(long)]
        delete_data: bool,
    },
    /// Run your shell or a command inside the cluster's network, where the cluster's addresses and names work
    Shell(super::shell::ShellRequest),
    /// Print the addresses and ports at which programs of this machine reach services and pods
    Address(super::address::AddressRequest),
    /// Explain why a pod cannot connect to a destination: check names, ports, endpoints, policies and listeners, and
    /// try to connect
    #[command(alias = "connectivity")]
    WhyNotConnected(super::why::WhyRequest),
    /// Inject faults into the pods' network, components, nodes, disks, clocks and pods, and end them
    Fault {
        #[command(subcommand)]
        command: Box<super::fault::FaultCommand>,
    },
    /// Run scenarios: timed faults, checks and a score
    Scenario {
        #[command(subcommand)]
        command: super::drill::ScenarioCommand,
    },
    /// Run a scenario: the earlier name of `podium scenario run`
    #[command(hide = true)]
    Run(super::drill::RunRequest),
    /// Learn with drills: faults to find and repair, with hints and a score
    Drill {
        #[command(subcommand)]
        command: super::drill::DrillCommand,
    },
    /// Kill all processes of a node and verify their death, so that its pods and volumes can move to other nodes
    Fence(super::fence::FenceRequest),
    /// Save the whole cluster to a file, restore it, or start a second cluster from it
    Snapshot {
        #[command(subcommand)]
        command: super::snapshot::SnapshotCommand,
    },
    /// List, load, pull, push and remove images
    Image {
        #[command(subcommand)]
        command: super::image::ImageCommand,
    },
    /// Print the completion script of a shell
    Completions {
        /// Shell to print completions for
        shell: clap_complete::Shell,
    },
}

/// Prints the shell's completion script.
pub(super) fn print_completions(shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "podium", &mut script);
    super::output::print_line(String::from_utf8_lossy(&script).trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_cli_1() {
        Args::command().debug_assert();
        let args = Args::parse_from(["podium", "-f", "a", "-f", "b", "--theme", "x"]);
        assert_eq!((args.manifests.filename.len(), args.console.theme.as_deref()), (2, Some("x")));
        let Some(Command::Serve { cluster, .. }) =
            Args::parse_from(["podium", "serve", "--ephemeral", "--listen", "127.0.0.1:0"]).command
        else {
            panic!("serve is a command")
        };
        assert!(cluster.ephemeral);
        assert!(Args::try_parse_from(["podium", "--nodes", "-1"]).is_err());
    }

    /// A command for pasting reaches the instance that printed it (CLI-6).
    #[test]
    fn a_printed_command_names_its_data_directory() {
        let printed = |directory: Option<&str>| {
            InstanceArgs { data_dir: directory.map(Into::into) }.podium("fence --release node-1")
        };
        assert_eq!(printed(None), "podium fence --release node-1");
        for directory in ["/srv/d", "my data/it's"] {
            let script = format!("printf '%s\\n' {}", printed(Some(directory)));
            let words = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
            let words = String::from_utf8(words).unwrap();
            let Some(Command::Fence(request)) = Args::try_parse_from(words.lines()).unwrap().command else {
                panic!("{script}")
            };
            assert_eq!(request.instance.data_dir.as_deref(), Some(directory.as_ref()));
        }
    }

    #[test]
    fn the_spellings_of_earlier_versions_are_still_read_cli_1() {
        let read = |line: &str| Args::try_parse_from(format!("podium {line}").split(' ')).expect("valid");
        for (old, new) in [
            ("fault crash kubelet/node-1 --for 30s", "fault crash kubelet/node-1 --duration 30s"),
            ("fault latency node/a node/b --undo", "fault latency node/a node/b --heal"),
            ("fence node-1 --undo", "fence node-1 --release"),
            ("console --fresh", "console --no-restore"),
            ("serve --legacy-versions", "serve --removed-api-versions"),
            ("connectivity web db:5432", "why-not-connected web db:5432"),
        ] {
            assert_eq!(format!("{:?}", read(old)), format!("{:?}", read(new)), "{old}");
        }
        assert!(matches!(read("run s.yaml").command, Some(Command::Run(_))));
        assert!(matches!(read("scenario run s.yaml").command, Some(Command::Scenario { .. })));
    }
}
