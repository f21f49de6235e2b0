//! The kinds the server has, from discovery, and how a word a user types finds one.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;

use super::resource::{Kind, KindFacts, Watched};

/// The kinds of the server that can be listed.
#[derive(Clone, Debug)]
pub struct Catalogue {
    kinds: Vec<Kind>,
    /// Whether the server has answered; before that only the watched kinds are known.
    pub discovered: bool,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self { kinds: Watched::ALL.into_iter().map(Watched::kind).collect(), discovered: false }
    }
}

impl Catalogue {
    /// A catalogue of these kinds.
    pub fn of(kinds: Vec<Kind>) -> Self {
        Self { kinds, discovered: true }
    }

    /// All kinds, those of the core group first.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The kind a word names: plural, singular, kind or short name, also as `name.group`.
    pub fn find(&self, word: &str) -> Option<&Kind> {
        let word = word.to_ascii_lowercase();
        let exact = |kind: &&Kind| {
            kind.plural == word
                || kind.singular == word
                || kind.kind.to_ascii_lowercase() == word
                || kind.short_names.contains(&word)
        };
        let qualified = |kind: &&Kind| {
            word.split_once('.').is_some_and(|(name, group)| {
                kind.group == group && (kind.plural == name || kind.singular == name)
            })
        };
        // A kind with a live store wins over one of the same name in another group (events).
        self.kinds
            .iter()
            .filter(exact)
            .max_by_key(|kind| kind.watched.is_some())
            .or_else(|| self.kinds.iter().find(qualified))
    }

    /// The kind of an owner or of an event's object.
    pub fn by_gvk(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let same = |known: &&Kind| known.kind == kind && known.api_version() == api_version;
        self.kinds.iter().find(same).or_else(|| self.kinds.iter().find(|known| known.kind == kind))
    }
}

/// Asks the server for its kinds.
pub async fn discover(client: &Client) -> Result<Catalogue, kube::Error> {
    let mut kinds = Vec::new();
    let core = client.list_core_api_resources("v1").await?;
    take(&mut kinds, "", "v1", &core);
    let groups = client.list_api_groups().await?;
    for group in &groups.groups {
        let Some(version) = group.preferred_version.as_ref().or(group.versions.first()) else { continue };
        // One broken aggregated API must not hide all others.
        match client.list_api_group_resources(&version.group_version).await {
            Ok(list) => take(&mut kinds, &group.name, &version.version, &list),
            Err(error) => tracing::warn!(group = group.name, %error, "discovery of an API group failed"),
        }
    }
    let have: HashSet<Watched> = kinds.iter().filter_map(|kind| kind.watched).collect();
    kinds.extend(Watched::ALL.into_iter().filter(|watched| !have.contains(watched)).map(Watched::kind));
    Ok(Catalogue::of(kinds))
}

fn take(kinds: &mut Vec<Kind>, group: &str, version: &str, list: &APIResourceList) {
    let scalable: HashSet<&str> =
        list.resources.iter().filter_map(|resource| resource.name.strip_suffix("/scale")).collect();
    for resource in &list.resources {
        let listed = resource.verbs.iter().any(|verb| verb == "list");
        if resource.name.contains('/') || !listed {
            continue;
        }
        let watched = Watched::ALL.into_iter().find(|watched| {
            let known = watched.kind();
            known.plural == resource.name && known.group == group && known.version == version
        });
        let singular = if resource.singular_name.is_empty() {
            resource.kind.to_ascii_lowercase()
        } else {
            resource.singular_name.clone()
        };
        let mut short_names = resource.short_names.clone().unwrap_or_default();
        for own in watched.map(Watched::kind).iter().flat_map(|kind| kind.short_names.clone()) {
            if !short_names.contains(&own) {
                short_names.push(own);
            }
        }
        kinds.push(Kind::new(KindFacts {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: resource.kind.clone(),
            plural: resource.name.clone(),
            singular,
            namespaced: resource.namespaced,
            short_names,
            scalable: scalable.contains(resource.name.as_str()),
            watched,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_find_kinds_con_2() {
        let catalogue = Catalogue::default();
        for (word, kind) in [
            ("po", "Pod"),
            ("pods", "Pod"),
            ("Pod", "Pod"),
            ("deploy", "Deployment"),
            ("dp", "Deployment"),
            ("deployments.apps", "Deployment"),
            ("pdb", "PodDisruptionBudget"),
            ("no", "Node"),
        ] {
            assert_eq!(catalogue.find(word).map(|found| found.kind.as_str()), Some(kind), "{word}");
        }
        assert!(catalogue.find("widgets").is_none());
        assert_eq!(
            catalogue.by_gvk("apps/v1", "ReplicaSet").map(|kind| kind.plural.as_str()),
            Some("replicasets")
        );
    }
}
