//! Patterns with `*` for any text.

/// Returns true if a text matches a pattern in which `*` stands for any text. Takes time at most proportional to the
/// product of both lengths.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_any_text_where_it_has_a_star_fault_1_con_16() {
        for (pattern, text, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1", false),
            ("nginx*", "nginx:1", true),
            ("*", "", true),
            ("*/web:*", "registry.local/shop/web:v2", true),
            ("*/web:*", "web:v2", false),
            ("*-prod", "a-prod", true),
            ("*-prod", "a-prod-b", false),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("**", "ünfug", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
