//! Trials of a user's controller (FAULT-3): the controller runs as a separate process against a cluster in this
//! process. The trial delivers stale state to it, hides states from it, kills it between two of its writes and refuses
//! some of them. In the end the cluster must have the same state as without these disturbances.
//!
//! `plan` draws the disturbances, `process` is the controller, `state` is the final state and the comparison of two,
//! `run` combines them. Two undisturbed runs distinguish a controller's random results from wrong ones: fields that
//! differ between these two runs are not compared.

mod plan;
mod process;
mod run;
mod state;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use base::count::counted;
use cluster::apply::{Depth, read_files};
use manifest::Document;
use object::time::go_duration;
use plan::{Disturbance, Plan, WatchedResource};
use run::{RunProblem, RunResult};
use state::{Mask, State};

/// The maximum number of times that the two undisturbed runs are repeated with twice the quiet period, because they
/// ended with different objects.
const LONGER: u32 = 2;
/// The maximum number of runs for shrinking a failing plan.
const ATTEMPTS: usize = 24;
/// The maximum number of differences in a report.
const MAX_DIFFERENCES: usize = 20;

/// The parameters of a trial.
pub(crate) struct Trial {
    /// The controller's command line for `sh -c`. It finds the cluster by `KUBECONFIG`.
    pub(crate) command: String,
    /// Files or directories of manifests, one per step. Each is applied when the cluster is at rest after the previous
    /// step.
    pub(crate) steps: Vec<PathBuf>,
    /// The first seed.
    pub(crate) first: u64,
    /// The number of seeds.
    pub(crate) seeds: u64,
    /// The time without changes after which the cluster is at rest.
    pub(crate) quiet: Duration,
    /// The time that a step may take to reach its expected state after its last disturbance.
    pub(crate) timeout: Duration,
    /// Stops at the first failure and shrinks its plan.
    pub(crate) shrink: bool,
}

/// The expected states at rest: after each step, and after everything was deleted.
struct ExpectedStates {
    states: Vec<State>,
    masks: Vec<Mask>,
}

impl ExpectedStates {
    /// Describes the differences, line by line.
    fn differences(&self, moment: usize, found: &State) -> Vec<String> {
        match (self.states.get(moment), self.masks.get(moment)) {
            (Some(expected), Some(mask)) => expected.differences(found, mask),
            _ => Vec::new(),
        }
    }
}

/// The manifests of a trial.
struct Manifests {
    /// CustomResourceDefinitions, applied before the controller starts.
    definitions: Vec<Document>,
    /// All other manifests, step by step.
    steps: Vec<Vec<Document>>,
}

impl Trial {
    /// Runs the trial, and passes a report of its progress to `log_line`, line by line. Returns the number of seeds
    /// with differences.
    pub(crate) async fn run(mut self, log_line: impl Fn(&str)) -> Result<u64> {
        let manifests = self.read()?;
        let (expected, writes, watched) = self.expected(&manifests, &log_line).await?;
        log_line(&format!(
            "at most {}, {} of the controller, watches of {}",
            counted(expected.states.iter().map(State::len).max().unwrap_or_default(), "object"),
            counted(writes.iter().sum::<u32>(), "write"),
            watched.iter().map(|(resource, _)| resource.as_str()).collect::<Vec<_>>().join(", "),
        ));
        let by_chance: BTreeSet<String> = expected.masks.iter().flat_map(Mask::uncompared).collect();
        for left_out in by_chance {
            log_line(&format!("not compared, because two undisturbed runs differ: {left_out}"));
        }
        let mut failed = 0;
        for seed in self.first..self.first.saturating_add(self.seeds) {
            let plan = Plan::draw(seed, &writes, &watched);
            let found = self.differences(&manifests, &plan, &expected).await?;
            let differences = counted(found.len(), "difference");
            log_line(&format!("seed {seed}: {differences}, {}", plan.summary()));
            if found.is_empty() {
                continue;
            }
            failed += 1;
            if !self.shrink {
                log_line(report("disturbances:", &plan, &found).trim_end());
                continue;
            }
            let (plan, found) = self.shrunk(&manifests, plan, found, &expected).await?;
            log_line(report("smallest set of disturbances that fails:", &plan, &found).trim_end());
            break;
        }
        Ok(failed)
    }

    fn read(&self) -> Result<Manifests> {
        ensure!(!self.steps.is_empty(), "a trial needs at least one file to apply (--apply)");
        let mut manifests = Manifests { definitions: Vec::new(), steps: Vec::new() };
        for path in &self.steps {
            let documents = read_files(std::slice::from_ref(path), Depth::Recursive)?;
            ensure!(!documents.is_empty(), "{}: nothing to apply", path.display());
            let is_definition = |document: &Document| document.value["kind"] == "CustomResourceDefinition";
            let (definitions, rest): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_definition);
            manifests.definitions.extend(definitions);
            if !rest.is_empty() {
                manifests.steps.push(rest);
            }
        }
        ensure!(
            !manifests.steps.is_empty(),
            "the files contain only definitions; add an object for the controller"
        );
        Ok(manifests)
    }

    /// Determines the expected states without disturbances, the controller's number of writes in each step, and the
    /// resources it watches. If the two runs differ by whole objects, the controller probably pauses for longer than
    /// the quiet period, and the runs are repeated with a longer one.
    async fn expected(
        &mut self,
        manifests: &Manifests,
        log_line: &impl Fn(&str),
    ) -> Result<(ExpectedStates, Vec<u32>, BTreeSet<WatchedResource>)> {
        log_line("running twice without disturbances …");
        for attempt in 0.. {
            let first = self.undisturbed(manifests).await?;
            let second = self.undisturbed(manifests).await?;
            let masks: Vec<Mask> =
                first.states.iter().zip(&second.states).map(|(one, other)| Mask::of(one, other)).collect();
            if attempt < LONGER && masks.iter().any(Mask::is_of_objects) {
                self.quiet *= 2;
                let quiet = go_duration(self.quiet);
                log_line(&format!(
                    "the runs end with different objects; repeating them with --quiet-period {quiet} …"
                ));
                continue;
            }
            let RunResult { states, writes, watched, .. } = first;
            return Ok((ExpectedStates { states, masks }, writes, watched));
        }
        bail!("the cluster does not come to rest")
    }

    async fn undisturbed(&self, manifests: &Manifests) -> Result<RunResult> {
        let reached = run::run(self, manifests, &Plan::default(), None).await?;
        if let Some(seen) = reached.problems.first() {
            bail!("the controller fails without disturbances: {seen}");
        }
        Ok(reached)
    }

    /// Runs a plan and returns the differences from the undisturbed state.
    async fn differences(
        &self,
        manifests: &Manifests,
        plan: &Plan,
        expected: &ExpectedStates,
    ) -> Result<Vec<String>> {
        let reached =
            run::run(self, manifests, plan, Some(expected)).await.context("cannot run with disturbances")?;
        let mut found: Vec<String> = reached.problems.iter().map(RunProblem::to_string).collect();
        for (moment, state) in reached.states.iter().enumerate() {
            let place = match moment + 1 {
                last if last == expected.states.len() => "after the deletion of all objects".to_owned(),
                step => format!("after step {step}"),
            };
            let lines = expected.differences(moment, state).into_iter();
            found.extend(lines.map(|line| format!("{place}: {line}")));
        }
        Ok(found)
    }

    /// Leaves out disturbances while the plan still fails without them. Returns the shortened plan.
    async fn shrunk(
        &self,
        manifests: &Manifests,
        mut plan: Plan,
        mut found: Vec<String>,
        expected: &ExpectedStates,
    ) -> Result<(Plan, Vec<String>)> {
        let mut at = 0;
        for _ in 0..ATTEMPTS {
            if at >= plan.disturbances.len() || plan.disturbances.len() == 1 {
                break;
            }
            let mut fewer = plan.clone();
            fewer.disturbances.remove(at);
            let still = self.differences(manifests, &fewer, expected).await?;
            if still.is_empty() {
                at += 1;
            } else {
                (plan, found) = (fewer, still);
            }
        }
        Ok((plan, found))
    }
}

/// Describes the disturbances and the resulting state.
fn report(heading: &str, plan: &Plan, found: &[String]) -> String {
    let mut text = format!("{heading}\n");
    for (number, disturbance) in plan.disturbances.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", number + 1, Disturbance::to_string(disturbance));
    }
    text.push_str("differences:\n");
    for line in found.iter().take(MAX_DIFFERENCES) {
        let _ = writeln!(text, "  {line}");
    }
    if found.len() > MAX_DIFFERENCES {
        let _ = writeln!(text, "  … and {} more", found.len() - MAX_DIFFERENCES);
    }
    text
}
