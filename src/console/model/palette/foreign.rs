//! Commands from kubectl and k9s: their translation, or a hint at the equivalent.

use std::borrow::Cow;

/// Words of k9s that do not exist here, with the equivalent or the nearest command.
const ELSEWHERE: &[(&str, &str)] = &[
    ("popeye", "there is no popeye here: ctrl-z in a table shows only what is not well"),
    ("popeyes", "there is no popeye here: ctrl-z in a table shows only what is not well"),
    ("sanitize", "there is no popeye here: ctrl-z in a table shows only what is not well"),
    ("helm", "helm keeps its releases in Secrets: :secrets -l owner=helm"),
    ("users", "users stand in bindings: :clusterrolebindings, :rolebindings; :can says who may what"),
    ("groups", "groups stand in bindings: :clusterrolebindings, :rolebindings; :can says who may what"),
    ("rbac", "there are :can, :roles, :clusterroles, :rolebindings and :clusterrolebindings"),
    ("policy", "there are :can, :roles, :clusterroles, :rolebindings and :clusterrolebindings"),
    ("pol", "there are :can, :roles, :clusterroles, :rolebindings and :clusterrolebindings"),
    ("be", "there are no benchmarks of services here"),
    ("bench", "there are no benchmarks of services here; podium bench measures podium"),
    ("benchmarks", "there are no benchmarks of services here; podium bench measures podium"),
    ("vul", "images are not scanned here"),
    ("hk", "? lists hotkeys with the other keys"),
    ("hotkeys", "? lists hotkeys with the other keys"),
    ("exec", "shell is the word for it: s on a pod, or :shell POD"),
    ("undo", "U lists what you did, and u there takes it back; Ctrl-l on a Deployment lists its revisions"),
    ("create", "there is :apply FILE; :dir looks for files"),
    ("run", "there is :apply FILE; :dir looks for files"),
    ("w", "ctrl-s saves what is shown; an editor asks when it is left"),
    ("wq", "ctrl-s saves what is shown; :q leaves"),
];

/// Translates a kubectl command: `kubectl get pods -n shop` is `pods -n shop`, `top nodes` is `nodes`, a table with the
/// usage. `is_kind` recognizes kinds of the server, which always take precedence.
pub(super) fn ours(text: &str, is_kind: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let text = text.trim();
    let after = |text: &'_ str, word: &str| -> Option<usize> {
        let rest = text.strip_prefix(word)?;
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

/// Returns a hint for a word that does not exist here.
pub(super) fn hint(word: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(known, _)| *known == word).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_calls_it_means_the_same_con_3() {
        let kind = |word: &str| word == "pods" || word == "knights";
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
            assert_eq!(ours(typed, kind), meant, "{typed}");
        }
        assert!(ours("get pods", |word| word == "get").starts_with("get"), "a kind of that name goes before");
    }
}
