//! The schemas of scenarios, for `kubectl explain` and for merging by server-side apply.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    ScenarioCheck, ScenarioCheckStatus, ScenarioFault, ScenarioObject, ScenarioPoints, ScenarioScoring,
    ScenarioSpec, ScenarioStatus, ScenarioStep, ScenarioVariable, ScenarioVerdict,
};
use crate::own_kind::{text, truth};

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

schema! { ScenarioSpec "ScenarioSpec is what is played; only hintsAsked and stop can be changed." generator {
    "title": text("What it is called, in one line."),
    "briefing": text("What the player is told at the start; $(NAME) stands for a variable."),
    "hints": list("Shown one by one when they are asked for, each at a cost.", &text("A hint.")),
    "setup": list("Objects that it is played with, applied in their order.", &anything("A whole object of any kind.")),
    "ready": list("What must hold before it begins.", &generator.subschema_for::<ScenarioCheck>()),
    "variables": list(
        "What is looked up when it begins, for $(NAME) in steps and briefing and chosen.NAME in checks.",
        &generator.subschema_for::<ScenarioVariable>(),
    ),
    "steps": list("What is done, and when; in the order of their times.", &generator.subschema_for::<ScenarioStep>()),
    "check": list("What must hold afterwards, or all the time.", &generator.subschema_for::<ScenarioCheck>()),
    "scoring": generator.subschema_for::<ScenarioScoring>(),
    "timeLimit": text("How long it may last, such as 10m, which it is unless this is said."),
    "cleanUp": truth("Whether what it has made is removed when it ends, which it is unless this is said. Its faults end in any case."),
    "verdict": generator.subschema_for::<ScenarioVerdict>(),
    "hintsAsked": small("So many hints the player has asked for. It may grow."),
    "stop": truth("The player gives up."),
} }

schema! { ScenarioObject "ScenarioObject is one object by its name, or several by their labels." generator {
    "apiVersion": text("Group and version."),
    "kind": text("The kind."),
    "namespace": text("The namespace. Defaults to default where there is a name, else to all."),
    "name": text("One object by its name; several without."),
    "selector": generator.subschema_for::<LabelSelector>(),
} }

schema! { ScenarioCheck "ScenarioCheck is something that holds or does not." generator {
    "name": text("What it is called."),
    "kind": text(
        "Trouble: it shows that the trouble is there, and nothing is repaired before it has. Detect: it shows that somebody has noticed. Repair: all is well again. Always: it must hold all the time.",
    ),
    "object": generator.subschema_for::<ScenarioObject>(),
    "with": json_schema!({
        "description": "What it is about besides, by the names of variables.",
        "type": "object",
        "additionalProperties": generator.subschema_for::<ScenarioObject>(),
    }),
    "holds": text("An expression in CEL over object (null where it is not there) or objects, those of with, chosen, now and, of Secrets, certificates."),
    "for": text("It counts when it has held for so long; of Always: it is broken when it has not held for so long."),
} }

schema! { ScenarioVariable "ScenarioVariable is something that is looked up when a scenario begins." generator {
    "name": text("What it is called."),
    "object": generator.subschema_for::<ScenarioObject>(),
    "value": text("An expression in CEL over object or objects that comes to a text."),
} }

schema! { ScenarioStep "ScenarioStep is what is done at one time: exactly one of fault, heal, apply, delete." generator {
    "at": text("How long after the beginning, such as 10s."),
    "fault": generator.subschema_for::<ScenarioFault>(),
    "heal": text("The name of a fault of an earlier step that ends."),
    "apply": list("Objects that are applied: new ones, or those that the scenario has made.", &anything("A whole object of any kind.")),
    "delete": list("Objects that are deleted, if they are there.", &generator.subschema_for::<ScenarioObject>()),
} }

schema! { ScenarioFault "ScenarioFault is a Fault that a step begins; it ends with the scenario." generator {
    "name": text("What it is called within the scenario; its object has the scenario's name before it."),
    "spec": anything("The spec of the Fault."),
} }

schema! { ScenarioScoring "ScenarioScoring says how points are given." generator {
    "detectWithin": text("All points for noticing are given within this time. Defaults to 1m."),
    "repairWithin": text("All points for repairing quickly are given within this time. Defaults to 5m."),
    "hintCost": small("What each hint costs. Defaults to 10."),
} }

schema! { ScenarioVerdict "ScenarioVerdict is what is said at the end." generator {
    "passed": text("When it was passed."),
    "failed": text("When it was not."),
} }

schema! { ScenarioStatus "ScenarioStatus is how far a scenario is." generator {
    "phase": text("Pending, Preparing, Running, Passed or Failed."),
    "reason": text("Why it is there, as one word."),
    "message": text("What there is to say of it."),
    "briefing": text("The briefing, with its variables."),
    "variables": json_schema!({
        "description": "What was looked up.",
        "type": "object",
        "additionalProperties": text("A text."),
    }),
    "setupDone": small("So many objects of its setup are made."),
    "stepsDone": small("So many of its steps are done."),
    "preparedAt": generator.subschema_for::<Time>(),
    "startedAt": generator.subschema_for::<Time>(),
    "troubledAt": generator.subschema_for::<Time>(),
    "detectedAt": generator.subschema_for::<Time>(),
    "detectedBy": text("By what the trouble was noticed."),
    "repairedAt": generator.subschema_for::<Time>(),
    "endedAt": generator.subschema_for::<Time>(),
    "checks": list("How its checks stand.", &generator.subschema_for::<ScenarioCheckStatus>()),
    "hintsShown": small("So many of its hints may be read."),
    "score": small("Of a hundred, when it is over."),
    "points": list("How the score came about.", &generator.subschema_for::<ScenarioPoints>()),
    "cleaned": truth("Whether its faults have ended and what it has made is gone, as far as it is to go."),
} }

schema! { ScenarioCheckStatus "ScenarioCheckStatus is how a check stands." generator {
    "name": text("Which check."),
    "kind": text("What it is for; Ready of those that are to hold before the beginning."),
    "holds": truth("Whether it holds now."),
    "since": generator.subschema_for::<Time>(),
    "settled": truth("Whether it has held for its time; of Always: whether it is broken."),
    "message": text("Why it does not hold, where there is more to say."),
} }

schema! { ScenarioPoints "ScenarioPoints is a part of the score." generator {
    "name": text("What for."),
    "points": small("How many; fewer than none for hints."),
    "most": small("How many there could have been."),
    "message": text("Why so many."),
} }
