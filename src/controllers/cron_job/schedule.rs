//! The due time of a CronJob, and the number of missed ones.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;

use base::clock::until;
use base::cron::CronSchedule;

/// More missed times than this indicate a problem and cause a warning.
const MANY: i64 = 100;

/// The delay of a sync after its scheduled time, so that it never starts early.
const DELTA: Duration = Duration::from_millis(100);

/// The schedule has no times, such as the 31st of February.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct UnsatisfiableSchedule;

/// The state of a CronJob's schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScheduleState {
    /// Scheduled times count from this time on: the last scheduled time, the CronJob's creation or the start of the
    /// window.
    since: Timestamp,
    /// The latest scheduled time between `since` and now.
    latest: Option<Timestamp>,
    /// The approximate number of scheduled times between `since` and now; 0 if only `latest` is between them.
    missed: i64,
}

/// A time for which a Job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueRun {
    pub(super) at: Timestamp,
    /// More times were missed than a stopped controller would explain.
    pub(super) too_many_missed: bool,
}

/// A CronJob's schedule in its time zone.
pub(super) struct ScheduleTimes<'a> {
    pub(super) cron_job: &'a CronJob,
    pub(super) schedule: &'a CronSchedule,
    pub(super) zone: &'a TimeZone,
}

impl ScheduleTimes<'_> {
    fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.schedule.next_after(at, self.zone)
    }

    /// Returns the latest scheduled time without a Job within the window of `startingDeadlineSeconds`.
    pub(super) fn due(&self, now: Timestamp) -> Result<Option<DueRun>, UnsatisfiableSchedule> {
        let window = self.cron_job.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        let standing = self.schedule_state(now, window.and_then(|window| now.checked_sub(window).ok()))?;
        Ok(standing.latest.map(|at| DueRun { at, too_many_missed: standing.missed > MANY }))
    }

    /// Returns the time until the next scheduled time; `None` if there is none.
    pub(super) fn until_next(&self, now: Timestamp) -> Option<Duration> {
        let from = match self.schedule_state(now, None) {
            Ok(ScheduleState { latest, since, .. }) => latest.unwrap_or(since),
            Err(UnsatisfiableSchedule) => now,
        };
        let next = self.next_after(from)?;
        Some(until(now, next) + DELTA)
    }

    /// Computes the state from the last scheduled time, but from no earlier than `not_before`.
    fn schedule_state(
        &self,
        now: Timestamp,
        not_before: Option<Timestamp>,
    ) -> Result<ScheduleState, UnsatisfiableSchedule> {
        let last = self.cron_job.status.as_ref().and_then(|s| s.last_schedule_time.as_ref());
        let start = last.or(self.cron_job.metadata.creation_timestamp.as_ref()).map_or(now, |t| t.0);
        let since = not_before.map_or(start, |at| start.max(at));
        let first = self.next_after(since).ok_or(UnsatisfiableSchedule)?;
        if now < first {
            return Ok(ScheduleState { since, latest: None, missed: 0 });
        }
        let second = self.next_after(first);
        if second.is_some_and(|second| now < second) {
            return Ok(ScheduleState { since, latest: Some(first), missed: 0 });
        }
        let between = second.ok_or(UnsatisfiableSchedule)?.duration_since(first).as_secs();
        if between < 1 {
            return Err(UnsatisfiableSchedule);
        }
        // Step through the times one by one near the end. Unevenly spaced ones may have none there.
        let missed = now.duration_since(first).as_secs() / between + 1;
        let near = SignedDuration::from_secs((missed - 2) * between);
        let mut latest = None;
        let mut at = first.checked_add(near).ok().and_then(|near| self.next_after(near));
        for _ in 0..MANY {
            let Some(time) = at.filter(|time| *time <= now) else {
                let latest = latest.or_else(|| self.latest_after(first, now));
                return Ok(ScheduleState { since, latest, missed });
            };
            latest = Some(time);
            at = self.next_after(time);
        }
        Ok(ScheduleState { since, latest: latest.and_then(|from| self.latest_after(from, now)), missed })
    }

    /// Returns the latest scheduled time after `from` and up to now; `from` itself if there is none.
    ///
    /// Bisects, because `* * * 12 *` has tens of thousands of times in a month, and then none for eleven.
    fn latest_after(&self, from: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let has_time_after = |second: i64| {
            let next = Timestamp::from_second(second).ok().and_then(|at| self.next_after(at));
            next.is_some_and(|next| next <= now)
        };
        let (mut before, mut after) = (from.as_second(), now.as_second());
        if !has_time_after(before) {
            return Some(from);
        }
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if has_time_after(middle) { before = middle } else { after = middle }
        }
        self.next_after(Timestamp::from_second(before).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-{text}Z").parse().unwrap()
    }

    /// Formats `day-time` of the due time, `!` if too many were missed, and the seconds until the next.
    fn text(schedule: &str, created: &str, last: Option<&str>, deadline: Option<i64>, now: &str) -> String {
        let cron_job: CronJob = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": at(created)},
            "spec": {"schedule": schedule, "startingDeadlineSeconds": deadline, "jobTemplate": {}},
            "status": {"lastScheduleTime": last.map(at)}}))
        .unwrap();
        let schedule = CronSchedule::parse(schedule).unwrap();
        let times = ScheduleTimes { cron_job: &cron_job, schedule: &schedule, zone: &TimeZone::UTC };
        let due = match times.due(at(now)) {
            Err(error) => error.to_string(),
            Ok(None) => "nothing".into(),
            Ok(Some(due)) => {
                let sign = if due.too_many_missed { "!" } else { "" };
                format!("{}{sign}", due.at.strftime("%dT%H:%M:%S"))
            }
        };
        let next = times.until_next(at(now)).map_or("never".into(), |d| d.as_secs().to_string());
        format!("{due} then {next}")
    }

    #[test]
    fn the_latest_missed_time_is_due_cj_1() {
        let start = "21T00:00:00";
        for (schedule, last, deadline, now, expected) in [
            ("0 * * * *", None, None, "21T00:59:59", "nothing then 1"),
            ("0 * * * *", None, None, "21T01:00:00", "21T01:00:00 then 3600"),
            ("0 * * * *", None, None, "21T05:30:00", "21T05:00:00 then 1800"),
            ("0 * * * *", Some("21T05:00:00"), None, "21T05:30:00", "nothing then 1800"),
            // Missed for long: a warning, and the latest time nevertheless.
            ("0 * * * *", None, None, "25T03:59:59", "25T03:00:00 then 1"),
            ("0 * * * *", None, None, "25T05:00:00", "25T05:00:00! then 3600"),
            ("* * * * *", None, None, "21T10:19:00", "21T10:19:00! then 60"),
            // The page's example: a window of 200 s contains three of the times from 08:29 to 10:21.
            ("*/1 * * * *", Some("21T08:30:00"), None, "21T10:21:00", "21T10:21:00! then 60"),
            ("*/1 * * * *", Some("21T08:30:00"), Some(200), "21T10:21:00", "21T10:21:00 then 60"),
            // A window without a scheduled time.
            ("0 * * * *", None, Some(600), "21T05:30:00", "nothing then 1800"),
            ("0 * * * *", None, Some(1800), "21T05:30:00", "nothing then 1800"),
            ("0 * * * *", None, Some(1801), "21T05:30:00", "21T05:00:00 then 1800"),
            // Times that are unevenly spaced.
            ("30 6-16/4 * * 1-5", None, None, "24T12:00:00", "24T10:30:00 then 9000"),
            ("0 0 1 * *", None, None, "30T23:00:00", "nothing then 3600"),
            // A day lies between the first two times, and a month after them.
            ("0 0 22,23 * *", None, None, "30T12:00:00", "23T00:00:00 then 1857600"),
            ("@every 1h30m", None, None, "21T05:00:00", "21T04:30:00 then 3600"),
            (
                "0 0 31 2 *",
                None,
                None,
                "22T00:00:00",
                "time difference between two schedules is less than 1 second then never",
            ),
        ] {
            let now_and_last = (schedule, last, deadline, now);
            assert_eq!(text(schedule, start, last, deadline, now), expected, "{now_and_last:?}");
        }
    }

    #[test]
    fn a_hundred_missed_times_are_not_too_many_cj_1() {
        // 00:01 to 01:40 are a hundred times.
        assert_eq!(text("* * * * *", "21T00:00:00", None, None, "21T01:40:30"), "21T01:40:00 then 30");
        assert_eq!(text("* * * * *", "21T00:00:00", None, None, "21T01:41:00"), "21T01:41:00! then 60");
    }

    /// Half a year of minutes was missed; the latest is found without stepping through them.
    #[test]
    fn the_latest_of_very_many_uneven_times_is_found_cj_1() {
        let text = "* * * 7-12 *";
        let cron_job: CronJob = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": "2026-12-31T23:58:00Z"},
            "spec": {"schedule": text, "jobTemplate": {}}}))
        .unwrap();
        let schedule = CronSchedule::parse(text).unwrap();
        let times = ScheduleTimes { cron_job: &cron_job, schedule: &schedule, zone: &TimeZone::UTC };
        for (now, expected) in [
            ("2028-06-01T12:00:00Z", "2027-12-31T23:59:00Z"),
            ("2027-09-01T00:00:30Z", "2027-09-01T00:00:00Z"),
            ("2027-09-01T00:01:00Z", "2027-09-01T00:01:00Z"),
        ] {
            let due = times.due(now.parse().unwrap()).unwrap().unwrap();
            assert_eq!(due.at, expected.parse::<Timestamp>().unwrap(), "{now}");
        }
    }
}
