//! The client of the OCI distribution protocol: pulls and pushes images (IMG-4 to IMG-7).
//!
//! The crate oci-client is not used: it reads manifests, tokens and errors into memory without a limit, hides
//! `Retry-After`, and cannot be given the proxies, resolver and redirects of its HTTP client.
//!
//! A [`RegistryClient`] opens the [`RemoteImage`] of a reference, which knows the reference's servers and their
//! credentials. It finds the manifest for this machine ([`RemoteImage::manifest`]) and then the layers
//! ([`RemoteImage::blob`]), whose content is checked against their digests while it is read. Nothing here writes files.
//!
//! Everything that a registry sends is hostile: documents, tokens, errors and redirects are limited, and a layer takes
//! the memory of one chunk of the connection.

mod auth_entries;
mod authorization;
mod blob;
mod challenge;
mod config;
mod content;
mod credential;
mod docker_config;
mod endpoint;
mod error;
#[doc(hidden)] // for the programs in `fuzz/`; nothing of the product calls it
pub mod fuzz;
mod keyring;
mod manifest;
mod push;
#[cfg(test)]
pub(crate) mod tests;
mod transport;

use std::fmt;
use std::sync::Arc;

use base::clock::Clock;
use futures::future::BoxFuture;

use crate::ImageReference;
use crate::store::Limits;

use authorization::AuthorizationCache;
use endpoint::Endpoint;
use transport::{Patience, Transport};

pub use blob::{BlobReader, ByteCount, LayerSource};
pub use config::{PullMode, RegistryConfig, RegistryHostConfig};
pub use credential::{Credential, CredentialError, SecretText};
pub use docker_config::DockerConfig;
pub use error::{RegistryError, RequestFailure};
pub use keyring::Keyring;
pub use manifest::{RemoteLayer, RemoteManifest};
pub use push::PushImage;

/// The client of all registries: shares connections and tokens between pulls. Cheap to clone.
#[derive(Clone)]
pub struct RegistryClient(Arc<ClientState>);

struct ClientState {
    config: RegistryConfig,
    limits: Limits,
    transport: Transport,
    authorizations: AuthorizationCache,
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryClient").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl RegistryClient {
    /// Creates a client; a configuration with faults fails for the hosts that they concern.
    pub fn new(config: RegistryConfig, limits: Limits, clock: Clock) -> Self {
        Self::with_patience(config, limits, clock, Patience::default())
    }

    fn with_patience(config: RegistryConfig, limits: Limits, clock: Clock, patience: Patience) -> Self {
        let transport = Transport::new(&config, clock, patience);
        Self(Arc::new(ClientState {
            config,
            limits,
            transport,
            authorizations: AuthorizationCache::default(),
        }))
    }

    /// Selects the servers of a reference and their credentials. Runs credential helpers, but connects to nothing.
    pub async fn open(
        &self,
        reference: &ImageReference,
        keyring: &Keyring,
    ) -> Result<RemoteImage, RegistryError> {
        let endpoints = endpoint::endpoints(&self.0.config, reference, keyring).await?;
        let name = reference.full_name();
        Ok(RemoteImage(Arc::new(Remote {
            shared: self.0.clone(),
            reference: reference.clone(),
            name,
            endpoints,
        })))
    }
}

/// An image in a registry, as one pod or user may see it. Cheap to clone; readers of its layers are independent.
#[derive(Clone)]
pub struct RemoteImage(Arc<Remote>);

struct Remote {
    shared: Arc<ClientState>,
    reference: ImageReference,
    /// The reference's full name, as containerd and events write it: `docker.io/library/nginx:latest`.
    name: String,
    /// Mirrors first; the last is the registry itself.
    endpoints: Vec<Endpoint>,
}

impl RemoteImage {
    /// Returns true if the image has mirrors besides its registry.
    pub fn has_mirrors(&self) -> bool {
        self.0.endpoints.len() > 1
    }
}

impl fmt::Debug for RemoteImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteImage")
            .field("name", &self.0.name)
            .field("endpoints", &self.0.endpoints)
            .finish()
    }
}

impl Remote {
    /// Tries each endpoint until one succeeds.
    async fn try_endpoints<'a, T>(
        &'a self,
        operation: impl Fn(&'a Endpoint) -> BoxFuture<'a, Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        let mut errors = Vec::new();
        for endpoint in &self.endpoints {
            match operation(endpoint).await {
                Ok(done) => return Ok(done),
                Err(error) => {
                    tracing::debug!("{} at {}: {error}", self.name, endpoint.name);
                    errors.push((endpoint.name.clone(), error));
                }
            }
        }
        Err(RegistryError::of_endpoints(errors))
    }
}
