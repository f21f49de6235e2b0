//! Versions of kinds beside the one they are stored in: the same object in other words.
//!
//! The Kind table has each kind once, in the version everything here is written for. Clients may speak
//! another: what they send is turned into the stored version before anybody looks at it, and what they get
//! is made of it at the last moment. A new version is one entry of [`OTHERS`].

mod autoscaling;
mod events;

use std::fmt;

use bytes::Bytes;
use serde_json::Value;

use super::{Kind, Object, split_api_version};

/// A version of a kind that is served but not stored.
pub struct OtherVersion {
    kind: Kind,
    group: &'static str,
    version: &'static str,
    /// Field labels of selectors that have another name here: (here, stored).
    fields: &'static [(&'static str, &'static str)],
    /// From the stored version to this one.
    show: fn(&mut Value),
    /// From this version to the stored one.
    read: fn(&mut Value),
}

/// Every version that is served but not stored.
static OTHERS: [OtherVersion; 2] = [
    OtherVersion {
        kind: Kind::HorizontalPodAutoscaler,
        group: "autoscaling",
        version: "v1",
        fields: &[],
        show: autoscaling::show,
        read: autoscaling::read,
    },
    OtherVersion {
        kind: Kind::Event,
        group: "events.k8s.io",
        version: "v1",
        fields: events::FIELDS,
        show: events::show,
        read: events::read,
    },
];

/// A kind in one of the versions it is served in.
#[derive(Clone, Copy)]
pub enum ServedKind {
    /// As it is stored.
    Stored(Kind),
    /// In another version.
    Other(&'static OtherVersion),
    /// A custom resource in one of its versions, as its definition names it.
    Custom(Kind, &'static str),
}

impl ServedKind {
    /// Every built-in kind in every version.
    pub fn built_in() -> impl Iterator<Item = Self> {
        Kind::BUILT_IN.iter().map(|kind| Self::Stored(*kind)).chain(OTHERS.iter().map(Self::Other))
    }

    /// The built-in kind that is served under this path.
    pub fn from_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::built_in()
            .find(|s| (s.group(), s.version(), s.kind().info().plural) == (group, version, plural))
    }

    /// The built-in kind that a manifest's `apiVersion` and `kind` mean.
    pub fn from_api_version(api_version: &str, name: &str) -> Option<Self> {
        let (group, version) = split_api_version(api_version);
        Self::built_in().find(|s| (s.group(), s.version(), s.kind().info().name) == (group, version, name))
    }

    /// The kind.
    pub fn kind(self) -> Kind {
        match self {
            Self::Stored(kind) | Self::Custom(kind, _) => kind,
            Self::Other(other) => other.kind,
        }
    }

    /// The API group; empty for the core group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Stored(kind) | Self::Custom(kind, _) => kind.info().group,
            Self::Other(other) => other.group,
        }
    }

    /// The group's version.
    pub fn version(self) -> &'static str {
        match self {
            Self::Stored(kind) => kind.info().version,
            Self::Other(other) => other.version,
            Self::Custom(_, version) => version,
        }
    }

    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(self) -> String {
        match self {
            Self::Stored(kind) => kind.info().api_version(),
            Self::Other(other) => format!("{}/{}", other.group, other.version),
            Self::Custom(kind, version) => format!("{}/{version}", kind.info().group),
        }
    }

    /// The object's JSON in this version.
    pub fn json(self, object: &Object) -> Bytes {
        match self {
            Self::Stored(_) => object.json().clone(),
            Self::Custom(..) if object.api_version() == self.api_version() => object.json().clone(),
            Self::Other(_) | Self::Custom(..) => self.value(object).to_string().into(),
        }
    }

    /// The object in this version, as a value.
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

    /// What is written in this version, in the one that is stored. A custom resource is stored in the version it was
    /// written in until its definition says otherwise (`api::kinds`).
    pub fn stored(self, mut value: Value) -> Value {
        if let Self::Other(other) = self {
            (other.read)(&mut value);
            if let Some(fields) = value.as_object_mut() {
                fields.insert("apiVersion".into(), other.kind.info().api_version().into());
            }
        }
        value
    }

    /// The stored name of a field that selectors name.
    pub fn stored_field(self, path: String) -> String {
        let fields = match self {
            Self::Stored(_) | Self::Custom(..) => &[],
            Self::Other(other) => other.fields,
        };
        fields.iter().find(|(here, _)| *here == path).map_or(path, |(_, stored)| (*stored).to_string())
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
