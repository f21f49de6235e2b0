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

/// What differs at and below one path.
#[derive(Default)]
struct Difference {
    added: Node,
    removed: Node,
    modified: Node,
}

/// What differs below one path, step by step.
#[derive(Default)]
struct Below {
    added: Vec<(Step, Node)>,
    removed: Vec<(Step, Node)>,
    modified: Vec<(Step, Node)>,
}

impl Below {
    /// `step` is made only for what differs.
    fn put(&mut self, step: impl Fn() -> Step, found: Difference) {
        let Difference { added, removed, modified } = found;
        let lists = [(&mut self.added, added), (&mut self.removed, removed), (&mut self.modified, modified)];
        for (list, node) in lists {
            if !node.is_empty() {
                list.push((step(), node));
            }
        }
    }

    fn finish(self) -> Difference {
        let node = |nodes: Vec<(Step, Node)>| Node { member: false, below: nodes.into_iter().collect() };
        Difference { added: node(self.added), removed: node(self.removed), modified: node(self.modified) }
    }
}

/// What differs between two versions.
pub(crate) fn compare(of: Type<'_>, old: &Value, new: &Value) -> Changes {
    let found = difference(of, Some(old), Some(new));
    Changes { added: found.added.below, removed: found.removed.below, modified: found.modified.below }
}

fn difference(of: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let Some(either) = new.or(old) else { return Difference::default() };
    let owned = of.owned(either);
    let same_way = old.is_none_or(|old| of.owned(old) == owned);
    // What is empty on both sides is compared as a whole.
    let is_leaf = !same_way || owned == Owned::Leaf || (is_bare(old) && is_bare(new));
    // Only a leaf: anything else is compared part by part, once.
    if is_leaf && old == new {
        return Difference::default();
    }
    let mut found = match &owned {
        Owned::Map if same_way => maps(of, old, new),
        Owned::Set | Owned::Keyed(_) if same_way => lists(of, &owned, old, new),
        _ => Difference::default(),
    };
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

fn maps(of: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let (old, new) = (fields(old), fields(new));
    let mut found = Below::default();
    for (name, value) in new.into_iter().flatten() {
        let before = old.and_then(|old| old.get(name));
        found.put(|| Step::field(name), difference(of.field(name).0, before, Some(value)));
    }
    for (name, value) in old.into_iter().flatten() {
        if new.is_none_or(|new| !new.contains_key(name)) {
            found.put(|| Step::field(name), difference(of.field(name).0, Some(value), None));
        }
    }
    found.finish()
}

type Sides<'a> = (Vec<&'a Value>, Vec<&'a Value>);

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn lists(of: Type<'_>, owned: &Owned<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let (old, new) = (items(old), items(new));
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
    let mut found = Below::default();
    for (step, (old, new)) in elements {
        if old.len() <= 1 && new.len() <= 1 {
            let of_item = difference(of.item(), old.first().copied(), new.first().copied());
            found.put(|| step.clone(), of_item);
        } else if old != new {
            // What stands there twice is compared as a whole.
            let side = match (old.is_empty(), new.is_empty()) {
                (true, _) => &mut found.added,
                (_, true) => &mut found.removed,
                _ => &mut found.modified,
            };
            side.push((step, Node::leaf()));
        }
    }
    found.finish()
}

/// The fields that a value has.
pub(crate) fn field_set(of: Type<'_>, value: &Value) -> FieldSet {
    fields_of(of, value).below
}

fn fields_of(of: Type<'_>, value: &Value) -> Node {
    let owned = of.owned(value);
    let below = match (&owned, value) {
        (Owned::Leaf, _) => return Node::leaf(),
        (Owned::Map, Value::Object(fields)) => fields
            .iter()
            .map(|(name, value)| {
                let (type_, is_named) = of.field(name);
                let mut below = fields_of(type_, value);
                below.member |= !is_named || is_bare_map(value);
                (Step::field(name), below)
            })
            .collect(),
        (_, Value::Array(items)) => {
            let mut elements: BTreeMap<Step, Vec<&Value>> = BTreeMap::new();
            for item in items {
                if let Ok(step) = of.step_to(&owned, item) {
                    elements.entry(step).or_default().push(item);
                }
            }
            let of_items = |(step, items): (Step, Vec<&Value>)| {
                let mut below = match items.as_slice() {
                    [only] => fields_of(of.item(), only),
                    _ => Node::default(),
                };
                below.member = true;
                (step, below)
            };
            elements.into_iter().map(of_items).collect()
        }
        _ => FieldSet::default(),
    };
    Node { member: false, below }
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

/// The set with whole lists and maps in place of what was owned in them before their schema said that they are owned as
/// wholes.
pub(crate) fn with_wholes(of: Type<'_>, set: &FieldSet) -> FieldSet {
    set.nodes()
        .map(|(step, node)| {
            let type_ = of.below(step);
            let is_whole = !node.below.is_empty() && type_.is_whole();
            let node = if is_whole {
                Node::leaf()
            } else {
                Node { member: node.member, below: with_wholes(type_, &node.below) }
            };
            (step.clone(), node)
        })
        .collect()
}
