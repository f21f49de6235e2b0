//! The match conditions of a webhook: CEL, all of which must hold.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use serde_json::Value;

use crate::Api;
use crate::admission::attributes::Attributes;
use crate::cel::{Budget, Program, Val};
use crate::kinds::compile_condition;
use object::ServedKind;

/// The conditions of a webhook.
pub(super) struct Conditions(Vec<Condition>);

struct Condition {
    expression: String,
    program: Result<Program, String>,
}

impl Conditions {
    pub(super) fn new(conditions: &[MatchCondition]) -> Self {
        let read = |condition: &MatchCondition| Condition {
            expression: condition.expression.clone(),
            program: compile_condition(&condition.expression),
        };
        Self(conditions.iter().map(read).collect())
    }

    /// Whether all hold of a request, as it is in this version. One that does not decides, whatever is wrong with others:
    /// otherwise that is the error.
    pub(super) fn hold(
        &self,
        api: &Api,
        asked: &Attributes<'_>,
        matched: ServedKind,
    ) -> Result<bool, String> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let object = asked.object.value(api, matched);
        let old = asked.old_object.value(api, matched);
        let request = asked.request(matched);
        let mut budget = Budget::default();
        let mut faults = Vec::new();
        for condition in &self.0 {
            let program = match &condition.program {
                Ok(program) => program,
                Err(why) => {
                    faults.push(why.clone());
                    continue;
                }
            };
            let variables =
                [("object", json(&object)), ("oldObject", json(&old)), ("request", json(&request))];
            match program.run(&variables, &mut budget) {
                Ok(Val::Bool(true)) => {}
                Ok(Val::Bool(false)) => return Ok(false),
                Ok(_) => faults.push(format!("expression '{}' is no bool", condition.expression)),
                Err(why) => {
                    faults.push(format!("expression '{}' resulted in error: {why}", condition.expression));
                }
            }
        }
        match faults.len() {
            0 => Ok(true),
            1 => Err(faults.remove(0)),
            _ => Err(format!("[{}]", faults.join(", "))),
        }
    }
}

fn json(value: &Value) -> Val<'_> {
    Val::of_json(value, None)
}
