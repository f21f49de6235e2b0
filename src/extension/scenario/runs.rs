//! Records of past scenario runs (FAULT-2).
//!
//! A cluster stores them in a ConfigMap, with a key for each scenario's name, because a Scenario's object is deleted
//! before it is played again. Players read them there; only the control plane writes them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Scenario, ScenarioPhase, ScenarioSpec};
use base::hex::hex;
use base::sort::{CollectMap, SliceOrder};

/// The namespace of the ConfigMap of runs.
pub const RUNS_NAMESPACE: &str = "kube-system";
/// The name of the ConfigMap of runs.
pub const RUNS_NAME: &str = "podium-scenario-runs";

/// The maximum number of runs stored for one name: the best one and the newest.
const MAX_RUNS: usize = 20;
/// The maximum number of names stored: those played last.
const MAX_NAMES: usize = 64;

/// One run of a scenario from start to end. A scenario that ended before it started has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioRun {
    /// The uid of its object.
    pub uid: String,
    /// The fingerprint of the spec ([`ScenarioSpec::fingerprint`]): only runs with equal fingerprints can be compared.
    pub played: String,
    /// The start.
    pub started_at: Time,
    /// The end.
    pub ended_at: Time,
    /// The scenario was passed.
    pub passed: bool,
    /// The reason of its end, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The score, of at most one hundred.
    pub score: i32,
    /// The time until the player detected the fault, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect_seconds: Option<u64>,
    /// The time until the repair, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_seconds: Option<u64>,
    /// The number of hints used.
    #[serde(default)]
    pub hints: i32,
}

impl ScenarioRun {
    /// Returns the run in a scenario's status; `None` if the scenario has not ended, or never started.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let status = scenario.status.as_ref().filter(|status| status.phase.has_ended())?;
        let since = |at: &Option<Time>| {
            let (at, troubled) = (at.as_ref()?.0, status.troubled_at.as_ref()?.0);
            u64::try_from(at.duration_since(troubled).as_secs()).ok()
        };
        Some(Self {
            uid: scenario.metadata.uid.clone()?,
            played: scenario.spec.fingerprint(),
            started_at: status.started_at.clone()?,
            ended_at: status.ended_at.clone()?,
            passed: status.phase == ScenarioPhase::Passed,
            reason: status.reason.clone(),
            score: status.score.unwrap_or_default().clamp(0, 100),
            detect_seconds: since(&status.detected_at),
            repair_seconds: since(&status.repaired_at),
            hints: status.hints_shown.max(0),
        })
    }

    /// Returns true if this run was better than another. Compared in this order: passed or failed, points, hints, time
    /// until the repair.
    pub fn is_better_than(&self, other: &Self) -> bool {
        let quick = |run: &Self| std::cmp::Reverse(run.repair_seconds.unwrap_or(u64::MAX));
        let rank = |run: &Self| (run.passed, run.score, std::cmp::Reverse(run.hints), quick(run));
        rank(self) > rank(other)
    }

    /// Returns `88 of 100, with 1 hint`, or `failed`.
    pub fn summary(&self) -> String {
        let hints = match self.hints {
            ..=0 => String::new(),
            1 => ", with 1 hint".to_owned(),
            more => format!(", with {more} hints"),
        };
        if self.passed { format!("{} of 100{hints}", self.score) } else { format!("failed{hints}") }
    }

    /// Returns the time of its end to the minute: `2026-11-21 08:30 UTC`.
    pub fn date(&self) -> String {
        self.ended_at.0.strftime("%Y-%m-%d %H:%M UTC").to_string()
    }
}

/// The runs of one scenario name, newest last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScenarioRuns(Vec<ScenarioRun>);

impl ScenarioRuns {
    /// Returns all stored runs, newest last.
    pub fn all(&self) -> &[ScenarioRun] {
        &self.0
    }

    /// Returns the newest run.
    pub fn last(&self) -> Option<&ScenarioRun> {
        self.0.last()
    }

    /// Returns the best run of the version played last; runs of an earlier version of the scenario do not count.
    pub fn best(&self) -> Option<&ScenarioRun> {
        best(self.0.iter().filter(|run| Some(&run.played) == self.last().map(|last| &last.played)))
    }

    /// Returns the best run of the same version that ended before this one started.
    pub fn best_before(&self, run: &ScenarioRun) -> Option<&ScenarioRun> {
        let earlier = |one: &&ScenarioRun| {
            one.uid != run.uid && one.played == run.played && one.ended_at.0 <= run.ended_at.0
        };
        best(self.0.iter().filter(earlier))
    }

    /// Adds a run, replacing an earlier record of the same run.
    pub fn add(&mut self, run: ScenarioRun) {
        self.0.retain(|known| known.uid != run.uid);
        self.0.push(run);
        self.0.order_by(|one, other| (one.ended_at.0, &one.uid).cmp(&(other.ended_at.0, &other.uid)));
        let best = self.best().map(|best| best.uid.clone());
        while self.0.len() > MAX_RUNS {
            let oldest = self.0.iter().position(|run| Some(&run.uid) != best.as_ref());
            self.0.remove(oldest.unwrap_or_default());
        }
    }
}

/// Returns the best run; the earliest of equals.
fn best<'a>(runs: impl Iterator<Item = &'a ScenarioRun>) -> Option<&'a ScenarioRun> {
    runs.reduce(|known, run| if run.is_better_than(known) { run } else { known })
}

/// The runs of all scenarios, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllScenarioRuns(BTreeMap<String, ScenarioRuns>);

impl AllScenarioRuns {
    /// Reads a ConfigMap's data, ignoring invalid entries.
    pub fn of_data(data: &BTreeMap<String, String>) -> Self {
        let mut all = Self::default();
        for (name, text) in data {
            #[expect(
                clippy::disallowed_methods,
                reason = "a user can edit the ConfigMap; invalid entries are ignored"
            )]
            let runs: Vec<ScenarioRun> = base::json::from_str(text).unwrap_or_default();
            for run in runs {
                all.add(name, run);
            }
        }
        all
    }

    /// Returns the data for a ConfigMap.
    pub fn to_data(&self) -> BTreeMap<String, String> {
        let text = |runs: &ScenarioRuns| serde_json::to_string(runs).expect("runs are JSON");
        self.0.iter().map(|(name, runs)| (name.clone(), text(runs))).collect_map()
    }

    /// Returns the runs of a name.
    pub fn of(&self, name: &str) -> Option<&ScenarioRuns> {
        self.0.get(name)
    }

    /// Adds a run of this name. If there are too many names, drops the one not played for the longest time.
    pub fn add(&mut self, name: &str, run: ScenarioRun) {
        self.0.entry(name.to_owned()).or_default().add(run);
        while self.0.len() > MAX_NAMES {
            let ended = |runs: &ScenarioRuns| runs.last().map(|run| run.ended_at.0);
            let Some(oldest) = self.0.iter().min_by_key(|(_, runs)| ended(runs)) else { return };
            let oldest = oldest.0.clone();
            self.0.remove(&oldest);
        }
    }

    /// Adds the runs of another record.
    pub fn merge(&mut self, other: &Self) {
        for (name, runs) in &other.0 {
            for run in runs.all() {
                self.add(name, run.clone());
            }
        }
    }
}

impl ScenarioSpec {
    /// Returns a hash that is equal for specs that play alike: the player's requests during play do not count.
    pub fn fingerprint(&self) -> String {
        let spec = Self { hints_requested: None, stop: None, ..self.clone() };
        let text = serde_json::to_string(&spec).expect("a scenario is JSON");
        let mut digest = hex(Sha256::digest(text));
        digest.truncate(16);
        digest
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(uid: &str, minute: usize, score: i32, hints: i32) -> ScenarioRun {
        let time = |second: usize| format!("2026-11-21T{:02}:{:02}:{second:02}Z", minute / 60, minute % 60);
        serde_json::from_value(json!({"uid": uid, "played": "p", "startedAt": time(0), "endedAt": time(30),
            "passed": score > 0, "score": score, "hints": hints, "repairSeconds": 20}))
        .unwrap()
    }

    #[test]
    fn the_best_of_several_runs_stays_however_many_follow_fault_2() {
        let mut runs = ScenarioRuns::default();
        assert_eq!((runs.best(), runs.last()), (None, None));
        runs.add(run("first", 0, 60, 0));
        runs.add(run("best", 1, 90, 1));
        for number in 2..100 {
            runs.add(run(&format!("r{number}"), number, 50, 0));
        }
        assert_eq!(runs.all().len(), MAX_RUNS);
        assert_eq!(runs.best().unwrap().uid, "best");
        assert_eq!(runs.last().unwrap().uid, "r99");
        assert_eq!(runs.all()[1].uid, "r81", "of the others the oldest go");
        // Adding the same run again changes nothing.
        let before = runs.clone();
        runs.add(run("r99", 99, 50, 0));
        assert_eq!(runs, before);
    }

    #[test]
    fn better_is_passed_then_points_then_fewer_hints_then_sooner_fault_2() {
        let quick = ScenarioRun { repair_seconds: Some(5), ..run("q", 0, 80, 0) };
        let order = [run("f", 0, 0, 0), run("a", 0, 70, 0), run("b", 0, 80, 1), run("c", 0, 80, 0), quick];
        for (index, one) in order.iter().enumerate() {
            for (other_index, other) in order.iter().enumerate() {
                assert_eq!(one.is_better_than(other), index > other_index, "{} {}", one.uid, other.uid);
            }
        }
        let mut runs = ScenarioRuns::default();
        runs.add(run("one", 0, 80, 0));
        runs.add(run("same", 1, 80, 0));
        assert_eq!(runs.best().unwrap().uid, "one", "an equal later run is not better");
        assert_eq!(runs.best_before(&runs.all()[0].clone()), None);
        assert_eq!(runs.best_before(&runs.all()[1].clone()).unwrap().uid, "one");
        // A changed scenario has no best run yet.
        let other = ScenarioRun { played: "other".into(), ..run("other", 2, 10, 0) };
        assert_eq!(runs.best_before(&other), None);
        runs.add(other);
        assert_eq!(runs.best().unwrap().uid, "other");
    }

    #[test]
    fn runs_of_two_stores_are_merged_and_broken_data_is_ignored_fault_2() {
        let mut one = AllScenarioRuns::default();
        one.add("a", run("x", 0, 10, 0));
        let mut other = AllScenarioRuns::default();
        other.add("a", run("y", 1, 20, 0));
        other.add("b", run("z", 2, 30, 2));
        let mut both = one.clone();
        both.merge(&other);
        let mut reverse = other.clone();
        reverse.merge(&one);
        assert_eq!(both, reverse);
        assert_eq!(AllScenarioRuns::of_data(&both.to_data()), both);
        let mut data = both.to_data();
        data.insert("broken".into(), "[{".into());
        data.insert("strange".into(), r#"[{"uid": 7}]"#.into());
        assert_eq!(AllScenarioRuns::of_data(&data), both);
        for number in 3..200 {
            both.add(&format!("n{number}"), run("u", number, 1, 0));
        }
        assert_eq!(both.to_data().len(), MAX_NAMES);
        assert!(both.of("a").is_none() && both.of("n199").is_some());
        let bytes: usize = both.to_data().values().map(String::len).sum();
        assert!(bytes * MAX_RUNS < 1 << 20, "a ConfigMap takes no more");
    }

    #[test]
    fn a_run_is_what_the_status_of_one_that_is_over_says_fault_2() {
        let of = |status: serde_json::Value| -> Scenario {
            serde_json::from_value(json!({"metadata": {"name": "s", "uid": "u"},
                "spec": {"title": "t", "hintsAsked": 2}, "status": status}))
            .unwrap()
        };
        let at = |second: usize| format!("2026-11-21T00:00:{second:02}Z");
        let passed =
            of(json!({"phase": "Passed", "reason": "Repaired", "startedAt": at(0), "troubledAt": at(10),
            "detectedAt": at(12), "repairedAt": at(30), "endedAt": at(35), "score": 77, "hintsShown": 2}));
        let run = ScenarioRun::of(&passed).unwrap();
        assert_eq!((run.passed, run.score, run.hints), (true, 77, 2));
        assert_eq!((run.detect_seconds, run.repair_seconds), (Some(2), Some(20)));
        assert_eq!(run.summary(), "77 of 100, with 2 hints");
        assert_eq!(run.date(), "2026-11-21 00:00 UTC");
        let unasked = ScenarioSpec { title: "t".into(), ..ScenarioSpec::default() };
        assert_eq!(run.played, unasked.fingerprint());
        assert_ne!(run.played, ScenarioSpec::default().fingerprint());
        let given_up =
            of(json!({"phase": "Failed", "reason": "GivenUp", "startedAt": at(0), "endedAt": at(5)}));
        let run = ScenarioRun::of(&given_up).unwrap();
        assert_eq!((run.summary().as_str(), run.detect_seconds), ("failed", None));
        assert_eq!(ScenarioRun::of(&of(json!({"phase": "Running", "startedAt": at(0)}))), None);
        assert_eq!(
            ScenarioRun::of(&of(json!({"phase": "Failed", "endedAt": at(5)}))),
            None,
            "it never began"
        );
    }
}
