//! Field ownership: `metadata.managedFields`.
//!
//! An object holds its entries beside its typed value, each set of fields in a compact form ([`compact`]) that objects
//! with equal sets share. Only the object's JSON has the sets in their long form.

pub mod compact;
mod fields_v1;
mod path;
mod set;
mod shared;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

use crate::json_text::write_text;
pub use path::{PathElement, path_text};
pub use set::{FieldSet, Node};

/// The kind of write by which a manager owns fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    /// Returns the text in entries.
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager: no two entries have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Manager {
    /// The field manager's name.
    pub name: String,
    /// The kind of write.
    pub operation: Operation,
    /// The API version of the field names.
    pub api_version: String,
    /// The subresource that was written; empty for the object itself.
    pub subresource: String,
}

impl Manager {
    fn names(&self) -> (&str, &str, &str) {
        (&self.name, &self.api_version, &self.subresource)
    }
}

/// The fields of one manager.
#[derive(Clone, Debug)]
pub struct Entry {
    manager: Arc<Manager>,
    /// Seconds since 1970.
    time: Option<i64>,
    fields: Arc<[u8]>,
}

impl Entry {
    /// Creates the entry of `manager`, which owns `fields` since `time`, in seconds since 1970.
    pub fn new(manager: Manager, time: Option<i64>, fields: &FieldSet) -> Self {
        Self::of_encoded(manager, time, &compact::encode(fields))
    }

    /// Does the same as [`Entry::new`], with an encoded set ([`compact`]).
    pub fn of_encoded(manager: Manager, time: Option<i64>, fields: &[u8]) -> Self {
        // The fields in a status (keyed by addresses and the like) are specific to one object: sharing them saves
        // nothing.
        let fields = if manager.subresource.is_empty() { shared::bytes(fields) } else { fields.into() };
        Self { manager: shared::manager(manager), time, fields }
    }

    /// Returns the same manager's entry with these fields since `time`.
    #[must_use]
    pub fn with(&self, time: Option<i64>, fields: &FieldSet) -> Self {
        let encoded = compact::encode(fields);
        let is_own = !self.manager.subresource.is_empty();
        let fields = if is_own { encoded.into() } else { shared::bytes(&encoded) };
        Self { manager: self.manager.clone(), time, fields }
    }

    /// Returns the same entry with another time.
    #[must_use]
    pub fn at(&self, time: Option<i64>) -> Self {
        Self { time, ..self.clone() }
    }

    /// Returns the manager.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Returns the time of the last change of the set, in seconds since 1970.
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    /// Returns the owned fields.
    pub fn fields(&self) -> FieldSet {
        compact::decode(&self.fields)
    }

    /// Returns the owned fields, encoded ([`compact`]).
    pub fn encoded(&self) -> &[u8] {
        &self.fields
    }

    fn owns_the_same(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.manager, &other.manager) || self.manager == other.manager)
            && (Arc::ptr_eq(&self.fields, &other.fields) || self.fields == other.fields)
    }

    /// Reads an entry in the form that clients write; the error describes the mistake.
    fn read(entry: &ManagedFieldsEntry) -> Result<Self, String> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let operation = match entry.operation.as_deref() {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".into()),
        };
        let api_version = text(&entry.api_version);
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".into());
        }
        if entry.fields_type.as_deref() != Some("FieldsV1") {
            return Err(format!("invalid fieldsType {:?}", text(&entry.fields_type)));
        }
        let fields = match &entry.fields_v1 {
            Some(fields) => FieldSet::from_fields_v1(&fields.0)?,
            None => FieldSet::default(),
        };
        let manager = Manager {
            name: text(&entry.manager),
            operation,
            api_version,
            subresource: text(&entry.subresource),
        };
        Ok(Self::new(manager, entry.time.as_ref().map(|time| time.0.as_second()), &fields))
    }

    fn to_value(&self) -> Value {
        let mut value = json!({
            "apiVersion": self.manager.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields().to_fields_v1(),
            "manager": self.manager.name,
            "operation": self.manager.operation.text(),
        });
        if !self.manager.subresource.is_empty() {
            value["subresource"] = self.manager.subresource.clone().into();
        }
        if let Some(time) = self.time.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
            value["time"] = time.to_string().into();
        }
        value
    }
}

impl Entry {
    /// Writes the same JSON as [`Entry::to_value`] without building a value.
    fn write_json(&self, out: &mut Vec<u8>) {
        let Manager { name, operation, api_version, subresource } = &*self.manager;
        out.extend_from_slice(b"{\"apiVersion\":");
        write_text(api_version, out);
        out.extend_from_slice(b",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        compact::write_json(&self.fields, out);
        out.extend_from_slice(b",\"manager\":");
        write_text(name, out);
        out.extend_from_slice(b",\"operation\":");
        write_text(operation.text(), out);
        if !subresource.is_empty() {
            out.extend_from_slice(b",\"subresource\":");
            write_text(subresource, out);
        }
        if let Some(time) = self.time.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
            out.extend_from_slice(b",\"time\":");
            write_text(&time.to_string(), out);
        }
        out.push(b'}');
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.time == other.time && self.owns_the_same(other)
    }
}

/// The owners of an object's fields; cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct ManagedFields(Option<Arc<[Entry]>>);

impl ManagedFields {
    /// Creates a list of these entries, in Kubernetes' order.
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| {
            let age = |e: &Entry| (e.manager.operation, e.time.unwrap_or(0));
            age(a).cmp(&age(b)).then_with(|| a.manager.names().cmp(&b.manager.names()))
        });
        Self((!entries.is_empty()).then(|| entries.into()))
    }

    /// Reads entries in the form that clients write; the error describes the first mistake.
    pub fn read(entries: &[ManagedFieldsEntry]) -> Result<Self, String> {
        entries.iter().map(Entry::read).collect::<Result<Vec<_>, _>>().map(Self::new)
    }

    /// Returns true if no field has a manager.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the entries, one for each manager.
    pub fn entries(&self) -> &[Entry] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns true if the same managers own the same fields, regardless of times.
    pub fn owned_the_same(&self, other: &Self) -> bool {
        let (a, b) = (self.by_manager(), other.by_manager());
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.owns_the_same(b))
    }

    fn by_manager(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries().iter().collect();
        entries.sort_by_key(|entry| (&*entry.manager, &*entry.fields));
        entries
    }

    /// Writes the entries as a field of the metadata.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"managedFields\":[");
        for (i, entry) in self.entries().iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            entry.write_json(out);
        }
        out.push(b']');
    }

    /// Returns the value of `metadata.managedFields`.
    pub fn to_value(&self) -> Value {
        self.entries().iter().map(Entry::to_value).collect()
    }
}

impl PartialEq for ManagedFields {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

#[cfg(test)]
mod tests;
