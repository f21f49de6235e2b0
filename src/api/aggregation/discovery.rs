//! The discovery of an extension API server, read within limits: only resources of its own group and version
//! are accepted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::GroupVersion;

/// The limit on resources and subresources of one group and version; the largest group of Kubernetes has a
/// hundred.
const MAX_RESOURCES: usize = 2_000;
/// The maximum length of each text of a resource; no text of Kubernetes' own resources is longer.
const MAX_TEXT: usize = 253;
/// The limit on a resource's verbs, short names and categories, each.
const MAX_NAMES: usize = 32;

/// The known resources of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiscoveryResult {
    /// The resources in the form of aggregated discovery (`APIResourceDiscovery`).
    pub resources: Vec<Value>,
    /// True if `resources` come from the last probe of the server, false if that probe failed.
    pub is_current: bool,
    /// The hash of the server's OpenAPI v3 document for this group and version; empty if the server gives no
    /// hash, `None` if there is no document.
    pub openapi_hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    group_version: String,
    #[serde(default)]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

impl DiscoveryResult {
    /// Returns a copy that is marked stale, for a server that does not respond.
    pub(super) fn as_stale(&self) -> Self {
        Self { is_current: false, ..self.clone() }
    }

    /// Reads an `APIResourceList` of a group and version.
    pub(super) fn of_list(of: &GroupVersion, text: &[u8]) -> Result<Self, String> {
        let list: ResourceList = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let own = format!("{}/{}", of.group, of.version);
        if list.group_version != own {
            return Err(format!(
                "the list has the groupVersion {:?} instead of {own:?}",
                shortened(&list.group_version)
            ));
        }
        if list.resources.len() > MAX_RESOURCES {
            return Err(format!("the list has more than {MAX_RESOURCES} resources"));
        }
        let mut wholes: BTreeMap<&str, Value> = BTreeMap::new();
        let mut parts: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
        for resource in &list.resources {
            resource.check()?;
            let twice = match resource.name.split_once('/') {
                Some((whole, part)) => parts.entry(whole).or_default().insert(part, resource.part(part, of)),
                None => wholes.insert(&resource.name, resource.entry(of)),
            };
            if twice.is_some() {
                return Err(format!("the list has the resource {:?} twice", resource.name));
            }
        }
        for (whole, parts) in parts {
            // Subresources of unknown resources are dropped.
            if let Some(entry) = wholes.get_mut(whole) {
                entry["subresources"] = parts.into_values().collect();
            }
        }
        Ok(Self { resources: wholes.into_values().collect(), is_current: true, openapi_hash: None })
    }
}

impl ApiResource {
    fn check(&self) -> Result<(), String> {
        let lists = [&self.verbs, &self.short_names, &self.categories];
        let mut texts = [&self.name, &self.singular_name, &self.kind, &self.group, &self.version]
            .into_iter()
            .chain(lists.into_iter().flatten());
        if lists.iter().any(|words| words.len() > MAX_NAMES) || texts.any(|text| text.len() > MAX_TEXT) {
            return Err(format!(
                "the resource {:?} has too many words or too long texts",
                shortened(&self.name)
            ));
        }
        Ok(())
    }

    fn response_kind(&self, of: &GroupVersion) -> Value {
        // A resource without a group and version has those of its list.
        let own = self.group.is_empty() && self.version.is_empty();
        let (group, version) = if own { (&of.group, &of.version) } else { (&self.group, &self.version) };
        json!({"group": group, "version": version, "kind": self.kind})
    }

    fn entry(&self, of: &GroupVersion) -> Value {
        let mut entry = Map::new();
        let scope = if self.namespaced { "Namespaced" } else { "Cluster" };
        entry.insert("resource".into(), json!(self.name));
        entry.insert("responseKind".into(), self.response_kind(of));
        entry.insert("scope".into(), json!(scope));
        entry.insert("singularResource".into(), json!(self.singular_name));
        entry.insert("verbs".into(), json!(self.verbs));
        for (name, words) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !words.is_empty() {
                entry.insert(name.into(), json!(words));
            }
        }
        entry.into()
    }

    fn part(&self, name: &str, of: &GroupVersion) -> Value {
        json!({"subresource": name, "responseKind": self.response_kind(of), "verbs": self.verbs})
    }
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_listed_once_with_its_parts_in_order_api_17() {
        let of = GroupVersion { group: "g.io".into(), version: "v1".into() };
        let read = |names: &[&str]| {
            let resources: Vec<_> = names.iter().map(|name| json!({"name": name, "kind": "K"})).collect();
            let list = json!({"groupVersion": "g.io/v1", "resources": resources}).to_string();
            DiscoveryResult::of_list(&of, list.as_bytes()).map(|discovered| {
                let named = |resource: &Value| {
                    let parts = resource["subresources"].as_array().into_iter().flatten();
                    let names =
                        std::iter::once(&resource["resource"]).chain(parts.map(|p| &p["subresource"]));
                    names.map(|name| name.as_str().unwrap().to_string()).collect::<Vec<_>>()
                };
                discovered.resources.iter().map(named).collect::<Vec<_>>()
            })
        };
        let listed = read(&["b/status", "b", "a", "b/scale", "orphan/status"]).unwrap();
        assert_eq!(listed, [vec!["a"], vec!["b", "scale", "status"]]);
        for twice in [["a", "a"], ["a/b", "a/b"]] {
            let error = read(&twice).unwrap_err();
            assert_eq!(error, format!("the list has the resource {:?} twice", twice[0]));
        }
    }
}
