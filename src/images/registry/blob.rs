//! Reads a layer: resumed after lost connections, and checked against its size and digest (IMG-5).
//!
//! A reader holds one chunk of a connection at a time. A connection that breaks is continued with a `Range` request at
//! the same server, and after several attempts without progress at the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use reqwest::{Response, Url};

use super::authorization::Access;
use super::content::Digester;
use super::error::RegistryError;
use super::manifest::RemoteLayer;
use super::transport::{Call, header, range_begin};
use super::{Remote, RemoteImage};

/// Attempts at one server without progress.
const ATTEMPTS: u32 = 5;
/// The number of bytes that count as progress. Fewer would let a hostile registry drop connections for ever.
const PROGRESS_BYTES: u64 = 64 << 10;

/// The number of bytes of a transfer so far, shared with its display.
#[derive(Clone, Debug, Default)]
pub struct ByteCount(Arc<AtomicU64>);

impl ByteCount {
    /// Creates a counter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes so far. Bytes that are sent again after a failure count once.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Starts the count again.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The servers that a layer is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSource {
    /// The mirrors in their order, then the registry itself.
    Mirrors,
    /// The registry itself: a mirror has sent something else.
    Registry,
}

/// A layer that is being read. Its end is reported only if size and digest are right.
pub struct BlobReader {
    remote: Arc<Remote>,
    layer: RemoteLayer,
    subject: String,
    /// The position of the server in use.
    endpoint: usize,
    /// The answer that is being read, and its URL.
    response: Option<(Url, Response)>,
    /// Bytes at the beginning of the answer that were read before: the server ignores `Range`.
    skipped: u64,
    /// Bytes read.
    offset: u64,
    /// `None` after the end.
    digester: Option<Digester>,
    /// Attempts at this server without progress.
    failures: u32,
    /// The offset at which the last progress was counted.
    progress_offset: u64,
    /// The failures of servers before this one.
    errors: Vec<(String, RegistryError)>,
    count: ByteCount,
}

impl RemoteImage {
    /// Returns a reader of a layer; `count` grows with its content. Connects at the first read.
    pub fn blob(
        &self,
        layer: &RemoteLayer,
        source: LayerSource,
        count: &ByteCount,
    ) -> Result<BlobReader, RegistryError> {
        let subject = format!("layer {} of {}", layer.digest, self.0.name);
        let digester = Digester::of(&layer.digest)
            .ok_or_else(|| RegistryError::invalid(&subject, "its digest is malformed"))?;
        Ok(BlobReader {
            remote: self.0.clone(),
            layer: layer.clone(),
            subject,
            endpoint: match source {
                LayerSource::Mirrors => 0,
                LayerSource::Registry => self.0.endpoints.len() - 1,
            },
            response: None,
            skipped: 0,
            offset: 0,
            digester: Some(digester),
            failures: 0,
            progress_offset: 0,
            errors: Vec::new(),
            count: count.clone(),
        })
    }
}

impl std::fmt::Debug for BlobReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobReader")
            .field("layer", &self.layer)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl BlobReader {
    /// Returns the next part; `None` at the end of content with the right digest. After an error there is no more.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, RegistryError> {
        loop {
            if self.digester.is_none() {
                return Ok(None);
            }
            if self.offset == self.layer.size {
                self.check_end().await?;
                return Ok(None);
            }
            if self.response.is_none() {
                self.connect().await?;
            }
            let Some((url, response)) = &mut self.response else { continue };
            match self.remote.shared.transport.chunk(url, response).await {
                Ok(Some(mut chunk)) => {
                    let again = self.skipped.min(chunk.len() as u64);
                    self.skipped -= again;
                    chunk.advance(again as usize);
                    if chunk.is_empty() {
                        continue;
                    }
                    self.accept(&chunk)?;
                    return Ok(Some(chunk));
                }
                Ok(None) => {
                    let early = RegistryError::invalid(&self.subject, "the content ended early");
                    self.reconnect_after(early).await?;
                }
                Err(error) => self.reconnect_after(error).await?,
            }
        }
    }

    fn accept(&mut self, chunk: &Bytes) -> Result<(), RegistryError> {
        if chunk.len() as u64 > self.layer.size - self.offset {
            self.digester = None;
            return Err(self.too_large());
        }
        self.offset += chunk.len() as u64;
        self.count.add(chunk.len() as u64);
        if let Some(digester) = &mut self.digester {
            digester.update(chunk);
        }
        if self.offset - self.progress_offset >= PROGRESS_BYTES {
            self.progress_offset = self.offset;
            self.failures = 0;
        }
        Ok(())
    }

    fn too_large(&self) -> RegistryError {
        RegistryError::TooLarge {
            subject: self.subject.clone(),
            reason: format!("it has more than the {} bytes of its descriptor", self.layer.size),
        }
    }

    /// Checks that nothing follows the content, and that its digest is right.
    async fn check_end(&mut self) -> Result<(), RegistryError> {
        let Some(digester) = self.digester.take() else { return Ok(()) };
        if let Some((url, mut response)) = self.response.take()
            // A connection that breaks here has given everything.
            && let Ok(Some(more)) = self.remote.shared.transport.chunk(&url, &mut response).await
            && !more.is_empty()
        {
            return Err(self.too_large());
        }
        let actual = digester.finish();
        if actual == self.layer.digest {
            return Ok(());
        }
        Err(RegistryError::Digest {
            subject: self.subject.clone(),
            expected: self.layer.digest.clone(),
            actual,
        })
    }

    /// Begins an answer at the offset, at this server or at one of the next.
    async fn connect(&mut self) -> Result<(), RegistryError> {
        loop {
            match self.request().await {
                Ok(()) => return Ok(()),
                Err(error) => self.leave_endpoint(error)?,
            }
        }
    }

    async fn request(&mut self) -> Result<(), RegistryError> {
        let (shared, endpoint) = (&self.remote.shared, &self.remote.endpoints[self.endpoint]);
        let path = format!("blobs/{}", self.layer.digest);
        let get = |url| Call::get(url).from(self.offset);
        let sent =
            endpoint.send(&shared.transport, &shared.authorizations, &self.subject, Access::Pull, get, &path);
        let response = sent.await?;
        if header(response.headers(), &CONTENT_TYPE).starts_with("text/html") {
            return Err(RegistryError::invalid(
                &self.subject,
                "the answer is an HTML page and not the layer",
            ));
        }
        let begin = match response.status() {
            StatusCode::PARTIAL_CONTENT => range_begin(response.headers()),
            _ => Some(0),
        };
        let begin = begin.filter(|begin| *begin == 0 || *begin == self.offset).ok_or_else(|| {
            RegistryError::invalid(
                &self.subject,
                format!("the answer does not begin at byte {}", self.offset),
            )
        })?;
        if let Some(length) = response.content_length() {
            let expected = self.layer.size - begin;
            if length > expected {
                return Err(self.too_large());
            }
            if length < expected && response.status() == StatusCode::OK {
                let reason = format!("it has {length} bytes, but its descriptor says {expected}");
                return Err(RegistryError::invalid(&self.subject, reason));
            }
        }
        self.skipped = self.offset - begin;
        self.response = Some((response.url().clone(), response));
        Ok(())
    }

    /// Prepares another attempt after a lost connection.
    async fn reconnect_after(&mut self, error: RegistryError) -> Result<(), RegistryError> {
        self.response = None;
        self.failures += 1;
        if self.failures < ATTEMPTS {
            let delay = self.remote.shared.transport.patience.backoff.delay(self.failures);
            tracing::debug!("{} at byte {}: {error}; trying again in {delay:?}", self.subject, self.offset);
            tokio::time::sleep(delay).await;
            return Ok(());
        }
        let error = RegistryError::Interrupted {
            subject: self.subject.clone(),
            offset: self.offset,
            size: self.layer.size,
            attempts: self.failures,
            source: Box::new(error),
        };
        self.leave_endpoint(error)
    }

    /// Goes on to the next server; the error is the result if there is none.
    fn leave_endpoint(&mut self, error: RegistryError) -> Result<(), RegistryError> {
        self.errors.push((self.remote.endpoints[self.endpoint].name.clone(), error));
        if self.endpoint + 1 < self.remote.endpoints.len() {
            self.endpoint += 1;
            self.failures = 0;
            return Ok(());
        }
        self.digester = None;
        Err(RegistryError::of_endpoints(std::mem::take(&mut self.errors)))
    }
}
