//! Text search by regular expression; in logs also by conditions on JSON lines. The filters of lists.
//!
//! Text in lower case matches any case; a capital makes the search case-sensitive, as in editors.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::json_condition::Condition;

/// A compiled search.
#[derive(Clone, Debug)]
pub struct Search {
    text: String,
    kind: SearchKind,
}

#[derive(Clone, Debug)]
enum SearchKind {
    Pattern(Regex),
    /// Conditions that must all hold, for a line that is a JSON object or ends in one.
    Conditions(Vec<Condition>),
}

impl Search {
    /// Compiles a search in logs: `.level == "error" and .status >= 500`, or as [`Self::new`].
    pub fn of_logs(text: &str) -> Result<Option<Self>, String> {
        match Condition::parse_all(text)? {
            Some(conditions) => {
                Ok(Some(Self { text: text.to_owned(), kind: SearchKind::Conditions(conditions) }))
            }
            None => Self::new(text),
        }
    }

    /// Compiles a search; `None` for an empty text.
    pub fn new(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { text: text.to_owned(), kind: SearchKind::Pattern(compile(text)?) }))
    }

    /// Returns the text of the search.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether a line matches.
    pub fn matches(&self, line: &str) -> bool {
        match &self.kind {
            SearchKind::Pattern(regex) => regex.is_match(line),
            SearchKind::Conditions(conditions) => {
                // Log collectors put a time or a level before the JSON object.
                let json = line.find('{').map(|at| line[at..].trim_end());
                let value = json.and_then(|json| serde_json::from_str::<Value>(json).ok());
                value.is_some_and(|value| conditions.iter().all(|condition| condition.holds(&value)))
            }
        }
    }

    /// Returns the matches in a line as byte ranges; empty matches are dropped.
    pub fn ranges(&self, line: &str) -> Vec<std::ops::Range<usize>> {
        let SearchKind::Pattern(regex) = &self.kind else { return Vec::new() };
        regex.find_iter(line).map(|found| found.range()).filter(|range| !range.is_empty()).collect()
    }
}

/// The filter of a list; an empty text matches each line.
#[derive(Clone, Debug, Default)]
pub struct Filter(Option<Search>);

impl Filter {
    /// Compiles a filter.
    pub fn new(text: &str) -> Result<Self, String> {
        Search::new(text).map(Self)
    }

    /// Returns the text of the filter.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", Search::text)
    }

    /// Returns whether the filter matches each line because its text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether a line matches.
    pub fn matches(&self, line: &str) -> bool {
        self.0.as_ref().is_none_or(|search| search.matches(line))
    }
}

/// Compiles a regular expression; lower case matches any case.
pub fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .case_insensitive(!text.chars().any(char::is_uppercase))
        // Refuses a pattern that would exceed the limit when compiled.
        .size_limit(1 << 20)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the pattern is too big".to_owned(),
            other => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or("invalid pattern").trim();
                last.strip_prefix("error: ").unwrap_or(last).to_owned()
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON-10: the search treats case as editors do.
    #[test]
    fn lower_case_finds_any_case() {
        let query = |text| Search::new(text).unwrap().unwrap();
        assert!(query("error").matches("an ERROR"));
        assert!(!query("Error").matches("an ERROR"));
        assert_eq!(query("o+").ranges("foo bOo"), vec![1..3, 5..7]);
        assert!(query("x*").ranges("abc").is_empty());
        let logs = |text| Search::of_logs(text).unwrap().unwrap();
        let errors = logs(".level == error");
        assert!(errors.matches(r#"12:00 {"level": "error", "msg": "x"}  "#));
        assert!(
            !errors.matches(r#"{"level": "info"}"#) && !errors.matches("error {") && !errors.matches("error")
        );
        assert!(errors.ranges(r#"{"level": "error"}"#).is_empty());
        assert!(logs(".rror").matches("an error"));
        assert!(Search::new("").unwrap().is_none());
        assert!(Search::new("a(").unwrap_err().contains("unclosed group"));
        let (all, some) = (Filter::new("").unwrap(), Filter::new("err").unwrap());
        assert!(all.is_empty() && all.matches("") && some.matches("an ERROR") && !some.matches("a warning"));
        assert_eq!((all.text(), some.text()), ("", "err"));
    }
}
