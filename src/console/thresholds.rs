//! From which share of a limit, or of what was asked for, CPU and memory are said to be used up: what the user's
//! `console.toml` has, or else what k9s has.

/// What is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// CPU, in thousandths.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

/// From which shares, in percent. Invariant: `warning` is less than `critical`, and both are of [`Threshold::RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// It is near.
    pub(crate) warning: i64,
    /// It is all but used up.
    pub(crate) critical: i64,
}

impl Threshold {
    /// What a threshold may be, in percent: what was asked for may be used many times over.
    const RANGE: std::ops::RangeInclusive<i64> = 1..=1000;

    /// Of these shares; why they are none.
    ///
    /// # Errors
    /// One is no percentage, or they are not in order.
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

/// The thresholds of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// Of CPU.
    pub cpu: Threshold,
    /// Of memory.
    pub memory: Threshold,
}

/// How near to being used up something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Nearness {
    /// There is nothing to be near to, or it is far.
    Far,
    /// The warning threshold is reached.
    Near,
    /// The critical one is.
    At,
}

impl Nearness {
    /// A mark that says it without colour.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Far => "",
            Self::Near => "▴",
            Self::At => "▲",
        }
    }

    /// An amount with that mark; in words behind it where it is read aloud.
    pub(crate) fn marked(self, amount: &str, spoken: bool) -> String {
        match self {
            Self::Near if spoken => format!("{amount} near the limit"),
            Self::At if spoken => format!("{amount} at the limit"),
            _ => format!("{}{amount}", self.mark()),
        }
    }
}

/// A share that is used, as a row keeps it: how near that is, the thresholds say when it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// This near, whatever the thresholds are.
    Fixed(Nearness),
    /// So much, in percent.
    Share {
        /// Of what.
        resource: Resource,
        /// How much of it.
        percent: i32,
        /// It is never nearer than this.
        most: Nearness,
    },
}

impl Load {
    /// Of something that has a limit, or asks for something, or neither. Who has no limit and uses what was asked for
    /// is warned of and no more: nothing ends there, but it is the first to give way.
    pub(crate) fn of(resource: Resource, used: i64, limit: Option<i64>, request: Option<i64>) -> Self {
        let share =
            |of: Option<i64>, most| percent(used, of).map(|percent| Self::Share { resource, percent, most });
        let load = share(limit, Nearness::At).or_else(|| share(request, Nearness::Near));
        load.unwrap_or(Self::Fixed(Nearness::Far))
    }
}

impl Thresholds {
    /// How near a share is.
    pub(crate) fn nearness(self, load: Load) -> Nearness {
        let (resource, percent, most) = match load {
            Load::Fixed(nearness) => return nearness,
            Load::Share { resource, percent, most } => (resource, percent, most),
        };
        let threshold = match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        };
        let nearness = if i64::from(percent) >= threshold.critical {
            Nearness::At
        } else if i64::from(percent) >= threshold.warning {
            Nearness::Near
        } else {
            Nearness::Far
        };
        nearness.min(most)
    }
}

/// How much of something is used, in whole percent that are full; none where there is nothing of it.
pub(crate) fn percent(used: i64, of: Option<i64>) -> Option<i32> {
    let of = of.filter(|of| *of > 0)?;
    let percent = i128::from(used.max(0)) * 100 / i128::from(of);
    Some(i32::try_from(percent).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_its_limit_or_over_its_request_is_marked_con_16() {
        let strict = Threshold::new(50, 60).unwrap();
        let thresholds = Thresholds { memory: strict, ..Thresholds::default() };
        let cpu = |used, limit, request| thresholds.nearness(Load::of(Resource::Cpu, used, limit, request));
        for (used, limit, request, nearness) in [
            (69, Some(100), None, Nearness::Far),
            (70, Some(100), None, Nearness::Near),
            (90, Some(100), None, Nearness::At),
            (400, Some(100), None, Nearness::At),
            // A limit says more than a request.
            (400, Some(1000), Some(100), Nearness::Far),
            // Without one, what was asked for may be used up without harm.
            (69, None, Some(100), Nearness::Far),
            (400, None, Some(100), Nearness::Near),
            (400, None, None, Nearness::Far),
            (400, Some(0), Some(0), Nearness::Far),
            (i64::MAX, Some(1), None, Nearness::At),
            (-5, Some(1), None, Nearness::Far),
        ] {
            assert_eq!(cpu(used, limit, request), nearness, "{used} of {limit:?} and {request:?}");
        }
        let memory = |used| thresholds.nearness(Load::of(Resource::Memory, used, Some(100), None));
        assert_eq!((memory(49), memory(50), memory(60)), (Nearness::Far, Nearness::Near, Nearness::At));
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
