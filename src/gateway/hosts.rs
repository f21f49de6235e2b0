//! Hostnames of listeners and routes: their intersection, and the most specific match.
//!
//! A wildcard stands for one or more labels, unlike in an Ingress.

use std::collections::HashMap;

/// Returns whether a hostname, with or without `*.`, is valid: letters, digits and hyphens.
pub(super) fn is_hostname(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && rest.split('.').all(is_label)
}

/// Returns the intersection of two hostnames, where the empty hostname matches any; `None` if no host matches both.
pub(super) fn intersection<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    match (one, other) {
        ("", other) => Some(other),
        (one, "") => Some(one),
        _ if one == other => Some(one),
        _ if is_below(other, one) => Some(other),
        _ if is_below(one, other) => Some(one),
        _ => None,
    }
}

/// Returns whether all hosts that match a hostname also match a wildcard.
fn is_below(name: &str, wildcard: &str) -> bool {
    let Some(parent) = wildcard.strip_prefix('*') else { return false };
    name.len() > parent.len() && name.ends_with(parent) && name != wildcard
}

/// Values by hostname.
#[derive(Clone, Debug)]
pub(super) struct Hosts<T> {
    exact: HashMap<String, T>,
    /// The values of wildcard hostnames, by the part after `*.`.
    wildcards: HashMap<String, T>,
    any: Option<T>,
}

impl<T> Default for Hosts<T> {
    fn default() -> Self {
        Self { exact: HashMap::new(), wildcards: HashMap::new(), any: None }
    }
}

impl<T> Hosts<T> {
    /// Returns the value of a hostname, adding it if necessary; the empty hostname matches any.
    pub(super) fn entry(&mut self, name: &str) -> &mut T
    where
        T: Default,
    {
        match name.strip_prefix("*.") {
            _ if name.is_empty() => self.any.get_or_insert_default(),
            Some(parent) => self.wildcards.entry(parent.into()).or_default(),
            None => self.exact.entry(name.into()).or_default(),
        }
    }

    /// Returns the values that match a host, the most specific first.
    pub(super) fn matching<'s, 'h>(&'s self, host: &'h str) -> impl Iterator<Item = &'s T> + use<'s, 'h, T> {
        let parents = std::iter::successors(host.split_once('.').map(|(_, rest)| rest), |rest| {
            rest.split_once('.').map(|(_, rest)| rest)
        });
        // Without wildcards there is nothing to look up.
        let wildcards = parents.take_while(|_| !self.wildcards.is_empty());
        let wildcards = wildcards.filter_map(|parent| self.wildcards.get(parent));
        self.exact.get(host).into_iter().chain(wildcards).chain(&self.any)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.exact.values().chain(self.wildcards.values()).chain(&self.any)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.exact.values_mut().chain(self.wildcards.values_mut()).chain(&mut self.any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_and_a_route_have_hostnames_in_common_net_9() {
        for (listener, route, expected) in [
            ("", "", Some("")),
            ("", "a.test", Some("a.test")),
            ("a.test", "", Some("a.test")),
            ("test.example.com", "test.example.com", Some("test.example.com")),
            ("test.example.com", "*.example.com", Some("test.example.com")),
            ("*.example.com", "*.example.com", Some("*.example.com")),
            ("*.example.com", "test.example.com", Some("test.example.com")),
            ("*.example.com", "foo.test.example.com", Some("foo.test.example.com")),
            ("*.example.com", "*.test.example.com", Some("*.test.example.com")),
            ("*.test.example.com", "*.example.com", Some("*.test.example.com")),
            ("*.example.com", "example.com", None),
            ("*.example.com", "test.example.net", None),
            ("*.example.com", "badexample.com", None),
            ("a.test", "b.test", None),
        ] {
            assert_eq!(intersection(listener, route), expected, "{listener} {route}");
        }
    }

    #[test]
    fn the_most_specific_hostname_comes_first_net_9() {
        let mut hosts = Hosts::<String>::default();
        for name in ["", "*.example.com", "*.foo.example.com", "bar.foo.example.com"] {
            hosts.entry(name).push_str(name);
        }
        for (host, expected) in [
            ("bar.foo.example.com", vec!["bar.foo.example.com", "*.foo.example.com", "*.example.com", ""]),
            ("x.y.foo.example.com", vec!["*.foo.example.com", "*.example.com", ""]),
            ("foo.example.com", vec!["*.example.com", ""]),
            ("example.com", vec![""]),
        ] {
            assert_eq!(hosts.matching(host).collect::<Vec<_>>(), expected, "{host}");
        }
    }

    #[test]
    fn an_invalid_hostname_is_refused_net_9() {
        for name in ["a", "a.b-c.d", "*.a.b", "1.a"] {
            assert!(is_hostname(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["", "*", "a.*.b", "*a.b", "a..b", "-a", "a-", "a b", "a/b", "a:80", long.as_str()] {
            assert!(!is_hostname(name), "{name}");
        }
    }
}
