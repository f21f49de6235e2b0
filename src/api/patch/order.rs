//! The order of a merged list: the patch's order first, the live order where the patch says nothing.

use serde_json::Value;

/// How elements of a list are told apart: by the value of this field, or by themselves when it is empty.
#[derive(Clone, Copy)]
pub(super) struct Identity<'a>(pub(super) &'a str);

impl Identity<'_> {
    /// What identifies an element; `None` for an object without the key.
    pub(super) fn of<'v>(&self, element: &'v Value) -> Option<&'v Value> {
        if self.0.is_empty() { Some(element) } else { element.get(self.0) }
    }

    pub(super) fn same(&self, a: &Value, b: &Value) -> bool {
        self.of(a).is_some_and(|a| Some(a) == self.of(b))
    }

    fn index_in(&self, list: &[Value], element: &Value) -> Option<usize> {
        list.iter().position(|other| self.same(other, element))
    }
}

/// Orders a merged list. Elements named in `wanted` keep its order; the others are woven in between
/// where the live list had them, as far as that is possible without breaking either order.
pub(super) fn in_wanted_order(
    merged: Vec<Value>,
    wanted: &[Value],
    live: &[Value],
    by: Identity<'_>,
) -> Vec<Value> {
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| by.index_in(wanted, element).is_some());
    named.sort_by_key(|element| by.index_in(wanted, element));
    others.sort_by_key(|element| by.index_in(live, element).unwrap_or(usize::MAX));
    let mut result = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for next in named {
        let place = by.index_in(live, &next);
        while let Some(other) = others.peek() {
            let before = match (by.index_in(live, other), place) {
                (Some(other), Some(place)) => other < place,
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
