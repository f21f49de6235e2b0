//! Rows of kinds without a view of their own, from the server-side Table.

use std::sync::Arc;

use compact_str::ToCompactString;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::Value;

use super::cell::{Align, ColumnVisibility};
use super::{Cell, Column, Row};
use crate::resource::Uid;
use crate::server_table::{ColumnDefinition, TableRow};
use console_toolkit::health::Health;
use console_toolkit::text::clean;

/// Converts the server's columns.
pub(crate) fn columns(definitions: &[ColumnDefinition]) -> Vec<Column> {
    let column = |definition: &ColumnDefinition| Column {
        name: clean(&definition.name.to_uppercase()).into_owned().into(),
        align: if matches!(definition.kind.as_str(), "integer" | "number") {
            Align::Right
        } else {
            Align::Left
        },
        visibility: if definition.priority > 0 { ColumnVisibility::Wide } else { ColumnVisibility::Always },
        weight: match definition.name.as_str() {
            "Name" => 9,
            "Age" | "Status" | "Phase" | "Ready" => 8,
            _ => 5,
        },
        usual: 0,
        short: None,
        floor: 0,
        usage: false,
    };
    definitions.iter().map(column).collect()
}

/// Converts a row of the server.
pub(crate) fn row(definitions: &[ColumnDefinition], row: &TableRow) -> Option<Row> {
    let meta = &row.object.metadata;
    let cells = definitions.iter().zip(&row.cells).map(|(definition, value)| {
        let running = running_since(definition, &row.object);
        running.map_or_else(|| cell(definition, value, meta), |since| Cell::Age(Some(since)))
    });
    Some(Row {
        cluster: None,
        uid: Uid::from(meta.uid.as_deref()?),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
        cells: cells.collect(),
        health: meta.deletion_timestamp.is_some().then_some(Health::Terminating),
        labels: Arc::new(meta.labels.clone().unwrap_or_default()),
        workload: None,
        newness: 0,
    })
}

/// Returns the time since which the text of a column runs: that of the server is the age at the time of its response.
fn running_since(definition: &ColumnDefinition, object: &DynamicObject) -> Option<Timestamp> {
    let status = &object.data["status"];
    let time = match (object.types.as_ref()?.kind.as_str(), definition.name.as_str()) {
        ("CronJob", "Last Schedule") => &status["lastScheduleTime"],
        ("Job", "Duration") if status["completionTime"].is_null() => &status["startTime"],
        _ => return None,
    };
    time.as_str()?.parse().ok()
}

fn cell(definition: &ColumnDefinition, value: &Value, meta: &ObjectMeta) -> Cell {
    // The age of this cell advances.
    if definition.name == "Age" {
        return Cell::Age(meta.creation_timestamp.as_ref().map(|time| time.0));
    }
    match value {
        Value::Null => Cell::Dim("<none>".into()),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Cell::Text(number.to_compact_string()), Cell::Number)
        }
        Value::String(text) if definition.kind == "date" => {
            text.parse::<Timestamp>().map_or_else(|_| Cell::server_text(text), |time| Cell::Age(Some(time)))
        }
        Value::String(text) if text == "<none>" => Cell::Dim(text.into()),
        Value::String(text) => Cell::server_text(text),
        other => Cell::server_text(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ages_of_jobs_advance_without_news_from_the_server_con_18() {
        let time = "2026-05-01T12:00:00Z";
        for (kind, column, status, expected) in [
            ("CronJob", "Last Schedule", json!({"lastScheduleTime": time}), Some(time)),
            ("CronJob", "Last Schedule", json!({}), None),
            ("Job", "Duration", json!({"startTime": time}), Some(time)),
            ("Job", "Duration", json!({"startTime": time, "completionTime": time}), None),
            ("Task", "Duration", json!({"startTime": time}), None),
        ] {
            let definitions: Vec<ColumnDefinition> =
                serde_json::from_value(json!([{"name": column, "type": "string"}])).unwrap();
            let object = json!({"apiVersion": "batch/v1", "kind": kind,
                "metadata": {"name": "a", "uid": "a"}, "status": status});
            let of_server: TableRow =
                serde_json::from_value(json!({"cells": ["5s"], "object": object})).unwrap();
            let cell = row(&definitions, &of_server).unwrap().cells.remove(0);
            let expected = expected
                .map_or_else(|| Cell::Text("5s".into()), |time| Cell::Age(Some(time.parse().unwrap())));
            assert_eq!(cell, expected, "{kind} {column} {object}");
        }
    }
}
