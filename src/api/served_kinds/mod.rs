//! The kinds that a cluster serves: the built-in ones, and the custom resources of its definitions.
//!
//! [`Kinds`] is a snapshot; [`Api::kinds`] returns the latest one, and [`Api::kinds_changed`] wakes the components that
//! follow all kinds (garbage collection, namespaces, quotas, discovery).

mod conversion;
mod definition;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::Api;
pub use conversion::{Conversion, ConversionWebhook};
use definition::Version;
pub use definition::{Defaults, Definition};
use kinds::{DefinitionError, KindSchemas, ServedSchema, Strategy, built_in};
use object::definition_schemas::DefinitionSchemas;
use object::quantity::ResourceList;
use object::{Kind, Object, ServedKind, Subresource, split_api_version};

/// A snapshot of the kinds that a cluster serves.
#[derive(Clone, Default)]
pub struct Kinds {
    custom: BTreeMap<Kind, Arc<Definition>>,
    generation: u64,
    /// Discovery lists versions that Kubernetes has removed. They are accepted in any case.
    lists_legacy: bool,
}

/// The strategy of a built-in kind, or of one version of a custom resource.
pub enum KindStrategy {
    /// The strategy of a built-in kind.
    BuiltIn(&'static dyn Strategy),
    /// A definition, and the index of a version in it.
    Custom(Arc<Definition>, usize),
}

impl Deref for KindStrategy {
    type Target = dyn Strategy;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::BuiltIn(strategy) => *strategy,
            Self::Custom(definition, version) => &definition.versions[*version].strategy,
        }
    }
}

/// One kind in one version, as discovery lists it.
pub struct ServedResource {
    /// The kind and version.
    pub served: ServedKind,
    /// The singular form for the command line.
    pub singular: String,
    /// Short names for the command line.
    pub short_names: Vec<String>,
    /// Categories of kinds that it belongs to, e.g. `all`.
    pub categories: Vec<String>,
    /// The subresources in this version.
    pub subresources: Vec<Subresource>,
    /// The definition is being deleted, so that no objects can be created.
    pub is_terminating: bool,
}

impl Kinds {
    /// Returns the built-in kinds alone. `lists_legacy`: discovery lists the versions that Kubernetes has removed.
    pub fn built_in(lists_legacy: bool) -> Self {
        Self { lists_legacy, ..Self::default() }
    }

    /// Returns whether discovery lists the versions that Kubernetes has removed.
    pub fn lists_legacy(&self) -> bool {
        self.lists_legacy
    }

    /// Returns the number of changes of the set of kinds so far. Snapshots with the same number are equal.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns every kind: first the built-in ones, in an order in which dependent objects can be applied, then the
    /// custom ones.
    pub fn all(&self) -> impl Iterator<Item = Kind> + '_ {
        Kind::BUILT_IN.iter().copied().chain(self.custom.keys().copied())
    }

    /// Returns every kind in every version that discovery lists.
    pub fn served(&self) -> impl Iterator<Item = ServedResource> + '_ {
        let listed = ServedKind::built_in().filter(|served| self.lists_legacy || !served.is_legacy());
        let built_in = listed.map(|served| {
            let info = served.kind().info();
            let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
            ServedResource {
                served,
                singular: info.singular.to_string(),
                short_names: texts(info.short_names),
                categories: texts(info.categories),
                subresources: info.subresources.to_vec(),
                is_terminating: false,
            }
        });
        let custom = self.custom.values().flat_map(|definition| {
            definition.versions.iter().filter(|version| version.is_served).map(|version| ServedResource {
                served: version.served(definition.kind),
                singular: definition.singular.clone(),
                short_names: definition.short_names.clone(),
                categories: definition.categories.clone(),
                subresources: version.subresources(),
                is_terminating: definition.is_terminating,
            })
        });
        built_in.chain(custom)
    }

    /// Returns the kind and version that are served under this path.
    pub fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<ServedKind> {
        ServedKind::from_path(group, version, plural).or_else(|| {
            self.custom_version(group, version, |definition| definition.kind.info().plural == plural)
        })
    }

    /// Resolves the `apiVersion` and `kind` of a manifest.
    pub fn by_api_version(&self, api_version: &str, name: &str) -> Option<ServedKind> {
        let (group, version) = split_api_version(api_version);
        ServedKind::from_api_version(api_version, name)
            .or_else(|| self.custom_version(group, version, |definition| definition.kind.info().name == name))
    }

    fn custom_version(
        &self,
        group: &str,
        version: &str,
        is_it: impl Fn(&Definition) -> bool,
    ) -> Option<ServedKind> {
        let definition = self.custom.values().find(|d| d.kind.info().group == group && is_it(d))?;
        let version = definition.versions.iter().find(|v| v.is_served && v.name == version)?;
        Some(version.served(definition.kind))
    }

    /// Returns the kind of an object, in the version that the object is in.
    pub(crate) fn served_as(&self, object: &Object) -> ServedKind {
        let named = object.custom().and_then(|custom| {
            let version = split_api_version(custom.api_version()).1;
            let definition = self.custom.get(&object.kind())?;
            definition.versions.iter().find(|known| known.name == version)
        });
        named.map_or(ServedKind::Stored(object.kind()), |version| version.served(object.kind()))
    }

    /// Returns the `kind` of a list.
    pub fn list_kind(&self, kind: Kind) -> String {
        match self.custom.get(&kind) {
            Some(definition) => definition.list_kind.clone(),
            None => format!("{}List", kind.info().name),
        }
    }

    /// Returns the kind with this name in this group, in any version.
    pub fn in_group(&self, group: &str, name: &str) -> Option<Kind> {
        self.all().find(|kind| kind.info().group == group && kind.info().name == name)
    }

    /// Returns the subresource with this path, if the kind has it in this version.
    pub fn subresource(&self, served: ServedKind, path: &str) -> Option<Subresource> {
        let is_it = |subresource: &Subresource| subresource.path() == path;
        match self.version(served) {
            Some((_, version)) => version.subresources().into_iter().find(is_it),
            None => served.kind().info().subresources.iter().copied().find(is_it),
        }
    }

    /// Returns whether the definition of a kind is being deleted.
    pub(crate) fn is_terminating(&self, kind: Kind) -> bool {
        self.custom.get(&kind).is_some_and(|definition| definition.is_terminating)
    }

    /// Returns whether a kind is served in this version.
    pub fn serves(&self, served: ServedKind) -> bool {
        !served.kind().is_custom() || self.version(served).is_some_and(|(_, version)| version.is_served)
    }

    /// Returns whether a kind can be scaled.
    pub fn is_scalable(&self, kind: Kind) -> bool {
        match self.custom.get(&kind) {
            Some(definition) => definition.stored().subresources().contains(&Subresource::Scale),
            None => kind.info().has(Subresource::Scale),
        }
    }

    fn version(&self, served: ServedKind) -> Option<(&Arc<Definition>, &Version)> {
        let definition = self.custom.get(&served.kind())?;
        Some((definition, definition.versions.iter().find(|v| v.name == served.version())?))
    }

    /// Returns the schema of a version of a custom resource.
    pub fn schema(&self, served: ServedKind) -> Option<&ServedSchema> {
        self.version(served).map(|(_, version)| version.strategy.schema())
    }

    /// Returns the schemas of all versions of a kind; none for a built-in kind.
    pub fn schemas(&self, kind: Kind) -> KindSchemas {
        let Some(definition) = self.custom.get(&kind) else { return KindSchemas::default() };
        let versions = definition.versions.iter();
        let of_version = |version: &Version| (version.name, version.strategy.schema().clone());
        KindSchemas::new(versions.map(of_version).collect(), definition.stored().name)
    }

    /// Returns the strategy of a kind in a version.
    pub fn strategy_in(&self, served: ServedKind) -> KindStrategy {
        self.strategy_named(served.kind(), served.version())
    }

    /// Returns the strategy of an object's kind in the object's version.
    pub fn strategy(&self, object: &Object) -> KindStrategy {
        match object.custom() {
            None => KindStrategy::BuiltIn(built_in(object.kind())),
            Some(custom) => self.strategy_named(object.kind(), split_api_version(custom.api_version()).1),
        }
    }

    /// Returns the strategy of the version with this name, or else of the storage version.
    fn strategy_named(&self, kind: Kind, version: &str) -> KindStrategy {
        let Some(definition) = self.custom.get(&kind) else { return KindStrategy::BuiltIn(built_in(kind)) };
        let named = definition.versions.iter().position(|v| v.name == version);
        KindStrategy::Custom(definition.clone(), named.unwrap_or(definition.storage))
    }

    /// Returns the definition of a custom kind.
    pub fn definition(&self, kind: Kind) -> Option<&Arc<Definition>> {
        self.custom.get(&kind)
    }

    /// Returns whether there is a definition with this group and plural.
    pub(crate) fn is_defined(&self, group: &str, plural: &str) -> bool {
        self.custom.keys().any(|kind| (kind.info().group, kind.info().plural) == (group, plural))
    }

    /// Returns whether a webhook converts the objects of a kind between versions, so that their fields may differ.
    pub(crate) fn is_converted(&self, kind: Kind) -> bool {
        let definition = self.custom.get(&kind);
        definition.is_some_and(|definition| matches!(definition.conversion, Conversion::Webhook(_)))
    }

    /// Returns a custom kind in its storage version.
    pub fn storage(&self, kind: Kind) -> Option<ServedKind> {
        self.custom.get(&kind).map(|definition| definition.stored().served(kind))
    }

    /// Returns a custom kind in the version with this name, served or not.
    pub fn version_named(&self, kind: Kind, api_version: &str) -> Option<ServedKind> {
        let (group, version) = split_api_version(api_version);
        let definition = self.custom.get(&kind).filter(|_| kind.info().group == group)?;
        let version = definition.versions.iter().find(|known| known.name == version)?;
        Some(version.served(kind))
    }

    /// Returns an object's usage of every resource that quotas count.
    pub fn usage(&self, object: &Object, now: Timestamp) -> ResourceList {
        let (kind, strategy) = (object.kind(), self.strategy(object));
        if !is_counted(kind, &*strategy) {
            return ResourceList::new();
        }
        let one = || Quantity("1".into());
        let mut used = strategy.usage(object, now);
        used.insert(format!("count/{}", kind.info().qualified_plural()), one());
        if strategy.is_counted_by_plural() {
            used.insert(kind.info().plural.into(), one());
        }
        used
    }

    /// Returns the kind that uses this resource; `None` if quotas do not know the name.
    pub fn kind_using(&self, resource: &str) -> Option<Kind> {
        let strategy = |kind: Kind| self.strategy_named(kind, "");
        if let Some(counted) = resource.strip_prefix("count/") {
            return self.all().find(|kind| {
                kind.info().qualified_plural() == counted && is_counted(*kind, &*strategy(*kind))
            });
        }
        self.all().find(|kind| {
            let strategy = strategy(*kind);
            strategy.uses(resource) || (strategy.is_counted_by_plural() && kind.info().plural == resource)
        })
    }
}

/// Returns true if quotas count the kind's objects: only namespaced kinds, since quotas are namespaced.
fn is_counted(kind: Kind, strategy: &dyn Strategy) -> bool {
    kind.namespaced() && strategy.is_counted()
}

/// The current kinds of a cluster, with notification of changes.
pub(crate) struct Registry {
    kinds: RwLock<Arc<Kinds>>,
    changed: watch::Sender<u64>,
}

impl Registry {
    /// Creates the registry with the built-in kinds. `lists_legacy`: discovery lists the versions that Kubernetes has
    /// removed.
    pub(crate) fn new(lists_legacy: bool) -> Self {
        // Generation 0 belongs to the documents that the process shares for the built-in kinds, which list no removed
        // versions.
        let kinds = Kinds { lists_legacy, generation: u64::from(lists_legacy), ..Kinds::default() };
        Self { changed: watch::Sender::new(kinds.generation), kinds: RwLock::new(Arc::new(kinds)) }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Kind, Arc<Definition>>)) {
        let generation = {
            let mut kinds = self.kinds.write();
            let mut next = Kinds::clone(&kinds);
            change(&mut next.custom);
            next.generation += 1;
            let generation = next.generation;
            *kinds = Arc::new(next);
            generation
        };
        self.changed.send_replace(generation);
    }
}

impl Api {
    /// Returns a snapshot of the kinds that this cluster serves now.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.inner.kinds.kinds.read().clone()
    }

    /// Returns a receiver that is notified after each change of [`Api::kinds`].
    pub fn kinds_changed(&self) -> watch::Receiver<u64> {
        self.inner.kinds.changed.subscribe()
    }

    /// Serves a custom resource according to its definition, and replaces its earlier definition if there is one.
    pub fn define(&self, spec: &CustomResourceDefinitionSpec) -> Result<Kind, DefinitionError> {
        let definition = Definition::of(spec, &DefinitionSchemas::of(spec))?;
        let kind = definition.kind;
        self.serve(definition);
        Ok(kind)
    }

    /// Serves a custom resource according to its definition, and replaces its earlier definition if there is one.
    pub(crate) fn serve(&self, definition: Definition) {
        let kind = definition.kind;
        self.inner.kinds.change(|custom| drop(custom.insert(kind, Arc::new(definition))));
    }

    /// Stops serving a custom resource. Its objects stay until they are deleted.
    pub fn undefine(&self, kind: Kind) {
        self.inner.kinds.change(|custom| drop(custom.remove(&kind)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn used(kind: Kind, value: Value) -> String {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let used = Kinds::default().usage(&Object::from_value(kind, value).unwrap(), now);
        used.iter().map(|(name, q)| format!("{name}={}", q.0)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_kind_is_counted_and_some_by_more_quo_1() {
        for (kind, value, expected) in [
            (Kind::ConfigMap, json!({}), "configmaps=1 count/configmaps=1"),
            (Kind::Deployment, json!({"spec": {"selector": {}, "template": {}}}), "count/deployments.apps=1"),
            (Kind::Event, json!({"involvedObject": {}, "metadata": {}}), ""),
            (Kind::Node, json!({}), ""),
            (
                Kind::Service,
                json!({"spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}}),
                "count/services=1 services=1 services.loadbalancers=0 services.nodeports=2",
            ),
            (
                Kind::Service,
                json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                    "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}]}}),
                "count/services=1 services=1 services.loadbalancers=1 services.nodeports=1",
            ),
            (
                Kind::PersistentVolumeClaim,
                json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
                    "status": {"allocatedResources": {"storage": "2Gi"}}}),
                "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
                 gold.storageclass.storage.k8s.io/requests.storage=2Gi persistentvolumeclaims=1 \
                 requests.storage=2Gi",
            ),
        ] {
            assert_eq!(used(kind, value), expected, "{kind}");
        }
    }

    #[test]
    fn every_resource_belongs_to_one_kind_quo_1() {
        for (resource, kind) in [
            ("pods", Some(Kind::Pod)),
            ("requests.example.com/gpu", Some(Kind::Pod)),
            ("limits.ephemeral-storage", Some(Kind::Pod)),
            ("requests.storage", Some(Kind::PersistentVolumeClaim)),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(Kind::PersistentVolumeClaim)),
            ("count/jobs.batch", Some(Kind::Job)),
            ("count/jobs", None),
            ("count/events", None),
            ("secrets", Some(Kind::Secret)),
            ("resourcequotas", Some(Kind::ResourceQuota)),
            ("deployments", None),
            ("example.com/gpu", None),
        ] {
            assert_eq!(Kinds::default().kind_using(resource), kind, "{resource}");
        }
    }
}
