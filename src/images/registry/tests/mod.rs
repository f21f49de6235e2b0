//! A registry in this process that answers as each test says, and an image to pull from it.

mod authentication;
mod blobs;
mod manifests;
mod push;
mod trust;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base::backoff::BackoffPolicy;
use base::clock::Clock;
use http::header::{AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::transport::Patience;
use super::{Keyring, RegistryClient, RegistryConfig, RegistryError, RemoteImage};
use crate::ImageReference;
use crate::store::{Limits, Platform, digest_of};

/// A request as a test's registry sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenRequest {
    method: String,
    /// With the query.
    pub(crate) path: String,
    authorization: Option<String>,
    range: Option<String>,
    content_range: Option<String>,
    body: Vec<u8>,
    /// Earlier requests with the same method and path.
    before: usize,
}

pub(crate) type Answer = Response<Body>;

/// A server on the loopback interface; it ends with the test's runtime.
pub(crate) struct Server {
    address: SocketAddr,
    log: Arc<Mutex<Vec<SeenRequest>>>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&SeenRequest) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(None, answer).await
    }

    /// Starts a server, with TLS if an acceptor is given.
    async fn start_with(
        tls: Option<tokio_rustls::TlsAcceptor>,
        answer: impl Fn(&SeenRequest) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (log, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let requests = log.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer, tls) = (requests.clone(), answer.clone(), tls.clone());
                let service = service_fn(move |request| {
                    let (log, answer) = (log.clone(), answer.clone());
                    async move { Ok::<_, Infallible>(answer_one(&log, answer.as_ref(), request).await) }
                });
                tokio::spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = match tls {
                        None => http.serve_connection(TokioIo::new(stream), service).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => http.serve_connection(TokioIo::new(stream), service).await,
                            Err(_) => Ok(()),
                        },
                    };
                });
            }
        });
        Self { address, log }
    }

    /// `METHOD PATH` of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.log.lock().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect()
    }

    pub(crate) fn reference(&self) -> String {
        format!("{}/team/app", self.address)
    }

    async fn open(&self) -> RemoteImage {
        open(&self.reference(), "{}", &Keyring::new()).await
    }
}

async fn answer_one(
    log: &Mutex<Vec<SeenRequest>>,
    answer: &(impl Fn(&SeenRequest) -> Answer + Send + Sync),
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut seen = SeenRequest {
        method: head.method.to_string(),
        path: head.uri.path_and_query().unwrap().to_string(),
        authorization: header(AUTHORIZATION),
        range: header(RANGE),
        content_range: header(CONTENT_RANGE),
        body: body.collect().await.map_or_else(|_| Vec::new(), |all| all.to_bytes().to_vec()),
        before: 0,
    };
    let mut log = log.lock();
    seen.before = log.iter().filter(|old| (&old.method, &old.path) == (&seen.method, &seen.path)).count();
    log.push(seen.clone());
    drop(log);
    answer(&seen)
}

/// Short waits, so that tests are fast.
fn impatient() -> Patience {
    Patience {
        connect: Duration::from_secs(5),
        stall: Duration::from_millis(400),
        document: Duration::from_secs(5),
        attempts: 3,
        backoff: BackoffPolicy { initial: Duration::from_millis(1), max: Duration::from_millis(2) },
        retry_after: Duration::from_mins(1),
    }
}

pub(crate) fn client(config: &str) -> RegistryClient {
    let config: RegistryConfig = serde_json::from_str(config).unwrap();
    assert_eq!(config.faults(), []);
    let clock = Clock::starting_at("2026-11-28T20:00:00Z".parse().unwrap());
    RegistryClient::with_patience(config, Limits::default(), clock, impatient())
}

async fn open(reference: &str, config: &str, keyring: &Keyring) -> RemoteImage {
    client(config).open(&ImageReference::parse(reference).unwrap(), keyring).await.unwrap()
}

pub(crate) fn status(code: u16) -> Answer {
    Response::builder().status(code).body(Body::empty()).unwrap()
}

fn with_type(media_type: &str, body: impl Into<Body>) -> Answer {
    Response::builder().header(CONTENT_TYPE, media_type).body(body.into()).unwrap()
}

fn with_header(mut answer: Answer, name: &'static str, value: &str) -> Answer {
    answer.headers_mut().insert(name, value.parse().unwrap());
    answer
}

/// A body that has no stated length; the connection breaks after it if `breaks`.
fn streamed(bytes: &[u8], breaks: bool) -> Body {
    let parts: Vec<std::io::Result<Vec<u8>>> = bytes.chunks(5000).map(|part| Ok(part.to_vec())).collect();
    let end = futures::stream::once(async {
        // The server writes its buffer while the body is not ready, and drops it at an error.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Err(std::io::Error::other("broken"))
    });
    let end = futures::StreamExt::take(end, usize::from(breaks));
    Body::from_stream(futures::StreamExt::chain(futures::stream::iter(parts), end))
}

/// The beginning of a `Range` header.
fn range_begin(seen: &SeenRequest) -> usize {
    let range = seen.range.as_deref().unwrap_or("bytes=0-");
    range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap()
}

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The content of a repository `team/app`.
#[derive(Clone)]
pub(crate) struct Repository {
    /// Manifests by tag or digest, with their media types.
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    blobs: BTreeMap<String, Vec<u8>>,
    layer: Vec<u8>,
}

impl Repository {
    /// An image with one layer.
    pub(crate) fn new() -> Self {
        let layer: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut repository = Self { manifests: BTreeMap::new(), blobs: BTreeMap::new(), layer };
        let config = repository.config(&[digest_of(b"tar")]);
        let layer = repository.add_blob(repository.layer.clone());
        let manifest = repository.manifest(&config, &[descriptor(LAYER, &layer, repository.layer.len())]);
        repository.add_manifest("latest", MANIFEST, manifest);
        repository
    }

    pub(crate) fn add_blob(&mut self, bytes: Vec<u8>) -> String {
        let digest = digest_of(&bytes);
        self.blobs.insert(digest.clone(), bytes);
        digest
    }

    pub(crate) fn config(&mut self, diff_ids: &[String]) -> String {
        let config = serde_json::json!({
            "architecture": Platform::machine().architecture, "os": "linux", "config": {},
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        self.add_blob(config.to_string().into_bytes())
    }

    pub(crate) fn manifest(&self, config: &str, layers: &[serde_json::Value]) -> String {
        let size = self.blobs[config].len();
        serde_json::json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", config, size),
            "layers": layers,
        })
        .to_string()
    }

    pub(crate) fn add_manifest(&mut self, tag: &str, media_type: &str, text: impl Into<Vec<u8>>) -> String {
        let bytes = text.into();
        let digest = digest_of(&bytes);
        for name in [tag, &digest] {
            self.manifests.insert(name.to_owned(), (media_type.to_owned(), bytes.clone()));
        }
        digest
    }

    /// The layer or configuration that a request means, if it is larger than a configuration.
    pub(crate) fn layer_at(&self, path: &str) -> Option<Vec<u8>> {
        let digest = path.split('?').next()?.rsplit('/').next()?;
        self.blobs.get(digest).filter(|bytes| bytes.len() > 1000).cloned()
    }

    /// Answers as a good registry.
    pub(crate) fn answer(&self, seen: &SeenRequest) -> Answer {
        let path = seen.path.split('?').next().unwrap();
        if let Some(name) = path.strip_prefix("/v2/team/app/manifests/") {
            let Some((media_type, bytes)) = self.manifests.get(name) else { return unknown_manifest() };
            return with_header(
                with_type(media_type, bytes.clone()),
                "docker-content-digest",
                &digest_of(bytes),
            );
        }
        match path.strip_prefix("/v2/team/app/blobs/").and_then(|digest| self.blobs.get(digest)) {
            Some(bytes) => partial(bytes, seen),
            None => status(404),
        }
    }
}

/// The content, or its part from the beginning of a range on.
fn partial(bytes: &[u8], seen: &SeenRequest) -> Answer {
    if seen.range.is_none() {
        return with_type("application/octet-stream", bytes.to_vec());
    }
    let begin = range_begin(seen);
    let mut answer = Response::new(Body::from(bytes[begin..].to_vec()));
    *answer.status_mut() = http::StatusCode::PARTIAL_CONTENT;
    with_header(answer, "content-range", &format!("bytes {begin}-{}/{}", bytes.len() - 1, bytes.len()))
}

fn unknown_manifest() -> Answer {
    let mut answer = with_type(
        "application/json",
        r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{"Tag":"x"}}]}"#,
    );
    *answer.status_mut() = http::StatusCode::NOT_FOUND;
    answer
}

pub(crate) fn descriptor(media_type: &str, digest: &str, size: usize) -> serde_json::Value {
    serde_json::json!({ "mediaType": media_type, "digest": digest, "size": size })
}

/// Reads a whole layer.
async fn read(image: &RemoteImage, layer: &super::RemoteLayer) -> Result<Vec<u8>, RegistryError> {
    let mut reader = image.blob(layer, super::LayerSource::Mirrors, &super::ByteCount::new())?;
    let mut bytes = Vec::new();
    while let Some(chunk) = reader.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
