//! The `/` filter: a regular expression, `!` to negate, `-l` labels, `-f` fuzzy.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use regex::Regex;

use super::rows::{Cell, Row};
use console_toolkit::search::compile;
use object::selector::Selector;

/// A parsed filter.
#[derive(Clone, Debug, Default)]
pub enum Query {
    /// Everything.
    #[default]
    All,
    /// Rows with a matching cell.
    Matching(TextMatcher),
    /// Rows without a matching cell.
    NotMatching(TextMatcher),
    /// Rows with matching labels.
    Labels(Selector),
    /// Rows with these letters in this order in the name.
    Fuzzy(Pattern),
}

/// Returns the filter for the object of this name.
pub fn exact(name: &str) -> String {
    // A hyphen needs no escape here, and names are full of them.
    format!("^{}$", regex::escape(name).replace("\\-", "-"))
}

/// Returns the name of a filter by [`exact`]; `None` for other filters.
pub fn exact_name(filter: &str) -> Option<String> {
    let name = filter.strip_prefix('^')?.strip_suffix('$')?.replace('\\', "");
    (exact(&name) == filter).then_some(name)
}

impl Query {
    /// Parses a filter.
    pub fn parse(text: &str) -> Result<Self, String> {
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
            Some(not) => TextMatcher::parse(not).map(Self::NotMatching),
            None => TextMatcher::parse(text).map(Self::Matching),
        }
    }

    /// Returns whether a row passes the filter.
    pub fn matches(&self, row: &Row) -> bool {
        self.matches_with(row, &mut String::new())
    }

    /// As `matches`, for many rows: `text` is a scratch buffer, which avoids an allocation per row.
    pub(crate) fn matches_with(&self, row: &Row, text: &mut String) -> bool {
        match self {
            Self::All => true,
            Self::Matching(matcher) => matcher.is_in(row, text),
            Self::NotMatching(matcher) => !matcher.is_in(row, text),
            Self::Labels(selector) => selector.matches(Some(&row.labels)),
            Self::Fuzzy(pattern) => {
                let mut matcher = Matcher::new(Config::DEFAULT);
                let mut buffer = Vec::new();
                pattern.score(Utf32Str::new(&row.name, &mut buffer), &mut matcher).is_some()
            }
        }
    }

    /// Reports whether the other filter shows every row that this one shows, as after the user extended its text.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::All) => true,
            (Self::Matching(narrow), Self::Matching(wide)) => {
                let (Some(narrow), Some(wide)) = (&narrow.plain, &wide.plain) else { return false };
                narrow.contains(wide.as_str())
                    || (is_small(wide) && narrow.to_ascii_lowercase().contains(wide))
            }
            _ => false,
        }
    }
}

/// The pattern for the cells of a row.
#[derive(Clone, Debug)]
pub struct TextMatcher {
    regex: Regex,
    /// The literal text, if the pattern has no metacharacters and is ASCII: it is searched without the regular
    /// expression.
    plain: Option<String>,
}

impl TextMatcher {
    fn parse(text: &str) -> Result<Self, String> {
        const MEANS_MORE: &str = r"\.+*?()|[]{}^$";
        let is_plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !MEANS_MORE.contains(c);
        Ok(Self { regex: compile(text)?, plain: text.chars().all(is_plain).then(|| text.to_owned()) })
    }

    fn is_in(&self, row: &Row, text: &mut String) -> bool {
        if let Some(plain) = &self.plain {
            text.clear();
            for part in row.namespace.iter().chain([&row.name]) {
                text.push_str(part);
                text.push('\n');
            }
            for cell in searched(row) {
                cell.plain_into(text);
                text.push('\n');
            }
            // Non-ASCII text has other rules for case.
            if text.is_ascii() {
                if is_small(plain) {
                    text.make_ascii_lowercase();
                }
                return text.contains(plain.as_str());
            }
        }
        row.namespace.as_deref().is_some_and(|namespace| self.regex.is_match(namespace))
            || self.regex.is_match(&row.name)
            || searched(row).any(|cell| self.regex.is_match(&cell.plain()))
    }
}

/// Returns the cells that a filter searches: ages are excluded because they change by themselves.
fn searched(row: &Row) -> impl Iterator<Item = &Cell> {
    row.cells.iter().filter(|cell| !matches!(cell, Cell::Age(_)))
}

/// Reports whether a pattern has no capitals, so that it is case-insensitive.
fn is_small(pattern: &str) -> bool {
    !pattern.chars().any(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Uid;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn row(name: &str, cells: Vec<Cell>) -> Row {
        Row {
            cluster: None,
            uid: Uid::from("1"),
            namespace: Some("shop".into()),
            name: name.into(),
            cells,
            health: None,
            labels: std::sync::Arc::new(BTreeMap::from([("app".into(), "web".into())])),
            workload: None,
            newness: 0,
        }
    }

    #[test]
    fn filters_find_rows_con_3() {
        let cells = vec![Cell::Text("web-7d9c".into()), Cell::Text("CrashLoopBackOff".into())];
        let row = row("web-7d9c", cells);
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
    proptest! {
        /// The literal search finds the same as the regular expression.
        #[test]
        fn letters_find_what_their_expression_finds_con_3(
            typed in "[aAkKsS1/\u{212a}ſ -]{1,3}",
            more in "[aAkK1]{0,2}",
            texts in prop::collection::vec("[aAkKsS\u{212a}ſ -]{0,4}", 1..4),
            number in 0i64..200,
        ) {
            let (name, others) = texts.split_first().expect("one at least");
            let mut cells: Vec<Cell> = others.iter().map(|text| Cell::Text(text.into())).collect();
            cells.extend([Cell::Number(number), Cell::Ratio(number % 3, 1), Cell::Age(None)]);
            let row = row(name, cells);
            let mut by_expression = TextMatcher::parse(&typed).expect("letters");
            let found = by_expression.is_in(&row, &mut String::new());
            by_expression.plain = None;
            prop_assert_eq!(found, by_expression.is_in(&row, &mut String::new()));
            let (wide, narrow) = (Query::parse(&typed), Query::parse(&format!("{typed}{more}")));
            let (wide, narrow) = (wide.expect("letters"), narrow.expect("letters"));
            prop_assert!(!narrow.is_within(&wide) || !narrow.matches(&row) || wide.matches(&row));
        }
    }
}
