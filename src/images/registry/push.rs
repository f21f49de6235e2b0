//! Uploads an image: the missing blobs, then its manifest (IMG-7).
//!
//! The content comes from readers, such as the blobs of an OCI image layout, and is streamed in one request. A server
//! that refuses so large a body (413) gets it in chunks. The registry checks every digest.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use reqwest::{Body, Method, Response, StatusCode, Url};

use crate::store::{LayerBlob, OciManifest, OpenBlob, digest_of};

use super::authorization::{Access, Authorizer};
use super::blob::ByteCount;
use super::content::{Digester, OCI_CONFIG, OCI_MANIFEST};
use super::endpoint::Endpoint;
use super::error::{RegistryError, shown_url};
use super::transport::{Call, header, join};
use super::{Remote, RemoteImage};

/// The size of the parts in which a blob is read.
const PART_BYTES: u64 = 64 << 10;
/// The size of the chunks for servers that refuse a blob as a whole, unless they demand a larger one.
const CHUNK_BYTES: u64 = 8 << 20;
/// The largest chunk size that a server may demand.
const LARGEST_CHUNK_BYTES: u64 = 1 << 30;
/// Uploads of one blob before it fails.
const ATTEMPTS: u32 = 3;
/// Blobs that are uploaded at the same time.
const UPLOADS: usize = 3;

const CHUNK_MINIMUM: HeaderName = HeaderName::from_static("oci-chunk-min-length");

/// An image to upload.
#[derive(Clone, Debug)]
pub struct PushImage {
    manifest: Vec<u8>,
    media_type: String,
    blobs: Vec<LayerBlob>,
}

impl PushImage {
    /// Composes an image of a configuration and its layers, the lowest first. The manifest is OCI's.
    pub fn new(config: Vec<u8>, layers: Vec<LayerBlob>) -> Self {
        let descriptor = |media_type: &str, digest: &str, size: u64| serde_json::json!({ "mediaType": media_type, "digest": digest, "size": size });
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": descriptor(OCI_CONFIG, &digest_of(&config), config.len() as u64),
            "layers": layers
                .iter()
                .map(|layer| descriptor(&layer.media_type, &layer.digest, layer.size))
                .collect::<Vec<_>>(),
        });
        Self {
            manifest: manifest.to_string().into_bytes(),
            media_type: OCI_MANIFEST.to_owned(),
            blobs: with_config(config, OCI_CONFIG, layers),
        }
    }

    /// Takes an image with its manifest as it is, so that its digest stays. The configuration and the layers must be
    /// those of the manifest.
    pub fn with_manifest(
        manifest: Vec<u8>,
        media_type: String,
        config: Vec<u8>,
        layers: Vec<LayerBlob>,
    ) -> Result<Self, RegistryError> {
        let invalid = |reason: &str| RegistryError::invalid("the manifest", reason);
        let parsed: OciManifest =
            serde_json::from_slice(&manifest).map_err(|error| invalid(&error.to_string()))?;
        if parsed.config.digest != digest_of(&config) {
            return Err(invalid("it is for another configuration"));
        }
        if !parsed.layers.iter().map(|layer| &layer.digest).eq(layers.iter().map(|layer| &layer.digest)) {
            return Err(invalid("it is for other layers"));
        }
        let blobs = with_config(config, &parsed.config.media_type, layers);
        Ok(Self { manifest, media_type, blobs })
    }

    /// The manifest that will be uploaded.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// The digest of the manifest.
    pub fn digest(&self) -> String {
        digest_of(&self.manifest)
    }

    /// The bytes of all blobs; of equal ones the first counts.
    pub fn size(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.size).sum()
    }
}

/// The distinct blobs of an image.
fn with_config(config: Vec<u8>, media_type: &str, layers: Vec<LayerBlob>) -> Vec<LayerBlob> {
    let (digest, size) = (digest_of(&config), config.len() as u64);
    let config = Bytes::from(config);
    let open: OpenBlob = Arc::new(move || Ok(Box::new(io::Cursor::new(config.clone()))));
    let config = LayerBlob { digest, size, media_type: media_type.to_owned(), open };
    let mut blobs: Vec<LayerBlob> = Vec::new();
    for blob in layers.into_iter().chain([config]) {
        if !blobs.iter().any(|known| known.digest == blob.digest) {
            blobs.push(blob);
        }
    }
    blobs
}

impl RemoteImage {
    /// Uploads an image under the reference, to the registry itself and never to a mirror; `count` grows up to the
    /// image's size. Returns the manifest's digest.
    pub async fn push(&self, image: &PushImage, count: &ByteCount) -> Result<String, RegistryError> {
        let remote = &self.0;
        let digest = image.digest();
        if remote.reference.digest.as_ref().is_some_and(|named| *named != digest) {
            return Err(RegistryError::Digest {
                subject: remote.name.clone(),
                expected: remote.reference.digest.clone().unwrap_or_default(),
                actual: digest,
            });
        }
        let Some(endpoint) = remote.endpoints.last() else {
            return Err(RegistryError::invalid(&remote.name, "no registry"));
        };
        let upload = Upload { remote, endpoint, count };
        futures::stream::iter(&image.blobs)
            .map(Ok)
            .try_for_each_concurrent(UPLOADS, |blob| upload.blob(blob))
            .await?;
        let named = remote.reference.tag.as_deref().unwrap_or(&digest);
        let media_type = HeaderValue::try_from(&image.media_type)
            .map_err(|_| RegistryError::invalid(&remote.name, "the manifest's media type is malformed"))?;
        let put = |url| Call::new(Method::PUT, url).with_body(media_type.clone(), image.manifest.clone());
        upload.send(&remote.name, put, &format!("manifests/{named}")).await?;
        Ok(digest)
    }
}

struct Upload<'a> {
    remote: &'a Remote,
    endpoint: &'a Endpoint,
    count: &'a ByteCount,
}

/// The result of an upload that did not fail for good.
enum Outcome {
    Complete,
    /// The server refuses bodies of this size.
    TooLarge,
    /// The authorization expired meanwhile.
    Unauthorized,
}

impl Upload<'_> {
    async fn send(
        &self,
        subject: &str,
        make: impl Fn(Url) -> Call,
        path: &str,
    ) -> Result<Response, RegistryError> {
        let shared = &self.remote.shared;
        self.endpoint.send(&shared.transport, &shared.authorizations, subject, Access::Push, make, path).await
    }

    fn authorizer<'a>(&'a self, subject: &'a str) -> Authorizer<'a> {
        self.endpoint.current(&self.remote.shared.transport, &self.remote.shared.authorizations, subject)
    }

    /// Uploads a blob unless the registry has it.
    async fn blob(&self, blob: &LayerBlob) -> Result<(), RegistryError> {
        let subject = format!("blob {} of {}", blob.digest, self.remote.name);
        if Digester::of(&blob.digest).is_none() {
            return Err(RegistryError::invalid(subject, "its digest is malformed"));
        }
        let path = format!("blobs/{}", blob.digest);
        match self.send(&subject, |url| Call::new(Method::HEAD, url), &path).await {
            Ok(_) => {
                self.count.add(blob.size);
                return Ok(());
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let mut chunk_bytes = None;
        let mut attempt = 1;
        loop {
            let sent = ByteCount::default();
            let failure = match self.upload(blob, &subject, chunk_bytes, &sent).await {
                Ok(Outcome::Complete) => return Ok(()),
                Ok(Outcome::TooLarge) if chunk_bytes.is_none() => {
                    chunk_bytes = Some(CHUNK_BYTES);
                    None
                }
                Ok(Outcome::TooLarge) => Some(RegistryError::TooLarge {
                    subject: subject.clone(),
                    reason: "the registry refuses even chunks of it (413)".into(),
                }),
                Ok(Outcome::Unauthorized) => Some(RegistryError::Denied {
                    subject: subject.clone(),
                    action: "push",
                    detail: "401 Unauthorized".into(),
                }),
                Err(error) if error.is_transient() || error.is_not_found() => Some(error),
                Err(error) => return Err(error),
            };
            self.count.subtract(sent.get());
            if let Some(error) = failure {
                if attempt >= ATTEMPTS {
                    return Err(error);
                }
                tracing::debug!("{subject}: {error}; trying again");
                tokio::time::sleep(self.remote.shared.transport.patience.backoff.delay(attempt)).await;
                attempt += 1;
            }
        }
    }

    /// Uploads a blob once: as a whole, or in chunks.
    async fn upload(
        &self,
        blob: &LayerBlob,
        subject: &str,
        chunk_bytes: Option<u64>,
        sent: &ByteCount,
    ) -> Result<Outcome, RegistryError> {
        let octets = HeaderValue::from_static("application/octet-stream");
        let begin = |url| Call::new(Method::POST, url).with_body(octets.clone(), Vec::new());
        let response = self.send(subject, begin, "blobs/uploads/").await?;
        let minimum =
            header(response.headers(), &CHUNK_MINIMUM).parse().unwrap_or(0).min(LARGEST_CHUNK_BYTES);
        let mut target = location(&response)?;
        let source = |source| RegistryError::Source { subject: subject.to_owned(), source };
        let open = blob.open.clone();
        let reader =
            base::task::blocking(move || open()).await.map_err(|_| source(lost_task()))?.map_err(source)?;
        let content = Content { reader: Arc::new(Mutex::new(reader)), failure: Arc::default() };
        let mut offset = 0;
        if let Some(chunk_bytes) = chunk_bytes {
            let chunk_bytes = chunk_bytes.max(minimum);
            while blob.size - offset > 0 {
                let length = chunk_bytes.min(blob.size - offset);
                let mut call = Call::new(Method::PATCH, target.clone());
                let range = format!("{offset}-{}", offset + length - 1);
                call.headers.insert(
                    CONTENT_RANGE,
                    HeaderValue::try_from(range).expect("digits are a header's value"),
                );
                let response = match self.send_content(call, subject, &content, length, sent).await? {
                    Ok(response) => response,
                    Err(outcome) => return Ok(outcome),
                };
                target = location(&response)?;
                offset += length;
            }
        }
        target.query_pairs_mut().append_pair("digest", &blob.digest);
        let call = Call::new(Method::PUT, target);
        match self.send_content(call, subject, &content, blob.size - offset, sent).await? {
            Ok(_) => Ok(Outcome::Complete),
            Err(outcome) => Ok(outcome),
        }
    }

    /// Sends the next part of a blob's content.
    async fn send_content(
        &self,
        mut call: Call,
        subject: &str,
        content: &Content,
        length: u64,
        sent: &ByteCount,
    ) -> Result<Result<Response, Outcome>, RegistryError> {
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let transport = &self.remote.shared.transport;
        let authorizer = self.authorizer(subject);
        let authorization = authorizer.known(&call, Access::Push);
        let goal = sent.get() + length;
        let body = content.body(length, sent.clone(), self.count.clone());
        let stall = async {
            let patience = transport.patience;
            let mut before = sent.get();
            loop {
                // A registry that has everything computes the digest, and may move the content.
                let limit = if before == goal { patience.stall * 10 } else { patience.stall };
                tokio::time::sleep(limit).await;
                let now = sent.get();
                if now == before {
                    return;
                }
                before = now;
            }
        };
        let answer =
            transport.upload(self.endpoint.trust(), &call, authorization.as_ref(), body, length, stall).await;
        if let Some(source) = content.failure.lock().take() {
            return Err(RegistryError::Source { subject: subject.to_owned(), source });
        }
        let response = answer?;
        match response.status() {
            status if status.is_success() => Ok(Ok(response)),
            StatusCode::PAYLOAD_TOO_LARGE => Ok(Err(Outcome::TooLarge)),
            StatusCode::UNAUTHORIZED => {
                authorizer.forget(&call, Access::Push);
                Ok(Err(Outcome::Unauthorized))
            }
            StatusCode::NOT_FOUND => Err(RegistryError::NotFound {
                subject: format!("the upload of {subject}"),
                detail: transport.error_detail(response).await,
            }),
            _ => Err(transport.status_error(&call, response).await),
        }
    }
}

/// The URL at which an upload goes on.
fn location(response: &Response) -> Result<Url, RegistryError> {
    let location = header(response.headers(), &LOCATION);
    let invalid = |reason: String| RegistryError::invalid(shown_url(response.url()), reason);
    if location.is_empty() {
        return Err(invalid("the answer to an upload has no Location".into()));
    }
    join(response.url(), location).map_err(invalid)
}

fn lost_task() -> io::Error {
    io::Error::other("the reader panicked")
}

/// A blob that is being read for an upload.
struct Content {
    reader: Arc<Mutex<Box<dyn Read + Send>>>,
    /// The error of the reader, which the HTTP library would hide.
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Content {
    /// The next bytes as a request's body.
    fn body(&self, length: u64, sent: ByteCount, count: ByteCount) -> Body {
        let (reader, failure) = (self.reader.clone(), self.failure.clone());
        let parts = futures::stream::try_unfold(length, move |remaining| {
            let (reader, failure, sent, count) =
                (reader.clone(), failure.clone(), sent.clone(), count.clone());
            async move {
                if remaining == 0 {
                    return Ok::<_, io::Error>(None);
                }
                let read = base::task::blocking(move || read_part(reader.lock().as_mut(), remaining)).await;
                match read.unwrap_or_else(|_| Err(lost_task())) {
                    Ok(part) => {
                        sent.add(part.len() as u64);
                        count.add(part.len() as u64);
                        let remaining = remaining - part.len() as u64;
                        Ok(Some((part, remaining)))
                    }
                    Err(error) => {
                        *failure.lock() = Some(error);
                        Err(io::Error::other("the content cannot be read"))
                    }
                }
            }
        });
        Body::wrap_stream(parts.into_stream())
    }
}

fn read_part(reader: &mut dyn Read, remaining: u64) -> io::Result<Bytes> {
    let mut part = vec![0; PART_BYTES.min(remaining) as usize];
    loop {
        match reader.read(&mut part) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the content is shorter than its size",
                ));
            }
            Ok(count) => {
                part.truncate(count);
                return Ok(part.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
