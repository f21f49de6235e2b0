//! How schemas refer to one another.

/// The prefix of references.
pub(super) const REFERENCE: &str = "#/components/schemas/";
