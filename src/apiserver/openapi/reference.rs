//! References between schemas.

/// The prefix of references.
pub(super) const REFERENCE: &str = "#/components/schemas/";
