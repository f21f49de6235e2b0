//! The open ports of Gateways.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::listener::{ListenerAddress, Scheme};
use super::router::GatewayRouter;
use super::status::ServedPort;
use base::task::Tasks;
use object::{Key, Revision, SharedObject};
use reverse_proxy::certificates::{self, Certificates, Resolver};
use reverse_proxy::hosts::WildcardScope;
use reverse_proxy::{Port, ReverseProxy, serve};

/// Offset at which a port is served that only root may bind: 80 at 18080, 443 at 18443, as for Ingresses.
const MOVED_BY: u16 = 18_000;
/// Maximum number of open ports; each needs a file descriptor and a task.
const MAX_PORTS: usize = 256;

/// An open port.
pub(super) struct OpenPort {
    scheme: Scheme,
    tasks: Tasks,
    resolver: Option<Arc<Resolver>>,
    /// The current certificates: by hostname, with the versions of their Secrets.
    certificates: Vec<(String, Key, Option<Revision>)>,
    pub(super) router: Arc<GatewayRouter>,
    pub(super) address: SocketAddr,
    moved: Option<String>,
}

impl OpenPort {
    /// Opens a port that serves nothing yet; the error says why it cannot be bound.
    async fn open(proxy: &Arc<ReverseProxy>, at: ListenerAddress, scheme: Scheme) -> Result<Self, String> {
        let (listener, moved) = bind(at).await?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let resolver = match scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Resolver::new()?),
        };
        let tls = resolver.as_ref().map(Resolver::server_config).transpose()?.map(TlsAcceptor::from);
        let (tasks, router) = (proxy.port_tasks(), Arc::new(GatewayRouter::default()));
        let port = Port { proxy: proxy.clone(), router: router.clone() };
        tasks.spawn("gateway listener", serve::accept(listener, tls, port));
        Ok(Self { scheme, tasks, resolver, certificates: Vec::new(), router, address, moved })
    }

    /// Returns the port that is really open, and the reason if it was moved.
    pub(super) fn served(&self) -> ServedPort {
        ServedPort { port: self.address.port(), moved: self.moved.clone() }
    }

    /// Sets the certificates of hostnames (the empty one matches any other). Parsing keys takes long, so it is skipped
    /// if nothing changed.
    pub(super) fn set_certificates(
        &mut self,
        desired: Vec<(String, Key)>,
        secret: &dyn Fn(&Key) -> Option<SharedObject<Secret>>,
    ) {
        let Some(resolver) = &self.resolver else { return };
        let version = |key: &Key| secret(key).map(|secret| secret.revision());
        let desired: Vec<_> =
            desired.into_iter().map(|(host, key)| (host, key.clone(), version(&key))).collect();
        if desired == self.certificates {
            return;
        }
        let mut all = Certificates::new(WildcardScope::AnyLabels);
        for (host, key, _) in &desired {
            let certified = secret(key).and_then(|secret| certificates::certified(&secret).ok());
            if let Some(certified) = certified {
                all.add(host, certified);
            }
        }
        resolver.replace(all);
        self.certificates = desired;
    }

    async fn close(self) {
        // Connections outlive their port; nothing must be served on them any more.
        self.router.replace(super::router::ServingState::default());
        self.tasks.stop().await;
    }
}

async fn bind((ip, port): ListenerAddress) -> Result<(TcpListener, Option<String>), String> {
    let address = SocketAddr::new(ip, port);
    let error = match TcpListener::bind(address).await {
        Ok(listener) => return Ok((listener, None)),
        Err(error) => error,
    };
    let refused = format!("cannot listen on {address}: {error}");
    // A port that another program has is not moved: clients that connect to it would reach that program.
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Err(refused);
    }
    for instead in [port.saturating_add(MOVED_BY), 0] {
        if let Ok(listener) = TcpListener::bind(SocketAddr::new(ip, instead)).await {
            return Ok((listener, Some(refused)));
        }
    }
    Err(refused)
}

/// All open ports.
#[derive(Default)]
pub(super) struct OpenPorts {
    pub(super) open: BTreeMap<ListenerAddress, OpenPort>,
    /// Ports that cannot be bound, with the reason.
    pub(super) failed: BTreeMap<ListenerAddress, String>,
}

impl OpenPorts {
    /// Opens the desired ports and closes the others.
    pub(super) async fn sync_ports(
        &mut self,
        desired: &BTreeMap<ListenerAddress, Scheme>,
        proxy: &Arc<ReverseProxy>,
    ) {
        let is_desired = |at: &ListenerAddress, port: &OpenPort| desired.get(at) == Some(&port.scheme);
        let stale: Vec<ListenerAddress> =
            self.open.iter().filter(|(at, port)| !is_desired(at, port)).map(|(at, _)| *at).collect();
        for at in stale {
            if let Some(port) = self.open.remove(&at) {
                port.close().await;
            }
        }
        self.failed.clear();
        for (at, scheme) in desired {
            if self.open.contains_key(at) {
                continue;
            }
            let opened = if self.open.len() < MAX_PORTS {
                OpenPort::open(proxy, *at, *scheme).await
            } else {
                Err(format!("at most {MAX_PORTS} ports are served"))
            };
            match opened {
                Ok(port) => drop(self.open.insert(*at, port)),
                Err(why) => drop(self.failed.insert(*at, why)),
            }
        }
    }
}
