//! Looks up the objects that scenarios refer to, by name or labels, and replaces variables in texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use api::Api;
use base::sort::CollectMap;
use extension::scenario::{Scenario, ScenarioObject};
use object::selector::Selector;
use object::well_known::annotation::PODIUM_MADE_BY_SCENARIO;
use object::{Key, Kind, Object, split_api_version};

/// The maximum number of objects in one check.
const MAX_OBJECTS: usize = 500;

/// The served kind with this `apiVersion` and `kind`; custom kinds too, once their definitions are established.
pub(super) fn kind_of(api_version: &str, name: &str) -> Result<Kind, String> {
    let (group, _) = split_api_version(api_version);
    let custom = || {
        Kind::all().find(|kind| kind.is_custom() && kind.info().group == group && kind.info().name == name)
    };
    Kind::from_api_version(api_version, name)
        .or_else(custom)
        .ok_or_else(|| format!("no kind {name} in version {api_version}"))
}

/// The key of an object of a kind; an unset namespace is `default`.
pub(super) fn key_of(kind: Kind, namespace: Option<&str>, name: &str) -> Key {
    if kind.namespaced() { Key::new(namespace.unwrap_or("default"), name) } else { Key::new("", name) }
}

/// The objects that a reference selects, by key; variables in its name and namespace are replaced. An error if there is
/// no such kind.
pub(super) fn objects(
    api: &Api,
    reference: &ScenarioObject,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<Arc<Object>>, String> {
    let kind = kind_of(&reference.api_version, &reference.kind)?;
    let with = |text: &Option<String>| text.as_ref().map(|text| text_with(text, variables));
    let (namespace, name) = (with(&reference.namespace), with(&reference.name));
    let namespace = namespace.as_deref();
    if let Some(name) = &name {
        return Ok(api.get(kind, &key_of(kind, namespace, name)).into_iter().collect());
    }
    let selector = Selector::from_optional(reference.selector.as_ref());
    let everything = reference.selector.is_none();
    let all = api.list(kind, namespace.filter(|_| kind.namespaced())).objects;
    let meant = all.into_iter().filter(|one| everything || selector.matches(one.meta().labels.as_ref()));
    Ok(meant.take(MAX_OBJECTS).collect())
}

/// The variables of a scenario that were looked up.
pub(super) fn variables_of(scenario: &Scenario) -> BTreeMap<String, String> {
    scenario.status.as_ref().map(|status| status.variables.clone()).unwrap_or_default()
}

/// Returns true if a scenario has created an object.
pub(super) fn is_created_by(object: &Object, uid: &str) -> bool {
    let annotations = object.meta().annotations.as_ref();
    annotations.and_then(|all| all.get(PODIUM_MADE_BY_SCENARIO)).is_some_and(|made_by| made_by == uid)
}

/// A text with `$(NAME)` replaced; unknown names stay.
pub(super) fn text_with(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        made.push_str(before);
        let known = after.split_once(')').and_then(|(name, after)| Some((variables.get(name)?, after)));
        let (value, after) = known.map_or(("$(", after), |(value, after)| (value.as_str(), after));
        made.push_str(value);
        rest = after;
    }
    made + rest
}

/// An object with `$(NAME)` replaced in all its texts.
pub(super) fn value_with(value: &Value, variables: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => text_with(text, variables).into(),
        Value::Array(items) => items.iter().map(|item| value_with(item, variables)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), value_with(value, variables)));
            Value::Object(fields.collect_map())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_stand_in_texts_and_nothing_else_is_replaced_fault_2() {
        let variables =
            [("node".to_owned(), "n-1".to_owned()), ("evil".to_owned(), "$(node)".to_owned())].into();
        for (text, expected) in [
            ("", ""),
            ("on $(node).", "on n-1."),
            ("$(node)$(node)", "n-1n-1"),
            ("$(other) $(node", "$(other) $(node"),
            ("$($(node)", "$(n-1"),
            ("$(evil)", "$(node)"),
        ] {
            assert_eq!(text_with(text, &variables), expected, "{text}");
        }
        let value = json!({"$(node)": ["$(node)", 1, {"a": "x$(node)"}]});
        assert_eq!(value_with(&value, &variables), json!({"$(node)": ["n-1", 1, {"a": "xn-1"}]}));
    }

    #[test]
    fn kinds_are_found_by_what_manifests_say_fault_2() {
        assert_eq!(kind_of("apps/v1", "Deployment"), Ok(Kind::Deployment));
        assert_eq!(kind_of("apps/v9", "Deployment").unwrap_err(), "no kind Deployment in version apps/v9");
        assert_eq!(key_of(Kind::Pod, None, "p"), Key::new("default", "p"));
        assert_eq!(key_of(Kind::Node, Some("x"), "n"), Key::new("", "n"));
    }
}
