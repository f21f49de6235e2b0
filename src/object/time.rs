//! Durations and ages in the form for users.

use std::time::Duration;

use base::go_duration::nanoseconds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The text for an unknown age.
pub const UNKNOWN: &str = "<unknown>";

/// Formats a duration in kubectl's short form: `12s`, `2m30s`, `3h4m`, `5d2h`, `2y11d`.
///
/// The text is more precise the shorter the duration is, and never has more than two units.
pub fn human_duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".into();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => two(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

/// Returns the time since `then`.
pub fn human_age(then: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(then).as_secs())
}

/// Returns the time since `then`, or [`UNKNOWN`].
pub fn human_age_of(then: Option<&Time>, now: Timestamp) -> String {
    then.map_or_else(|| UNKNOWN.into(), |then| human_age(then.0, now))
}

/// Formats a duration as in Kubernetes' messages and fields: `500ms`, `10s`, `1m20s`, `5m0s`, `2.5s`.
pub fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 {
        return if millis == 0 { "0s".into() } else { format!("{millis}ms") };
    }
    let fraction = format!(".{millis:03}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}{fraction}s"),
        (0, _) => format!("{minutes}m{rest}{fraction}s"),
        _ => format!("{hours}h{minutes}m{rest}{fraction}s"),
    }
}

/// The longest duration accepted: a hundred years.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// Parses a duration in the form of [`go_duration`] or as users write it: numbers with `h`, `m`, `s`, `ms`, `us` or `ns`,
/// one after the other. `None` for anything else, for a sign, and for more than a hundred years.
pub fn read_go_duration(text: &str) -> Option<Duration> {
    let nanoseconds = nanoseconds(text).filter(|_| !text.starts_with(['+', '-']))?;
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos).filter(|duration| *duration <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_kubectl_con_4() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 240, "3h4m"),
            (8 * HOUR + 59, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (5 * DAY + 2 * HOUR, "5d2h"),
            (8 * DAY + HOUR, "8d"),
            (729 * DAY, "729d"),
            (2 * 365 * DAY + 11 * DAY, "2y11d"),
            (9 * 365 * DAY, "9y"),
        ];
        for (seconds, expect) in cases {
            assert_eq!(human_duration(seconds), expect, "{seconds}");
        }
        assert_eq!(human_age_of(None, Timestamp::UNIX_EPOCH), "<unknown>");
    }

    #[test]
    fn durations_read_as_in_kubernetes() {
        for (millis, expect) in [
            (0, "0s"),
            (250, "250ms"),
            (10_000, "10s"),
            (2500, "2.5s"),
            (80_000, "1m20s"),
            (300_000, "5m0s"),
            (7_264_030, "2h1m4.03s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), expect);
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them_fault_1() {
        for (text, millis) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("250ms", Some(250)),
            ("2h0m1s", Some(7_201_000)),
            ("", None),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("+1s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("1s ", None),
            ("99999999999999999999h", None),
            ("1000000h", None),
        ] {
            assert_eq!(read_go_duration(text), millis.map(Duration::from_millis), "{text:?}");
        }
    }
}
