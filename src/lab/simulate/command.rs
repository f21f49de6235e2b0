//! `podium-lab simulate`: the simulator (FAULT-3). Exit code 0: no violation found; 1: a rule was broken.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;

use super::{Campaign, Simulation, run_campaign};
use crate::trial::Trial;
use base::mistakes::Mistake;
use podium::cli::output;
use podium::cli::runtime::runtime;

/// The arguments of a simulation.
#[derive(Debug, Args)]
pub(crate) struct SimulateRequest {
    /// Seed; with --seeds, the first one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds to run, on all cores
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Simulated time of each simulation, and of each run that shrinks a failing one: 90s, 20m, 1h. Operations and
    /// faults stop three minutes before the end, or at half time if that is later
    #[arg(long, alias = "for", default_value = "5m", value_parser = duration)]
    duration: Duration,
    /// Run each seed twice and require identical results, byte for byte
    #[arg(long, alias = "meta")]
    verify_determinism: bool,
    /// Activate a deliberate mistake, which the checks must find; `list` prints the names
    #[arg(long, alias = "break", value_name = "NAME")]
    mistake: Option<String>,
    /// Do not shrink a failing seed
    #[arg(long)]
    no_shrink: bool,
    /// Write the trace of a single seed to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Test this controller instead: a shell command that finds the cluster by KUBECONFIG. For each seed it sees stale
    /// state, misses events, is killed between two writes and has requests refused, and must reach the same result as
    /// without disturbances
    #[arg(long, value_name = "COMMAND", requires = "apply",
        conflicts_with_all = ["verify_determinism", "mistake", "trace"])]
    controller: Option<String>,
    /// Manifests that the controller acts on: a file or a directory, one step each. CustomResourceDefinitions are
    /// created before it starts; all other objects are deleted at the end
    #[arg(long, value_name = "PATH", requires = "controller")]
    apply: Vec<PathBuf>,
    /// Time without changes after which the cluster counts as at rest
    #[arg(long, alias = "quiet", default_value = "2s", value_parser = duration, requires = "controller")]
    quiet_period: Duration,
    /// Time within which the controller must reach the expected result after disturbances
    #[arg(long, alias = "patience", default_value = "90s", value_parser = duration, requires = "controller")]
    recovery_timeout: Duration,
    /// Run a single simulation in this process
    #[arg(long, hide = true)]
    one: bool,
    /// Steps of the plan to leave out
    #[arg(long, hide = true, value_delimiter = ',')]
    without: Vec<usize>,
}

/// Runs the simulations. Returns true if no rule was broken.
pub(crate) fn run(request: &SimulateRequest) -> Result<bool> {
    if request.mistake.as_deref() == Some("list") {
        for mistake in Mistake::ALL {
            output::print_line(mistake.name());
        }
        return Ok(true);
    }
    if let Some(command) = &request.controller {
        let trial = Trial {
            command: command.clone(),
            steps: request.apply.clone(),
            first: request.seed,
            seeds: request.seeds,
            quiet: request.quiet_period,
            timeout: request.recovery_timeout,
            shrink: !request.no_shrink,
        };
        return Ok(runtime()?.block_on(trial.run(output::print_line))? == 0);
    }
    let mistake = request.mistake.as_deref().map(named).transpose()?;
    if request.one || request.trace.is_some() {
        return one(request, mistake);
    }
    let campaign = Campaign {
        first: request.seed,
        seeds: request.seeds,
        lasts: request.duration,
        twice: request.verify_determinism,
        mistake: request.mistake.clone(),
        shrink: !request.no_shrink,
    };
    let failed = run_campaign(&campaign, output::print_line).context("simulating")?;
    Ok(failed == 0)
}

fn named(name: &str) -> Result<Mistake> {
    Mistake::named(name).ok_or_else(|| anyhow!("unknown mistake {name:?}; --mistake list prints the names"))
}

fn one(request: &SimulateRequest, mistake: Option<Mistake>) -> Result<bool> {
    if let Some(mistake) = mistake {
        mistake.make()?;
    }
    let without: BTreeSet<usize> = request.without.iter().copied().collect();
    let simulation = Simulation { seed: request.seed, lasts: request.duration, without };
    let outcome = simulation.run().context("simulating")?;
    if let Some(path) = &request.trace {
        std::fs::write(path, &outcome.trace).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let report = outcome.report();
    if !report.is_empty() {
        output::print_line(report.trim_end());
    }
    output::print_line(&outcome.summary(request.seed));
    Ok(!outcome.has_failed())
}

/// Parses `90s`, `20m` or `1h`, at most a week.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const MAX_SECONDS: u64 = 7 * 24 * 3600;
    let refused = || "expected a duration such as 90s, 20m or 1h, above 0 and at most a week".to_owned();
    let (number, seconds) = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)]
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .ok_or_else(refused)?;
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    total.filter(|total| (1..=MAX_SECONDS).contains(total)).map(Duration::from_secs).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_given_with_their_unit_cli_1() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h"), Ok(Duration::from_hours(1)));
        for wrong in ["", "0s", "1", "h", "-1h", "8d", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
