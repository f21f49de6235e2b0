//! The queue keys of controllers for both claims and volumes.

use std::fmt;

use object::{Key, Kind};

/// A claim or a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Request {
    /// A claim.
    Claim(Key),
    /// A volume, by name.
    Volume(String),
}

impl Request {
    pub(super) fn object(&self) -> (Kind, Key) {
        match self {
            Self::Claim(key) => (Kind::PersistentVolumeClaim, key.clone()),
            Self::Volume(name) => (Kind::PersistentVolume, Key::new("", name.as_str())),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) => write!(f, "PersistentVolumeClaim {key}"),
            Self::Volume(name) => write!(f, "PersistentVolume {name}"),
        }
    }
}
