//! Points in the past: their names, input and display; and the steps between them (CON-12, CON-19).

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::context::Context;
use console_toolkit::command::{Command, Entry, KeyContext};
use console_toolkit::text::grouped;

/// The length of the longer steps.
const STEP: SignedDuration = SignedDuration::from_secs(10);

/// The description of the first state that the server retains.
const EARLIEST: &str = "the earliest known state";

/// The oldest time that can be entered; no server retains a history that long.
const FURTHEST: SignedDuration = SignedDuration::from_hours(24 * 365);

/// A past state of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointInTime {
    /// The cluster-wide revision.
    pub revision: u64,
    /// The time of that revision; `None` if unknown.
    pub time: Option<Timestamp>,
    /// The state is the earliest one that the server retains.
    pub is_earliest: bool,
}

/// Identifies a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSelector {
    /// A time.
    Time(Timestamp),
    /// A revision, with its time if that is known.
    Point(PointInTime),
}

impl TimeSelector {
    /// Selects a revision whose time is unknown.
    pub fn revision(revision: u64) -> Self {
        Self::Point(PointInTime::new(revision, None))
    }
}

/// The view to which Esc leads from a view of the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WayBack {
    /// The same view at present: the user travelled to the past in this view.
    #[default]
    Now,
    /// The view below: this view was opened from a view of the past.
    ViewBelow,
}

impl WayBack {
    /// Returns the hint for Esc.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Now => "returns to now",
            Self::ViewBelow => "goes back",
        }
    }
}

/// A step in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeTravel {
    /// To the previous change.
    Back,
    /// To the next change.
    Forward,
    /// By a duration, earlier (negative) or later.
    By(SignedDuration),
    /// To a point in time.
    To(TimeSelector),
    /// To the present.
    Live,
}

impl TimeTravel {
    /// Returns the step that a time travel command stands for.
    pub fn of(command: Command) -> Option<Self> {
        Some(match command {
            Command::PastBack => Self::Back,
            Command::PastForward => Self::Forward,
            Command::PastBackMore => Self::By(-STEP),
            Command::PastForwardMore => Self::By(STEP),
            _ => return None,
        })
    }

    /// Parses `-5m`, `14:03:05` (UTC, the most recent one), RFC 3339, `@1204`, `now`.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || {
            format!(
                "invalid time {text:?}; use -5m, 14:03:05 (UTC), 2026-01-31T14:03:05Z, @1204 (a revision) or now"
            )
        };
        if matches!(text, "now" | "live") {
            return Ok(Self::Live);
        }
        if let Some(revision) = text.strip_prefix('@') {
            let revision = revision.parse().ok().filter(|revision| *revision > 0).ok_or_else(wrong)?;
            return Ok(Self::To(TimeSelector::revision(revision)));
        }
        let time = if let Some(ago) = text.strip_prefix('-') {
            let ago: SignedDuration = ago.parse().map_err(|_| wrong())?;
            if ago.is_negative() || ago > FURTHEST {
                return Err(wrong());
            }
            now.checked_sub(ago).map_err(|_| wrong())?
        } else if let Ok(time) = text.parse::<Timestamp>() {
            time
        } else {
            let time: Time = text.parse().map_err(|_| wrong())?;
            let today = now.to_zoned(TimeZone::UTC).date();
            let at = today.to_datetime(time).to_zoned(TimeZone::UTC).map_err(|_| wrong())?.timestamp();
            // A time that is still to come today means yesterday's.
            if at > now { at.checked_sub(SignedDuration::from_hours(24)).map_err(|_| wrong())? } else { at }
        };
        if time > now {
            return Err(format!("{} is in the future", clock(time)));
        }
        Ok(Self::To(TimeSelector::Time(time)))
    }
}

impl PointInTime {
    /// Creates the point of a revision after the earliest one.
    pub fn new(revision: u64, time: Option<Timestamp>) -> Self {
        Self { revision, time, is_earliest: false }
    }

    /// Returns the selector of this point.
    pub fn when(&self) -> TimeSelector {
        TimeSelector::Point(*self)
    }

    /// Describes the point in time: `12:03:05, 2m12s ago · revision 1 204`.
    pub fn describe(&self, cx: &Context<'_>) -> String {
        let revision = grouped(self.revision);
        let point = match self.time {
            Some(time) => format!("{}, {} ago · revision {revision}", clock(time), cx.age(time)),
            None => format!("revision {revision}, time unknown"),
        };
        if self.is_earliest { format!("{EARLIEST}: {point}") } else { point }
    }

    /// Returns `12:03:05`, or the revision.
    pub fn short(&self) -> String {
        match self.time {
            Some(time) => clock(time),
            None if self.is_earliest => EARLIEST.to_owned(),
            None => format!("revision {}", grouped(self.revision)),
        }
    }

    /// Returns the part of a file name: `at-120305`, `at-revision-1204`.
    pub fn for_a_file(&self) -> String {
        match self.time {
            Some(time) => format!("at-{}", time.strftime("%H%M%S")),
            None => format!("at-revision-{}", self.revision),
        }
    }
}

/// Returns the time of day in UTC, like the server's times.
pub fn clock(time: Timestamp) -> String {
    time.strftime("%H:%M:%S").to_string()
}

/// Reports whether a command is read-only, so that it also works in the past. All other commands are refused there.
pub fn looks(entry: &Entry) -> bool {
    match entry.context {
        KeyContext::Everywhere
        | KeyContext::Tabs
        | KeyContext::Panes
        | KeyContext::List
        | KeyContext::TimeTravel
        | KeyContext::Text => true,
        KeyContext::Yaml if entry.command == Command::Decode => true,
        _ => matches!(
            entry.command,
            Command::Describe
                | Command::Yaml
                | Command::Copy
                | Command::CopyNamespace
                | Command::Mark
                | Command::MarkRange
                | Command::ClearMarks
                | Command::Save
                | Command::Faults
                | Command::Wide
                | Command::SortName
                | Command::SortAge
                | Command::SortStatus
                | Command::ColumnLeft
                | Command::ColumnRight
                | Command::SortColumn
                | Command::AllNamespaces
                | Command::Namespace1
                | Command::Namespace2
                | Command::Namespace3
                | Command::Namespace4
                | Command::Namespace5
                | Command::Namespace6
                | Command::Namespace7
                | Command::Namespace8
                | Command::Namespace9
                | Command::EventsGroup
                | Command::EventsWarnings
                | Command::ManagedFields
                | Command::ShowPods
                | Command::ShowDeployments
                | Command::ShowNodes
                | Command::ShowEvents
                | Command::ShowServices
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_toolkit::command::{CommandImpact, TABLE};

    #[test]
    fn moments_are_read_as_they_are_typed_con_19() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-05-01T12:00:00Z");
        let time = |text: &str| Ok(TimeTravel::To(TimeSelector::Time(at(text))));
        for (text, expected) in [
            ("-5m", time("2026-05-01T11:55:00Z")),
            ("-90s", time("2026-05-01T11:58:30Z")),
            ("-1h30m", time("2026-05-01T10:30:00Z")),
            (" 2026-05-01T11:00:00Z ", time("2026-05-01T11:00:00Z")),
            ("2026-05-01T13:30:00+02:00", time("2026-05-01T11:30:00Z")),
            ("11:59:58", time("2026-05-01T11:59:58Z")),
            ("11:59", time("2026-05-01T11:59:00Z")),
            ("23:00", time("2026-04-30T23:00:00Z")),
            ("@1204", Ok(TimeTravel::To(TimeSelector::revision(1204)))),
            ("now", Ok(TimeTravel::Live)),
        ] {
            assert_eq!(TimeTravel::parse(text, now), expected, "{text}");
        }
        for bad in ["", "-", "--5m", "5", "-5", "@", "@0", "@x", "25:00", "-9999999h", "2026-05-01T12:00:01Z"]
        {
            assert!(TimeTravel::parse(bad, now).is_err(), "{bad}");
        }
        assert_eq!(
            TimeTravel::parse("2027-01-01T00:00:00Z", now),
            Err("00:00:00 is in the future".to_owned())
        );
    }

    #[test]
    fn nothing_that_changes_the_cluster_looks_at_the_past_con_19() {
        for entry in TABLE.iter().filter(|entry| looks(entry)) {
            assert_eq!(entry.impact, CommandImpact::Nothing, "{}", entry.name);
        }
    }
}
