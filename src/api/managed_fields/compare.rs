//! Differences between two versions of an object, and the field set of one.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::types::{OwnershipKind, Type};
use object::managed::compact::{Cursor, Item, ValueKind};
use object::managed::{FieldSet, Node, PathElement};

/// Differences by path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) added: FieldSet,
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
}

impl Changes {
    /// Returns true if nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.modified.is_empty()
    }
}

/// Differences below one path, by path element.
#[derive(Default)]
struct Differences {
    added: Vec<(PathElement, Node)>,
    removed: Vec<(PathElement, Node)>,
    modified: Vec<(PathElement, Node)>,
}

/// Returns the differences between two versions, given their [fingerprints](mod@super::fingerprint).
pub(crate) fn compare(old: &[u8], new: &[u8]) -> Changes {
    if old == new {
        return Changes::default();
    }
    level(&mut Cursor::new(old), &mut Cursor::new(new))
}

/// Compares two levels in parallel; both are sorted.
fn level(old: &mut Cursor<'_>, new: &mut Cursor<'_>) -> Changes {
    let mut found = Differences::default();
    let (mut before, mut after) = (old.next_item(), new.next_item());
    loop {
        let order = match (&before, &after) {
            (None, None) => return found.finish(),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) if before.same_step(after) => Ordering::Equal,
            (Some(before), Some(after)) => before.step().cmp(&after.step()),
        };
        match (order, &before, &after) {
            (Ordering::Equal, Some(before), Some(after)) => found.both(before, after, old, new),
            (Ordering::Less, Some(before), _) => {
                let node = old.node(before);
                Differences::put(&mut found.removed, before, node);
            }
            (_, _, Some(after)) => {
                let node = new.node(after);
                Differences::put(&mut found.added, after, node);
            }
            _ => {}
        }
        if order.is_le() {
            before = old.next_item();
        }
        if order.is_ge() {
            after = new.next_item();
        }
    }
}

impl Differences {
    fn put(list: &mut Vec<(PathElement, Node)>, item: &Item<'_>, node: Node) {
        if !node.is_empty() {
            list.extend(item.step().map(|step| (step, node)));
        }
    }

    /// Compares an item that exists in both. If both are empty, they are compared as a whole.
    fn both(&mut self, before: &Item<'_>, after: &Item<'_>, old: &mut Cursor<'_>, new: &mut Cursor<'_>) {
        let below = |below| Node { member: false, below };
        match (before.kind(), after.kind()) {
            (ValueKind::Leaf(a), ValueKind::Leaf(b)) | (ValueKind::Bare(a), ValueKind::Bare(b)) => {
                if a != b {
                    Self::put(&mut self.modified, after, Node::leaf());
                }
            }
            (ValueKind::Leaf(_), _) | (_, ValueKind::Leaf(_)) => {
                old.pass(before);
                new.pass(after);
                Self::put(&mut self.modified, after, Node::leaf());
            }
            (ValueKind::Inner, ValueKind::Inner) if before.has_below() && after.has_below() => {
                let Changes { added, removed, modified } = level(old, new);
                Self::put(&mut self.added, after, below(added));
                Self::put(&mut self.removed, after, below(removed));
                Self::put(&mut self.modified, after, below(modified));
            }
            _ => {
                Self::put(&mut self.removed, before, below(old.below(before)));
                Self::put(&mut self.added, after, below(new.below(after)));
            }
        }
    }

    fn finish(self) -> Changes {
        let set = |nodes: Vec<(PathElement, Node)>| nodes.into_iter().collect();
        Changes { added: set(self.added), removed: set(self.removed), modified: set(self.modified) }
    }
}

/// Returns the field set of a value.
pub(crate) fn field_set(of: Type<'_>, value: &Value) -> FieldSet {
    fields_of(of, value).below
}

fn fields_of(of: Type<'_>, value: &Value) -> Node {
    let owned = of.owned(value);
    let below = match (&owned, value) {
        (OwnershipKind::Leaf, _) => return Node::leaf(),
        (OwnershipKind::Map, Value::Object(fields)) => fields
            .iter()
            .map(|(name, value)| {
                let (type_, is_named) = of.field(name);
                let mut below = fields_of(type_, value);
                below.member |= !is_named || is_bare_map(value);
                (PathElement::field(name), below)
            })
            .collect(),
        (_, Value::Array(items)) => {
            let mut elements: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
            for item in items {
                if let Ok(step) = of.step_to(&owned, item) {
                    elements.entry(step).or_default().push(item);
                }
            }
            let of_items = |(step, items): (PathElement, Vec<&Value>)| {
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

/// Returns the set with every field above its members that the type names: such a field exists because of its
/// content.
pub(crate) fn with_named_fields(of: Type<'_>, set: &FieldSet) -> FieldSet {
    set.nodes()
        .map(|(step, node)| {
            let is_named = match step {
                PathElement::Field(name) => of.field(name).1,
                _ => false,
            };
            let member = node.member || (is_named && !node.below.is_empty());
            (step.clone(), Node { member, below: with_named_fields(of.below(step), &node.below) })
        })
        .collect()
}

/// Returns true if an encoded set contains parts of atomic lists or maps. Only the path elements with
/// children are decoded.
pub(crate) fn has_parts_of_wholes(of: Type<'_>, encoded: &[u8]) -> bool {
    any_part_of_a_whole(of, &mut Cursor::new(encoded))
}

fn any_part_of_a_whole(of: Type<'_>, level: &mut Cursor<'_>) -> bool {
    while let Some(item) = level.next_item() {
        if !item.has_below() {
            continue;
        }
        let Some(step) = item.step() else { return true };
        let below = of.below(&step);
        if below.is_whole() || any_part_of_a_whole(below, level) {
            return true;
        }
    }
    false
}

/// Returns the set with atomic lists and maps in place of their parts, which had owners before the schema
/// made the list or map atomic.
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
