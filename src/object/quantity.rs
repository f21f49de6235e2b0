//! Quantities: `100m`, `1.5Gi`, `2e3` — exact numbers with a unit suffix, as Kubernetes reads and writes them.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts of resources by name, as in `requests`.
pub type ResourceList = BTreeMap<String, Quantity>;

const NANO: i128 = 1_000_000_000;

/// The number a quantity stands for, exact to a billionth (finer fractions round up, as in Kubernetes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount {
    nanos: i128,
}

/// A text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct QuantityError;

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Returns the amount of this many units.
    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANO }
    }

    /// Returns the amount of this many thousandths.
    pub fn from_millis(millis: i64) -> Self {
        Self { nanos: i128::from(millis) * (NANO / 1000) }
    }

    /// Reads a quantity's text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError);
        }
        let (base, exponent) = unit(suffix).ok_or(QuantityError)?;
        let nanos = scale(whole, fraction, base, exponent).ok_or(QuantityError)?;
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// Returns the amount in a field; an invalid text counts as zero (validation refuses it earlier).
    #[expect(clippy::disallowed_methods, reason = "validation refuses invalid text")]
    pub fn of(quantity: &Quantity) -> Self {
        Self::parse(&quantity.0).unwrap_or_default()
    }

    /// Returns the amount of a resource in a list; zero if it is absent.
    pub fn in_list(list: Option<&ResourceList>, resource: &str) -> Self {
        list.and_then(|l| l.get(resource)).map(Self::of).unwrap_or_default()
    }

    /// Returns the units, rounded up.
    pub fn units(self) -> i64 {
        saturate(div_up(self.nanos, NANO))
    }

    /// Returns the units; `None` if the amount has a fraction or exceeds 64 bits.
    pub fn whole_units(self) -> Option<i64> {
        if self.nanos % NANO == 0 { i64::try_from(self.nanos / NANO).ok() } else { None }
    }

    /// Returns the thousandths, rounded up.
    pub fn millis(self) -> i64 {
        saturate(div_up(self.nanos, NANO / 1000))
    }

    /// Returns the units as a floating point number.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Returns true if it is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Returns true if it is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Formats the amount with binary suffixes (`128Mi`), as is usual for memory.
    pub fn to_binary(self) -> Quantity {
        if self.nanos % NANO != 0 {
            return self.to_decimal();
        }
        let units = self.nanos / NANO;
        for (suffix, bits) in [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
            if units != 0 && units % (1 << bits) == 0 {
                return Quantity(format!("{}{suffix}", units / (1 << bits)));
            }
        }
        Quantity(units.to_string())
    }

    /// Formats the amount with binary suffixes if the sample has one, otherwise with decimal ones.
    pub fn to_text_like(self, sample: &Quantity) -> Quantity {
        if sample.0.ends_with('i') { self.to_binary() } else { self.to_decimal() }
    }

    /// Formats the amount with decimal suffixes (`250m`, `3k`), as is usual for cpu and counts.
    pub fn to_decimal(self) -> Quantity {
        if self.nanos == 0 {
            return Quantity("0".into());
        }
        let (mut mantissa, mut exponent) = (self.nanos, -9);
        while mantissa % 1000 == 0 && exponent < 18 {
            mantissa /= 1000;
            exponent += 3;
        }
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            0 => "",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            _ => "E",
        };
        Quantity(format!("{mantissa}{suffix}"))
    }
}

impl std::ops::Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::ops::Sub for Amount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

/// Formats it with decimal suffixes.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_decimal().0)
    }
}

/// Adds amounts to those of a list. A sum has the format of its first operand that is not zero, as in Kubernetes.
pub fn add_to(total: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more {
        let before = total.get(name).map(Amount::of).unwrap_or_default();
        let sample = total.get(name).filter(|_| !before.is_zero()).unwrap_or(quantity);
        let sum = (before + Amount::of(quantity)).to_text_like(sample);
        total.insert(name.clone(), sum);
    }
}

/// Returns the base and exponent of a suffix.
fn unit(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (10, 0),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = digits.parse().ok()?;
            return (-30..=30).contains(&exponent).then_some((10, exponent));
        }
    })
}

/// Returns `whole.fraction · base^exponent` in billionths, rounded up; `None` if it has more than 30 digits or exceeds
/// 128 bits.
fn scale(whole: &str, fraction: &str, base: i128, exponent: i32) -> Option<i128> {
    if whole.len() + fraction.len() > 30 {
        return None;
    }
    let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let mut numerator = mantissa.checked_mul(NANO)?;
    let mut denominator = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let factor = base.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 {
        // Dividing first keeps large exponents of long fractions within range.
        let common = gcd(factor, denominator);
        denominator /= common;
        numerator = numerator.checked_mul(factor / common)?;
    } else {
        denominator = denominator.checked_mul(factor)?;
    }
    Some(div_up(numerator, denominator))
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn div_up(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

fn saturate(n: i128) -> i64 {
    i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_read_and_write_as_kubernetes_does() {
        for (text, millis, decimal, binary) in [
            ("0", 0, "0", "0"),
            ("1", 1000, "1", "1"),
            ("100m", 100, "100m", "100m"),
            ("0.5", 500, "500m", "500m"),
            (".5", 500, "500m", "500m"),
            ("1.", 1000, "1", "1"),
            ("1500m", 1500, "1500m", "1500m"),
            ("1k", 1_000_000, "1k", "1000"),
            ("1Ki", 1_024_000, "1024", "1Ki"),
            ("1.5Gi", 1_610_612_736_000, "1610612736", "1536Mi"),
            ("128Mi", 134_217_728_000, "134217728", "128Mi"),
            ("12e6", 12_000_000_000, "12M", "12000000"),
            ("1E", 0, "1E", "976562500000000Ki"),
            ("+3", 3000, "3", "3"),
            ("-2", -2000, "-2", "-2"),
            ("100n", 1, "100n", "100n"),
        ] {
            let amount = Amount::parse(text).unwrap_or_else(|_| panic!("{text}"));
            if text != "1E" {
                assert_eq!(amount.millis(), millis, "{text}");
            }
            assert_eq!(amount.to_decimal().0, decimal, "{text}");
            assert_eq!(amount.to_binary().0, binary, "{text}");
        }
        for bad in ["", ".", "1.2.3", "1ki", "m", "1 Gi", "0x1", "1e", "1e999", "--1", "1Gib", "NaN"] {
            assert_eq!(Amount::parse(bad), Err(QuantityError), "{bad}");
        }
        assert_eq!(Amount::parse("1e-2147483648"), Err(QuantityError));
    }

    #[test]
    fn a_sum_is_written_as_its_first_part_quo_1() {
        let list = |text: &str| ResourceList::from([("memory".to_string(), Quantity(text.into()))]);
        for (a, b, sum) in [
            ("0", "512Mi", "512Mi"),
            ("512Mi", "512M", "1024288Ki"),
            ("1G", "1Gi", "2073741824"),
            ("512Mi", "512Mi", "1Gi"),
            ("512Mi", "-512Mi", "0"),
        ] {
            let mut total = list(a);
            add_to(&mut total, &list(b));
            assert_eq!(total["memory"].0, sum, "{a} + {b}");
        }
    }

    proptest! {
        #[test]
        fn writing_and_reading_keeps_the_amount(nanos in -1_000_000_000_000_000_000_000i128..1_000_000_000_000_000_000_000) {
            let amount = Amount { nanos };
            prop_assert_eq!(Amount::parse(&amount.to_decimal().0), Ok(amount));
            prop_assert_eq!(Amount::parse(&amount.to_binary().0), Ok(amount));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = Amount::parse(&text);
        }
    }
}
