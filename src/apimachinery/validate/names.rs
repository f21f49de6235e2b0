//! The syntax of names. Each function returns the errors of a text in Kubernetes' words; an empty list means that it is
//! valid.

use std::fmt::Write as _;

const DNS_1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// The error for a text that does not match a regular expression.
fn expression(rule: &str, regex: &str, examples: &[&str]) -> String {
    let mut text = format!("{rule} (e.g. ");
    for (i, example) in examples.iter().enumerate() {
        if i > 0 {
            text.push_str(" or ");
        }
        let _ = write!(text, "'{example}', ");
    }
    let _ = write!(text, "regex used for validation is '{regex}')");
    text
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn is_lower_alphanumeric(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Returns whether all bytes of a text satisfy `ends` or are in `between`, and the first and last satisfy `ends`.
fn framed(text: &str, ends: fn(u8) -> bool, between: &[u8]) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            ends(*first) && ends(*last) && bytes.iter().all(|c| ends(*c) || between.contains(c))
        }
        _ => false,
    }
}

/// Lower case letters, digits and `-`: namespaces, container and volume names.
pub fn dns_1123_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    if !framed(text, is_lower_alphanumeric, b"-") {
        wrong.push(expression(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            DNS_1123_LABEL,
            &["my-name", "123-abc"],
        ));
    }
    wrong
}

/// Labels joined by dots: most objects' names.
pub fn dns_1123_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(too_long(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(|label| framed(label, is_lower_alphanumeric, b"-")) {
        wrong.push(expression(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            DNS_1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    wrong
}

/// A subdomain with labels that may contain `_`, as DNS names of services do.
pub(crate) fn dns_1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(too_long(SUBDOMAIN_MAX));
    }
    let is_label =
        |label: &str| framed(label.strip_prefix('_').unwrap_or(label), is_lower_alphanumeric, b"-_");
    if !text.split('.').all(is_label) {
        wrong.push(expression(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    wrong
}

/// A subdomain of at least two labels, with an optional dot at the end: endpoint addresses that are names.
pub fn full_domain_name(text: &str) -> Vec<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let wrong = dns_1123_subdomain(name);
    if !wrong.is_empty() {
        wrong
    } else if name.contains('.') {
        name.split('.').flat_map(dns_1123_label).collect()
    } else {
        vec!["should be a domain with at least two segments separated by dots".into()]
    }
}

/// A segment of a URL path: names of roles and bindings.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%'].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// `*.` before a subdomain: stands for all hosts directly below that domain.
pub fn wildcard_dns_1123_subdomain(text: &str) -> Vec<String> {
    let below = text.strip_prefix("*.").is_some_and(|domain| dns_1123_subdomain(domain).is_empty());
    if below && text.len() <= SUBDOMAIN_MAX {
        return Vec::new();
    }
    vec![expression(
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
        &format!("\\*\\.{DNS_1123_SUBDOMAIN}"),
        &["*.example.com"],
    )]
}

/// A label that starts with a letter: names of services.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    let starts = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !starts || !framed(text, is_lower_alphanumeric, b"-") {
        wrong.push(expression(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS_1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// `[prefix/]name`: keys of labels and annotations, resources, condition types.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_string());
            } else {
                wrong.extend(dns_1123_subdomain(prefix).into_iter().map(|m| format!("prefix part {m}")));
            }
            name
        }
        Some(_) => {
            let rule = expression(QUALIFIED_NAME_RULE, QUALIFIED, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a qualified name {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_string());
    } else if name.len() > LABEL_MAX {
        wrong.push(format!("name part {}", too_long(LABEL_MAX)));
    }
    if !framed(name, |c| c.is_ascii_alphanumeric(), b"-_.") {
        wrong.push(format!(
            "name part {}",
            expression(QUALIFIED_NAME_RULE, QUALIFIED, &["MyName", "my.name", "123-abc"])
        ));
    }
    wrong
}

/// The value of a label; may be empty.
pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    if !text.is_empty() && !framed(text, |c| c.is_ascii_alphanumeric(), b"-_.") {
        wrong.push(expression(
            &format!(
                "a valid label must be an empty string or consist of {}",
                &QUALIFIED_NAME_RULE["must consist of ".len()..]
            ),
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// A key of a ConfigMap or Secret: a file name that cannot lead out of its directory.
pub fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(too_long(SUBDOMAIN_MAX));
    }
    let letters = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    if text.is_empty() || !text.bytes().all(letters) {
        wrong.push(expression(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." => wrong.push("must not be '.'".to_string()),
        ".." => wrong.push("must not be '..'".to_string()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_string()),
        _ => {}
    }
    wrong
}

/// A C identifier: attributes of devices.
pub fn c_identifier(text: &str) -> Vec<String> {
    let is_part = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    if text.as_bytes().first().is_some_and(|c| !c.is_ascii_digit()) && text.bytes().all(is_part) {
        return Vec::new();
    }
    vec![expression(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of an environment variable.
pub(crate) fn environment_variable(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .into(),
    ]
}

/// The name of a container's port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push(too_long(15));
    }
    if !text.bytes().all(|c| is_lower_alphanumeric(c) || c == b'-') || text.is_empty() {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_string());
    }
    if !text.bytes().any(|c| c.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_string());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_string());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_string());
    }
    wrong
}

/// The reason of a condition: one word.
pub(crate) fn condition_reason(text: &str) -> Vec<String> {
    let between = |c: u8| c.is_ascii_alphanumeric() || b"_,:".contains(&c);
    let bytes = text.as_bytes();
    let good = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_')
        && bytes.iter().all(|c| between(*c));
    if good {
        return Vec::new();
    }
    vec![expression(
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )]
}

/// The name of an HTTP header.
pub(crate) fn http_header(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return Vec::new();
    }
    vec![expression(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A port's number.
pub fn port_number(number: i64) -> Vec<String> {
    if (1..=65535).contains(&number) {
        return Vec::new();
    }
    vec!["must be between 1 and 65535, inclusive".to_string()]
}

/// An IP address of either family.
pub fn ip(text: &str) -> Vec<String> {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_string()]
}

/// The address of an endpoint: neither unspecified nor link-local, and no link-local multicast. Kubernetes refuses
/// loopback addresses too, but here pods have loopback addresses if they have no network of their own.
pub fn non_special_ip(text: &str) -> Vec<String> {
    let Ok(address) = text.parse::<std::net::IpAddr>() else { return Vec::new() };
    let (is_link, is_link_multicast) = match address {
        std::net::IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        std::net::IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let mut wrong = Vec::new();
    for (is, why) in [
        (address.is_unspecified(), format!("may not be unspecified ({text})")),
        (is_link, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".into()),
        (is_link_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".into()),
    ] {
        if is {
            wrong.push(why);
        }
    }
    wrong
}

/// A range of IP addresses.
pub fn cidr(text: &str) -> Vec<String> {
    if text.parse::<ipnet::IpNet>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_string()]
}

/// Makes the prefix of a generated name valid as a name: letters will follow its trailing `-`.
pub(crate) fn as_prefix(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => prefix.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_or_rejected_with_a_reason_api_8() {
        type Rule = fn(&str) -> Vec<String>;
        let long = "a".repeat(64);
        let good: [(Rule, &[&str]); 8] = [
            (dns_1123_label, &["a", "0", "a-b", "123-abc"]),
            (dns_1123_subdomain, &["a", "a.b-c.d", "0.0"]),
            (dns_1035_label, &["a", "a-0"]),
            (qualified_name, &["a", "A_b.c", "example.com/A"]),
            (label_value, &["", "a", "A.b_c-d"]),
            (config_key, &["a", ".a", "A_b.c-d", "-"]),
            (environment_variable, &["A", "a.b", "1 x"]),
            (port_name, &["http", "a-1"]),
        ];
        for (rule, texts) in good {
            for text in texts {
                assert_eq!(rule(text), Vec::<String>::new(), "{text}");
            }
        }
        let bad: [(Rule, &str, &str); 15] = [
            (
                dns_1123_label,
                "A",
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
            (dns_1123_label, &long, "must be no more than 63 characters"),
            (
                dns_1123_subdomain,
                "a..b",
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
            (
                dns_1035_label,
                "0a",
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ),
            (qualified_name, "/a", "prefix part must be non-empty"),
            (
                qualified_name,
                "a/b/c",
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            ),
            (
                label_value,
                "a b",
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ),
            (
                config_key,
                "../etc",
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ),
            (config_key, "..", "must not be '..'"),
            (config_key, "..a", "must not start with '..'"),
            (
                environment_variable,
                "a=b",
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            ),
            (port_name, "a-very-long-port-name", "must be no more than 15 characters"),
            (port_name, "80", "must contain at least one letter (a-z)"),
            (port_name, "a--b", "must not contain consecutive hyphens"),
            (ip, "1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ];
        for (rule, text, message) in bad {
            assert_eq!(rule(text).first().map(String::as_str), Some(message), "{text}");
        }
        assert_eq!(
            (as_prefix("web-"), as_prefix("-"), as_prefix("web")),
            ("weba".into(), "-".into(), "web".into())
        );
    }
}
