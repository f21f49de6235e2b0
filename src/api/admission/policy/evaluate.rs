//! Evaluates the expressions of a policy: failed validations of a request, and mutations of its object.

use serde_json::Value;

use crate::admission::activation::{RequestActivation, evaluation_error_message};
use crate::managed_fields::{self, Type};
use apimachinery::cel::{Budget, CompositionContext, Program, Val};
use apimachinery::patch::{MAX_PATCH_BYTES, PatchType, apply_patch_value};
use apimachinery::validate::depth;
use kinds::admission_policy::{Expressions, Mutation, Validation};

/// The limit on an evaluated message.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The budget for the result of a mutation: about the size of a patch, at a tenth of a cost unit per byte.
const RESULT_BUDGET: u64 = MAX_PATCH_BYTES as u64 / 10;

/// The limit on an evaluated annotation, in bytes; longer ones are cut, as in Kubernetes.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

/// A validation that is false or failed to evaluate.
pub(super) struct Denial {
    pub(super) message: String,
    pub(super) reason: Option<String>,
    /// The index of the policy's validation; 0 for other expressions.
    pub(super) index: usize,
}

impl Denial {
    /// Returns the denial for an expression that failed to evaluate.
    pub(super) fn evaluation_error(message: String) -> Self {
        Self { message, reason: None, index: 0 }
    }
}

/// The result of a policy.
#[derive(Default)]
pub(super) struct PolicyResult {
    pub(super) denials: Vec<Denial>,
    /// Audit annotations, by key.
    pub(super) annotations: Vec<(String, String)>,
}

/// Evaluates a policy with these parameters: its failed validations and its annotations. An expression that
/// fails to evaluate counts as failed if the policy is strict.
pub(super) fn evaluate(
    activation: &RequestActivation<'_>,
    expressions: &Expressions,
    param: &Value,
    is_strict: bool,
) -> PolicyResult {
    match activation.conditions_match(&expressions.conditions, param) {
        Ok(true) => {}
        Err(message) if is_strict => {
            return PolicyResult {
                denials: vec![Denial::evaluation_error(message)],
                ..PolicyResult::default()
            };
        }
        Ok(false) | Err(_) => return PolicyResult::default(),
    }
    let composed = Program::composed(activation.variables(param), &expressions.variables);
    let mut budget = Budget::default();
    let results =
        expressions.validations.iter().enumerate().filter_map(|(index, validation)| {
            match validation.program.run_composed(&composed, &mut budget) {
                Ok(Val::Bool(true)) => None,
                Ok(_) => Some(Denial {
                    message: message(validation, &composed, &mut budget),
                    reason: validation.reason.clone(),
                    index,
                }),
                Err(error) => is_strict.then(|| Denial {
                    message: evaluation_error_message(&validation.text, &error),
                    reason: None,
                    index,
                }),
            }
        });
    let mut denials: Vec<Denial> = results.collect();
    let mut annotations = Vec::new();
    for annotation in &expressions.annotations {
        match annotation.program.run_composed(&composed, &mut budget) {
            Ok(value) => {
                let text = value.as_text().map(str::trim).unwrap_or_default();
                let end = text.floor_char_boundary(MAX_ANNOTATION_BYTES);
                if end > 0 {
                    annotations.push((annotation.key.clone(), text[..end].to_string()));
                }
            }
            Err(error) if is_strict => {
                denials.push(Denial::evaluation_error(evaluation_error_message(&annotation.text, &error)));
            }
            Err(_) => {}
        }
    }
    PolicyResult { denials, annotations }
}

/// Returns the mutated object; `None` if there is no object, or it does not change.
pub(super) fn apply_mutation(
    activation: &RequestActivation<'_>,
    expressions: &Expressions,
    mutation: &Mutation,
    param: &Value,
) -> Result<Option<Value>, String> {
    if activation.object.is_null() {
        return Ok(None);
    }
    let composed = Program::composed(activation.variables(param), &expressions.variables);
    let mut budget = Budget::default();
    let (Mutation::Apply(program) | Mutation::JsonPatch(program)) = mutation;
    let made = program.run_composed(&composed, &mut budget).map_err(|error| error.to_string())?;
    let made = made.to_json(&mut Budget::of(RESULT_BUDGET)).map_err(|error| error.to_string())?;
    let next = match mutation {
        Mutation::Apply(_) => applied(activation, made)?,
        Mutation::JsonPatch(_) => patched(activation, made)?,
    };
    Ok(next.filter(|next| *next != activation.object))
}

/// Returns the object with an apply configuration merged into it.
fn applied(activation: &RequestActivation<'_>, mut config: Value) -> Result<Option<Value>, String> {
    let kinds = activation.api().kinds();
    let schemas = kinds.schemas(activation.matched.kind());
    let of = Type::served(&schemas, activation.matched);
    let failed = |reason: String| format!("error applying patch: {reason}");
    if let Some(fields) = config.as_object_mut() {
        for field in ["apiVersion", "kind"] {
            fields.insert(field.into(), activation.object[field].clone());
        }
    }
    depth::check_value(&config).map_err(|error| failed(error.to_string()))?;
    if let Some(faults) = managed_fields::faults(of, &config) {
        return Err(failed(format!("failed to convert patch object to typed object: {faults}")));
    }
    let wholes = managed_fields::wholes(of, &config);
    if !wholes.is_empty() {
        let prefix = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ";
        return Err(failed(format!("{prefix}{}", wholes.join(", "))));
    }
    Ok(Some(managed_fields::merge(of, &activation.object, &config)))
}

/// Returns the object after a JSON patch; `None` if one of the patch's tests fails.
fn patched(activation: &RequestActivation<'_>, steps: Value) -> Result<Option<Value>, String> {
    match apply_patch_value(activation.matched.kind(), PatchType::Json, &activation.object, steps) {
        Ok(patched) => Ok(Some(patched)),
        Err(error) if error.is_failed_test() => Ok(None),
        Err(error) => Err(format!("JSONPath: {error}")),
    }
}

/// Returns the message of a failed validation: the result of its expression, unless that fails or is not a
/// line of text.
fn message<'a>(validation: &'a Validation, composed: &CompositionContext<'a>, budget: &mut Budget) -> String {
    let made = validation.message_expression.as_ref().and_then(|program: &Program| {
        let made = program.run_composed(composed, budget).ok()?;
        let text = made.as_text()?.trim();
        let fits = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains(['\n', '\r']);
        fits.then(|| text.to_string())
    });
    let given = || validation.message.clone();
    made.or_else(given).unwrap_or_else(|| format!("failed expression: {}", validation.text))
}
