//! Fields that are a number or a percentage: `25%`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The rounding of fractional pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// 0.1 becomes 1.
    Up,
    /// 0.9 becomes 0.
    Down,
}

/// A field is neither a number nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value for IntOrString: invalid type: string is not a percentage")]
pub struct PercentageError;

/// Returns the number a field stands for, given the total.
pub fn scaled(value: &IntOrString, total: i32, rounding: Rounding) -> Result<i32, PercentageError> {
    let text = match value {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::String(text) => text,
    };
    let percent: i64 = text.strip_suffix('%').and_then(|p| p.parse().ok()).ok_or(PercentageError)?;
    let hundredths = percent.saturating_mul(i64::from(total));
    let whole = match rounding {
        Rounding::Up => hundredths.saturating_add(99).div_euclid(100),
        Rounding::Down => hundredths.div_euclid(100),
    };
    Ok(i32::try_from(whole).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_down_dep_2() {
        for (text, total, up, down) in
            [("25%", 10, 3, 2), ("25%", 4, 1, 1), ("25%", 1, 1, 0), ("0%", 9, 0, 0), ("100%", 3, 3, 3)]
        {
            let value = IntOrString::String(text.into());
            assert_eq!(scaled(&value, total, Rounding::Up), Ok(up), "{text} of {total}");
            assert_eq!(scaled(&value, total, Rounding::Down), Ok(down), "{text} of {total}");
        }
        assert_eq!(scaled(&IntOrString::Int(7), 10, Rounding::Up), Ok(7));
        for text in ["7", "x%", "%", ""] {
            assert!(scaled(&IntOrString::String(text.into()), 10, Rounding::Up).is_err(), "{text}");
        }
    }
}
