//! Field errors: the path in the object, the kind of error, and Kubernetes' words for it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::{ApiError, Cause};
use base::quote::quote;

/// The kind of a field error: the `reason` of a `Status` cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorReason {
    /// The field is missing.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value has the wrong type.
    TypeInvalid,
    /// The value is not in a closed set.
    NotSupported,
    /// The value occurs twice in a list of different values.
    Duplicate,
    /// The field may not be set here, or may not change.
    Forbidden,
    /// The text or list of bytes is too long.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// The value refers to an object that does not exist.
    NotFound,
}

impl FieldErrorReason {
    /// Returns the cause's `reason`, e.g. `FieldValueRequired`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
        }
    }
}

/// One error of one field. Displayed as `path: message`, as in the `Status` message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field, e.g. `spec.containers[0].name`: the cause's `field`.
    pub path: String,
    /// The kind of error.
    pub reason: FieldErrorReason,
    /// The offending value as the message shows it, if the kind of error shows it.
    value: Option<String>,
    /// The explanation; may be empty.
    pub detail: String,
}

impl FieldError {
    /// Returns the cause's `message`, e.g. `Invalid value: -1: must be greater than or equal to 0`.
    pub fn message(&self) -> String {
        let mut text = self.reason.description().to_string();
        for part in self.value.iter().chain((!self.detail.is_empty()).then_some(&self.detail)) {
            text.push_str(": ");
            text.push_str(part);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

impl From<FieldError> for Cause {
    fn from(error: FieldError) -> Self {
        Self { reason: error.reason.name().into(), message: error.message(), field: error.path }
    }
}

/// Joins all errors to one text, in brackets if there are several.
pub fn join(errors: &[FieldError]) -> String {
    match errors {
        [one] => one.to_string(),
        many => {
            format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
    }
}

#[derive(Clone, Copy)]
enum PathElement<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

/// The path of a field. It lives on the stack, and is formatted only when there is an error.
#[derive(Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    part: PathElement<'a>,
}

impl<'a> Path<'a> {
    /// Creates the path of a field of the object itself; `field` may contain dots, as `spec.template`.
    pub fn root(field: &'a str) -> Self {
        Self { parent: None, part: PathElement::Field(field) }
    }

    /// Creates the path of a field of the value at this path; `field` may contain dots.
    pub fn child(&'a self, field: &'a str) -> Self {
        Self { parent: Some(self), part: PathElement::Field(field) }
    }

    /// Creates the path of an item of the list at this path.
    pub fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), part: PathElement::Index(index) }
    }

    /// Returns the items of the list at this path, each with its own path.
    pub fn each<I: IntoIterator>(&'a self, items: I) -> impl Iterator<Item = (Self, I::Item)> {
        items.into_iter().enumerate().map(move |(i, item)| (self.index(i), item))
    }

    /// Creates the path of an entry of the map at this path.
    pub fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), part: PathElement::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.part {
            PathElement::Field(name) if self.parent.is_some() => write!(f, ".{name}"),
            PathElement::Field(name) => f.write_str(name),
            PathElement::Index(index) => write!(f, "[{index}]"),
            PathElement::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// The maximum number of errors reported for an object; readers have no use for more.
const MAX_ERRORS: usize = 1000;
/// The maximum size of all reported errors, in bytes: each may show a list of the size of the object.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Collects the errors of an object.
#[derive(Debug, Default)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
    /// The size of the texts so far, in bytes.
    text: usize,
    /// The path of the first error beyond the limits, and the number of such errors.
    more: Option<(String, usize)>,
}

impl FieldErrors {
    /// Returns the errors, with a summary of those beyond the limits.
    pub fn into_vec(mut self) -> Vec<FieldError> {
        if let Some((path, count)) = self.more {
            let detail = format!("this and {} more errors are not shown", count - 1);
            self.errors.push(FieldError { path, reason: FieldErrorReason::Invalid, value: None, detail });
        }
        self.errors
    }

    /// Refuses a request whose body or options, of this kind and group, have errors. `name` is the target object's.
    pub fn refuse_request(self, kind: &'static str, group: &'static str, name: &str) -> Result<(), ApiError> {
        let causes: Vec<Cause> = self.into_vec().into_iter().map(Cause::from).collect();
        if causes.is_empty() {
            return Ok(());
        }
        Err(ApiError::InvalidRequest { kind, group, name: name.into(), causes })
    }

    /// Returns the number of errors so far, including those beyond the limits.
    pub fn count(&self) -> usize {
        self.errors.len() + self.more.as_ref().map_or(0, |(_, count)| *count)
    }

    /// Returns whether some error makes the CEL rules meaningless: a missing field, a wrong type, or too long a value.
    pub fn block_rules(&self) -> bool {
        use FieldErrorReason::{Required, TooLong, TooMany, TypeInvalid};
        self.more.is_some()
            || self.errors.iter().any(|e| matches!(e.reason, Required | TooLong | TooMany | TypeInvalid))
    }

    /// Adds an error. Its value and detail are formatted only if it is reported.
    fn add<V: Into<Option<String>>, D: Into<String>>(
        &mut self,
        path: &Path<'_>,
        reason: FieldErrorReason,
        value: impl FnOnce() -> V,
        detail: impl FnOnce() -> D,
    ) {
        if self.reports_next(path) {
            self.push(path, reason, value().into(), detail().into());
        }
    }

    /// Returns true if the next error is reported. Otherwise counts it.
    fn reports_next(&mut self, path: &Path<'_>) -> bool {
        if self.errors.len() < MAX_ERRORS && self.text < MAX_TEXT_BYTES {
            return true;
        }
        let (_, count) = self.more.get_or_insert_with(|| (path.to_string(), 0));
        *count += 1;
        false
    }

    fn push(&mut self, path: &Path<'_>, reason: FieldErrorReason, value: Option<String>, detail: String) {
        let error = FieldError { path: path.to_string(), reason, value, detail };
        self.text += error.path.len() + error.value.as_ref().map_or(0, String::len) + error.detail.len();
        self.errors.push(error);
    }

    /// Reports that the field is missing.
    pub fn required(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(path, FieldErrorReason::Required, || None, || detail);
    }

    /// Reports that the value breaks a rule.
    pub fn invalid(
        &mut self,
        path: &Path<'_>,
        value: &(impl ErrorValue + ?Sized),
        detail: impl Into<String>,
    ) {
        self.add(path, FieldErrorReason::Invalid, || value.display_value(), || detail);
    }

    /// Reports that the value has the type `found`, which is not the field's type.
    pub fn wrong_type(&mut self, path: &Path<'_>, found: &str, detail: impl Into<String>) {
        self.add(path, FieldErrorReason::TypeInvalid, || found.display_value(), || detail);
    }

    /// Reports that the value breaks a rule, without the value, which is too large to show.
    pub fn invalid_itself(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(path, FieldErrorReason::Invalid, || None, || detail);
    }

    /// Reports each of these rules as broken.
    pub fn invalid_each(
        &mut self,
        path: &Path<'_>,
        value: &(impl ErrorValue + ?Sized),
        details: Vec<String>,
    ) {
        for detail in details {
            self.invalid(path, value, detail);
        }
    }

    /// Checks that a text, if it is present and not empty, follows a rule of names.
    pub fn optional_name(&mut self, path: &Path<'_>, text: Option<&str>, rule: fn(&str) -> Vec<String>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.invalid_each(path, text, rule(text));
        }
    }

    /// Checks that a text is present and follows a rule of names.
    pub fn required_name(&mut self, path: &Path<'_>, text: &str, rule: fn(&str) -> Vec<String>) {
        if text.is_empty() {
            self.required(path, "");
        } else {
            self.invalid_each(path, text, rule(text));
        }
    }

    /// Reports that the value is not in the set, which the message lists in the given order.
    pub fn unsupported(&mut self, path: &Path<'_>, value: &(impl ErrorValue + ?Sized), supported: &[&str]) {
        self.add(path, FieldErrorReason::NotSupported, || value.display_value(), || among(supported));
    }

    /// Checks that a text is in a closed set.
    pub fn one_of(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.unsupported(path, value, supported);
        }
    }

    /// Checks that a text is present and in a closed set.
    pub fn required_one_of(&mut self, path: &Path<'_>, value: Option<&str>, supported: &[&str]) {
        match value {
            None | Some("") => self.required(path, ""),
            Some(value) => self.one_of(path, value, supported),
        }
    }

    /// Reports that the value occurs twice.
    pub fn duplicate(&mut self, path: &Path<'_>, value: &(impl ErrorValue + ?Sized)) {
        self.add(path, FieldErrorReason::Duplicate, || value.display_value(), String::new);
    }

    /// Reports a key that is among `seen`, and adds it to them.
    pub fn unique<'k>(&mut self, seen: &mut HashSet<&'k str>, path: &Path<'_>, key: &'k str) {
        if !seen.insert(key) {
            self.duplicate(path, key);
        }
    }

    /// Reports that the value occurs twice; `detail` explains the rule against it.
    pub fn duplicate_because(
        &mut self,
        path: &Path<'_>,
        value: &(impl ErrorValue + ?Sized),
        detail: impl Into<String>,
    ) {
        self.add(path, FieldErrorReason::Duplicate, || value.display_value(), || detail);
    }

    /// Reports that the field may not be set or changed.
    pub fn forbidden(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(path, FieldErrorReason::Forbidden, || None, || detail);
    }

    /// Reports that the value refers to an object that does not exist.
    pub fn not_found(&mut self, path: &Path<'_>, value: &str) {
        self.add(path, FieldErrorReason::NotFound, || quote(value), String::new);
    }

    /// Reports that the value refers to an object that does not exist; `detail` lists existing ones.
    pub(crate) fn not_found_with_detail(&mut self, path: &Path<'_>, value: &str, detail: impl Into<String>) {
        self.add(path, FieldErrorReason::NotFound, || quote(value), || detail);
    }

    /// Reports that the value is longer than `max_bytes`.
    pub fn too_long(&mut self, path: &Path<'_>, max_bytes: usize) {
        self.add(
            path,
            FieldErrorReason::TooLong,
            || None,
            || format!("may not be more than {max_bytes} bytes"),
        );
    }

    /// Reports that the list has too many items.
    pub fn too_many(&mut self, path: &Path<'_>, items: usize, max_items: usize) {
        self.add(
            path,
            FieldErrorReason::TooMany,
            || items.to_string(),
            || format!("must have at most {max_items} items"),
        );
    }

    /// Checks that a number is not negative.
    pub fn non_negative(&mut self, path: &Path<'_>, value: impl Into<i64>) {
        let value = value.into();
        if value < 0 {
            self.invalid(path, &value, "must be greater than or equal to 0");
        }
    }

    /// Checks that a field did not change.
    pub fn immutable<T: PartialEq + ErrorValue>(&mut self, path: &Path<'_>, new: &T, old: &T) {
        if new != old {
            self.invalid(path, new, "field is immutable");
        }
    }
}

/// Formats the list of supported values.
fn among(supported: &[&str]) -> String {
    let list: Vec<_> = supported.iter().map(|s| quote(s)).collect();
    format!("supported values: {}", list.join(", "))
}

/// A value that error messages can show.
pub trait ErrorValue {
    /// Returns the text that error messages show.
    fn display_value(&self) -> String;
}

impl ErrorValue for str {
    fn display_value(&self) -> String {
        quote(self)
    }
}

impl ErrorValue for String {
    fn display_value(&self) -> String {
        quote(self)
    }
}

macro_rules! shown_as_is {
    ($($number:ty),*) => {
        $(impl ErrorValue for $number {
            fn display_value(&self) -> String {
                self.to_string()
            }
        })*
    };
}
shown_as_is!(i32, i64, bool, Value);

impl ErrorValue for IntOrString {
    fn display_value(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::String(text) => quote(text),
        }
    }
}

impl ErrorValue for Quantity {
    fn display_value(&self) -> String {
        quote(&self.0)
    }
}

impl<T: ErrorValue> ErrorValue for Option<T> {
    fn display_value(&self) -> String {
        self.as_ref().map_or_else(|| "null".to_string(), ErrorValue::display_value)
    }
}

impl ErrorValue for Vec<String> {
    fn display_value(&self) -> String {
        json(self)
    }
}

/// An empty map is shown as Go's nil.
impl ErrorValue for BTreeMap<String, String> {
    fn display_value(&self) -> String {
        if self.is_empty() { "null".to_string() } else { json(self) }
    }
}

impl ErrorValue for LabelSelector {
    fn display_value(&self) -> String {
        json(self)
    }
}

/// Encodes a value as Go does: characters with a meaning in HTML are escaped.
fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).expect("values of fields are JSON");
    text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_kubernetes_writes_them_api_8() {
        let mut errors = FieldErrors::default();
        let spec = Path::root("spec");
        let containers = spec.child("containers");
        let container = containers.index(0);
        errors.required(&container.child("name"), "");
        errors.invalid(&spec.child("replicas"), &-1, "must be greater than or equal to 0");
        errors.unsupported(&spec.child("x"), "Maybe", &["DoNotSchedule", "ScheduleAnyway"]);
        errors.duplicate(&container.child("name"), "c");
        errors.too_long(&Path::root("metadata.annotations"), 5);
        errors.too_many(&spec.child("y"), 4, 3);
        errors.not_found(&Path::root("data").key("k"), "z");
        errors.forbidden(&spec, "no");
        assert_eq!(
            join(&errors.into_vec()),
            "[spec.containers[0].name: Required value, \
             spec.replicas: Invalid value: -1: must be greater than or equal to 0, \
             spec.x: Unsupported value: \"Maybe\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\", \
             spec.containers[0].name: Duplicate value: \"c\", \
             metadata.annotations: Too long: may not be more than 5 bytes, \
             spec.y: Too many: 4: must have at most 3 items, \
             data[k]: Not found: \"z\", \
             spec: Forbidden: no]"
        );
    }

    #[test]
    fn lists_and_selectors_are_shown_as_json_api_8() {
        let labels: BTreeMap<_, _> = [("a".to_string(), "<b>".to_string())].into();
        assert_eq!(labels.display_value(), r#"{"a":"\u003cb\u003e"}"#);
        assert_eq!(BTreeMap::<String, String>::new().display_value(), "null");
        let selector = LabelSelector { match_labels: Some(labels), match_expressions: None };
        assert_eq!(selector.display_value(), r#"{"matchLabels":{"a":"\u003cb\u003e"}}"#);
        assert_eq!(LabelSelector::default().display_value(), "{}");
        assert_eq!(vec!["a".to_string(), "b".to_string()].display_value(), r#"["a","b"]"#);
    }
}
