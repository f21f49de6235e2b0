//! Routing table of one port: listeners by hostname, with their routes compiled for lookup.
//!
//! Pure. The API defines the order: the listener with the most specific hostname gets the request exclusively; among
//! its routes, those with the most specific hostname; then exact paths, regular expressions (the longest first), the
//! longest prefix; then a method, the number of headers, the number of query parameters; then the older route, the
//! first by name, the first rule.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::matches::{Match, PathMatch};
use super::resolve::{Rule, Target};
use base::sort::SliceOrder;
use reverse_proxy::hosts::{Hosts, WildcardScope};
use reverse_proxy::pools::Backend;
use reverse_proxy::{RequestHead, prefixes};

/// The routes at one port.
#[derive(Debug, Default)]
pub(super) struct Table {
    listeners: Hosts<ListenerTable>,
}

/// The routes of one listener.
#[derive(Debug, Default)]
pub(super) struct ListenerTable {
    routes: Hosts<Paths>,
}

/// An entry of the table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) matching: Arc<Match>,
    pub(super) rule: Arc<Rule>,
}

#[derive(Debug, Default)]
struct Paths {
    exact: HashMap<String, Vec<Entry>>,
    /// The entries of prefixes, which are without their trailing slash.
    prefixes: HashMap<String, Vec<Entry>>,
    /// Length of the longest prefix.
    longest: usize,
    patterns: Vec<Entry>,
}

impl Table {
    /// Returns the listener of a hostname, adding it if necessary.
    pub(super) fn listener(&mut self, hostname: &str) -> &mut ListenerTable {
        self.listeners.entry(hostname)
    }

    /// Sorts the entries by precedence.
    pub(super) fn sort(&mut self) {
        for paths in self.listeners.values_mut().flat_map(|listener| listener.routes.values_mut()) {
            let lists = paths.exact.values_mut().chain(paths.prefixes.values_mut());
            for list in lists.chain([&mut paths.patterns]) {
                // The sort is stable: among equals, the entry that was added first comes first.
                list.order_by_key(|entry| Reverse(entry.matching.rank()));
            }
        }
    }

    /// Returns the listener that a host belongs to.
    pub(super) fn listener_of(&self, host: &str) -> Option<&ListenerTable> {
        self.listeners.matching(host, WildcardScope::AnyLabels).next()
    }

    /// Returns all backends in the table.
    pub(super) fn backends(&self) -> impl Iterator<Item = &Backend> {
        let entries =
            self.listeners.values().flat_map(|listener| listener.routes.values()).flat_map(|paths| {
                paths.exact.values().chain(paths.prefixes.values()).flatten().chain(&paths.patterns)
            });
        entries.flat_map(|entry| entry.rule.targets()).map(|target| &target.backend)
    }
}

impl Rule {
    /// Returns all targets of its requests and their mirrors.
    fn targets(&self) -> impl Iterator<Item = &Target> {
        use super::filters::Filter;
        let filters = self.filters.iter().chain(self.choices.iter().flat_map(|choice| &choice.filters));
        let mirrors = filters.filter_map(|filter| match filter {
            Filter::Mirror(target, _) => target.as_ref(),
            _ => None,
        });
        self.choices.iter().filter_map(|choice| choice.target.as_ref()).chain(mirrors)
    }
}

impl ListenerTable {
    /// Adds a rule of a route with this hostname (the empty one matches any) under one of its matches. The oldest route
    /// must be added first, and its rules in order.
    pub(super) fn add(&mut self, hostname: &str, matching: &Arc<Match>, rule: &Arc<Rule>) {
        let paths = self.routes.entry(hostname);
        let entry = Entry { matching: matching.clone(), rule: rule.clone() };
        let list = match &matching.path {
            PathMatch::Exact(path) => paths.exact.entry(path.clone()).or_default(),
            PathMatch::Prefix(prefix) => {
                paths.longest = paths.longest.max(prefix.len());
                paths.prefixes.entry(prefix.clone()).or_default()
            }
            PathMatch::Pattern(_) => &mut paths.patterns,
        };
        list.push(entry);
    }

    /// Finds the rule for a request.
    pub(super) fn find(&self, head: &RequestHead<'_>) -> Option<&Entry> {
        let mut routes = self.routes.matching(&head.host.name, WildcardScope::AnyLabels);
        routes.find_map(|paths| paths.find(head))
    }
}

impl Paths {
    fn find(&self, head: &RequestHead<'_>) -> Option<&Entry> {
        let path = head.path.decoded.as_str();
        let is_match = |entry: &&Entry| {
            entry.matching.matches_except_path(head)
                && match &entry.matching.path {
                    PathMatch::Pattern(pattern) => pattern.regex.is_match(path),
                    // The entry was found by its path.
                    PathMatch::Exact(_) | PathMatch::Prefix(_) => true,
                }
        };
        let exact = self.exact.get(path).into_iter().flatten();
        // A path longer than every prefix need not be hashed.
        let short = prefixes(path).skip_while(|prefix| prefix.len() > self.longest);
        let by_prefix = short.filter_map(|prefix| self.prefixes.get(prefix)).flatten();
        exact.chain(&self.patterns).chain(by_prefix).find(is_match)
    }
}
