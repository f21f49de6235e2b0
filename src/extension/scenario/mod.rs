//! `podium.dev/v1alpha1` Scenario (FAULT-2): faults at set times, checks of the state afterwards, and a score for the
//! player.
//!
//! The object is the only state: the control plane plays it, with or without a viewer. Two fields of its spec may
//! change during play, because the player's requests are made through them: the number of requested hints and `stop`.

mod rules;
mod runs;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use object::custom_kind;
use object::time::read_go_duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schemas;

pub use runs::{AllScenarioRuns, RUNS_NAME, RUNS_NAMESPACE, ScenarioRun, ScenarioRuns};

/// The field manager of a scenario's writes.
pub const SCENARIO_MANAGER: &str = "podium-scenario";

/// The purposes of checks.
const CHECK_KINDS: &[&str] = &["Always", "Detect", "Repair", "Trouble"];

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

/// ScenarioSpec is the script of a scenario; only hintsAsked and stop can be changed.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "podium.dev",
    version = "v1alpha1",
    kind = "Scenario",
    plural = "scenarios",
    doc = "Scenario causes faults at set times, checks the cluster's state afterwards, and gives the player a score.",
    status = "ScenarioStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Title",
        type_ = "string",
        json_path = ".spec.title",
        description = "The title of the scenario."
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the scenario."
    ),
    printcolumn(
        name = "Score",
        type_ = "integer",
        json_path = ".status.score",
        description = "The score, at most 100."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        description = "The explanation of the phase.",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::of_spec)]
pub struct ScenarioSpec {
    /// title is the title of the scenario, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 200), extend("x-kubernetes-validations" = rules::of_text()))]
    pub title: String,
    /// briefing introduces the scenario to the player; $(NAME) stands for a variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 8192))]
    pub briefing: String,
    /// hints are revealed one by one on request, each at a cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 8192)))]
    pub hints: Vec<String>,
    /// setup lists objects to apply before the start, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::setup")]
    pub setup: Vec<Value>,
    /// ready lists checks that must hold before the scenario starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = rules::of_ready)]
    pub ready: Vec<ScenarioCheck>,
    /// variables are looked up at the start, for $(NAME) in steps and the briefing, and for chosen.NAME
    /// in checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_names()))]
    pub variables: Vec<ScenarioVariable>,
    /// steps lists the actions with their times, earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_steps()))]
    pub steps: Vec<ScenarioStep>,
    /// check lists checks of the cluster's state, after the faults or all the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = rules::of_checks)]
    pub check: Vec<ScenarioCheck>,
    /// The rules of the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring: Option<ScenarioScoring>,
    /// timeLimit fails the scenario after this time. Defaults to 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_time_limit()))]
    pub time_limit: Option<String>,
    /// cleanUp deletes the objects that the scenario created, once the scenario ends. Defaults to true.
    /// Its faults end in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_up: Option<bool>,
    /// The texts at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ScenarioVerdict>,
    /// hintsAsked is the number of hints the player has requested. It can only grow.
    #[serde(default, rename = "hintsAsked", skip_serializing_if = "Option::is_none")]
    pub hints_requested: Option<i32>,
    /// stop ends the scenario because the player gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<bool>,
}

custom_kind!(Scenario, "podium.dev", "v1alpha1", "scenarios", "Scenario", Cluster);

/// ScenarioObject selects one object by its name, or several by their labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::of_object)]
pub struct ScenarioObject {
    /// apiVersion is the group and version of the objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 317), extend("x-kubernetes-validations" = rules::of_text()))]
    pub api_version: String,
    /// kind is the kind of the objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 253), extend("x-kubernetes-validations" = rules::of_text()))]
    pub kind: String,
    /// namespace is the namespace of the objects. Defaults to default if name is set, else to all
    /// namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules::of_label()))]
    pub namespace: Option<String>,
    /// name is the name of one object; without it, several objects are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub name: Option<String>,
    /// Selects among several objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector")]
    pub selector: Option<LabelSelector>,
}

/// ScenarioCheck is a condition on the cluster's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioCheck {
    /// name is the name of the check.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 63), extend("x-kubernetes-validations" = rules::of_label()))]
    pub name: String,
    /// kind is the purpose of the check. Trouble: the faults have taken effect; no repair counts before
    /// this. Detect: the player has detected the problem. Repair: the problem is repaired. Always: the
    /// check must hold all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub kind: Option<String>,
    /// The object that the expression reads as `object`; if it has no name, the expression reads the list
    /// `objects`.
    #[serde(default)]
    #[schemars(!default)]
    pub object: ScenarioObject,
    /// with selects further objects for the expression, by variable name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = rules::MAX_OBJECTS, "x-kubernetes-validations" = rules::of_with()))]
    pub with: BTreeMap<String, ScenarioObject>,
    /// holds is a CEL expression over object (null if it does not exist) or objects, the variables of
    /// with, chosen, now and, for Secrets, certificates.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 16384), extend("x-kubernetes-validations" = rules::of_text()))]
    pub holds: String,
    /// for is the time for which the expression must hold before the check counts; for Always, the time
    /// for which it must be false before the check is broken.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_time()))]
    pub for_: Option<String>,
}

/// ScenarioVariable is a value that is looked up when a scenario starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioVariable {
    /// name is the name of the variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 63), extend("x-kubernetes-validations" = rules::of_variable()))]
    pub name: String,
    /// The object it is read from.
    #[serde(default)]
    #[schemars(!default)]
    pub object: ScenarioObject,
    /// value is a CEL expression over object or objects that returns a string.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 16384), extend("x-kubernetes-validations" = rules::of_text()))]
    pub value: String,
}

/// ScenarioStep is an action at one time: exactly one of fault, heal, apply, delete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::of_step)]
pub struct ScenarioStep {
    /// at is the time since the start, such as 10s.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 64), extend("x-kubernetes-validations" = rules::of_time()))]
    pub at: String,
    /// A Fault to start; it ends with the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScenarioFault>,
    /// heal ends the fault of this name that an earlier step started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub heal: Option<String>,
    /// apply lists objects to create, or to change if the scenario created them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::applied")]
    pub apply: Vec<Value>,
    /// delete lists objects to delete if they exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = rules::of_deleted)]
    pub delete: Vec<ScenarioObject>,
}

/// ScenarioFault is a Fault that a step starts; it ends with the scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioFault {
    /// name is the name of the fault within the scenario; the name of its object starts with the
    /// scenario's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 63), extend("x-kubernetes-validations" = rules::of_label()))]
    pub name: String,
    /// spec is the spec of the Fault.
    #[serde(default)]
    #[schemars(!default, schema_with = "rules::any_object")]
    pub spec: Value,
}

/// ScenarioScoring sets the rules of the score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioScoring {
    /// detectWithin is the time within which detection gets all its points. Defaults to 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_time()))]
    pub detect_within: Option<String>,
    /// repairWithin is the time within which a repair gets all points for speed. Defaults to 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_time()))]
    pub repair_within: Option<String>,
    /// hintCost is the number of points that each hint costs. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::of_range(0, 100)))]
    pub hint_cost: Option<i32>,
}

/// ScenarioVerdict has the texts for the end of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioVerdict {
    /// passed is shown if the player passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 8192))]
    pub passed: String,
    /// failed is shown if the player failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 8192))]
    pub failed: String,
}

/// ScenarioStatus reports the progress of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioStatus {
    /// phase is Pending, Preparing, Running, Passed or Failed.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["Pending", "Preparing", "Running", "Passed", "Failed"]))]
    pub phase: ScenarioPhase,
    /// reason is the reason for the phase, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// message explains the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// briefing is the briefing with the values of its variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    /// variables has the values that were looked up, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// setupDone is the number of objects of the setup that exist.
    #[serde(default)]
    pub setup_done: i32,
    /// stepsDone is the number of completed steps.
    #[serde(default)]
    pub steps_done: i32,
    /// The start of the setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub prepared_at: Option<Time>,
    /// The start of play; the times of steps count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub started_at: Option<Time>,
    /// The time of the first step, or the start if the scenario has no steps; the player's times count
    /// from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub troubled_at: Option<Time>,
    /// The time at which the player detected the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub detected_at: Option<Time>,
    /// detectedBy is the name of the check that showed the detection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_by: Option<String>,
    /// The time of the repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub repaired_at: Option<Time>,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub ended_at: Option<Time>,
    /// checks has the state of each check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ScenarioCheckStatus>,
    /// hintsShown is the number of hints the player may read.
    #[serde(default)]
    pub hints_shown: i32,
    /// score is the player's score, at most 100, once the scenario has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
    /// points lists the parts of the score.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ScenarioPoints>,
    /// cleaned is true once the scenario's faults have ended and, unless cleanUp is false, the objects it
    /// created are deleted.
    #[serde(default)]
    pub cleaned: bool,
}

/// ScenarioCheckStatus reports the state of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioCheckStatus {
    /// name is the name of the check.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// kind is the purpose of the check; Ready for those in ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// holds is true if the check holds now.
    #[serde(default)]
    pub holds: bool,
    /// The time since which `holds` has its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub since: Option<Time>,
    /// settled is true if the check has held for its time; for Always, if the check is broken.
    #[serde(default)]
    pub settled: bool,
    /// message explains why the check does not hold, if the reason is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// ScenarioPoints is a part of the score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioPoints {
    /// name is what the points are for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// points is the number of points; negative for hints.
    #[serde(default)]
    pub points: i32,
    /// most is the largest possible number of points.
    #[serde(default)]
    pub most: i32,
    /// message explains the number of points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
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
        assert_eq!(
            serde_json::from_value::<Scenario>(json!({"metadata": {}, "spec": {}})).unwrap(),
            Scenario::default()
        );
    }
}
