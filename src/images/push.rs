//! Pushes an image from an archive to a registry (IMG-7).

use crate::ImageReference;
use crate::registry::{ByteCount, Keyring, PushImage, RegistryClient, RegistryError};
use crate::store::ImageBlobs;

/// Uploads an image under a name; `count` grows up to the image's size. The manifest of the archive stays as it is.
/// Returns the manifest's digest.
pub async fn push(
    client: &RegistryClient,
    keyring: &Keyring,
    name: &ImageReference,
    image: &ImageBlobs,
    count: &ByteCount,
) -> Result<String, RegistryError> {
    let (layers, config) = (image.layers.clone(), image.config.clone());
    let pushed = match &image.manifest {
        Some((manifest, media_type)) => {
            PushImage::with_manifest(manifest.clone(), media_type.clone(), config, layers)?
        }
        None => PushImage::new(config, layers),
    };
    client.open(name, keyring).await?.push(&pushed, count).await
}
