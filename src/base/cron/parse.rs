//! Parses a schedule, with the error messages of `robfig/cron`.

use std::time::Duration;

use super::error::CronError;
use super::field::{DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS, all, field};
use super::{CronSchedule, CronTimes, Fields};
use crate::go_duration::nanoseconds;
use crate::time_zone::time_zone;

impl CronSchedule {
    /// Parses `minute hour day month weekday`, `@hourly` and the like, or `@every 1h30m`, with an optional `TZ=` or
    /// `CRON_TZ=` time zone in front.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        if text.is_empty() {
            return Err(CronError("empty spec string".into()));
        }
        let (zone, text) = if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            let (zone, rest) = text.split_once(' ').unwrap_or((text, ""));
            let name = zone.split_once('=').map_or("", |(_, name)| name);
            let zone = time_zone(name)
                .map_err(|error| CronError(format!("provided bad location {name}: {error}")))?;
            (Some(zone), rest.trim())
        } else {
            (None, text)
        };
        let times =
            if text.starts_with('@') { descriptor(text)? } else { CronTimes::Fields(five_fields(text)?) };
        Ok(Self { times, zone })
    }
}

fn five_fields(text: &str) -> Result<Fields, CronError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else {
        let (count, list) = (fields.len(), fields.join(" "));
        return Err(CronError(format!("expected exactly 5 fields, found {count}: [{list}]")));
    };
    Ok(Fields {
        minutes: field(minutes, &MINUTES)?,
        hours: field(hours, &HOURS)?,
        days: field(days, &DAYS)?,
        months: field(months, &MONTHS)?,
        weekdays: field(weekdays, &WEEKDAYS)?,
    })
}

fn descriptor(text: &str) -> Result<CronTimes, CronError> {
    let hourly = Fields {
        minutes: 1,
        hours: all(&HOURS),
        days: all(&DAYS),
        months: all(&MONTHS),
        weekdays: all(&WEEKDAYS),
    };
    let daily = Fields { hours: 1, ..hourly };
    let fields = match text {
        "@hourly" => hourly,
        "@daily" | "@midnight" => daily,
        "@weekly" => Fields { weekdays: 1, ..daily },
        "@monthly" => Fields { days: 1 << 1, ..daily },
        "@yearly" | "@annually" => Fields { days: 1 << 1, months: 1 << 1, ..daily },
        _ => return every(text),
    };
    Ok(CronTimes::Fields(fields))
}

fn every(text: &str) -> Result<CronTimes, CronError> {
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(CronError(format!("unrecognized descriptor: {text}")));
    };
    let Some(nanoseconds) = nanoseconds(duration) else {
        return Err(CronError(format!(
            "failed to parse duration {text}: time: invalid duration {duration:?}"
        )));
    };
    // The interval is at least one second, and a whole number of seconds.
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).unwrap_or(0).max(1);
    Ok(CronTimes::Every(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_errors_read_as_in_kubernetes_cj_1() {
        for (text, expected) in [
            ("", "empty spec string"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("0 0 0 * * *", "expected exactly 5 fields, found 6: [0 0 0 * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* 24 * * *", "end of range (24) above maximum (23): 24"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * 13 *", "end of range (13) above maximum (12): 13"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("30-10 * * * *", "beginning of range (30) beyond end of range (10): 30-10"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("-5 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
            ("@fortnightly", "unrecognized descriptor: @fortnightly"),
            ("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\""),
            (
                "TZ=Nowhere/City 0 0 * * *",
                "provided bad location Nowhere/City: unknown time zone Nowhere/City",
            ),
        ] {
            assert_eq!(CronSchedule::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn one_time_can_be_written_in_several_ways_cj_1() {
        for (one, other) in [
            ("0 * * * *", "@hourly"),
            ("0 0 * * *", "@daily"),
            ("0 0 * * *", "@midnight"),
            ("0 0 * * 0", "@weekly"),
            ("0 0 1 * *", "@monthly"),
            ("0 0 1 1 *", "@yearly"),
            ("0 0 1 1 *", "@annually"),
            ("0 0 ? JAN-mar Mon,WED", "0 0 * 1-3 1,3"),
            ("5/15 * * * *", "5,20,35,50 * * * *"),
            ("*/15 * * * *", "0,15,30,45 * * * *"),
            ("0-30/10,59 * * * *", "0,10,20,30,59 * * * *"),
            ("0  0\t* * *", "@daily"),
            ("@every 1m30s", "@every 90s"),
            ("@every 10ms", "@every 1s"),
            ("@every -5s", "@every 1s"),
        ] {
            assert_eq!(CronSchedule::parse(one), CronSchedule::parse(other), "{one} {other}");
            assert!(CronSchedule::parse(one).is_ok());
        }
    }
}
