//! TLS with the cluster's own certificate authority (API-1).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rustix::net::sockopt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::Server;
use super::client_certificate::AnyCertificate;
use super::connection::{Peer, Protocol, serve_counted};
use apimachinery::certificates::{CertificateAuthority, TlsError, authority_params, mark_leaf};
use base::task::Tasks;
use object::ClusterDomain;

/// Returns the TLS configuration of a server at these addresses, which clients that trust the authority
/// accept. The certificate includes the API's names in a cluster of this domain.
pub fn tls_config(
    authority: &CertificateAuthority,
    addresses: &[IpAddr],
    domain: &ClusterDomain,
) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let (chain, key) = server_certificate(authority, addresses, domain)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(AnyCertificate::new())
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the server's certificate with that of the authority, and its key.
fn server_certificate(
    authority: &CertificateAuthority,
    addresses: &[IpAddr],
    domain: &ClusterDomain,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let params = authority_params();
    let issuer = Issuer::from_params(&params, KeyPair::from_pem(&authority.key_pem)?);
    let key = KeyPair::generate()?;
    let names = std::iter::once("localhost".to_owned()).chain(domain.api_names());
    let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
    params.subject_alt_names.extend(addresses.iter().map(|a| SanType::IpAddress(*a)));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.distinguished_name.push(DnType::CommonName, "podium-apiserver");
    mark_leaf(&mut params);
    let certificate = params.signed_by(&key, &issuer)?;
    let chain: Vec<CertificateDer<'static>> = vec![
        certificate.der().clone(),
        CertificateDer::from_pem_slice(authority.certificate_pem.as_bytes())
            .map_err(|e| TlsError::Pem(e.to_string()))?,
    ];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())
        .map_err(|e| TlsError::Pem(e.to_string()))?;
    Ok((chain, key))
}

/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves TLS connections in tasks of `tasks` until they are stopped.
pub fn serve_tls(server: Server, listener: TcpListener, config: Arc<rustls::ServerConfig>, tasks: &Tasks) {
    let acceptor = TlsAcceptor::from(config);
    let connections = tasks.clone();
    tasks.spawn("api-listener", async move {
        while let Some(permit) = server.load().connection().await {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Usually the process is out of file descriptors: other connections must end before a
                    // retry helps.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            prepare(&stream);
            let (acceptor, server) = (acceptor.clone(), server.clone());
            connections.spawn("api-connection", async move {
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    let protocol = match stream.get_ref().1.alpn_protocol() {
                        Some(b"h2") => Protocol::Http2,
                        _ => Protocol::Http1,
                    };
                    let chain = stream.get_ref().1.peer_certificates();
                    let client = chain.and_then(|chain| server.credentials().certified(server.api(), chain));
                    let peer = Peer { client, address: Some(from.ip()) };
                    serve_counted(server, TokioIo::new(stream), protocol, Some(permit), peer).await;
                }
            });
        }
    });
}

/// Sets TCP options: small writes are sent at once, and keep-alive probes at Kubernetes' intervals detect
/// dead peers. A connection is served even if an option cannot be set.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_mins(3));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: Python 3.13 refused the certificate (`Missing Authority Key Identifier`).
    #[test]
    fn the_servers_certificate_names_its_authoritys_key_api_1() {
        const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x23];
        let authority = CertificateAuthority::generate().unwrap();
        let (chain, _) = server_certificate(&authority, &[], &ClusterDomain::default()).unwrap();
        assert!(
            chain[0].windows(AUTHORITY_KEY_IDENTIFIER.len()).any(|part| part == AUTHORITY_KEY_IDENTIFIER)
        );
    }
}
