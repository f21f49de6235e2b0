//! The alphabet of names that are made up.

/// Letters that form no words and are not mistaken for one another: the tail of a generated name, the spelling of a
/// template's hash.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
