//! The command line: flags, commands, exit codes (CLI-1 … CLI-7).

mod address;
mod allocator;
pub(crate) mod apply;
mod args;
mod dev;
mod drill;
mod fault;
mod fence;
mod flags;
mod image;
mod instances;
mod logging;
pub mod output;
mod replay;
pub mod runtime;
mod serve;
mod shell;
mod signals;
mod snapshot;
mod up;
mod user_ids;
mod why;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use args::{Args, Command};
use console::recording::ReplayOptions;
use flags::ReplayRequest;

/// Exit code of a command that succeeded.
const DONE: u8 = 0;
/// Exit code of a command that failed; the reason is on stderr.
const FAILED: u8 = 1;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    internal_program(&arguments).unwrap_or_else(|| run(arguments))
}

/// Returns the definition of the command line, for its man page.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs a command line, of which the first argument is the program's name.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    // Usage errors end here, with exit code 2.
    let args = Args::parse_from(arguments);
    let outcome = match args.command {
        None => up::run(args.cluster, args.manifests, args.console),
        Some(Command::Up { cluster, manifests, console }) => up::run(cluster, manifests, console),
        Some(Command::Dev(request)) => dev::run(*request),
        Some(Command::Serve { cluster, manifests }) => serve::run(cluster, manifests),
        Some(Command::Console {
            console,
            replay: ReplayRequest { replay: Some(file), screens: Some(to), size },
            ..
        }) => replay::run(&file, &to, &ReplayOptions { size, theme: console.theme }),
        Some(Command::Console { console, target, .. }) => up::console_only(console, &target),
        Some(Command::Apply(request)) => apply::apply(&request),
        Some(Command::Delete(request)) => apply::delete(&request),
        Some(Command::Kubeconfig { instance }) => apply::print_kubeconfig(&instance),
        Some(Command::Ps) => {
            instances::list();
            Ok(())
        }
        Some(Command::Stop { instance, delete_data }) => instances::stop(&instance, delete_data),
        Some(Command::Shell(request)) => shell::run(&request),
        Some(Command::Address(request)) => address::run(&request),
        Some(Command::WhyNotConnected(request)) => return why::run(&request),
        Some(Command::Fault { command }) => fault::run(*command),
        Some(Command::Run(request) | Command::Scenario { command: drill::ScenarioCommand::Run(request) }) => {
            return exit_code(drill::run_file(&request));
        }
        Some(Command::Drill { command }) => return exit_code(drill::run(command)),
        Some(Command::Fence(request)) => fence::run(&request),
        Some(Command::Snapshot { command }) => snapshot::run(command),
        Some(Command::Image { command }) => image::run(command),
        Some(Command::Completions { shell }) => {
            args::print_completions(shell);
            Ok(())
        }
    };
    exit_code(outcome.map(|()| ExitCode::from(DONE)))
}

/// Returns a command's exit code; prints its error.
pub fn exit_code(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        output::eprint_line(&format!("podium: {}", error_line(&error)));
        ExitCode::from(FAILED)
    })
}

/// Formats an error and its causes in one line; omits a cause that its error already contains.
fn error_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Runs the internal program that the arguments name, if they name one. No thread or runtime may exist, because these
/// programs fork.
#[must_use]
pub fn internal_program(arguments: &[OsString]) -> Option<ExitCode> {
    use programs::{image_program_main, is_image_program};
    let (called, rest) = arguments.split_first()?;
    let called = Path::new(called).file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let rest = rest.to_vec();
    match rest.first().and_then(|first| first.to_str()) {
        Some("node-host") => Some(host::node_host_main(rest.into_iter().skip(1))),
        Some("network-preflight") => Some(cluster::network_preflight_main()),
        Some("fabric") => Some(fabric::fabric_main(rest.into_iter().skip(1))),
        Some("image-program") => Some(image_program_main(rest.into_iter().skip(1))),
        _ if is_image_program(&called) => {
            Some(image_program_main(std::iter::once(OsString::from(called)).chain(rest)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::error_line;

    #[test]
    fn an_error_line_does_not_repeat_a_cause_cli_6() {
        let busy = || anyhow!("address in use");
        assert_eq!(
            error_line(&busy().context("cannot listen: address in use; choose another")),
            "cannot listen: address in use; choose another"
        );
        assert_eq!(error_line(&busy().context("cannot listen")), "cannot listen: address in use");
    }
}
