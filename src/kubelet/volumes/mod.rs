//! A pod's volumes as directories on the node (VOL-1): emptyDir, hostPath, configMap, secret, downwardAPI, projected;
//! and the volumes of its claims (VOL-2), which may have to be attached first (VOL-3).
//!
//! Volumes live as long as the pod, below `PODS_DIR/UID/volumes/NAME`. Content from API objects is swapped in whole
//! (`atomic`), so that a reader never sees half an update.

mod atomic;
mod attach;
mod claims;
mod content;
mod env_files;
mod memory;
mod ownership;
mod paths;
mod sub_path;
mod tokens;
mod usage;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, HostPathVolumeSource, Pod, Volume, VolumeMount};

use super::context::Context;
use super::environment;
use super::faults::NodeDiskFault;
use super::node::Node;
use super::observed::{ObservedPod, SetupState};
use super::resize;
use super::runtime::{Memory, Mount};
use super::spec;
pub(crate) use attach::{release as release_disks, restore as restore_disks};
pub use claims::user_of;
use claims::{Check, ClaimVolume};
pub(crate) use content::{Content, ContentSources, content};
pub(super) use env_files::EnvFiles;
pub(super) use memory::{is_memory, memory_volumes, of_container as memory_of_container};
use object::storage::{ClaimUse, claims_of, pod_volume_directory};
use object::{Key, Kind, SharedObject};
pub(crate) use ownership::Owners;
pub(crate) use paths::join_inside;
pub(super) use tokens::Tokens;
pub(super) use usage::of_claims as usage_of_claims;

/// The maximum length of a path: the kernel's `PATH_MAX` without the terminator.
const PATH_BYTES: usize = 4095;

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
    if let (Some(error), Some((volume, ..))) = (disk.and_then(NodeDiskFault::error), work.first()) {
        return Err(VolumeError::set_up(&volume.name, error));
    }
    if let Some(NodeDiskFault::Slow(delay)) = disk {
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
    let failed = |error: io::Error| error.to_string();
    std::fs::create_dir_all(dir).map_err(failed)?;
    set_mode(dir, memory::mode(source)).map_err(failed)?;
    match owners.group {
        Some(group) => ownership::set_group(dir, group, ownership::WRITABLE.directory).map_err(failed),
        None => Ok(()),
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Checks a hostPath's type; `…OrCreate` creates a missing path.
fn host_path(source: &HostPathVolumeSource) -> Result<(), String> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let path = Path::new(&source.path);
    let found = std::fs::metadata(path).ok();
    let type_ = source.type_.as_deref().unwrap_or_default();
    let wrong =
        |expected: &str| Err(format!("hostPath type check failed: {} is not {expected}", source.path));
    let failure = |error: io::Error| format!("{}: {error}", source.path);
    match (type_, found) {
        ("DirectoryOrCreate", None) => make_directory(path).map_err(failure),
        ("FileOrCreate", None) => {
            let mut options = std::fs::File::options();
            options.write(true).create_new(true).mode(0o644).open(path).map(drop).map_err(failure)
        }
        ("" | "Directory" | "DirectoryOrCreate", Some(m)) if type_.is_empty() || m.is_dir() => Ok(()),
        ("", None) => Ok(()),
        ("File" | "FileOrCreate", Some(m)) if m.is_file() => Ok(()),
        ("Socket", Some(m)) if m.file_type().is_socket() => Ok(()),
        ("CharDevice", Some(m)) if m.file_type().is_char_device() => Ok(()),
        ("BlockDevice", Some(m)) if m.file_type().is_block_device() => Ok(()),
        ("Directory" | "DirectoryOrCreate", _) => wrong("a directory"),
        ("File" | "FileOrCreate", _) => wrong("a file"),
        ("Socket", _) => wrong("a socket file"),
        ("CharDevice", _) => wrong("a character device"),
        ("BlockDevice", _) => wrong("a block device"),
        (other, _) => Err(format!("unknown hostPath type \"{other}\"")),
    }
}

/// Creates the directory of a hostPath without a type if nothing is at its path, as container runtimes do.
fn make_host_directory(source: &HostPathVolumeSource) -> Result<(), String> {
    let path = Path::new(&source.path);
    // If the path cannot be read, the attempt to create it returns the reason.
    if source.type_.as_deref().unwrap_or_default().is_empty() && path.metadata().is_err() {
        make_directory(path).map_err(|error| format!("failed to mkdir \"{}\": {error}", source.path))?;
    }
    Ok(())
}

/// Creates a directory with its parents.
fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// The reason why a container's mounts cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MountError {
    /// The container's mount is invalid.
    Config(String),
    /// The container cannot be created on this machine.
    Create(String),
}

impl From<String> for MountError {
    fn from(message: String) -> Self {
        Self::Config(message)
    }
}

/// Returns the mounts of a container. Creates missing directories, so it may wait for a disk.
pub(super) fn mounts(
    node: &Node,
    pod: &SharedObject<Pod>,
    container: &Container,
    env: &[(String, String)],
) -> Result<Vec<Mount>, MountError> {
    let (mut mounts, values) = (Vec::new(), environment::Values::of(env));
    for mount in container.volume_mounts.iter().flatten() {
        let volume = spec::spec(pod).volumes.iter().flatten().find(|v| v.name == mount.name);
        let Some(volume) = volume else {
            return Err(format!("volume \"{}\" not found in the pod", mount.name).into());
        };
        let used = claims::used_by(pod, &volume.name);
        let dir = volume_dir(node, pod, &volume.name);
        let root = match &volume.host_path {
            Some(source) => {
                if !node.config.hollow {
                    make_host_directory(source).map_err(|why| {
                        MountError::Create(format!("hostPath volume \"{}\": {why}", mount.name))
                    })?;
                }
                PathBuf::from(&source.path)
            }
            // The volume that the pod has used since its start, regardless of later changes to its claim.
            None if used.is_some() && !node.config.hollow => {
                std::fs::read_link(&dir).map_err(|error| format!("volume \"{}\": {error}", mount.name))?
            }
            None => match node.runtime.memory().filter(|_| lies_in_memory(pod, volume)) {
                Some(memory) => in_memory(&memory.container_path(pod.uid()), &volume.name),
                None => dir,
            },
        };
        let sub_path = match mount.sub_path_expr.as_deref().unwrap_or_default() {
            "" => mount.sub_path.clone().filter(|text| !text.is_empty()),
            expression => Some(expanded_sub_path(mount, expression, &values)?),
        };
        let in_memory = is_memory(volume) && node.runtime.memory().is_some();
        let mut inside_volume = None;
        let host_path = match sub_path {
            None => root,
            Some(sub) if node.config.hollow => root.join(sub),
            // Only the node's host can access this memory, so it resolves the path.
            Some(sub) if in_memory => {
                let inside = join_inside(Path::new(""), &sub);
                inside_volume =
                    Some(inside.ok_or_else(|| format!("subPath \"{sub}\" must not leave the volume"))?);
                root
            }
            Some(sub) => {
                let inside = sub_path::prepare(&root, &sub).map_err(|error| {
                    format!(
                        "failed to prepare subPath for volumeMount \"{}\" of container \"{}\": {error}",
                        mount.name, container.name
                    )
                })?;
                if inside.as_os_str().is_empty() {
                    root
                } else if is_from_api(volume) {
                    // No container writes to this volume, and directories that an update replaces must not be
                    // recreated.
                    root.join(inside)
                } else {
                    inside_volume = Some(inside);
                    root
                }
            }
        };
        mounts.push(Mount {
            host_path,
            sub_path: inside_volume,
            container_path: Path::new("/").join(&mount.mount_path),
            read_only: mount.read_only == Some(true)
                || is_from_api(volume)
                || used.is_some_and(|used| used.read_only),
            recursive: recursively_read_only(node, mount)?,
        });
    }
    Ok(mounts)
}

/// `subPathExpr` with its references replaced.
fn expanded_sub_path(
    mount: &VolumeMount,
    expression: &str,
    values: &environment::Values<'_>,
) -> Result<String, String> {
    if let Some(name) = environment::unset(expression, values) {
        return Err(format!("missing value for \"{name}\""));
    }
    environment::expand(expression, |name| values.get(name), PATH_BYTES).map_err(|bytes| {
        format!(
            "subPathExpr of volumeMount \"{}\" is {bytes} bytes long; a path can have at most {PATH_BYTES}",
            mount.name
        )
    })
}

/// Returns true if mounts inside the volume are to be read only, too (`recursiveReadOnly`).
fn recursively_read_only(node: &Node, mount: &VolumeMount) -> Result<bool, String> {
    let requested = mount.recursive_read_only.as_deref();
    if mount.read_only != Some(true) || !matches!(requested, Some("Enabled" | "IfPossible")) {
        return Ok(false);
    }
    let possible = node.config.hollow || has_namespaces(&node.runtime.isolation());
    if !possible && requested == Some("Enabled") {
        return Err(format!(
            "failed to resolve recursive read-only mode: volume \"{}\" requested recursive read-only mode, but it \
             is not supported by the runtime",
            mount.name
        ));
    }
    Ok(possible)
}

/// Returns true if containers have mounts of their own, according to the runtime.
pub(super) fn has_namespaces(isolation: &BTreeMap<String, String>) -> bool {
    isolation.get("podium.dev/namespaces").is_some_and(|kinds| kinds != "none")
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
            match std::fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("cannot remove the pod's directory {}: {error}", dir.display());
                }
                _ => {}
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

    /// VOL-1: the files that each hostPath type requires, and those that it creates.
    #[test]
    fn host_paths_are_what_they_say_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("file"), "").unwrap();
        std::fs::create_dir(path("dir")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let check = |type_: &str, name: &str| {
            let path = if name.starts_with('/') { name.to_string() } else { path(name) };
            host_path(&HostPathVolumeSource { path, type_: Some(type_.into()) })
        };
        for (type_, name, is_not) in [
            ("", "none", None),
            ("Directory", "dir", None),
            ("Directory", "file", Some("a directory")),
            ("Directory", "none", Some("a directory")),
            ("DirectoryOrCreate", "new/deep", None),
            ("DirectoryOrCreate", "file", Some("a directory")),
            ("File", "file", None),
            ("File", "dir", Some("a file")),
            ("FileOrCreate", "fresh", None),
            ("Socket", "socket", None),
            ("Socket", "file", Some("a socket file")),
            ("CharDevice", "/dev/null", None),
            ("CharDevice", "file", Some("a character device")),
            ("BlockDevice", "/dev/null", Some("a block device")),
        ] {
            let failure = check(type_, name);
            match is_not {
                None => assert_eq!(failure, Ok(()), "{type_} {name}"),
                Some(what) => {
                    let text = failure.unwrap_err();
                    assert!(
                        text.starts_with("hostPath type check failed: ") && text.ends_with(what),
                        "{text}"
                    );
                }
            }
        }
        assert!(dir.path().join("new/deep").is_dir() && dir.path().join("fresh").is_file());
    }

    /// VOL-1: a missing hostPath without a type is created as a directory for the containers that mount it.
    #[test]
    fn a_host_path_of_no_type_is_made_as_a_directory_vol_1() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let make = |name: &str, type_: Option<&str>| {
            let path = path(name).display().to_string();
            make_host_directory(&HostPathVolumeSource { path, type_: type_.map(Into::into) })
        };
        std::fs::write(path("file"), "").unwrap();
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
        for (name, type_) in
            [("new/deep", None), ("empty", Some("")), ("file", None), ("none", Some("Directory"))]
        {
            assert_eq!(make(name, type_), Ok(()), "{name}");
        }
        assert_eq!(path("new/deep").metadata().unwrap().mode() & 0o7777, 0o755);
        assert!(path("empty").is_dir() && path("file").is_file() && !path("none").exists());
        for name in ["file/below", "dangling"] {
            let error = make(name, None).unwrap_err();
            assert!(error.starts_with(&format!("failed to mkdir \"{}\": ", path(name).display())), "{error}");
        }
    }

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
