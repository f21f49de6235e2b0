//! Durations in Go's format.

use base::go_duration::nanoseconds;
use jiff::SignedDuration;

/// Returns true if Go can represent the duration: its nanoseconds are 64 bits.
pub(super) fn is_within_bounds(duration: SignedDuration) -> bool {
    i64::try_from(duration.as_nanos()).is_ok()
}

/// Parses Go's format of a duration: `1h30m`, `-1.5s`, `300ms`.
pub(super) fn duration(text: &str) -> Option<SignedDuration> {
    nanoseconds(text).map(SignedDuration::from_nanos)
}
