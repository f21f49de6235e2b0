//! Durations in Go's format.

use jiff::SignedDuration;

/// Returns true if Go can represent the duration: its nanoseconds are 64 bits.
pub(super) fn is_within_bounds(duration: SignedDuration) -> bool {
    i64::try_from(duration.as_nanos()).is_ok()
}

/// Parses Go's format of a duration: `1h30m`, `-1.5s`, `300ms`.
pub(super) fn duration(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
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
    i64::try_from(nanos).ok().map(SignedDuration::from_nanos)
}
