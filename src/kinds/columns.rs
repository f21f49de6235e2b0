//! The columns of each kind's table with the functions that fill their cells: the output of `kubectl get`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use base::sort::SliceOrder;
use object::time::human_age_of;
use object::{Object, TypedKind};

/// The cell of an absent value.
pub(crate) const NONE: &str = "<none>";

/// One column of a table, as clients receive it.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// The heading; clients print it in capitals.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `name` for the object's name; mostly empty otherwise.
    pub format: String,
    /// The description of the column, from which clients may show help.
    pub description: String,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: i32,
}

/// A condition of a row, by which printers hide finished pods.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RowCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason, one word.
    pub reason: &'static str,
    /// The message for people.
    pub message: &'static str,
}

/// The definition of a built-in kind's column.
pub(super) struct ColumnHead {
    name: &'static str,
    type_: &'static str,
    format: &'static str,
    description: &'static str,
    priority: i32,
}

impl ColumnHead {
    fn definition(&self) -> ColumnDefinition {
        ColumnDefinition {
            name: self.name.into(),
            type_: self.type_.into(),
            format: self.format.into(),
            description: self.description.into(),
            priority: self.priority,
        }
    }

    /// Returns the definitions of columns.
    pub(super) fn definitions(heads: &mut dyn Iterator<Item = &Self>) -> Vec<ColumnDefinition> {
        heads.map(Self::definition).collect()
    }
}

/// One column of a built-in kind.
pub(crate) struct Column<T: 'static> {
    pub(super) head: ColumnHead,
    /// Computes the cell of an object at a time.
    cell: fn(&T, Timestamp) -> Value,
}

impl<T> Column<T> {
    /// Returns a column of texts.
    pub(crate) const fn text(
        name: &'static str,
        description: &'static str,
        cell: fn(&T, Timestamp) -> Value,
    ) -> Self {
        let head = ColumnHead { name, type_: "string", format: "", description, priority: 0 };
        Self { head, cell }
    }

    /// Returns a column of whole numbers.
    pub(crate) const fn number(
        name: &'static str,
        description: &'static str,
        cell: fn(&T, Timestamp) -> Value,
    ) -> Self {
        let mut column = Self::text(name, description, cell);
        column.head.type_ = "integer";
        column
    }

    /// Returns a column of truth values.
    pub(crate) const fn boolean(
        name: &'static str,
        description: &'static str,
        cell: fn(&T, Timestamp) -> Value,
    ) -> Self {
        let mut column = Self::text(name, description, cell);
        column.head.type_ = "boolean";
        column
    }

    /// Returns a column of texts that only `-o wide` shows.
    pub(crate) const fn wide(
        name: &'static str,
        description: &'static str,
        cell: fn(&T, Timestamp) -> Value,
    ) -> Self {
        Self::text(name, description, cell).only_wide()
    }

    /// Limits the column to `-o wide`.
    pub(crate) const fn only_wide(mut self) -> Self {
        self.head.priority = 1;
        self
    }

    /// Returns the cell of an object.
    pub(crate) fn cell(&self, object: &T, now: Timestamp) -> Value {
        (self.cell)(object, now)
    }
}

impl<T: TypedKind> Column<T> {
    /// Returns the column of the object's name.
    pub(crate) const fn name() -> Self {
        Self::name_as(|object, _| json!(object.metadata().name.as_deref().unwrap_or_default()))
    }

    /// Returns the column of the object's name, in the kind's own format.
    pub(crate) const fn name_as(cell: fn(&T, Timestamp) -> Value) -> Self {
        let description = "Name must be unique within a namespace. Is required when creating resources.";
        let mut column = Self::text("Name", description, cell);
        column.head.format = "name";
        column
    }

    /// Returns the column of the object's age.
    pub(crate) const fn age() -> Self {
        Self::text(
            "Age",
            "CreationTimestamp is a timestamp representing the server time when this object was created, in RFC3339 form and in UTC.",
            |object, now| json!(human_age_of(object.metadata().creation_timestamp.as_ref(), now)),
        )
    }

    /// Returns the column of the object's creation time, in the API's time format.
    pub(crate) const fn created_at() -> Self {
        Self::text("Created At", "The time of the object's creation.", |object, _| {
            json!(created_at(object.metadata()))
        })
    }
}

/// Returns the default columns: name and age.
pub(super) fn of_any_kind() -> Vec<ColumnDefinition> {
    let columns = [Column::<Lease>::name(), Column::age()];
    ColumnHead::definitions(&mut columns.iter().map(|column| &column.head))
}

/// Returns the cells of [`of_any_kind`].
pub(super) fn cells_of_any_kind(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![json!(object.name()), json!(human_age_of(object.meta().creation_timestamp.as_ref(), now))]
}

/// Returns the creation time in the API's time format.
fn created_at(meta: &ObjectMeta) -> String {
    meta.creation_timestamp.as_ref().map_or_else(String::new, |t| t.0.to_string())
}

/// Returns the text, or the placeholder for a missing value.
pub(crate) fn or_none(text: Option<&str>) -> Value {
    json!(text.filter(|t| !t.is_empty()).unwrap_or(NONE))
}

/// Returns `a=1,b=2` in the order of the keys; `<none>` without any.
pub(crate) fn labels_text(labels: Option<&BTreeMap<String, String>>) -> Value {
    let all: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    or_none(Some(&all.join(",")))
}

/// Returns the cell of the labels in a pod template.
pub(crate) fn template_labels(template: Option<&PodTemplateSpec>) -> Value {
    labels_text(template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref()))
}

/// Returns a selector as `kubectl` writes it: `app=web,tier in (a,b)`; `<none>` if it is empty.
pub(crate) fn selector_cell(selector: Option<&LabelSelector>) -> Value {
    let mut selector = selector.cloned().unwrap_or_default();
    for expression in selector.match_expressions.iter_mut().flatten() {
        expression.values.iter_mut().for_each(|values| values.order());
    }
    let mut parts = selector_parts(&selector);
    parts.order();
    or_none(Some(&parts.join(",")))
}

/// Returns the requirements of a selector, each in the form of a query parameter.
pub(crate) fn selector_parts(selector: &LabelSelector) -> Vec<String> {
    let equal = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.iter().flatten().map(|e| {
        let values = e.values.clone().unwrap_or_default().join(",");
        match e.operator.as_str() {
            "In" => format!("{} in ({values})", e.key),
            "NotIn" => format!("{} notin ({values})", e.key),
            "DoesNotExist" => format!("!{}", e.key),
            _ => e.key.clone(),
        }
    });
    equal.chain(others).collect()
}
