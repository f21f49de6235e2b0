//! The user's permissions in a namespace: the rules of a `SelfSubjectRulesReview` as rows, one for each resource and
//! set of names.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::authorization::v1::SubjectRulesReviewStatus;

use super::{VERBS, resource_text};
use base::sort::SliceOrder;

/// The limits of the rows, and of the names and verbs in all rows together. A rule applies to each of its groups with
/// each of its resources; no hand-written policy reaches these limits.
const MAX_ROWS: usize = 5000;
const MAX_ENTRIES: usize = 50_000;

/// The verbs permitted on a resource, or on some of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `pods/log`, `deployments.apps`, `*.*`, or a non-resource URL: `/healthz`.
    pub target: String,
    /// The object names to which the verbs are limited; empty for all.
    pub names: Vec<String>,
    /// The verbs, in conventional order.
    pub verbs: Vec<String>,
}

/// The rules that the server returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelfRules {
    /// The rows by resource; non-resource URLs come last.
    pub rows: Vec<Row>,
    /// The list of rows was cut at the limit.
    pub is_truncated: bool,
    /// The server's reason why the list may be incomplete: an authorizer that cannot list its rules, or a role that
    /// could not be read.
    pub incomplete: Option<String>,
}

/// The verbs for each resource and set of names.
type MergedRules = BTreeMap<(bool, String, Vec<String>), BTreeSet<String>>;

impl SelfRules {
    /// Converts a response to rows; merges rules with the same resource and names.
    pub fn of(status: &SubjectRulesReviewStatus) -> Self {
        let mut merged = MergedRules::new();
        let (mut more, mut words) = (false, 0);
        let mut add = |is_path: bool, target: String, names: &[String], verbs: &[String]| {
            words += names.len() + verbs.len();
            let mut names = if words > MAX_ENTRIES { Vec::new() } else { names.to_vec() };
            names.order();
            names.dedup();
            let key = (is_path, target, names);
            if words > MAX_ENTRIES || merged.len() >= MAX_ROWS && !merged.contains_key(&key) {
                more = true;
                return false;
            }
            merged.entry(key).or_default().extend(verbs.iter().cloned());
            true
        };
        'rules: for rule in &status.resource_rules {
            let names = rule.resource_names.as_deref().unwrap_or_default();
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    if !add(false, resource_text(group, resource), names, &rule.verbs) {
                        break 'rules;
                    }
                }
            }
        }
        'paths: for rule in &status.non_resource_rules {
            for path in rule.non_resource_urls.iter().flatten() {
                if !add(true, path.clone(), &[], &rule.verbs) {
                    break 'paths;
                }
            }
        }
        let rows = merged.into_iter().map(|((_, what, names), verbs)| {
            let mut verbs: Vec<String> = verbs.into_iter().collect();
            verbs.order_by_key(|verb| VERBS.iter().position(|known| known == verb).unwrap_or(VERBS.len()));
            Row { target: what, names, verbs }
        });
        let reason = status.evaluation_error.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
        let incomplete = (status.incomplete || reason.is_some())
            .then(|| reason.unwrap_or("the server does not say why").to_owned());
        Self { rows: rows.collect(), is_truncated: more, incomplete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rules_from(status: Value) -> SelfRules {
        SelfRules::of(&serde_json::from_value(status).expect("a status"))
    }

    #[test]
    fn rules_of_the_same_resource_and_names_are_one_row_con_16() {
        let rules = rules_from(json!({
            "incomplete": false,
            "resourceRules": [
                {"verbs": ["watch", "list", "get"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
                {"verbs": ["frob", "delete", "get"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["b", "a", "b"]},
                {"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]},
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["patch"], "apiGroups": ["apps"], "resources": ["deployments/scale"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]}],
        }));
        let rows: Vec<String> = rules
            .rows
            .iter()
            .map(|row| format!("{} [{}] {}", row.target, row.names.join(","), row.verbs.join(" ")))
            .collect();
        assert_eq!(
            rows,
            [
                "*.* [] *", "deployments.apps/scale [] patch", "pods [] get list watch delete frob",
                "pods/log [] get list watch", "secrets [] list", "secrets [a,b] get", "/api/* [] get",
                "/healthz [] get",
            ]
        );
        assert_eq!((rules.is_truncated, rules.incomplete), (false, None));
    }

    #[test]
    fn an_answer_that_is_not_whole_says_why_con_16() {
        let reason = |incomplete: bool, error: Option<&str>| {
            let mut status = json!({"incomplete": incomplete, "resourceRules": [], "nonResourceRules": []});
            if let Some(error) = error {
                status["evaluationError"] = json!(error);
            }
            rules_from(status).incomplete
        };
        assert_eq!(reason(false, None), None);
        assert_eq!(
            reason(true, Some("webhook authorizer does not list")).as_deref(),
            Some("webhook authorizer does not list")
        );
        assert_eq!(reason(true, Some(" ")).as_deref(), Some("the server does not say why"));
        assert_eq!(reason(true, None).as_deref(), Some("the server does not say why"));
        assert_eq!(reason(false, Some("role x not found")).as_deref(), Some("role x not found"));
    }

    #[test]
    fn a_rule_of_countless_resources_is_cut_and_says_so_con_16() {
        let many: Vec<String> = (0..200).map(|at| format!("r{at}")).collect();
        let rules = rules_from(json!({
            "incomplete": false, "nonResourceRules": [],
            "resourceRules": [{"verbs": ["get"], "apiGroups": many, "resources": many}],
        }));
        assert_eq!((rules.rows.len(), rules.is_truncated), (MAX_ROWS, true));
        let rules = rules_from(json!({
            "incomplete": false, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
            "resourceRules": [{"verbs": ["get"], "apiGroups": many, "resources": many,
                "resourceNames": (0..9999).map(|at| format!("n{at}")).collect::<Vec<_>>()}],
        }));
        assert_eq!((rules.rows.len(), rules.is_truncated), (5, true), "each with all names");
    }
}
