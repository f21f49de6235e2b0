//! A runtime's images at a user's request: the counterpart of CRI's ImageService.
//!
//! The calls read small files, and a removal deletes many: run them where they may block.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::Image;
use images::store::{Provenance, RemoveError};
use images::{
    Catalogue, ImageOrigin, ImageReference, Puller, RunningPull, StoredImage, explain_registry,
    explain_sources, remove_unused,
};
use object::node_image::{NodeImage, NodeImageDetails, NodeImageLayer, NodeImageSource, NodeImages};

/// The maximum number of images in a list.
const MAX_IMAGES: usize = 1000;
/// The maximum number of names, of digests and of pods of each image in a list.
const MAX_OF_IMAGE: usize = 100;

/// The images of a node's runtime.
#[derive(Clone)]
pub struct ImageService {
    catalogue: Arc<Catalogue>,
    puller: Option<Arc<Puller>>,
    /// The node's directory, beside those of the other nodes that share the images.
    node_dir: PathBuf,
}

impl ImageService {
    /// The images of a catalogue for the node of this directory; without a puller nothing is pulled.
    pub(super) fn new(catalogue: Arc<Catalogue>, puller: Option<Arc<Puller>>, node_dir: PathBuf) -> Self {
        Self { catalogue, puller, node_dir }
    }

    /// Lists the loaded and pulled images, and those of the catalogue that the node has used: `used`, by name.
    pub(crate) fn list(&self, used: Vec<(String, Image)>) -> NodeImages {
        let pods = host::pods_by_image(&self.node_dir);
        let pods_of = |id: &str| -> Vec<String> {
            pods.get(id).into_iter().flatten().take(MAX_OF_IMAGE).cloned().collect()
        };
        let stored = self.catalogue.all_loaded();
        let mut images: Vec<NodeImage> = stored
            .iter()
            .map(|(image, names)| NodeImage { pods: pods_of(&image.id), ..self.stored(image, names.clone()) })
            .collect();
        for (name, image) in used {
            if let Some(source) = self.source_of_catalogue(&name) {
                images.push(NodeImage {
                    pods: pods_of(&image.image_id),
                    names: vec![name],
                    id: image.image_id,
                    size_bytes: image.size_bytes,
                    source,
                    ..NodeImage::default()
                });
            }
        }
        let omitted = images.len().saturating_sub(MAX_IMAGES);
        images.truncate(MAX_IMAGES);
        NodeImages { images, pulls: Vec::new(), omitted }
    }

    /// Describes the image of a name, or of an id.
    pub(crate) fn details(&self, name: &str) -> Option<NodeImageDetails> {
        let stored = self.catalogue.all_loaded();
        let (image, names) = match self.catalogue.find_loaded(name) {
            Some(image) => {
                let names = stored.into_iter().find(|(known, _)| known.id == image.id);
                (image, names.map(|(_, names)| names).unwrap_or_default())
            }
            None => match stored.into_iter().find(|(image, _)| image.id == name) {
                Some(found) => found,
                None => return self.details_of_catalogue(name),
            },
        };
        let sizes = self.catalogue.store().map(|store| store.layer_sizes(&image)).unwrap_or_default();
        let sizes = sizes.into_iter().chain(std::iter::repeat(None));
        let layers = image.diff_ids.iter().zip(sizes);
        let pods = host::pods_by_image(&self.node_dir).remove(&image.id);
        Some(NodeImageDetails {
            image: NodeImage {
                pods: pods.into_iter().flatten().take(MAX_OF_IMAGE).collect(),
                ..self.stored(&image, names)
            },
            layers: layers
                .map(|(digest, size_bytes)| NodeImageLayer { digest: digest.to_string(), size_bytes })
                .collect(),
            platform: image.platform,
            created: image.created,
            added_at: image.added_at,
            manifest_digest: image.manifest_digest.map(|digest| digest.to_string()),
            entrypoint: image.run.entrypoint,
            cmd: image.run.cmd,
            env: image.run.env,
            working_dir: image.run.working_dir,
            user: image.run.user,
            stop_signal: image.run.stop_signal,
            exposed_ports: image.run.exposed_ports.into_keys().collect(),
            labels: image.run.labels,
        })
    }

    /// Removes a name, or an image with all its names by its id, unless a container of any node uses it. Returns the
    /// removed names, and the id if the image itself was removed.
    pub(crate) fn remove(&self, name: &str) -> Result<Vec<String>, RemoveError> {
        let Some(store) = self.catalogue.store() else { return Err(RemoveError::Unknown(name.to_owned())) };
        remove_unused(store, self.node_dir.parent().unwrap_or(&self.node_dir), name)
    }

    /// Explains how a name resolves, as `podium image explain` does; an error says why the name is not valid.
    pub(crate) async fn explain(&self, name: &str) -> Result<String, String> {
        let sources = explain_sources(&self.catalogue, name)?;
        let mut lines = sources.lines;
        if let Some(puller) = self.puller.as_ref().filter(|_| sources.asks_registry) {
            lines.push(explain_registry(puller, name).await);
        }
        if !sources.has_source {
            lines.push("no source has the image".to_owned());
        }
        Ok(lines.join("\n"))
    }

    /// Returns the full name of an image that may be pulled; an error gives the reason why it may not.
    pub(crate) fn pullable_name(&self, name: &str) -> Result<String, String> {
        let reference =
            ImageReference::parse(name).map_err(|error| format!("image name {name:?}: {error}"))?;
        if self.puller.is_some() && self.catalogue.can_pull(name) {
            return Ok(reference.full_name());
        }
        let registry =
            self.catalogue.explain(name).ok().and_then(|explanation| explanation.steps.into_iter().last());
        let reason = registry.map(|step| step.reason).unwrap_or_default();
        Err(format!("image {name} cannot be pulled: {reason}"))
    }

    /// The pulls in progress of all nodes that share the images.
    pub(crate) fn running_pulls(&self) -> Vec<RunningPull> {
        self.puller.as_ref().map(|puller| puller.running()).unwrap_or_default()
    }

    fn stored(&self, image: &StoredImage, mut names: Vec<String>) -> NodeImage {
        let mut digests = self.catalogue.repository_digests(&image.id);
        names.truncate(MAX_OF_IMAGE);
        digests.truncate(MAX_OF_IMAGE);
        NodeImage {
            names,
            digests,
            id: image.id.clone(),
            size_bytes: image.size_bytes,
            source: match image.provenance {
                Provenance::Pulled => NodeImageSource::Pulled,
                Provenance::Loaded => NodeImageSource::Loaded,
                Provenance::Built => NodeImageSource::Built,
            },
            pods: Vec::new(),
            last_used: self.catalogue.store().and_then(|store| store.last_used(image)),
        }
    }

    /// Tells from where a name comes that belongs to no image of the store.
    fn source_of_catalogue(&self, name: &str) -> Option<NodeImageSource> {
        match self.catalogue.origin(name)? {
            ImageOrigin::User => Some(NodeImageSource::Declared),
            ImageOrigin::Builtin => Some(NodeImageSource::BuiltIn),
            ImageOrigin::Loaded => None,
        }
    }

    fn details_of_catalogue(&self, name: &str) -> Option<NodeImageDetails> {
        let source = self.source_of_catalogue(name)?;
        let image = self.catalogue.resolve(name).ok()?;
        let pods: Option<BTreeSet<String>> = host::pods_by_image(&self.node_dir).remove(&image.image_id);
        Some(NodeImageDetails {
            image: NodeImage {
                names: vec![image.reference.to_string()],
                id: image.image_id,
                size_bytes: image.size_bytes,
                source,
                pods: pods.into_iter().flatten().take(MAX_OF_IMAGE).collect(),
                ..NodeImage::default()
            },
            entrypoint: image.entrypoint,
            cmd: image.cmd,
            env: image.env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
            working_dir: image.working_dir.display().to_string(),
            user: image.user.unwrap_or_default(),
            ..NodeImageDetails::default()
        })
    }
}
