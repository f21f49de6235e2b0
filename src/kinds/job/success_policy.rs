//! Rules of an indexed Job's success policy.

use k8s_openapi::api::batch::v1::{SuccessPolicy, SuccessPolicyRule};

use apimachinery::validate::{FieldErrors, Path};
use object::completion_indexes::CompletionIndexes;

const MAX_RULES: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

pub(super) fn check(errors: &mut FieldErrors, path: &Path<'_>, policy: &SuccessPolicy, completions: i32) {
    let rules = path.child("rules");
    if policy.rules.is_empty() {
        errors.required(&rules, "at least one rules must be specified when the successPolicy is specified");
    }
    if policy.rules.len() > MAX_RULES {
        errors.too_many(&rules, policy.rules.len(), MAX_RULES);
    }
    for (i, rule) in policy.rules.iter().enumerate() {
        self::rule(errors, &rules.index(i), rule, completions);
    }
}

fn rule(errors: &mut FieldErrors, path: &Path<'_>, rule: &SuccessPolicyRule, completions: i32) {
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let named = rule.succeeded_indexes.as_ref().map(|text| {
        let path = path.child("succeededIndexes");
        if text.len() > MAX_INDEXES_BYTES {
            errors.too_long(&path, MAX_INDEXES_BYTES);
        }
        match CompletionIndexes::parse(text, completions) {
            Ok(indexes) => indexes.len(),
            Err(wrong) => {
                errors.invalid(&path, text, format!("error parsing succeededIndexes: {wrong}"));
                0
            }
        }
    });
    let Some(count) = rule.succeeded_count else { return };
    let path = path.child("succeededCount");
    errors.non_negative(&path, count);
    let mut at_most = |limit: i32, description: &str| {
        if count > limit {
            errors.invalid(&path, &count, format!("must be less than or equal to {limit} ({description})"));
        }
    };
    at_most(completions, "the number of specified completions");
    if let Some(named) = named {
        at_most(named, "the number of indexes in the specified succeededIndexes field");
    }
}
