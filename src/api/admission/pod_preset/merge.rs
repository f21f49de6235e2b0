//! Merges presets into a pod. An entry that the pod has already is no conflict if it is equal.

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, Volume, VolumeMount};

use object::SharedObject;
use object::pod_preset::PodPreset;

/// Returns the pod with all entries of the presets; the error names the first conflict.
pub(super) fn merged(pod: &Pod, presets: &[SharedObject<PodPreset>]) -> Result<Pod, String> {
    let mut pod = pod.clone();
    let Some(spec) = pod.spec.as_mut() else { return Ok(pod) };
    for preset in presets {
        for volume in preset.spec.volumes.iter().flatten() {
            add(spec.volumes.get_or_insert_default(), volume, preset.name())?;
        }
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        for container in containers {
            give(container, preset)?;
        }
    }
    spec.volumes = spec.volumes.take().filter(|volumes| !volumes.is_empty());
    Ok(pod)
}

fn give(container: &mut Container, preset: &SharedObject<PodPreset>) -> Result<(), String> {
    for variable in preset.spec.env.iter().flatten() {
        add(container.env.get_or_insert_default(), variable, preset.name())?;
    }
    for source in preset.spec.env_from.iter().flatten() {
        let sources = container.env_from.get_or_insert_default();
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
    for mount in preset.spec.volume_mounts.iter().flatten() {
        add(container.volume_mounts.get_or_insert_default(), mount, preset.name())?;
    }
    Ok(())
}

/// An entry that a container or pod may have only once.
trait UniqueItem: Clone + PartialEq {
    /// The name in conflict messages.
    const FIELD: &'static str;
    /// Returns the name or path that both entries share, if a container or pod may have only one of them.
    fn conflicting_name<'a>(&'a self, other: &Self) -> Option<&'a str>;
}

impl UniqueItem for EnvVar {
    const FIELD: &'static str = "env";
    fn conflicting_name<'a>(&'a self, other: &Self) -> Option<&'a str> {
        (self.name == other.name).then_some(&self.name)
    }
}

impl UniqueItem for Volume {
    const FIELD: &'static str = "volumes";
    fn conflicting_name<'a>(&'a self, other: &Self) -> Option<&'a str> {
        (self.name == other.name).then_some(&self.name)
    }
}

impl UniqueItem for VolumeMount {
    const FIELD: &'static str = "volume mounts";
    // A pod's author may mount a volume twice, but a preset's mount of a volume conflicts with every other mount of it.
    fn conflicting_name<'a>(&'a self, other: &Self) -> Option<&'a str> {
        if self.name == other.name {
            Some(&self.name)
        } else {
            (self.mount_path == other.mount_path).then_some(&self.mount_path)
        }
    }
}

/// Adds an entry that is missing; fails if a different entry has the same name or path.
fn add<T: UniqueItem>(list: &mut Vec<T>, new: &T, preset: &str) -> Result<(), String> {
    if list.contains(new) {
        return Ok(());
    }
    if let Some(both) = list.iter().find_map(|known| known.conflicting_name(new)) {
        return Err(format!("merging {} for {preset} has a conflict on {both}", T::FIELD));
    }
    list.push(new.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn result(pod: &Value, presets: &[Value]) -> Result<Value, String> {
        let preset = |(n, spec): (usize, &Value)| {
            let value = json!({"metadata": {"name": format!("p{n}")}, "spec": spec});
            SharedObject::from_value(serde_json::from_value::<PodPreset>(value).unwrap())
        };
        let presets: Vec<_> = presets.iter().enumerate().map(preset).collect();
        let pod: Pod = serde_json::from_value(json!({"spec": pod})).unwrap();
        merged(&pod, &presets).map(|pod| serde_json::to_value(&pod.spec).unwrap())
    }

    #[test]
    fn every_container_gets_what_all_presets_give_pp_1() {
        let env = |name: &str, value: &str| json!({"name": name, "value": value});
        let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
        let spec = result(
            &json!({"containers": [{"name": "a", "env": [env("A", "1")]}, {"name": "b"}],
                "initContainers": [{"name": "i"}], "volumes": [{"name": "own", "emptyDir": {}}]}),
            &[
                json!({"env": [env("A", "1"), env("DB_PORT", "6379")], "volumes": [{"name": "cache", "emptyDir": {}}],
                    "volumeMounts": [mount("cache", "/cache")]}),
                json!({"env": [env("DB_PORT", "6379")], "envFrom": [{"configMapRef": {"name": "etcd"}}]}),
            ],
        )
        .unwrap();
        let given = |first: Value| {
            json!({"name": first, "env": [env("A", "1"), env("DB_PORT", "6379")],
                "envFrom": [{"configMapRef": {"name": "etcd"}}], "volumeMounts": [mount("cache", "/cache")]})
        };
        assert_eq!(
            spec,
            json!({"containers": [given("a".into()), given("b".into())], "initContainers": [given("i".into())],
                "volumes": [{"name": "own", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]})
        );
    }

    /// Presets are merged again after a webhook's change.
    #[test]
    fn presets_applied_before_are_not_applied_again_api_16() {
        let presets =
            [json!({"env": [{"name": "A", "value": "1"}], "envFrom": [{"configMapRef": {"name": "c"}}],
            "volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]})];
        let once = result(&json!({"containers": [{"name": "a"}]}), &presets).unwrap();
        assert_eq!(once["containers"][0]["envFrom"], json!([{"configMapRef": {"name": "c"}}]));
        assert_eq!(result(&once, &presets), Ok(once.clone()));
    }

    #[test]
    fn two_that_differ_are_a_conflict_pp_1() {
        let container = json!({"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]}], "volumes": [{"name": "v", "emptyDir": {}}]});
        for (preset, conflict) in [
            (json!({"env": [{"name": "A", "value": "2"}]}), "env for p0 has a conflict on A"),
            (
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
                "volumes for p0 has a conflict on v",
            ),
            (
                json!({"volumeMounts": [{"name": "v", "mountPath": "/w"}]}),
                "volume mounts for p0 has a conflict on v",
            ),
            (
                json!({"volumeMounts": [{"name": "w", "mountPath": "/v"}]}),
                "volume mounts for p0 has a conflict on /v",
            ),
        ] {
            assert_eq!(result(&container, &[preset]), Err(format!("merging {conflict}")));
        }
        let two =
            [json!({"env": [{"name": "B", "value": "1"}]}), json!({"env": [{"name": "B", "value": "2"}]})];
        assert_eq!(result(&container, &two), Err("merging env for p1 has a conflict on B".into()));
    }
}
