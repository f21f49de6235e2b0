//! The server of an APIService: its connection, and its discovery.

use std::sync::{Arc, OnceLock};

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use parking_lot::RwLock;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::GroupVersion;
use super::discovery::DiscoveryResult;
use crate::Api;
use crate::webhook_client::{Peer, ServiceTarget, Trust, config, connect, peer};
use base::dial::Dialer;
use base::tls_client::TlsClient;

/// The default port of a service.
const DEFAULT_PORT: i32 = 443;

/// An extension API server.
pub struct RemoteServer {
    of: GroupVersion,
    service: ServiceTarget,
    bundle: Vec<u8>,
    skips_tls_verify: bool,
    /// Created for the first connection; again for the next one if that fails.
    tls: OnceLock<TlsConnector>,
    discovered: RwLock<Arc<DiscoveryResult>>,
}

impl RemoteServer {
    /// Returns the server that a spec names; `None` if the group is served here.
    pub(super) fn of(of: &GroupVersion, spec: &APIServiceSpec) -> Option<Self> {
        let service = spec.service.as_ref()?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let service = ServiceTarget {
            namespace: text(&service.namespace),
            name: text(&service.name),
            path: None,
            port: Some(service.port.unwrap_or(DEFAULT_PORT)),
        };
        Some(Self {
            of: of.clone(),
            service,
            bundle: spec.ca_bundle.as_ref().map(|bundle| bundle.0.clone()).unwrap_or_default(),
            skips_tls_verify: spec.insecure_skip_tls_verify == Some(true),
            tls: OnceLock::new(),
            discovered: RwLock::default(),
        })
    }

    /// Returns the host and port to connect to at present; the error says why the service has none.
    pub fn peer(&self, api: &Api) -> Result<Peer, String> {
        peer(api, &self.service)
    }

    /// Returns a dialer that trusts the authorities of the spec, and presents the front proxy's certificate.
    pub fn dialer(&self, api: &Api) -> Result<ServerDialer, String> {
        let tls = if let Some(tls) = self.tls.get() {
            tls.clone()
        } else {
            let made = self.connector(api)?;
            self.tls.get_or_init(|| made).clone()
        };
        let name = format!("{}.{}.svc", self.service.name, self.service.namespace);
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        Ok(ServerDialer { from: api.dialer(), name, tls })
    }

    fn connector(&self, api: &Api) -> Result<TlsConnector, String> {
        let front_proxy = api.front_proxy().ok_or("the front proxy has no certificate")?;
        let trust = if self.skips_tls_verify { Trust::SkipVerify } else { Trust::Bundle(&self.bundle) };
        // HTTP/1.1 only: it can be upgraded, and a client that does not read cannot stall the others.
        let config = config(trust, Some(front_proxy.identity()), &[b"http/1.1"])?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// Returns the resources that the last probe found.
    pub fn discovery(&self) -> Arc<DiscoveryResult> {
        self.discovered.read().clone()
    }

    /// Sets the result of a probe; `None` marks the earlier discovery as stale.
    pub(super) fn set_discovered(&self, found: Option<&DiscoveryResult>) {
        let mut discovered = self.discovered.write();
        let next = match found {
            // An unreadable discovery document (`is_current` is false) is treated like no response.
            Some(DiscoveryResult { is_current: false, .. }) | None => discovered.as_stale(),
            Some(found) => found.clone(),
        };
        if **discovered != next {
            *discovered = Arc::new(next);
        }
    }

    /// Returns the path prefix of its group and version.
    pub fn path(&self) -> String {
        self.of.path()
    }
}

/// Opens connections to a server.
#[derive(Clone)]
pub struct ServerDialer {
    from: Dialer,
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl ServerDialer {
    /// Connects to this peer over TLS.
    pub async fn dial(self, peer: Peer) -> Result<TlsClient<TcpStream>, String> {
        connect(&*self.from, &peer, self.name, &self.tls).await.map_err(|error| error.to_string())
    }
}
