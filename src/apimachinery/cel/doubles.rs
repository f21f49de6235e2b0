//! Floating-point numbers as Go prints them: `%g`, and the forms for American English that cel-go's `format`
//! uses.

/// A number has no more digits after its decimal point than this; further places are zeros.
const MAX_PLACES: usize = 1_100;
const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// Returns the shortest form: Go's `%g`, as in `string()`.
pub(super) fn shortest(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.into();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(-4..6) | Err(_) => number.to_string(),
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

/// Returns the form of a number in a list or map: Go's `%.6f`, not finite numbers in quotation marks.
pub(super) fn in_list(number: f64) -> String {
    if number.is_finite() { format!("{number:.6}") } else { format!("\"{}\"", shortest(number)) }
}

/// Returns a number with this many places after the decimal point: `1,234.50`.
pub(super) fn fixed(number: f64, places: usize) -> String {
    if let Some(name) = not_finite(number) {
        return name.into();
    }
    let digits = format!("{:.*}", places.min(MAX_PLACES), number.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut out = sign(number, &digits).to_string();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + &decimals(fraction, places)
}

/// Returns a number as a power of ten with this many places after the decimal point: `1.50 × 10⁰³`.
pub(super) fn scientific(number: f64, places: usize) -> String {
    if let Some(name) = not_finite(number) {
        return name.into();
    }
    let all = format!("{:.*e}", places.min(MAX_PLACES), number.abs());
    let (digits, exponent) = all.split_once('e').unwrap_or((&all, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (minus, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let exponent: String = format!("{exponent:0>2}")
        .bytes()
        .filter_map(|digit| SUPERSCRIPTS.get(usize::from(digit.wrapping_sub(b'0'))))
        .collect();
    let (sign, decimals) = (sign(number, digits), decimals(fraction, places));
    format!("{sign}{whole}{decimals}\u{202f}×\u{202f}10{minus}{exponent}")
}

fn not_finite(number: f64) -> Option<&'static str> {
    match number {
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        number if number.is_nan() => Some("NaN"),
        _ => None,
    }
}

/// Returns the sign of a number whose digits are these; zero has none.
fn sign(number: f64, digits: &str) -> &'static str {
    if number < 0.0 && digits.contains(|digit| matches!(digit, '1'..='9')) { "-" } else { "" }
}

fn decimals(fraction: &str, places: usize) -> String {
    if places == 0 { String::new() } else { format!(".{fraction}{}", "0".repeat(places - fraction.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_go_api_14() {
        for (number, expected) in [
            (0.0, "0"),
            (2.0, "2"),
            (-1.5, "-1.5"),
            (123_456.5, "123456.5"),
            (1_234_567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.000_000_002, "2e-09"),
            (-1e300, "-1e+300"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shortest(number), expected);
        }
        for (number, places, expected) in [
            (1.2345, 3, "1.234"),
            (1_234_567.891, 2, "1,234,567.89"),
            (-999.5, 0, "-1,000"),
            (123.0, 1, "123.0"),
            (-0.000_000_1, 6, "0.000000"),
            (-0.0, 1, "0.0"),
            (f64::NEG_INFINITY, 1, "-∞"),
        ] {
            assert_eq!(fixed(number, places), expected);
        }
        for (number, places, expected) in [
            (1_052.032_911_275, 6, "1.052033\u{202f}×\u{202f}10⁰³"),
            (0.0, 2, "0.00\u{202f}×\u{202f}10⁰⁰"),
            (-1.5e-120, 0, "-2\u{202f}×\u{202f}10⁻¹²⁰"),
            (f64::NAN, 1, "NaN"),
        ] {
            assert_eq!(scientific(number, places), expected);
        }
        for places in [1_000, 1_100, 70_000] {
            for number in [f64::MIN_POSITIVE, f64::MAX, 5e-324] {
                let digits = fixed(number, places);
                assert_eq!(digits.split_once('.').map(|(_, places)| places.len()), Some(places));
                assert!(scientific(number, places).len() > places);
            }
        }
    }
}
