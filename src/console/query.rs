//! The `/` filter: regex, `!` for not, `-l` labels, `-f` fuzzy.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use regex::{Regex, RegexBuilder};

use super::rows::Row;
use object::selector::Selector;

/// A filter that was understood.
#[derive(Clone, Debug, Default)]
pub(crate) enum Query {
    /// Everything.
    #[default]
    All,
    /// Rows some cell of which matches.
    Matching(Regex),
    /// Rows no cell of which matches.
    NotMatching(Regex),
    /// Rows whose labels match.
    Labels(Selector),
    /// Rows whose name has these letters in this order.
    Fuzzy(Pattern),
}

impl Query {
    /// Reads a filter.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text == "!" {
            return Ok(Self::All);
        }
        if let Some(labels) = text.strip_prefix("-l") {
            return Selector::parse(labels.trim()).map(Self::Labels).map_err(|error| error.to_string());
        }
        if let Some(letters) = text.strip_prefix("-f") {
            return Ok(Self::Fuzzy(Pattern::parse(
                letters.trim(),
                CaseMatching::Smart,
                Normalization::Smart,
            )));
        }
        match text.strip_prefix('!') {
            Some(not) => pattern(not).map(Self::NotMatching),
            None => pattern(text).map(Self::Matching),
        }
    }

    /// Whether a row is let through.
    pub(crate) fn matches(&self, row: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Matching(regex) => matches(regex, row),
            Self::NotMatching(regex) => !matches(regex, row),
            Self::Labels(selector) => selector.matches(Some(&row.labels)),
            Self::Fuzzy(pattern) => {
                let mut matcher = Matcher::new(Config::DEFAULT);
                let mut buffer = Vec::new();
                pattern.score(Utf32Str::new(&row.name, &mut buffer), &mut matcher).is_some()
            }
        }
    }
}

fn matches(regex: &Regex, row: &Row) -> bool {
    row.namespace.as_deref().is_some_and(|namespace| regex.is_match(namespace))
        || regex.is_match(&row.name)
        || row
            .cells
            .iter()
            .any(|cell| !matches!(cell, super::rows::Cell::Age(_)) && regex.is_match(&cell.plain()))
}

/// A regular expression; small letters match capitals too.
pub(crate) fn pattern(text: &str) -> Result<Regex, String> {
    let capitals = text.chars().any(char::is_uppercase);
    RegexBuilder::new(text).case_insensitive(!capitals).size_limit(1 << 20).build().map_err(|error| {
        match error {
            regex::Error::Syntax(long) => {
                let last = long.lines().last().unwrap_or_default();
                last.strip_prefix("error: ").unwrap_or(last).to_owned()
            }
            other => other.to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Uid;
    use crate::rows::Cell;
    use std::collections::BTreeMap;

    #[test]
    fn filters_find_rows_con_3() {
        let row = Row {
            cluster: None,
            uid: Uid::from("1"),
            namespace: Some("shop".into()),
            name: "web-7d9c".into(),
            cells: vec![Cell::Text("web-7d9c".into()), Cell::Text("CrashLoopBackOff".into())],
            health: None,
            labels: std::sync::Arc::new(BTreeMap::from([("app".into(), "web".into())])),
            newness: 0,
        };
        for (text, matches) in [
            ("", true),
            ("web", true),
            ("WEB", false),
            ("crash", true),
            ("^web-.*c$", true),
            ("shop", true),
            ("!web", false),
            ("!api", true),
            ("!", true),
            ("-l app=web", true),
            ("-l app in (api, db)", false),
            ("-lapp", true),
            ("-f wb9", true),
            ("-f zz", false),
        ] {
            assert_eq!(Query::parse(text).expect(text).matches(&row), matches, "{text}");
        }
        assert_eq!(Query::parse("web(").expect_err("open"), "unclosed group");
        assert!(Query::parse("-l =").is_err());
    }
}
