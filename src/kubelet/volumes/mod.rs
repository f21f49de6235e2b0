//! A pod's volumes as directories on the node (VOL-1): emptyDir, hostPath, configMap, secret, downwardAPI, projected;
//! and the volumes of its claims (VOL-2), which may have to be attached first (VOL-3). Image volumes (IMG-11) need no
//! directory here.
//!
//! Volumes live as long as the pod, below `PODS_DIR/UID/volumes/NAME`. Content from API objects is swapped in whole
//! (`atomic`), so that a reader never sees half an update.

mod atomic;
mod attach;
mod claims;
mod content;
mod env_files;
mod host_path;
mod memory;
mod mounts;
mod ownership;
mod paths;
mod sub_path;
mod tokens;
mod usage;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use super::context::Context;
use super::node::Node;
use super::observed::{ObservedPod, SetupState};
use super::resize;
use super::runtime::Memory;
use super::spec;
pub(crate) use attach::{release as release_disks, restore as restore_disks};
use base::disk_fault::DiskFault;
use base::removal::remove_tree;
pub use claims::user_of;
use claims::{Check, ClaimVolume};
pub(crate) use content::{Content, ContentSources, content};
pub(super) use env_files::EnvFiles;
use host_path::{host_path, make_host_directory};
pub(super) use memory::{is_memory, memory_volumes, of_container as memory_of_container};
pub(crate) use mounts::{MountError, mounts};
use object::storage::{ClaimUse, claims_of, pod_volume_directory};
use object::{Key, Kind, SharedObject};
pub(crate) use ownership::Owners;
pub(crate) use paths::join_inside;
pub(super) use tokens::Tokens;
pub(super) use usage::of_claims as usage_of_claims;

/// A volume could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct VolumeError {
    /// The volume's name.
    pub(crate) volume: String,
    /// The error, as events report it.
    pub(crate) message: String,
    /// The pod waits for its volume to be attached, which is no error yet.
    pub(crate) waits: bool,
}

impl VolumeError {
    fn set_up(volume: &str, reason: &str) -> Self {
        let message = format!("MountVolume.SetUp failed for volume \"{volume}\" : {reason}");
        Self { volume: volume.into(), message, waits: false }
    }

    /// The volume is not attached to this node.
    fn not_attached(volume: &str) -> Self {
        let message = format!(
            "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[{volume}], failed to \
             process volumes=[]: context deadline exceeded"
        );
        Self { volume: volume.into(), message, waits: true }
    }
}

pub(super) fn volume_dir(node: &Node, pod: &SharedObject<Pod>, volume: &str) -> PathBuf {
    pod_volume_directory(&node.config.pods_dir, pod.uid(), volume)
}

/// Returns true if the volume's content comes from API objects.
fn is_from_api(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// Returns true if the volume lies in the runtime's memory, provided that the runtime has one. Content from API objects
/// does, unless a container mounts a subPath of it: a subPath is looked up by its path on the machine.
fn lies_in_memory(pod: &Pod, volume: &Volume) -> bool {
    let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let in_part = |container: &Container| {
        let mut mounts = container.volume_mounts.iter().flatten().filter(|mount| mount.name == volume.name);
        mounts.any(|mount| given(&mount.sub_path) || given(&mount.sub_path_expr))
    };
    // Ephemeral containers come later, and may not use subPath.
    let mut containers =
        spec::app_containers(pod).iter().chain(spec::init_containers(pod).map(|(_, init)| init));
    is_memory(volume) || (is_from_api(volume) && !containers.any(in_part))
}

/// Returns a volume's directory below the directory of its pod in memory.
fn in_memory(pod_dir: &Path, volume: &str) -> PathBuf {
    pod_dir.join("volumes").join(volume)
}

/// Returns true if the pod has a volume with this config map or secret, or with this claim.
pub(super) fn shows(pod: &Pod, kind: Kind, name: &str) -> bool {
    if kind == Kind::PersistentVolumeClaim {
        return claims_of(pod).any(|used| used.claim == name);
    }
    spec::spec(pod).volumes.iter().flatten().any(|volume| {
        let projected = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
        match kind {
            Kind::ConfigMap => {
                volume.config_map.as_ref().is_some_and(|c| c.name == name)
                    || projected.filter_map(|s| s.config_map.as_ref()).any(|c| c.name == name)
            }
            _ => {
                volume.secret.as_ref().is_some_and(|s| s.secret_name.as_deref() == Some(name))
                    || projected.filter_map(|s| s.secret.as_ref()).any(|s| s.name == name)
            }
        }
    })
}

/// Returns true if the pod has a volume with content from its own object.
pub(super) fn shows_itself(pod: &Pod) -> bool {
    spec::spec(pod).volumes.iter().flatten().any(|volume| {
        let projected = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
        volume.downward_api.is_some() || projected.map(|s| &s.downward_api).any(Option::is_some)
    })
}

/// Creates every volume of the pod, or updates its content. Returns warnings about shared volumes.
pub(super) async fn prepare(
    context: &Context,
    node: &Node,
    pod: &SharedObject<Pod>,
    observed: &ObservedPod,
    memory: Option<&Arc<Memory>>,
    tokens: &mut Tokens,
) -> Result<Vec<String>, VolumeError> {
    // Requested resources that were not allocated are not shown.
    let given = resize::allocated_pod(pod, &observed.resize);
    let owners = Owners::of(pod);
    let first = observed.setup != SetupState::Ready;
    if first {
        attach::take(context, node, pod).await?;
    }
    let tokens = RefCell::new(tokens);
    let now = context.clock.now();
    let mut work = Vec::new();
    for volume in spec::spec(pod).volumes.iter().flatten() {
        let failed = |reason: String| VolumeError::set_up(&volume.name, &reason);
        let namespace = pod.namespace();
        let sources = ContentSources {
            pod: &given,
            pod_ips: observed.ips,
            host_ips: node.config.ips(),
            allocatable: &node.config.capacity,
            config_map: &|name| context.config_maps.get(&Key::new(namespace, name)),
            secret: &|name| context.secrets.get(&Key::new(namespace, name)),
            token: &|projection| {
                if node.config.hollow {
                    return Ok(String::new());
                }
                tokens.borrow_mut().token(projection, now, |audience, seconds| {
                    context.api.token_for_pod(pod, audience, seconds).map_err(|error| error.to_string())
                })
            },
        };
        if volume.image.is_some() {
            // The runtime mounts its files when a container starts.
            continue;
        }
        if let Some(source) = &volume.empty_dir {
            memory::check_medium(source).map_err(|why| VolumeError::set_up(&volume.name, &why))?;
            if memory.is_some() && is_memory(volume) {
                // The sandbox creates this volume.
                continue;
            }
        }
        let dir = match memory.filter(|_| lies_in_memory(pod, volume)) {
            Some(memory) => in_memory(&memory.reach(pod.uid()), &volume.name),
            None => volume_dir(node, pod, &volume.name),
        };
        let given = match claims::used_by(pod, &volume.name) {
            // The pod keeps its volume until it ends, even if the claim changes.
            Some(_) if !first => continue,
            Some(used) => VolumeBacking::Claim(backing(context, node, pod, &used)?),
            None => match content(volume, &sources).map_err(failed)? {
                Some(mut content) => {
                    content.belong_to(owners);
                    VolumeBacking::Content(content)
                }
                None => VolumeBacking::Nothing,
            },
        };
        work.push((volume.clone(), dir, given));
    }
    if node.config.hollow || work.is_empty() {
        return Ok(Vec::new());
    }
    // A hostPath may be on a disk that does not respond: no other work must wait for it.
    let alone = work.iter().any(|(volume, ..)| volume.host_path.is_some());
    let _permit = if alone { None } else { node.volume_writers.acquire().await.ok() };
    let disk = node.disk.fault();
    if let (Some(error), Some((volume, ..))) = (disk.and_then(DiskFault::error), work.first()) {
        return Err(VolumeError::set_up(&volume.name, error));
    }
    if let Some(DiskFault::Slow(delay)) = disk {
        context.clock.sleep(delay).await;
    }
    let (memory, pods_dir) = (memory.cloned(), node.config.pods_dir.clone());
    let done = base::task::blocking(move || {
        // The paths in memory are valid as long as this handle exists.
        let _memory = memory;
        let done = work.iter().map(|(volume, dir, given)| set_up(volume, dir, given, owners, &pods_dir));
        done.filter_map(Result::transpose).collect::<Result<Vec<String>, VolumeError>>()
    });
    let warnings = done.await.unwrap_or_else(|error| Err(VolumeError::set_up("", &error.to_string())))?;
    if first {
        still_bound(context, node, pod)?;
    }
    Ok(warnings)
}

/// The source of a volume.
enum VolumeBacking {
    /// Files from API objects.
    Content(Content),
    /// The volume of a claim.
    Claim(ClaimVolume),
    /// No content to write: an emptyDir or a path of this machine.
    Nothing,
}

fn backing(
    context: &Context,
    node: &Node,
    pod: &SharedObject<Pod>,
    used: &ClaimUse<'_>,
) -> Result<ClaimVolume, VolumeError> {
    claims::backing(&context.api, &node.config.name, pod, used)
        .map_err(|unusable| unusable.volume_error(used.volume))
}

/// Checks the claims again, now that the pod's links exist: a claim that was deleted before may have left a dangling
/// link.
fn still_bound(context: &Context, node: &Node, pod: &SharedObject<Pod>) -> Result<(), VolumeError> {
    for used in claims_of(pod) {
        if let Err(error) = backing(context, node, pod, &used) {
            // Fails only if there is no link; then the volume does not count as used.
            let _ = claims::unlink(&volume_dir(node, pod, used.volume));
            return Err(error);
        }
    }
    Ok(())
}

/// Sets up one volume; returns a warning if it is new to the pod, and keeps another pod's group. Errors contain no path
/// of the node's own: `dir` means nothing to the pod's author.
fn set_up(
    volume: &Volume,
    dir: &Path,
    volume_backing: &VolumeBacking,
    owners: Owners,
    pods_dir: &Path,
) -> Result<Option<String>, VolumeError> {
    let failed = |reason: String| VolumeError::set_up(&volume.name, &reason);
    let failure = |error: io::Error| failed(error.to_string());
    match volume_backing {
        VolumeBacking::Content(content) => atomic::write(dir, content, owners).map_err(failure)?,
        VolumeBacking::Claim(backing) => {
            let group = owners.group.filter(|_| backing.takes_group);
            // A pod that already uses the volume has given it to its group. Checked before this pod's link exists:
            // otherwise each of two pods that start together would leave that to the other.
            let is_shared = group.is_some() && claims::is_used_by_another(pods_dir, dir, &backing.path);
            let is_new = !claims::is_link_to(dir, &backing.path);
            claims::link(dir, &backing.path).map_err(failure)?;
            let found = match &backing.check {
                Check::HostPath(source) => host_path(source).and_then(|()| make_host_directory(source)),
                Check::Exists if backing.path.exists() => Ok(()),
                Check::Exists => Err(format!("path \"{}\" does not exist", backing.path.display())),
            };
            let given = found.and_then(|()| {
                if group.is_none() || is_shared {
                    return Ok(());
                }
                let failed = |error| format!("path \"{}\": {error}", backing.path.display());
                ownership::set_persistent_group(&backing.path, owners).map_err(failed)
            });
            given.map_err(|why| backing.unusable(why).volume_error(&volume.name))?;
            if let Some(group) = group.filter(|_| is_shared && is_new) {
                return Ok(backing.warn_about_group(group));
            }
        }
        VolumeBacking::Nothing => on_machine(volume, dir, owners).map_err(failed)?,
    }
    Ok(None)
}

fn on_machine(volume: &Volume, dir: &Path, owners: Owners) -> Result<(), String> {
    if let Some(source) = &volume.host_path {
        return host_path(source);
    }
    // Other volume types need disks, shares or drivers that this machine lacks: an empty directory would only pretend
    // to be such a volume.
    let Some(source) = &volume.empty_dir else { return Err("no volume plugin matched".into()) };
    if dir.exists() {
        // The directory stays as the pod's containers left it.
        return Ok(());
    }
    make_empty_dir(dir, memory::mode(source), owners).map_err(|error| error.to_string())
}

/// Creates the directory of an emptyDir. It gets its name last: a directory of that name has its mode and its group.
fn make_empty_dir(dir: &Path, mode: u32, owners: Owners) -> io::Result<()> {
    // The names of volumes have no dots.
    let new = dir.with_extension("new");
    std::fs::create_dir_all(&new)?;
    set_mode(&new, mode)?;
    if let Some(group) = owners.group {
        ownership::set_group(&new, group, ownership::WRITABLE.directory)?;
    }
    std::fs::rename(new, dir)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Removes the pod's directories with all its files in volumes, but never the content of a hostPath or claim.
pub(super) async fn remove(node: &Node, pod: &SharedObject<Pod>) {
    if !node.config.hollow && !pod.uid().is_empty() {
        remove_of(node, pod.uid()).await;
    }
}

/// Removes the directories of pods that ended while no kubelet ran: those that `known` rejects.
pub(super) async fn remove_strays(node: &Node, known: impl Fn(&str) -> bool) {
    let entries = std::fs::read_dir(&node.config.pods_dir).into_iter().flatten().flatten();
    for entry in entries.filter(|_| !node.config.hollow) {
        if let Some(uid) = entry.file_name().to_str().filter(|uid| !known(uid)) {
            remove_of(node, uid).await;
        }
    }
}

/// Removes the files of the pod with this uid on the disk and in memory; links are removed, not their targets.
pub(super) async fn remove_of(node: &Node, uid: &str) {
    if node.config.hollow {
        return;
    }
    let (dir, memory, uid) = (node.config.pods_dir.join(uid), node.runtime.memory(), uid.to_string());
    let removed = base::task::blocking(move || {
        for dir in [Some(dir), memory.as_ref().map(|memory| memory.reach(&uid))].into_iter().flatten() {
            if let Err(error) = remove_tree(&dir) {
                tracing::warn!("cannot remove the pod's directory {}: {error}", dir.display());
            }
        }
    });
    if let Err(error) = removed.await {
        tracing::warn!("cannot remove the pod's directory: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VOL-1, POD-16: an emptyDir has its mode and its group from the start; changes by its containers stay.
    #[test]
    fn an_empty_dir_is_its_groups_vol_1() {
        use std::os::unix::fs::MetadataExt;
        // Only root may give files to other users and groups.
        crate::needs::needs!(Root);
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("v");
        let volume: Volume =
            serde_json::from_value(serde_json::json!({"name": "v", "emptyDir": {}})).unwrap();
        let owners = Owners { group: Some(4711), ..Owners::default() };
        let about = || {
            let about = std::fs::metadata(&place).unwrap();
            (about.gid(), about.mode() & 0o7777)
        };
        set_up(&volume, &place, &VolumeBacking::Nothing, owners, dir.path()).unwrap();
        assert_eq!(about(), (4711, 0o2777));
        std::fs::write(place.join("file"), "").unwrap();
        assert_eq!(std::fs::metadata(place.join("file")).unwrap().gid(), 4711, "so is what is made in it");
        set_mode(&place, 0o700).unwrap();
        set_up(&volume, &place, &VolumeBacking::Nothing, owners, dir.path()).unwrap();
        assert_eq!(about(), (4711, 0o700), "a refresh leaves it as it is");
    }

    #[test]
    fn an_empty_dir_without_its_group_is_incomplete_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("v");
        let volume: Volume =
            serde_json::from_value(serde_json::json!({"name": "v", "emptyDir": {}})).unwrap();
        let owners = Owners { group: Some(4711), ..Owners::default() };
        let is_made = on_machine(&volume, &place, owners).is_ok();
        // Only root may give files to other groups.
        assert_eq!(is_made, rustix::process::geteuid().is_root());
        assert_eq!(place.exists(), is_made, "a retry must not take it for a complete one");
        on_machine(&volume, &place, Owners::default()).unwrap();
        assert!(place.exists());
    }

    /// VOL-2: a volume keeps the group of the pod that uses it; once unused, it takes the next pod's.
    #[test]
    fn the_first_pod_of_a_volume_gives_it_to_its_group_vol_2() {
        use std::os::unix::fs::MetadataExt;
        // Only root may give files to other users and groups.
        crate::needs::needs!(Root);
        let node = tempfile::tempdir().unwrap();
        let (pods, volume) = (node.path().join("pods"), node.path().join("volume"));
        std::fs::create_dir(&volume).unwrap();
        let named: Volume = serde_json::from_value(serde_json::json!({"name": "v"})).unwrap();
        let start = |uid: &str, group: u32| {
            let dir = pods.join(uid).join("volumes/v");
            let given = VolumeBacking::Claim(ClaimVolume::of_directory(volume.clone(), "pv"));
            let owners = Owners { group: Some(group), ..Owners::default() };
            let warning = set_up(&named, &dir, &given, owners, &pods).unwrap();
            (volume.metadata().unwrap().gid(), warning)
        };
        assert_eq!(start("a", 11), (11, None));
        // Kubernetes' kubelet has the same words, and the reason AlreadyMountedVolume.
        let warning =
            "The requested fsGroup is 12, but the volume pv has GID 11. The volume may not be shareable.";
        assert_eq!(start("b", 12), (11, Some(warning.to_owned())), "another pod uses it");
        assert_eq!(start("b", 12), (11, None), "the pod has it already");
        assert_eq!(start("same", 11), (11, None));
        std::fs::remove_dir_all(&pods).unwrap();
        assert_eq!(start("c", 13), (13, None));
    }

    /// VOL-1: an error tells a pod's author the volume's name and the cause, and no path of the node itself.
    #[test]
    fn errors_of_volumes_hide_the_nodes_directories_vol_1() {
        let node = tempfile::tempdir().unwrap();
        // Directories cannot be made below a file.
        std::fs::write(node.path().join("uid"), "").unwrap();
        let dir = node.path().join("uid/volumes/v");
        let content =
            Content { files: [("a/b".to_string(), (Vec::new(), 0o644))].into(), ..Content::default() };
        let long = "x".repeat(300);
        let too_long = Content { files: [(long.clone(), (Vec::new(), 0o644))].into(), ..Content::default() };
        let missing = || node.path().join("none");
        let backing = |path| ClaimVolume::of_directory(path, "pv");
        let empty: Volume = serde_json::from_value(serde_json::json!({"name": "v", "emptyDir": {}})).unwrap();
        let not_a_directory =
            "MountVolume.SetUp failed for volume \"v\" : Not a directory (os error 20)".to_string();
        for (dir, given, expected) in [
            (dir.clone(), VolumeBacking::Content(content), not_a_directory.clone()),
            (dir.clone(), VolumeBacking::Claim(backing("/srv".into())), not_a_directory.clone()),
            (dir, VolumeBacking::Nothing, not_a_directory),
            (
                node.path().join("other"),
                VolumeBacking::Content(too_long),
                format!(
                    "MountVolume.SetUp failed for volume \"v\" : file \"{long}\": File name too long (os error 36)"
                ),
            ),
            // The path of a manually created volume is in its manifest, so the error may name it.
            (
                node.path().join("claim/volumes/v"),
                VolumeBacking::Claim(backing(missing())),
                format!(
                    "MountVolume.SetUp failed for volume \"pv\" : path \"{}\" does not exist",
                    missing().display()
                ),
            ),
        ] {
            let error = set_up(&empty, &dir, &given, Owners::default(), node.path()).unwrap_err();
            assert_eq!(error.message, expected);
        }
    }
}
