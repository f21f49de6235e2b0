//! The config file's settings of single nodes; their labels and taints are written to the Node objects (NODE-6).
//!
//! Users' changes through the API stay: only settings that were removed from the file are withdrawn. An annotation of
//! the node records the last applied settings, so that a restarted control plane also knows which settings were
//! removed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde::{Deserialize, Serialize};

use crate::node_settings::NodeSettings;
use api::{Api, ApiError};
use base::clock::time;
use object::Key;
use object::well_known::annotation::PODIUM_NODE_SETTINGS;
use reconcile::ignore_not_found;

/// The last applied settings, as the annotation holds them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct LastApplied {
    labels: BTreeMap<String, String>,
    /// Key and effect.
    taints: Vec<(String, String)>,
}

impl LastApplied {
    fn by(settings: &NodeSettings) -> Self {
        let taints = settings.taints.iter().map(|t| (t.key.clone(), t.effect.clone())).collect();
        Self { labels: settings.all_labels(), taints }
    }
}

/// Applies the file's current settings to a node.
fn apply(
    node: &mut Node,
    settings: &NodeSettings,
    zone_defaults: Option<ZoneDefaults>,
    now: jiff::Timestamp,
) {
    let annotations = node.metadata.annotations.get_or_insert_default();
    let before: LastApplied = annotations
        .get(PODIUM_NODE_SETTINGS)
        .and_then(|text| base::json::from_str(text).ok())
        .unwrap_or_default();
    let last_applied = LastApplied::by(settings);
    if last_applied == LastApplied::default() {
        annotations.remove(PODIUM_NODE_SETTINGS);
    } else {
        let text = serde_json::to_string(&last_applied).expect("settings have string keys");
        annotations.insert(PODIUM_NODE_SETTINGS.into(), text);
    }
    let labels = node.metadata.labels.get_or_insert_default();
    // Removes labels that the file no longer has, except those whose value a user has changed since.
    labels
        .retain(|key, value| before.labels.get(key) != Some(value) || last_applied.labels.contains_key(key));
    // Sets only labels that are new or changed in the file: a user's change through the API stays until the file
    // changes that label.
    let news = last_applied.labels.iter().filter(|(key, value)| before.labels.get(*key) != Some(value));
    labels.extend(news.map(|(key, value)| (key.clone(), value.clone())));
    for (key, value) in zone_defaults.into_iter().flatten() {
        labels.entry(key.into()).or_insert_with(|| value.into());
    }

    let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
    let is = |t: &Taint, key: &str, effect: &str| t.key == key && t.effect == effect;
    for (key, effect) in before.taints.iter().filter(|taint| !last_applied.taints.contains(taint)) {
        taints.retain(|t| !is(t, key, effect));
    }
    for desired in &settings.taints {
        let known = before.taints.iter().any(|(key, effect)| is(desired, key, effect));
        match taints.iter_mut().find(|t| is(t, &desired.key, &desired.effect)) {
            Some(there) => there.value.clone_from(&desired.value),
            None if known => {}
            None => taints.push(Taint { time_added: Some(time(now)), ..desired.clone() }),
        }
    }
    let spec = node.spec.get_or_insert_default();
    spec.taints = spec.taints.take().filter(|taints| !taints.is_empty());
}

/// The labels with the default zone and region of a node.
pub(super) type ZoneDefaults = [(&'static str, &'static str); 2];

/// Applies the file's settings to every node. A node without an entry is also updated, since settings removed from the
/// file are withdrawn. Nodes that this control plane does not run get no default zone.
pub(super) fn apply_all(
    api: &Api,
    all: &[NodeSettings],
    zone_defaults: impl Fn(&str) -> Option<ZoneDefaults>,
) -> Result<(), ApiError> {
    for node in api.list_as::<Node>(None) {
        apply_to(api, node.name(), all, zone_defaults(node.name()))?;
    }
    Ok(())
}

/// Applies the file's settings to one node.
pub(super) fn apply_to(
    api: &Api,
    name: &str,
    all: &[NodeSettings],
    zone_defaults: Option<ZoneDefaults>,
) -> Result<(), ApiError> {
    let (none, now) = (NodeSettings::default(), api.clock().now());
    let settings = all.iter().find(|settings| settings.name == name).unwrap_or(&none);
    ignore_not_found(api.modify::<Node>(&Key::new("", name), |fresh| {
        apply(fresh, settings, zone_defaults, now);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::node_settings::{REGION, ZONE};
    use serde_json::json;

    use super::*;

    /// Parses `a=1 b=2 | k=v:NoSchedule`: labels, then taints.
    fn settings(text: &str) -> NodeSettings {
        let (labels, taints) = text.split_once('|').unwrap();
        let pair = |entry: &str| {
            let (key, value) = entry.split_once('=').unwrap();
            (key.to_string(), value.to_string())
        };
        let taint = |entry: &str| {
            let (key, rest) = pair(entry);
            let (value, effect) = rest.split_once(':').unwrap();
            Taint { key, value: Some(value.into()), effect: effect.into(), time_added: None }
        };
        NodeSettings {
            name: "n".into(),
            labels: labels.split_whitespace().map(pair).collect(),
            taints: taints.split_whitespace().map(taint).collect(),
            ..NodeSettings::default()
        }
    }

    fn describe(node: &Node) -> String {
        let labels = node.metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
        let taints =
            taints.map(|t| format!("{}={}:{}", t.key, t.value.as_deref().unwrap_or_default(), t.effect));
        let join = |parts: Vec<String>| parts.join(" ");
        format!("{} | {}", join(labels.collect()), join(taints.collect()))
    }

    #[test]
    fn a_node_has_what_the_file_says_and_what_its_users_say_node_6() {
        let now: jiff::Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let mut node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"os": "linux"}},
            "spec": {"taints": [{"key": "mine", "value": "1", "effect": "NoExecute"}]}}))
            .unwrap();
        for (last_applied, expected) in [
            ("|", "os=linux | mine=1:NoExecute"),
            ("disk=ssd |", "disk=ssd os=linux | mine=1:NoExecute"),
            ("disk=hdd | gpu=a:NoSchedule", "disk=hdd os=linux | mine=1:NoExecute gpu=a:NoSchedule"),
            ("disk=hdd | gpu=b:NoSchedule", "disk=hdd os=linux | mine=1:NoExecute gpu=b:NoSchedule"),
            ("| gpu=b:NoExecute", "os=linux | mine=1:NoExecute gpu=b:NoExecute"),
            ("|", "os=linux | mine=1:NoExecute"),
        ] {
            apply(&mut node, &settings(last_applied), None, now);
            assert_eq!(describe(&node), expected, "{last_applied}");
            let before = node.clone();
            apply(&mut node, &settings(last_applied), None, now);
            assert_eq!(node, before, "{last_applied}: said twice");
        }
        assert!(!node.metadata.annotations.unwrap_or_default().contains_key(PODIUM_NODE_SETTINGS));
    }

    #[test]
    fn settings_changed_by_users_are_not_reverted_node_6() {
        let now: jiff::Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let mut node = Node::default();
        apply(&mut node, &settings("a=1 b=1 | k=v:NoSchedule"), None, now);
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("a".into(), "2".into());
        labels.remove("b");
        node.spec.as_mut().unwrap().taints = None;
        apply(&mut node, &settings("a=1 b=1 | k=v:NoSchedule"), None, now);
        assert_eq!(describe(&node), "a=2 | ", "the file has said nothing new");
        apply(&mut node, &settings("|"), None, now);
        assert_eq!(describe(&node), "a=2 | ");
    }

    #[test]
    fn a_zone_is_a_label_and_without_one_it_is_dealt_node_1_node_6() {
        let now: jiff::Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let zone_defaults = Some([(ZONE, "zone-a"), (REGION, "local")]);
        let mut node = Node::default();
        let east = NodeSettings { zone: Some("east".into()), ..settings("|") };
        let zone = |node: &Node| {
            let labels = node.metadata.labels.clone().unwrap();
            format!("{} {}", labels[ZONE], labels[REGION])
        };
        apply(&mut node, &east, zone_defaults, now);
        assert_eq!(zone(&node), "east local");
        apply(&mut node, &settings("|"), zone_defaults, now);
        assert_eq!(zone(&node), "zone-a local");
    }
}
