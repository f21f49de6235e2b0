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

/// The meaning of a word after a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// As in k9s: `:pods NAMESPACE`.
    K9s,
    /// As in kubectl: `get pods NAME`.
    Kubectl,
}

/// Translates a kubectl command: `kubectl get pods -n shop` is `pods -n shop`, `top nodes` is `nodes`, a table with the
/// usage, and `get pod/web` is `pod web`. `is_kind` recognizes kinds of the server, which always take precedence.
pub(super) fn translate(text: &str, is_kind: impl Fn(&str) -> bool) -> (Cow<'_, str>, Syntax) {
    let text = text.trim();
    let mut words = text.split_whitespace().peekable();
    let is_kubectl = |word: &str| matches!(word, "kubectl" | "k");
    if words.peek().is_some_and(|first| is_kind(first)) {
        return (Cow::Borrowed(text), Syntax::K9s);
    }
    let mut options = Vec::new();
    let has_prefix = words.next_if(|word| is_kubectl(word)).is_some();
    if has_prefix {
        // kubectl takes its options before the verb, too.
        while let Some(option) = words.next_if(|word| word.starts_with('-')) {
            options.push(option);
            options.extend(words.next_if(|_| matches!(option, "-n" | "--namespace")));
        }
    }
    let verb = words.peek().copied();
    let Some(verb @ ("get" | "top")) = verb else {
        let mut rest: Vec<&str> = words.chain(options).collect();
        let meant = other_than_get(&mut rest, is_kind);
        return match meant {
            None if !has_prefix => (Cow::Borrowed(text), Syntax::K9s),
            syntax => (Cow::Owned(rest.join(" ")), syntax.unwrap_or(Syntax::K9s)),
        };
    };
    words.next();
    let rest: Vec<&str> = words.collect();
    let Some((kind, rest)) = rest.split_first() else {
        return (Cow::Borrowed(if verb == "top" { "pods" } else { "get" }), Syntax::K9s);
    };
    let (kind, name) = match kind.split_once('/') {
        Some((of, name)) if !is_kind(kind) && is_kind(of) => (of, Some(name)),
        _ => (*kind, None),
    };
    let kind = if kind == "all" && !is_kind(kind) { "workloads" } else { kind };
    let words: Vec<&str> =
        [kind].into_iter().chain(options).chain(name).chain(rest.iter().copied()).collect();
    (Cow::Owned(words.join(" ")), Syntax::Kubectl)
}

/// Translates `why`, the footers' word, subcommands of `rollout`, and `KIND/NAME` at the start or after a command on a
/// named object; `None` if there is none of them.
fn other_than_get(words: &mut Vec<&str>, is_kind: impl Fn(&str) -> bool) -> Option<Syntax> {
    let is_why = words.first() == Some(&"why");
    if is_why {
        words[0] = "explain";
    }
    // A Deployment may have the name of a subcommand; no other word follows it then.
    if let ["rollout", subcommand, _, ..] = words[..] {
        let own = match subcommand {
            "status" | "history" => Some("rollout"),
            "undo" => Some("rollback"),
            "restart" => Some("restart"),
            _ => None,
        };
        if let Some(own) = own {
            words.splice(..2, [own]);
            return Some(Syntax::K9s);
        }
    }
    let on_object = ["describe", "yaml", "edit", "delete", "explain", "label"];
    let at = usize::from(words.first().is_some_and(|first| on_object.contains(first)));
    let object = words.get(at).filter(|word| !is_kind(word)).and_then(|word| word.split_once('/'));
    if let Some((kind, name)) = object.filter(|(kind, name)| is_kind(kind) && !name.is_empty()) {
        words.splice(at..=at, [kind, name]);
        return Some(if at == 0 { Syntax::Kubectl } else { Syntax::K9s });
    }
    is_why.then_some(Syntax::K9s)
}

/// kubectl's verbs that the console understands, the most frequent first.
pub(super) const VERBS: [&str; 14] = [
    "get", "describe", "logs", "edit", "delete", "scale", "rollout", "apply", "top", "drain", "cordon",
    "uncordon", "label", "taint",
];

/// Splits `kubectl ` or `k ` from the line that begins with it.
pub(super) fn split_kubectl(line: &str) -> Option<(&str, &str)> {
    let kubectl = ["kubectl ", "k "].into_iter().find(|start| line.starts_with(start))?;
    Some(line.split_at(kubectl.len()))
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
            ("kubectl -n shop get pods web", "pods -n shop web"),
            ("k get pods/web -n shop", "pods web -n shop"),
            ("get all", "workloads"),
            ("kubectl", ""),
            ("dir /a  b", "dir /a  b"),
            ("kubectl -n shop describe pod web", "describe pod web -n shop"),
            ("describe pods/web -n shop", "describe pods web -n shop"),
            ("pods/web", "pods web"),
            ("can get pods/log", "can get pods/log"),
            ("why", "explain"),
            ("why pods/web", "explain pods web"),
            ("rollout status deploy/web", "rollout deploy/web"),
            ("kubectl -n shop rollout undo deploy web", "rollback deploy web -n shop"),
            ("rollout restart deploy/web", "restart deploy/web"),
            ("rollout status", "rollout status"),
        ] {
            assert_eq!(translate(typed, kind).0, meant, "{typed}");
        }
        assert_eq!(translate("get pods web", kind).1, Syntax::Kubectl);
        assert_eq!(translate("pods/web", kind).1, Syntax::Kubectl);
        assert_eq!(translate("pods shop", kind).1, Syntax::K9s);
        assert!(
            translate("get pods", |word| word == "get").0.starts_with("get"),
            "a kind of that name goes before"
        );
    }
}
