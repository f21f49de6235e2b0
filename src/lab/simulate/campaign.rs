//! Runs many seeds, each in a process of its own, and shrinks the plan of a failing one.

use std::collections::BTreeSet;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::plan::Plan;

/// The maximum number of runs for shrinking a failing plan.
const ATTEMPTS: usize = 60;

/// The seeds of a campaign and the settings of each simulation.
#[derive(Clone, Debug)]
pub(crate) struct Campaign {
    /// The first seed; the others follow it.
    pub(crate) first: u64,
    /// The number of seeds.
    pub(crate) seeds: u64,
    /// The simulated time of each simulation.
    pub(crate) lasts: Duration,
    /// Runs each seed twice and compares the summaries, which include a hash of the trace.
    pub(crate) twice: bool,
    /// The name of the deliberate mistake that is switched on in every simulation.
    pub(crate) mistake: Option<String>,
    /// Stops at the first failure and shrinks its plan.
    pub(crate) shrink: bool,
}

/// The output and the result of one simulation's process.
struct ProcessOutput {
    failed: bool,
    text: String,
    summary: String,
}

impl Campaign {
    fn simulate(&self, seed: u64, without: &BTreeSet<usize>) -> io::Result<ProcessOutput> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["simulate", "--one", "--seed", &seed.to_string()]);
        command.args(["--duration", &format!("{}s", self.lasts.as_secs())]);
        if let Some(mistake) = &self.mistake {
            command.args(["--mistake", mistake]);
        }
        if !without.is_empty() {
            let without: Vec<String> = without.iter().map(ToString::to_string).collect();
            command.args(["--without", &without.join(",")]);
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let summary = text.lines().last().unwrap_or_default().to_owned();
        if !summary.starts_with("seed ") {
            let reason = format!("the simulation of seed {seed} ended with {}", output.status);
            return Err(io::Error::other(reason));
        }
        Ok(ProcessOutput { failed: !output.status.success(), text, summary })
    }

    /// Leaves out steps of a failing plan as long as it still fails. Returns the steps that can be left out.
    fn shrink(&self, seed: u64) -> io::Result<BTreeSet<usize>> {
        let steps = Plan::draw(seed, self.lasts).steps.len();
        let mut left: Vec<usize> = (0..steps).collect();
        let mut size = steps.div_ceil(2);
        let mut attempts = 0;
        while size > 0 && attempts < ATTEMPTS {
            let mut at = 0;
            while at < left.len() && attempts < ATTEMPTS {
                attempts += 1;
                let fewer: Vec<usize> = [&left[..at], &left[left.len().min(at + size)..]].concat();
                if self.simulate(seed, &without(steps, &fewer))?.failed {
                    left = fewer;
                } else {
                    at += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        Ok(without(steps, &left))
    }
}

fn without(steps: usize, left: &[usize]) -> BTreeSet<usize> {
    (0..steps).filter(|step| !left.contains(step)).collect()
}

/// Runs all seeds, as many at once as the machine has cores, and returns the number of failed seeds. `log_line` gets
/// each line.
pub(crate) fn run(campaign: &Campaign, log_line: impl Fn(&str) + Sync) -> io::Result<u64> {
    let next = AtomicU64::new(0);
    let failed: Mutex<Vec<u64>> = Mutex::default();
    let broken: Mutex<Option<io::Error>> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        // It suffices that one seed finds a deliberate mistake.
        let first_is_enough = campaign.shrink || campaign.mistake.is_some();
        let stops = broken.lock().is_some() || first_is_enough && !failed.lock().is_empty();
        if number >= campaign.seeds || stops {
            return;
        }
        let seed = campaign.first.wrapping_add(number);
        match one(campaign, seed) {
            Ok((is_good, output)) => {
                log_line(output.trim_end());
                if !is_good {
                    failed.lock().push(seed);
                }
            }
            Err(error) => *broken.lock() = Some(error),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    if let Some(error) = broken.into_inner() {
        return Err(error);
    }
    let failed = failed.into_inner();
    if campaign.shrink
        && let Some(seed) = failed.first()
    {
        log_line(&format!(
            "seed {seed} fails; searching for fewer steps that fail, in at most {ATTEMPTS} runs (skip with --no-shrink)"
        ));
        let without = campaign.shrink(*seed)?;
        let smallest = campaign.simulate(*seed, &without)?;
        let plan = Plan::draw(*seed, campaign.lasts);
        log_line(&format!("seed {seed} fails with these steps alone:"));
        for (_, (at, step)) in plan.steps.iter().enumerate().filter(|(number, _)| !without.contains(number)) {
            log_line(&format!("  {:>9.3} {step}", at.as_secs_f64()));
        }
        log_line(smallest.text.trim_end());
    }
    Ok(failed.len() as u64)
}

/// Runs one seed. Returns true if no rule was broken, and the lines to print.
fn one(campaign: &Campaign, seed: u64) -> io::Result<(bool, String)> {
    let nothing = BTreeSet::new();
    let output = campaign.simulate(seed, &nothing)?;
    if output.failed {
        return Ok((false, output.text));
    }
    if campaign.twice {
        let again = campaign.simulate(seed, &nothing)?;
        if again.summary != output.summary {
            let text = format!("VIOLATION of determinism:\n{}\n{}", output.summary, again.summary);
            return Ok((false, text));
        }
    }
    Ok((true, output.summary))
}
