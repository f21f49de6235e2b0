//! `$(VAR)` expansion, by Kubernetes' rules: unknown references stay as they are, `$$` is one `$`.
//!
//! The length of the result is computed before it is built: references to references double with each step.

use std::collections::HashMap;

/// The values of variables by name.
#[derive(Debug, Default)]
pub(crate) struct Values<'e>(HashMap<&'e str, &'e str>);

impl<'e> Values<'e> {
    /// Later entries win.
    pub(crate) fn of(env: &'e [(String, String)]) -> Self {
        Self(env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&'e str> {
        self.0.get(name).copied()
    }
}

/// Replaces references in `text` by the values of `value`. A result of more than `limit` bytes is not built: the error
/// is its length.
pub(crate) fn expand<'v>(
    text: &str,
    value: impl Fn(&str) -> Option<&'v str>,
    limit: usize,
) -> Result<String, usize> {
    let shown = |piece: &TextPart<'_>| match *piece {
        TextPart::Text(text) => text.len(),
        TextPart::Reference { name, whole } => value(name).map_or(whole.len(), str::len),
    };
    let length = pieces(text).map(|piece| shown(&piece)).fold(0, usize::saturating_add);
    if length > limit {
        return Err(length);
    }
    let mut out = String::with_capacity(length);
    for piece in pieces(text) {
        match piece {
            TextPart::Text(text) => out.push_str(text),
            TextPart::Reference { name, whole } => match value(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(whole),
            },
        }
    }
    Ok(out)
}

/// Returns the first variable that a text refers to and that has no value.
pub(crate) fn unset<'t>(text: &'t str, values: &Values<'_>) -> Option<&'t str> {
    pieces(text).find_map(|piece| match piece {
        TextPart::Reference { name, .. } if values.get(name).is_none() => Some(name),
        _ => None,
    })
}

enum TextPart<'t> {
    Text(&'t str),
    Reference { name: &'t str, whole: &'t str },
}

/// A text's parts in order. Takes linear time, even with many unterminated references.
fn pieces(text: &str) -> impl Iterator<Item = TextPart<'_>> {
    let last_close = text.rfind(')');
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        if rest.is_empty() {
            return None;
        }
        let plain = rest.find('$').unwrap_or(rest.len());
        if plain > 0 {
            at += plain;
            return Some(TextPart::Text(&rest[..plain]));
        }
        let after = &rest[1..];
        if after.starts_with('$') {
            at += 2;
            return Some(TextPart::Text("$"));
        }
        // Searches for the closing parenthesis only if one follows: otherwise each unterminated reference would scan
        // the whole rest.
        let closes = last_close.is_some_and(|last| last > at);
        if let Some((name, _)) =
            after.strip_prefix('(').filter(|_| closes).and_then(|inner| inner.split_once(')'))
        {
            let whole = &rest[..name.len() + 3];
            at += whole.len();
            return Some(TextPart::Reference { name, whole });
        }
        at += 1;
        Some(TextPart::Text("$"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_to_nothing_is_found_vol_1() {
        let env = vec![("A".to_string(), "1".to_string())];
        for (text, expected) in
            [("x/$(A)", None), ("x/$(B)/$(C)", Some("B")), ("$$(B)", None), ("$(A", None), ("$", None)]
        {
            assert_eq!(unset(text, &Values::of(&env)), expected, "{text}");
        }
    }

    #[test]
    fn references_expand_as_kubernetes_documents_pod_13() {
        let env = vec![("A".to_string(), "1".to_string()), ("B".to_string(), "$(A)".to_string())];
        let values = Values::of(&env);
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(MISSING)-$(A)", "$(MISSING)-1"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
            ("$(A)$(A", "1$(A"),
            ("€$(A)€", "€1€"),
            ("$()", "$()"),
        ] {
            assert_eq!(expand(text, |name| values.get(name), 100).as_deref(), Ok(expected), "{text}");
        }
    }

    /// A doubling environment took 22 GB before its size was checked (SEC-2).
    #[test]
    fn an_oversized_value_is_measured_without_being_built() {
        let value = "x".repeat(1 << 20);
        let text = "$(A)".repeat(1 << 20);
        assert_eq!(expand(&text, |_| Some(&value), 10), Err(1 << 40));
        assert_eq!(expand("$(A)", |_| Some("12345678901"), 10), Err(11));
        assert_eq!(expand("$(A)", |_| Some("1234567890"), 10).as_deref(), Ok("1234567890"));
    }

    /// SEC-2: a million unclosed references cost one pass over the text, not one pass for each of them.
    #[test]
    fn open_references_cost_no_more_than_text() {
        let text = "$(".repeat(1 << 20);
        assert_eq!(expand(&text, |_| None, usize::MAX).as_deref(), Ok(text.as_str()));
        let closed = format!(")x{text}");
        assert_eq!(expand(&closed, |_| None, usize::MAX).as_deref(), Ok(closed.as_str()));
    }
}
