//! The query of a request.

use std::borrow::Cow;
use std::collections::HashMap;

use super::table::IncludeObject;
use api::served_kinds::Kinds;
use api::{ApiError, Selection};
use base::quote::quote;
use object::ServedKind;
use object::selector::{Selector, parse_fields};

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
        let bad = |e: object::selector::SelectorError| ApiError::BadRequest(e.to_string());
        let labels = Selector::parse(self.get("labelSelector").unwrap_or("")).map_err(bad)?;
        let mut fields = parse_fields(self.get("fieldSelector").unwrap_or("")).map_err(bad)?;
        for field in &mut fields {
            field.path = served.stored_field(std::mem::take(&mut field.path));
        }
        api::select::check_fields(served.kind(), &*kinds.strategy_in(served), &fields)?;
        Ok(Selection { labels, fields })
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
