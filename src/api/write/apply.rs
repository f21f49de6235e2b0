//! Server-side apply: merges a configuration into an object, or creates the object from it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::TRIES;
use super::parts::status_retains_metadata;
use super::pipeline::Ownership;
use crate::authorization::{Attributes, RequestTarget, ResourceAttributes};
use crate::conversion::OwnerConverter;
use crate::managed_fields::{self, Configuration, Converter, Type, Writer};
use crate::{Api, ApiError, Apply, Part, WriteOptions};
use object::managed::{FieldSet, PathElement};
use object::{Key, Object, ServedKind};

/// The result of an apply.
#[derive(Clone, Debug)]
pub struct ApplyResult {
    /// The object as stored.
    pub object: Arc<Object>,
    /// The version before; `None` for a new object.
    pub before: Option<Arc<Object>>,
}

impl Api {
    /// Applies a configuration; `decode` reads the next version of the object, in the storage version.
    pub fn apply(
        &self,
        request: &Apply,
        options: &WriteOptions,
        mut decode: impl FnMut(Value) -> Result<Object, ApiError>,
    ) -> Result<ApplyResult, ApiError> {
        let Apply { served, key, part, .. } = request;
        let kinds = self.kinds();
        check_configuration(Type::served(&kinds.schemas(served.kind()), *served), request)?;
        let config = served.stored(request.config.clone());
        let version = config["apiVersion"].as_str().unwrap_or_default().to_string();
        let ignored = self.ignored(*served, *part, &config);
        let subresource = request.subresource.or(part.subresource()).unwrap_or_default();
        let writer = Writer {
            manager: options.field_manager.as_deref().unwrap_or(self.manager),
            subresource,
            now: self.server_clock().now().as_second(),
        };
        let converted = OwnerConverter::of(self, served.kind());
        let convert = converted.as_ref().map(|convert| convert as &dyn Converter);
        let mut next = |live: Option<&Object>| {
            let config =
                Configuration { value: &config, version: &version, ignored: &ignored, force: request.force };
            let (value, owners) =
                managed_fields::apply(&kinds, convert, stored_version(*served), &writer, live, &config)?;
            Ok((decode(value)?, Ownership::Applied(owners, subresource)))
        };
        for _ in 0..TRIES {
            let live = self.store().get(served.kind(), key);
            if live.is_none() && *part == Part::Main && request.subresource.is_none() {
                self.check_may_create(*served, key, options)?;
                let (object, ownership) = next(None)?;
                if let Some(uid) = object.meta().uid.as_ref().filter(|uid| !uid.is_empty()) {
                    let message = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(ApiError::conflict(served.kind(), &key.name, message));
                }
                match self.create_owned(object, options, &ownership) {
                    // Another write was faster: the object exists now.
                    Err(error) if error.is_already_exists() => continue,
                    made => return made.map(|object| ApplyResult { object, before: None }),
                }
            }
            let mut before = None;
            let object = self.change_owned(served.kind(), key, *part, options, &mut |current| {
                before = Some(Arc::new(current.clone()));
                next(Some(current))
            })?;
            return Ok(ApplyResult { object, before });
        }
        Err(ApiError::modified(served.kind(), &key.name))
    }

    /// Checks that the user of an apply or update may also create, because it creates the object.
    pub(super) fn check_may_create(
        &self,
        served: ServedKind,
        key: &Key,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        let Some(user) = options.user.as_deref() else { return Ok(()) };
        let on = ResourceAttributes {
            group: served.group(),
            resource: served.kind().info().plural,
            name: &key.name,
            namespace: &key.namespace,
            ..ResourceAttributes::default()
        };
        self.authorize(&Attributes { user, verb: "create", on: RequestTarget::Resource(on) })
    }

    /// Returns the fields of a configuration that a write of this part ignores: they get no owner.
    fn ignored(&self, served: ServedKind, part: Part, config: &Value) -> FieldSet {
        let has_status = self.kinds().strategy_in(served).has_status();
        let is_taken = |name: &str| match part {
            Part::Main | Part::System => name != "status" || !has_status,
            Part::Status | Part::Approval => {
                name == "status" || (name == "metadata" && !status_retains_metadata(served.kind()))
            }
            Part::EphemeralContainers | Part::Resize => name == "spec",
        };
        let names = config.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        let names = names.chain(["status"]).filter(|name| !is_taken(name));
        FieldSet::of(names.map(|name| [PathElement::field(name)]))
    }
}

/// Refuses a configuration that cannot be applied.
fn check_configuration(of: Type<'_>, request: &Apply) -> Result<(), ApiError> {
    let metadata = request.config.get("metadata");
    if metadata.and_then(|metadata| metadata.get("managedFields")).is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let Some(fault) = managed_fields::faults(of, &request.config) else { return Ok(()) };
    let (served, key) = (request.served, &request.key);
    let version = match served.group() {
        "" => format!("/{}", served.version()),
        _ => served.api_version(),
    };
    let kind = served.kind().info().name;
    Err(ApiError::Failure(format!(
        "failed to create typed patch object ({}/{}; {version}, Kind={kind}): {fault}",
        key.namespace, key.name
    )))
}

/// Returns the kind in the version in which its objects are compared.
fn stored_version(served: ServedKind) -> ServedKind {
    match served {
        ServedKind::Other(_) => served.kind().into(),
        same => same,
    }
}
