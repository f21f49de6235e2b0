//! A set of paths in few bytes: a byte a step says of what sort it is, names of fields are numbers.
//!
//! The numbers are this process' own; what leaves it is JSON.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use super::fields_v1;
use super::path::Step;
use super::set::{FieldSet, Node};

/// How many names of fields are numbered: all that schemas have and the usual labels. Others are written out, so
/// that clients cannot fill the memory with names.
const MAX_NAMES: usize = 1 << 14;
/// Longer names are written out.
const MAX_NAME_BYTES: usize = 64;

const END: u8 = 0;
const NAMED: u8 = 1;
const NUMBERED: u8 = 2;
const KEY: u8 = 3;
const VALUE: u8 = 4;
const INDEX: u8 = 5;
const SORT: u8 = 0x0f;
const MEMBER: u8 = 0x10;
const BELOW: u8 = 0x20;

#[derive(Default)]
struct Names {
    numbers: HashMap<Arc<str>, usize>,
    names: Vec<Arc<str>>,
}

static NAMES: LazyLock<RwLock<Names>> = LazyLock::new(RwLock::default);

/// The number of a name, given one now if there is room.
fn number(name: &str) -> Option<usize> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    if let Some(number) = NAMES.read().numbers.get(name) {
        return Some(*number);
    }
    let mut names = NAMES.write();
    if let Some(number) = names.numbers.get(name) {
        return Some(*number);
    }
    let number = names.names.len();
    if number >= MAX_NAMES {
        return None;
    }
    let name: Arc<str> = name.into();
    names.names.push(name.clone());
    names.numbers.insert(name, number);
    Some(number)
}

fn name(number: usize) -> Box<str> {
    let names = NAMES.read();
    names.names.get(number).map_or_else(Box::default, |name| (**name).into())
}

pub(super) fn encode(set: &FieldSet) -> Vec<u8> {
    let mut out = Vec::new();
    write(set, &mut out);
    out
}

fn write(set: &FieldSet, out: &mut Vec<u8>) {
    for (step, node) in set.nodes() {
        let below = if node.below.is_empty() { 0 } else { BELOW };
        let flags = below | if node.member { MEMBER } else { 0 };
        match step {
            Step::Field(name) => match number(name) {
                Some(number) => {
                    out.push(NUMBERED | flags);
                    write_number(number as u64, out);
                }
                None => write_text(NAMED | flags, name, out),
            },
            Step::Key(_) => write_text(KEY | flags, &fields_v1::value_text(step), out),
            Step::Value(_) => write_text(VALUE | flags, &fields_v1::value_text(step), out),
            Step::Index(index) => {
                out.push(INDEX | flags);
                write_number(index.cast_unsigned(), out);
            }
        }
        if below != 0 {
            write(&node.below, out);
        }
    }
    out.push(END);
}

fn write_text(head: u8, text: &str, out: &mut Vec<u8>) {
    out.push(head);
    write_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Seven bits a byte, the lowest first.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a text as JSON.
pub(super) fn write_json_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a text is JSON");
}

/// What [`encode`] made.
pub(super) fn decode(bytes: &[u8]) -> FieldSet {
    let mut reader = Reader(bytes);
    reader.set()
}

/// The names of the fields at the top of what [`encode`] made.
pub(super) fn top_fields(bytes: &[u8]) -> Vec<Box<str>> {
    let mut names = Vec::new();
    Reader(bytes).pass(&mut |name| names.push(name), 0);
    names
}

/// Appends what [`encode`] made as `fieldsV1` has it.
pub(super) fn write_json(bytes: &[u8], out: &mut Vec<u8>) {
    Reader(bytes).json(false, out);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
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

    fn bytes(&mut self) -> &[u8] {
        let length = (self.number() as usize).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn text(&mut self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Passes over a set; tells the names of fields at its top.
    fn pass(&mut self, tell: &mut dyn FnMut(Box<str>), depth: usize) {
        loop {
            let head = self.byte();
            match head & SORT {
                NAMED if depth == 0 => tell(self.text().into()),
                NUMBERED if depth == 0 => tell(name(self.number() as usize)),
                NAMED | KEY | VALUE => _ = self.bytes(),
                NUMBERED | INDEX => _ = self.number(),
                _ => return,
            }
            if head & BELOW != 0 {
                self.pass(tell, depth + 1);
            }
        }
    }

    fn json(&mut self, itself: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        if itself {
            out.extend_from_slice(b"\".\":{}");
        }
        let mut is_first = !itself;
        loop {
            let head = self.byte();
            let step = match head & SORT {
                NAMED => format!("f:{}", self.text()),
                NUMBERED => format!("f:{}", name(self.number() as usize)),
                KEY => format!("k:{}", self.text()),
                VALUE => format!("v:{}", self.text()),
                INDEX => format!("i:{}", self.number().cast_signed()),
                _ => break,
            };
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            write_json_text(&step, out);
            out.push(b':');
            if head & BELOW == 0 {
                out.extend_from_slice(b"{}");
            } else {
                self.json(head & MEMBER != 0, out);
            }
        }
        out.push(b'}');
    }

    fn set(&mut self) -> FieldSet {
        let mut nodes = Vec::new();
        loop {
            let head = self.byte();
            let step = match head & SORT {
                NAMED => Some(Step::field(self.text())),
                NUMBERED => Some(Step::Field(name(self.number() as usize))),
                KEY => fields_v1::read_key(self.text()).ok(),
                VALUE => fields_v1::read_value(self.text()).ok(),
                INDEX => Some(Step::Index(self.number().cast_signed())),
                _ => return nodes.into_iter().collect(),
            };
            let below = if head & BELOW == 0 { FieldSet::default() } else { self.set() };
            if let Some(step) = step {
                nodes.push((step, Node { member: head & MEMBER != 0, below }));
            }
        }
    }
}
