//! What is searched for in text: a regular expression, or the words themselves where it is none.
//!
//! Lower case finds any case; one capital makes it exact, as in editors.

use regex::{Regex, RegexBuilder};

/// A compiled search.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    text: String,
    regex: Regex,
}

impl Search {
    /// Compiles what was typed; none for an empty text.
    pub(crate) fn new(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let regex = RegexBuilder::new(text)
            .case_insensitive(!text.chars().any(char::is_uppercase))
            // A pattern that would grow without bound is refused, not run.
            .size_limit(1 << 20)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "the pattern is too big".to_owned(),
                other => other.to_string().lines().last().unwrap_or("not a pattern").trim().to_owned(),
            })?;
        Ok(Some(Self { text: text.to_owned(), regex }))
    }

    /// What was typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is in a line.
    pub(crate) fn matches(&self, line: &str) -> bool {
        self.regex.is_match(line)
    }

    /// Where it is in a line, as byte ranges; empty finds are left out.
    pub(crate) fn ranges(&self, line: &str) -> Vec<std::ops::Range<usize>> {
        self.regex.find_iter(line).map(|found| found.range()).filter(|range| !range.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON-10: search as in an editor.
    #[test]
    fn lower_case_finds_any_case() {
        let query = |text| Search::new(text).unwrap().unwrap();
        assert!(query("error").matches("an ERROR"));
        assert!(!query("Error").matches("an ERROR"));
        assert_eq!(query("o+").ranges("foo bOo"), vec![1..3, 5..7]);
        assert!(query("x*").ranges("abc").is_empty());
        assert!(Search::new("").unwrap().is_none());
        assert!(Search::new("a(").unwrap_err().contains("unclosed group"));
    }
}
