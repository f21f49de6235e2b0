//! The command line: flags, commands, exit codes (CLI-1 … CLI-7).

mod address;
mod allocator;
pub(crate) mod apply;
mod args;
mod bench;
mod drill;
mod fault;
mod fence;
mod flags;
mod image;
mod instances;
mod logging;
mod output;
mod replay;
mod runtime;
mod serve;
mod shell;
mod signals;
mod simulate;
mod snapshot;
mod torture;
mod up;
mod why;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use console::recording::ReplayOptions;
use flags::ReplayRequest;

/// Exit code of a command that succeeded.
const DONE: u8 = 0;
/// Exit code of a command that failed; the reason is on stderr.
const FAILED: u8 = 1;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    if let Some(exit) = hidden_program() {
        return exit;
    }
    // Usage errors end here, with exit code 2.
    let args = Args::parse_from(torture::take_mistake(std::env::args_os().collect()));
    let outcome = match args.command {
        None => up::run(args.cluster, args.console),
        Some(Command::Up { cluster, console }) => up::run(cluster, console),
        Some(Command::Serve { cluster }) => serve::run(cluster),
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
        Some(Command::Stop { instance }) => instances::stop(&instance),
        Some(Command::Shell(request)) => shell::run(&request),
        Some(Command::Address(request)) => address::run(&request),
        Some(Command::WhyNotConnected(request)) => return why::run(&request),
        Some(Command::Fault { command }) => fault::run(*command),
        Some(Command::Run(request) | Command::Scenario { command: drill::ScenarioCommand::Run(request) }) => {
            return exit_of(drill::run_file(&request));
        }
        Some(Command::Drill { command }) => return exit_of(drill::run(command)),
        Some(Command::Fence(request)) => fence::run(&request),
        Some(Command::Snapshot { command }) => snapshot::run(command),
        Some(Command::Simulate(request)) => return simulate::run(&request),
        Some(Command::Torture(request)) => match torture::run(&request) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(FAILED),
            Err(error) => Err(error),
        },
        Some(Command::Image { command }) => image::run(command),
        Some(Command::Bench { suites, minutes, console }) => bench::run(&suites, minutes, &console),
        Some(Command::Completions { shell }) => {
            args::print_completions(shell);
            Ok(())
        }
    };
    exit_of(outcome.map(|()| ExitCode::from(DONE)))
}

fn exit_of(outcome: anyhow::Result<ExitCode>) -> ExitCode {
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

/// Runs the internal programs of this binary, before any thread or runtime exists, because they fork.
fn hidden_program() -> Option<ExitCode> {
    use programs::{image_program_main, is_image_program};
    let mut arguments = std::env::args_os();
    let called = PathBuf::from(arguments.next()?);
    let called = called.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let rest: Vec<OsString> = arguments.collect();
    match rest.first().and_then(|first| first.to_str()) {
        Some("node-host") => Some(host::node_host_main(rest.into_iter().skip(1))),
        Some("network-preflight") => Some(crate::cluster::network_preflight_main()),
        Some("fabric") => Some(fabric::fabric_main(rest.into_iter().skip(1))),
        Some(torture::PROGRAM) => Some(torture::hold_main(rest.into_iter().skip(1))),
        Some("bench-traffic") => Some(bench::traffic_main(rest.into_iter().skip(1))),
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
