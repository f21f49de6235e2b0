//! Match conditions: a webhook or policy applies only to requests for which all these CEL expressions are true.

use std::collections::HashSet;
use std::sync::LazyLock;

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::json;

use apimachinery::cel::{Program, Type};
use apimachinery::validate::{FieldErrors, Path, names};
use base::sort::CollectMap;

/// The maximum number of match conditions, as in Kubernetes.
pub(super) const MAX_CONDITIONS: usize = 64;

/// The schema of `AdmissionRequest`, the type of the variable `request`.
static REQUEST: LazyLock<JSONSchemaProps> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = |names: &[&str]| -> serde_json::Map<String, serde_json::Value> {
        names.iter().map(|name| ((*name).to_string(), text.clone())).collect_map()
    };
    let kind = json!({"type": "object", "properties": texts(&["group", "version", "kind"])});
    let resource = json!({"type": "object", "properties": texts(&["group", "version", "resource"])});
    let groups = json!({"type": "array", "items": text});
    let user = json!({"type": "object", "properties": {"username": text, "uid": text, "groups": groups,
        "extra": {"type": "object", "additionalProperties": groups}}});
    let mut fields = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    fields.extend([
        ("kind".into(), kind.clone()),
        ("requestKind".into(), kind),
        ("resource".into(), resource.clone()),
        ("requestResource".into(), resource),
        ("userInfo".into(), user),
        ("dryRun".into(), json!({"type": "boolean"})),
        ("options".into(), json!({})),
    ]);
    serde_json::from_value(json!({"type": "object", "properties": fields})).expect("the schema is valid")
});

/// Returns the variables of expressions about a request, except the authorizer.
pub fn variables(has_params: bool) -> Vec<(&'static str, Type<'static>)> {
    let mut variables = vec![
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", Type::Schema(&REQUEST)),
        ("namespaceObject", Type::Dyn),
    ];
    variables.extend(has_params.then_some(("params", Type::Dyn)));
    variables
}

/// The variable through which expressions check authorization.
pub const AUTHORIZER: (&str, Type<'static>) = ("authorizer", Type::Dyn);

/// Compiled match conditions.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Condition>);

/// A compiled match condition.
#[derive(Debug)]
pub struct Condition {
    /// The expression's source.
    pub text: String,
    /// The compiled expression, or the reason why it cannot be evaluated.
    pub program: Result<Program, String>,
}

impl Conditions {
    /// Compiles the conditions, and adds their errors to `errors`.
    pub fn read(
        errors: &mut FieldErrors,
        list: &Path<'_>,
        match_conditions: &[MatchCondition],
        has_params: bool,
    ) -> Self {
        if match_conditions.len() > MAX_CONDITIONS {
            errors.too_many(list, match_conditions.len(), MAX_CONDITIONS);
        }
        let mut variables = variables(has_params);
        variables.push(AUTHORIZER);
        let mut seen = HashSet::new();
        let mut conditions = Vec::new();
        for (i, condition) in match_conditions.iter().enumerate().take(MAX_CONDITIONS) {
            let path = list.index(i);
            let at = path.child("expression");
            let text = condition.expression.trim();
            let program = Program::compile(text, &variables, &[Type::Bool]);
            match &program {
                _ if text.is_empty() => errors.required(&at, ""),
                Ok(_) => {}
                Err(fault) => errors.invalid(&at, text, fault),
            }
            conditions.push(Condition { text: text.into(), program });
            errors.required_name(&path.child("name"), &condition.name, names::qualified_name);
            if !condition.name.is_empty() && !seen.insert(&condition.name) {
                errors.duplicate(&path.child("name"), &condition.name);
            }
        }
        Self(conditions)
    }

    /// Iterates over the conditions.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    /// Returns whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
