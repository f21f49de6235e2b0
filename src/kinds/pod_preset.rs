//! Pod presets (settings.k8s.io), which Kubernetes had until 1.19.

use k8s_openapi::api::core::v1::{Container, SecurityContext, Volume};

use super::columns::Column;
use super::resource::Resource;
use apimachinery::default::{pod_spec, volumes as default_volumes};
use apimachinery::validate::{FieldErrors, Path, PodContext, environment, selector, volumes};
use object::pod_preset::PodPreset;

impl Resource for PodPreset {
    const COLUMNS: &'static [Column<Self>] = &[Column::name(), Column::created_at()];

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.volumes.iter_mut().flatten().for_each(default_volumes::volume);
        spec.env.iter_mut().flatten().for_each(pod_spec::env);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let spec = &self.spec;
        selector::label_selector(errors, &path.child("selector"), &spec.selector);
        let list = spec.volumes.as_deref().unwrap_or_default();
        let env = spec.env.as_deref().unwrap_or_default();
        let env_from = spec.env_from.as_deref().unwrap_or_default();
        let mounts = spec.volume_mounts.as_deref().unwrap_or_default();
        if list.is_empty() && env.is_empty() && env_from.is_empty() && mounts.is_empty() {
            errors.required(&path.child("volumes, env, envFrom, volumeMounts"), "must specify at least one");
        }
        volumes::volumes(errors, &path.child("volumes"), list, None);
        environment::variables(errors, &path.child("env"), env);
        environment::sources(errors, &path.child("envFrom"), env_from);
        // Mounts may refer to volumes of the pod, and may depend on its containers' privileges. Neither is known here,
        // so all volumes count as present and the container as privileged.
        let any = Volume::default();
        let pod = PodContext {
            volumes: mounts.iter().map(|mount| (mount.name.as_str(), &any)).collect(),
            ..PodContext::default()
        };
        let privileged = SecurityContext { privileged: Some(true), ..SecurityContext::default() };
        let container = Container {
            volume_mounts: Some(mounts.to_vec()),
            security_context: Some(privileged),
            ..Container::default()
        };
        volumes::mounts(errors, &path, &container, &pod);
    }
}
