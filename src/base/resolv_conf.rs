//! The format of `/etc/resolv.conf`: name servers and search domains.
//!
//! Pure; see resolv.conf(5). Invalid lines are skipped, as libc does.

use std::net::IpAddr;

/// The contents of a resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// Servers, as written.
    pub nameservers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options, each `name` or `name:value`.
    pub options: Vec<String>,
}

impl ResolvConf {
    /// Parses a file's text.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            let first = words.next();
            let rest = || words.clone().map(str::to_owned);
            match first {
                Some("nameserver") => found.nameservers.extend(rest().next()),
                // Of several `search` and `domain` lines the last takes effect.
                Some("search" | "domain") => found.searches = rest().filter(|end| end != ".").collect(),
                Some("options") => found.options.extend(rest()),
                _ => {}
            }
        }
        found
    }

    /// Returns the servers with valid addresses.
    pub fn servers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.nameservers.iter().filter_map(|server| server.parse().ok())
    }

    /// Returns the number of dots from which a name is tried without search domains first.
    pub(crate) fn ndots(&self) -> usize {
        let value = self.options.iter().rev().find_map(|option| option.strip_prefix("ndots:"));
        value.and_then(|value| value.parse().ok()).map_or(1, |dots: usize| dots.min(15))
    }

    /// Returns the names to try for a name, in order; a trailing dot prevents searching.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let as_it_is = format!("{name}.");
        let with_ends = self.searches.iter().map(|end| format!("{name}.{}.", end.trim_matches('.')));
        let dots = name.matches('.').count();
        if dots >= self.ndots() {
            std::iter::once(as_it_is).chain(with_ends).collect()
        } else {
            with_ends.chain(std::iter::once(as_it_is)).collect()
        }
    }

    /// Formats the file.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if !self.searches.is_empty() {
            lines.push(format!("search {}", self.searches.join(" ")));
        }
        lines.extend(self.nameservers.iter().map(|server| format!("nameserver {server}")));
        if !self.options.is_empty() {
            lines.push(format!("options {}", self.options.join(" ")));
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_as_libc_reads_it_net_3() {
        let text = "# c\ndomain old\nsearch lan . corp ; x\nnameserver 192.0.2.1 # y\n nameserver\tfe80::1%eth0\n\
                    nameserver\noptions ndots:2 rotate\nsortlist 1\noptions timeout:1 ndots:3\n";
        let found = ResolvConf::parse(text);
        assert_eq!(found.searches, ["lan", "corp"]);
        assert_eq!(found.nameservers, ["192.0.2.1", "fe80::1%eth0"]);
        assert_eq!(found.servers().count(), 1);
        assert_eq!((found.ndots(), ResolvConf::default().ndots()), (3, 1));
        assert_eq!(ResolvConf::parse(&found.text()), found);
        assert_eq!(ResolvConf::default().text(), "");
    }

    #[test]
    fn names_are_tried_in_libcs_order_net_3() {
        let conf = ResolvConf::parse("search a.b c\noptions ndots:2");
        for (name, expected) in [
            ("x", vec!["x.a.b.", "x.c.", "x."]),
            ("x.y", vec!["x.y.a.b.", "x.y.c.", "x.y."]),
            ("x.y.z", vec!["x.y.z.", "x.y.z.a.b.", "x.y.z.c."]),
            ("x.", vec!["x."]),
        ] {
            assert_eq!(conf.candidates(name), expected, "{name}");
        }
    }
}
