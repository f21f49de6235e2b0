//! The definition of a custom resource, read from the spec of a CustomResourceDefinition: its names, and its versions
//! with their schemas, columns and subresources.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};

use super::conversion::Conversion;
use kinds::{CustomStrategy, DefinitionError};
use object::definition_schemas::{DefinitionSchemas, VersionSchema};
use object::{Kind, Object, Scope, ServedKind, Subresource};

/// The number of definitions that this process has read; the source of their ids.
static READ: AtomicU64 = AtomicU64::new(0);

/// The treatment of defaults when an object is converted to another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaults {
    /// The version's defaults are filled in.
    Filled,
    /// No defaults are filled in, since field ownership counts only fields that a client has set.
    Left,
}

/// A custom resource as the cluster serves it.
pub struct Definition {
    /// Unique among all definitions and among the states of one definition.
    pub(crate) id: u64,
    /// The kind.
    pub(crate) kind: Kind,
    /// The singular form for the command line.
    pub(crate) singular: String,
    /// Short names for the command line.
    pub(crate) short_names: Vec<String>,
    /// Categories of kinds that it belongs to, e.g. `all`.
    pub(crate) categories: Vec<String>,
    /// The `kind` of a list, e.g. `WidgetList`.
    pub(crate) list_kind: String,
    /// The versions, in the definition's order.
    pub(crate) versions: Vec<Version>,
    /// The index of the storage version in `versions`.
    pub(crate) storage: usize,
    /// The conversion of objects between versions.
    pub conversion: Conversion,
    /// The definition is being deleted: objects can be deleted, but not created.
    pub(crate) is_terminating: bool,
}

/// One version of a custom resource.
pub(crate) struct Version {
    /// The version's name, e.g. `v1beta1`.
    pub(crate) name: &'static str,
    /// Requests may use it.
    pub(crate) is_served: bool,
    pub(crate) strategy: CustomStrategy,
}

impl Version {
    /// Returns the kind in this version.
    pub(crate) fn served(&self, kind: Kind) -> ServedKind {
        ServedKind::Custom(kind, self.name)
    }

    /// Returns the subresources that the version has.
    pub(crate) fn subresources(&self) -> Vec<Subresource> {
        let (status, scale) = (self.strategy.has_status(), self.strategy.has_scale());
        let has = [(Subresource::Status, status), (Subresource::Scale, scale)];
        has.into_iter().filter(|(_, has)| *has).map(|(subresource, _)| subresource).collect()
    }
}

impl Definition {
    /// Reads the spec of a CustomResourceDefinition. The schemas of its versions are passed separately.
    pub(crate) fn of(
        spec: &CustomResourceDefinitionSpec,
        schemas: &DefinitionSchemas,
    ) -> Result<Self, DefinitionError> {
        let names = &spec.names;
        let scope = match spec.scope.as_str() {
            "Namespaced" => Scope::Namespaced,
            "Cluster" => Scope::Cluster,
            other => return Err(DefinitionError::Scope(other.into())),
        };
        let taken = Kind::BUILT_IN.iter().map(|kind| kind.info()).find(|info| {
            info.group == spec.group && (info.plural == names.plural || info.name == names.kind)
        });
        if let Some(taken) = taken {
            return Err(DefinitionError::BuiltIn(taken.qualified_plural()));
        }
        let mut storing = spec.versions.iter().enumerate().filter(|(_, version)| version.storage);
        let (Some((storage, _)), None) = (storing.next(), storing.next()) else {
            return Err(DefinitionError::Storage);
        };
        let kind = Kind::custom(&spec.group, &names.plural, &names.kind, scope)?;
        Ok(Self {
            id: READ.fetch_add(1, Ordering::Relaxed),
            kind,
            singular: names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase()),
            short_names: names.short_names.clone().unwrap_or_default(),
            categories: names.categories.clone().unwrap_or_default(),
            list_kind: names.list_kind.clone().unwrap_or_else(|| format!("{}List", names.kind)),
            versions: spec
                .versions
                .iter()
                .enumerate()
                .map(|(place, version)| version_of(kind, version, schemas.of_version(place)))
                .collect::<Result<_, _>>()?,
            storage,
            conversion: Conversion::of(&format!("{}.{}", names.plural, spec.group), spec.conversion.as_ref()),
            is_terminating: false,
        })
    }

    /// Returns the storage version.
    pub(crate) fn stored(&self) -> &Version {
        &self.versions[self.storage]
    }

    /// Prunes the object according to the schema of the version with this index, and fills in its defaults if
    /// `defaults` says so.
    pub(crate) fn coerce(&self, version: usize, defaults: Defaults, object: &mut Object) {
        let strategy = &self.versions[version].strategy;
        match (defaults, object.custom_mut()) {
            (Defaults::Left, Some(custom)) => drop(strategy.schema().prune(&mut custom.fields)),
            _ => strategy.apply_all_defaults(object),
        }
    }
}

fn version_of(
    kind: Kind,
    version: &CustomResourceDefinitionVersion,
    schema: Option<&Arc<VersionSchema>>,
) -> Result<Version, DefinitionError> {
    Ok(Version {
        name: kind.version_name(&version.name)?,
        is_served: version.served,
        strategy: CustomStrategy::of(kind, version, schema)?,
    })
}
