//! Type checks of a validating policy's expressions against the types that it matches: errors are reported only in its
//! status, and the policy still applies.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    ExpressionWarning, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use crate::Api;
use apimachinery::cel::{Environment, Program, Type};
use apimachinery::schema::{graph, schema_props};
use base::sort::SliceOrder;
use kinds::match_conditions::{AUTHORIZER, variables};
use object::ServedKind;

/// The limit on checked types, as in Kubernetes.
const MAX_TYPES: usize = 10;
/// The limit on combinations of group, version and resource that are looked up: a rule may name far more.
const MAX_LOOKED_UP: usize = 10_000;
/// The limit on the bytes of all warnings, which are stored in the policy's status.
const MAX_WARNINGS_BYTES: usize = 256 * 1024;

impl Api {
    /// Checks the expressions of a validating policy against the types that its rules name, and the type of
    /// its parameters. Rules with wildcards name no types.
    pub fn check_types(&self, policy: &ValidatingAdmissionPolicy) -> Vec<ExpressionWarning> {
        let Some(spec) = &policy.spec else { return Vec::new() };
        let params = spec.param_kind.as_ref().and_then(|kind| {
            let (version, kind) = (kind.api_version.as_deref()?, kind.kind.as_deref()?);
            self.type_of(self.kinds().by_api_version(version, kind)?)
        });
        let mut found: Vec<(String, Vec<String>)> =
            expressions(spec).map(|(at, _)| (at, Vec::new())).collect();
        let mut bytes = 0;
        for ((group, version, kind), served) in self.named_types(spec) {
            // Loads one schema at a time, because that of a Pod has thousands of parts.
            let Some(schema) = self.type_of(served) else { continue };
            let environment = environment(spec, &schema, params.as_ref());
            for ((at, warnings), (_, expression)) in found.iter_mut().zip(expressions(spec)) {
                let Err(issues) = Program::compile_in(expression, &environment, &[Type::Dyn]) else {
                    continue;
                };
                let issues = issues.strip_prefix("compilation failed: ").unwrap_or(&issues);
                let warning = format!("{group}/{version}, Kind={kind}: {issues}\n");
                bytes += warning.len() + at.len();
                if bytes > MAX_WARNINGS_BYTES {
                    return expression_warnings(found);
                }
                warnings.push(warning);
            }
        }
        expression_warnings(found)
    }

    /// Returns the types that the rules of a policy name, by group, version and kind.
    fn named_types(
        &self,
        spec: &ValidatingAdmissionPolicySpec,
    ) -> BTreeMap<(&'static str, &'static str, &'static str), ServedKind> {
        let rules =
            spec.match_constraints.as_ref().and_then(|constraints| constraints.resource_rules.as_ref());
        let kinds = self.kinds();
        let (mut types, mut looked_up) = (BTreeMap::new(), 0);
        for rule in rules.into_iter().flatten() {
            let rule = SortedRule::of(rule);
            for (group, version, resource) in rule.paths() {
                if looked_up == MAX_LOOKED_UP {
                    return types;
                }
                looked_up += 1;
                if let Some(served) = kinds.by_path(group, version, resource) {
                    let key = (served.group(), served.version(), served.kind().info().name);
                    types.entry(key).or_insert(served);
                }
                if types.len() == MAX_TYPES {
                    return types;
                }
            }
        }
        types
    }

    /// Returns the schema of a kind in a version.
    fn type_of(&self, served: ServedKind) -> Option<JSONSchemaProps> {
        if let Some(schema) = self.kinds().schema(served) {
            return Some(schema.root());
        }
        let (group, version) = (served.group(), served.version());
        graph().root(group, version, served.kind().info().name).map(schema_props)
    }
}

/// The names in a rule, each list sorted; empty if a group or version is a wildcard.
struct SortedRule<'a> {
    groups: Vec<&'a str>,
    versions: Vec<&'a str>,
    resources: Vec<&'a str>,
}

impl<'a> SortedRule<'a> {
    fn of(rule: &'a NamedRuleWithOperations) -> Self {
        let sorted = |list: &'a Option<Vec<String>>| {
            let mut list: Vec<&str> = list.iter().flatten().map(String::as_str).collect();
            list.order();
            list.dedup();
            list
        };
        let (groups, versions) = (sorted(&rule.api_groups), sorted(&rule.api_versions));
        let mut resources = sorted(&rule.resources);
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            resources.clear();
        }
        resources.retain(|resource| !resource.contains(['*', '/']));
        Self { groups, versions, resources }
    }

    /// Returns all combinations of group, version and resource.
    fn paths(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        let of_group = move |group: &'a str| {
            let of_version = move |version: &'a str| {
                self.resources.iter().map(move |resource| (group, version, *resource))
            };
            self.versions.iter().copied().flat_map(of_version)
        };
        self.groups.iter().copied().flat_map(of_group)
    }
}

/// Returns the checked expressions, with their field paths.
fn expressions(spec: &ValidatingAdmissionPolicySpec) -> impl Iterator<Item = (String, &str)> {
    spec.validations.iter().flatten().enumerate().flat_map(|(i, validation)| {
        let at = move |field: &str| format!("spec.validations[{i}].{field}");
        let message = validation.message_expression.as_deref().filter(|message| !message.is_empty());
        let message = message.map(|message| (at("messageExpression"), message));
        std::iter::once((at("expression"), validation.expression.as_str())).chain(message)
    })
}

/// Returns the variables of expressions for objects of a type. A variable that is itself faulty has the type
/// any.
fn environment<'s>(
    spec: &ValidatingAdmissionPolicySpec,
    object: &'s JSONSchemaProps,
    params: Option<&'s JSONSchemaProps>,
) -> Environment<'s> {
    let mut known = variables(spec.param_kind.is_some());
    for (name, type_) in &mut known {
        match (*name, params) {
            ("object" | "oldObject", _) => *type_ = Type::Object(object),
            ("params", Some(params)) => *type_ = Type::Object(params),
            _ => {}
        }
    }
    known.push(AUTHORIZER);
    let mut environment = Environment::of(known);
    for variable in spec.variables.iter().flatten() {
        match Program::compile_in(&variable.expression, &environment, &[Type::Dyn]) {
            Ok(program) => program.compose_into(&variable.name, &mut environment),
            Err(_) => environment.compose_unknown(&variable.name),
        }
    }
    environment
}

fn expression_warnings(found: Vec<(String, Vec<String>)>) -> Vec<ExpressionWarning> {
    let found = found.into_iter().filter(|(_, warnings)| !warnings.is_empty());
    found.map(|(field_ref, warnings)| ExpressionWarning { field_ref, warning: warnings.join("\n") }).collect()
}
