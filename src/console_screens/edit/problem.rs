//! Problems of the typed text, each with its line.

use kube::core::Status;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from one; `None` if the problem has no line.
    pub line: Option<usize>,
    /// The complete message.
    pub text: String,
}

impl Problem {
    /// Creates a problem without a line.
    pub fn general(text: impl Into<String>) -> Self {
        Self { line: None, text: text.into() }
    }
}

/// Returns the problems of a failed response, each cause at the line of its field.
pub(crate) fn of_status(status: &Status, text: &str) -> Vec<Problem> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let at_fields: Vec<Problem> = causes
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| Problem {
            line: line_of(text, &cause.field),
            text: format!("{}: {}", cause.field, cause.message),
        })
        .collect();
    if !at_fields.is_empty() {
        return at_fields;
    }
    let line = named_field(&status.message, text);
    vec![Problem { line, text: status.message.clone() }]
}

/// Returns the line of a field, or of the longest existing prefix of its path.
pub(crate) fn line_of(text: &str, field: &str) -> Option<usize> {
    let document = manifest::parse(text, "edit").into_iter().next()?.ok()?;
    Some(document.position(field).line)
}

/// Returns the line of the first field that a decoding error names: `of Go struct field DeploymentSpec.spec.replicas`,
/// `unknown field "spec.replicsa"`.
fn named_field(message: &str, text: &str) -> Option<usize> {
    let document = manifest::parse(text, "edit").into_iter().next()?.ok()?;
    let fields: Vec<&String> = document.value.as_object()?.keys().collect();
    message
        .split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | ',' | '(' | ')' | '\''))
        .map(|word| word.trim_end_matches([':', '.']))
        .find_map(|word| {
            let starts = |path: &str| {
                let first = path.split(['.', '[']).next().unwrap_or_default();
                path.len() > first.len() && fields.iter().any(|field| *field == first)
            };
            // Decoders write the type before the path.
            let shorter = word.split_once('.').map(|(_, rest)| rest);
            let path = [Some(word), shorter].into_iter().flatten().find(|path| starts(path))?;
            Some(document.position(path).line)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: -3\n  \
                        template:\n    spec:\n      containers:\n      - name: a\n        image: x\n      - name: b\n";

    fn lines(status: serde_json::Value) -> Vec<(Option<usize>, String)> {
        let status: Status = serde_json::from_value(status).unwrap();
        of_status(&status, TEXT).into_iter().map(|problem| (problem.line, problem.text)).collect()
    }

    /// CON-11: every field error is shown at its own line, even in the second item of a list.
    #[test]
    fn the_servers_complaints_stand_at_their_lines() {
        let causes = json!({ "message": "is invalid: […]", "code": 422, "details": { "causes": [
            { "field": "spec.replicas", "message": "Invalid value: -3: must be greater than or equal to 0" },
            { "field": "spec.template.spec.containers[1].image", "message": "Required value" },
        ] } });
        assert_eq!(
            lines(causes),
            [
                (Some(6), "spec.replicas: Invalid value: -3: must be greater than or equal to 0".to_owned()),
                (Some(12), "spec.template.spec.containers[1].image: Required value".to_owned()),
            ]
        );
        for (message, line) in [
            (
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
                Some(6),
            ),
            ("strict decoding error: unknown field \"spec.template.spec.containers[1].imag\"", Some(12)),
            ("admission webhook said no", None),
        ] {
            assert_eq!(lines(json!({ "message": message, "code": 400 })), [(line, message.to_owned())]);
        }
    }
}
