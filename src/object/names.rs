//! The alphabet of generated names.

/// Letters that form no words and are not mistaken for one another. Used for the suffix of a generated name and the
/// encoding of a template's hash.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
