//! Columns together with the functions that fill their cells.
//!
//! Architecture Invariant: headings and cells of a kind come from one list, so that no value appears under the heading
//! of another column.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Cell, Column};

/// A column with the function that fills its cell in the row of a `T`.
pub(crate) struct RowColumn<T> {
    column: Column,
    cell: fn(&T) -> Cell,
}

impl Column {
    /// Adds the function that fills the column's cells.
    pub(crate) fn cell<T>(self, cell: fn(&T) -> Cell) -> RowColumn<T> {
        RowColumn { column: self, cell }
    }
}

/// Returns the columns alone.
pub(crate) fn headings<T>(columns: Vec<RowColumn<T>>) -> Vec<Column> {
    columns.into_iter().map(|column| column.column).collect()
}

/// Returns the cells of a row, one for each column.
pub(crate) fn cells<T>(columns: &[RowColumn<T>], of: &T) -> Vec<Cell> {
    columns.iter().map(|column| (column.cell)(of)).collect()
}

/// Returns the cell of an object's name.
pub(crate) fn name(meta: &ObjectMeta) -> Cell {
    Cell::server_text(meta.name.as_deref().unwrap_or_default())
}

/// Returns the cell of an object's age.
pub(crate) fn age(meta: &ObjectMeta) -> Cell {
    Cell::Age(meta.creation_timestamp.as_ref().map(|time| time.0))
}
