//! The order of a merged list: the patch's order first, the live order for the rest.

use std::collections::HashMap;

use base::sort::SliceOrder;
use serde_json::Value;

/// The identity of list elements: the value of this field, or the element itself if it is empty.
#[derive(Clone, Copy)]
pub(super) struct Identity<'a>(pub(super) &'a str);

impl Identity<'_> {
    /// Returns the identity of an element; `None` for an object without the key.
    pub(super) fn of<'v>(&self, element: &'v Value) -> Option<&'v Value> {
        if self.0.is_empty() { Some(element) } else { element.get(self.0) }
    }

    /// Returns the identity as a string, for lookups.
    pub(super) fn text(&self, element: &Value) -> Option<String> {
        self.of(element).map(Value::to_string)
    }

    /// Returns the first index of each element in a list.
    pub(super) fn positions(&self, list: &[Value]) -> HashMap<String, usize> {
        let mut positions = HashMap::with_capacity(list.len());
        for (at, element) in list.iter().enumerate() {
            if let Some(text) = self.text(element) {
                positions.entry(text).or_insert(at);
            }
        }
        positions
    }

    pub(super) fn same(&self, a: &Value, b: &Value) -> bool {
        self.of(a).is_some_and(|a| Some(a) == self.of(b))
    }
}

/// Orders a merged list. Elements named in `requested` keep its order; the others are inserted between them
/// at their live positions, as far as both orders permit.
pub(super) fn in_requested_order(
    merged: Vec<Value>,
    requested: &[Value],
    live: &[Value],
    by: Identity<'_>,
) -> Vec<Value> {
    let (in_requested, in_live) = (by.positions(requested), by.positions(live));
    let place = |positions: &HashMap<String, usize>, element: &Value| {
        by.text(element).and_then(|text| positions.get(&text).copied())
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| place(&in_requested, element).is_some());
    named.order_by_cached_key(|element| place(&in_requested, element));
    others.order_by_cached_key(|element| place(&in_live, element).unwrap_or(usize::MAX));
    let mut result = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for next in named {
        let next_place = place(&in_live, &next);
        while let Some(other) = others.peek() {
            let before = match (place(&in_live, other), next_place) {
                (Some(other), Some(next)) => other < next,
                _ => false,
            };
            if !before {
                break;
            }
            result.extend(others.next());
        }
        result.push(next);
    }
    result.extend(others);
    result
}
