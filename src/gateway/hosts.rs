//! Hostnames of listeners and routes: valid ones, and their intersection.
//!
//! A wildcard stands for one or more labels, unlike in an Ingress.

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
