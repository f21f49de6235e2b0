//! `$(VAR)` expansion, by Kubernetes' rules: unknown references stay as they are, `$$` is one `$`.

/// Replaces references to `env` in `text`.
pub fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env.iter().rfind(|(known, _)| known == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&rest[at..rest.len() - tail.len()]),
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// The first variable that a text refers to and nobody has set.
pub fn unset<'t>(text: &'t str, env: &[(String, String)]) -> Option<&'t str> {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            rest = escaped;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            if !env.iter().any(|(known, _)| known == name) {
                return Some(name);
            }
            rest = tail;
        } else {
            rest = after;
        }
    }
    None
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
            assert_eq!(unset(text, &env), expected, "{text}");
        }
    }

    #[test]
    fn references_expand_as_kubernetes_documents_pod_13() {
        let env = vec![("A".to_string(), "1".to_string()), ("B".to_string(), "$(A)".to_string())];
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(MISSING)-$(A)", "$(MISSING)-1"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
            ("€$(A)€", "€1€"),
            ("$()", "$()"),
        ] {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }
}
