//! A table row by row: the row under the cursor when it moves, and what changes in any of them.

use std::collections::HashMap;

use crate::rows::RowKey;

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Its column, in small letters.
    pub(crate) column: String,
    /// What is in it.
    pub(crate) text: String,
    /// Whether it changes all the time, or by time alone: it is read, and no news.
    pub(crate) restless: bool,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Whose it is.
    pub(crate) key: RowKey,
    /// What it is called in a change: `web-1`, or `default web-1` where several namespaces are shown.
    pub(crate) name: String,
    /// Whether the user has marked it.
    pub(crate) marked: bool,
    /// Its cells but for the name.
    pub(crate) words: Vec<Word>,
}

impl Line {
    /// The whole row.
    pub(crate) fn words(&self) -> String {
        let cells = self.words.iter().filter(|word| !matches!(word.text.as_str(), "" | "<none>"));
        let cells = cells.map(|word| format!(", {} {}", word.column, word.text));
        let mark = if self.marked { "marked, " } else { "" };
        format!("{mark}{}{}", self.name, cells.collect::<String>())
    }

    /// What differs from how it was; nothing where that is only what is restless.
    fn change(&self, before: &Self) -> Option<String> {
        let was: HashMap<&str, &str> =
            before.words.iter().map(|word| (word.column.as_str(), word.text.as_str())).collect();
        let changed = self.words.iter().filter(|word| !word.restless).filter_map(|word| {
            let was = was.get(word.column.as_str()).copied().filter(|was| *was != word.text)?;
            let was = if was.is_empty() { "empty" } else { was };
            Some(format!("{} {}, was {was}", word.column, word.text))
        });
        let changed: Vec<String> = changed.collect();
        (!changed.is_empty()).then(|| format!("{}: {}", self.name, changed.join("; ")))
    }
}

/// A list as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// What decides which rows it has: with another one it is read anew.
    pub(crate) query: String,
    /// What is said where it has no rows.
    pub(crate) empty: String,
    /// What they are sorted by, in words.
    pub(crate) order: String,
    /// The rows that are shown, in order.
    pub(crate) rows: Vec<Line>,
    /// How many there are, shown or not.
    pub(crate) total: usize,
    /// The place of the cursor.
    pub(crate) cursor: usize,
    /// How many are marked.
    pub(crate) marked: usize,
    /// Whose row the cursor was on, where that is not of these rows.
    pub(crate) chosen: Option<RowKey>,
}

impl List {
    /// How many rows there are, in words.
    pub(crate) fn count(&self) -> String {
        match (self.rows.len(), self.total) {
            (0, 0) => self.empty.clone(),
            (shown, total) if shown < total => format!("{shown} of {total} rows"),
            (1, _) => "1 row".to_owned(),
            (shown, _) => format!("{shown} rows"),
        }
    }

    /// The row under the cursor.
    pub(crate) fn selected(&self) -> Option<String> {
        let row = self.rows.get(self.cursor)?;
        Some(format!("Selected: {}, {} of {}", row.words(), self.cursor + 1, self.rows.len()))
    }

    /// Whose row is under the cursor, and whether it is marked.
    pub(crate) fn chosen(&self) -> Option<&RowKey> {
        self.chosen.as_ref().or_else(|| Some(&self.rows.get(self.cursor)?.key))
    }

    /// Whether another is the same list at another time.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.query == other.query && self.empty == other.empty
    }

    /// What is new, gone and changed since another time.
    pub(crate) fn news(&self, before: &Self) -> Vec<String> {
        let were: HashMap<&RowKey, &Line> = before.rows.iter().map(|row| (&row.key, row)).collect();
        let are: HashMap<&RowKey, &Line> = self.rows.iter().map(|row| (&row.key, row)).collect();
        let gone = before.rows.iter().filter(|row| !are.contains_key(&row.key));
        let gone = gone.map(|row| format!("Gone: {}", row.name));
        let others = self.rows.iter().filter_map(|row| match were.get(&row.key) {
            None => Some(format!("New: {}", row.words())),
            Some(before) => Some(format!("Changed: {}", row.change(before)?)),
        });
        gone.chain(others).collect()
    }
}
