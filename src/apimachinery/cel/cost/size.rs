//! Bounds of sizes, and costs per size.

/// The cost of traversing one letter of a string: cel-go's `StringTraversalCostFactor`.
pub(super) const PER_LETTER: f64 = 0.1;
/// The cost of one letter of a regular expression per unit of text: cel-go's `RegexStringLengthCostFactor`.
pub(super) const PER_PATTERN_LETTER: f64 = 0.25;

/// The fewest and the most letters, bytes, items or entries that a value may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    /// No bounds are known.
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) const fn exactly(count: u64) -> Self {
        Self { min: count, max: count }
    }

    pub(super) const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Bounds that cover both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Returns the maximum cost at this cost per unit.
    pub(super) fn cost(self, per_unit: f64) -> u64 {
        scaled(self.max, per_unit)
    }
}

/// Returns a multiple of a count, rounded up and saturating.
pub(super) fn scaled(count: u64, factor: f64) -> u64 {
    (count as f64 * factor).ceil() as u64
}
