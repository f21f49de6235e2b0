//! The syntax of labels and taints in kubectl's commands: `key=value`, `key-`, `key=value:Effect`.

use k8s_openapi::api::core::v1::Taint;

use object::taint::effect;

/// The effects of taints.
const EFFECTS: [&str; 3] = [effect::NO_SCHEDULE, effect::PREFER_NO_SCHEDULE, effect::NO_EXECUTE];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelChange {
    pub(super) key: String,
    /// The new value; `None` removes the label.
    pub(super) value: Option<String>,
}

/// Parses `key=value` and `key-`.
pub(super) fn labels(text: &str) -> Result<Vec<LabelChange>, String> {
    let label = |argument: &str| match (argument.split_once('='), argument.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => {
            Ok(LabelChange { key: key.to_owned(), value: Some(value.to_owned()) })
        }
        (None, Some(key)) if !key.is_empty() => Ok(LabelChange { key: key.to_owned(), value: None }),
        _ => Err(format!("{argument}: write key=value, or key- to remove one")),
    };
    text.split_whitespace().map(label).collect()
}

/// A change of a node's taints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TaintChange {
    /// Adds a taint or changes its value.
    Set(Taint),
    /// Removes the taints with this key, and with this effect if given.
    Remove {
        key: String,
        /// The effect, if restricted.
        effect: Option<String>,
    },
}

/// Parses `key=value:Effect`, `key:Effect`, `key:Effect-` and `key-`.
pub(super) fn taints(text: &str) -> Result<Vec<TaintChange>, String> {
    text.split_whitespace().map(taint).collect()
}

fn taint(argument: &str) -> Result<TaintChange, String> {
    let wrong = || format!("{argument}: write key=value:Effect, or key:Effect- or key- to remove one");
    let effect = |effect: &str| match EFFECTS.iter().find(|known| **known == effect) {
        Some(_) => Ok(effect.to_owned()),
        None => Err(format!("{argument}: unknown effect {effect:?}; the effects are {}", EFFECTS.join(", "))),
    };
    if let Some(gone) = argument.strip_suffix('-') {
        let (key, of) = gone.split_once(':').map_or((gone, None), |(key, of)| (key, Some(of)));
        if key.is_empty() || key.contains('=') {
            return Err(wrong());
        }
        return Ok(TaintChange::Remove { key: key.to_owned(), effect: of.map(effect).transpose()? });
    }
    let (what, of) = argument.rsplit_once(':').ok_or_else(wrong)?;
    let (key, value) = what.split_once('=').map_or((what, None), |(key, value)| (key, Some(value)));
    if key.is_empty() {
        return Err(wrong());
    }
    let value = value.filter(|value| !value.is_empty()).map(ToOwned::to_owned);
    Ok(TaintChange::Set(Taint { key: key.to_owned(), value, effect: effect(of)?, time_added: None }))
}

/// Applies changes to a node's taints; an error if a taint to remove does not exist.
pub(super) fn tainted(before: &[Taint], changes: &[TaintChange]) -> Result<Vec<Taint>, String> {
    let mut all = before.to_vec();
    for change in changes {
        match change {
            TaintChange::Set(taint) => {
                match all.iter_mut().find(|t| t.key == taint.key && t.effect == taint.effect) {
                    Some(there) => there.value.clone_from(&taint.value),
                    None => all.push(taint.clone()),
                }
            }
            TaintChange::Remove { key, effect } => {
                let count = all.len();
                all.retain(|t| t.key != *key || effect.as_ref().is_some_and(|effect| t.effect != *effect));
                if all.len() == count {
                    return Err(format!("taint {key} not found"));
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::taint;

    #[test]
    fn labels_are_written_as_for_kubectl_node_6() {
        let described = |text: &str| {
            let changes = labels(text)?;
            let describe = |c: LabelChange| format!("{}:{}", c.key, c.value.unwrap_or_else(|| "gone".into()));
            Ok::<_, String>(changes.into_iter().map(describe).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(described("a=1 b- c=").unwrap(), "a:1 b:gone c:");
        assert_eq!(described("a=x-").unwrap(), "a:x-", "a value may end so");
        for wrong in ["a", "=b", "-"] {
            assert!(described(wrong).unwrap_err().contains("key=value"), "{wrong}");
        }
    }

    #[test]
    fn taints_are_written_as_for_kubectl_node_6() {
        let before = [taints("a=1:NoSchedule a=1:NoExecute").unwrap()].concat();
        let before: Vec<Taint> = before
            .into_iter()
            .filter_map(|change| match change {
                TaintChange::Set(taint) => Some(taint),
                TaintChange::Remove { .. } => None,
            })
            .collect();
        for (words, expected) in [
            ("b:NoSchedule", "a=1:NoSchedule a=1:NoExecute b:NoSchedule"),
            ("a=2:NoExecute", "a=1:NoSchedule a=2:NoExecute"),
            ("a:NoExecute-", "a=1:NoSchedule"),
            ("a-", ""),
            ("a- a=3:PreferNoSchedule", "a=3:PreferNoSchedule"),
            ("c-", "! taint c not found"),
            ("a=1", "! a=1: write key=value:Effect, or key:Effect- or key- to remove one"),
            (
                "a:Never",
                "! a:Never: unknown effect \"Never\"; the effects are NoSchedule, PreferNoSchedule, NoExecute",
            ),
            (":NoSchedule", "! :NoSchedule: write key=value:Effect, or key:Effect- or key- to remove one"),
        ] {
            let after = taints(words).and_then(|changes| tainted(&before, &changes));
            let described = match after {
                Ok(after) => after.iter().map(taint::text).collect::<Vec<_>>().join(" "),
                Err(error) => format!("! {error}"),
            };
            assert_eq!(described, expected, "{words}");
        }
    }
}
