//! The schemas of scenarios, for `kubectl explain` and for merging by server-side apply.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    ScenarioCheck, ScenarioCheckStatus, ScenarioFault, ScenarioObject, ScenarioPoints, ScenarioScoring,
    ScenarioSpec, ScenarioStatus, ScenarioStep, ScenarioVariable, ScenarioVerdict,
};
use crate::podium_kind::{boolean, text};

/// Declares the schema of a type, field by field.
macro_rules! schema {
    ($type:ident $about:literal $generator:ident { $($field:literal: $schema:expr),* $(,)? }) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                concat!("io.k8s.api.podium.v1alpha1.", stringify!($type)).into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                let _ = &$generator;
                json_schema!({
                    "description": $about,
                    "type": "object",
                    "properties": { $($field: $schema),* },
                })
            }
        }
    };
}

/// Returns the schema of a list.
fn list(about: &str, items: &Schema) -> Schema {
    json_schema!({"description": about, "type": "array", "items": items})
}

/// Returns the schema of an object of any kind.
fn anything(about: &str) -> Schema {
    json_schema!({"description": about, "type": "object"})
}

fn small(about: &str) -> Schema {
    json_schema!({"description": about, "type": "integer", "format": "int32"})
}

schema! { ScenarioSpec "ScenarioSpec is the script of a scenario; only hintsAsked and stop can be changed." generator {
    "title": text("title is the title of the scenario, in one line."),
    "briefing": text("briefing introduces the scenario to the player; $(NAME) stands for a variable."),
    "hints": list("hints are revealed one by one on request, each at a cost.", &text("The text of a hint.")),
    "setup": list("setup lists objects to apply before the start, in this order.", &anything("A complete object of any kind.")),
    "ready": list("ready lists checks that must hold before the scenario starts.", &generator.subschema_for::<ScenarioCheck>()),
    "variables": list(
        "variables are looked up at the start, for $(NAME) in steps and the briefing, and for chosen.NAME in checks.",
        &generator.subschema_for::<ScenarioVariable>(),
    ),
    "steps": list("steps lists the actions with their times, earliest first.", &generator.subschema_for::<ScenarioStep>()),
    "check": list("check lists checks of the cluster's state, after the faults or all the time.", &generator.subschema_for::<ScenarioCheck>()),
    "scoring": generator.subschema_for::<ScenarioScoring>(),
    "timeLimit": text("timeLimit fails the scenario after this time. Defaults to 10m."),
    "cleanUp": boolean("cleanUp deletes the objects that the scenario created, once the scenario ends. Defaults to true. Its faults end in any case."),
    "verdict": generator.subschema_for::<ScenarioVerdict>(),
    "hintsAsked": small("hintsAsked is the number of hints the player has requested. It can only grow."),
    "stop": boolean("stop ends the scenario because the player gives up."),
} }

schema! { ScenarioObject "ScenarioObject selects one object by its name, or several by their labels." generator {
    "apiVersion": text("apiVersion is the group and version of the objects."),
    "kind": text("kind is the kind of the objects."),
    "namespace": text("namespace is the namespace of the objects. Defaults to default if name is set, else to all namespaces."),
    "name": text("name is the name of one object; without it, several objects are selected."),
    "selector": generator.subschema_for::<LabelSelector>(),
} }

schema! { ScenarioCheck "ScenarioCheck is a condition on the cluster's state." generator {
    "name": text("name is the name of the check."),
    "kind": text(
        "kind is the purpose of the check. Trouble: the faults have taken effect; no repair counts before this. Detect: the player has detected the problem. Repair: the problem is repaired. Always: the check must hold all the time.",
    ),
    "object": generator.subschema_for::<ScenarioObject>(),
    "with": json_schema!({
        "description": "with selects further objects for the expression, by variable name.",
        "type": "object",
        "additionalProperties": generator.subschema_for::<ScenarioObject>(),
    }),
    "holds": text("holds is a CEL expression over object (null if it does not exist) or objects, the variables of with, chosen, now and, for Secrets, certificates."),
    "for": text("for is the time for which the expression must hold before the check counts; for Always, the time for which it must be false before the check is broken."),
} }

schema! { ScenarioVariable "ScenarioVariable is a value that is looked up when a scenario starts." generator {
    "name": text("name is the name of the variable."),
    "object": generator.subschema_for::<ScenarioObject>(),
    "value": text("value is a CEL expression over object or objects that returns a string."),
} }

schema! { ScenarioStep "ScenarioStep is an action at one time: exactly one of fault, heal, apply, delete." generator {
    "at": text("at is the time since the start, such as 10s."),
    "fault": generator.subschema_for::<ScenarioFault>(),
    "heal": text("heal ends the fault of this name that an earlier step started."),
    "apply": list("apply lists objects to create, or to change if the scenario created them.", &anything("A complete object of any kind.")),
    "delete": list("delete lists objects to delete if they exist.", &generator.subschema_for::<ScenarioObject>()),
} }

schema! { ScenarioFault "ScenarioFault is a Fault that a step starts; it ends with the scenario." generator {
    "name": text("name is the name of the fault within the scenario; the name of its object starts with the scenario's name."),
    "spec": anything("spec is the spec of the Fault."),
} }

schema! { ScenarioScoring "ScenarioScoring sets the rules of the score." generator {
    "detectWithin": text("detectWithin is the time within which detection gets all its points. Defaults to 1m."),
    "repairWithin": text("repairWithin is the time within which a repair gets all points for speed. Defaults to 5m."),
    "hintCost": small("hintCost is the number of points that each hint costs. Defaults to 10."),
} }

schema! { ScenarioVerdict "ScenarioVerdict has the texts for the end of a scenario." generator {
    "passed": text("passed is shown if the player passed."),
    "failed": text("failed is shown if the player failed."),
} }

schema! { ScenarioStatus "ScenarioStatus reports the progress of a scenario." generator {
    "phase": text("phase is Pending, Preparing, Running, Passed or Failed."),
    "reason": text("reason is the reason for the phase, as one word."),
    "message": text("message explains the phase."),
    "briefing": text("briefing is the briefing with the values of its variables."),
    "variables": json_schema!({
        "description": "variables has the values that were looked up, by name.",
        "type": "object",
        "additionalProperties": text("The value of a variable."),
    }),
    "setupDone": small("setupDone is the number of objects of the setup that exist."),
    "stepsDone": small("stepsDone is the number of completed steps."),
    "preparedAt": generator.subschema_for::<Time>(),
    "startedAt": generator.subschema_for::<Time>(),
    "troubledAt": generator.subschema_for::<Time>(),
    "detectedAt": generator.subschema_for::<Time>(),
    "detectedBy": text("detectedBy is the name of the check that showed the detection."),
    "repairedAt": generator.subschema_for::<Time>(),
    "endedAt": generator.subschema_for::<Time>(),
    "checks": list("checks has the state of each check.", &generator.subschema_for::<ScenarioCheckStatus>()),
    "hintsShown": small("hintsShown is the number of hints the player may read."),
    "score": small("score is the player's score, at most 100, once the scenario has ended."),
    "points": list("points lists the parts of the score.", &generator.subschema_for::<ScenarioPoints>()),
    "cleaned": boolean("cleaned is true once the scenario's faults have ended and, unless cleanUp is false, the objects it created are deleted."),
} }

schema! { ScenarioCheckStatus "ScenarioCheckStatus reports the state of a check." generator {
    "name": text("name is the name of the check."),
    "kind": text("kind is the purpose of the check; Ready for those in ready."),
    "holds": boolean("holds is true if the check holds now."),
    "since": generator.subschema_for::<Time>(),
    "settled": boolean("settled is true if the check has held for its time; for Always, if the check is broken."),
    "message": text("message explains why the check does not hold, if the reason is known."),
} }

schema! { ScenarioPoints "ScenarioPoints is a part of the score." generator {
    "name": text("name is what the points are for."),
    "points": small("points is the number of points; negative for hints."),
    "most": small("most is the largest possible number of points."),
    "message": text("message explains the number of points."),
} }
