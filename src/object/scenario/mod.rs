//! `podium.dev/v1alpha1` Scenario (FAULT-2): faults at set times, checks of the state afterwards, and a score for the
//! player.
//!
//! The object is the only state: the control plane plays it, with or without a viewer. Two fields of its spec may
//! change during play, because the player's requests are made through them: the number of requested hints and `stop`.

mod runs;
mod schema;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::podium_kind::own_kind;
use super::time::read_go_duration;
pub use runs::{AllScenarioRuns, RUNS_NAME, RUNS_NAMESPACE, ScenarioRun, ScenarioRuns};

/// The finalizer that keeps a scenario's object until everything it created is deleted.
pub const SCENARIO_FINALIZER: &str = "podium.dev/scenario";
/// The annotation with the scenario's uid on the objects that it created. Only these are deleted at its end.
pub const CREATED_BY: &str = "podium.dev/made-by-scenario";
/// The field manager of a scenario's writes.
pub const SCENARIO_MANAGER: &str = "podium-scenario";

/// The purposes of checks.
pub const CHECK_KINDS: &[&str] = &["Always", "Detect", "Repair", "Trouble"];

/// The default time limit of a scenario.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_mins(10);
/// The time limit for the objects of a scenario to become ready.
pub const READY_LIMIT: Duration = Duration::from_mins(5);
/// The default time within which detection gets full points.
pub const DEFAULT_DETECT_WITHIN: Duration = Duration::from_mins(1);
/// The default time within which repair gets full points.
pub const DEFAULT_REPAIR_WITHIN: Duration = Duration::from_mins(5);
/// The default cost of a hint.
pub const DEFAULT_HINT_COST: i32 = 10;

own_kind! {
    /// Causes faults on purpose and checks the state afterwards.
    Scenario "Scenario" "scenarios" "ScenarioList",
    "Scenario causes faults at set times, checks the cluster's state afterwards, and gives the player a score.",
    ScenarioSpec: "spec is the script of the scenario; only hintsAsked and stop can be changed.",
    ScenarioStatus: "status reports the progress of the scenario.",
}

/// The script of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioSpec {
    /// The title, in one line.
    #[serde(default)]
    pub title: String,
    /// The introduction for the player; `$(NAME)` stands for a variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub briefing: String,
    /// The hints, revealed one by one on request, each at a cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// Objects applied at the start, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Value>,
    /// Checks that must hold before the faults start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<ScenarioCheck>,
    /// Values looked up at the start, for `$(NAME)` in steps and `chosen.NAME` in checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<ScenarioVariable>,
    /// The actions and their times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ScenarioStep>,
    /// Checks that must hold at the end, or all the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<ScenarioCheck>,
    /// The rules of the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring: Option<ScenarioScoring>,
    /// The time limit, such as `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<String>,
    /// Deletes the objects that the scenario created when it ends; its faults end in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_up: Option<bool>,
    /// The texts at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ScenarioVerdict>,
    /// The number of hints the player has requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "hintsAsked")]
    pub hints_requested: Option<i32>,
    /// Set by the player to give up.
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
    /// The namespace. If not set: all namespaces for several objects, `default` for a named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of one object; if not set, `selector` selects several objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Selects among several objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A condition on the cluster's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioCheck {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// One of [`CHECK_KINDS`]; not set for the checks in `ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The object that the expression reads as `object`; if it has no name, the expression reads the list `objects`.
    #[serde(default)]
    pub object: ScenarioObject,
    /// Further objects the expression reads, by variable name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, ScenarioObject>,
    /// The expression in CEL.
    #[serde(default)]
    pub holds: String,
    /// The time for which the condition must hold to count; for `Always`, the time for which it must not hold to count
    /// as broken.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub for_: Option<String>,
}

/// A value looked up when a scenario starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioVariable {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The object it is read from.
    #[serde(default)]
    pub object: ScenarioObject,
    /// An expression in CEL that returns a text.
    #[serde(default)]
    pub value: String,
}

/// An action at one time. Exactly one of the actions is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioStep {
    /// The time since the start, such as `10s`.
    #[serde(default)]
    pub at: String,
    /// A Fault to start; it ends with the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScenarioFault>,
    /// The name of an earlier step's fault to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<String>,
    /// Objects to apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<Value>,
    /// Objects to delete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<ScenarioObject>,
}

/// A Fault that a step starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioFault {
    /// The name within the scenario; the object's name has the scenario's as prefix.
    #[serde(default)]
    pub name: String,
    /// The spec of the Fault.
    #[serde(default)]
    pub spec: Value,
}

/// The rules of the score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioScoring {
    /// The time within which detection gets full points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect_within: Option<String>,
    /// The time within which repair gets full points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_within: Option<String>,
    /// The cost of each hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint_cost: Option<i32>,
}

/// The texts at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioVerdict {
    /// Shown after success: what happened, and what there is to learn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub passed: String,
    /// Shown after failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

/// The progress of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScenarioPhase {
    /// Nothing has been done.
    #[default]
    Pending,
    /// The objects of its setup are being created.
    Preparing,
    /// It is being played.
    Running,
    /// All checks hold.
    Passed,
    /// It could not be played, was given up, or ran out of time.
    Failed,
}

impl ScenarioPhase {
    /// Returns true if it has passed or failed.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Passed | Self::Failed)
    }
}

/// The state of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioStatus {
    /// The progress.
    #[serde(default)]
    pub phase: ScenarioPhase,
    /// The reason for the phase, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The briefing with the variables' values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    /// The values of the variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// The number of objects of the setup that are created.
    #[serde(default)]
    pub setup_done: i32,
    /// The number of steps that are done.
    #[serde(default)]
    pub steps_done: i32,
    /// The start of the setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_at: Option<Time>,
    /// The start of play; the times of steps count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The time of the first step, or the start if the scenario has no steps; the player's times count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub troubled_at: Option<Time>,
    /// The time at which the player detected the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_at: Option<Time>,
    /// The check by which it was detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_by: Option<String>,
    /// The time of the repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired_at: Option<Time>,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// The state of its checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ScenarioCheckStatus>,
    /// The number of hints the player may read.
    #[serde(default)]
    pub hints_shown: i32,
    /// The score of at most one hundred, once the scenario has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
    /// The parts of the score.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ScenarioPoints>,
    /// The scenario's faults have ended, and the objects it created are deleted, unless `cleanUp` is false.
    #[serde(default)]
    pub cleaned: bool,
}

/// The state of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioCheckStatus {
    /// The check's name.
    #[serde(default)]
    pub name: String,
    /// The check's purpose; `Ready` for those in `ready`.
    #[serde(default)]
    pub kind: String,
    /// It holds now.
    #[serde(default)]
    pub holds: bool,
    /// The time since which `holds` has its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The condition has held for its time; for `Always`: it is broken.
    #[serde(default)]
    pub settled: bool,
    /// The reason why it does not hold, if there is more to report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A part of the score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioPoints {
    /// The subject.
    #[serde(default)]
    pub name: String,
    /// The points; negative for hints.
    #[serde(default)]
    pub points: i32,
    /// The most points possible.
    #[serde(default)]
    pub most: i32,
    /// The reason for this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Scenario {
    /// Returns the progress.
    pub fn phase(&self) -> ScenarioPhase {
        self.status.as_ref().map(|status| status.phase).unwrap_or_default()
    }

    /// Returns the hints the player may read.
    pub fn revealed_hints(&self) -> &[String] {
        let shown = self.status.as_ref().map_or(0, |status| status.hints_shown);
        let shown = usize::try_from(shown).unwrap_or(0).min(self.spec.hints.len());
        &self.spec.hints[..shown]
    }
}

impl ScenarioSpec {
    /// Returns the time limit.
    pub fn time_limit(&self) -> Duration {
        self.time_limit.as_deref().and_then(read_go_duration).unwrap_or(DEFAULT_TIME_LIMIT)
    }

    /// Returns true if the objects it created are deleted at its end.
    pub fn cleans_up(&self) -> bool {
        self.clean_up.unwrap_or(true)
    }

    /// Returns the times within which detection and repair get full points.
    pub fn quick(&self) -> (Duration, Duration) {
        let of = |text: fn(&ScenarioScoring) -> &Option<String>, otherwise| {
            let setting = self.scoring.as_ref().and_then(|scoring| text(scoring).as_deref());
            setting.and_then(read_go_duration).unwrap_or(otherwise)
        };
        (
            of(|scoring| &scoring.detect_within, DEFAULT_DETECT_WITHIN),
            of(|scoring| &scoring.repair_within, DEFAULT_REPAIR_WITHIN),
        )
    }

    /// Returns the cost of each hint.
    pub fn hint_cost(&self) -> i32 {
        self.scoring.as_ref().and_then(|scoring| scoring.hint_cost).unwrap_or(DEFAULT_HINT_COST)
    }
}

impl ScenarioCheck {
    /// Returns the time for which the condition must hold; zero if not set.
    pub fn hold_duration(&self) -> Duration {
        self.for_.as_deref().and_then(read_go_duration).unwrap_or_default()
    }

    /// Returns its purpose.
    pub fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("Ready")
    }
}

impl ScenarioStep {
    /// Returns the time since the start; zero if it is invalid.
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
        assert_eq!(scenario.revealed_hints(), ["a"]);
        assert_eq!(scenario.spec.check[0].hold_duration(), Duration::from_secs(5));
        assert_eq!(scenario.spec.steps[0].at(), Duration::from_secs(10));
        assert_eq!(scenario.spec.quick(), (DEFAULT_DETECT_WITHIN, DEFAULT_REPAIR_WITHIN));
        assert_eq!(serde_json::from_value::<Scenario>(json!({"metadata": {}})).unwrap(), Scenario::default());
    }
}
