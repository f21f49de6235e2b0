//! Matches of a rule: path, headers, query parameters, method.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, Method};
use percent_encoding::percent_decode_str;
use regex::{Regex, RegexBuilder};

use super::problem::Cause;
use super::resources::{RouteMatch, ValueMatch};
use reverse_proxy::{RequestHead, RequestPath};

/// Maximum size of a compiled regular expression in bytes.
const PATTERN_BYTES: usize = 1 << 18;
/// The methods that a rule may name: those of the API except CONNECT, because the proxy has no tunnels.
const METHODS: [Method; 8] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::OPTIONS,
    Method::TRACE,
    Method::PATCH,
];

/// A set of conditions, all of which a request must meet.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) path: PathMatch,
    pub(super) method: Option<Method>,
    headers: Vec<(HeaderName, StringMatch)>,
    query: Vec<(String, StringMatch)>,
}

/// The condition on the path.
#[derive(Clone, Debug)]
pub(super) enum PathMatch {
    Exact(String),
    /// A prefix of the path, without its trailing slash.
    Prefix(String),
    /// A regular expression that must match the whole path.
    Pattern(Pattern),
}

/// The condition on a value.
#[derive(Clone, Debug)]
enum StringMatch {
    Exact(String),
    Pattern(Pattern),
}

impl StringMatch {
    fn is(&self, value: &str) -> bool {
        match self {
            Self::Exact(expected) => expected == value,
            Self::Pattern(pattern) => pattern.regex.is_match(value),
        }
    }
}

/// A regular expression that must match a whole text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// Length of its source in characters.
    pub(super) length: usize,
}

impl Pattern {
    fn new(source: &str) -> Result<Self, Cause> {
        let built = RegexBuilder::new(&format!("^(?:{source})$"))
            .dot_matches_new_line(true)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .build();
        let regex = built.map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim().to_string();
            Cause::unsupported(format!("invalid regular expression \"{source}\": {reason}"))
        })?;
        Ok(Self { regex, length: source.chars().count() })
    }
}

impl Match {
    /// Reads a match; unknown values are errors, as the API requires.
    pub(super) fn read(of: &RouteMatch) -> Result<Self, Cause> {
        let path = match &of.path {
            Some(path) => path_match(path)?,
            None => PathMatch::Prefix(String::new()),
        };
        let method = of.method.as_deref().map(|name| {
            let known = METHODS.into_iter().find(|method| method.as_str() == name);
            known.ok_or_else(|| Cause::unsupported(format!("method {name} is not supported")))
        });
        // Of several conditions on the same name, the first one applies.
        let mut headers: Vec<(HeaderName, StringMatch)> = Vec::new();
        for header in &of.headers {
            let name = HeaderName::try_from(&header.name)
                .map_err(|_| Cause::unsupported(format!("invalid header name \"{}\"", header.name)))?;
            let matcher = parse_match(header)?;
            if headers.iter().all(|(known, _)| *known != name) {
                headers.push((name, matcher));
            }
        }
        let mut query: Vec<(String, StringMatch)> = Vec::new();
        for parameter in &of.query_params {
            let matcher = parse_match(parameter)?;
            if query.iter().all(|(known, _)| *known != parameter.name) {
                query.push((parameter.name.clone(), matcher));
            }
        }
        Ok(Self { path, method: method.transpose()?, headers, query })
    }

    /// Returns the number of its regular expressions.
    pub(super) fn patterns(&self) -> usize {
        let of_path = usize::from(matches!(self.path, PathMatch::Pattern(_)));
        let matchers =
            self.headers.iter().map(|(_, matcher)| matcher).chain(self.query.iter().map(|(_, w)| w));
        of_path + matchers.filter(|matcher| matches!(matcher, StringMatch::Pattern(_))).count()
    }

    /// Returns the precedence among matches with equal paths; larger values come first.
    pub(super) fn rank(&self) -> (usize, bool, usize, usize) {
        let pattern = match &self.path {
            PathMatch::Pattern(pattern) => pattern.length,
            PathMatch::Exact(_) | PathMatch::Prefix(_) => 0,
        };
        (pattern, self.method.is_some(), self.headers.len(), self.query.len())
    }

    /// Returns whether a request meets all conditions except for the path.
    pub(super) fn matches_except_path(&self, head: &RequestHead<'_>) -> bool {
        self.method.as_ref().is_none_or(|method| method == head.method)
            && self
                .headers
                .iter()
                .all(|(name, matcher)| value_of(head.headers, name).is_some_and(|value| matcher.is(&value)))
            && self.query.iter().all(|(name, matcher)| {
                parameter(head.uri.query().unwrap_or_default(), name).is_some_and(|value| matcher.is(&value))
            })
    }
}

fn path_match(of: &ValueMatch) -> Result<PathMatch, Cause> {
    let text = of.value.as_deref().filter(|text| !text.is_empty()).unwrap_or("/");
    let read = || {
        let read = RequestPath::read(text).filter(|_| !text.contains("//"));
        let read = read.ok_or_else(|| Cause::unsupported(format!("invalid path \"{text}\"")))?;
        Ok(read.decoded)
    };
    match of.type_.as_deref().unwrap_or("PathPrefix") {
        "Exact" => Ok(PathMatch::Exact(read()?)),
        "PathPrefix" => Ok(PathMatch::Prefix(read()?.trim_end_matches('/').to_string())),
        "RegularExpression" => Ok(PathMatch::Pattern(Pattern::new(text)?)),
        other => Err(Cause::unsupported(format!("path match type {other} is not supported"))),
    }
}

fn parse_match(of: &ValueMatch) -> Result<StringMatch, Cause> {
    let value = of.value.as_deref().unwrap_or_default();
    match of.type_.as_deref().unwrap_or("Exact") {
        "Exact" => Ok(StringMatch::Exact(value.into())),
        "RegularExpression" => Ok(StringMatch::Pattern(Pattern::new(value)?)),
        other => Err(Cause::unsupported(format!("match type {other} is not supported"))),
    }
}

/// Returns the value of a header; several headers of one name form a list (RFC 9110, 5.3).
fn value_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, str>> {
    let mut all = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let first = all.next()?;
    Some(all.fold(first, |list, value| Cow::Owned(format!("{list},{value}"))))
}

/// Returns the first value of a query parameter, decoded.
fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let decoded = |text: &'a str| {
        if text.contains('+') {
            let spaced = text.replace('+', " ");
            return Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned());
        }
        percent_decode_str(text).decode_utf8_lossy()
    };
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.into_iter().find(|(key, _)| decoded(key) == name).map(|(_, value)| decoded(value))
}
