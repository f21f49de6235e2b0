//! The options of a write besides the object: Create-, Update-, Patch- and DeleteOptions, from query or body,
//! with Kubernetes' rules.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions as Given;
use serde_json::Value;

use super::query::Query;
use super::response_format::{MANAGER_MAX_BYTES, ResponseFormat};
use api::{ApiError, DeleteOptions, Propagation, WriteOptions};
use apimachinery::validate::{FieldErrors, Path};
use base::quote::quote;
use object::Revision;

/// The API group of all options.
const GROUP: &str = "meta.k8s.io";

/// Returns the options of a write from its query; without a field manager, the program's name is used.
pub(super) fn of_write(format: &ResponseFormat) -> Result<WriteOptions, ApiError> {
    checked(format, FieldErrors::default())
}

/// Returns the options of a patch that is no apply, from its query.
pub(super) fn of_patch(format: &ResponseFormat) -> Result<WriteOptions, ApiError> {
    let mut errors = FieldErrors::default();
    if format.query.has("force") {
        errors.forbidden(&Path::root("force"), "may not be specified for non-apply patch");
    }
    checked(format, errors)
}

/// Returns the options of an apply, from its query.
pub(super) fn of_apply(format: &ResponseFormat) -> Result<WriteOptions, ApiError> {
    let mut errors = FieldErrors::default();
    if format.query.get("fieldManager").is_none() {
        errors.required(&Path::root("fieldManager"), "is required for apply patch");
    }
    checked(format, errors)
}

fn checked(format: &ResponseFormat, mut errors: FieldErrors) -> Result<WriteOptions, ApiError> {
    let dry_run = dry_run(&mut errors, &format.query.all("dryRun"));
    let manager = format.query.get("fieldManager");
    field_manager(&mut errors, manager.unwrap_or_default());
    errors.refuse_request(format.options, GROUP, "")?;
    let field_manager = Some(manager.unwrap_or(&format.program).into());
    Ok(WriteOptions {
        dry_run,
        field_manager,
        user: format.user.clone(),
        warnings: format.warnings.clone(),
        requested: format.served,
    })
}

/// Returns the options of a deletion, from its body, or from its query if the body has none.
pub(super) fn of_delete(body: Option<Value>, format: &ResponseFormat) -> Result<DeleteOptions, ApiError> {
    let given = match body {
        None | Some(Value::Null) => Given::default(),
        Some(body) => base::json::from_value(body)
            .map_err(|error| ApiError::BadRequest(format!("cannot decode DeleteOptions: {error}")))?,
    };
    let query = &format.query;
    let mut errors = FieldErrors::default();
    let policy = given.propagation_policy.as_deref().or_else(|| query.get("propagationPolicy"));
    let orphan = given.orphan_dependents.or_else(|| orphan_dependents(query));
    let propagation = propagation(&mut errors, policy, orphan);
    let dry_run_in_body = dry_run(&mut errors, given.dry_run.as_deref().unwrap_or_default());
    let dry_run_in_query = dry_run(&mut errors, &query.all("dryRun"));
    let preconditions = given.preconditions.unwrap_or_default();
    let resource_version = preconditions.resource_version.as_deref().filter(|v| !v.is_empty()).map(|text| {
        Revision::parse(text).or_else(|| {
            let detail = format!("strconv.ParseUint: parsing {}: invalid syntax", quote(text));
            errors.invalid(&Path::root("preconditions.resourceVersion"), text, detail);
            None
        })
    });
    errors.refuse_request("DeleteOptions", GROUP, "")?;
    Ok(DeleteOptions {
        grace_period_seconds: match given.grace_period_seconds {
            Some(seconds) => Some(seconds),
            None => query.number("gracePeriodSeconds")?,
        },
        uid: preconditions.uid,
        resource_version: resource_version.flatten(),
        propagation,
        default_propagation: None,
        dry_run: dry_run_in_body || dry_run_in_query,
        user: format.user.clone(),
        requested: format.served,
        warnings: format.warnings.clone(),
    })
}

/// Returns the value of the parameter `orphanDependents`, if present.
fn orphan_dependents(query: &Query) -> Option<bool> {
    query.get("orphanDependents").map(|_| query.flag("orphanDependents"))
}

fn propagation(errors: &mut FieldErrors, policy: Option<&str>, orphan: Option<bool>) -> Option<Propagation> {
    let path = Path::root("propagationPolicy");
    if let (Some(policy), Some(_)) = (policy, orphan) {
        errors.invalid(&path, policy, "orphanDependents and deletionPropagation cannot be both set");
    }
    match (policy, orphan) {
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (None, None) => None,
        (Some(other), _) => {
            errors.unsupported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
            None
        }
    }
}

/// Returns true for a dry run; reports any value other than `All`.
fn dry_run(errors: &mut FieldErrors, values: &[String]) -> bool {
    let values: Vec<String> = values.iter().filter(|value| !value.is_empty()).cloned().collect();
    if values.iter().any(|value| value != "All") {
        errors.unsupported(&Path::root("dryRun"), &values, &["All"]);
    }
    !values.is_empty()
}

fn field_manager(errors: &mut FieldErrors, name: &str) {
    let path = Path::root("fieldManager");
    if name.len() > MANAGER_MAX_BYTES {
        errors.too_long(&path, MANAGER_MAX_BYTES);
    }
    // Characters that `%q` would escape as not printable.
    let unseen = |c: &char| *c != '"' && *c != '\\' && quote(c.encode_utf8(&mut [0; 4])).chars().count() > 3;
    if let Some((at, letter)) = name.char_indices().find(|(_, c)| unseen(c)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
        errors.invalid(&path, name, detail);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use serde_json::json;

    use super::*;
    use http::Method;

    fn format_of(method: Method, query: &str) -> ResponseFormat {
        let request = Request::builder().method(method).uri(format!("/api/v1/x?{query}"));
        ResponseFormat::of(&request.body(Body::empty()).unwrap())
    }

    #[test]
    fn write_options_are_refused_in_kubernetes_words_api_2() {
        let long = format!("fieldManager={}", "m".repeat(129));
        for (method, query, expected) in [
            (
                Method::POST,
                "dryRun=Some",
                "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported \
                 values: \"All\"",
            ),
            (
                Method::PUT,
                long.as_str(),
                "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes",
            ),
            (
                Method::PATCH,
                "fieldManager=a%1Bb",
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\x1bb\": invalid character \
                 U+001B (at position 1)",
            ),
        ] {
            let error = of_write(&format_of(method, query)).unwrap_err();
            assert_eq!((error.code(), error.to_string()), (422, expected.to_string()));
        }
        let good = of_write(&format_of(Method::POST, "dryRun=All&fieldManager=m%22%C3%A9")).unwrap();
        assert_eq!((good.dry_run, good.field_manager.as_deref()), (true, Some("m\"é")));
        assert!(!of_write(&format_of(Method::POST, "dryRun=")).unwrap().dry_run);
    }

    /// Regression: options that could not be parsed were treated as absent.
    #[test]
    fn deletions_are_refused_in_kubernetes_words_api_2() {
        let invalid = "DeleteOptions.meta.k8s.io \"\" is invalid: ";
        for (body, query, expected) in [
            (
                json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
                "",
                "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both \
                 set",
            ),
            (
                json!({"propagationPolicy": "Sideways"}),
                "",
                "propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \
                 \"Orphan\", \"nil\"",
            ),
            (
                json!({"dryRun": ["Some"]}),
                "",
                "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
            ),
            (json!({}), "dryRun=Some", "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""),
            (
                json!({"preconditions": {"resourceVersion": "abc"}}),
                "",
                "preconditions.resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid \
                 syntax",
            ),
        ] {
            let error = of_delete(Some(body), &format_of(Method::DELETE, query)).unwrap_err();
            assert_eq!((error.code(), error.to_string()), (422, format!("{invalid}{expected}")));
        }
        let unreadable = of_delete(Some(json!({"gracePeriodSeconds": "0"})), &format_of(Method::DELETE, ""));
        assert_eq!(unreadable.unwrap_err().code(), 400);
        let good = of_delete(
            Some(json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"],
                "preconditions": {"uid": "u", "resourceVersion": "7"}})),
            &format_of(Method::DELETE, "gracePeriodSeconds=5&orphanDependents=false"),
        );
        let expected = DeleteOptions {
            grace_period_seconds: Some(5),
            uid: Some("u".into()),
            resource_version: Some(Revision(7)),
            propagation: Some(Propagation::Background),
            dry_run: true,
            warnings: good.as_ref().unwrap().warnings.clone(),
            ..DeleteOptions::default()
        };
        assert_eq!(good, Ok(expected));
    }
}
