//! Rows with the user's columns: columns of the kind, and values that a path or an expression selects from the object.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::cell::{Align, ColumnVisibility};
use super::{Cell, Column, Row};
use crate::extensions::{
    Attributes, ColumnAlignment, ColumnSource, CustomColumn, CustomView, CustomVisibility, Order,
};
use crate::store::Object;
use crate::thresholds::{Load, ThresholdLevel};
use console_toolkit::text::clean;
use object::quantity::Amount;

/// Maximum number of characters in a cell: a path may match a whole object.
const LONGEST: usize = 256;

/// The source of a cell.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    /// The kind's own cell at this index.
    Own(usize),
    Namespace,
    Labels,
    /// A value found in the object.
    Found(ColumnSource, Attributes),
}

/// The user's columns for a kind, and the layout of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// All columns, including those of wide mode.
    pub columns: Vec<Column>,
    sources: Vec<Source>,
    /// The initial sort order.
    pub sort: Option<(usize, Order)>,
    /// Names that match no column of the kind, with their positions in the file.
    pub unknown: Vec<String>,
}

impl Layout {
    /// Creates the layout of a custom view for a kind with these columns. Columns that the view omits are shown in wide
    /// mode.
    pub fn new(view: &CustomView, own: &[Column], namespaced: bool) -> Self {
        let mut layout = Self { columns: Vec::new(), sources: Vec::new(), sort: None, unknown: Vec::new() };
        for custom in &view.columns {
            layout.take(custom, own, namespaced);
        }
        // A view that only sets a sort order leaves the columns unchanged.
        let rest = if view.columns.is_empty() { None } else { Some(ColumnVisibility::Wide) };
        let namespace = Column::text("NAMESPACE").weight(7);
        if namespaced && !layout.sources.contains(&Source::Namespace) {
            layout
                .columns
                .push(Column { visibility: rest.unwrap_or(ColumnVisibility::Several), ..namespace });
            layout.sources.push(Source::Namespace);
        }
        for (at, column) in own.iter().enumerate() {
            if layout.sources.contains(&Source::Own(at)) {
                continue;
            }
            layout.columns.push(Column { visibility: rest.unwrap_or(column.visibility), ..column.clone() });
            layout.sources.push(Source::Own(at));
        }
        if let Some((name, order)) = &view.sort {
            let at = layout.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
            match at {
                Some(at) => layout.sort = Some((at, *order)),
                None => layout.unknown.push(format!("sortColumn: unknown column {name:?}")),
            }
        }
        layout
    }

    fn take(&mut self, custom: &CustomColumn, own: &[Column], namespaced: bool) {
        let name = &custom.name;
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let at = own.iter().position(|column| is(&column.name));
        let (column, source) = match (&custom.path, at) {
            (Some(path), _) => {
                let weight = if is("NAME") { 9 } else { 5 };
                let align = if custom.attributes.number { Align::Right } else { Align::Left };
                let column = Column { name: name.clone().into(), align, ..Column::text("").weight(weight) };
                (column, Source::Found(path.clone(), custom.attributes))
            }
            (None, Some(at)) => (own[at].clone(), Source::Own(at)),
            (None, None) if is("NAMESPACE") && namespaced => (
                Column { visibility: ColumnVisibility::Several, ..Column::text("NAMESPACE").weight(7) },
                Source::Namespace,
            ),
            (None, None) if is("NAMESPACE") => return,
            (None, None) if is("LABELS") => (Column::text("LABELS").weight(2), Source::Labels),
            (None, None) => {
                let known: Vec<&str> = own.iter().map(|column| &*column.name).collect();
                let place = &custom.location;
                self.unknown
                    .push(format!("{place}: unknown column {name:?}; the columns are {}", known.join(", ")));
                return;
            }
        };
        let shown = match custom.attributes.visibility {
            None => column.visibility,
            // Without metrics there are no values to show.
            Some(CustomVisibility::Always) if column.visibility == ColumnVisibility::Measured => {
                ColumnVisibility::Measured
            }
            Some(CustomVisibility::Always) => ColumnVisibility::Always,
            Some(CustomVisibility::Wide) => ColumnVisibility::Wide,
            Some(CustomVisibility::Never) => ColumnVisibility::Never,
        };
        let align = match custom.attributes.side {
            None => column.align,
            Some(ColumnAlignment::Left) => Align::Left,
            Some(ColumnAlignment::Right) => Align::Right,
        };
        self.columns.push(Column { align, visibility: shown, ..column });
        self.sources.push(source);
    }

    /// Rearranges a row of the kind's own columns into the user's columns.
    pub fn lay_out(&self, mut row: Row, object: Option<&dyn Object>) -> Row {
        // Converting a whole object costs more than the rest of its row.
        let whole = self
            .sources
            .iter()
            .any(|source| matches!(source, Source::Found(finder, _) if !finder.is_of_metadata()));
        let some = self.sources.iter().any(|source| matches!(source, Source::Found(..)));
        let json = match object {
            Some(object) if whole => object.to_json(),
            Some(object) if some => serde_json::json!({ "metadata": object.metadata() }),
            _ => Value::Null,
        };
        let own = std::mem::take(&mut row.cells);
        let cell = |source: &Source| match source {
            Source::Own(at) => own.get(*at).cloned().unwrap_or_else(|| Cell::or_none(None)),
            Source::Namespace => Cell::server_text(row.namespace.as_deref().unwrap_or_default()),
            Source::Labels => {
                let labels: Vec<String> =
                    row.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                Cell::or_none(Some(&cut(&labels.join(","))))
            }
            Source::Found(ColumnSource::Path(path), attributes) => {
                format_values(&path.find(&json), *attributes)
            }
            Source::Found(ColumnSource::Jq(jq), attributes) => match jq.run(&json) {
                Ok(values) => format_values(&values.iter().collect::<Vec<_>>(), *attributes),
                // An expression on a missing field has no result, like the path alone.
                Err(why) if why.starts_with("null ") => Cell::or_none(None),
                Err(why) => Cell::Warning(cut(&clean(&why)).into()),
            },
        };
        let cells = self.sources.iter().map(cell).collect();
        Row { cells, ..row }
    }
}

/// Returns the found values as a cell.
fn format_values(values: &[&Value], attributes: Attributes) -> Cell {
    let values: Vec<&&Value> = values.iter().filter(|value| !value.is_null()).collect();
    match values.as_slice() {
        [] => return Cell::or_none(None),
        [Value::String(text)] if attributes.time => {
            if let Ok(time) = text.parse::<Timestamp>() {
                return Cell::Age(Some(time));
            }
        }
        [Value::String(text)] if attributes.number => {
            if let Ok(amount) = Amount::parse(text) {
                let amount = amount.millis();
                return Cell::Used {
                    amount,
                    text: clean(&cut(text)).into(),
                    load: Load::Fixed(ThresholdLevel::Far),
                };
            }
        }
        [Value::Number(number)] => {
            if let Some(number) = number.as_i64() {
                return Cell::Number(number);
            }
        }
        _ => {}
    }
    let texts: Vec<Cow<'_, str>> = values.iter().map(|value| text(value)).collect();
    Cell::or_none(Some(&cut(&texts.join(","))))
}

fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}
