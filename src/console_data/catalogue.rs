//! The kinds that the server serves, from discovery, and the lookup by words that users type.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;

use super::builtin_kinds;
use super::resource::{Kind, KindFacts, ResourceKey};

/// The kinds of the server that can be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    kinds: Vec<Kind>,
    /// Discovery has answered; before that only the built-in kinds are known.
    pub discovered: bool,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self { kinds: builtin_kinds::kinds(), discovered: false }
    }
}

impl Catalogue {
    /// Creates a catalogue of these kinds.
    pub fn of(kinds: Vec<Kind>) -> Self {
        Self { kinds, discovered: true }
    }

    /// Returns all kinds, those of the core group first.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Finds a kind by plural, singular, kind or short name, also as `name.group`.
    pub fn find(&self, kind_name: &str) -> Option<&Kind> {
        let kind_name = kind_name.to_ascii_lowercase();
        let exact = |kind: &&Kind| {
            kind.resource.plural == kind_name
                || kind.singular == kind_name
                || kind.kind.to_ascii_lowercase() == kind_name
                || kind.short_names.contains(&kind_name)
        };
        let qualified = |kind: &&Kind| {
            kind_name.split_once('.').is_some_and(|(name, group)| {
                kind.resource.group == group && (kind.resource.plural == name || kind.singular == name)
            })
        };
        // A built-in kind wins over one of the same name in another group (events).
        self.kinds
            .iter()
            .filter(exact)
            .min_by_key(|kind| !builtin_kinds::contains(&kind.resource))
            .or_else(|| self.kinds.iter().find(qualified))
    }

    /// Finds a kind by `version/plural` or `group/version/plural`, or by a word that [`Self::find`] accepts.
    pub fn find_resource(&self, name: &str) -> Option<&Kind> {
        let mut parts = name.rsplitn(3, '/');
        let (plural, version, group) = (parts.next()?, parts.next(), parts.next());
        let Some(version) = version else { return self.find(name) };
        self.kinds.iter().find(|kind| {
            let resource = &kind.resource;
            resource.plural == plural
                && resource.version == version
                && resource.group == group.unwrap_or_default()
        })
    }

    /// Returns the kind as discovery reports it now, or the given one if discovery does not list it.
    pub fn current<'a>(&'a self, kind: &'a Kind) -> &'a Kind {
        self.kinds.iter().find(|known| known.resource == kind.resource).unwrap_or(kind)
    }

    /// Returns the kind of a Rust type.
    pub fn kind<K: kube::Resource<DynamicType = ()>>(&self) -> Kind {
        let resource = ResourceKey::of::<K>();
        let known = self.kinds.iter().find(|known| known.resource == resource);
        known.cloned().unwrap_or_else(builtin_kinds::kind::<K>)
    }

    /// Finds the kind of an owner reference or of an event's object.
    pub fn by_gvk(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let same = |known: &&Kind| known.kind == kind && known.api_version() == api_version;
        self.kinds.iter().find(same).or_else(|| self.kinds.iter().find(|known| known.kind == kind))
    }
}

/// Runs discovery.
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
    forget_extensions(&mut kinds);
    let missing = |own: &Kind| !kinds.iter().any(|kind| kind.resource == own.resource);
    let missing: Vec<Kind> = builtin_kinds::kinds().into_iter().filter(missing).collect();
    kinds.extend(missing);
    Ok(Catalogue::of(kinds))
}

/// The group in which Kubernetes introduced its workloads and ingresses before they moved to groups of their own.
const EXTENSIONS: &str = "extensions";
const FROM_EXTENSIONS: [&str; 3] = ["apps", "networking.k8s.io", "policy"];

/// Drops kinds of `extensions` that are also served in their new group, because the same objects would be shown twice.
fn forget_extensions(kinds: &mut Vec<Kind>) {
    let moved: BTreeSet<String> = kinds
        .iter()
        .filter(|kind| FROM_EXTENSIONS.contains(&&*kind.resource.group))
        .map(|kind| kind.kind.clone())
        .collect();
    kinds.retain(|kind| &*kind.resource.group != EXTENSIONS || !moved.contains(&kind.kind));
}

fn take(kinds: &mut Vec<Kind>, group: &str, version: &str, list: &APIResourceList) {
    let own = builtin_kinds::kinds();
    let mut subresources: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for resource in &list.resources {
        if let Some((of, name)) = resource.name.split_once('/') {
            let verbs = resource.verbs.iter().cloned().collect();
            subresources.entry(of).or_default().insert(name.to_owned(), verbs);
        }
    }
    for resource in &list.resources {
        let listed = resource.verbs.iter().any(|verb| verb == "list");
        if resource.name.contains('/') || !listed {
            continue;
        }
        let key = ResourceKey {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            plural: resource.name.clone().into(),
        };
        let singular = if resource.singular_name.is_empty() {
            resource.kind.to_ascii_lowercase()
        } else {
            resource.singular_name.clone()
        };
        let mut short_names = resource.short_names.clone().unwrap_or_default();
        for own in own.iter().filter(|kind| kind.resource == key).flat_map(|kind| kind.short_names.clone()) {
            if !short_names.contains(&own) {
                short_names.push(own);
            }
        }
        kinds.push(Kind::new(KindFacts {
            resource: key,
            kind: resource.kind.clone(),
            singular,
            namespaced: resource.namespaced,
            short_names,
            verbs: resource.verbs.iter().cloned().collect(),
            subresources: subresources.remove(resource.name.as_str()).unwrap_or_default(),
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
            catalogue.by_gvk("apps/v1", "ReplicaSet").map(|kind| &*kind.resource.plural),
            Some("replicasets")
        );
    }

    /// With `--removed-api-versions`, Deployments and Ingresses were listed twice.
    #[test]
    fn a_kind_that_has_moved_is_listed_once_con_2() {
        let listed = |groups: &[(&str, &str, &[&str])]| {
            let mut kinds = Vec::new();
            for (group, version, names) in groups {
                let resources: Vec<_> = names
                    .iter()
                    .map(|name| {
                        serde_json::json!({"name": format!("{}s", name.to_lowercase()), "kind": name, "namespaced": true,
                            "singularName": "", "verbs": ["list"]})
                    })
                    .collect();
                let list =
                    serde_json::json!({"groupVersion": format!("{group}/{version}"), "resources": resources});
                take(&mut kinds, group, version, &serde_json::from_value(list).unwrap());
            }
            forget_extensions(&mut kinds);
            kinds.iter().map(|kind| format!("{}.{}", kind.kind, kind.resource.group)).collect::<Vec<_>>()
        };
        let extensions = ("extensions", "v1beta1", &["Deployment", "Ingress"][..]);
        assert_eq!(
            listed(&[("apps", "v1", &["Deployment"]), ("networking.k8s.io", "v1", &["Ingress"]), extensions]),
            ["Deployment.apps", "Ingress.networking.k8s.io"]
        );
        // A server that has the kind only in `extensions` shows it there; a kind of the same name in a custom group is
        // a different one.
        assert_eq!(
            listed(&[extensions, ("apps", "v1", &["Deployment"]), ("a.example", "v1", &["Ingress"])]),
            ["Ingress.extensions", "Deployment.apps", "Ingress.a.example"]
        );
    }
}
