//! One object of a manifest: its value, its source, and the positions of its fields.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::error::{ManifestError, Position};
use super::node::{self, Content, Node};
use base::did_you_mean::nearest;
use object::{Kind, Object, ServedKind};

/// One object of a manifest.
#[derive(Clone, Debug)]
pub struct Document {
    /// The object as JSON.
    pub value: Value,
    /// The file, or `-` for standard input.
    pub(crate) source: Arc<str>,
    /// The line at which the object starts, counted from 1.
    pub line: usize,
    tree: Arc<Node>,
}

impl Document {
    /// Returns the `kind` field; empty if it is missing.
    pub(crate) fn kind_name(&self) -> &str {
        self.text("kind")
    }

    /// Returns the `apiVersion` field; empty if it is missing.
    pub(crate) fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    fn text(&self, field: &str) -> &str {
        self.value.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Formats the object as `Deployment/web`, for messages.
    pub fn label(&self) -> String {
        let name = self.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("(no name)");
        format!("{}/{name}", self.kind_name())
    }

    /// Returns the position of a field such as `spec.template.spec.containers[0].image`. A missing field has the
    /// position of the nearest existing part of its path.
    pub fn position(&self, path: &str) -> Position {
        node::find(&self.tree, path)
    }

    /// Returns an error about a field of the object; an empty `field` stands for the whole object.
    pub fn error(&self, field: &str, message: impl Into<String>) -> ManifestError {
        ManifestError {
            source: self.source.clone(),
            position: Some(self.position(field)),
            field: (!field.is_empty()).then(|| field.to_string()),
            message: message.into(),
        }
    }

    /// Returns the object's kind, without the version that it is written in; see [`Document::served`].
    pub fn kind(&self) -> Result<Kind, ManifestError> {
        self.served().map(ServedKind::kind)
    }

    /// Returns the object's kind in the version that it is written in; the error for an unknown kind names the most
    /// similar one.
    pub fn served(&self) -> Result<ServedKind, ManifestError> {
        let (api_version, name) = (self.api_version(), self.kind_name());
        if let Some(served) = ServedKind::from_api_version(api_version, name) {
            return Ok(served);
        }
        if name.is_empty() {
            return Err(self.error("kind", "Required value: must be the kind of the object"));
        }
        let known: Vec<Kind> = Kind::BUILT_IN.iter().copied().filter(|k| k.info().name == name).collect();
        if !known.is_empty() {
            let versions: Vec<_> = known.iter().map(|k| k.info().api_version()).collect();
            let versions = versions.join(" and ");
            return Err(if api_version.is_empty() {
                self.error("apiVersion", format!("Required value: must be {versions} for {name}"))
            } else {
                let message = format!("no kind \"{name}\" in version \"{api_version}\"; use {versions}");
                self.error("apiVersion", message)
            });
        }
        let mut message = format!("no kind \"{name}\" in version \"{api_version}\"");
        if let Some(nearest) = nearest_kind(name) {
            let info = nearest.info();
            let _ = write!(message, ", did you mean {} ({})?", info.name, info.api_version());
        }
        Err(self.error("kind", message))
    }

    /// Returns true if the object's API group has no built-in kinds: a server may still know the kind.
    pub fn is_of_another_group(&self) -> bool {
        let (group, _) = object::split_api_version(self.api_version());
        !group.is_empty()
            && !self.kind_name().is_empty()
            && !ServedKind::built_in().any(|known| known.group() == group)
    }

    /// Decodes the typed object; the error about a value of the wrong type has the position of the object.
    pub fn object(&self) -> Result<Object, ManifestError> {
        let served = self.served()?;
        Object::from_value(served.kind(), served.stored(self.value.clone()))
            .map_err(|e| self.error("", e.to_string()))
    }
}

/// Returns the value of a tree, or of each item if the tree is a list.
pub(super) fn values(source: &Arc<str>, tree: &Arc<Node>) -> Vec<Result<Document, ManifestError>> {
    let roots = match &tree.content {
        Content::List(items) => items.as_slice(),
        _ => std::slice::from_ref(tree),
    };
    let read = |root: &Arc<Node>| match node::to_value(root) {
        Ok(value) => {
            Ok(Document { line: root.start.line, source: source.clone(), tree: root.clone(), value })
        }
        Err(fault) => Err(ManifestError::of_fault(source, fault)),
    };
    roots.iter().map(read).collect()
}

/// Adds the object of a tree to `results`, or each item if the object is of a `List` kind.
pub(super) fn from_tree(
    source: &Arc<str>,
    tree: &Arc<Node>,
    results: &mut Vec<Result<Document, ManifestError>>,
) {
    let value = match node::to_value(tree) {
        Ok(value) => value,
        Err(fault) => return results.push(Err(ManifestError::of_fault(source, fault))),
    };
    let Value::Object(fields) = &value else {
        let found = match &value {
            Value::Array(_) => "a list",
            Value::String(_) => "a string",
            Value::Number(_) => "a number",
            _ => "a boolean",
        };
        let message = format!("expected an object with apiVersion and kind, found {found}");
        return results.push(Err(ManifestError::at(source, tree.start, message)));
    };
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    let item_kind = kind.strip_suffix("List").filter(|_| fields.contains_key("items"));
    let Some(item_kind) = item_kind else {
        return results.push(Ok(Document {
            line: tree.start.line,
            source: source.clone(),
            tree: tree.clone(),
            value,
        }));
    };
    let api_version = fields.get("apiVersion").cloned();
    for item in items_of(tree) {
        let before = results.len();
        from_tree(source, item, results);
        // The items of a `PodList` need not name their kind.
        for result in results.iter_mut().skip(before).flatten() {
            if let Some(fields) = result.value.as_object_mut()
                && !item_kind.is_empty()
                && !fields.contains_key("kind")
            {
                fields.insert("kind".into(), item_kind.into());
                if let Some(version) = &api_version {
                    fields.entry("apiVersion").or_insert_with(|| version.clone());
                }
            }
        }
    }
}

fn items_of(tree: &Node) -> &[Arc<Node>] {
    let Content::Map(entries) = &tree.content else { return &[] };
    match entries.iter().find(|e| e.key == "items").map(|e| &e.value.content) {
        Some(Content::List(list)) => list,
        _ => &[],
    }
}

/// Returns the kind with the name most similar to a misspelt one.
fn nearest_kind(name: &str) -> Option<Kind> {
    if let Some(kind) = Kind::from_user_input(name) {
        return Some(kind);
    }
    let singular = |kind: &Kind| kind.info().singular;
    let near = nearest(name, Kind::BUILT_IN.iter().map(singular))?;
    Kind::BUILT_IN.iter().copied().find(|kind| singular(kind) == near)
}
