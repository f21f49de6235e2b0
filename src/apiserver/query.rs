//! The query of a request.

use std::borrow::Cow;
use std::collections::HashMap;

use super::table::IncludeObject;
use api::served_kinds::Kinds;
use api::{ApiError, Selection};
use apimachinery::validate::names;
use base::quote::quote;
use base::sort::SliceOrder;
use object::ServedKind;
use object::selector::{Operator, Requirement, Selector, SelectorError, parse_fields};

/// A request's query parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    values: HashMap<String, Vec<String>>,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut values: HashMap<String, Vec<String>> = HashMap::new();
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            values.entry(decode(key)).or_default().push(decode(value));
        }
        Self { values }
    }

    /// Returns the parameter's value; an empty value counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.first().map(String::as_str).filter(|v| !v.is_empty())
    }

    /// Returns true if the parameter is present, even without a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Returns all values of a repeated parameter.
    pub(super) fn all(&self, key: &str) -> Vec<String> {
        self.values.get(key).cloned().unwrap_or_default()
    }

    /// Returns true if the parameter is set to anything but `0` and `false` in any case, as in Kubernetes:
    /// `?watch` and `?watch=` are true as well.
    pub(super) fn flag(&self, key: &str) -> bool {
        let first = self.values.get(key).and_then(|values| values.first());
        first.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Returns the parameter as a number.
    pub(super) fn number<N: std::str::FromStr>(&self, key: &str) -> Result<Option<N>, ApiError> {
        self.get(key)
            .map(|value| {
                value.parse().map_err(|_| {
                    ApiError::BadRequest(format!("invalid value {} of the parameter {key}", quote(value)))
                })
            })
            .transpose()
    }

    /// Returns the part of its object that a table row includes.
    pub(super) fn include_object(&self) -> IncludeObject {
        self.get("includeObject").and_then(IncludeObject::from_parameter).unwrap_or_default()
    }

    /// Returns the selection by label and field selectors.
    pub(super) fn selection(&self, kinds: &Kinds, served: ServedKind) -> Result<Selection, ApiError> {
        let bad = |e: SelectorError| ApiError::BadRequest(e.to_string());
        let labels = Selector::parse(self.get("labelSelector").unwrap_or("")).map_err(bad)?;
        if let Some(fault) = labels.requirements().iter().find_map(requirement_fault) {
            return Err(bad(SelectorError::in_requirement(&fault)));
        }
        let mut fields = parse_fields(self.get("fieldSelector").unwrap_or("")).map_err(bad)?;
        for field in &mut fields {
            field.path = served.stored_field(std::mem::take(&mut field.path));
        }
        api::select::check_fields(served.kind(), &*kinds.strategy_in(served), &fields)?;
        Ok(Selection { labels, fields })
    }
}

/// Returns the error of a requirement that no label can meet, in the words of apimachinery's `labels.Parse`.
fn requirement_fault(requirement: &Requirement) -> Option<String> {
    let key = requirement.key.as_str();
    let fault = |path: &str, text: &str, reasons: Vec<String>| {
        let is_wrong = !reasons.is_empty();
        is_wrong.then(|| format!("{path}: Invalid value: {}: {}", quote(text), reasons.join("; ")))
    };
    if let Some(fault) = fault("<nil>", key, names::qualified_name(key)) {
        return Some(fault);
    }
    let mut values = match &requirement.operator {
        Operator::In(values) | Operator::NotIn(values) => values.clone(),
        Operator::GreaterThan(bound) | Operator::LessThan(bound) => vec![bound.to_string()],
        Operator::Exists | Operator::DoesNotExist => Vec::new(),
    };
    values.order();
    values.dedup();
    let faults = values
        .iter()
        .enumerate()
        .filter_map(|(i, value)| fault(&format!("values[{i}][{key}]"), value, names::label_value(value)));
    match faults.collect::<Vec<_>>().as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn decode(text: &str) -> String {
    let text: Cow<'_, str> = if text.contains('+') { text.replace('+', " ").into() } else { text.into() };
    percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_decode() {
        let query = Query::parse("labelSelector=a+in%20%28b%29&watch=true&command=x&command=y&limit=");
        assert_eq!(query.get("labelSelector"), Some("a in (b)"));
        assert_eq!((query.flag("watch"), query.get("limit")), (true, None));
        assert_eq!(query.all("command"), ["x", "y"]);
        assert!(Query::parse("limit=x").number::<u64>("limit").is_err());
    }

    #[test]
    fn a_label_selector_that_no_label_can_meet_is_refused_api_2() {
        let name = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let label = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                     '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        for (selector, expected) in [
            ("app=a,b.c/d in (e,f_g),!h,n>3,m=", None),
            ("app=a/b", Some(format!("values[0][app]: Invalid value: \"a/b\": {label}"))),
            ("a,app notin (z,-,z,b)", Some(format!("values[0][app]: Invalid value: \"-\": {label}"))),
            (
                "app in (b/,b,a/)",
                Some(format!(
                    "[values[0][app]: Invalid value: \"a/\": {label}, values[2][app]: Invalid value: \"b/\": {label}]"
                )),
            ),
            ("n>-3", Some(format!("values[0][n]: Invalid value: \"-3\": {label}"))),
            (
                "a/b/c",
                Some(format!(
                    "<nil>: Invalid value: \"a/b/c\": a qualified name {name} with an optional DNS subdomain prefix \
                     and '/' (e.g. 'example.com/MyName')"
                )),
            ),
            ("a-=/", Some(format!("<nil>: Invalid value: \"a-\": name part {name}"))),
        ] {
            let selector = Selector::parse(selector).unwrap();
            assert_eq!(selector.requirements().iter().find_map(requirement_fault), expected, "{selector:?}");
        }
        let text = "labelSelector=app%3Da/b";
        let refused = Query::parse(text).selection(&Kinds::default(), object::Kind::Pod.into()).unwrap_err();
        assert_eq!(
            refused,
            ApiError::BadRequest(format!(
                "unable to parse requirement: values[0][app]: Invalid value: \"a/b\": {label}"
            ))
        );
    }

    /// kubernetes_asyncio sends `True`.
    #[test]
    fn everything_but_zero_and_false_is_true_api_3() {
        let check = |text: &str, expected: bool| {
            assert_eq!(Query::parse(text).flag("watch"), expected, "{text}");
        };
        for text in ["watch=true", "watch=True", "watch=1", "watch=yes", "watch=", "watch", "a=b&watch"] {
            check(text, true);
        }
        for text in ["", "watching=1", "watch=0", "watch=false", "watch=False", "watch=FALSE&watch=true"] {
            check(text, false);
        }
    }
}
