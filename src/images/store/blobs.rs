//! The image of an archive as blobs, for a push: as the archive has them, so that their digests stay.

use std::io::{self, Read};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::ImageStore;
use super::archive::Archive;
use super::compression::Compression;
use super::digest::Digest;
use super::formats::{self, ArchivedImage, ArchivedLayer, OciManifest};
use super::options::{Input, LoadError, LoadOptions};
use super::work::WorkDir;

/// Opens a blob from its beginning.
pub type OpenBlob = Arc<dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync>;

/// A layer of an image, as it is pushed.
#[derive(Clone)]
pub struct LayerBlob {
    /// The digest of its content.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its media type, which names the compression.
    pub media_type: String,
    /// Opens its content.
    pub open: OpenBlob,
}

impl std::fmt::Debug for LayerBlob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { digest, size, media_type, open: _ } = self;
        write!(f, "{digest} ({size} bytes, {media_type})")
    }
}

/// An image of an archive, as blobs.
pub struct ImageBlobs {
    /// The configuration.
    pub config: Vec<u8>,
    /// The manifest and its media type, if the archive has one.
    pub manifest: Option<(Vec<u8>, String)>,
    /// The layers, the lowest one first.
    pub layers: Vec<LayerBlob>,
    /// Its names in the archive.
    pub names: Vec<String>,
    /// Holds a copy of an archive that cannot be read twice.
    _work: WorkDir,
}

impl ImageStore {
    /// Reads the image of an archive; an archive of several images needs the name of one (`options.tag`).
    pub fn blobs(&self, input: Input, options: &LoadOptions) -> Result<ImageBlobs, LoadError> {
        let work = self.work_dir().map_err(self.failed())?;
        let archive = Arc::new(Archive::open(input, work.path(), &options.limits)?);
        let images = formats::images(&archive, &options.limits)?;
        let image = choose(images, options.tag.as_deref())?;
        let media_types: Vec<String> = match &image.manifest {
            Some((bytes, _)) => {
                let manifest: OciManifest = serde_json::from_slice(bytes)
                    .map_err(|error| LoadError::NotAnImage(format!("the manifest: {error}")))?;
                manifest.layers.into_iter().map(|layer| layer.media_type).collect()
            }
            None => Vec::new(),
        };
        let layers = image
            .layers
            .iter()
            .enumerate()
            .map(|(number, layer)| blob(&archive, layer, media_types.get(number).map(String::as_str)));
        let layers = layers.collect::<Result<_, _>>()?;
        Ok(ImageBlobs {
            config: image.config,
            manifest: image.manifest,
            layers,
            names: image.names,
            _work: work,
        })
    }
}

fn choose(mut images: Vec<ArchivedImage>, name: Option<&str>) -> Result<ArchivedImage, LoadError> {
    if let Some(name) = name {
        let found = images.iter().position(|image| image.names.iter().any(|known| known == name));
        let missing = || LoadError::Names(format!("the archive has no image with the name {name}"));
        return Ok(images.swap_remove(found.ok_or_else(missing)?));
    }
    match (images.pop(), images.is_empty()) {
        (Some(image), true) => Ok(image),
        (None, _) => Err(LoadError::NotAnImage("the archive contains no image".into())),
        (Some(last), false) => {
            let names: Vec<String> = images.into_iter().chain([last]).flat_map(|image| image.names).collect();
            let several = "the archive contains several images; choose one of them by its name";
            Err(LoadError::Names(format!("{several}: {}", names.join(", "))))
        }
    }
}

fn digest_of_stream(mut stream: impl Read) -> io::Result<Digest> {
    let (mut hash, mut part) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match stream.read(&mut part)? {
            0 => return Ok(Digest::finish(hash)),
            count => hash.update(&part[..count]),
        }
    }
}

fn blob(
    archive: &Arc<Archive>,
    layer: &ArchivedLayer,
    media_type: Option<&str>,
) -> Result<LayerBlob, LoadError> {
    let at = || LoadError::io(layer.member.clone());
    let mut content = archive.reader(&layer.member)?;
    let mut begin = [0; 4];
    let size = content.len();
    let count = content.read(&mut begin).map_err(at())?;
    let media_type = media_type.filter(|text| !text.is_empty()).map_or_else(
        || match Compression::of(&begin[..count]) {
            Compression::None => "application/vnd.oci.image.layer.v1.tar".to_owned(),
            Compression::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip".to_owned(),
            Compression::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd".to_owned(),
        },
        str::to_owned,
    );
    let digest = match &layer.digest {
        Some(digest) => digest.clone(),
        None => digest_of_stream(archive.reader(&layer.member)?).map_err(at())?,
    };
    let (archive, member) = (archive.clone(), layer.member.clone());
    let open: OpenBlob = Arc::new(move || {
        let section = archive.reader(&member).map_err(io::Error::other)?;
        Ok(Box::new(section))
    });
    Ok(LayerBlob { digest: digest.to_string(), size, media_type, open })
}
