//! The versions in which owners name fields. If fields are the same in all versions, an object is the same to
//! every owner; if a webhook converts objects, each owner's fields are compared in the owner's version.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::compare::{Changes, compare};
use super::fingerprint::fingerprint;
use super::types::Type;
use crate::ApiError;
use crate::served_kinds::Kinds;
use kinds::KindSchemas;
use object::Kind;

/// Returns the differences between two versions.
pub(crate) fn changes(of: Type<'_>, old: &Value, new: &Value) -> Changes {
    compare(&fingerprint(of, &[], old), &fingerprint(of, &[], new))
}

/// Converts objects of one kind.
pub(crate) trait Converter {
    /// Converts the objects to a version.
    fn convert(&self, values: Vec<Value>, api_version: &str) -> Result<Vec<Value>, ApiError>;
}

/// The versions of a kind.
#[derive(Clone, Copy)]
pub(crate) enum Versions<'a> {
    /// All versions have the same fields.
    Same(Type<'a>),
    /// Each version has fields of its own, and `convert` converts between versions.
    Converted { kinds: &'a Kinds, schemas: &'a KindSchemas, kind: Kind, convert: &'a dyn Converter },
}

impl<'a> Versions<'a> {
    /// Returns the versions of a kind; `of` is the type in the present version.
    pub(crate) fn new(
        kinds: &'a Kinds,
        schemas: &'a KindSchemas,
        convert: Option<&'a dyn Converter>,
        kind: Kind,
        of: Type<'a>,
    ) -> Self {
        match convert {
            None => Self::Same(of),
            Some(convert) => Self::Converted { kinds, schemas, kind, convert },
        }
    }

    /// Returns true if the fields differ from version to version.
    pub(crate) fn differ(&self) -> bool {
        matches!(self, Self::Converted { .. })
    }

    /// Returns the type in a version.
    pub(crate) fn of(&self, api_version: &str) -> Type<'a> {
        match self {
            Self::Same(of) => *of,
            Self::Converted { kinds, schemas, kind, .. } => kinds
                .version_named(*kind, api_version)
                .map_or(Type::Unknown, |served| Type::served(schemas, served)),
        }
    }

    /// Returns the objects in a version.
    pub(crate) fn convert<const N: usize>(
        &self,
        values: [&Value; N],
        api_version: &str,
    ) -> Result<[Value; N], ApiError> {
        let values = values.map(Value::clone);
        match self {
            Self::Converted { convert, .. } if values.iter().any(|v| v["apiVersion"] != api_version) => {
                let converted = convert.convert(values.into(), api_version)?;
                let count = |_| ApiError::Internal("the conversion returned too few objects".into());
                converted.try_into().map_err(count)
            }
            _ => Ok(values),
        }
    }

    /// Returns the differences between two objects of one version, in each of the other versions in which
    /// owners name fields.
    pub(crate) fn changes<'o>(
        &self,
        old: &Value,
        new: &Value,
        owners: impl Iterator<Item = &'o str>,
    ) -> Result<BTreeMap<String, Changes>, ApiError> {
        let mut found = BTreeMap::new();
        if !self.differ() {
            return Ok(found);
        }
        let others: BTreeSet<&str> = owners.filter(|version| new["apiVersion"] != **version).collect();
        for version in others {
            // A new object has no earlier state to convert.
            let (old, new) = if old.get("apiVersion").is_some() {
                let [old, new] = self.convert([old, new], version)?;
                (old, new)
            } else {
                let [new] = self.convert([new], version)?;
                (old.clone(), new)
            };
            found.insert(version.to_string(), changes(self.of(version), &old, &new));
        }
        Ok(found)
    }
}
