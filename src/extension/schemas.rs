//! The schemas of Kubernetes' types in the status of Podium's kinds: `#[schemars(with = "Option<schemas::Time>")]`.
//!
//! `k8s-openapi` has schemas of its types, too, but only of all at once, which are six megabytes of code.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The schema of a time.
pub(crate) struct Time;

/// The schema of a condition.
pub(crate) struct Condition;

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

impl JsonSchema for Condition {
    fn schema_name() -> Cow<'static, str> {
        "Condition".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Condition is one aspect of the object's current state.",
            "type": "object",
            "properties": {
                "lastTransitionTime": {
                    "description": "lastTransitionTime is the last time at which the status changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "message describes the last change for people; it may be empty.",
                    "type": "string",
                },
                "observedGeneration": {
                    "description": "observedGeneration is the metadata.generation that the condition is based upon.",
                    "type": "integer",
                    "format": "int64",
                },
                "reason": {
                    "description": "reason is the reason for the last change, in CamelCase.",
                    "type": "string",
                },
                "status": { "description": "status is True, False or Unknown.", "type": "string" },
                "type": { "description": "type is the type of the condition, in CamelCase.", "type": "string" },
            },
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        })
    }
}
