//! Encodes fields of messages: tags, numbers, lengths. Independent of types.

/// The wire types that are written.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

/// Appends a number, seven bits a byte.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire: u32) {
    put_varint(out, u64::from(number << 3 | wire));
}

/// Appends a field that holds an integer or a boolean.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_tag(out, number, VARINT);
    put_varint(out, value);
}

/// Appends a field that holds a double.
pub(super) fn put_fixed64(out: &mut Vec<u8>, number: u32, bytes: [u8; 8]) {
    put_tag(out, number, FIXED64);
    out.extend(bytes);
}

/// Appends a field that holds text, bytes or a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_head(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the tag and length of a field.
pub(super) fn put_head(out: &mut Vec<u8>, number: u32, length: usize) {
    put_tag(out, number, LENGTH);
    put_varint(out, length as u64);
}

/// A message that is being written into another one.
#[derive(Debug)]
#[must_use]
pub(super) struct OpenMessage {
    start: usize,
}

impl OpenMessage {
    /// Starts the message in a field.
    pub(super) fn message(out: &mut Vec<u8>, number: u32) -> Self {
        put_tag(out, number, LENGTH);
        Self { start: out.len() }
    }

    /// Ends the message, and inserts its length before it.
    pub(super) fn close(self, out: &mut Vec<u8>) {
        let mut length = Vec::with_capacity(4);
        put_varint(&mut length, (out.len() - self.start) as u64);
        out.splice(self.start..self.start, length);
    }
}
