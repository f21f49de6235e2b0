//! The conditions of an object as a table, with a choice of columns for each kind.

use serde_json::Value;

use super::builder::{DocumentBuilder, Tone, condition_tone, items, text, time};

/// Appends the table with the columns `(title, field)`; a column that is empty in every row is left out.
pub(crate) fn describe(doc: &mut DocumentBuilder, object: &Value, columns: &[(&str, &str)]) {
    let conditions: Vec<&Value> = items(object, "/status/conditions").collect();
    if conditions.is_empty() {
        return;
    }
    let cell = |condition: &Value, field: &str| {
        if field.ends_with("Time") { time(&condition[field]) } else { text(&condition[field]) }
    };
    let shown: Vec<&(&str, &str)> = columns
        .iter()
        .filter(|(_, field)| conditions.iter().any(|condition| !cell(condition, field).is_empty()))
        .collect();
    let rows: Vec<(Vec<String>, Tone)> = conditions
        .iter()
        .map(|condition| {
            let row = shown.iter().map(|(_, field)| cell(condition, field)).collect();
            (row, condition_tone(condition))
        })
        .collect();
    let header: Vec<&str> = shown.iter().map(|(title, _)| *title).collect();
    doc.head(0, "Conditions");
    doc.table(2, &header, &rows);
}
