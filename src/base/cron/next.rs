//! Computes the next time of a schedule.
//!
//! A time skipped by a clock change is not made up for: the schedule continues with the next existing time that
//! matches. A time that occurs twice counts twice if the schedule runs every hour. If a wall-clock time is not
//! unique, the same instant is chosen as by Go's `time.Date`; otherwise schedules would differ from a real cluster's
//! by an hour twice a year.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::Fields;
use super::field::STAR;

/// Schedules without a time within this many years have none.
const YEARS: i16 = 5;

/// Returns the next whole second that lies `delay` after `after`.
pub(super) fn after_delay(after: Timestamp, delay: Duration) -> Option<Timestamp> {
    whole_seconds(after)?.checked_add(SignedDuration::try_from(delay).ok()?).ok()
}

fn whole_seconds(at: Timestamp) -> Option<Timestamp> {
    let nanoseconds = at.as_nanosecond().rem_euclid(1_000_000_000);
    at.checked_sub(SignedDuration::from_nanos(i64::try_from(nanoseconds).ok()?)).ok()
}

/// Returns the first time after `after` that the fields allow on the zone's wall clock.
pub(super) fn in_zone(fields: &Fields, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let wall = ZoneClock { zone };
    let mut at = after_delay(after, Duration::from_secs(1))?;
    let last_year = wall.read(at).year() + YEARS;
    // Once a larger field has been moved, the smaller ones start from their lowest value.
    let mut moved = false;
    'again: loop {
        if wall.read(at).year() > last_year {
            return None;
        }
        while !has(fields.months, wall.read(at).month()) {
            let date = wall.read(at).date().first_of_month();
            if !moved {
                moved = true;
                at = wall.instant(date.to_datetime(Time::midnight()))?;
            }
            at = wall.instant(wall.read(at).checked_add(1.month()).ok()?)?;
            if wall.read(at).month() == 1 {
                continue 'again;
            }
        }
        while !day_matches(fields, wall.read(at).date()) {
            if !moved {
                moved = true;
                at = wall.instant(wall.read(at).date().to_datetime(Time::midnight()))?;
            }
            at = wall.instant(wall.read(at).checked_add(1.day()).ok()?)?;
            // If midnight is skipped, the day starts at the nearest existing time.
            at = match i64::from(wall.read(at).hour()) {
                0 => at,
                hour @ 13.. => at.checked_add((24 - hour).hours()).ok()?,
                hour => at.checked_sub(hour.hours()).ok()?,
            };
            if wall.read(at).day() == 1 {
                continue 'again;
            }
        }
        while !has(fields.hours, wall.read(at).hour()) {
            if !moved {
                moved = true;
                let now = wall.read(at);
                at = wall.instant(now.date().at(now.hour(), 0, 0, 0))?;
            }
            at = at.checked_add(1.hour()).ok()?;
            if wall.read(at).hour() == 0 {
                continue 'again;
            }
        }
        while !has(fields.minutes, wall.read(at).minute()) {
            if !moved {
                moved = true;
                at = whole_minutes(at)?;
            }
            at = at.checked_add(1.minute()).ok()?;
            if wall.read(at).minute() == 0 {
                continue 'again;
            }
        }
        let second = wall.read(at).second();
        if second == 0 {
            return Some(at);
        }
        moved = true;
        at = at.checked_add(i64::from(60 - second).seconds()).ok()?;
    }
}

fn has(set: u64, number: i8) -> bool {
    set & (1 << number) != 0
}

fn whole_minutes(at: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(at.as_second().div_euclid(60) * 60).ok()
}

/// Returns true if the day matches. Both kinds of days must match; if both are restricted, one is enough.
fn day_matches(fields: &Fields, date: Date) -> bool {
    let day = has(fields.days, date.day());
    let weekday = has(fields.weekdays, date.weekday().to_sunday_zero_offset());
    if (fields.days | fields.weekdays) & STAR != 0 { day && weekday } else { day || weekday }
}

/// A zone's wall clock.
struct ZoneClock<'a> {
    zone: &'a TimeZone,
}

impl ZoneClock<'_> {
    fn read(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(at)
    }

    /// Returns the instant at which the wall clock has this reading. A skipped or repeated reading gets the offset
    /// that Go looks up first: the offset at the same reading in UTC, and then at the instant this results in.
    fn instant(&self, reading: DateTime) -> Option<Timestamp> {
        let near = Offset::UTC.to_timestamp(reading).ok()?;
        let first = self.zone.to_offset(near).to_timestamp(reading).ok()?;
        self.zone.to_offset(first).to_timestamp(reading).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron::CronSchedule;
    use crate::time_zone::time_zone;

    /// Returns the next times of a schedule on the wall clock of a zone, with the offset.
    fn times(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = CronSchedule::parse(schedule).unwrap();
        let zone = time_zone(zone).unwrap();
        let mut at: Timestamp = after.parse().unwrap();
        let mut times = Vec::new();
        for _ in 0..count {
            let Some(next) = schedule.next_after(at, &zone) else {
                times.push("never".into());
                break;
            };
            times.push(next.to_zoned(zone.clone()).strftime("%m-%dT%H:%M:%S%:z").to_string());
            at = next;
        }
        times
    }

    fn check(cases: &[(&str, &str, &str, &[&str])]) {
        for (schedule, zone, after, expected) in cases {
            assert_eq!(times(schedule, zone, after, expected.len()), *expected, "{schedule} {zone} {after}");
        }
    }

    #[test]
    fn the_next_time_is_strictly_later_cj_1() {
        let year = |month_day: &str| format!("2026-{month_day}Z");
        for (schedule, after, expected) in [
            ("* * * * *", year("11-21T00:00:00"), "11-21T00:01:00+00:00"),
            ("* * * * *", year("11-21T00:00:00.5"), "11-21T00:01:00+00:00"),
            ("*/15 * * * *", year("11-21T14:59:59"), "11-21T15:00:00+00:00"),
            ("20-35/15 * * * *", year("11-21T14:45:00"), "11-21T15:20:00+00:00"),
            ("0 0 1 * *", year("11-21T00:00:00"), "12-01T00:00:00+00:00"),
            ("0 0 29 2 *", year("11-21T00:00:00"), "02-29T00:00:00+00:00"),
            ("0 9 * * 1-5", year("11-21T00:00:00"), "11-23T09:00:00+00:00"),
            ("0 0 31 2 *", year("11-21T00:00:00"), "never"),
            (", * * * *", year("11-21T00:00:00"), "never"),
            ("@every 1h30m", year("11-21T00:00:00.25"), "11-21T01:30:00+00:00"),
            // If both kinds of days are restricted, either is enough. If one is open, only the other counts.
            ("0 0 1 * 1", year("11-21T00:00:00"), "11-23T00:00:00+00:00"),
            ("0 0 1 * *", year("11-23T00:00:00"), "12-01T00:00:00+00:00"),
            // A star with a step is no longer open.
            ("0 0 */10 * 0", year("11-22T00:00:00"), "11-29T00:00:00+00:00"),
            ("0 0 */10 * 0", year("11-29T00:00:00"), "12-01T00:00:00+00:00"),
        ] {
            assert_eq!(times(schedule, "UTC", &after, 1), [expected], "{schedule} after {after}");
        }
    }

    #[test]
    fn a_schedule_follows_its_own_zone_cj_1() {
        let after = "2026-01-01T00:00:00Z".parse().unwrap();
        let schedule = CronSchedule::parse("TZ=Asia/Kolkata 0 9 * * *").unwrap();
        let next = schedule.next_after(after, &TimeZone::UTC).unwrap();
        assert_eq!(next.to_string(), "2026-01-01T03:30:00Z");
        check(&[
            ("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", &["01-01T09:00:00+05:30"]),
            ("0 0 * * *", "Pacific/Auckland", "2026-01-01T00:00:00Z", &["01-02T00:00:00+13:00"]),
        ]);
    }

    #[test]
    fn a_clock_that_jumps_ahead_skips_what_was_in_between_cj_1() {
        check(&[
            // New York, 8 March: 02:00 becomes 03:00.
            ("30 2 * * *", "America/New_York", "2026-03-08T05:00:00Z", &["03-09T02:30:00-04:00"]),
            (
                "0 * * * *",
                "America/New_York",
                "2026-03-08T05:30:00Z",
                &["03-08T01:00:00-05:00", "03-08T03:00:00-04:00"],
            ),
            ("0 3 * * *", "America/New_York", "2026-03-08T05:00:00Z", &["03-08T03:00:00-04:00"]),
            // Berlin, 29 March: 02:00 becomes 03:00.
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["03-30T02:30:00+02:00"]),
            (
                "*/30 * * * *",
                "Europe/Berlin",
                "2026-03-29T00:20:00Z",
                &["03-29T01:30:00+01:00", "03-29T03:00:00+02:00", "03-29T03:30:00+02:00"],
            ),
            // São Paulo, 4 November 2018: midnight becomes 01:00.
            ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", &["11-05T00:00:00-02:00"]),
            ("0 1 4 * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", &["11-04T01:00:00-02:00"]),
        ]);
    }

    #[test]
    fn a_clock_that_falls_back_runs_each_scheduled_hour_again_cj_1() {
        check(&[
            // New York, 1 November: 02:00 becomes 01:00.
            (
                "0 * * * *",
                "America/New_York",
                "2026-11-01T04:30:00Z",
                &["11-01T01:00:00-04:00", "11-01T01:00:00-05:00", "11-01T02:00:00-05:00"],
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2026-11-01T04:00:00Z",
                &["11-01T01:30:00-04:00", "11-01T01:30:00-05:00", "11-02T01:30:00-05:00"],
            ),
            ("30 3 * * *", "America/New_York", "2026-11-01T04:00:00Z", &["11-01T03:30:00-05:00"]),
            // Berlin, 25 October: 03:00 becomes 02:00.
            ("30 3 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", &["10-25T03:30:00+01:00"]),
        ]);
    }
}
