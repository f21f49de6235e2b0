//! What is stored as it is written and deserves a word: the `Warning` headers that clients print. Kubernetes' own
//! texts, and one for each field that is accepted and does nothing here (API-17).

mod pod;

use k8s_openapi::api::core::v1::PodSpec;

use crate::object::{Body, Kind, Object};

/// What the author of this version should hear; nothing when it asks for the same as before.
pub(super) fn warnings_of(new: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = Vec::new();
    if new.kind() == Kind::Endpoints {
        warnings.push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into());
    }
    if old.is_some_and(|old| old.same_spec(new)) {
        return warnings;
    }
    if let (Body::Pod(_), None) = (new.body(), old) {
        pod::name(&mut warnings, new.name());
    }
    if let Some((path, spec)) = pod_spec(new.body()) {
        pod::spec(&mut warnings, path, spec);
    }
    warnings
}

/// The pod that the object is or makes, and where it stands.
fn pod_spec(body: &Body) -> Option<(&'static str, &PodSpec)> {
    match body {
        Body::Pod(pod) => Some(("spec", pod.spec.as_ref()?)),
        Body::Deployment(o) => Some(("spec.template.spec", o.spec.template.spec.as_ref()?)),
        Body::ReplicaSet(o) => Some(("spec.template.spec", o.spec.template.as_ref()?.spec.as_ref()?)),
        Body::StatefulSet(o) => Some(("spec.template.spec", o.spec.template.spec.as_ref()?)),
        Body::DaemonSet(o) => Some(("spec.template.spec", o.spec.template.spec.as_ref()?)),
        Body::Job(o) => Some(("spec.template.spec", o.spec.as_ref()?.template.spec.as_ref()?)),
        Body::CronJob(o) => {
            let job = o.spec.job_template.spec.as_ref()?;
            Some(("spec.jobTemplate.spec.template.spec", job.template.spec.as_ref()?))
        }
        Body::ReplicationController(o) => {
            let template = o.spec.as_ref()?.template.as_ref()?;
            Some(("spec.template.spec", template.spec.as_ref()?))
        }
        Body::PodTemplate(o) => Some(("template.spec", o.template.as_ref()?.spec.as_ref()?)),
        _ => None,
    }
}
