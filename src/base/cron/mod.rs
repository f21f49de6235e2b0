//! Schedules in the five fields of cron, as parsed by `robfig/cron`, which Kubernetes uses.
//!
//! No crate agrees with it on the meaning of a step over a star for the two kinds of days, on times that a clock
//! change skips or repeats, and on error messages; so it is implemented here, with tables.
//! [`parse`](CronSchedule::parse) reads, [`next_after`](CronSchedule::next_after) computes. Both are pure: nothing
//! here reads a clock.

mod error;
mod field;
mod next;
mod parse;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A recurring schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct CronSchedule {
    times: CronTimes,
    /// The time zone from `TZ=` at the start of the schedule.
    zone: Option<TimeZone>,
}

#[derive(Clone, Debug, PartialEq)]
enum CronTimes {
    /// At the wall-clock times that match the fields.
    Fields(Fields),
    /// At a fixed interval in whole seconds.
    Every(Duration),
}

/// The fields as sets of bits: bit 5 of `minutes` stands for minute 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
}

impl CronSchedule {
    /// Returns the first time after `after`. The wall clock is that of the schedule's own zone, or else of `local`.
    ///
    /// Returns `None` if there is no time within five years, as for the 31st of February.
    pub fn next_after(&self, after: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        match &self.times {
            CronTimes::Every(every) => next::after_delay(after, *every),
            CronTimes::Fields(fields) => next::in_zone(fields, after, self.zone.as_ref().unwrap_or(local)),
        }
    }
}
