//! One field of a schedule: lists of ranges with steps, as bits.

use super::error::CronError;

/// Set if a field was left open by `*` or `?`.
pub(super) const STAR: u64 = 1 << 63;

/// The range of a field's numbers.
pub(super) struct Bounds {
    pub(super) min: u32,
    pub(super) max: u32,
    /// Names for the numbers, from `first_name` on.
    names: &'static [&'static str],
    first_name: u32,
}

pub(super) const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[], first_name: 0 };
pub(super) const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[], first_name: 0 };
pub(super) const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[], first_name: 0 };
pub(super) const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    first_name: 1,
};
pub(super) const WEEKDAYS: Bounds =
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"], first_name: 0 };

/// Returns all numbers within the bounds, marked as left open.
pub(super) fn all(bounds: &Bounds) -> u64 {
    bits(bounds.min, bounds.max, 1) | STAR
}

/// Parses a whole field: ranges between commas.
pub(super) fn field(text: &str, bounds: &Bounds) -> Result<u64, CronError> {
    let ranges = text.split(',').filter(|range| !range.is_empty());
    ranges.map(|range| self::range(range, bounds)).try_fold(0, |set, range| Ok(set | range?))
}

/// Parses `number`, `number-number`, `*` or `?`, each with or without `/step`.
fn range(text: &str, bounds: &Bounds) -> Result<u64, CronError> {
    let range_and_step: Vec<&str> = text.split('/').collect();
    let low_and_high: Vec<&str> = range_and_step[0].split('-').collect();
    let mut star = 0;
    let (start, mut end) = match low_and_high.as_slice() {
        ["*" | "?", ..] => {
            star = STAR;
            (bounds.min, bounds.max)
        }
        [only] => {
            let only = number_or_name(only, bounds)?;
            (only, only)
        }
        [low, high] => (number_or_name(low, bounds)?, number_or_name(high, bounds)?),
        [low, ..] => {
            number_or_name(low, bounds)?;
            return Err(CronError(format!("too many hyphens: {text}")));
        }
        [] => (bounds.min, bounds.max),
    };
    let step = match range_and_step.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // `5/15` means `5-max/15`.
            if low_and_high.len() == 1 {
                end = bounds.max;
            }
            // A star with a step does not leave the field open.
            if step > 1 {
                star = 0;
            }
            step
        }
        _ => return Err(CronError(format!("too many slashes: {text}"))),
    };
    let wrong = if start < bounds.min {
        format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min)
    } else if end > bounds.max {
        format!("end of range ({end}) above maximum ({}): {text}", bounds.max)
    } else if start > end {
        format!("beginning of range ({start}) beyond end of range ({end}): {text}")
    } else if step == 0 {
        format!("step of range should be a positive number: {text}")
    } else {
        return Ok(bits(start, end, step) | star);
    };
    Err(CronError(wrong))
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u32, CronError> {
    let lower = text.to_lowercase();
    match (bounds.first_name..).zip(bounds.names).find(|(_, name)| **name == lower) {
        Some((named, _)) => Ok(named),
        None => number(text),
    }
}

/// Parses a number that is not negative; one too large for the type only has to exceed every bound.
fn number(text: &str) -> Result<u32, CronError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fault = |reason: &str| {
        CronError(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {reason}"))
    };
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return Err(fault("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| fault("value out of range"))?;
    if number < 0 {
        return Err(CronError(format!("negative number ({number}) not allowed: {text}")));
    }
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn bits(first: u32, last: u32, step: u32) -> u64 {
    (first..=last).step_by(step as usize).fold(0, |set, bit| set | 1 << bit)
}
