//! The shares of a limit or request from which CPU and memory usage are highlighted: from the user's `console.toml`, or
//! else k9s' defaults.

/// A measured resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// CPU, in thousandths.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

/// The shares in percent. Invariant: `warning` is less than `critical`, and both are in [`Threshold::RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The share from which usage counts as near the limit.
    pub warning: i64,
    /// The share from which usage counts as at the limit.
    pub critical: i64,
}

impl Threshold {
    /// The valid range in percent: usage may exceed a request many times.
    const RANGE: std::ops::RangeInclusive<i64> = 1..=1000;

    /// Creates a threshold from these shares.
    ///
    /// # Errors
    /// A share is out of range, or they are not in ascending order.
    pub fn new(warning: i64, critical: i64) -> Result<Self, String> {
        for (name, percent) in [("warning", warning), ("critical", critical)] {
            if !Self::RANGE.contains(&percent) {
                return Err(format!("{name} is a percentage from 1 to 1000, not {percent}"));
            }
        }
        if warning >= critical {
            return Err(format!("warning ({warning}) must be less than critical ({critical})"));
        }
        Ok(Self { warning, critical })
    }
}

impl Default for Threshold {
    fn default() -> Self {
        Self { warning: 70, critical: 90 }
    }
}

/// The thresholds of both resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// The CPU threshold.
    pub cpu: Threshold,
    /// The memory threshold.
    pub memory: Threshold,
}

/// The level of usage relative to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThresholdLevel {
    /// There is no limit, or it is far.
    Far,
    /// The warning threshold is reached.
    Near,
    /// The critical threshold is reached.
    At,
}

impl ThresholdLevel {
    /// Returns a mark that shows the level without colour.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Far => "",
            Self::Near => "▴",
            Self::At => "▲",
        }
    }

    /// Returns an amount with the level's mark, or with words in linear mode.
    pub fn marked(self, amount: &str, spoken: bool) -> String {
        match self {
            Self::Near if spoken => format!("{amount} near the limit"),
            Self::At if spoken => format!("{amount} at the limit"),
            _ => format!("{}{amount}", self.mark()),
        }
    }
}

/// A usage share as a row stores it; the thresholds turn it into a level when it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// This level, regardless of thresholds.
    Fixed(ThresholdLevel),
    /// A share.
    Share {
        /// The resource.
        resource: Resource,
        /// The share in percent.
        percent: i32,
        /// The maximum level.
        max_level: ThresholdLevel,
    },
}

impl Load {
    /// Returns the load for usage with an optional limit and request. Usage beyond a request without a limit gives at
    /// most a warning: nothing is killed for it, but the pod is the first to be evicted.
    pub fn of(resource: Resource, used: i64, limit: Option<i64>, request: Option<i64>) -> Self {
        let share = |of: Option<i64>, most| {
            percent(used, of).map(|percent| Self::Share { resource, percent, max_level: most })
        };
        let load = share(limit, ThresholdLevel::At).or_else(|| share(request, ThresholdLevel::Near));
        load.unwrap_or(Self::Fixed(ThresholdLevel::Far))
    }
}

impl Thresholds {
    /// Returns the level of a load.
    pub fn level(self, load: Load) -> ThresholdLevel {
        let (resource, percent, most) = match load {
            Load::Fixed(nearness) => return nearness,
            Load::Share { resource, percent, max_level: most } => (resource, percent, most),
        };
        let threshold = match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        };
        let nearness = if i64::from(percent) >= threshold.critical {
            ThresholdLevel::At
        } else if i64::from(percent) >= threshold.warning {
            ThresholdLevel::Near
        } else {
            ThresholdLevel::Far
        };
        nearness.min(most)
    }
}

/// Returns the usage in whole percent, rounded down; `None` if there is no capacity.
pub fn percent(used: i64, of: Option<i64>) -> Option<i32> {
    let of = of.filter(|of| *of > 0)?;
    let percent = i128::from(used.max(0)) * 100 / i128::from(of);
    Some(i32::try_from(percent).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_near_a_limit_or_over_a_request_is_marked_con_16() {
        let strict = Threshold::new(50, 60).unwrap();
        let thresholds = Thresholds { memory: strict, ..Thresholds::default() };
        let cpu = |used, limit, request| thresholds.level(Load::of(Resource::Cpu, used, limit, request));
        for (used, limit, request, nearness) in [
            (69, Some(100), None, ThresholdLevel::Far),
            (70, Some(100), None, ThresholdLevel::Near),
            (90, Some(100), None, ThresholdLevel::At),
            (400, Some(100), None, ThresholdLevel::At),
            // The limit takes precedence over the request.
            (400, Some(1000), Some(100), ThresholdLevel::Far),
            // Without a limit, usage may reach the request without harm.
            (69, None, Some(100), ThresholdLevel::Far),
            (400, None, Some(100), ThresholdLevel::Near),
            (400, None, None, ThresholdLevel::Far),
            (400, Some(0), Some(0), ThresholdLevel::Far),
            (i64::MAX, Some(1), None, ThresholdLevel::At),
            (-5, Some(1), None, ThresholdLevel::Far),
        ] {
            assert_eq!(cpu(used, limit, request), nearness, "{used} of {limit:?} and {request:?}");
        }
        let memory = |used| thresholds.level(Load::of(Resource::Memory, used, Some(100), None));
        assert_eq!(
            (memory(49), memory(50), memory(60)),
            (ThresholdLevel::Far, ThresholdLevel::Near, ThresholdLevel::At)
        );
    }

    #[test]
    fn thresholds_are_percentages_in_order_con_16() {
        for (warning, critical, what) in [
            (0, 90, "warning is a percentage from 1 to 1000, not 0"),
            (70, 1001, "critical is a percentage from 1 to 1000, not 1001"),
            (90, 90, "warning (90) must be less than critical (90)"),
        ] {
            assert_eq!(Threshold::new(warning, critical), Err(what.to_owned()));
        }
    }
}
