//! The images that a pod's containers need before they start: those of their image volumes (IMG-11), and their own.
//!
//! Pure reading of the pod's spec.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::spec;

/// The part of a pod that needs an image. Its pull, the pull's events and its back-off belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ImageUser {
    /// The container of this name runs it.
    Container(String),
    /// The volume of this name shows its files.
    Volume(String),
}

/// An image that a container needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NeededImage {
    pub(crate) user: ImageUser,
    /// The reference as the pod's spec has it.
    pub(crate) reference: String,
    /// The pull policy.
    pub(crate) policy: String,
}

impl NeededImage {
    fn new(user: ImageUser, reference: Option<&str>, policy: Option<&str>) -> Self {
        let reference = reference.unwrap_or_default().to_owned();
        Self { user, reference, policy: policy.unwrap_or("IfNotPresent").to_owned() }
    }
}

/// The container's own image.
pub(crate) fn own(container: &Container) -> NeededImage {
    let user = ImageUser::Container(container.name.clone());
    NeededImage::new(user, container.image.as_deref(), container.image_pull_policy.as_deref())
}

/// The images of the volumes that a container mounts, in the order of the volumes.
pub(crate) fn of_volumes<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> impl Iterator<Item = NeededImage> + use<'a> {
    let mounts = |name: &str| container.volume_mounts.iter().flatten().any(|mount| mount.name == name);
    let volumes = spec::spec(pod).volumes.iter().flatten().filter(move |volume| mounts(&volume.name));
    volumes.filter_map(|volume| {
        let image = volume.image.as_ref()?;
        let user = ImageUser::Volume(volume.name.clone());
        Some(NeededImage::new(user, image.reference.as_deref(), image.pull_policy.as_deref()))
    })
}

/// All images that a container needs, its own last.
pub(crate) fn of(pod: &Pod, container: &Container) -> Vec<NeededImage> {
    of_volumes(pod, container).chain([own(container)]).collect()
}
