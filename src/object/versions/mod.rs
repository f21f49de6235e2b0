//! Served versions of kinds other than the stored one, and the conversions between them.
//!
//! The Kind table has each kind once, in the version for which all other code is written. Clients may use another:
//! their objects are converted to the stored version on arrival, and responses are converted at the end. A new
//! version is one entry of [`OTHERS`], and a version that Kubernetes has removed is an entry of [`legacy`].

mod autoscaling;
mod events;
mod legacy;

use std::fmt;

use bytes::Bytes;
use serde_json::Value;

use super::{DecodeError, Kind, Object, split_api_version};

/// A version of a kind that is served but not stored.
pub struct OtherVersion {
    kind: Kind,
    group: &'static str,
    version: &'static str,
    /// Field labels of selectors that this version names differently: (this version's name, the stored version's name).
    fields: &'static [(&'static str, &'static str)],
    /// Converts the stored version to this one.
    show: fn(&mut Value),
    /// Converts this version to the stored one.
    read: fn(&mut Value),
    /// Set if Kubernetes has removed this version.
    deprecation: Option<Deprecation>,
    /// The fields of this version, compared with the stored one.
    field_names: FieldNames,
}

/// The fields of a version, compared with the stored one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldNames {
    /// The stored version's fields, perhaps with other defaults.
    Stored,
    /// Fields of its own.
    Own,
}

/// The deprecation of a version in Kubernetes.
#[derive(Clone, Copy)]
struct Deprecation {
    /// The first release that warned of it.
    since: &'static str,
    /// The first release without it.
    until: &'static str,
    /// The replacement that Kubernetes recommends; empty for the stored version, `None` without a recommendation.
    replacement: Option<&'static str>,
}

/// Every version that is served but not stored, except those that Kubernetes has removed ([`legacy`]).
static OTHERS: [OtherVersion; 2] = [
    OtherVersion {
        kind: Kind::HorizontalPodAutoscaler,
        group: "autoscaling",
        version: "v1",
        fields: &[],
        show: autoscaling::show,
        read: autoscaling::read,
        deprecation: None,
        field_names: FieldNames::Own,
    },
    OtherVersion {
        kind: Kind::Event,
        group: "events.k8s.io",
        version: "v1",
        fields: events::FIELDS,
        show: events::show,
        read: events::read,
        deprecation: None,
        field_names: FieldNames::Own,
    },
];

/// A kind in one of the versions it is served in.
#[derive(Clone, Copy)]
pub enum ServedKind {
    /// The stored version.
    Stored(Kind),
    /// In another version.
    Other(&'static OtherVersion),
    /// A custom resource in one of its versions, as its definition names it.
    Custom(Kind, &'static str),
}

impl ServedKind {
    /// Returns every built-in kind in every version; removed versions come last.
    pub fn built_in() -> impl Iterator<Item = Self> {
        let others = OTHERS.iter().chain(legacy::LEGACY).map(Self::Other);
        Kind::BUILT_IN.iter().map(|kind| Self::Stored(*kind)).chain(others)
    }

    /// Returns true if Kubernetes has removed this version: it is served at its paths, and discovery lists it only on
    /// request.
    pub fn is_legacy(self) -> bool {
        matches!(self, Self::Other(other) if other.deprecation.is_some())
    }

    /// Returns Kubernetes' deprecation warning for this version.
    pub fn deprecation(self) -> Option<String> {
        let Self::Other(other) = self else { return None };
        let Deprecation { since, until, replacement } = other.deprecation?;
        let info = other.kind.info();
        let name = info.name;
        let hint = match replacement {
            Some("") => format!("; use {} {name}", info.api_version()),
            Some(other) => format!("; use {other}"),
            None => String::new(),
        };
        let version = self.api_version();
        Some(format!("{version} {name} is deprecated in v{since}+, unavailable in v{until}+{hint}"))
    }

    /// Returns true if the stored version's schema describes this version too, except for `apiVersion`.
    pub fn has_stored_fields(self) -> bool {
        match self {
            Self::Stored(_) => true,
            Self::Other(other) => other.field_names == FieldNames::Stored,
            Self::Custom(..) => false,
        }
    }

    /// Returns the Kubernetes release that no longer serves this version.
    pub fn removed_release(self) -> Option<&'static str> {
        let Self::Other(other) = self else { return None };
        Some(other.deprecation?.until)
    }

    /// Returns the built-in kind that is served under this path.
    pub fn from_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::built_in()
            .find(|s| s.kind().info().plural == plural && s.version() == version && s.group() == group)
    }

    /// Returns the built-in kind of a manifest's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, name: &str) -> Option<Self> {
        let (group, version) = split_api_version(api_version);
        Self::built_in()
            .find(|s| s.kind().info().name == name && s.version() == version && s.group() == group)
    }

    /// Returns the kind.
    pub fn kind(self) -> Kind {
        match self {
            Self::Stored(kind) | Self::Custom(kind, _) => kind,
            Self::Other(other) => other.kind,
        }
    }

    /// Returns the API group; empty for the core group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Stored(kind) | Self::Custom(kind, _) => kind.info().group,
            Self::Other(other) => other.group,
        }
    }

    /// Returns the group's version.
    pub fn version(self) -> &'static str {
        match self {
            Self::Stored(kind) => kind.info().version,
            Self::Other(other) => other.version,
            Self::Custom(_, version) => version,
        }
    }

    /// Returns `apps/v1`, or `v1` in the core group.
    pub fn api_version(self) -> String {
        match self {
            Self::Stored(kind) => kind.info().api_version(),
            Self::Other(other) => format!("{}/{}", other.group, other.version),
            Self::Custom(kind, version) => format!("{}/{version}", kind.info().group),
        }
    }

    /// Returns the object's JSON in this version.
    pub fn json(self, object: &Object) -> Bytes {
        match self {
            Self::Stored(_) => object.json(),
            Self::Custom(..) if object.api_version() == self.api_version() => object.json(),
            Self::Other(_) | Self::Custom(..) => self.value(object).to_string().into(),
        }
    }

    /// Returns the object in this version, as a value.
    pub fn value(self, object: &Object) -> Value {
        let mut value = object.to_value();
        match self {
            Self::Stored(_) => return value,
            Self::Other(other) => (other.show)(&mut value),
            Self::Custom(..) => {}
        }
        value["apiVersion"] = self.api_version().into();
        value
    }

    /// Converts a value of this version to the stored one. A custom resource is stored in the version it was written
    /// in until its definition decides otherwise (`kinds`).
    pub fn stored(self, mut value: Value) -> Value {
        if let Self::Other(other) = self {
            (other.read)(&mut value);
            if let Some(fields) = value.as_object_mut() {
                fields.insert("apiVersion".into(), other.kind.info().api_version().into());
            }
        }
        value
    }

    /// Returns the stored name of a field in a selector.
    pub fn stored_field(self, path: String) -> String {
        let fields = match self {
            Self::Stored(_) | Self::Custom(..) => &[],
            Self::Other(other) => other.fields,
        };
        fields.iter().find(|(here, _)| *here == path).map_or(path, |(_, stored)| (*stored).to_string())
    }
}

impl Object {
    /// Reads an object that names its own kind.
    pub fn from_any_value(value: Value) -> Result<Self, DecodeError> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        let (api_version, name) = (text("apiVersion"), text("kind"));
        match ServedKind::from_api_version(&api_version, &name) {
            Some(served) => Self::from_value(served.kind(), served.stored(value)),
            None => Err(DecodeError::UnknownKind { api_version, name }),
        }
    }
}

impl From<Kind> for ServedKind {
    fn from(kind: Kind) -> Self {
        Self::Stored(kind)
    }
}

impl PartialEq for ServedKind {
    fn eq(&self, other: &Self) -> bool {
        (self.kind(), self.group(), self.version()) == (other.kind(), other.group(), other.version())
    }
}

impl Eq for ServedKind {}

impl fmt::Debug for ServedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind(), self.api_version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_a_path_of_its_own_api_7() {
        for served in ServedKind::built_in() {
            let info = served.kind().info();
            assert_eq!(ServedKind::from_path(served.group(), served.version(), info.plural), Some(served));
            assert_eq!(ServedKind::from_api_version(&served.api_version(), info.name), Some(served));
        }
        let old = ServedKind::from_api_version("autoscaling/v1", "HorizontalPodAutoscaler").unwrap();
        assert_eq!(old.kind(), Kind::HorizontalPodAutoscaler);
        assert_eq!(ServedKind::from_api_version("autoscaling/v3", "HorizontalPodAutoscaler"), None);
    }
}
