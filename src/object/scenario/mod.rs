//! `podium.dev/v1alpha1` Scenario (FAULT-2): trouble that is made on purpose at set times, what must hold afterwards, and
//! how well somebody coped with it.
//!
//! The object is the only state: the control plane plays it, whoever watches. Two fields of its spec may change while it
//! is played, as they are how the player speaks: `hintsAsked` and `stop`.

mod runs;
mod schema;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::own_kind::own_kind;
use super::time::read_go_duration;
pub use runs::{AllScenarioRuns, RUNS_NAME, RUNS_NAMESPACE, ScenarioRun, ScenarioRuns};

/// Holds a scenario's object until what it has made is gone.
pub const SCENARIO_FINALIZER: &str = "podium.dev/scenario";
/// On what a scenario has made: the uid of the scenario. What does not bear it is not taken away.
pub const MADE_BY: &str = "podium.dev/made-by-scenario";
/// The field manager of what a scenario writes.
pub const SCENARIO_MANAGER: &str = "podium-scenario";

/// What checks are for.
pub const CHECK_KINDS: &[&str] = &["Always", "Detect", "Repair", "Trouble"];

/// How long a scenario may last unless it says so.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_mins(10);
/// How long what it is about may take to be ready.
pub const READY_LIMIT: Duration = Duration::from_mins(5);
/// All points for noticing are given within this time unless a scenario says so.
pub const DEFAULT_DETECT_WITHIN: Duration = Duration::from_mins(1);
/// All points for repairing are given within this time unless a scenario says so.
pub const DEFAULT_REPAIR_WITHIN: Duration = Duration::from_mins(5);
/// What a hint costs unless a scenario says so.
pub const DEFAULT_HINT_COST: i32 = 10;

own_kind! {
    /// Trouble that is made on purpose, and what must hold afterwards.
    Scenario "Scenario" "scenarios" "ScenarioList",
    "Scenario is trouble that is made on purpose at set times, with what must hold afterwards and a score for coping with it.",
    ScenarioSpec: "What is played; only hintsAsked and stop can be changed.",
    ScenarioStatus: "How far it is.",
}

/// What is played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioSpec {
    /// In one line.
    #[serde(default)]
    pub title: String,
    /// What the player is told at the start; `$(NAME)` stands for a variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub briefing: String,
    /// Shown one by one when they are asked for, each at a cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// Objects that it is played with, applied in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Value>,
    /// What must hold before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<ScenarioCheck>,
    /// What is looked up when it begins, for `$(NAME)` in steps and `chosen.NAME` in checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<ScenarioVariable>,
    /// What is done, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ScenarioStep>,
    /// What must hold afterwards, or all the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<ScenarioCheck>,
    /// How points are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring: Option<ScenarioScoring>,
    /// How long it may last, such as `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<String>,
    /// Whether what it has made is removed when it ends; its faults end in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_up: Option<bool>,
    /// What is said at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ScenarioVerdict>,
    /// So many hints the player has asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints_asked: Option<i32>,
    /// The player gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<bool>,
}

/// One object by its name, or several by their labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioObject {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// All namespaces without, where there is no name either; `default` where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One object; several without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Something that holds or does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioCheck {
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// One of [`CHECK_KINDS`]; none of those that are to hold before the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it is about: `object`, or `objects` where it has no name.
    #[serde(default)]
    pub object: ScenarioObject,
    /// What it is about besides, by the names of variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, ScenarioObject>,
    /// An expression in CEL.
    #[serde(default)]
    pub holds: String,
    /// It counts when it has held for so long; of what is to hold always: when it has not held for so long.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub for_: Option<String>,
}

/// Something that is looked up when a scenario begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioVariable {
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// Where it is found.
    #[serde(default)]
    pub object: ScenarioObject,
    /// An expression in CEL that comes to a text.
    #[serde(default)]
    pub value: String,
}

/// What is done at one time: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioStep {
    /// How long after the beginning, such as `10s`.
    #[serde(default)]
    pub at: String,
    /// A Fault that begins; it ends with the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScenarioFault>,
    /// The name of a fault of an earlier step that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<String>,
    /// Objects that are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<Value>,
    /// Objects that are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<ScenarioObject>,
}

/// A Fault that a step begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioFault {
    /// What it is called within the scenario; its object has the scenario's name before it.
    #[serde(default)]
    pub name: String,
    /// The spec of the Fault.
    #[serde(default)]
    pub spec: Value,
}

/// How points are given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioScoring {
    /// All points for noticing are given within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect_within: Option<String>,
    /// All points for repairing quickly are given within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_within: Option<String>,
    /// What each hint costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint_cost: Option<i32>,
}

/// What is said at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioVerdict {
    /// When it was passed: what has happened, and what there is to learn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub passed: String,
    /// When it was not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

/// How far a scenario is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScenarioPhase {
    /// Nothing has been done.
    #[default]
    Pending,
    /// What it is played with is made.
    Preparing,
    /// It is played.
    Running,
    /// What was to hold holds.
    Passed,
    /// It could not be played, was given up, or its time is over.
    Failed,
}

impl ScenarioPhase {
    /// Whether it is over.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Passed | Self::Failed)
    }
}

/// How far a scenario is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioStatus {
    /// How far it is.
    #[serde(default)]
    pub phase: ScenarioPhase,
    /// Why it is there, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What there is to say of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The briefing, with its variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    /// What was looked up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// So many objects of its setup are made.
    #[serde(default)]
    pub setup_done: i32,
    /// So many of its steps are done.
    #[serde(default)]
    pub steps_done: i32,
    /// Since when it was prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_at: Option<Time>,
    /// Since when it has been played; steps have their times from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When its first step was done, or it began without any; the player's times count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub troubled_at: Option<Time>,
    /// When the trouble was noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_at: Option<Time>,
    /// By what it was noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_by: Option<String>,
    /// When all was well again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired_at: Option<Time>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How its checks stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ScenarioCheckStatus>,
    /// So many of its hints may be read.
    #[serde(default)]
    pub hints_shown: i32,
    /// Of a hundred, when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
    /// How the score came about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ScenarioPoints>,
    /// Whether its faults have ended and what it has made is gone, as far as it is to go.
    #[serde(default)]
    pub cleaned: bool,
}

/// How a check stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioCheckStatus {
    /// Which check.
    #[serde(default)]
    pub name: String,
    /// What it is for; `Ready` of those that are to hold before the beginning.
    #[serde(default)]
    pub kind: String,
    /// Whether it holds now.
    #[serde(default)]
    pub holds: bool,
    /// Since when it has been so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Whether it has held for its time; of what is to hold always: whether it is broken.
    #[serde(default)]
    pub settled: bool,
    /// Why it does not hold, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A part of the score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioPoints {
    /// What for.
    #[serde(default)]
    pub name: String,
    /// How many; fewer than none for hints.
    #[serde(default)]
    pub points: i32,
    /// How many there could have been.
    #[serde(default)]
    pub most: i32,
    /// Why so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Scenario {
    /// How far it is.
    pub fn phase(&self) -> ScenarioPhase {
        self.status.as_ref().map(|status| status.phase).unwrap_or_default()
    }

    /// The hints that may be read.
    pub fn hints_shown(&self) -> &[String] {
        let shown = self.status.as_ref().map_or(0, |status| status.hints_shown);
        let shown = usize::try_from(shown).unwrap_or_default().min(self.spec.hints.len());
        &self.spec.hints[..shown]
    }
}

impl ScenarioSpec {
    /// How long it may last.
    pub fn time_limit(&self) -> Duration {
        self.time_limit.as_deref().and_then(read_go_duration).unwrap_or(DEFAULT_TIME_LIMIT)
    }

    /// Whether what it has made is removed at its end.
    pub fn cleans_up(&self) -> bool {
        self.clean_up.unwrap_or(true)
    }

    /// Within which times all points for noticing and for repairing are given.
    pub fn quick(&self) -> (Duration, Duration) {
        let of = |text: fn(&ScenarioScoring) -> &Option<String>, otherwise| {
            let said = self.scoring.as_ref().and_then(|scoring| text(scoring).as_deref());
            said.and_then(read_go_duration).unwrap_or(otherwise)
        };
        (
            of(|scoring| &scoring.detect_within, DEFAULT_DETECT_WITHIN),
            of(|scoring| &scoring.repair_within, DEFAULT_REPAIR_WITHIN),
        )
    }

    /// What each hint costs.
    pub fn hint_cost(&self) -> i32 {
        self.scoring.as_ref().and_then(|scoring| scoring.hint_cost).unwrap_or(DEFAULT_HINT_COST)
    }
}

impl ScenarioCheck {
    /// How long it must hold; zero where nothing is said.
    pub fn patience(&self) -> Duration {
        self.for_.as_deref().and_then(read_go_duration).unwrap_or_default()
    }

    /// What it is for.
    pub fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("Ready")
    }
}

impl ScenarioStep {
    /// How long after the beginning it is done; at once where that cannot be read.
    pub fn at(&self) -> Duration {
        read_go_duration(&self.at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scenarios_are_written_as_they_are_read_fault_2() {
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"},
            "spec": {"title": "t", "hints": ["a", "b"], "setup": [{"kind": "ConfigMap"}],
                "steps": [{"at": "10s", "fault": {"name": "f", "spec": {"type": "Crash"}}}],
                "check": [{"name": "c", "kind": "Repair", "object": {"apiVersion": "v1", "kind": "Pod"},
                    "holds": "true", "for": "5s"}]},
            "status": {"phase": "Running", "setupDone": 1, "stepsDone": 0, "hintsShown": 1, "cleaned": false}});
        let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&scenario).unwrap(), value);
        assert_eq!(scenario.hints_shown(), ["a"]);
        assert_eq!(scenario.spec.check[0].patience(), Duration::from_secs(5));
        assert_eq!(scenario.spec.steps[0].at(), Duration::from_secs(10));
        assert_eq!(scenario.spec.quick(), (DEFAULT_DETECT_WITHIN, DEFAULT_REPAIR_WITHIN));
        assert_eq!(serde_json::from_value::<Scenario>(json!({"metadata": {}})).unwrap(), Scenario::default());
    }
}
