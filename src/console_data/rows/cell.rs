//! Columns and cells: their content and their sort order.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;

use compact_str::{CompactString, ToCompactString, format_compact};
use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use crate::context::Context;
use crate::rows::usage::format_bytes;
use crate::thresholds::{Load, Resource, ThresholdLevel, percent};
use console_toolkit::health::Health;
use console_toolkit::text::clean;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// The condition for showing a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnVisibility {
    /// In every mode.
    Always,
    /// In wide mode only.
    Wide,
    /// If metrics are available.
    Measured,
    /// If rows of several namespaces are shown.
    Several,
    /// Never; the column only serves for sorting.
    Never,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading; the same as kubectl's.
    pub name: Cow<'static, str>,
    /// The alignment of its texts.
    pub align: Align,
    /// The condition for showing it.
    pub visibility: ColumnVisibility,
    /// The priority on narrow screens: columns of higher weight are dropped later.
    pub weight: u8,
    /// The width that the column's texts usually reach in their lifetime. It is reserved if there is enough space, so
    /// that the following columns do not move.
    pub usual: u8,
    /// The heading if the table does not fit.
    pub(crate) short: Option<&'static str>,
    /// The width that the column keeps when long columns are cut.
    pub floor: u8,
    /// True for measured usage, which changes all the time.
    pub usage: bool,
}

/// The weight of a column that is shown only if there is spare space.
pub const SPARE: u8 = 0;

impl Column {
    /// Creates a column of text.
    pub fn text(name: &'static str) -> Self {
        Self {
            name: name.into(),
            align: Align::Left,
            visibility: ColumnVisibility::Always,
            weight: 5,
            usual: 0,
            short: None,
            floor: 0,
            usage: false,
        }
    }

    /// Creates a column of numbers.
    pub(crate) fn number(name: &'static str) -> Self {
        Self { align: Align::Right, ..Self::text(name) }
    }

    /// Shows the column only in wide mode.
    #[must_use]
    pub(crate) fn wide(self) -> Self {
        Self { visibility: ColumnVisibility::Wide, ..self }
    }

    /// Marks a column of measured usage.
    #[must_use]
    pub(crate) fn measured(self) -> Self {
        Self { visibility: ColumnVisibility::Measured, usage: true, ..self }
    }

    /// Sets the priority on narrow screens: a higher weight is dropped later.
    #[must_use]
    pub fn weight(self, weight: u8) -> Self {
        Self { weight, ..self }
    }

    /// Shows the column only if all others have their full width.
    #[must_use]
    pub(crate) fn spare(self) -> Self {
        self.weight(SPARE)
    }

    /// Sets the heading for tables that do not fit.
    #[must_use]
    pub(crate) fn short(self, heading: &'static str) -> Self {
        Self { short: Some(heading), ..self }
    }

    /// Sets the width that the column keeps when long columns are cut.
    #[must_use]
    pub(crate) fn at_least(self, floor: u8) -> Self {
        Self { floor, ..self }
    }

    /// Returns the heading; its short form if the table does not fit.
    pub fn heading(&self, is_tight: bool) -> &str {
        self.short.filter(|_| is_tight).unwrap_or(&self.name)
    }

    /// Sets the width that the column's texts usually reach.
    #[must_use]
    pub(crate) fn usual(self, usual: u8) -> Self {
        Self { usual, ..self }
    }
}

/// The space that a bar takes behind a status, if there is enough: a space and the bar.
const BAR: usize = 6;

/// The content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(CompactString),
    /// A status: text with a health.
    Status(CompactString, Health),
    /// A status with a bar behind it: its progress in percent.
    Progress(CompactString, Health, u8),
    /// Text that warns.
    Warning(CompactString),
    /// Less important text.
    Dim(CompactString),
    /// A number.
    Number(i64),
    /// An amount in use, as text, and its share.
    Used {
        /// The amount, by which rows are sorted.
        amount: i64,
        /// The amount as text.
        text: CompactString,
        /// The share.
        load: Load,
    },
    /// A count and its total.
    Ratio(i64, i64),
    /// The age since this time.
    Age(Option<Timestamp>),
    /// The time left until this time.
    Until(Timestamp),
    /// The number of restarts, and the time of the last one.
    Restarts(i64, Option<Timestamp>),
}

impl Cell {
    /// Creates a cell with a text, or `<none>` if it is missing, as kubectl prints it.
    pub(crate) fn or_none(text: Option<&str>) -> Self {
        match text.filter(|text| !text.is_empty()) {
            Some(text) => Self::Text(clean(text).into()),
            None => Self::Dim("<none>".into()),
        }
    }

    /// Creates a cell with an amount of CPU in thousandths, and its share of the limit and the request.
    pub(crate) fn cpu(millis: i64, limit: Option<i64>, request: Option<i64>) -> Self {
        let load = Load::of(Resource::Cpu, millis, limit, request);
        Self::Used { amount: millis, text: format_compact!("{millis}m"), load }
    }

    /// Creates a cell with an amount of memory in bytes, and its share of the limit and the request.
    pub(crate) fn memory(bytes: i64, limit: Option<i64>, request: Option<i64>) -> Self {
        let load = Load::of(Resource::Memory, bytes, limit, request);
        Self::Used { amount: bytes, text: format_bytes(bytes).into(), load }
    }

    /// Creates a cell with a share in percent.
    pub(crate) fn percent(resource: Resource, percent: i32) -> Self {
        let load = Load::Share { resource, percent, max_level: ThresholdLevel::At };
        Self::Used { amount: percent.into(), text: percent.to_compact_string(), load }
    }

    /// Creates a cell with the share in use, in percent; `n/a` if the total is missing, as in k9s.
    pub(crate) fn share(resource: Resource, used: i64, of: Option<i64>) -> Self {
        match percent(used, of) {
            Some(percent) => Self::percent(resource, percent),
            None => Self::Dim("n/a".into()),
        }
    }

    /// Creates a cell with a text from the server.
    pub(crate) fn server_text(text: &str) -> Self {
        Self::Text(clean(text).into())
    }

    /// Returns the text to draw; requests a redraw if it contains an age.
    pub fn show<'a>(&'a self, cx: &Context<'_>) -> Cow<'a, str> {
        match self {
            Self::Text(text)
            | Self::Warning(text)
            | Self::Dim(text)
            | Self::Status(text, _)
            | Self::Progress(text, ..) => Cow::Borrowed(text),
            Self::Used { text, load, .. } => {
                Cow::Owned(format!("{}{text}", cx.thresholds.level(*load).mark()))
            }
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Ratio(have, want) => Cow::Owned(format!("{have}/{want}")),
            Self::Age(Some(since)) => Cow::Owned(cx.age(*since)),
            Self::Age(None) => Cow::Borrowed("<unknown>"),
            Self::Until(at) => Cow::Owned(cx.format_remaining(*at)),
            Self::Restarts(count, Some(last)) if *count > 0 => {
                let age = cx.age(*last);
                Cow::Owned(if age.is_empty() { count.to_string() } else { format!("{count} ({age} ago)") })
            }
            Self::Restarts(count, _) => Cow::Owned(count.to_string()),
        }
    }

    /// Returns the text for filters and CSV, without ages.
    pub fn plain(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text)
            | Self::Warning(text)
            | Self::Dim(text)
            | Self::Status(text, _)
            | Self::Progress(text, ..)
            | Self::Used { text, .. } => Cow::Borrowed(text),
            Self::Age(None) => Cow::Borrowed(""),
            _ => {
                let mut text = String::new();
                self.plain_into(&mut text);
                Cow::Owned(text)
            }
        }
    }

    /// Appends the text of [`Self::plain`] to `to`.
    pub(crate) fn plain_into(&self, to: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Number(number) | Self::Restarts(number, _) => write!(to, "{number}"),
            Self::Ratio(have, want) => write!(to, "{have}/{want}"),
            Self::Age(Some(time)) | Self::Until(time) => write!(to, "{time}"),
            Self::Age(None) => Ok(()),
            Self::Text(text)
            | Self::Warning(text)
            | Self::Dim(text)
            | Self::Status(text, _)
            | Self::Progress(text, ..)
            | Self::Used { text, .. } => to.write_str(text),
        };
    }

    /// Compares two cells of one column; the youngest of two ages comes first.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b))
            | (Self::Used { amount: a, .. }, Self::Used { amount: b, .. }) => a.cmp(b),
            // Missing measurements sort below all others.
            (Self::Used { .. }, Self::Dim(_)) => Ordering::Greater,
            (Self::Dim(_), Self::Used { .. }) => Ordering::Less,
            (Self::Restarts(a, x), Self::Restarts(b, y)) => a.cmp(b).then_with(|| x.cmp(y)),
            (Self::Ratio(a, b), Self::Ratio(c, d)) => {
                (a * d.max(&1)).cmp(&(c * b.max(&1))).then_with(|| b.cmp(d))
            }
            (Self::Age(a), Self::Age(b)) => b.cmp(a),
            (Self::Until(a), Self::Until(b)) => a.cmp(b),
            _ => natural(&self.plain(), &other.plain()),
        }
    }

    /// Returns an upper bound of `max_width` that does not look at each character: no text has more columns than bytes.
    pub fn max_width_bound(&self) -> usize {
        match self {
            Self::Text(text) | Self::Dim(text) => text.len(),
            Self::Used { text, .. } => text.len() + 1,
            Self::Status(text, health) => text.len() + health.glyph().width() + 1,
            Self::Progress(text, health, _) => text.len() + health.glyph().width() + 1 + BAR,
            Self::Warning(text) => text.len() + 2,
            _ => usize::MAX,
        }
    }

    /// Returns the maximum width that the cell reaches over time without a change of its value: ages grow.
    pub fn max_width(&self) -> usize {
        /// `7h59m`, `7d23h`, `364d`: the longest ages of the first eight years.
        const AGE: usize = 5;
        match self {
            Self::Text(text) | Self::Dim(text) => text.width(),
            Self::Used { text, .. } => text.width() + 1,
            Self::Status(text, health) => text.width() + health.glyph().width() + 1,
            Self::Progress(text, health, _) => text.width() + health.glyph().width() + 1 + BAR,
            Self::Warning(text) => text.width() + 2,
            Self::Age(Some(_)) | Self::Until(_) => AGE,
            Self::Restarts(count, Some(_)) if *count > 0 => count.to_string().len() + AGE + " ( ago)".len(),
            Self::Age(None) => "<unknown>".len(),
            Self::Number(_) | Self::Ratio(..) | Self::Restarts(..) => self.plain().width(),
        }
    }
}

/// Compares texts with the numbers in them by value: `node-2` before `node-10`.
#[expect(clippy::many_single_char_names, reason = "two of each, compared")]
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        match (a.first(), b.first()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let length = |text: &[u8]| text.iter().take_while(|c| c.is_ascii_digit()).count();
                let (n, m) = (length(a), length(b));
                let significant =
                    |text: &[u8], n: usize| text[..n].iter().take_while(|c| **c == b'0').count();
                let (p, q) = (&a[significant(a, n)..n], &b[significant(b, m)..m]);
                match p.len().cmp(&q.len()).then_with(|| p.cmp(q)) {
                    Ordering::Equal => (a, b) = (&a[n..], &b[m..]),
                    other => return other,
                }
            }
            (Some(x), Some(y)) => match x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase()) {
                Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
                other => return other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cell_is_small_con_1() {
        // There are a dozen cells for each of very many pods.
        assert!(size_of::<Cell>() <= 40, "{}", size_of::<Cell>());
    }

    #[test]
    fn cells_sort_as_people_count_con_3() {
        for (less, more) in [
            (Cell::Text("node-2".into()), Cell::Text("node-10".into())),
            (Cell::Text("a".into()), Cell::Text("B".into())),
            (Cell::Number(2), Cell::Number(10)),
            (Cell::Ratio(1, 3), Cell::Ratio(2, 3)),
            (Cell::Text("web".into()), Cell::Text("web-1".into())),
            (
                Cell::Age(Some(Timestamp::from_second(20).expect("t"))),
                Cell::Age(Some(Timestamp::from_second(10).expect("t"))),
            ),
        ] {
            assert_eq!(less.order(&more), Ordering::Less, "{less:?} {more:?}");
            assert_eq!(more.order(&less), Ordering::Greater);
            assert_eq!(more.order(&more), Ordering::Equal);
        }
    }

    proptest! {
        #[test]
        fn no_text_is_wider_than_its_bytes_con_2(text in any::<String>()) {
            let cells = [Cell::Text, Cell::Dim, Cell::Warning].map(|cell| cell(text.as_str().into()));
            let status = Cell::Status(text.as_str().into(), Health::Running);
            for cell in cells.iter().chain([&status]) {
                prop_assert!(cell.max_width() <= cell.max_width_bound(), "{cell:?}");
            }
        }
    }
}
