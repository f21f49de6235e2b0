//! The CEL rules of a schema (`x-kubernetes-validations`): compiled from the definition, evaluated for each object.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::Value;

use super::previous_items::PreviousItems;
use super::rule_costs::RuleCost;
use apimachinery::cel::{Budget, DeclType, Environment, Error, Program, Type, Val, field_schema};
use apimachinery::validate::{FieldErrors, Path};

/// The maximum number of rules in a schema. Compiling them takes a while; the largest known schema has a hundred.
const MAX_RULES: usize = 400;
/// The maximum size of all rules together: the client that writes a definition waits while they are compiled.
const MAX_RULES_BYTES: usize = 256 * 1024;
/// The maximum size of a message, as in Kubernetes.
const MAX_MESSAGE_BYTES: usize = 2048;
/// The maximum size of a message expression, as in Kubernetes.
const MAX_MESSAGE_EXPRESSION_BYTES: usize = 5 * 1024;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The rules of a schema and of those below it; branches without any are left out.
#[derive(Debug, Default)]
pub(super) struct SchemaRules {
    rules: Vec<Rule>,
    pub(super) fields: BTreeMap<String, SchemaRules>,
    pub(super) any_field: Option<Box<SchemaRules>>,
    pub(super) items: Option<Box<SchemaRules>>,
}

#[derive(Debug)]
struct Rule {
    /// The rule's source, on one line.
    text: String,
    /// The compiled rule; the error of a stored rule that no longer compiles is reported for every object.
    program: Result<Program, String>,
    message: Option<String>,
    message_expression: Option<Program>,
    reason: Option<String>,
    /// The path of the error below the value.
    field_path: Option<String>,
    /// A transition rule, which compares with the old value.
    is_transition: bool,
    /// The rule is evaluated for new values, too, and the old value is an optional.
    optional_old: bool,
}

/// An error in a rule: the field below the schema, its value, and the reason.
pub(super) struct RuleFault {
    pub(super) field: String,
    pub(super) value: Option<String>,
    pub(super) message: String,
}

impl RuleFault {
    /// Returns whether the rule itself is missing.
    pub(super) fn is_missing(&self) -> bool {
        self.value.is_none() && self.field.rsplit('.').next() == Some("rule")
    }
}

/// Compiles all rules of a schema; returns them with their errors and their estimated maximum costs.
pub(super) fn read(root: &JSONSchemaProps) -> (SchemaRules, Vec<RuleFault>, Vec<RuleCost>) {
    let mut reader = Reader { faults: Vec::new(), costs: Vec::new(), count: 0, bytes: 0 };
    let place = SchemaContext { is_root: true, correlates: true, declared: None, max_count: Some(1) };
    let rules = reader.read(root, "", place);
    if !reader.is_within_limits() {
        reader.faults.push(RuleFault {
            field: String::new(),
            value: None,
            message: format!(
                "must have no more than {MAX_RULES} rules of {MAX_RULES_BYTES} bytes in x-kubernetes-validations"
            ),
        });
    }
    (rules, reader.faults, reader.costs)
}

struct Reader {
    faults: Vec<RuleFault>,
    costs: Vec<RuleCost>,
    count: usize,
    bytes: usize,
}

/// The position of a schema within the schema of the whole object.
#[derive(Clone, Copy)]
struct SchemaContext<'d> {
    is_root: bool,
    /// Each new value's old version can be found.
    correlates: bool,
    /// The size limits of its values, if a schema above has rules.
    declared: Option<&'d DeclType>,
    /// The maximum number of its values in an object, if all lists and maps above are bounded.
    max_count: Option<u64>,
}

impl SchemaContext<'_> {
    /// Returns the position of a schema directly below `above`.
    fn below<'d>(self, above: &JSONSchemaProps, declared: Option<&'d DeclType>) -> SchemaContext<'d> {
        let bound = match above.type_.as_deref() {
            Some("array") => above.max_items,
            Some("object") if above.additional_properties.is_some() => above.max_properties,
            _ => Some(1),
        };
        let bound = bound.map(|bound| u64::try_from(bound).unwrap_or(0));
        let most = self.max_count.zip(bound).map(|(most, bound)| most.saturating_mul(bound));
        SchemaContext { is_root: false, correlates: self.correlates, declared, max_count: most }
    }
}

impl Reader {
    fn is_within_limits(&self) -> bool {
        self.count <= MAX_RULES && self.bytes <= MAX_RULES_BYTES
    }

    fn read(&mut self, schema: &JSONSchemaProps, path: &str, place: SchemaContext<'_>) -> SchemaRules {
        let at = |field: &str| if path.is_empty() { field.to_string() } else { format!("{path}.{field}") };
        let mut found = SchemaRules::default();
        let rules = schema.x_kubernetes_validations.as_deref().unwrap_or_default();
        let is_resource = place.is_root || schema.x_kubernetes_embedded_resource == Some(true);
        let own = match place.declared {
            None if !rules.is_empty() => DeclType::of(schema, is_resource),
            _ => None,
        };
        let declared = place.declared.or(own.as_ref());
        for (i, rule) in rules.iter().enumerate() {
            self.count += 1;
            self.bytes += rule.rule.len() + rule.message_expression.as_ref().map_or(0, String::len);
            if self.is_within_limits() {
                let field = at(&format!("x-kubernetes-validations[{i}]"));
                found.rules.extend(self.rule(rule, schema, &field, SchemaContext { declared, ..place }));
            }
        }
        for (name, below) in schema.properties.iter().flatten() {
            let place = place.below(schema, declared.and_then(|declared| declared.field(name)));
            let rules = self.read(below, &at(&format!("properties[{name}]")), place);
            if !rules.is_empty() {
                found.fields.insert(name.clone(), rules);
            }
        }
        let place = place.below(schema, declared.and_then(DeclType::element));
        if let Some(JSONSchemaPropsOrBool::Schema(below)) = &schema.additional_properties {
            let rules = self.read(below, &at("additionalProperties"), place);
            found.any_field = (!rules.is_empty()).then(|| Box::new(rules));
        }
        if let Some(JSONSchemaPropsOrArray::Schema(below)) = &schema.items {
            let is_map = schema.x_kubernetes_list_type.as_deref() == Some("map");
            let place = SchemaContext { correlates: place.correlates && is_map, ..place };
            let rules = self.read(below, &at("items"), place);
            found.items = (!rules.is_empty()).then(|| Box::new(rules));
        }
        found
    }

    fn rule(
        &mut self,
        rule: &ValidationRule,
        schema: &JSONSchemaProps,
        path: &str,
        context: SchemaContext<'_>,
    ) -> Option<Rule> {
        let mut fault = |field: &str, value: Option<&str>, message: &str| {
            let field = format!("{path}.{field}");
            self.faults.push(RuleFault { field, value: value.map(Into::into), message: message.into() });
        };
        let own = if context.is_root || schema.x_kubernetes_embedded_resource == Some(true) {
            Type::Object(schema)
        } else {
            Type::Schema(schema)
        };
        let optional_old = rule.optional_old_self == Some(true);
        let old = if optional_old { Type::Dyn } else { own };
        let variables = vec![("self", own), ("oldSelf", old)];
        let environment = Environment::of(variables).with_sizes(context.declared);
        // As in Go, an empty string is the same as no value.
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (message, field_path) = (set(&rule.message), set(&rule.field_path));
        let message_expression = set(&rule.message_expression);
        let message = message.as_deref();
        if message.is_some_and(|message| message.trim().is_empty()) {
            fault("message", message, "message must be non-empty if specified");
        }
        if message.is_some_and(|message| message.trim().contains(['\n', '\r'])) {
            fault("message", message, "message must not contain line breaks");
        }
        if message.is_some_and(|message| message.len() > MAX_MESSAGE_BYTES) {
            fault("message", None, &format!("must be no more than {MAX_MESSAGE_BYTES} bytes"));
        }
        if message.is_none() && rule.rule.trim().contains('\n') && message_expression.is_none() {
            fault("message", None, "message must be specified if rule contains line breaks");
        }
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            let quoted: Vec<String> = REASONS.iter().map(|known| format!("\"{known}\"")).collect();
            fault("reason", Some(reason), &format!("supported values: {}", quoted.join(", ")));
        }
        if let Some(field) = &field_path
            && field_of(schema, field).is_none()
        {
            fault("fieldPath", Some(field), "fieldPath must be a valid path");
        }
        let program = if rule.rule.trim().is_empty() {
            fault("rule", None, "rule is not specified");
            None
        } else {
            let program = Program::compile_in(&rule.rule, &environment, &[Type::Bool]);
            if let Err(error) = &program {
                fault("rule", Some(&rule.rule), error);
            }
            Some(program)
        };
        let compiled = program.as_ref().and_then(|program| program.as_ref().ok());
        let message_expression = message_expression.as_deref().and_then(|source| {
            if source.len() > MAX_MESSAGE_EXPRESSION_BYTES {
                let most = format!("must be no more than {MAX_MESSAGE_EXPRESSION_BYTES} bytes");
                fault("messageExpression", None, &most);
                return None;
            }
            Program::compile_in(source, &environment, &[Type::Text])
                .map_err(|error| fault("messageExpression", Some(source), &error))
                .ok()
        });
        let is_transition = compiled.is_some_and(|program| program.uses("oldSelf"));
        if is_transition && !context.correlates {
            fault(
                "rule",
                Some(&rule.rule),
                "oldSelf cannot be used on the uncorrelatable portion of the schema",
            );
        }
        if optional_old && !is_transition && compiled.is_some() {
            fault("optionalOldSelf", Some("true"), "may not be set if oldSelf is not used in rule");
        }
        let times = context.max_count.or(context.declared.map(DeclType::max_per_request)).unwrap_or(u64::MAX);
        let cost = |program: Option<&Program>| program.and_then(Program::cost);
        // Kubernetes counts the message for one value only: the first value that breaks a rule may be the only one
        // reported.
        let costs = [
            ("rule", cost(compiled).map(|cost| cost.saturating_mul(times))),
            ("messageExpression", cost(message_expression.as_ref())),
        ];
        let costs = costs
            .into_iter()
            .filter_map(|(of, cost)| Some(RuleCost { field: format!("{path}.{of}"), of, cost: cost? }));
        self.costs.extend(costs);
        Some(Rule {
            text: rule.rule.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_string(),
            program: program?,
            message: message.map(|message| message.trim().to_string()),
            message_expression,
            reason: rule.reason.clone(),
            field_path,
            is_transition,
            optional_old,
        })
    }
}

/// Returns the schema of the field with a path such as `.spec.x` or `['a-b']`.
fn field_of<'a>(schema: &'a JSONSchemaProps, path: &str) -> Option<&'a JSONSchemaProps> {
    let (mut schema, mut rest) = (schema, path);
    while !rest.is_empty() {
        let name;
        (name, rest) = if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']")?
        } else {
            let plain = rest.strip_prefix('.')?;
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        };
        schema = field_schema(Some(schema), name)?;
    }
    Some(schema)
}

impl SchemaRules {
    /// Returns whether there are no rules at all.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.fields.is_empty() && self.any_field.is_none() && self.items.is_none()
    }

    /// Evaluates the rules for an object; on an update, `old` is its previous version.
    pub(super) fn evaluate_rules(
        &self,
        schema: &JSONSchemaProps,
        new: &Value,
        old: Option<&Value>,
        errors: &mut FieldErrors,
    ) {
        let mut budget = Budget::default();
        // No further rule is evaluated or reported once the budget is used up.
        let _ = self.evaluate_value(schema, (new, old, false), None, &mut budget, errors);
    }

    /// Evaluates the rules for a default: as for an update that leaves the value as it is, and as for a new value.
    pub(super) fn evaluate_default(
        &self,
        schema: &JSONSchemaProps,
        default: &Value,
        path: &Path<'_>,
        budget: &mut Budget,
        errors: &mut FieldErrors,
    ) {
        let before = errors.count();
        for old in [Some(default), None] {
            if errors.count() == before {
                // An exceeded budget is one of the errors.
                let _ = self.evaluate_value(schema, (default, old, false), Some(path), budget, errors);
            }
        }
    }

    fn evaluate_value(
        &self,
        schema: &JSONSchemaProps,
        (new, old, is_unchanged): (&Value, Option<&Value>, bool),
        path: Option<&Path<'_>>,
        budget: &mut Budget,
        errors: &mut FieldErrors,
    ) -> Result<(), Error> {
        for rule in &self.rules {
            // An unchanged value was accepted before and is not refused now (ratcheting). Transition rules are
            // evaluated anyway.
            if !is_unchanged || rule.is_transition {
                rule.judge(schema, new, old, path, budget, errors)?;
            }
        }
        // A value without a known old version counts as unchanged if the value that contains it is unchanged.
        let unchanged = |new: &Value, old: Option<&Value>| is_unchanged || old.is_some_and(|old| old == new);
        match new {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let below = self.fields.get(name).or(self.any_field.as_deref());
                    if let (Some(below), Some(schema)) = (below, field_schema(Some(schema), name)) {
                        let old = old.and_then(|old| old.get(name));
                        let path = match path {
                            None => Path::root(name),
                            Some(path) if self.fields.contains_key(name) => path.child(name),
                            Some(path) => path.key(name),
                        };
                        let value = (value, old, unchanged(value, old));
                        below.evaluate_value(schema, value, Some(&path), budget, errors)?;
                    }
                }
            }
            Value::Array(items) => {
                let (Some(below), Some(JSONSchemaPropsOrArray::Schema(of_item)), Some(path)) =
                    (&self.items, &schema.items, path)
                else {
                    return Ok(());
                };
                let before = PreviousItems::of(schema, old);
                for (i, item) in items.iter().enumerate() {
                    let old = before.get(item);
                    let value = (item, old, unchanged(item, old));
                    below.evaluate_value(of_item, value, Some(&path.index(i)), budget, errors)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Rule {
    fn judge(
        &self,
        schema: &JSONSchemaProps,
        new: &Value,
        old: Option<&Value>,
        path: Option<&Path<'_>>,
        budget: &mut Budget,
        errors: &mut FieldErrors,
    ) -> Result<(), Error> {
        // Rules do not apply to nulls.
        if new.is_null() || (self.is_transition && old.is_none() && !self.optional_old) {
            return Ok(());
        }
        let root = Path::root("<nil>");
        let path = path.unwrap_or(&root);
        let type_ = schema.type_.as_deref().unwrap_or_default();
        let program = match &self.program {
            Ok(program) => program,
            Err(reason) => {
                errors.invalid(path, type_, format!("rule compile error: {reason}"));
                return Ok(());
            }
        };
        let old = old.map(|old| Val::of_json(old, Some(schema)));
        let mut variables = vec![("self", Val::of_json(new, Some(schema)))];
        if self.optional_old {
            variables.push(("oldSelf", Val::Optional(old.map(Into::into))));
        } else {
            variables.extend(old.map(|old| ("oldSelf", old)));
        }
        match program.run(&variables, budget) {
            Ok(Val::Bool(true)) => Ok(()),
            Ok(Val::Bool(false)) => {
                self.fail(&variables, new, path, budget, errors);
                Ok(())
            }
            Ok(_) => {
                errors.invalid(
                    path,
                    type_,
                    format!("cel expression evaluated to no bool for rule: {}", self.text),
                );
                Ok(())
            }
            Err(Error::Budget) => {
                let detail = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    Error::Budget,
                    self.text
                );
                errors.invalid(path, type_, detail);
                Err(Error::Budget)
            }
            Err(error @ Error::Overload(_)) => {
                let detail = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for \
                     rule: {}",
                    self.text
                );
                errors.invalid(path, type_, detail);
                Ok(())
            }
            Err(error) => {
                errors.invalid(path, type_, format!("{error} evaluating rule: {}", self.text));
                Ok(())
            }
        }
    }

    fn fail<'a>(
        &'a self,
        variables: &[(&'a str, Val<'a>)],
        value: &Value,
        path: &Path<'_>,
        budget: &mut Budget,
        errors: &mut FieldErrors,
    ) {
        let made = self.message_expression.as_ref().and_then(|made| made.run(variables, budget).ok());
        let made = made.as_ref().and_then(Val::as_text).map(str::trim);
        let usable = |text: &&str| {
            !text.is_empty() && text.len() <= MAX_MESSAGE_EXPRESSION_BYTES && !text.contains('\n')
        };
        let message = match (made.filter(usable), &self.message) {
            (Some(made), _) => made.to_string(),
            (None, Some(message)) => message.clone(),
            (None, None) => format!("failed rule: {}", self.text),
        };
        let below = self.field_path.as_deref().unwrap_or_default().replace("['", "[").replace("']", "]");
        let full = format!("{path}{below}");
        let path = if below.is_empty() { *path } else { Path::root(&full) };
        match self.reason.as_deref() {
            Some("FieldValueRequired") => errors.required(&path, message),
            Some("FieldValueForbidden") => errors.forbidden(&path, message),
            Some("FieldValueDuplicate") => errors.duplicate_because(&path, value, message),
            _ if value.is_object() || value.is_array() => errors.invalid_itself(&path, message),
            _ => errors.invalid(&path, value, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_fields_of_a_rule_are_unset_api_14() {
        let faults = |rule: Value| {
            let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
                "x-kubernetes-validations": [rule]});
            let (rules, faults, _) = read(&serde_json::from_value(schema).unwrap());
            assert_eq!(rules.rules.len(), 1);
            faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>()
        };
        for rule in [
            json!({"rule": "true", "fieldPath": "", "message": "", "messageExpression": ""}),
            json!({"rule": "true", "fieldPath": ".a", "message": "must be true\n"}),
            json!({"rule": "true", "messageExpression": "'a is %s'.format([self.a])"}),
            json!({"rule": "semver(self.a, true).isGreaterThan(semver('1.33.0'))"}),
        ] {
            assert_eq!(faults(rule.clone()), [""; 0], "{rule}");
        }
        for (rule, expected) in [
            (json!({"rule": "true", "fieldPath": " "}), "fieldPath must be a valid path"),
            (json!({"rule": "true", "message": " "}), "message must be non-empty if specified"),
            (json!({"rule": "true", "message": "a\nb"}), "message must not contain line breaks"),
        ] {
            assert_eq!(faults(rule.clone()), [expected], "{rule}");
        }
    }

    /// A definition of an earlier version may have rules that this version does not compile.
    #[test]
    fn a_stored_rule_that_does_not_compile_refuses_objects_api_14() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "self.b == 1"}, {"rule": "self.a == 'x'"}]});
        let schema: JSONSchemaProps = serde_json::from_value(schema).unwrap();
        let (rules, faults, _) = read(&schema);
        assert_eq!(faults.len(), 1);
        let mut errors = FieldErrors::default();
        rules.evaluate_rules(&schema, &json!({"a": "x"}), None, &mut errors);
        let errors = errors.into_vec();
        assert_eq!(errors.len(), 1);
        let expected = format!("Invalid value: \"object\": rule compile error: {}", faults[0].message);
        assert_eq!(errors[0].message(), expected);
    }
}
