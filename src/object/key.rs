//! Names of things: keys within a kind, uids, revisions.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The identity of an object within its kind: namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Key {
    /// Creates a key in a namespace (or, with "", of a cluster-scoped object).
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of the object with this metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }

    /// Returns the metadata of a new object with this key.
    pub fn metadata(self) -> ObjectMeta {
        let namespace = Some(self.namespace).filter(|namespace| !namespace.is_empty());
        ObjectMeta { name: Some(self.name), namespace, ..ObjectMeta::default() }
    }

    /// Returns the namespace, or None for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }
}

/// `namespace/name`, or `name` alone for cluster-scoped objects.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// `metadata.uid`.
pub type Uid = String;

/// A version of the whole state: `metadata.resourceVersion` as a number. Each write gets the next revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Returns the revision at which an object was stored; 0 if it was never stored.
    pub fn of(meta: &ObjectMeta) -> Self {
        meta.resource_version.as_deref().and_then(Self::parse).unwrap_or_default()
    }

    /// Parses a resource version as clients write it: digits, nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        if digits { text.parse().ok().map(Self) } else { None }
    }

    /// Returns the following revision.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
