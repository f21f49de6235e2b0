//! Scale: the replica count of a workload, apart from everything else in it.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::api::write::Part;
use crate::api::{Api, ApiError, Cause, WriteOptions};
use crate::object::{Body, Key, Kind, Object, Revision};

impl Api {
    /// The scale of a workload.
    pub fn scale(&self, kind: Kind, key: &Key) -> Result<Scale, ApiError> {
        scale_of(&*self.get(kind, key)?)
    }

    /// Sets a workload's replica count to what `edit` makes of its scale.
    pub fn change_scale(
        &self,
        kind: Kind,
        key: &Key,
        options: &WriteOptions,
        edit: impl Fn(Scale) -> Result<Scale, ApiError>,
    ) -> Result<Scale, ApiError> {
        let stored = self.change(kind, key, Part::Main, options, |current| {
            let scale = edit(scale_of(current)?)?;
            if let Some(version) = scale.metadata.resource_version.as_ref().filter(|v| !v.is_empty())
                && *version != current.revision().to_string()
            {
                return Err(ApiError::modified(kind, &key.name));
            }
            let replicas = scale.spec.as_ref().and_then(|s| s.replicas).unwrap_or(0);
            if replicas < 0 {
                return Err(ApiError::InvalidRequest {
                    what: "Scale",
                    group: "autoscaling",
                    name: key.name.clone(),
                    causes: vec![Cause {
                        reason: "FieldValueInvalid".into(),
                        message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
                        field: "spec.replicas".into(),
                    }],
                });
            }
            let mut next = current.clone();
            if let Some(deployment) = next.get_mut::<Deployment>() {
                deployment.spec.replicas = Some(replicas);
            }
            if let Some(set) = next.get_mut::<ReplicaSet>() {
                set.spec.replicas = Some(replicas);
            }
            if let Some(set) = next.get_mut::<StatefulSet>() {
                set.spec.replicas = Some(replicas);
            }
            if let Some(controller) = next.get_mut::<ReplicationController>() {
                controller.spec.get_or_insert_default().replicas = Some(replicas);
            }
            Ok(next)
        })?;
        scale_of(&stored)
    }
}

fn scale_of(object: &Object) -> Result<Scale, ApiError> {
    let (wanted, current, selector) = match object.body() {
        Body::Deployment(deployment) => (
            deployment.spec.replicas,
            deployment.status.as_ref().and_then(|s| s.replicas),
            selector_text(&deployment.spec.selector),
        ),
        Body::ReplicaSet(set) => {
            (set.spec.replicas, set.status.as_ref().map(|s| s.replicas), selector_text(&set.spec.selector))
        }
        Body::StatefulSet(set) => {
            (set.spec.replicas, set.status.as_ref().map(|s| s.replicas), selector_text(&set.spec.selector))
        }
        Body::ReplicationController(controller) => {
            let spec = controller.spec.as_ref();
            let labels = spec.and_then(|s| s.selector.clone());
            let selector = LabelSelector { match_labels: labels, ..LabelSelector::default() };
            (
                spec.and_then(|s| s.replicas),
                controller.status.as_ref().map(|s| s.replicas),
                selector_text(&selector),
            )
        }
        _ => return Err(ApiError::NoSuchResource),
    };
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
        spec: Some(ScaleSpec { replicas: Some(wanted.unwrap_or(1)) }),
        status: Some(ScaleStatus { replicas: current.unwrap_or(0), selector: Some(selector) }),
    })
}

/// The query form of a selector: `app=web,tier in (a,b)`.
fn selector_text(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.iter().flatten().map(|e| {
        let values = e.values.clone().unwrap_or_default().join(",");
        match e.operator.as_str() {
            "In" => format!("{} in ({values})", e.key),
            "NotIn" => format!("{} notin ({values})", e.key),
            "DoesNotExist" => format!("!{}", e.key),
            _ => e.key.clone(),
        }
    });
    equal.chain(others).collect::<Vec<_>>().join(",")
}
