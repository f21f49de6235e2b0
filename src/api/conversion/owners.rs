//! Conversions for managed fields: each entry names fields in a version of its own.

use std::sync::Arc;

use serde_json::Value;

use crate::managed_fields::Converter;
use crate::served_kinds::Defaults;
use crate::{Api, ApiError};
use object::{Kind, Object};

/// Converts for the managed fields of a kind's objects.
pub(crate) struct OwnerConverter<'a> {
    api: &'a Api,
    kind: Kind,
}

impl<'a> OwnerConverter<'a> {
    /// `None` for a kind whose versions have the same fields.
    pub(crate) fn of(api: &'a Api, kind: Kind) -> Option<Self> {
        api.kinds().is_converted(kind).then_some(Self { api, kind })
    }
}

impl Converter for OwnerConverter<'_> {
    fn convert(&self, values: Vec<Value>, api_version: &str) -> Result<Vec<Value>, ApiError> {
        let kinds = self.api.kinds();
        let Some(served) = kinds.version_named(self.kind, api_version) else {
            let message = format!("request to convert CR to an invalid group/version: {api_version}");
            return Err(ApiError::Failure(message));
        };
        let unreadable = |error: object::DecodeError| ApiError::Failure(error.to_string());
        let read = |value| Object::from_value(self.kind, value).map(Arc::new).map_err(unreadable);
        let objects = values.into_iter().map(read).collect::<Result<_, _>>()?;
        let converted = self.api.in_version_now(objects, served, Defaults::Left)?;
        Ok(converted.iter().map(|object| object.content()).collect())
    }
}
