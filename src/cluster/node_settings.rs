//! What the config file says of single nodes: their labels and taints, followed while the cluster runs (NODE-6).
//!
//! What users set through the API stays theirs: only what the file said before and says no longer is taken back.
//! What it said stands in an annotation of the node, so that a restart forgets nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde::{Deserialize, Serialize};

use super::config::ConfigFile;
use crate::api::{Api, ApiError};
use crate::base::clock::time;
use crate::manifest::ConfigText;

/// What the config file said last.
const ANNOTATION: &str = "podium.dev/node-settings";

/// A node as the config file has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeSettings {
    /// Which node, e.g. `node-1` or `hollow-00001`.
    pub name: String,
    /// Its labels besides those every node has; may replace these.
    pub labels: BTreeMap<String, String>,
    /// Its taints besides those of its state.
    pub taints: Vec<Taint>,
}

/// What was said last, as the annotation keeps it.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Said {
    labels: BTreeMap<String, String>,
    /// Key and effect.
    taints: Vec<(String, String)>,
}

impl Said {
    fn by(settings: &NodeSettings) -> Self {
        let taints = settings.taints.iter().map(|t| (t.key.clone(), t.effect.clone())).collect();
        Self { labels: settings.labels.clone(), taints }
    }
}

/// Makes a node what the file says, now that it says this.
fn apply(node: &mut Node, settings: &NodeSettings, now: jiff::Timestamp) {
    let annotations = node.metadata.annotations.get_or_insert_default();
    let before: Said =
        annotations.get(ANNOTATION).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let said = Said::by(settings);
    if said == Said::default() {
        annotations.remove(ANNOTATION);
    } else {
        let text = serde_json::to_string(&said).expect("settings have string keys");
        annotations.insert(ANNOTATION.into(), text);
    }
    let labels = node.metadata.labels.get_or_insert_default();
    // One that somebody has changed since is theirs.
    labels.retain(|key, value| before.labels.get(key) != Some(value) || said.labels.contains_key(key));
    // Said once, not insisted on: what is changed through the API stays until the file changes.
    let news = said.labels.iter().filter(|(key, value)| before.labels.get(*key) != Some(value));
    labels.extend(news.map(|(key, value)| (key.clone(), value.clone())));

    let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
    let is = |t: &Taint, key: &str, effect: &str| t.key == key && t.effect == effect;
    for (key, effect) in before.taints.iter().filter(|taint| !said.taints.contains(taint)) {
        taints.retain(|t| !is(t, key, effect));
    }
    for wanted in &settings.taints {
        let known = before.taints.iter().any(|(key, effect)| is(wanted, key, effect));
        match taints.iter_mut().find(|t| is(t, &wanted.key, &wanted.effect)) {
            Some(there) => there.value.clone_from(&wanted.value),
            None if known => {}
            None => taints.push(Taint { time_added: Some(time(now)), ..wanted.clone() }),
        }
    }
    let spec = node.spec.get_or_insert_default();
    spec.taints = spec.taints.take().filter(|taints| !taints.is_empty());
}

/// Brings every node to what the file says of it, be it nothing.
pub(super) fn apply_all(api: &Api, all: &[NodeSettings]) -> Result<(), ApiError> {
    let now = api.clock().now();
    for node in api.list_as::<Node>(None) {
        let none = NodeSettings::default();
        let settings = all.iter().find(|settings| settings.name == node.name()).unwrap_or(&none);
        let applied = api.modify::<Node>(&node.key(), |fresh| {
            apply(fresh, settings, now);
            Ok(())
        });
        match applied {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Follows the config file, of which only the nodes are read again. One that cannot be read changes nothing.
pub(super) async fn follow(api: Api, path: PathBuf, mut known: Vec<NodeSettings>, period: Duration) {
    let mut refused: Option<String> = None;
    loop {
        api.clock().sleep(period).await;
        let place = path.clone();
        let Ok(outcome) = tokio::task::spawn_blocking(move || read(&place)).await else { continue };
        let error = match outcome {
            Ok(nodes) if nodes == known => None,
            Ok(nodes) => match apply_all(&api, &nodes) {
                Ok(()) => {
                    tracing::info!("the config file's nodes have changed");
                    known = nodes;
                    None
                }
                Err(error) => Some(error.to_string()),
            },
            Err(error) => Some(error),
        };
        if let Some(error) = error.as_ref().filter(|error| Some(*error) != refused.as_ref()) {
            tracing::warn!("the changed config file is not used: {error}");
        }
        refused = error;
    }
}

fn read(path: &std::path::Path) -> Result<Vec<NodeSettings>, String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let file = ConfigText::parse(&text, &name).and_then(|text| text.decode::<ConfigFile>());
    file.map(|file| file.unwrap_or_default().nodes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `a=1 b=2 | k=v:NoSchedule` as settings: labels, then taints.
    fn settings(text: &str) -> NodeSettings {
        let (labels, taints) = text.split_once('|').unwrap();
        let pair = |word: &str| {
            let (key, value) = word.split_once('=').unwrap();
            (key.to_string(), value.to_string())
        };
        let taint = |word: &str| {
            let (key, rest) = pair(word);
            let (value, effect) = rest.split_once(':').unwrap();
            Taint { key, value: Some(value.into()), effect: effect.into(), time_added: None }
        };
        NodeSettings {
            name: "n".into(),
            labels: labels.split_whitespace().map(pair).collect(),
            taints: taints.split_whitespace().map(taint).collect(),
        }
    }

    fn told(node: &Node) -> String {
        let labels = node.metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
        let taints =
            taints.map(|t| format!("{}={}:{}", t.key, t.value.as_deref().unwrap_or_default(), t.effect));
        let join = |words: Vec<String>| words.join(" ");
        format!("{} | {}", join(labels.collect()), join(taints.collect()))
    }

    #[test]
    fn a_node_has_what_the_file_says_and_what_its_users_say_node_6() {
        let now: jiff::Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let mut node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"os": "linux"}},
            "spec": {"taints": [{"key": "mine", "value": "1", "effect": "NoExecute"}]}}))
            .unwrap();
        for (said, expected) in [
            ("|", "os=linux | mine=1:NoExecute"),
            ("disk=ssd |", "disk=ssd os=linux | mine=1:NoExecute"),
            ("disk=hdd | gpu=a:NoSchedule", "disk=hdd os=linux | mine=1:NoExecute gpu=a:NoSchedule"),
            ("disk=hdd | gpu=b:NoSchedule", "disk=hdd os=linux | mine=1:NoExecute gpu=b:NoSchedule"),
            ("| gpu=b:NoExecute", "os=linux | mine=1:NoExecute gpu=b:NoExecute"),
            ("|", "os=linux | mine=1:NoExecute"),
        ] {
            apply(&mut node, &settings(said), now);
            assert_eq!(told(&node), expected, "{said}");
            let before = node.clone();
            apply(&mut node, &settings(said), now);
            assert_eq!(node, before, "{said}: said twice");
        }
        assert!(!node.metadata.annotations.unwrap_or_default().contains_key(ANNOTATION));
    }

    #[test]
    fn what_somebody_changed_since_is_theirs_node_6() {
        let now: jiff::Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let mut node = Node::default();
        apply(&mut node, &settings("a=1 b=1 | k=v:NoSchedule"), now);
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("a".into(), "2".into());
        labels.remove("b");
        node.spec.as_mut().unwrap().taints = None;
        apply(&mut node, &settings("a=1 b=1 | k=v:NoSchedule"), now);
        assert_eq!(told(&node), "a=2 | ", "the file has said nothing new");
        apply(&mut node, &settings("|"), now);
        assert_eq!(told(&node), "a=2 | ");
    }
}
