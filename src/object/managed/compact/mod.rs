//! A compact encoding of path sets: one byte for the type of each path element, and numbers for field names.
//!
//! The nodes of a level are written in the order of their elements, each as a head, the element, the children and
//! [`END`]. A fingerprint of an object has the same format, with a digest of the value after the element of each leaf.
//! Outside the process the format is always JSON.

mod names;
mod read;
mod write;

pub use names::FieldName;
pub use read::{Cursor, Item, ValueKind};
pub(super) use read::{decode, write_json};
pub use write::{NodeOffset, Writer, encode};

/// Ends the nodes of one level.
const END: u8 = 0;
/// The low bits of a head: the type of the element.
const TYPE_MASK: u8 = 0x0f;
/// A field with its name written out.
const NAMED: u8 = 1;
/// A field with a numbered name.
const NUMBERED: u8 = 2;
/// The list element that is identified by these fields, as JSON.
const KEY: u8 = 3;
/// The element of a set, as JSON.
const VALUE: u8 = 4;
/// The element at this index.
const INDEX: u8 = 5;
/// The path itself is in the set.
const MEMBER: u8 = 0x10;
/// Child nodes follow.
const BELOW: u8 = 0x20;
/// A digest of the value follows the element.
const DIGEST: u8 = 0x40;
/// The value is an empty map or list, or null.
const BARE: u8 = 0x80;
/// The length of a digest in bytes.
const DIGEST_BYTES: usize = 8;

/// Returns true if a set has every path of another; both are written by [`encode`] or as fingerprints.
pub fn contains(set: &[u8], other: &[u8]) -> bool {
    read::has_all(&mut Cursor::new(set), &mut Cursor::new(other))
}

/// Returns true if the two sets have a common element at the top level.
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
