//! Decoding with `fieldValidation`: unknown and duplicate fields are refused, warned of, or ignored (API-2).

use super::body::ReadValue;
use super::response_format::ResponseFormat;
use api::served_kinds::Kinds;
use api::{ApiError, object_checks};
use apimachinery::schema::{SchemaReport, drop_empties, fill_nulls, read_scalars, schema_check};
use apimachinery::validate::{FieldErrors, Path};
use object::{DecodeError, Object, ServedKind};

/// Returns the typed object.
pub(super) fn object(
    kinds: &Kinds,
    served: ServedKind,
    mut read: ReadValue,
    format: &ResponseFormat,
) -> Result<Object, ApiError> {
    let (kind, version) = (served.kind(), served.version());
    let name = kind.info().name;
    object_checks::check_parts(&read.value)?;
    // Fields of a legacy version have the stored version's types.
    let served = if served.is_legacy() {
        read.value = served.stored(read.value);
        ServedKind::from(kind)
    } else {
        served
    };
    fill_nulls(served.group(), served.version(), name, &mut read.value);
    let report = match (kinds.schema(served), read.value.as_object_mut()) {
        (Some(schema), Some(fields)) => {
            SchemaReport { unknown: schema.prune(fields), ..SchemaReport::default() }
        }
        _ => schema_check(served.group(), served.version(), name, &read.value),
    };
    let unreadable = |reason: String| {
        ApiError::BadRequest(format!(
            "{name} in version \"{version}\" cannot be handled as a {name}: {reason}"
        ))
    };
    if let Some(mistyped) = report.mistyped.first() {
        return Err(unreadable(mistyped.to_string()));
    }
    read_scalars(served.group(), served.version(), name, &mut read.value).map_err(unreadable)?;
    match format.query.get("fieldValidation").unwrap_or("Warn") {
        "Strict" => {
            if let Some(error) = report.strict_error(&read.duplicates) {
                return Err(unreadable(error));
            }
        }
        "Warn" => format.warnings.warn(report.findings(&read.duplicates)),
        "Ignore" => {}
        other => {
            let mut errors = FieldErrors::default();
            errors.unsupported(&Path::root("fieldValidation"), other, &["", "Ignore", "Strict", "Warn"]);
            errors.refuse_request(format.options, "meta.k8s.io", "")?;
        }
    }
    drop_empties(served.group(), served.version(), name, &mut read.value);
    Object::from_value(kind, served.stored(read.value)).map_err(|error| {
        unreadable(match error {
            DecodeError::Shape { message, .. } => to_go_message(&message),
            unknown @ DecodeError::UnknownKind { .. } => unknown.to_string(),
        })
    })
}

/// Rewrites the decoder's message about a wrong type into Go's words. The schema check refuses most such
/// values earlier.
fn to_go_message(message: &str) -> String {
    let wrong_type =
        message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let Some((found, expected)) = wrong_type.and_then(|rest| rest.split_once(", expected ")) else {
        return message.to_string();
    };
    let found = match found.split([' ', '`']).next().unwrap_or_default() {
        "integer" | "floating" => "number",
        "boolean" => "bool",
        "map" => "object",
        "sequence" => "array",
        "unit" => "null",
        other => other,
    };
    let expected = match expected {
        "a string" => "string",
        "a boolean" => "bool",
        "a map" => "map[string]interface {}",
        "a sequence" => "[]interface {}",
        "i32" => "int32",
        "i64" => "int64",
        "f64" => "float64",
        other => other.trim_start_matches("struct "),
    };
    format!("json: cannot unmarshal {found} into Go value of type {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_wrong_type_is_refused_in_words_of_go_api_8() {
        for (message, expected) in [
            (
                "invalid type: integer `5`, expected a string",
                "json: cannot unmarshal number into Go value of type string",
            ),
            ("invalid type: null, expected i32", "json: cannot unmarshal null into Go value of type int32"),
            (
                "invalid type: map, expected JSONSchemaPropsOrBool",
                "json: cannot unmarshal object into Go value of type JSONSchemaPropsOrBool",
            ),
            ("something else", "something else"),
        ] {
            assert_eq!(to_go_message(message), expected);
        }
    }
}
