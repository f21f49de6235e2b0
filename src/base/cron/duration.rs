//! Durations as Go writes them: `1h30m`, `1.5s`, `300ms`.

/// Returns the nanoseconds of a duration; `None` if the text is invalid.
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        total = total.checked_add(part(number, unit_nanoseconds(unit)?)?)?;
        rest = tail;
    }
    Some(if negative { -total } else { total })
}

fn part(number: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse::<f64>().ok()? };
    whole.checked_mul(unit)?.checked_add((fraction * unit as f64) as i64)
}

fn unit_nanoseconds(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
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
        ] {
            let seconds = nanoseconds(text).map(|n| n as f64 / 1e9);
            assert_eq!(seconds, expected, "{text}");
        }
    }
}
