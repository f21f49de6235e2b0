//! Limits on the cost of the CEL rules of a schema, by static estimates of their maximum cost.

use apimachinery::validate::{FieldErrors, Path};
use base::sort::SliceOrder;

/// The maximum cost of one expression: Kubernetes' `StaticEstimatedCostLimit`.
const MAX_COST: u64 = 10_000_000;
/// The maximum cost of all expressions of a schema: Kubernetes' `StaticEstimatedCRDCostLimit`.
const MAX_TOTAL: u64 = 100_000_000;
/// The error for too high a total names this many expressions, the most expensive first.
const NAMED: usize = 4;

/// An expression with its estimated maximum cost for one object.
#[derive(Clone, Debug)]
pub(super) struct RuleCost {
    /// The path of the expression below the schema.
    pub(super) field: String,
    /// `rule` or `messageExpression`.
    pub(super) of: &'static str,
    pub(super) cost: u64,
}

/// Refuses rules that may cost too much. An unchanged schema (`is_unchanged`) is not refused for the cost of a single
/// rule; the total is checked every time, as in Kubernetes.
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
    largest.order_by_key(|cost| std::cmp::Reverse(cost.cost));
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
        // With one digit, the factor would round to 1.0.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, \
         and maxLength where arrays, maps, and strings are declared)"
    )
}
