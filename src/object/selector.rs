//! Label and field selectors: parsing the query forms and matching objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels as objects carry them.
pub type Labels = BTreeMap<String, String>;

/// The reason why a selector cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    /// Returns the error of one requirement of a label selector.
    pub fn in_requirement(reason: &str) -> Self {
        Self(format!("unable to parse requirement: {reason}"))
    }
}

/// A requirement's condition on a label's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label exists with one of these values.
    In(Vec<String>),
    /// The label is absent or has none of these values.
    NotIn(Vec<String>),
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is an integer above this one.
    GreaterThan(i64),
    /// The value is an integer below this one.
    LessThan(i64),
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The condition.
    pub operator: Operator,
}

impl Requirement {
    /// Returns true if the labels meet the requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan(bound) => number().is_some_and(|n| n > *bound),
            Operator::LessThan(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

/// A conjunction of requirements on labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl Selector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches no object: the meaning of a missing `LabelSelector`.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Creates a conjunction of these requirements.
    pub fn all_of(requirements: Vec<Requirement>) -> Self {
        Self { requirements, nothing: false }
    }

    /// Requires each of these labels, as the selector of a Service or ReplicationController does.
    pub fn from_labels(labels: &Labels) -> Self {
        Self::all_of(
            labels
                .iter()
                .map(|(key, value)| Requirement {
                    key: key.clone(),
                    operator: Operator::In(vec![value.clone()]),
                })
                .collect(),
        )
    }

    /// Reads a `LabelSelector` field: an empty one matches everything, one with an unknown operator nothing.
    pub fn from_field(selector: &LabelSelector) -> Self {
        let mut all = Self::from_labels(selector.match_labels.as_ref().unwrap_or(&Labels::new()));
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.clone().unwrap_or_default();
            let operator = match expression.operator.as_str() {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return Self::nothing(),
            };
            all.requirements.push(Requirement { key: expression.key.clone(), operator });
        }
        all
    }

    /// Reads a `LabelSelector` field; a missing one matches nothing.
    pub fn from_optional(selector: Option<&LabelSelector>) -> Self {
        selector.map_or_else(Self::nothing, Self::from_field)
    }

    /// Adds these requirements.
    #[must_use]
    pub fn and(mut self, more: Vec<Requirement>) -> Self {
        self.requirements.extend(more);
        self
    }

    /// Parses the query form: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::selector(text).map(Self::all_of)
    }

    /// Returns true if the selector matches every object.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Returns the requirements.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns true if these labels match.
    pub fn matches(&self, labels: Option<&Labels>) -> bool {
        static EMPTY: Labels = Labels::new();
        let labels = labels.unwrap_or(&EMPTY);
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }
}

/// One `path=value` or `path!=value` condition of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field's path, e.g. `spec.nodeName`.
    pub path: String,
    /// The value compared with; an absent field counts as the empty text.
    pub value: String,
    /// True for `=`, false for `!=`.
    pub equal: bool,
}

/// Parses the query form of a field selector: `status.phase!=Running,spec.nodeName=n1`. A backslash before a comma,
/// an equals sign or a backslash makes it part of the value; unescaped ones in a value are refused.
pub fn parse_fields(text: &str) -> Result<Vec<FieldRequirement>, SelectorError> {
    terms(text)
        .into_iter()
        .filter(|term| !term.trim().is_empty())
        .map(|term| {
            // The leftmost sign divides, because a value may contain signs too.
            let signs = |at: usize| ["!=", "==", "="].into_iter().find(|sign| term[at..].starts_with(sign));
            let found = term.char_indices().find_map(|(at, _)| Some((at, signs(at)?)));
            let Some((at, sign)) = found else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let value = unescaped(term[at + sign.len()..].trim())?;
            Ok(FieldRequirement { path: term[..at].trim().into(), value, equal: sign != "!=" })
        })
        .collect()
}

/// Splits at commas without a backslash before them.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut begin, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[begin..]);
    terms
}

/// Removes the escapes from a field's value.
fn unescaped(text: &str) -> Result<String, SelectorError> {
    let bad = |reason: String| SelectorError(format!("invalid field selector: {reason}"));
    let mut value = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        value.push(match c {
            '\\' => match rest.next() {
                Some(c @ ('\\' | ',' | '=')) => c,
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(bad(format!("invalid escape sequence: {sequence}")));
                }
            },
            // Formatted as Go prints a rune.
            ',' | '=' => return Err(bad(format!("unescaped character in value: {}", u32::from(c)))),
            c => c,
        });
    }
    Ok(value)
}

mod parse {
    //! The grammar of label selectors.

    use super::{Operator, Requirement, SelectorError};

    /// Tokens: a word, or one of the punctuation marks.
    #[derive(Clone, Debug, PartialEq)]
    enum Token<'a> {
        Word(&'a str),
        Mark(&'a str),
    }

    impl Token<'_> {
        fn text(&self) -> &str {
            match self {
                Token::Word(t) | Token::Mark(t) => t,
            }
        }

        fn starts_requirement(&self) -> bool {
            matches!(self, Token::Word(_) | Token::Mark("!"))
        }
    }

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let mark =
                ["!=", "==", "=", "!", "(", ")", ",", ">", "<"].into_iter().find(|m| rest.starts_with(m));
            let length = mark.map_or_else(
                || rest.find(|c: char| "!=(),<>".contains(c) || c.is_whitespace()).unwrap_or(rest.len()),
                str::len,
            );
            let (token, after) = rest.split_at(length);
            tokens.push(if mark.is_some() { Token::Mark(token) } else { Token::Word(token) });
            rest = after.trim_start();
        }
        tokens
    }

    struct Parser<'a> {
        tokens: std::iter::Peekable<std::vec::IntoIter<Token<'a>>>,
    }

    pub(super) fn selector(text: &str) -> Result<Vec<Requirement>, SelectorError> {
        let mut parser = Parser { tokens: tokens(text).into_iter().peekable() };
        let mut requirements = Vec::new();
        if parser.tokens.peek().is_none() {
            return Ok(requirements);
        }
        let mut expected = "!, identifier, or 'end of string'";
        loop {
            let next = parser.tokens.peek();
            if !next.is_some_and(Token::starts_requirement) {
                return Err(unexpected_token(next.map_or("", Token::text), expected));
            }
            let requirement = parser.requirement();
            requirements.push(requirement.map_err(|error| SelectorError::in_requirement(&error.0))?);
            match parser.tokens.next() {
                None => return Ok(requirements),
                Some(Token::Mark(",")) => expected = "identifier after ','",
                Some(other) => return Err(unexpected_token(other.text(), "',' or 'end of string'")),
            }
        }
    }

    fn unexpected_token(found: &str, expected: &str) -> SelectorError {
        SelectorError(format!("found '{found}', expected: {expected}"))
    }

    impl Parser<'_> {
        fn expect_word(&mut self, expected: &str) -> Result<String, SelectorError> {
            match self.tokens.next() {
                Some(Token::Word(word)) => Ok(word.to_string()),
                other => Err(unexpected_token(other.as_ref().map_or("", Token::text), expected)),
            }
        }

        fn requirement(&mut self) -> Result<Requirement, SelectorError> {
            if self.tokens.next_if_eq(&Token::Mark("!")).is_some() {
                return Ok(Requirement { key: self.key()?, operator: Operator::DoesNotExist });
            }
            let key = self.key()?;
            let operator = match self.tokens.peek().cloned() {
                None | Some(Token::Mark(",")) => Operator::Exists,
                Some(token) => {
                    self.tokens.next();
                    match token {
                        Token::Mark("=" | "==") => Operator::In(vec![self.value()]),
                        Token::Mark("!=") => Operator::NotIn(vec![self.value()]),
                        Token::Mark(">") => Operator::GreaterThan(self.integer()?),
                        Token::Mark("<") => Operator::LessThan(self.integer()?),
                        Token::Word("in") => Operator::In(self.values()?),
                        Token::Word("notin") => Operator::NotIn(self.values()?),
                        other => {
                            return Err(unexpected_token(other.text(), "in, notin, =, ==, !=, gt, lt"));
                        }
                    }
                }
            };
            Ok(Requirement { key, operator })
        }

        fn key(&mut self) -> Result<String, SelectorError> {
            let key = self.expect_word("identifier")?;
            let valid = key.len() <= 317
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
                && key.starts_with(|c: char| c.is_ascii_alphanumeric());
            if valid { Ok(key) } else { Err(SelectorError(format!("invalid label key \"{key}\""))) }
        }

        /// Reads a value, which may be empty: `a=`.
        fn value(&mut self) -> String {
            match self.tokens.next_if(|t| matches!(t, Token::Word(_))) {
                Some(Token::Word(word)) => word.to_string(),
                _ => String::new(),
            }
        }

        fn integer(&mut self) -> Result<i64, SelectorError> {
            let word = self.expect_word("identifier")?;
            word.parse().map_err(|_| {
                SelectorError(format!(
                    "values[0]: Invalid value: \"{word}\": for 'Gt', 'Lt' operators, the value must be an integer"
                ))
            })
        }

        fn values(&mut self) -> Result<Vec<String>, SelectorError> {
            match self.tokens.next() {
                Some(Token::Mark("(")) => {}
                other => return Err(unexpected_token(other.as_ref().map_or("", Token::text), "'('")),
            }
            let mut values = Vec::new();
            loop {
                match self.tokens.peek() {
                    Some(Token::Word(_) | Token::Mark("," | ")")) => values.push(self.value()),
                    other => {
                        return Err(unexpected_token(
                            other.map_or("", Token::text),
                            "',', ')' or identifier",
                        ));
                    }
                }
                match self.tokens.next() {
                    Some(Token::Mark(",")) => {}
                    Some(Token::Mark(")")) => return Ok(values),
                    other => {
                        return Err(unexpected_token(other.as_ref().map_or("", Token::text), "',' or ')'"));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(text: &str) -> Labels {
        text.split_whitespace()
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap();
                (key.to_string(), value.to_string())
            })
            .collect()
    }

    #[test]
    fn selectors_match_as_kubernetes_does_api_2() {
        for (selector, on, expected) in [
            ("", "a=b", true),
            ("a=b", "a=b", true),
            ("a==b,c!=d", "a=b c=e", true),
            ("c!=d", "a=b", true),
            ("a in (b, c)", "a=c", true),
            ("a in (b)", "a=c", false),
            ("a notin (b)", "", true),
            ("a notin (b)", "a=b", false),
            ("a", "a=b", true),
            ("!a", "a=b", false),
            ("!a", "", true),
            ("a=", "a=", true),
            ("n>3,n<9", "n=5", true),
            ("n>3", "n=x", false),
            ("app.kubernetes.io/name=x", "app.kubernetes.io/name=x", true),
        ] {
            let parsed = Selector::parse(selector).unwrap_or_else(|e| panic!("{selector}: {e}"));
            assert_eq!(parsed.matches(Some(&labels(on))), expected, "{selector} on {on}");
        }
    }

    #[test]
    fn broken_selectors_say_where_api_2() {
        for (text, message) in [
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("!,", "unable to parse requirement: found ',', expected: identifier"),
            ("!=b", "found '!=', expected: !, identifier, or 'end of string'"),
            (
                "n>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
                 be an integer",
            ),
            ("a,", "found '', expected: identifier after ','"),
            ("a,=", "found '=', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn a_missing_selector_field_selects_nothing_and_an_empty_one_everything() {
        assert!(!Selector::from_optional(None).matches(Some(&labels("a=b"))));
        assert!(Selector::from_optional(Some(&LabelSelector::default())).matches(None));
    }

    #[test]
    fn field_selectors_split_into_requirements() {
        let parsed = parse_fields("spec.nodeName=n1,status.phase!=Failed").unwrap();
        assert_eq!((parsed[0].equal, parsed[0].path.as_str()), (true, "spec.nodeName"));
        assert_eq!((parsed[1].equal, parsed[1].value.as_str()), (false, "Failed"));
        assert!(parse_fields("nonsense").is_err());
    }

    /// Found by the fuzz target `selector`: the leftmost sign divides, and a value may contain escaped commas and
    /// signs (`fields.ParseSelector` of apimachinery).
    #[test]
    fn a_field_selectors_leftmost_sign_divides_and_values_are_unescaped_api_2() {
        let parsed = parse_fields(r"a=b\=\=c\,d\\,e!=f\=g").unwrap();
        let parsed: Vec<_> = parsed.iter().map(|r| (r.path.as_str(), r.value.as_str(), r.equal)).collect();
        assert_eq!(parsed, [("a", r"b==c,d\", true), ("e", "f=g", false)]);
        for (text, message) in [
            ("a=b==c", "invalid field selector: unescaped character in value: 61"),
            ("a = ==b", "invalid field selector: unescaped character in value: 61"),
            (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            let error = parse_fields(text).unwrap_err().to_string();
            assert!(error.ends_with(message), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[a-c!=<>(), ]{0,20}") {
            let _ = Selector::parse(&text);
            let _ = parse_fields(&text);
        }
    }
}
