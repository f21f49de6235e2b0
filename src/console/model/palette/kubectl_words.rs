//! Translates commands of kubectl and k9s, or hints at the equivalent.

use std::borrow::Cow;

/// Words of k9s that do not exist here, with the equivalent or the nearest command.
const KUBECTL_WORDS: &[(&str, &str)] = &[
    ("popeye", "popeye is not available: ctrl-z in a table shows unhealthy rows only"),
    ("popeyes", "popeye is not available: ctrl-z in a table shows unhealthy rows only"),
    ("sanitize", "popeye is not available: ctrl-z in a table shows unhealthy rows only"),
    ("helm", "helm keeps its releases in Secrets: :secrets -l owner=helm"),
    ("users", "users are named in bindings: :clusterrolebindings, :rolebindings; :can checks permissions"),
    ("groups", "groups are named in bindings: :clusterrolebindings, :rolebindings; :can checks permissions"),
    ("rbac", "use :can, :roles, :clusterroles, :rolebindings or :clusterrolebindings"),
    ("policy", "use :can, :roles, :clusterroles, :rolebindings or :clusterrolebindings"),
    ("pol", "use :can, :roles, :clusterroles, :rolebindings or :clusterrolebindings"),
    ("be", "benchmarks of services are not available"),
    ("bench", "benchmarks of services are not available; podium-lab bench measures podium"),
    ("benchmarks", "benchmarks of services are not available; podium-lab bench measures podium"),
    ("vul", "image scans are not available"),
    ("hk", "? lists hotkeys with the other keys"),
    ("hotkeys", "? lists hotkeys with the other keys"),
    ("exec", "the command is shell: s on a pod, or :shell POD"),
    ("undo", "U lists your changes, and u there undoes one; Ctrl-l on a Deployment lists its revisions"),
    ("create", "use :apply FILE; :dir browses files"),
    ("run", "use :apply FILE; :dir browses files"),
    ("w", "ctrl-s saves the shown text; an editor asks before it discards changes"),
    ("wq", "ctrl-s saves the shown text; :q quits"),
];

/// Translates a kubectl command: `kubectl get pods -n shop` is `pods -n shop`, `top nodes` is `nodes`, a table with the
/// usage. `is_kind` recognizes kinds of the server, which always take precedence.
pub(super) fn translate(text: &str, is_kind: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let text = text.trim();
    let after = |text: &'_ str, prefix: &str| -> Option<usize> {
        let rest = text.strip_prefix(prefix)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace))
            .then_some(text.len() - rest.trim_start().len())
    };
    let first = text.split_whitespace().next().unwrap_or_default();
    if is_kind(first) {
        return Cow::Borrowed(text);
    }
    let start = after(text, "kubectl").or_else(|| after(text, "k")).unwrap_or(0);
    let text = &text[start..];
    if let Some(at) = after(text, "get").filter(|at| *at < text.len()) {
        return Cow::Borrowed(&text[at..]);
    }
    match after(text, "top") {
        Some(at) if at == text.len() => Cow::Borrowed("pods"),
        Some(at) => Cow::Borrowed(&text[at..]),
        None => Cow::Borrowed(text),
    }
}

/// Returns the hint for a word of k9s that the console does not have.
pub(super) fn hint(word: &str) -> Option<&'static str> {
    KUBECTL_WORDS.iter().find(|(known, _)| *known == word).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_commands_are_translated_con_3() {
        let kind = |name: &str| name == "pods" || name == "knights";
        for (typed, meant) in [
            ("get pods -n shop", "pods -n shop"),
            ("kubectl get pods", "pods"),
            ("k  get   deploy", "deploy"),
            ("top", "pods"),
            ("top nodes", "nodes"),
            ("kubectl drain node-1", "drain node-1"),
            ("pods", "pods"),
            ("knights", "knights"),
            ("topology", "topology"),
            ("get", "get"),
        ] {
            assert_eq!(translate(typed, kind), meant, "{typed}");
        }
        assert!(
            translate("get pods", |word| word == "get").starts_with("get"),
            "a kind of that name goes before"
        );
    }
}
