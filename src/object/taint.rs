//! Taints and tolerations.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// The effects of a taint on pods that do not tolerate it.
pub mod effect {
    /// The scheduler does not choose the node.
    pub const NO_SCHEDULE: &str = "NoSchedule";
    /// The scheduler avoids the node.
    pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
    /// The scheduler does not choose the node, and running pods are evicted.
    pub const NO_EXECUTE: &str = "NoExecute";
}

/// Formats a taint as kubectl does: `key=value:Effect`.
pub fn text(taint: &Taint) -> String {
    match taint.value.as_deref().filter(|value| !value.is_empty()) {
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
        None => format!("{}:{}", taint.key, taint.effect),
    }
}

/// Returns true if the toleration covers the taint (page "Taints and Tolerations").
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    if given(&toleration.effect).is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    if given(&toleration.key).is_some_and(|key| key != taint.key) {
        return false;
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    let taint_value = taint.value.as_deref().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => value == taint_value,
        "Exists" => true,
        "Lt" => integers(taint_value, value).is_some_and(|(taint, bound)| taint < bound),
        "Gt" => integers(taint_value, value).is_some_and(|(taint, bound)| taint > bound),
        _ => false,
    }
}

/// Returns true if one of the tolerations covers the taint.
pub fn is_tolerated(tolerations: Option<&Vec<Toleration>>, taint: &Taint) -> bool {
    tolerations.into_iter().flatten().any(|toleration| tolerates(toleration, taint))
}

/// Returns the first taint that prevents pods with these tolerations from being scheduled on the node.
pub fn untolerated<'t>(taints: &'t [Taint], tolerations: Option<&Vec<Toleration>>) -> Option<&'t Taint> {
    taints
        .iter()
        .filter(|t| t.effect == effect::NO_SCHEDULE || t.effect == effect::NO_EXECUTE)
        .find(|t| !is_tolerated(tolerations, t))
}

fn integers(a: &str, b: &str) -> Option<(i64, i64)> {
    Some((a.parse().ok()?, b.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_cover_what_kubernetes_says_sch_3() {
        let taint = |text: &str| {
            let (key, rest) = text.split_once('=').unwrap();
            let (value, effect) = rest.split_once(':').unwrap();
            Taint {
                key: key.into(),
                value: (!value.is_empty()).then(|| value.to_string()),
                effect: effect.into(),
                time_added: None,
            }
        };
        // key, operator, value, effect; `-` is absent.
        let toleration = |text: &str| {
            let mut fields = text.split(' ').map(|f| (f != "-").then(|| f.to_string()));
            let mut next = || fields.next().unwrap();
            Toleration {
                key: next(),
                operator: next(),
                value: next(),
                effect: next(),
                toleration_seconds: None,
            }
        };
        for (of, to, covered) in [
            ("k=v:NoSchedule", "k Equal v NoSchedule", true),
            ("k=v:NoSchedule", "k - v -", true),
            ("k=v:NoSchedule", "k Equal w NoSchedule", false),
            ("k=v:NoSchedule", "k Exists - NoSchedule", true),
            ("k=v:NoSchedule", "k Exists - NoExecute", false),
            ("k=:NoExecute", "k Equal - NoExecute", true),
            ("k=v:NoExecute", "- Exists - -", true),
            ("k=v:NoExecute", "j Exists - -", false),
            ("k=4:NoExecute", "k Lt 5 -", true),
            ("k=6:NoExecute", "k Lt 5 -", false),
            ("k=6:NoExecute", "k Gt 5 -", true),
            ("k=x:NoExecute", "k Gt 5 -", false),
            ("k=v:NoExecute", "k Likes v -", false),
        ] {
            assert_eq!(tolerates(&toleration(to), &taint(of)), covered, "{of} by {to}");
        }
        let taints = [taint("a=:PreferNoSchedule"), taint("b=:NoSchedule"), taint("c=:NoExecute")];
        assert_eq!(untolerated(&taints, None).unwrap().key, "b");
        assert_eq!(untolerated(&taints, Some(&vec![toleration("b Exists - -")])).unwrap().key, "c");
        assert_eq!(untolerated(&taints, Some(&vec![toleration("- Exists - -")])), None);
    }
}
