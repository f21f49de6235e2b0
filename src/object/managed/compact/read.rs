//! Reads sets and fingerprints.

use super::names::Names;
use super::{BARE, BELOW, DIGEST, DIGEST_BYTES, END, INDEX, KEY, MEMBER, NAMED, NUMBERED, TYPE_MASK, VALUE};
use crate::json_text::write_text;
use crate::managed::fields_v1;
use crate::managed::{FieldSet, Node, PathElement};

/// Decodes the output of [`super::encode`].
pub(crate) fn decode(bytes: &[u8]) -> FieldSet {
    Cursor::new(bytes).set()
}

/// Writes the output of [`super::encode`] as `fieldsV1`.
pub(crate) fn write_json(bytes: &[u8], out: &mut Vec<u8>) {
    json(&mut Cursor::new(bytes), &Names::read(), false, out);
}

/// Reads nodes one after the other.
#[derive(Clone, Debug)]
pub struct Cursor<'a>(&'a [u8]);

/// A node's head and step.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    head: u8,
    /// A numbered field's number, or the element's text.
    step: &'a [u8],
    digest: Option<u64>,
}

/// A value's type in a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A value that is owned as a whole, with its digest.
    Leaf(u64),
    /// An empty map, an empty list or null, with its digest.
    Bare(u64),
    /// A value with children.
    Inner,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the first node.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes left.
    pub(super) fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Returns the next node at this level. Its children come next and must be read or skipped.
    pub fn next_item(&mut self) -> Option<Item<'a>> {
        let head = self.byte();
        let step = match head & TYPE_MASK {
            NAMED | KEY | VALUE => {
                let length = self.number() as usize;
                self.bytes(length)
            }
            NUMBERED | INDEX => {
                let before = self.0;
                self.number();
                &before[..before.len() - self.0.len()]
            }
            _ => return None,
        };
        let digest = (head & DIGEST != 0).then(|| {
            let bytes = self.bytes(DIGEST_BYTES);
            bytes.try_into().map_or(0, u64::from_le_bytes)
        });
        Some(Item { head, step, digest })
    }

    /// Skips a node's children.
    pub fn pass(&mut self, item: &Item<'_>) {
        if !item.has_below() {
            return;
        }
        while let Some(below) = self.next_item() {
            self.pass(&below);
        }
    }

    /// Returns the set below a node.
    pub fn below(&mut self, item: &Item<'_>) -> FieldSet {
        if item.has_below() { self.set() } else { FieldSet::default() }
    }

    /// Returns the set at and below a node.
    pub fn node(&mut self, item: &Item<'_>) -> Node {
        Node { member: item.is_member(), below: self.below(item) }
    }

    fn set(&mut self) -> FieldSet {
        let mut nodes = Vec::new();
        while let Some(item) = self.next_item() {
            let node = self.node(&item);
            nodes.extend(item.step().map(|step| (step, node)));
        }
        nodes.into_iter().collect()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return END };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 || shift > 63 {
                return number;
            }
        }
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

impl<'a> Item<'a> {
    /// Returns true if the path itself is in the set.
    pub fn is_member(&self) -> bool {
        self.head & MEMBER != 0
    }

    /// Returns true if the node has children.
    pub fn has_below(&self) -> bool {
        self.head & BELOW != 0
    }

    /// Returns the type of the node's value in a fingerprint.
    pub fn kind(&self) -> ValueKind {
        match self.digest {
            Some(digest) if self.head & BARE != 0 => ValueKind::Bare(digest),
            Some(digest) => ValueKind::Leaf(digest),
            None => ValueKind::Inner,
        }
    }

    /// Returns true if two nodes have the same step.
    pub fn same_step(&self, other: &Self) -> bool {
        self.head & TYPE_MASK == other.head & TYPE_MASK && self.step == other.step
    }

    /// Returns the node's path element; `None` if it cannot be read.
    pub fn step(&self) -> Option<PathElement> {
        match self.head & TYPE_MASK {
            NAMED => Some(PathElement::field(self.text())),
            NUMBERED => Some(PathElement::field(Names::read().text(self.number()))),
            KEY => fields_v1::read_key(self.text()).ok(),
            VALUE => fields_v1::read_value(self.text()).ok(),
            INDEX => Some(PathElement::Index(self.number().cast_signed())),
            _ => None,
        }
    }

    fn number(&self) -> u64 {
        Cursor(self.step).number()
    }

    fn text(&self) -> &'a str {
        std::str::from_utf8(self.step).expect("a step of this kind was written from text")
    }
}

/// Returns true if `set` has all nodes that `other` has at this level and below. Both must be in order.
pub(super) fn has_all(set: &mut Cursor<'_>, other: &mut Cursor<'_>) -> bool {
    while let Some(needle) = other.next_item() {
        let found = loop {
            match set.next_item() {
                Some(item) if item.same_step(&needle) => break item,
                Some(item) => set.pass(&item),
                None => return false,
            }
        };
        if needle.is_member() && !found.is_member() {
            return false;
        }
        let has_below = match (found.has_below(), needle.has_below()) {
            (true, true) => has_all(set, other),
            (true, false) => {
                set.pass(&found);
                true
            }
            (false, other_below) => !other_below,
        };
        if !has_below {
            return false;
        }
    }
    // Skip the rest of this level, so that the next read continues after it.
    while let Some(rest) = set.next_item() {
        set.pass(&rest);
    }
    true
}

fn json(cursor: &mut Cursor<'_>, names: &Names, itself: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if itself { b"{\".\":{}" } else { b"{" });
    let mut is_first = !itself;
    while let Some(item) = cursor.next_item() {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        let mut key = |prefix: &str, text: &str| {
            write_text(&format!("{prefix}:{text}"), out);
            out.push(b':');
        };
        match item.head & TYPE_MASK {
            NUMBERED => out.extend_from_slice(names.key(item.number())),
            NAMED => key("f", item.text()),
            KEY => key("k", item.text()),
            VALUE => key("v", item.text()),
            _ => key("i", &item.number().cast_signed().to_string()),
        }
        if item.has_below() {
            json(cursor, names, item.is_member(), out);
        } else {
            out.extend_from_slice(b"{}");
        }
    }
    out.push(b'}');
}
