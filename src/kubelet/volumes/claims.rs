//! Claims of pods (VOL-2): the directory of the machine behind each claim, and the pods that use it.
//!
//! A pod's directory links to the volume for as long as the pod has anything on the node. The remover of volumes looks
//! for such links first ([`user_of`]); a link is made before the claim is read once more, so that the kubelet and the
//! remover do not overlook each other.

use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, Node as NodeObject, PersistentVolume, PersistentVolumeClaim, Pod,
};

use super::VolumeError;
use crate::spec;
use api::Api;
use base::removal::unless_missing;
use object::owner::is_terminating;
use object::storage::{
    ClaimUse, claim_phase, claim_ref, claim_uid, claims_of, disk, is_created_for, is_reachable_from,
    volume_name,
};
use object::{Key, SharedObject};

/// The directory behind a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClaimVolume {
    /// A file or directory of this machine.
    pub(super) path: PathBuf,
    /// The check that it must pass.
    pub(super) check: Check,
    /// True if `fsGroup` applies to its files, as with `local` volumes but not with a hostPath.
    pub(super) takes_group: bool,
    /// The volume's object, for messages.
    volume: String,
}

/// The required state of the path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Check {
    /// The path must have the type that the hostPath requires.
    HostPath(HostPathVolumeSource),
    /// Anything that exists.
    Exists,
}

/// The reason why a claim's volume cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimError {
    /// The claim is not ready.
    Claim(String),
    /// The volume cannot be mounted: its description, and the reason.
    Volume(String, String),
}

impl ClaimError {
    /// The kubelet's error for a pod's volume.
    pub(super) fn volume_error(&self, volume: &str) -> VolumeError {
        let message = match self {
            Self::Claim(why) => format!(
                "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed to \
                 process volumes=[{volume}]: {why}"
            ),
            Self::Volume(name, why) => VolumeError::set_up(name, why).message,
        };
        VolumeError { volume: volume.into(), message, waits: false }
    }
}

impl ClaimVolume {
    /// A directory that backs a volume of this name.
    #[cfg(test)]
    pub(super) fn of_directory(path: PathBuf, volume: &str) -> Self {
        Self { path, check: Check::Exists, takes_group: true, volume: volume.into() }
    }

    /// Returns a warning, in the kubelet's words, if the volume does not have the group that a pod requests.
    pub(super) fn warn_about_group(&self, requested: u32) -> Option<String> {
        let found = std::fs::metadata(&self.path).ok()?.gid();
        (found != requested).then(|| {
            format!(
                "The requested fsGroup is {requested}, but the volume {} has GID {found}. The volume may not be \
                 shareable.",
                self.volume
            )
        })
    }

    /// Returns the error of a volume that cannot be mounted.
    pub(super) fn unusable(&self, reason: String) -> ClaimError {
        ClaimError::Volume(self.volume.clone(), reason)
    }
}

/// The pod's use of a claim through the volume of this name.
pub(super) fn used_by<'a>(pod: &'a Pod, volume: &str) -> Option<ClaimUse<'a>> {
    claims_of(pod).find(|used| used.volume == volume)
}

/// Returns the directory behind the claim, if the pod may use it here.
pub(super) fn backing(
    api: &Api,
    node: &str,
    pod: &SharedObject<Pod>,
    used: &ClaimUse<'_>,
) -> Result<ClaimVolume, ClaimError> {
    let key = Key::new(pod.namespace(), used.claim.as_str());
    let processing = |reason: String| ClaimError::Claim(format!("error processing PVC {key}: {reason}"));
    let claim = api
        .get_as::<PersistentVolumeClaim>(&key)
        .map_err(|error| processing(format!("failed to fetch PVC from API server: {error}")))?;
    if used.ephemeral && !is_created_for(&claim, pod) {
        return Err(ClaimError::Claim(format!(
            "PVC {key} was not created for pod {} (pod is not owner)",
            pod.key()
        )));
    }
    if is_terminating(&claim.metadata) {
        return Err(processing("PVC is being deleted".into()));
    }
    let Some(name) = volume_name(&claim).filter(|_| claim_phase(&claim) == "Bound") else {
        return Err(processing("PVC is not bound".into()));
    };
    let volume = api
        .get_as::<PersistentVolume>(&Key::new("", name))
        .map_err(|error| processing(format!("failed to fetch PV {name} from API server: {error}")))?;
    let bound_to = claim_ref(&volume).and_then(claim_uid);
    if bound_to != Some(claim.uid()) {
        let found = bound_to.unwrap_or_default();
        return Err(processing(format!(
            "found PV object {name} with an incorrect claimRef: {found} does not point to claim.UID {}",
            claim.uid()
        )));
    }
    if is_a_device(pod, used.volume) {
        return Err(ClaimError::Claim(format!(
            "volume {} has volumeMode Filesystem, but is specified in volumeDevices",
            used.volume
        )));
    }
    source(&volume, &own_node(api, node))
}

/// Returns true if a container needs the volume as a block device, which a directory is not.
fn is_a_device(pod: &Pod, volume: &str) -> bool {
    spec::all_containers(pod)
        .any(|(_, container)| container.volume_devices.iter().flatten().any(|device| device.name == volume))
}

/// This node's object; without it the volume's affinity cannot be checked.
#[expect(clippy::disallowed_methods, reason = "an empty object matches no affinity")]
fn own_node(api: &Api, node: &str) -> NodeObject {
    api.get_as::<NodeObject>(&Key::new("", node)).map(|node| (*node).clone()).unwrap_or_default()
}

fn source(volume: &SharedObject<PersistentVolume>, node: &NodeObject) -> Result<ClaimVolume, ClaimError> {
    let name = volume.name().to_string();
    let unusable = |reason: &str| Err(ClaimError::Volume(volume.name().to_string(), reason.to_string()));
    let Some(spec) = &volume.spec else { return unusable("the volume has no spec") };
    if !is_reachable_from(volume, node) {
        return unusable("MountVolume.NodeAffinity check failed: no matching NodeSelectorTerms");
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        return unusable("volumeMode Block is not supported on this node");
    }
    if let Some(source) = &spec.host_path {
        let path = PathBuf::from(&source.path);
        let check = Check::HostPath(source.clone());
        return Ok(ClaimVolume { path, check, takes_group: false, volume: name });
    }
    if let Some(disk) = disk(volume) {
        return match disk.path {
            Some(path) => {
                Ok(ClaimVolume { path: path.into(), check: Check::Exists, takes_group: false, volume: name })
            }
            None => unusable("its volumeAttributes have no path"),
        };
    }
    match &spec.local {
        Some(source) => {
            let path = source.path.clone().into();
            Ok(ClaimVolume { path, check: Check::Exists, takes_group: true, volume: name })
        }
        None => unusable("no volume plugin matched"),
    }
}

/// Makes `link` point to the volume.
pub(super) fn link(link: &Path, volume: &Path) -> io::Result<()> {
    if is_link_to(link, volume) {
        return Ok(());
    }
    if let Some(parent) = link.parent() {
        std::fs::create_dir_all(parent)?;
    }
    unlink(link)?;
    symlink(volume, link)
}

/// Returns true if `link` points to the volume.
pub(super) fn is_link_to(link: &Path, volume: &Path) -> bool {
    std::fs::read_link(link).is_ok_and(|target| target == volume)
}

/// Removes the link, but not the directory that it points to.
pub(super) fn unlink(link: &Path) -> io::Result<()> {
    unless_missing(std::fs::remove_file(link))
}

/// Returns true if a pod in `pods` other than the one with this directory links to the volume.
pub(super) fn is_used_by_another(pods: &Path, own: &Path, volume: &Path) -> bool {
    let mut others = entries(pods).map(|pod| pod.path()).filter(|pod| !own.starts_with(pod));
    others.any(|pod| has_link_to(&pod, volume))
}

fn entries(dir: &Path) -> impl Iterator<Item = std::fs::DirEntry> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().flatten()
}

/// Returns true if a volume of the pod with this directory links to `volume`.
fn has_link_to(pod: &Path, volume: &Path) -> bool {
    entries(&pod.join("volumes")).any(|link| is_link_to(&link.path(), volume))
}

/// The uid of a pod that may still use a volume: `nodes` holds a directory for each node of this machine.
pub fn user_of(nodes: &Path, volume: &Path) -> Option<String> {
    let mut pods = entries(nodes).flat_map(|node| entries(&node.path().join("pods")));
    let user = pods.find(|pod| has_link_to(&pod.path(), volume))?;
    Some(user.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use api::{ApiConfig, DeleteOptions, WriteOptions};
    use base::clock::Clock;
    use object::{Kind, Object};
    use store::Store;

    fn api() -> Api {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
        for (kind, object) in [
            (Kind::Namespace, json!({"metadata": {"name": "default"}})),
            (Kind::Node, json!({"metadata": {"name": "n1", "labels": {"disk": "ssd"}}})),
        ] {
            api.create(Object::from_value(kind, object).unwrap(), &WriteOptions::default()).unwrap();
        }
        api
    }

    /// The volume, and a claim bound to it.
    fn bound(api: &Api, source: &Value) {
        let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let volume = json!({"metadata": {"name": "v"}, "spec": spec});
        let claim = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"volumeName": "v",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let create = |kind, value| {
            api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default()).unwrap()
        };
        let claim = create(Kind::PersistentVolumeClaim, claim);
        create(Kind::PersistentVolume, volume);
        api.modify::<PersistentVolume>(&Key::new("", "v"), |volume| {
            let reference = json!({"namespace": "default", "name": "c", "uid": claim.uid()});
            volume.spec.as_mut().unwrap().claim_ref = Some(serde_json::from_value(reference).unwrap());
            Ok(())
        })
        .unwrap();
        api.modify_status::<PersistentVolumeClaim>(&claim.key(), |claim| {
            claim.status.get_or_insert_default().phase = Some("Bound".into());
            Ok(())
        })
        .unwrap();
    }

    fn backing_path(api: &Api) -> Result<PathBuf, String> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default", "uid": "1"},
            "spec": {"containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}}))
        .unwrap();
        let pod = SharedObject::from_value(pod);
        let used = used_by(&pod, "data").unwrap();
        backing(api, "n1", &pod, &used).map(|b| b.path).map_err(|error| error.volume_error("data").message)
    }

    const PROCESSING: &str = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], \
        failed to process volumes=[data]: error processing PVC default/c: ";

    #[test]
    fn a_claim_leads_to_its_volumes_directory_vol_2() {
        let affinity = |disk: &str| {
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "disk", "operator": "In", "values": [disk]}]}]}})
        };
        for (source, expected) in [
            (json!({"hostPath": {"path": "/srv"}}), Ok("/srv")),
            (json!({"local": {"path": "/mnt"}, "nodeAffinity": affinity("ssd")}), Ok("/mnt")),
            (
                json!({"local": {"path": "/mnt"}, "nodeAffinity": affinity("tape")}),
                Err("MountVolume.SetUp failed for volume \"v\" : MountVolume.NodeAffinity check failed: no \
                     matching NodeSelectorTerms"),
            ),
            (
                json!({"nfs": {"server": "s", "path": "/"}}),
                Err("MountVolume.SetUp failed for volume \"v\" : no volume plugin matched"),
            ),
        ] {
            let api = api();
            assert_eq!(
                backing_path(&api).unwrap_err(),
                format!(
                    "{PROCESSING}failed to fetch PVC from API server: persistentvolumeclaims \"c\" not found"
                )
            );
            bound(&api, &source);
            assert_eq!(backing_path(&api), expected.map(PathBuf::from).map_err(str::to_string), "{source}");
        }
    }

    #[test]
    fn a_claim_that_is_not_bound_or_goes_is_waited_for_vol_2() {
        let api = api();
        bound(&api, &json!({"hostPath": {"path": "/srv"}}));
        let key = Key::new("default", "c");
        let phase = |phase: &str| {
            api.modify_status::<PersistentVolumeClaim>(&key, |claim| {
                claim.status.get_or_insert_default().phase = Some(phase.into());
                Ok(())
            })
            .unwrap();
        };
        phase("Pending");
        assert_eq!(backing_path(&api).unwrap_err(), format!("{PROCESSING}PVC is not bound"));
        phase("Bound");
        assert!(backing_path(&api).is_ok());
        api.delete(Kind::PersistentVolumeClaim, &key, &DeleteOptions::default()).unwrap();
        assert_eq!(backing_path(&api).unwrap_err(), format!("{PROCESSING}PVC is being deleted"));
    }

    #[test]
    fn a_volume_is_in_use_while_a_pods_directory_leads_to_it_vol_2() {
        let nodes = tempfile::tempdir().unwrap();
        let (volume, other) = (Path::new("/volumes/pvc-1"), Path::new("/volumes/pvc-2"));
        let place = nodes.path().join("node-1/pods/uid-7/volumes/data");
        assert_eq!(user_of(nodes.path(), volume), None);
        link(&place, other).unwrap();
        link(&place, volume).unwrap();
        link(&place, volume).unwrap();
        assert_eq!(user_of(nodes.path(), volume).as_deref(), Some("uid-7"));
        let pods = nodes.path().join("node-1/pods");
        assert!(!is_used_by_another(&pods, &place, volume), "by itself");
        assert!(is_used_by_another(&pods, &pods.join("uid-8/volumes/data"), volume));
        assert_eq!(user_of(nodes.path(), other), None);
        unlink(&place).unwrap();
        unlink(&place).unwrap();
        assert_eq!(user_of(nodes.path(), volume), None);
    }
}
