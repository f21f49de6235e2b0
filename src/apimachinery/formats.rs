//! The formats of strings that a schema may name, checked as kube-openapi checks them; unknown formats are
//! ignored.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;

/// Formats that are checked.
const SUPPORTED: [&str; 25] = [
    "bsonobjectid", "byte", "cidr", "creditcard", "date", "date-time", "datetime", "duration", "email",
    "hexcolor", "hostname", "ipv4", "ipv6", "isbn", "isbn10", "isbn13", "k8s-short-name", "k8s-long-name",
    "mac", "password", "rgbcolor", "ssn", "uri", "uuid", "uuid3",
];

/// Returns true if a text has a format; true for unknown formats.
pub fn holds(format: &str, text: &str) -> bool {
    match format {
        "byte" => STANDARD.decode(text).is_ok(),
        "cidr" => text.parse::<IpNet>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "date-time" | "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        }
        "hostname" => is_hostname(text),
        "ipv4" => matches!(text.parse(), Ok(IpAddr::V4(_))),
        "ipv6" => matches!(text.parse(), Ok(IpAddr::V6(_))),
        "isbn" => is_isbn_10(text) || is_isbn_13(text),
        "isbn10" => is_isbn_10(text),
        "isbn13" => is_isbn_13(text),
        "k8s-short-name" => crate::validate::names::dns_1123_label(text).is_empty(),
        "k8s-long-name" => crate::validate::names::dns_1123_subdomain(text).is_empty(),
        "mac" => is_mac(text),
        "rgbcolor" => is_rgb(text),
        "creditcard" => is_credit_card(text),
        "ssn" => {
            let digits: Vec<&str> = text.split(['-', ' ']).collect();
            let lengths: Vec<usize> = digits.iter().map(|part| part.len()).collect();
            lengths == [3, 2, 4] && digits.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()))
        }
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "uri" => text.starts_with('/') || is_absolute_uri(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => {
            is_uuid(text, Some('4'))
                && text.replace('-', "").chars().nth(16).is_some_and(|c| "89abAB".contains(c))
        }
        "uuid5" => {
            is_uuid(text, Some('5'))
                && text.replace('-', "").chars().nth(16).is_some_and(|c| "89abAB".contains(c))
        }
        _ => true,
    }
}

/// Returns true if a format of this name is checked at all.
pub fn is_supported(format: &str) -> bool {
    SUPPORTED.contains(&format) || matches!(format, "uuid4" | "uuid5")
}

/// Returns true for a time of RFC 3339 with a `T` and a zone.
fn is_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let zone = text.ends_with(['Z', 'z'])
        || (bytes.len() > 6
            && matches!(bytes[bytes.len() - 6], b'+' | b'-')
            && bytes[bytes.len() - 3] == b':');
    bytes.len() >= 20 && matches!(bytes[10], b'T' | b't') && zone && text.parse::<jiff::Timestamp>().is_ok()
}

/// Returns true for a duration in Go's format, or for numbers with long units: `1h`, `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 31] = [
        "ns", "nano", "nanos", "nanosecond", "nanoseconds", "us", "\u{b5}s", "\u{3bc}s", "micro", "micros",
        "microsecond", "microseconds", "ms", "milli", "millis", "millisecond", "milliseconds", "s", "sec",
        "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "h", "hr", "hrs", "hour",
    ];
    const LONG: [&str; 7] = ["hours", "d", "day", "days", "w", "week", "weeks"];
    let mut rest = text.trim().trim_start_matches(['-', '+']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let tail = rest[number..].trim_start();
        let unit = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let known = UNITS.contains(&&tail[..unit]) || LONG.contains(&&tail[..unit]);
        if number == 0 || rest[..number].parse::<f64>().is_err() || !known {
            return false;
        }
        rest = tail[unit..].trim_start();
    }
    true
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(at), Some(stripped)) => &stripped[at + 1..],
        _ => text,
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        let plain = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
        let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
        let fine =
            !local.is_empty() && local.chars().all(plain) && !local.starts_with('.') && !local.ends_with('.');
        (quoted || (fine && !local.contains("..")))
            && !domain.is_empty()
            && domain.split('.').all(|part| !part.is_empty() && part.chars().all(plain))
    })
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let fine = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(fine)
            && !label.starts_with(['-', '_'])
            && !label.ends_with(['-', '_'])
    };
    text.len() <= 255 && text.trim_end_matches('.').split('.').all(label)
}

fn is_mac(text: &str) -> bool {
    let parts = |by: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(by).collect();
        let hex = |part: &&str| part.len() == width && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        counts.contains(&parts.len()) && parts.iter().all(hex)
    };
    parts(':', 2, &[6, 8, 20]) || parts('-', 2, &[6, 8, 20]) || parts('.', 4, &[3, 4, 10])
}

fn is_rgb(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| {
        let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
        parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
    })
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> =
        text.chars().filter(|c| !" -".contains(*c)).map_while(|c| c.to_digit(10)).collect();
    let all = text.chars().filter(|c| !" -".contains(*c)).count();
    let double = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, digit)| if i % 2 == 1 { double(*digit) } else { *digit })
        .sum();
    digits.len() == all && (13..=19).contains(&all) && sum.is_multiple_of(10)
}

fn is_isbn_10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !" -".contains(*c)).collect();
    let value = |(i, c): (usize, &char)| match c {
        'X' | 'x' if i == 9 => Some(10),
        c => c.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    values.is_some_and(|v| v.len() == 10 && v.iter().zip(1..).map(|(v, i)| v * i).sum::<u32>() % 11 == 0)
}

fn is_isbn_13(text: &str) -> bool {
    let digits: Option<Vec<u32>> =
        text.chars().filter(|c| !" -".contains(*c)).map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|d| {
        d.len() == 13
            && d.iter().enumerate().map(|(i, d)| d * if i % 2 == 0 { 1 } else { 3 }).sum::<u32>() % 10 == 0
    })
}

fn is_absolute_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !rest.is_empty()
        && !rest.chars().any(|c| c.is_control() || c == ' ')
}

/// Returns whether a text is a UUID in normalized form: five groups of lower-case digits.
pub fn is_normalized_uuid(text: &str) -> bool {
    is_uuid(text, None) && text.contains('-') && !text.bytes().any(|digit| digit.is_ascii_uppercase())
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let hex = text.bytes().all(|digit| digit.is_ascii_hexdigit() || digit == b'-');
    let digits = text.replace('-', "");
    hex && digits.len() == 32
        && (parts.len() == 1 || lengths == [8, 4, 4, 4, 12])
        && version.is_none_or(|version| digits.chars().nth(12) == Some(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normalized_uuid_has_groups_of_lower_case_digits_api_8() {
        assert!(is_normalized_uuid("0f8fad5b-d9cb-469f-a165-70867728950e"));
        for other in [
            "", "0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5bd9cb469fa16570867728950e",
            "0f8fad5bd-9cb-469f-a165-70867728950e", "0g8fad5b-d9cb-469f-a165-70867728950e",
        ] {
            assert!(!is_normalized_uuid(other), "{other}");
        }
    }

    #[test]
    fn formats_are_judged_as_kubernetes_does_api_14() {
        for (format, good, bad) in [
            ("date-time", "2026-11-21T00:00:00.5+02:00", "2026-11-21 00:00:00Z"),
            ("date", "2026-11-21", "2026-13-01"),
            ("duration", "1h30m", "soon"),
            ("duration", "3 days", "3 moons"),
            ("uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b"),
            ("uuid4", "0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b-d9cb-169f-a165-70867728950e"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("email", "a.b@c.test", "a.b"),
            ("hostname", "a-b.test", "a_.test"),
            ("mac", "00:11:22:33:44:55", "00:11"),
            ("byte", "YWI=", "YW!"),
            ("uri", "https://a.test/b", "a b"),
            ("hexcolor", "#0af", "#0"),
            ("rgbcolor", "rgb(1, 2, 255)", "rgb(1,2,256)"),
            ("isbn10", "0-306-40615-2", "0-306-40615-3"),
            ("isbn13", "978-0-306-40615-7", "978-0-306-40615-8"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ] {
            assert!(holds(format, good) && !holds(format, bad), "{format}");
            assert!(is_supported(format), "{format}");
        }
        assert!(holds("int32", "anything"), "an unknown format is not checked");
    }
}
