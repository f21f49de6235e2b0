//! Interprets a plain YAML scalar, by the rules of kubectl's YAML reader (YAML 1.1 with `0o` octals): `yes` is true,
//! `0644` is 420, `1_000` is 1000, dates are texts.

use serde_json::{Number, Value};

/// A number that JSON cannot represent: infinity, or not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJsonError;

/// Returns the value of an unquoted scalar without a tag.
pub(super) fn resolve(text: &str) -> Result<Value, NotJsonError> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        _ => {}
    }
    let special = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(special, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Err(NotJsonError);
    }
    if !special.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(Value::String(text.to_string()));
    }
    let plain = text.replace('_', "");
    if let Some(number) = integer(&plain) {
        return Ok(Value::Number(number));
    }
    if is_float(&plain) {
        return float(&plain).map(Value::Number).ok_or(NotJsonError);
    }
    Ok(Value::String(text.to_string()))
}

/// Returns true for times, and for numbers to base 60 (`12:30:00`), which some parsers read as other types than strings.
pub(super) fn is_time_or_sexagesimal(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit()) && (is_time(text) || is_sexagesimal(digits))
}

/// Returns true for `2020-01-01`, alone or with a time after it.
fn is_time(text: &str) -> bool {
    let date_end = text.find(['T', 't', ' ', '\t']).unwrap_or(text.len());
    let (date, rest) = text.split_at(date_end);
    let parts: Vec<&str> = date.split('-').collect();
    let is_date = matches!(parts[..], [year, month, day]
        if year.len() == 4 && (1..=2).contains(&month.len()) && (1..=2).contains(&day.len()))
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    is_date
        && (rest.is_empty()
            || rest.trim_start_matches(['T', 't', ' ', '\t']).starts_with(|c: char| c.is_ascii_digit()))
}

fn is_sexagesimal(digits: &str) -> bool {
    digits.contains(':')
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'_' | b'.'))
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    // A second sign would be parsed as part of the number.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        Some(Number::from(0i64.checked_sub_unsigned(magnitude)?))
    } else {
        Some(Number::from(magnitude))
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|c| c.is_ascii_digit());
    let mantissa_good = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    };
    mantissa_good && exponent.is_none_or(digits)
}

/// Parses a float. A whole number becomes an integer, so that `1e3` fits an integer field as it does with kubectl.
fn float(text: &str) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value: f64 = text.parse().ok()?;
    if value.fract() == 0.0 && value.abs() < EXACT {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_mean_what_kubectl_takes_them_for_api_12() {
        for (text, expected) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("3", json!(3)),
            ("-3", json!(-3)),
            ("+3", json!(3)),
            ("0644", json!(420)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("1_000", json!(1000)),
            ("08", json!(8)),
            ("1e3", json!(1000)),
            ("0.5", json!(0.5)),
            (".5", json!(0.5)),
            ("1.10", json!(1.1)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("100m", json!("100m")),
            ("1.2.3", json!("1.2.3")),
            ("2001-01-01", json!("2001-01-01")),
            ("10:30", json!("10:30")),
            ("-", json!("-")),
            ("--1", json!("--1")),
            (".", json!(".")),
            ("0x", json!("0x")),
            ("nginx", json!("nginx")),
        ] {
            assert_eq!(resolve(text), Ok(expected), "{text:?}");
        }
        assert_eq!(resolve(".inf"), Err(NotJsonError));
        assert_eq!(resolve("1e999"), Err(NotJsonError));
    }
}
