//! The commands of `podium-lab`, and its internal programs.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use podium::cli::exit_code;

use crate::{bench, simulate, torture};

/// Exit code of an instrument that found a violation.
const VIOLATED: u8 = 1;

/// Instruments that test and measure Podium.
#[derive(Debug, Parser)]
#[command(name = "podium-lab", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate the control plane under virtual time with faults drawn from a seed, and check the answers to its
    /// clients
    Simulate(simulate::SimulateRequest),
    /// Kill, freeze and cut off a real instance repeatedly, and check that nothing ran twice and nothing was lost
    Torture(torture::TortureRequest),
    /// Measure the `podium` beside this program; most figures stand beside a limit of the same run or a recorded figure
    Bench {
        /// Suites to run [default: all but the soak]
        suites: Vec<bench::Suite>,
        /// Length of the soak in minutes; growth in its first third, at most five minutes, does not count
        #[arg(long, default_value_t = 15.0, value_parser = minutes)]
        minutes: f64,
        #[command(flatten)]
        console: bench::ConsoleSizes,
    },
    /// Print the man page of podium, for packages
    Man,
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let rest = arguments.iter().skip(2).cloned();
    match arguments.get(1).and_then(|first| first.to_str()) {
        Some(torture::HOLD_PROGRAM) => return torture::hold_main(rest),
        Some(torture::SERVE_PROGRAM) => return torture::serve_main(rest),
        Some(bench::TRAFFIC_PROGRAM) => return bench::traffic_main(rest),
        _ => {}
    }
    // The control plane of `torture-serve` starts its hosts with this program.
    if let Some(exit) = podium::cli::internal_program(&arguments) {
        return exit;
    }
    // Usage errors end here, with exit code 2.
    let command = Args::parse_from(arguments).command;
    // Instances that an ordinary user starts leave files of subordinate ids, which are to be removed at the end. A run
    // with a single id is of use, too; each instance logs why.
    let _ = base::subordinate_ids::start_over(&[]);
    exit_code(match command {
        Command::Simulate(request) => simulate::run_command(&request).map(passed),
        Command::Torture(request) => torture::run(&request).map(passed),
        Command::Bench { suites, minutes, console } => {
            bench::run(&suites, minutes, &console).map(|()| ExitCode::SUCCESS)
        }
        Command::Man => print_man_page().map(|()| ExitCode::SUCCESS),
    })
}

/// Prints the man page of `podium` in roff.
fn print_man_page() -> anyhow::Result<()> {
    Ok(clap_mangen::Man::new(podium::cli::command()).render(&mut std::io::stdout())?)
}

/// Returns the exit code of an instrument.
fn passed(without_violation: bool) -> ExitCode {
    if without_violation { ExitCode::SUCCESS } else { ExitCode::from(VIOLATED) }
}

/// Parses a positive number of minutes, at most a week.
fn minutes(text: &str) -> Result<f64, String> {
    const MAX_MINUTES: f64 = 7.0 * 24.0 * 60.0;
    match text.parse() {
        Ok(minutes) if minutes > 0.0 && minutes <= MAX_MINUTES => Ok(minutes),
        _ => Err(format!("expected a number of minutes above 0, at most {MAX_MINUTES}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_cli_1() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_spellings_of_earlier_versions_are_still_read_cli_1() {
        let read = |line: &str| Args::try_parse_from(format!("podium-lab {line}").split(' ')).expect("valid");
        for (old, new) in [
            ("simulate --for 2m --meta", "simulate --duration 2m --verify-determinism"),
            ("simulate --break list", "simulate --mistake list"),
            (
                "simulate --controller c --apply a --quiet 1s --patience 5s",
                "simulate --controller c --apply a --quiet-period 1s --recovery-timeout 5s",
            ),
            ("torture --for 1m --break lost-write", "torture --duration 1m --mistake lost-write"),
        ] {
            assert_eq!(format!("{:?}", read(old)), format!("{:?}", read(new)), "{old}");
        }
    }
}
