//! The mounts of a container: the paths of its volumes on the machine.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, ImageVolumeSource, Pod, VolumeMount};
use object::SharedObject;

use super::claims;
use super::host_path::make_host_directory;
use super::memory::is_memory;
use super::paths::join_inside;
use super::sub_path;
use super::{in_memory, is_from_api, lies_in_memory, volume_dir};
use crate::node::Node;
use crate::runtime::Mount;
use crate::{environment, spec};

/// The maximum length of a path: the kernel's `PATH_MAX` without the terminator.
const PATH_BYTES: usize = 4095;

/// The reason why a container's mounts cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MountError {
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
pub(crate) fn mounts(
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
        if let Some(image) = &volume.image {
            if !node.config.hollow {
                mounts.push(image_mount(node, image, mount, &values)?);
            }
            continue;
        }
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
        let sub_path = sub_path_of(mount, &values)?;
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
            image: None,
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

/// The mount of an image's files, with containerd's words for what is wrong with it.
fn image_mount(
    node: &Node,
    source: &ImageVolumeSource,
    mount: &VolumeMount,
    values: &environment::Values<'_>,
) -> Result<Mount, MountError> {
    let sub_path = sub_path_of(mount, values)?;
    let failed = |why: String| MountError::Create(format!("ImageVolumeMountFailed: {why}"));
    let reference = source.reference.as_deref().unwrap_or_default();
    let image = node.runtime.image_files(reference).map_err(|error| failed(error.to_string()))?;
    let inside = match &sub_path {
        None => None,
        Some(sub) => {
            let path = join_inside(Path::new(""), sub);
            let path = path.ok_or_else(|| format!("subPath \"{sub}\" must not leave the volume"))?;
            let found = sub_path::find_in_image(&image.layers, &path);
            Some(found.map_err(|why| {
                let volume = &mount.name;
                failed(format!("failed to ensure image subpath \"{sub}\" of volume \"{volume}\": {why}"))
            })?)
        }
    };
    Ok(Mount {
        host_path: PathBuf::new(),
        image: Some(image),
        sub_path: inside.filter(|inside| !inside.as_os_str().is_empty()),
        container_path: Path::new("/").join(&mount.mount_path),
        read_only: true,
        recursive: false,
    })
}

/// The part of a volume that a mount shows, with the references of `subPathExpr` replaced.
fn sub_path_of(mount: &VolumeMount, values: &environment::Values<'_>) -> Result<Option<String>, String> {
    match mount.sub_path_expr.as_deref().unwrap_or_default() {
        "" => Ok(mount.sub_path.clone().filter(|text| !text.is_empty())),
        expression => expanded_sub_path(mount, expression, values).map(Some),
    }
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
    let possible = node.config.hollow || node.runtime.has_namespaces();
    if !possible && requested == Some("Enabled") {
        return Err(format!(
            "failed to resolve recursive read-only mode: volume \"{}\" requested recursive read-only mode, but it \
             is not supported by the runtime",
            mount.name
        ));
    }
    Ok(possible)
}
