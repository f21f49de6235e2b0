//! The order in which documents are applied: kinds that others depend on come first.

use super::Document;
use base::sort::SliceOrder;
use object::Kind;

/// Sorts documents in the order of the Kind table, unknown kinds last; documents of equal rank stay in their order.
pub(crate) fn in_apply_order(mut documents: Vec<Document>) -> Vec<Document> {
    documents.order_by_key(|document| document.kind().map_or(usize::MAX, Kind::index));
    documents
}
