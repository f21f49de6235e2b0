//! What differs between two versions of an object, and the set of fields that one has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::types::{Owned, Type};
use object::managed::{FieldSet, Node, Step};

/// What differs, path by path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) added: FieldSet,
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
}

impl Changes {
    /// What was given a value.
    pub(crate) fn written(&self) -> FieldSet {
        self.added.union(&self.modified)
    }
}

/// What differs at and below one path.
#[derive(Default)]
struct Difference {
    added: Node,
    removed: Node,
    modified: Node,
}

impl Difference {
    fn put(&mut self, step: &Step, below: Self) {
        self.added.below.put(step.clone(), below.added);
        self.removed.below.put(step.clone(), below.removed);
        self.modified.below.put(step.clone(), below.modified);
    }
}

/// What differs between two versions.
pub(crate) fn compare(of: Type<'_>, old: &Value, new: &Value) -> Changes {
    let found = difference(of, Some(old), Some(new));
    Changes { added: found.added.below, removed: found.removed.below, modified: found.modified.below }
}

fn difference(of: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let mut found = Difference::default();
    let Some(either) = new.or(old) else { return found };
    if old == new {
        return found;
    }
    let owned = of.owned(either);
    let same_way = old.is_none_or(|old| of.owned(old) == owned);
    if same_way {
        match &owned {
            Owned::Leaf => {}
            Owned::Map => maps(of, old, new, &mut found),
            Owned::Set | Owned::Keyed(_) => lists(of, &owned, old, new, &mut found),
        }
    }
    // What is empty on both sides is compared as a whole.
    let is_leaf = !same_way || owned == Owned::Leaf || (is_bare(old) && is_bare(new));
    match (old, new) {
        (None, _) => found.added.member = true,
        (_, None) => found.removed.member = true,
        _ => found.modified.member = is_leaf,
    }
    found
}

fn is_bare(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn maps(of: Type<'_>, old: Option<&Value>, new: Option<&Value>, found: &mut Difference) {
    let (old, new) = (fields(old), fields(new));
    for (name, value) in new.into_iter().flatten() {
        let before = old.and_then(|old| old.get(name));
        if before != Some(value) {
            found.put(&Step::field(name), difference(of.field(name).0, before, Some(value)));
        }
    }
    for (name, value) in old.into_iter().flatten() {
        if new.is_none_or(|new| !new.contains_key(name)) {
            found.put(&Step::field(name), difference(of.field(name).0, Some(value), None));
        }
    }
}

type Sides<'a> = (Vec<&'a Value>, Vec<&'a Value>);

fn lists(of: Type<'_>, owned: &Owned<'_>, old: Option<&Value>, new: Option<&Value>, found: &mut Difference) {
    let items = |value: Option<&'a Value>| value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (old, new): (&'a [Value], &'a [Value]) = (items(old), items(new));
    let mut elements: BTreeMap<Step, Sides<'_>> = BTreeMap::new();
    for item in old {
        if let Ok(step) = of.step_to(owned, item) {
            elements.entry(step).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(step) = of.step_to(owned, item) {
            elements.entry(step).or_default().1.push(item);
        }
    }
    for (step, (old, new)) in elements {
        if old.len() <= 1 && new.len() <= 1 {
            found.put(&step, difference(of.item(), old.first().copied(), new.first().copied()));
        } else if old != new {
            // What stands there twice is compared as a whole.
            let side = match (old.is_empty(), new.is_empty()) {
                (true, _) => &mut found.added,
                (_, true) => &mut found.removed,
                _ => &mut found.modified,
            };
            side.below.put(step, Node::leaf());
        }
    }
}

/// The fields that a value has.
pub(crate) fn field_set(of: Type<'_>, value: &Value) -> FieldSet {
    fields_of(of, value).below
}

fn fields_of(of: Type<'_>, value: &Value) -> Node {
    let owned = of.owned(value);
    let mut node = Node::default();
    match (&owned, value) {
        (Owned::Leaf, _) => node.member = true,
        (Owned::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                let (type_, is_named) = of.field(name);
                let mut below = fields_of(type_, value);
                below.member |= !is_named || is_bare_map(value);
                node.below.put(Step::field(name), below);
            }
        }
        (_, Value::Array(items)) => {
            let mut elements: BTreeMap<Step, Vec<&Value>> = BTreeMap::new();
            for item in items {
                if let Ok(step) = of.step_to(&owned, item) {
                    elements.entry(step).or_default().push(item);
                }
            }
            for (step, items) in elements {
                let mut below = match items.as_slice() {
                    [only] => fields_of(of.item(), only),
                    _ => Node::default(),
                };
                below.member = true;
                node.below.put(step, below);
            }
        }
        _ => {}
    }
    node
}

fn is_bare_map(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// The set with every field on the way to its paths that the type names: such a field is there because of what is in
/// it.
pub(crate) fn with_named_fields(of: Type<'_>, set: &FieldSet) -> FieldSet {
    set.nodes()
        .map(|(step, node)| {
            let is_named = match step {
                Step::Field(name) => of.field(name).1,
                _ => false,
            };
            let member = node.member || (is_named && !node.below.is_empty());
            (step.clone(), Node { member, below: with_named_fields(of.below(step), &node.below) })
        })
        .collect()
}
