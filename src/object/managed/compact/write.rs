//! Writes sets and fingerprints.

use std::ops::Range;

use super::Cursor;
use super::names::FieldName;
use super::{BARE, BELOW, DIGEST, DIGEST_BYTES, END, INDEX, KEY, MEMBER, NAMED, NUMBERED, VALUE};
use crate::managed::fields_v1;
use crate::managed::{FieldSet, PathElement};

/// Encodes a set.
pub fn encode(set: &FieldSet) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.set(set);
    writer.bytes
}

/// Writes a set node by node; the nodes of one level must be in order.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// The position of a node's head.
#[derive(Clone, Copy, Debug)]
pub struct NodeOffset(usize);

impl Writer {
    /// Returns the encoding.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of bytes written: the position of the next node.
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Starts the node of a field.
    pub fn field(&mut self, name: &str, number: Option<FieldName>) -> NodeOffset {
        let place = NodeOffset(self.bytes.len());
        match number {
            Some(number) => {
                self.bytes.push(NUMBERED);
                self.number(u64::from(number.number()));
            }
            None => self.text(NAMED, name),
        }
        place
    }

    /// Starts the node of a list element; its key follows later by [`Writer::set_key`].
    pub fn element(&mut self) -> NodeOffset {
        self.bytes.push(KEY);
        NodeOffset(self.bytes.len() - 1)
    }

    /// Sets the key of the list element that was started.
    pub fn set_key(&mut self, place: NodeOffset, step: &PathElement) {
        let mut text = Self::default();
        text.text(KEY, &fields_v1::value_text(step));
        let at = place.0 + 1;
        self.bytes.splice(at..at, text.bytes.into_iter().skip(1));
    }

    /// Starts the node of a set element.
    pub fn value(&mut self, step: &PathElement) -> NodeOffset {
        let place = NodeOffset(self.bytes.len());
        self.text(VALUE, &fields_v1::value_text(step));
        place
    }

    /// Marks the path itself as in the set.
    pub fn member(&mut self, place: NodeOffset) {
        self.bytes[place.0] |= MEMBER;
    }

    /// Returns true if the path itself is in the set.
    pub fn is_member(&self, place: NodeOffset) -> bool {
        self.bytes[place.0] & MEMBER != 0
    }

    /// Adds a digest of the value after the path element. Must precede the children.
    pub fn digest(&mut self, place: NodeOffset, digest: u64, is_bare: bool) {
        self.bytes[place.0] |= if is_bare { DIGEST | BARE } else { DIGEST };
        self.bytes.extend_from_slice(&digest.to_le_bytes());
    }

    /// Ends the children of a node, if any were written since `start`.
    pub fn end_below(&mut self, place: NodeOffset, start: usize) {
        if self.bytes.len() > start {
            self.bytes[place.0] |= BELOW;
            self.bytes.push(END);
        }
    }

    /// Ends the top level.
    pub fn end(&mut self) {
        self.bytes.push(END);
    }

    /// Removes the last node and its children.
    pub fn forget(&mut self, place: NodeOffset) {
        self.bytes.truncate(place.0);
    }

    /// Sorts the nodes of one level, which were written since `start`. Nodes with the same path element become one
    /// leaf; in a fingerprint, `digest` computes the leaf's digest from their bytes.
    pub fn sort(
        &mut self,
        start: usize,
        mut nodes: Vec<(PathElement, Range<usize>)>,
        digest: Option<fn(&[u8]) -> u64>,
    ) {
        if nodes.is_sorted_by(|(a, _), (b, _)| a < b) {
            return;
        }
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        let tail = self.bytes.split_off(start);
        let whole = |range: &Range<usize>| &tail[range.start - start..range.end - start];
        for same in nodes.chunk_by(|(a, _), (b, _)| a == b) {
            let (step, first) = &same[0];
            if same.len() == 1 {
                self.bytes.extend_from_slice(whole(first));
                continue;
            }
            let place = self.step(step);
            self.member(place);
            if let Some(digest) = digest {
                let all: Vec<u8> = same.iter().flat_map(|(_, range)| whole(range).iter().copied()).collect();
                self.digest(place, digest(&all), false);
            }
        }
    }

    /// Sorts the fields of a map that were written since `start`.
    pub fn resort(&mut self, start: usize) {
        let mut cursor = Cursor::new(&self.bytes[start..]);
        let mut nodes = Vec::new();
        let position = |cursor: &Cursor<'_>| self.bytes.len() - cursor.remaining();
        let mut from = start;
        while let Some(item) = cursor.next_item() {
            cursor.pass(&item);
            nodes.extend(item.step().map(|step| (step, from..position(&cursor))));
            from = position(&cursor);
        }
        self.sort(start, nodes, None);
    }

    fn step(&mut self, step: &PathElement) -> NodeOffset {
        let place = NodeOffset(self.bytes.len());
        match step {
            PathElement::Field(name) => return self.field(name, FieldName::of(name)),
            PathElement::Key(_) => self.text(KEY, &fields_v1::value_text(step)),
            PathElement::Value(_) => return self.value(step),
            PathElement::Index(index) => {
                self.bytes.push(INDEX);
                self.number(index.cast_unsigned());
            }
        }
        place
    }

    fn set(&mut self, set: &FieldSet) {
        for (step, node) in set.nodes() {
            let place = self.step(step);
            if node.member {
                self.member(place);
            }
            if !node.below.is_empty() {
                self.bytes[place.0] |= BELOW;
                self.set(&node.below);
            }
        }
        self.end();
    }

    fn text(&mut self, head: u8, text: &str) {
        self.bytes.push(head);
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes a number with seven bits per byte, the lowest bits first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

const _: () = assert!(DIGEST_BYTES == size_of::<u64>());
