//! Routing table: the rules of all Ingresses, compiled for lookup.
//!
//! Pure. Kubernetes defines the order: an exact host before a wildcard before no host; among matching paths the
//! longest, and for equal paths Exact before Prefix. If two Ingresses have the same path, the older one gets it.

pub(super) mod build;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::annotations::Options;
use object::Key;
use reverse_proxy::hosts::{Hosts, WildcardScope};
use reverse_proxy::pools::Backend;
use reverse_proxy::{RequestPath, escaped, prefixes};

/// Maximum size of a compiled regular expression in bytes.
const PATTERN_BYTES: usize = 1 << 18;

/// The target of a rule's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The Ingress with the rule.
    pub(super) ingress: Key,
    /// `None` if the backend cannot be used; an event says why.
    pub(super) backend: Option<Backend>,
    pub(super) options: Arc<Options>,
    /// The expression that the path must match, if it is one.
    pattern: Option<Pattern>,
}

impl Route {
    /// Returns the path and query for the endpoint.
    pub(super) fn onward(&self, path: &RequestPath, query: Option<&str>) -> String {
        let Some(target) = &self.options.rewrite else {
            return match query {
                Some(query) => format!("{}?{query}", path.encoded),
                None => path.encoded.clone(),
            };
        };
        let captures = self.pattern.as_ref().and_then(|pattern| pattern.regex.captures(&path.decoded));
        let group =
            |n: usize| captures.as_ref().and_then(|all| all.get(n)).map_or("", |group| group.as_str());
        let (target, own_query) = target.split_once('?').map_or((&**target, None), |(a, b)| (a, Some(b)));
        let mut text = expand(target, group);
        let queries: Vec<String> =
            own_query.map(|own| expand(own, group)).into_iter().chain(query.map(String::from)).collect();
        if !queries.is_empty() {
            text.push('?');
            text.push_str(&queries.join("&"));
        }
        text
    }
}

/// Fills in `$1` to `$9` in a template, encoded.
fn expand<'a>(template: &str, group: impl Fn(usize) -> &'a str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(digit @ b'1'..=b'9') = after.bytes().next() {
            out.extend(escaped(group(usize::from(digit - b'0'))));
            rest = &after[1..];
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// A path that is a regular expression: anchored at the beginning and case-insensitive, as in ingress-nginx.
#[derive(Clone, Debug)]
struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    fn new(source: &str) -> Result<Self, regex::Error> {
        let regex = RegexBuilder::new(&format!("^(?:{source})"))
            .case_insensitive(true)
            // A path may contain any character, including encoded line breaks.
            .dot_matches_new_line(true)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .build()?;
        Ok(Self { source: source.into(), regex })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

/// The paths of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Paths {
    exact: HashMap<String, Arc<Route>>,
    /// The routes of prefixes, which are without their trailing slash.
    prefixes: HashMap<String, Arc<Route>>,
    /// Length of the longest prefix.
    longest: usize,
    /// The longest first.
    patterns: Vec<Arc<Route>>,
    /// The target of all other requests.
    fallback: Option<Arc<Route>>,
}

impl Paths {
    fn find(&self, path: &str) -> Option<&Arc<Route>> {
        if let Some(exact) = self.exact.get(path) {
            return Some(exact);
        }
        let source = |route: &Arc<Route>| route.pattern.as_ref().map_or(0, |pattern| pattern.source.len());
        let is_match =
            |route: &&Arc<Route>| route.pattern.as_ref().is_some_and(|pattern| pattern.regex.is_match(path));
        let prefix = self.prefix(path);
        let pattern = self.patterns.iter().find(is_match);
        match (prefix, pattern) {
            (Some((length, _)), Some(pattern)) if source(pattern) >= length => Some(pattern),
            (Some((_, prefix)), _) => Some(prefix),
            (None, pattern) => pattern,
        }
    }

    /// Returns the longest matching prefix, element by element.
    fn prefix(&self, path: &str) -> Option<(usize, &Arc<Route>)> {
        // A path longer than every prefix need not be hashed.
        let mut short = prefixes(path).skip_while(|prefix| prefix.len() > self.longest);
        short.find_map(|prefix| Some((prefix.len().max(1), self.prefixes.get(prefix)?)))
    }
}

/// The rules of all Ingresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    hosts: Hosts<Paths>,
    /// The hosts with TLS.
    tls: Hosts<()>,
}

impl Table {
    /// Finds the target of a request; `None` if no rule matches.
    pub(super) fn find(&self, host: &str, path: &str) -> Option<&Arc<Route>> {
        let mut all = self.hosts.matching(host, WildcardScope::OneLabel);
        let found = all.find_map(|paths| paths.find(path));
        let mut all = self.hosts.matching(host, WildcardScope::OneLabel);
        found.or_else(|| all.find_map(|paths| paths.fallback.as_ref()))
    }

    /// Returns whether TLS is configured for a host.
    pub(super) fn has_tls(&self, host: &str) -> bool {
        self.tls.matching(host, WildcardScope::OneLabel).next().is_some()
    }

    /// Returns all backends in the table.
    pub(super) fn backends(&self) -> HashSet<&Backend> {
        let routes = self.hosts.values().flat_map(|paths| {
            let Paths { exact, prefixes, patterns, fallback, .. } = paths;
            exact.values().chain(prefixes.values()).chain(patterns).chain(fallback)
        });
        routes.filter_map(|route| route.backend.as_ref()).collect()
    }
}
