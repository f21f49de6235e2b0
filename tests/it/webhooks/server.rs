//! A webhook for tests: an HTTPS server on a thread of its own that records its requests and gives the responses that a
//! test defines.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// A response of the webhook.
pub(crate) enum Reply {
    /// A response with status 200.
    Json(Value),
    Text(u16, String),
    /// No response, until the server is released.
    Hangs,
}

/// Allows the request of a review.
pub(crate) fn allowed(review: &Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"],
        "response": {"uid": review["request"]["uid"], "allowed": true}})
}

/// Allows it with a JSON patch.
pub(crate) fn patched(review: &Value, patch: &Value) -> Value {
    let mut answer = allowed(review);
    answer["response"]["patchType"] = "JSONPatch".into();
    answer["response"]["patch"] = STANDARD.encode(patch.to_string()).into();
    answer
}

/// Denies it, with this status.
pub(crate) fn denied(review: &Value, status: &Value) -> Value {
    let mut answer = allowed(review);
    answer["response"]["allowed"] = false.into();
    answer["response"]["status"] = status.clone();
    answer
}

type Handler = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// A running webhook server; it stops when it is dropped.
pub(crate) struct Webhook {
    pub(crate) address: SocketAddr,
    /// The authority that has signed its certificate, in PEM.
    pub(crate) authority: String,
    seen: Arc<Mutex<Vec<Value>>>,
    let_go: CancellationToken,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Webhook {
    /// Starts a server at 127.0.0.1, with a certificate for `localhost`.
    pub(crate) fn start(handler: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), "localhost", handler)
    }

    /// Starts a server at an address, with a certificate for the address and this name.
    pub(crate) fn start_at(
        ip: IpAddr,
        name: &str,
        handler: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (authority, config) = server_config(ip, name, None);
        let listener = std::net::TcpListener::bind((ip, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (let_go, stop) = (CancellationToken::new(), CancellationToken::new());
        let state = (seen.clone(), let_go.clone(), Arc::new(handler) as Arc<Handler>);
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener).unwrap() });
            runtime.block_on(stopped.run_until_cancelled(serve(listener, config, state)));
        });
        Self { address, authority, seen, let_go, stop, thread: Some(thread) }
    }

    /// Returns its `clientConfig` for a path.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": STANDARD.encode(&self.authority)})
    }

    /// Returns the recorded admission requests.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the recorded admission requests, and clears them.
    pub(crate) fn take_seen(&self) -> Vec<Value> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Answers the pending requests.
    pub(crate) fn release(&self) {
        self.let_go.cancel();
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type State = (Arc<Mutex<Vec<Value>>>, CancellationToken, Arc<Handler>);

async fn serve(listener: tokio::net::TcpListener, config: Arc<rustls::ServerConfig>, state: State) {
    let acceptor = TlsAcceptor::from(config);
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), state.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, state.clone()));
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: http::Request<Incoming>,
    (seen, let_go, handler): State,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_string();
    let body = request
        .into_body()
        .collect()
        .await
        .map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
    let review: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    seen.lock().unwrap().push(review["request"].clone());
    let (code, text) = match handler(&path, &review) {
        Reply::Json(value) => (200, value.to_string()),
        Reply::Text(code, text) => (code, text),
        Reply::Hangs => {
            let_go.cancelled().await;
            (200, allowed(&review).to_string())
        }
    };
    let answer = http::Response::builder().status(code).header("location", "https://localhost:1/");
    Ok(answer.body(Full::new(text.into())).unwrap())
}

/// An authority, and a server's configuration with a certificate that it has signed; where an authority is given (in
/// PEM), clients must have a certificate that this one has signed.
pub(crate) fn server_config(
    ip: IpAddr,
    name: &str,
    clients: Option<&str>,
) -> (String, Arc<rustls::ServerConfig>) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::from_params(&authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
    params.subject_alt_names.push(SanType::IpAddress(ip));
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = match clients {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap()
        }
    };
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (pem, Arc::new(config))
}
