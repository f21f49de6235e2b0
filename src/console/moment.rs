//! A moment of the past: how it is named, typed and told; and the steps from one to another (CON-12, CON-19).

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::command::Command;
use super::context::Context;
use super::text::grouped;

/// How far the longer steps go.
const STEP: SignedDuration = SignedDuration::from_secs(10);

/// The furthest back that can be typed; no server keeps as much.
const FURTHEST: SignedDuration = SignedDuration::from_hours(24 * 365);

/// A state of the cluster that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The revision of the whole cluster.
    pub revision: u64,
    /// When that was; none where nobody knows.
    pub time: Option<Timestamp>,
}

/// What names a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A time.
    Time(Timestamp),
    /// A revision.
    Revision(u64),
}

/// Where Esc leads from a view of the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// To the same view as it is now: the view went back in time itself.
    #[default]
    Now,
    /// To the view below: this one was opened in the past.
    ViewBelow,
}

impl WayBack {
    /// The words for it behind the key.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Now => "comes back to now",
            Self::ViewBelow => "goes back",
        }
    }
}

/// Where to go in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// To the change before.
    Back,
    /// To the change after.
    Forward,
    /// So much earlier (negative) or later.
    By(SignedDuration),
    /// To a moment.
    To(When),
    /// Back to now.
    Live,
}

impl Go {
    /// What a command of time travel means.
    pub(crate) fn of(command: Command) -> Option<Self> {
        Some(match command {
            Command::PastBack => Self::Back,
            Command::PastForward => Self::Forward,
            Command::PastBackMore => Self::By(-STEP),
            Command::PastForwardMore => Self::By(STEP),
            _ => return None,
        })
    }

    /// Reads what is typed: `-5m`, `14:03:05` (UTC, the last one that was), RFC 3339, `@1204`, `now`.
    pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || {
            format!(
                "{text:?} is no moment; -5m, 14:03:05 (UTC), 2026-01-31T14:03:05Z, @1204 (a revision) and now are"
            )
        };
        if matches!(text, "now" | "live") {
            return Ok(Self::Live);
        }
        if let Some(revision) = text.strip_prefix('@') {
            let revision = revision.parse().ok().filter(|revision| *revision > 0).ok_or_else(wrong)?;
            return Ok(Self::To(When::Revision(revision)));
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
            // One that is yet to come today was yesterday.
            if at > now { at.checked_sub(SignedDuration::from_hours(24)).map_err(|_| wrong())? } else { at }
        };
        if time > now {
            return Err(format!("{} is yet to come", clock(time)));
        }
        Ok(Self::To(When::Time(time)))
    }
}

impl Moment {
    /// What names it.
    pub(crate) fn when(&self) -> When {
        When::Revision(self.revision)
    }

    /// `12:03:05, 2m12s ago · revision 1 204`.
    pub(crate) fn words(&self, cx: &Context<'_>) -> String {
        let revision = grouped(self.revision);
        match self.time {
            Some(time) => format!("{}, {} ago · revision {revision}", clock(time), cx.age(time)),
            None => format!("revision {revision}, nobody knows when"),
        }
    }

    /// `12:03:05`, or the revision.
    pub(crate) fn short(&self) -> String {
        self.time.map_or_else(|| format!("revision {}", grouped(self.revision)), clock)
    }

    /// For the name of a file: `at-120305`, `at-revision-1204`.
    pub(crate) fn for_a_file(&self) -> String {
        match self.time {
            Some(time) => format!("at-{}", time.strftime("%H%M%S")),
            None => format!("at-revision-{}", self.revision),
        }
    }
}

/// The time of day, in UTC, as the server's times are.
pub(crate) fn clock(time: Timestamp) -> String {
    time.strftime("%H:%M:%S").to_string()
}

/// Whether a command only looks, so that it means something in the past as well. What is not listed here is refused
/// there.
pub(crate) fn looks(command: Command) -> bool {
    use super::command::KeyContext;
    match command.entry().context {
        KeyContext::Everywhere
        | KeyContext::Tabs
        | KeyContext::Panes
        | KeyContext::List
        | KeyContext::Moments
        | KeyContext::Text => true,
        _ => matches!(
            command,
            Command::Describe
                | Command::Yaml
                | Command::CopyName
                | Command::CopyNamespace
                | Command::Mark
                | Command::MarkRange
                | Command::ClearMarks
                | Command::SaveCsv
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
                | Command::YamlDecode
                | Command::DescribeYaml
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
    use crate::command::{TABLE, Touches};

    #[test]
    fn moments_are_read_as_they_are_typed_con_19() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-05-01T12:00:00Z");
        let time = |text: &str| Ok(Go::To(When::Time(at(text))));
        for (text, expected) in [
            ("-5m", time("2026-05-01T11:55:00Z")),
            ("-90s", time("2026-05-01T11:58:30Z")),
            ("-1h30m", time("2026-05-01T10:30:00Z")),
            (" 2026-05-01T11:00:00Z ", time("2026-05-01T11:00:00Z")),
            ("2026-05-01T13:30:00+02:00", time("2026-05-01T11:30:00Z")),
            ("11:59:58", time("2026-05-01T11:59:58Z")),
            ("11:59", time("2026-05-01T11:59:00Z")),
            ("23:00", time("2026-04-30T23:00:00Z")),
            ("@1204", Ok(Go::To(When::Revision(1204)))),
            ("now", Ok(Go::Live)),
        ] {
            assert_eq!(Go::parse(text, now), expected, "{text}");
        }
        for bad in ["", "-", "--5m", "5", "-5", "@", "@0", "@x", "25:00", "-9999999h", "2026-05-01T12:00:01Z"]
        {
            assert!(Go::parse(bad, now).is_err(), "{bad}");
        }
        assert_eq!(Go::parse("2027-01-01T00:00:00Z", now), Err("00:00:00 is yet to come".to_owned()));
    }

    #[test]
    fn nothing_that_changes_the_cluster_looks_at_the_past_con_19() {
        for entry in TABLE.iter().filter(|entry| looks(entry.command)) {
            assert_eq!(entry.touches, Touches::Nothing, "{}", entry.name);
        }
    }
}
