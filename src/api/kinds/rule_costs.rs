//! What the rules of a schema may cost together, by what each is estimated to cost at most before it ever runs.

use crate::validate::{FieldErrors, Path};

/// One expression may cost so much: Kubernetes' `StaticEstimatedCostLimit`.
const MAX_COST: u64 = 10_000_000;
/// And all those of one schema: Kubernetes' `StaticEstimatedCRDCostLimit`.
const MAX_TOTAL: u64 = 100_000_000;
/// So many of the most expensive are named where all together cost too much.
const NAMED: usize = 4;

/// An expression, and what it costs at most with one object.
#[derive(Clone, Debug)]
pub(super) struct RuleCost {
    /// Where it stands below the schema.
    pub(super) field: String,
    /// `rule` or `messageExpression`.
    pub(super) of: &'static str,
    pub(super) cost: u64,
}

/// Refuses rules that may cost too much. What a stored schema has already is not refused for its own cost
/// (`is_unchanged`); that all together do not cost too much is asked each time, as in Kubernetes.
pub(super) fn validate(costs: &[RuleCost], is_unchanged: bool, schema: &Path<'_>, errors: &mut FieldErrors) {
    for cost in costs.iter().filter(|cost| !is_unchanged && cost.cost > MAX_COST) {
        let detail = exceeds(&format!("estimated {} cost", cost.of), cost.cost, MAX_COST);
        errors.forbidden(&schema.child(&cost.field), detail);
    }
    let total = costs.iter().fold(0_u64, |total, cost| total.saturating_add(cost.cost));
    if total <= MAX_TOTAL {
        return;
    }
    let mut largest: Vec<&RuleCost> = costs.iter().filter(|cost| cost.cost >= MAX_TOTAL / 100).collect();
    largest.sort_by_key(|cost| std::cmp::Reverse(cost.cost));
    for cost in largest.into_iter().take(NAMED) {
        errors.forbidden(
            &schema.child(&cost.field),
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        );
    }
    let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    errors.forbidden(schema, exceeds(name, total, MAX_TOTAL));
}

fn exceeds(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_string()
    } else if factor < 1.5 {
        // One digit would say that it is 1.0 times as much.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, \
         and maxLength where arrays, maps, and strings are declared)"
    )
}
