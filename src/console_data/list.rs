//! A table as text for linear mode: the row under the cursor when it moves, and changes in any row.

use std::collections::HashMap;

use crate::rows::RowKey;

/// A cell of a row as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCell {
    /// The column title, in lower case.
    pub column: String,
    /// The text.
    pub text: String,
    /// The cell changes constantly or with time alone: it is part of the row's text, but its changes are not announced.
    pub is_volatile: bool,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Identifies the row.
    pub key: RowKey,
    /// Its name in announcements: `web-1`, or `default web-1` if several namespaces are shown.
    pub name: String,
    /// The row is marked.
    pub marked: bool,
    /// Its cells without the name.
    pub cells: Vec<ListCell>,
}

impl Line {
    /// Returns the whole row as text.
    pub fn text(&self) -> String {
        let cells = self.cells.iter().filter(|word| !matches!(word.text.as_str(), "" | "<none>"));
        let cells = cells.map(|word| format!(", {} {}", word.column, word.text));
        let mark = if self.marked { "marked, " } else { "" };
        format!("{mark}{}{}", self.name, cells.collect::<String>())
    }

    /// Describes the changes since `before`; `None` if only volatile cells differ.
    fn change(&self, before: &Self) -> Option<String> {
        let was: HashMap<&str, &str> =
            before.cells.iter().map(|word| (word.column.as_str(), word.text.as_str())).collect();
        let changed = self.cells.iter().filter(|word| !word.is_volatile).filter_map(|word| {
            let was = was.get(word.column.as_str()).copied().filter(|was| *was != word.text)?;
            let was = if was.is_empty() { "empty" } else { was };
            Some(format!("{} {}, was {was}", word.column, word.text))
        });
        let changed: Vec<String> = changed.collect();
        (!changed.is_empty()).then(|| format!("{}: {}", self.name, changed.join("; ")))
    }
}

/// A table as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The parameters that select the rows. A list with other parameters is read in full.
    pub query: String,
    /// The text for an empty table.
    pub empty: String,
    /// The sort order as text.
    pub order: String,
    /// The shown rows, in order.
    pub rows: Vec<Line>,
    /// The number of all rows, shown or not.
    pub total: usize,
    /// The index of the cursor.
    pub cursor: usize,
    /// The number of marked rows.
    pub marked: usize,
    /// The key of the row under the cursor, if it is not among the shown rows.
    pub chosen: Option<RowKey>,
}

impl List {
    /// Returns the number of rows as text.
    pub fn count(&self) -> String {
        match (self.rows.len(), self.total) {
            (0, 0) => self.empty.clone(),
            (shown, total) if shown < total => format!("{shown} of {total} rows"),
            (1, _) => "1 row".to_owned(),
            (shown, _) => format!("{shown} rows"),
        }
    }

    /// Returns the row under the cursor.
    pub fn selected(&self) -> Option<String> {
        let row = self.rows.get(self.cursor)?;
        Some(format!("Selected: {}, {} of {}", row.text(), self.cursor + 1, self.rows.len()))
    }

    /// Returns the key of the row under the cursor.
    pub fn chosen(&self) -> Option<&RowKey> {
        self.chosen.as_ref().or_else(|| Some(&self.rows.get(self.cursor)?.key))
    }

    /// Reports whether both are the same list, possibly at different times.
    pub fn is_of(&self, other: &Self) -> bool {
        self.query == other.query && self.empty == other.empty
    }

    /// Describes the rows that are new, deleted or changed since `before`.
    pub fn news(&self, before: &Self) -> Vec<String> {
        let were: HashMap<&RowKey, &Line> = before.rows.iter().map(|row| (&row.key, row)).collect();
        let are: HashMap<&RowKey, &Line> = self.rows.iter().map(|row| (&row.key, row)).collect();
        let removed = before.rows.iter().filter(|row| !are.contains_key(&row.key));
        let removed = removed.map(|row| format!("Gone: {}", row.name));
        let others = self.rows.iter().filter_map(|row| match were.get(&row.key) {
            None => Some(format!("New: {}", row.text())),
            Some(before) => Some(format!("Changed: {}", row.change(before)?)),
        });
        removed.chain(others).collect()
    }
}
