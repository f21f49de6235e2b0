//! Volumes in memory (emptyDir with medium Memory): their size limits, and the containers to which their memory counts.
//! Pure.

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Pod, Volume};

use crate::runtime::MemoryVolume;
use crate::spec;
use object::quantity::{Amount, ResourceList};
use object::resources::pod_limits;

/// Returns true if the volume is to lie in memory.
pub(crate) fn is_memory(volume: &Volume) -> bool {
    volume.empty_dir.as_ref().and_then(|source| source.medium.as_deref()) == Some("Memory")
}

/// Rejects an unsupported medium.
pub(super) fn check_medium(source: &EmptyDirVolumeSource) -> Result<(), String> {
    match source.medium.as_deref() {
        None | Some("" | "Memory") => Ok(()),
        Some(huge) if huge == "HugePages" || huge.starts_with("HugePages-") => {
            Err(format!("medium \"{huge}\": huge pages are not supported"))
        }
        Some(other) => Err(format!("unknown storage medium \"{other}\"")),
    }
}

/// The directory's mode before a group gets write access.
pub(super) fn mode(source: &EmptyDirVolumeSource) -> u32 {
    source.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o777)
}

/// The memory volumes of the pod's sandbox.
pub(crate) fn memory_volumes(pod: &Pod, allocatable: &ResourceList, group: Option<u32>) -> Vec<MemoryVolume> {
    let volumes = spec::spec(pod).volumes.iter().flatten().filter(|volume| is_memory(volume));
    let of = |volume: &Volume| {
        let source = volume.empty_dir.as_ref()?;
        Some(MemoryVolume {
            name: volume.name.clone(),
            size_bytes: size(pod, source, allocatable),
            mode: mode(source) | if group.is_some() { super::ownership::WRITABLE.directory } else { 0 },
            group,
        })
    };
    volumes.filter_map(of).collect()
}

/// The smallest of the volume's limit, the pod's limit, and the node's memory.
fn size(pod: &Pod, source: &EmptyDirVolumeSource, allocatable: &ResourceList) -> Option<u64> {
    let limited = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|r| r.limits.as_ref());
        limits.is_some_and(|limits| limits.contains_key("memory"))
    };
    let whole = spec::app_containers(pod).iter().all(limited)
        && spec::init_containers(pod).all(|(_, container)| limited(container));
    let of_pod = pod_limits(pod).get("memory").copied().filter(|_| whole);
    let sizes =
        [source.size_limit.as_ref().map(Amount::of), of_pod, allocatable.get("memory").map(Amount::of)];
    sizes
        .into_iter()
        .flatten()
        .filter_map(|size| u64::try_from(size.units()).ok())
        .filter(|size| *size > 0)
        .min()
}

/// The memory volumes that no other container may write: their content counts as this one's memory.
pub(crate) fn of_container(pod: &Pod, container: &Container) -> Vec<String> {
    let writes = |container: &Container, volume: &str| {
        let mut mounts = container.volume_mounts.iter().flatten();
        mounts.any(|mount| mount.name == volume && mount.read_only != Some(true))
    };
    let volumes = spec::spec(pod).volumes.iter().flatten().filter(|volume| is_memory(volume));
    let alone = |volume: &&Volume| {
        let mut others = spec::all_containers(pod).filter(|(_, other)| other.name != container.name);
        writes(container, &volume.name) && !others.any(|(_, other)| writes(&other, &volume.name))
    };
    volumes.filter(alone).map(|volume| volume.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(limit: &Value, containers: &Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": containers, "volumes": [
            {"name": "disk", "emptyDir": {}},
            {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}]}}))
        .unwrap()
    }

    /// VOL-1: the smallest bound is the size of a volume in memory, as in Kubernetes.
    #[test]
    fn the_smallest_bound_counts_vol_1() {
        let allocatable: ResourceList = serde_json::from_value(json!({"memory": "1Gi"})).unwrap();
        let limited = |memory: &str| json!({"name": memory.to_lowercase(), "resources": {"limits": {"memory": memory}}});
        for (limit, containers, size) in [
            (json!(null), json!([{"name": "a"}]), 1 << 30),
            (json!("64Mi"), json!([{"name": "a"}]), 64 << 20),
            (json!("2Gi"), json!([{"name": "a"}]), 1 << 30),
            (json!("0"), json!([limited("16Mi"), limited("32Mi")]), 48 << 20),
            (json!("64Mi"), json!([limited("16Mi"), {"name": "a"}]), 64 << 20),
            (json!("8Mi"), json!([limited("16Mi")]), 8 << 20),
        ] {
            let made = memory_volumes(&pod(&limit, &containers), &allocatable, Some(7));
            assert_eq!(made.len(), 1);
            assert_eq!(
                (made[0].name.as_str(), made[0].size_bytes),
                ("mem", Some(size)),
                "{limit} {containers}"
            );
            assert_eq!((made[0].mode, made[0].group), (0o2777, Some(7)));
        }
        let unknown = memory_volumes(&pod(&json!(null), &json!([{"name": "a"}])), &ResourceList::new(), None);
        assert_eq!((unknown[0].size_bytes, unknown[0].mode), (None, 0o777));
    }

    #[test]
    fn a_memory_volume_with_one_writer_counts_for_that_container_pod_12() {
        let mount = |read_only: bool| json!([{"name": "mem", "mountPath": "/m", "readOnly": read_only}]);
        let pod = pod(
            &json!(null),
            &json!([{"name": "a", "volumeMounts": mount(false)}, {"name": "b", "volumeMounts": mount(true)},
                {"name": "c"}]),
        );
        let of = |index: usize| of_container(&pod, &spec::app_containers(&pod)[index]);
        assert_eq!((of(0), of(1), of(2)), (vec!["mem".to_owned()], vec![], vec![]));
    }

    #[test]
    fn other_media_are_refused_with_a_reason_vol_1() {
        let check = |medium: &str| {
            check_medium(&EmptyDirVolumeSource {
                medium: Some(medium.into()),
                ..EmptyDirVolumeSource::default()
            })
        };
        assert_eq!(check("Memory"), Ok(()));
        assert!(check("HugePages-2Mi").unwrap_err().contains("huge pages are not supported"));
        assert_eq!(check("Tape").unwrap_err(), "unknown storage medium \"Tape\"");
    }
}
