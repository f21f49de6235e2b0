//! A set of paths in few bytes: a byte a step says of what sort it is, names of fields are numbers.
//!
//! Node by node in the order of their steps: a head, the step, what is below and [`END`]. A fingerprint of an object is
//! written alike, with a digest of the value after the step of each leaf. What leaves the process is JSON.

mod names;
mod read;
mod write;

pub use names::FieldName;
pub use read::{Cursor, Item, Sort};
pub(super) use read::{decode, write_json, write_json_text};
pub use write::{Place, Writer, encode};

/// No further node.
const END: u8 = 0;
/// The low bits of a head: what the step is.
const SORT: u8 = 0x0f;
/// A field whose name is written out.
const NAMED: u8 = 1;
/// A field whose name has a number.
const NUMBERED: u8 = 2;
/// The element of a list with these fields, as JSON.
const KEY: u8 = 3;
/// The element of a set, as JSON.
const VALUE: u8 = 4;
/// The element at this place.
const INDEX: u8 = 5;
/// The path itself is in the set.
const MEMBER: u8 = 0x10;
/// Nodes follow that are below this one.
const BELOW: u8 = 0x20;
/// A digest of the value follows the step.
const DIGEST: u8 = 0x40;
/// The value is a map or list without anything in it, or null.
const BARE: u8 = 0x80;
/// How many bytes a digest takes.
const DIGEST_BYTES: usize = 8;

/// Whether a set has every path of another: both written by [`encode`] or as a fingerprint is.
pub fn contains(set: &[u8], other: &[u8]) -> bool {
    read::has_all(&mut Cursor::new(set), &mut Cursor::new(other))
}

/// Whether one of these nodes stands at the top of both.
pub fn touch(set: &[u8], other: &[u8]) -> bool {
    let mut cursor = Cursor::new(set);
    while let Some(item) = cursor.next_item() {
        let mut others = Cursor::new(other);
        while let Some(other) = others.next_item() {
            if item.same_step(&other) {
                return true;
            }
            others.pass(&other);
        }
        cursor.pass(&item);
    }
    false
}
