//! Durations as Go writes them: `1h30m`, `-1.5s`, `300ms`.

/// Returns the nanoseconds of a duration; `None` if the text is invalid or the duration exceeds 64 bits.
pub fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.into() };
        nanos = nanos.checked_add(whole.checked_mul(unit)?)?;
        let mut place = unit;
        for digit in fraction.bytes() {
            place /= 10;
            nanos += place * i128::from(digit - b'0');
        }
        rest = tail;
    }
    let nanos = if negative { -nanos } else { nanos };
    i64::try_from(nanos).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go_cj_1() {
        for (text, expected) in [
            ("1h30m", Some(5400.0)),
            ("90s", Some(90.0)),
            ("1.5h", Some(5400.0)),
            (".5m", Some(30.0)),
            ("300ms", Some(0.3)),
            ("2h1m0.5s", Some(7260.5)),
            ("-5s", Some(-5.0)),
            ("0", Some(0.0)),
            ("5", None),
            ("", None),
            ("-", None),
            ("5x", None),
            ("1.2.3s", None),
            (".s", None),
            ("99999999999h", None),
            ("-9223372036854775808ns", Some(-9_223_372_036.854_776)),
            ("9223372036854775808ns", None),
        ] {
            let seconds = nanoseconds(text).map(|n| n as f64 / 1e9);
            assert_eq!(seconds, expected, "{text}");
        }
    }
}
