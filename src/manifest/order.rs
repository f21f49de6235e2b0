//! The order to apply documents in: what others depend on first.

use super::Document;
use object::Kind;

/// Sorts documents in the order of the Kind table, unknown kinds last; equals keep their order.
pub(crate) fn in_apply_order(mut documents: Vec<Document>) -> Vec<Document> {
    documents.sort_by_key(|document| document.kind().map_or(usize::MAX, Kind::index));
    documents
}
