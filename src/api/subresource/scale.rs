//! Scale: the replica count of a workload, apart from everything else in it.

use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{Api, ApiError, Part, WriteOptions, object_checks};
use object::{Key, Kind, Object, Revision};

impl Api {
    /// Returns the scale of a workload.
    pub fn scale(&self, kind: Kind, key: &Key) -> Result<Scale, ApiError> {
        scale_of(self, &*self.get(kind, key)?)
    }

    /// Sets a workload's replica count to the one in its edited scale.
    pub fn change_scale(
        &self,
        kind: Kind,
        key: &Key,
        options: &WriteOptions,
        edit: impl Fn(Scale) -> Result<Scale, ApiError>,
    ) -> Result<Scale, ApiError> {
        let stored = self.change_through("scale", kind, key, Part::Main, options, |current| {
            let scale = edit(scale_of(self, current)?)?;
            if let Some(version) = scale.metadata.resource_version.as_ref().filter(|v| !v.is_empty())
                && *version != current.revision().to_string()
            {
                return Err(ApiError::modified(kind, &key.name));
            }
            let replicas = scale.spec.as_ref().and_then(|s| s.replicas).unwrap_or(0);
            object_checks::check_scale(&key.name, replicas)?;
            let mut next = current.clone();
            self.kinds().strategy(current).set_replicas(&mut next, replicas);
            Ok(next)
        })?;
        scale_of(self, &*self.as_requested(&stored, options)?)
    }
}

/// Returns the present scale of a workload.
pub fn scale_of(api: &Api, object: &Object) -> Result<Scale, ApiError> {
    let replicas = api.kinds().strategy(object).replicas(object).ok_or(ApiError::NoSuchResource)?;
    let meta = object.meta();
    Ok(Scale {
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: Some(Revision::of(meta).to_string()),
            creation_timestamp: meta.creation_timestamp.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(ScaleSpec { replicas: Some(replicas.desired.unwrap_or(1)) }),
        status: Some(ScaleStatus { replicas: replicas.current, selector: Some(replicas.selector) }),
    })
}
