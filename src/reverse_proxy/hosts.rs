//! Values by hostname, and the most specific of them for a host.

use std::collections::HashMap;
use std::iter::successors;

/// The number of labels that a wildcard matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WildcardScope {
    /// One, as in Ingresses.
    #[default]
    OneLabel,
    /// Any number, as in Gateways.
    AnyLabels,
}

/// Values by hostname: exact, with a wildcard (`*.example.com`), or empty, which matches any host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts<T> {
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
    /// Returns the value of a hostname, adding it if necessary.
    pub fn entry(&mut self, name: &str) -> &mut T
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
    pub fn matching<'s, 'h>(
        &'s self,
        host: &'h str,
        scope: WildcardScope,
    ) -> impl Iterator<Item = &'s T> + use<'s, 'h, T> {
        let labels = match scope {
            WildcardScope::OneLabel => 1,
            WildcardScope::AnyLabels => usize::MAX,
        };
        let parents = successors(parent(host), |&host| parent(host)).take(labels);
        // Without wildcards there is nothing to look up.
        let wildcards = parents.take_while(|_| !self.wildcards.is_empty());
        let wildcards = wildcards.filter_map(|parent| self.wildcards.get(parent));
        self.exact.get(host).into_iter().chain(wildcards).chain(&self.any)
    }

    /// Returns all values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.exact.values().chain(self.wildcards.values()).chain(&self.any)
    }

    /// Returns all values, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.exact.values_mut().chain(self.wildcards.values_mut()).chain(&mut self.any)
    }
}

/// Returns the part below a host's first label: `b.c` of `a.b.c`.
fn parent(host: &str) -> Option<&str> {
    let (first, parent) = host.split_once('.')?;
    (!first.is_empty() && !parent.is_empty()).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_hostname_comes_first_net_9() {
        let mut hosts = Hosts::<String>::default();
        for name in ["", "*.example.com", "*.foo.example.com", "bar.foo.example.com"] {
            hosts.entry(name).push_str(name);
        }
        let matching = |host: &str, scope| hosts.matching(host, scope).cloned().collect::<Vec<_>>();
        for (host, expected) in [
            ("bar.foo.example.com", vec!["bar.foo.example.com", "*.foo.example.com", "*.example.com", ""]),
            ("x.y.foo.example.com", vec!["*.foo.example.com", "*.example.com", ""]),
            ("foo.example.com", vec!["*.example.com", ""]),
            ("example.com", vec![""]),
            (".example.com", vec![""]),
            ("", vec![""]),
        ] {
            assert_eq!(matching(host, WildcardScope::AnyLabels), expected, "{host}");
        }
        for (host, expected) in [
            ("bar.foo.example.com", vec!["bar.foo.example.com", "*.foo.example.com", ""]),
            ("x.y.foo.example.com", vec![""]),
        ] {
            assert_eq!(matching(host, WildcardScope::OneLabel), expected, "{host}");
        }
    }
}
