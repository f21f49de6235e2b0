//! PodNodeSelector: restricts a namespace's pods to nodes, by the annotation
//! `scheduler.alpha.kubernetes.io/node-selector`.

use k8s_openapi::api::core::v1::{Namespace, Pod};

use super::Request;
use crate::ApiError;
use base::quote::quote;
use object::selector::{Labels, Operator, Selector};
use object::{Key, Kind, Object};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    if object.kind() != Kind::Pod {
        return Ok(());
    }
    let namespace = request.api.get_as::<Namespace>(&Key::new("", object.namespace()))?;
    let Some(text) = namespace.metadata.annotations.as_ref().and_then(|a| a.get(ANNOTATION)) else {
        return Ok(());
    };
    let name = object.name().to_string();
    let forbidden = |reason: String| ApiError::forbidden(Kind::Pod, &name, reason);
    let required = labels(text).ok_or_else(|| forbidden(format!("invalid node selector {}", quote(text))))?;
    let Some(spec) = object.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()) else { return Ok(()) };
    let own = spec.node_selector.get_or_insert_default();
    if required.iter().any(|(key, value)| own.get(key).is_some_and(|other| other != value)) {
        return Err(forbidden(
            "pod node label selector conflicts with its namespace node label selector".into(),
        ));
    }
    own.extend(required);
    spec.node_selector = spec.node_selector.take().filter(|selector| !selector.is_empty());
    Ok(())
}

/// Parses `a=b,c=d`; `None` for anything else.
fn labels(text: &str) -> Option<Labels> {
    let selector = Selector::parse(text).ok()?;
    let mut labels = Labels::new();
    for requirement in selector.requirements() {
        let Operator::In(values) = &requirement.operator else { return None };
        let [value] = values.as_slice() else { return None };
        labels.insert(requirement.key.clone(), value.clone());
    }
    Some(labels)
}
