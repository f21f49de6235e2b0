//! CEL rules and schemas that the definitions of several kinds have. Each rule refuses an object in which a condition
//! holds.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

/// The keyword of a schema for CEL rules.
pub(crate) const VALIDATIONS: &str = "x-kubernetes-validations";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// A duration without a sign.
pub(crate) const DURATION: &str = "(0|([0-9]+([.][0-9]*)?(h|m|s|ms|us|µs))+)";

/// Returns a rule that refuses a value as invalid.
pub(crate) fn invalid(condition: &str, message: &str) -> Value {
    json!({"rule": format!("!({condition})"), "message": message})
}

/// Returns a rule that refuses a field below the object.
pub(crate) fn invalid_field(field: &str, condition: &str, message: &str) -> Value {
    with(invalid(condition, message), &[("fieldPath", field)])
}

/// Returns a rule that requires a field.
pub(crate) fn required(field: &str, condition: &str, message: &str) -> Value {
    with(invalid_field(field, condition, message), &[("reason", "FieldValueRequired")])
}

/// Returns a rule that forbids a field.
pub(crate) fn forbidden(field: &str, condition: &str, message: &str) -> Value {
    with(invalid_field(field, condition, message), &[("reason", "FieldValueForbidden")])
}

/// Adds keywords to a rule.
pub(crate) fn with(mut rule: Value, keywords: &[(&str, &str)]) -> Value {
    for (keyword, value) in keywords {
        rule[*keyword] = json!(value);
    }
    rule
}

/// Returns a CEL list of texts.
pub(crate) fn list(texts: &[&str]) -> String {
    format!("['{}']", texts.join("', '"))
}

/// Returns the rules of a spec that never changes.
pub(crate) fn immutable() -> Value {
    json!([{"rule": "self == oldSelf", "message": "field is immutable", "reason": "FieldValueForbidden"}])
}

/// Returns the conditions of a new object: the controller has not yet decided about this one.
pub(crate) fn pending(type_: &str) -> Value {
    json!([{"type": type_, "status": "Unknown", "reason": "Pending", "message": "",
        "lastTransitionTime": "1970-01-01T00:00:00Z"}])
}

/// Returns the rules of the name of an object.
pub(crate) fn of_subdomain() -> Value {
    json!([invalid("format.dns1123Subdomain().validate(self).hasValue()", SUBDOMAIN)])
}

/// Returns the rules of the name of a namespace, container or volume.
pub(crate) fn of_label() -> Value {
    json!([invalid("format.dns1123Label().validate(self).hasValue()", LABEL)])
}

/// Returns the rules of a number.
pub(crate) fn of_range(least: i64, most: i64) -> Value {
    let message = format!("must be between {least} and {most}, inclusive");
    json!([invalid(&format!("self < {least} || self > {most}"), &message)])
}

/// Returns a rule that refuses an empty text.
pub(crate) fn empty() -> Value {
    with(invalid("self == ''", "must not be empty"), &[("reason", "FieldValueRequired")])
}

/// Returns a condition on a text that is a duration.
pub(crate) fn readable(condition: &str) -> String {
    format!("self.matches('^{DURATION}$') && {condition}")
}

/// The way in which a schema checks the syntax of labels.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LabelSyntax {
    /// Rules with Kubernetes' messages.
    Rules,
    /// Patterns, which cost nothing, for selectors in long lists.
    Patterns,
}

impl LabelSyntax {
    /// Returns the schema of a label's key.
    fn key(self) -> Value {
        let keyword = match self {
            Self::Rules => {
                (VALIDATIONS, json!([invalid("format.qualifiedName().validate(self).hasValue()", LABEL_KEY)]))
            }
            Self::Patterns => (
                "pattern",
                json!("^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"),
            ),
        };
        json!({"description": "key is the key of the label.", "type": "string", "maxLength": 317, (keyword.0): keyword.1})
    }

    /// Returns the schema of a label's value.
    fn value(self) -> Value {
        let keyword = match self {
            Self::Rules => {
                (VALIDATIONS, json!([invalid("format.labelValue().validate(self).hasValue()", LABEL_VALUE)]))
            }
            Self::Patterns => ("pattern", json!("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")),
        };
        json!({"type": "string", "maxLength": 63, (keyword.0): keyword.1})
    }
}

/// Returns the schema of a label selector with at most `most` requirements of either form, and values of each.
pub(crate) fn selector_of(most: usize, labels: LabelSyntax) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "matchLabels is a map of labels with their values, all of which must match.",
                "type": "object",
                "maxProperties": most,
                "additionalProperties": labels.value(),
                (VALIDATIONS): [invalid(
                    "self.exists(key, format.qualifiedName().validate(key).hasValue())",
                    &format!("each key: {LABEL_KEY}"),
                )],
            },
            "matchExpressions": {
                "description": "matchExpressions is a list of requirements, all of which must match.",
                "type": "array",
                "maxItems": most,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "description": "A requirement on a label.",
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": labels.key(),
                        "operator": {
                            "description": "operator is In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                            "maxLength": 32,
                            (VALIDATIONS): [invalid(
                                "!(self in ['DoesNotExist', 'Exists', 'In', 'NotIn'])",
                                "not a valid selector operator",
                            )],
                        },
                        "values": {
                            "description": "values is the list of values for In and NotIn.",
                            "type": "array",
                            "maxItems": most,
                            "x-kubernetes-list-type": "atomic",
                            "items": labels.value(),
                        },
                    },
                    (VALIDATIONS): [
                        required(
                            ".values",
                            "self.operator in ['In', 'NotIn'] && (!has(self.values) || self.values.size() == 0)",
                            "must be specified when `operator` is 'In' or 'NotIn'",
                        ),
                        forbidden(
                            ".values",
                            "self.operator in ['DoesNotExist', 'Exists'] && has(self.values) && self.values.size() > 0",
                            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                        ),
                    ],
                },
            },
        },
    })
}
