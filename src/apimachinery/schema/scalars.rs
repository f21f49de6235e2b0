//! Strings with a format: bytes in base64, times, quantities. They are parsed as Go's decoder parses them,
//! with its error messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::MAX_DEPTH;
use super::graph::{Scalar, Shape, graph};
use base::quote::quote;
use object::quantity::Amount;

/// The layout of a time in Go's notation.
const RFC_3339: &str = "2006-01-02T15:04:05Z07:00";

/// Normalizes base64 (Go accepts line breaks in it, and stray bits at its end), and refuses invalid bytes,
/// times and quantities.
pub fn read_scalars(group: &str, version: &str, kind: &str, document: &mut Value) -> Result<(), String> {
    match graph().root(group, version, kind) {
        Some(root) => read(&Shape::Object(root), document, 0),
        None => Ok(()),
    }
}

fn read(shape: &Shape, value: &mut Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    match (shape, value) {
        (Shape::Object(id), Value::Object(entries)) => {
            let object = graph().get(*id);
            entries.iter_mut().try_for_each(|(name, entry)| match object.field(name) {
                Some(field) => read(&field.shape, entry, depth + 1),
                None => Ok(()),
            })
        }
        (Shape::Map(values), Value::Object(entries)) => {
            entries.values_mut().try_for_each(|entry| read(values, entry, depth + 1))
        }
        (Shape::List(items), Value::Array(elements)) => {
            elements.iter_mut().try_for_each(|entry| read(items, entry, depth + 1))
        }
        (Shape::Scalar(Scalar::Bytes), Value::String(text)) => {
            let bytes = from_base64(text).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
            *text = STANDARD.encode(bytes);
            Ok(())
        }
        (Shape::Scalar(Scalar::Time), Value::String(text)) => check_time(text),
        (Shape::Scalar(Scalar::Quantity), Value::String(text)) => {
            Amount::parse(text.trim()).map(drop).map_err(|_| quantity_fault(text.trim()).to_string())
        }
        _ => Ok(()),
    }
}

/// Returns the bytes, or the offset at which the text is invalid.
fn from_base64(text: &str) -> Result<Vec<u8>, usize> {
    let mut letters = text.bytes().enumerate().filter(|(_, letter)| !matches!(letter, b'\n' | b'\r'));
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    loop {
        let (mut bits, mut count) = (0_u32, 0);
        while count < 4 {
            match letters.next() {
                None if count == 0 => return Ok(bytes),
                // The start of the last quantum, as Go reports it.
                None => return Err(text.len() - count),
                Some((at, b'=')) => {
                    if count < 2 {
                        return Err(at);
                    }
                    if count == 2 {
                        match letters.next() {
                            Some((_, b'=')) => {}
                            Some((next, _)) => return Err(next - 1),
                            None => return Err(text.len()),
                        }
                    }
                    if let Some((more, _)) = letters.next() {
                        return Err(more);
                    }
                    let [_, first, second, _] = (bits << (6 * (4 - count))).to_be_bytes();
                    bytes.extend(&[first, second][..count - 1]);
                    return Ok(bytes);
                }
                Some((at, letter)) => {
                    bits = bits << 6 | u32::from(sextet(letter).ok_or(at)?);
                    count += 1;
                }
            }
        }
        bytes.extend(&bits.to_be_bytes()[1..]);
    }
}

fn sextet(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Checks a time in RFC 3339; the first missing part is named as in Go's `time.Parse`.
fn check_time(text: &str) -> Result<(), String> {
    let fault = |reason: String| Err(format!("parsing time {}{reason}", quote(text)));
    let mut rest = text;
    for (part, digits, range) in [
        ("2006", 4, None),
        ("-", 0, None),
        ("01", 2, Some((1..=12, "month"))),
        ("-", 0, None),
        ("02", 2, Some((1..=31, "day"))),
        ("T", 0, None),
        ("15", 2, Some((0..=23, "hour"))),
        (":", 0, None),
        ("04", 2, Some((0..=59, "minute"))),
        (":", 0, None),
        ("05", 2, Some((0..=59, "second"))),
    ] {
        let after = if digits == 0 {
            rest.strip_prefix(part)
        } else {
            let number = rest.get(..digits).filter(|number| number.bytes().all(|b| b.is_ascii_digit()));
            let number: Option<u32> = number.and_then(|number| number.parse().ok());
            if let (Some(number), Some((range, name))) = (number, range)
                && !range.contains(&number)
            {
                return fault(format!(": {name} out of range"));
            }
            number.and_then(|_| rest.get(digits..))
        };
        let Some(after) = after else {
            let (layout, rest, part) = (quote(RFC_3339), quote(rest), quote(part));
            return fault(format!(" as {layout}: cannot parse {rest} as {part}"));
        };
        rest = after;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ','])
        && fraction.starts_with(|letter: char| letter.is_ascii_digit())
    {
        rest = fraction.trim_start_matches(|letter: char| letter.is_ascii_digit());
    }
    let is_offset = |zone: &[u8]| {
        zone.len() >= 6
            && matches!(zone[0], b'+' | b'-')
            && zone[3] == b':'
            && [1, 2, 4, 5].iter().all(|i| zone[*i].is_ascii_digit())
    };
    let after = match rest.as_bytes() {
        [b'Z', ..] => 1,
        zone if is_offset(zone) => 6,
        _ => {
            let (layout, rest, part) = (quote(RFC_3339), quote(rest), quote("Z07:00"));
            return fault(format!(" as {layout}: cannot parse {rest} as {part}"));
        }
    };
    match &rest[after..] {
        "" => Ok(()),
        extra => fault(format!(": extra text: {}", quote(extra))),
    }
}

/// Returns the reason why a text is no quantity: its form, or an unknown suffix.
fn quantity_fault(text: &str) -> &'static str {
    let number = |letter: char| letter.is_ascii_digit();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = unsigned.trim_start_matches(number);
    let suffix = whole.strip_prefix('.').map_or(whole, |fraction| fraction.trim_start_matches(number));
    let after = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let after = after.strip_prefix(['+', '-']).unwrap_or(after).trim_start_matches(number);
    if suffix.len() < unsigned.len() && after.is_empty() && !suffix.is_empty() {
        "unable to parse quantity's suffix"
    } else {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_read_as_go_reads_them_api_8() {
        for (text, expected) in [
            ("", Ok("")),
            ("YWJj", Ok("YWJj")),
            ("YWJj\nZGVm\r\n", Ok("YWJjZGVm")),
            ("YWI=", Ok("YWI=")),
            ("YW\nI=\n", Ok("YWI=")),
            ("YQ=\n=\n", Ok("YQ==")),
            // The bits after the last byte are ignored.
            ("YWJ=", Ok("YWI=")),
            ("YW.j", Err(2)),
            ("YWJjZA", Err(4)),
            ("YWJ", Err(0)),
            ("Y===", Err(1)),
            ("YQ=x", Err(2)),
            ("YQ=", Err(3)),
            ("YQ==YQ==", Err(4)),
            ("not base64", Err(3)),
        ] {
            let mut secret = json!({"data": {"a": text}});
            let read = read_scalars("", "v1", "Secret", &mut secret);
            let found = read.map(|()| secret["data"]["a"].as_str().unwrap().to_string());
            let expected: Result<String, String> = expected
                .map(ToString::to_string)
                .map_err(|at: usize| format!("illegal base64 data at input byte {at}"));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn times_and_quantities_are_refused_in_gos_words_api_8() {
        for (text, expected) in [
            ("2026-11-23T07:00:00Z", None),
            ("2026-11-23T07:00:00.5+01:00", None),
            ("<date>", Some(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "<date>" as "2006""#)),
            ("2026-11-23", Some(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#)),
            ("2026-11-23T07:00:00", Some(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#)),
            ("2026-13-23T07:00:00Z", Some(": month out of range")),
            ("2026-11-23T07:00:00Zulu", Some(r#": extra text: "ulu""#)),
        ] {
            let mut pod = json!({"status": {"startTime": text}});
            let found = read_scalars("", "v1", "Pod", &mut pod).err();
            assert_eq!(found, expected.map(|why| format!("parsing time {text:?}{why}")));
        }
        let form =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        let suffix = "unable to parse quantity's suffix";
        for (text, expected) in [
            ("1Gi", None),
            (" 1Gi", None),
            ("1e3", None),
            ("abc", Some(form)),
            ("", Some(form)),
            ("1.5.1Gi", Some(form)),
            ("1 Gi", Some(form)),
            ("1mm", Some(suffix)),
            ("1GiB", Some(form)),
            ("100Mib", Some(form)),
            ("1g", Some(form)),
            ("1KK", Some(suffix)),
        ] {
            let mut pod = json!({"spec": {"containers": [{"resources": {"limits": {"memory": text}}}]}});
            let found = read_scalars("", "v1", "Pod", &mut pod).err();
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }
}
