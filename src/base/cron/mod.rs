//! Schedules in the five fields of cron, as `robfig/cron` (which Kubernetes uses) reads them.
//!
//! Of the crates for this none agrees with it on what a step over a star means for the two kinds of days, on
//! what happens to times that a clock change skips or repeats, or on the words of its errors; so it is here,
//! in tables. [`parse`](CronSchedule::parse) reads, [`next_after`](CronSchedule::next_after) counts. Both are
//! pure: nothing here reads a clock.

mod duration;
mod error;
mod field;
mod next;
mod parse;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// When something is to be done again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct CronSchedule {
    times: Times,
    /// What `TZ=` in front of the schedule says.
    zone: Option<TimeZone>,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    /// At wall clock times.
    Fields(Fields),
    /// So long after the last time, in whole seconds.
    Every(Duration),
}

/// The fields as sets of bits: bit 5 of `minutes` is the fifth minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
}

impl CronSchedule {
    /// The first time after `after`. The wall clock is that of the schedule's own zone, or else of `local`.
    ///
    /// Nothing, when there is none within five years: the 31st of February.
    pub fn next_after(&self, after: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        match &self.times {
            Times::Every(every) => next::after_delay(after, *every),
            Times::Fields(fields) => next::in_zone(fields, after, self.zone.as_ref().unwrap_or(local)),
        }
    }
}
