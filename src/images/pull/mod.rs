//! Pulls images from registries into the store (IMG-8).
//!
//! All nodes of a process share one [`Puller`]. Pulls of the same image with the same credentials are one pull; it is
//! cancelled when no caller waits for it any more. A layer that several images have is downloaded once.
//!
//! A pull downloads some layers at a time, each into a file ([`spool`]), while a thread unpacks them from the lowest one
//! to the topmost one, following the files as they grow.

mod layer_locks;
mod spool;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::clock::Clock;
use base::sort::SliceOrder;
use base::task::{BlockingTask, JoinSet, blocking};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, oneshot};

use crate::registry::CredentialError;
use crate::registry::{
    ByteCount, DockerConfig, Keyring, LayerSource, RegistryClient, RegistryConfig, RegistryError,
    RemoteImage, RemoteLayer, RemoteManifest,
};
use crate::store::{
    ChainId, Digest, ImageDescription, ImageStore, Limits, LoadError, PackedLayer, Provenance, StoredImage,
};
use crate::{ImageReference, InvalidReference};
use layer_locks::LayerLocks;
use spool::{Spool, SpoolReader, SpoolWriter};

/// The number of layers that one process downloads at the same time, as containerd's `max_concurrent_downloads`.
const DOWNLOADS: usize = 3;

/// The content of a pull secret.
pub enum PullSecret {
    /// `kubernetes.io/dockerconfigjson`: Docker's configuration.
    Config(Vec<u8>),
    /// `kubernetes.io/dockercfg`: only the registries of the configuration.
    Registries(Vec<u8>),
}

impl PullSecret {
    fn content(&self) -> &[u8] {
        match self {
            Self::Config(content) | Self::Registries(content) => content,
        }
    }
}

/// The reason why an image was not pulled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PullError {
    /// The name is not valid.
    #[error("image name {name:?}: {error}")]
    Name {
        /// The name as the caller gave it.
        name: String,
        /// The reason why it is not valid.
        error: InvalidReference,
    },
    /// A pull secret is not valid.
    #[error("failed to pull image \"{name}\": {error}")]
    Secret {
        /// The image's full name.
        name: String,
        /// The defect of the secret.
        error: CredentialError,
    },
    /// The registry does not give the image.
    #[error("failed to pull and unpack image \"{name}\": {}", error.with_hint())]
    Registry {
        /// The image's full name.
        name: String,
        /// The registry's error.
        error: Arc<RegistryError>,
    },
    /// The image cannot be unpacked or stored.
    #[error("failed to pull and unpack image \"{name}\": {error}{}", advice_for(error))]
    Store {
        /// The image's full name.
        name: String,
        /// The error.
        error: Arc<LoadError>,
    },
    /// A task of the pull did not come to its end: this process stops, or the task has panicked.
    #[error("failed to pull image \"{name}\": the pull did not come to its end: {reason}")]
    Aborted {
        /// The image's full name.
        name: String,
        /// The reason: the task was cancelled, or has panicked.
        reason: String,
    },
}

impl PullError {
    /// Returns true if another source of the image would help: the registry does not give it.
    pub fn is_of_registry(&self) -> bool {
        matches!(self, Self::Registry { .. } | Self::Secret { .. })
    }
}

/// Returns the advice to a user about an error of the store.
fn advice_for(error: &LoadError) -> &'static str {
    match error {
        LoadError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            " (free space on the disk of the data directory; \"podium image prune\" removes unused images)"
        }
        _ => "",
    }
}

/// A pull's bytes: those downloaded, and all that it downloads, once they are known.
#[derive(Clone, Debug, Default)]
struct Progress {
    done: ByteCount,
    total: Arc<AtomicU64>,
}

impl Progress {
    /// The downloaded bytes, and all that are to be downloaded, once they are known.
    fn get(&self) -> (u64, Option<u64>) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.get(), Some(total).filter(|total| *total > 0))
    }
}

/// A pull in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPull {
    /// The image's full name.
    pub name: String,
    /// The downloaded bytes.
    pub done: u64,
    /// The bytes to download, once they are known.
    pub total: Option<u64>,
}

/// Identifies pulls that are one: the image, and the credentials that pay for it.
type PullKey = (String, [u8; 32]);

type SharedPull = Shared<BoxFuture<'static, Result<StoredImage, PullError>>>;

struct SharedProgress {
    pull: WeakShared<BoxFuture<'static, Result<StoredImage, PullError>>>,
    progress: Progress,
}

/// Pulls images; cheap to clone.
#[derive(Clone)]
pub struct Puller(Arc<Inner>);

struct Inner {
    store: Arc<ImageStore>,
    client: RegistryClient,
    docker: Option<Arc<DockerConfig>>,
    limits: Limits,
    downloads: Semaphore,
    locks: LayerLocks,
    running: Mutex<HashMap<PullKey, SharedProgress>>,
}

impl Puller {
    /// A puller into a store, with the registries' settings; `docker` gives credentials besides pull secrets.
    pub fn new(
        store: Arc<ImageStore>,
        config: RegistryConfig,
        docker: Option<DockerConfig>,
        clock: Clock,
    ) -> Self {
        Self::with_client(store, RegistryClient::new(config, Limits::default(), clock), docker)
    }

    fn with_client(store: Arc<ImageStore>, client: RegistryClient, docker: Option<DockerConfig>) -> Self {
        Self(Arc::new(Inner {
            store,
            client,
            docker: docker.map(Arc::new),
            limits: Limits::default(),
            downloads: Semaphore::new(DOWNLOADS),
            locks: LayerLocks::default(),
            running: Mutex::default(),
        }))
    }

    /// The client, for questions to registries.
    pub fn client(&self) -> &RegistryClient {
        &self.0.client
    }

    /// The credentials of these secrets and of Docker's configuration.
    pub fn keyring(&self, secrets: &[PullSecret]) -> Result<Keyring, CredentialError> {
        let mut keyring = Keyring::new();
        for secret in secrets {
            match secret {
                PullSecret::Config(content) => keyring.add_docker_config_json(content)?,
                PullSecret::Registries(content) => keyring.add_docker_cfg(content)?,
            }
        }
        Ok(keyring.with_docker_config(self.0.docker.clone()))
    }

    /// Pulls an image, or joins the running pull of it. An image that the store has, and that the registry still means
    /// by its name, is not downloaded again. Dropping the future cancels the pull unless another caller waits for it.
    pub async fn pull(&self, name: &str, secrets: &[PullSecret]) -> Result<StoredImage, PullError> {
        let reference =
            ImageReference::parse(name).map_err(|error| PullError::Name { name: name.to_owned(), error })?;
        let full_name = reference.full_name();
        let keyring =
            self.keyring(secrets).map_err(|error| PullError::Secret { name: full_name.clone(), error })?;
        let key = (full_name, fingerprint(secrets));
        let pull = self.join_or_start(key.clone(), reference, keyring);
        let result = pull.await;
        let mut running = self.0.running.lock();
        if running
            .get(&key)
            .is_some_and(|known| known.pull.upgrade().is_none_or(|pull| pull.peek().is_some()))
        {
            running.remove(&key);
        }
        result
    }

    fn join_or_start(&self, key: PullKey, reference: ImageReference, keyring: Keyring) -> SharedPull {
        let mut running = self.0.running.lock();
        // Pulls without a caller that waits are forgotten here.
        running.retain(|_, pull| pull.pull.upgrade().is_some());
        let joined = running.get(&key).and_then(|pull| pull.pull.upgrade());
        if let Some(pull) = joined.filter(|pull| pull.peek().is_none()) {
            return pull;
        }
        let progress = Progress::default();
        let started = Pull { inner: self.0.clone(), reference, keyring, progress: progress.clone() };
        let pull = started.run().boxed().shared();
        if let Some(weak) = pull.downgrade() {
            running.insert(key, SharedProgress { pull: weak, progress });
        }
        pull
    }

    /// The bytes that the running pulls of an image have downloaded, and how many they download, once it is known.
    pub fn progress(&self, name: &str) -> Option<(u64, Option<u64>)> {
        let name = ImageReference::parse(name).ok()?.full_name();
        let running = self.0.running.lock();
        let (_, pull) = running.iter().find(|((known, _), _)| *known == name)?;
        Some(pull.progress.get())
    }

    /// The pulls in progress, by name.
    pub fn running(&self) -> Vec<RunningPull> {
        let running = self.0.running.lock();
        let in_progress = running
            .iter()
            .filter(|(_, known)| known.pull.upgrade().is_some_and(|pull| pull.peek().is_none()));
        let mut pulls: Vec<RunningPull> = in_progress
            .map(|((name, _), known)| {
                let (done, total) = known.progress.get();
                RunningPull { name: name.clone(), done, total }
            })
            .collect();
        pulls.order_by(|one, other| one.name.cmp(&other.name));
        pulls
    }
}

/// Tells secrets apart without keeping them.
fn fingerprint(secrets: &[PullSecret]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for content in secrets.iter().map(PullSecret::content) {
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hash.finalize().into()
}

/// One pull.
struct Pull {
    inner: Arc<Inner>,
    reference: ImageReference,
    keyring: Keyring,
    progress: Progress,
}

impl Pull {
    async fn run(self) -> Result<StoredImage, PullError> {
        let name = self.reference.full_name();
        let registry = |error| PullError::Registry { name: name.clone(), error: Arc::new(error) };
        let store = |error| PullError::Store { name: name.clone(), error: Arc::new(error) };
        let remote = self.inner.client.open(&self.reference, &self.keyring).await.map_err(registry)?;
        if let Some(present) = self.current(&remote).await.map_err(registry)? {
            return Ok(present);
        }
        let manifest = remote.manifest().await.map_err(registry)?;
        let names = self.names(&manifest);
        let (mut description, _, _) = ImageDescription::read(&manifest.config)
            .map_err(|error| store(LoadError::NotAnImage(format!("its configuration: {error}"))))?;
        description.provenance = Provenance::Pulled;
        description.manifest_digest = Digest::parse(&manifest.manifest_digest).ok();
        let known = self.inner.store.add_names_to(&manifest.config_digest, &names, Provenance::Pulled);
        match known {
            Ok(Some(image)) => return Ok(image),
            Ok(None) => {}
            Err(source) => return Err(store(LoadError::Io { subject: "the image store".into(), source })),
        }
        let mut downloaded =
            self.download(&remote, &manifest, description.clone(), names.clone(), LayerSource::Mirrors).await;
        if let Err(failure) = &downloaded
            && remote.has_mirrors()
            && failure.is_of_content()
        {
            tracing::warn!(
                "image {name}: {failure}; reading the layers from the registry instead of its mirrors"
            );
            self.progress.done.reset();
            let source = LayerSource::Registry;
            downloaded = self.download(&remote, &manifest, description, names, source).await;
        }
        downloaded.map_err(|failure| match failure {
            Failure::Registry(error) => registry(error),
            Failure::Store(error) => store(error),
            Failure::Aborted(reason) => PullError::Aborted { name: name.clone(), reason },
        })
    }

    /// Returns the stored image, if the registry means it by this name.
    async fn current(&self, remote: &RemoteImage) -> Result<Option<StoredImage>, RegistryError> {
        let Some(present) = self.inner.store.find(&self.reference) else { return Ok(None) };
        let digest = remote.digest().await?;
        let in_repository = ImageReference { tag: None, digest: Some(digest), ..self.reference.clone() };
        Ok(self.inner.store.find(&in_repository).filter(|meant| meant.id == present.id))
    }

    /// The names that the image gets: the one that was pulled, and the digest that it means in its repository.
    fn names(&self, manifest: &RemoteManifest) -> Vec<ImageReference> {
        let by_digest =
            ImageReference { tag: None, digest: Some(manifest.digest.clone()), ..self.reference.clone() };
        let by_tag = Some(self.reference.clone()).filter(|reference| reference.digest.is_none());
        by_tag.into_iter().chain([by_digest]).collect()
    }

    /// Downloads the layers that the store does not have, while a thread unpacks them.
    async fn download(
        &self,
        remote: &RemoteImage,
        manifest: &RemoteManifest,
        description: ImageDescription,
        names: Vec<ImageReference>,
        source: LayerSource,
    ) -> Result<StoredImage, Failure> {
        let layers = Arc::new(Layers::of(manifest)?);
        let (spools, writers): (Vec<_>, Vec<_>) = layers.all.iter().map(|_| spool::spool()).unzip();
        let (started, directory) = oneshot::channel();
        let adding =
            ImageAddition { inner: self.inner.clone(), layers: layers.clone(), spools, description, names };
        let mut thread = blocking(move || adding.run(started));
        let Ok((directory, present)) = directory.await else { return end_of(&mut thread).await };
        let sizes = layers.all.iter().skip(present).map(|layer| layer.remote.size);
        self.progress.total.store(sizes.sum(), Ordering::Relaxed);
        let mut downloads = JoinSet::new();
        for (number, writer) in writers.into_iter().enumerate().skip(present) {
            let download = Download {
                inner: self.inner.clone(),
                remote: remote.clone(),
                layers: layers.clone(),
                number,
                source,
                progress: self.progress.clone(),
                path: directory.join(format!("blob-{number}")),
            };
            downloads.spawn(async move { download.run(writer).await });
        }
        loop {
            tokio::select! {
                // The thread ends with the image, or with an error of the store.
                added = end_of(&mut thread) => return added,
                Some(ended) = downloads.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(failure)) => {
                        // Without a download the thread ends, too, and leaves nothing.
                        downloads.shutdown().await;
                        let _ = end_of(&mut thread).await;
                        return Err(failure);
                    }
                    Err(error) => return Err(Failure::Aborted(error.to_string())),
                },
            }
        }
    }
}

async fn end_of(thread: &mut BlockingTask<Result<StoredImage, LoadError>>) -> Result<StoredImage, Failure> {
    match thread.await {
        Ok(result) => result.map_err(Failure::Store),
        Err(error) => Err(Failure::Aborted(error.to_string())),
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Registry(RegistryError),
    #[error("{0}")]
    Store(LoadError),
    /// The reason why a task did not come to its end.
    #[error("{0}")]
    Aborted(String),
}

impl Failure {
    /// Returns true if a layer's content is the reason: another server may have the right one. A layer is unpacked while
    /// it is downloaded, so that wrong content is often noticed before its digest is known.
    fn is_of_content(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_of_content(),
            Self::Store(LoadError::Io { source, .. }) => {
                // Compressed data that cannot be unpacked, and not the disk.
                use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
                matches!(source.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
            }
            Self::Store(_) => true,
            Self::Aborted(_) => false,
        }
    }
}

/// The layers of the image that is pulled, the lowest one first.
#[derive(Default)]
struct Layers {
    all: Vec<Layer>,
    diff_ids: Vec<Digest>,
}

struct Layer {
    remote: RemoteLayer,
    chain_id: ChainId,
}

impl Layers {
    fn of(manifest: &RemoteManifest) -> Result<Self, Failure> {
        let parse = |text: &str| {
            Digest::parse(text).map_err(|error| Failure::Store(LoadError::NotAnImage(error.to_string())))
        };
        let mut layers = Self::default();
        for remote in &manifest.layers {
            let diff_id = parse(&remote.diff_id)?;
            let chain_id = ChainId::over(layers.all.last().map(|below| &below.chain_id), &diff_id);
            layers.all.push(Layer { remote: remote.clone(), chain_id });
            layers.diff_ids.push(diff_id);
        }
        Ok(layers)
    }
}

/// The thread that unpacks the layers and adds the image.
struct ImageAddition {
    inner: Arc<Inner>,
    layers: Arc<Layers>,
    spools: Vec<Spool>,
    description: ImageDescription,
    names: Vec<ImageReference>,
}

impl ImageAddition {
    /// Sends the directory for downloads, and the number of layers that need none.
    fn run(self, started: oneshot::Sender<(PathBuf, usize)>) -> Result<StoredImage, LoadError> {
        let mut writer = self.inner.store.writer(&self.inner.limits)?;
        let mut present = 0;
        for diff_id in &self.layers.diff_ids {
            if !writer.reuse_layer(diff_id)? {
                break;
            }
            present += 1;
        }
        let _ = started.send((writer.directory().to_path_buf(), present));
        let layers = self.layers.all.iter().zip(&self.layers.diff_ids).zip(self.spools);
        for ((layer, diff_id), spool) in layers.skip(present) {
            let source = spool.wait().map_err(LoadError::io(layer.remote.digest.clone()))?;
            // The lock is held until the layer is in the store.
            let (reader, _lock) = match source {
                spool::Source::Present(lock) => {
                    if writer.reuse_layer(diff_id)? {
                        continue;
                    }
                    let lost = std::io::Error::other("the layer was removed during the pull");
                    drop(lock);
                    return Err(LoadError::io(layer.remote.digest.clone())(lost));
                }
                spool::Source::Download(reader, lock) => (reader, lock),
            };
            let packed = PackedLayer {
                name: &layer.remote.digest,
                diff_id,
                // The download has checked it.
                digest: None,
            };
            add_layer(&mut writer, packed, reader)?;
        }
        writer.add_image(self.description, &self.names)
    }
}

fn add_layer(
    writer: &mut crate::store::ImageWriter<'_>,
    packed: PackedLayer<'_>,
    reader: SpoolReader,
) -> Result<(), LoadError> {
    let name = packed.name.to_owned();
    for note in writer.add_layer(packed, reader)?.notes {
        tracing::info!("layer {name}: {note}");
    }
    Ok(())
}

/// The download of one layer.
struct Download {
    inner: Arc<Inner>,
    remote: RemoteImage,
    layers: Arc<Layers>,
    /// The layer's position.
    number: usize,
    source: LayerSource,
    progress: Progress,
    path: PathBuf,
}

impl Download {
    async fn run(self, writer: SpoolWriter) -> Result<(), Failure> {
        let layer = &self.layers.all[self.number];
        let lock = self.inner.locks.lock(&layer.chain_id).await;
        if self.is_present().await {
            self.progress.total.fetch_sub(layer.remote.size, Ordering::Relaxed);
            writer.present(lock);
            return Ok(());
        }
        let permit = self.inner.downloads.acquire().await;
        let _permit = permit.map_err(|error| Failure::Aborted(error.to_string()))?;
        // The path is the node's own.
        let io = |error| Failure::Store(LoadError::io(format!("layer {}", layer.remote.digest))(error));
        let mut file = writer.begin(&self.path, lock).map_err(io)?;
        let blob = self.remote.blob(&layer.remote, self.source, &self.progress.done);
        let mut blob = blob.map_err(Failure::Registry)?;
        while let Some(chunk) = blob.chunk().await.map_err(Failure::Registry)? {
            file = file.write(chunk).await.map_err(io)?;
        }
        file.finish().await.map_err(io)
    }

    /// Returns true if another pull has added the layer meanwhile.
    async fn is_present(&self) -> bool {
        let (inner, layers, count) = (self.inner.clone(), self.layers.clone(), self.number + 1);
        let present = blocking(move || inner.store.present_layers(&layers.diff_ids[..count]) == count).await;
        present.unwrap_or(false)
    }
}
