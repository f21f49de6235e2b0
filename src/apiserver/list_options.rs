//! The options of a list or watch besides its selectors: paging and resourceVersion, with Kubernetes' rules
//! for their combinations.

use std::time::Duration;

use rand::RngExt;

use super::query::Query;
use api::ApiError;
use apimachinery::validate::{FieldErrors, Path};
use base::quote::quote;
use object::Revision;

const NOT_OLDER_THAN: &str = "NotOlderThan";
const EXACT: &str = "Exact";
const FORBIDDEN_WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

/// The page of a list, and the state to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListOptions {
    /// The maximum number of objects.
    pub(super) limit: usize,
    /// The continue token of the requested page.
    pub(super) continue_token: Option<String>,
    /// The state must not be older than this revision; `None`: any state.
    pub(super) revision: Option<Revision>,
    /// True if the state must be exactly that of `revision`.
    pub(super) exact: bool,
}

impl ListOptions {
    /// Reads the options of a list.
    pub(super) fn of_list(query: &Query) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::default();
        let at_match = Path::root("resourceVersionMatch");
        let (matching, version) = (query.get("resourceVersionMatch"), query.get("resourceVersion"));
        if let Some(matching) = matching {
            if version.is_none() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.forbidden(&at_match, detail);
            }
            if query.get("continue").is_some() {
                errors.forbidden(&at_match, FORBIDDEN_WITH_CONTINUE);
            }
            errors.one_of(&at_match, matching, &[EXACT, NOT_OLDER_THAN, ""]);
            if matching == EXACT && version == Some("0") {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.forbidden(&at_match, detail);
            }
        }
        if query.get("sendInitialEvents").is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.forbidden(&Path::root("sendInitialEvents"), detail);
        }
        refuse(errors)?;
        let continue_token = query.get("continue").map(Into::into);
        if continue_token.is_some() && version.is_some_and(|v| v != "0") {
            return Err(ApiError::BadRequest(
                "specifying resource version is not allowed when using continue".into(),
            ));
        }
        // A limit below one means no limit, as in Kubernetes.
        let limit = query.number::<i64>("limit")?.and_then(|limit| usize::try_from(limit).ok());
        Ok(Self {
            limit: limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX),
            continue_token,
            revision: revision(query)?,
            exact: matching == Some(EXACT),
        })
    }

    /// Checks the options of a watch.
    pub(super) fn check_watch(query: &Query) -> Result<(), ApiError> {
        let mut errors = FieldErrors::default();
        let at_match = Path::root("resourceVersionMatch");
        let (matching, initial) = (query.get("resourceVersionMatch"), query.get("sendInitialEvents"));
        if initial.is_some() && matching != Some(NOT_OLDER_THAN) {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.forbidden(&at_match, detail);
        }
        if let Some(matching) = matching {
            if initial.is_none() {
                let detail =
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.forbidden(&at_match, detail);
            }
            errors.one_of(&at_match, matching, &[NOT_OLDER_THAN]);
            if query.get("continue").is_some() {
                errors.forbidden(&at_match, FORBIDDEN_WITH_CONTINUE);
            }
        }
        refuse(errors)
    }
}

/// Returns the revision that a read names; 0 counts as none.
pub(super) fn revision(query: &Query) -> Result<Option<Revision>, ApiError> {
    let Some(text) = query.get("resourceVersion") else { return Ok(None) };
    match Revision::parse(text) {
        Some(revision) => Ok(Some(revision).filter(|r| r.0 > 0)),
        None => Err(ApiError::BadRequest(format!(
            "resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax",
            quote(text)
        ))),
    }
}

/// Returns the duration of a watch: `timeoutSeconds`, else random between half an hour and an hour, as in
/// Kubernetes' API server.
pub(super) fn watch_timeout(query: &Query) -> Result<Duration, ApiError> {
    let requested = query.number::<u64>("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    Ok(Duration::from_secs(requested.unwrap_or_else(|| base::random::rng().random_range(1800..3600))))
}

fn refuse(errors: FieldErrors) -> Result<(), ApiError> {
    errors.refuse_request("ListOptions", "meta.k8s.io", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVALID: &str = "ListOptions.meta.k8s.io \"\" is invalid: ";

    /// The rules are those of Kubernetes' `ValidateListOptions`.
    #[test]
    fn list_options_are_refused_in_kubernetes_words_api_2() {
        for (query, code, expected) in [
            (
                "resourceVersionMatch=Exact",
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is \
                 provided",
            ),
            (
                "resourceVersionMatch=Bad&resourceVersion=1",
                422,
                "resourceVersionMatch: Unsupported value: \"Bad\": supported values: \"Exact\", \"NotOlderThan\", \
                 \"\"",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \
                 \"0\"",
            ),
            (
                "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x",
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                "sendInitialEvents=false",
                422,
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "resourceVersion=5&continue=x",
                400,
                "specifying resource version is not allowed when using continue",
            ),
            ("limit=x", 400, "invalid value \"x\" of the parameter limit"),
            (
                "resourceVersion=abc",
                400,
                "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
            ),
            (
                "resourceVersion=-1",
                400,
                "resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": \
             invalid syntax",
            ),
        ] {
            let error = ListOptions::of_list(&Query::parse(query)).unwrap_err();
            assert_eq!(error.code(), code, "{query}");
            assert_eq!(error.to_string().trim_start_matches(INVALID), expected, "{query}");
        }
        for (query, limit) in [("limit=-1", usize::MAX), ("limit=0", usize::MAX), ("limit=7", 7)] {
            assert_eq!(ListOptions::of_list(&Query::parse(query)).unwrap().limit, limit, "{query}");
        }
        assert!(ListOptions::of_list(&Query::parse("resourceVersion=0&continue=x")).is_ok());
    }

    /// The rules are those of Kubernetes' `validateWatchOptions`.
    #[test]
    fn watch_options_are_refused_in_kubernetes_words_api_4() {
        for (query, expected) in [
            (
                "sendInitialEvents=true",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                 NotOlderThan",
            ),
            (
                "resourceVersionMatch=NotOlderThan&resourceVersion=1",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
                 sendInitialEvents is provided",
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=Exact",
                "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                 NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \
                 \"NotOlderThan\"]",
            ),
        ] {
            let error = ListOptions::check_watch(&Query::parse(query)).unwrap_err();
            assert_eq!(error.to_string().trim_start_matches(INVALID), expected, "{query}");
        }
        let good = Query::parse("sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        assert_eq!(ListOptions::check_watch(&good), Ok(()));
    }
}
