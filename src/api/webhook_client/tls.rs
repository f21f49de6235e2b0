//! TLS towards webhooks and aggregated API servers: a client's trust joined with its certificate.

use rustls::ClientConfig;

use apimachinery::certificates::ClientIdentity;
pub(crate) use base::server_trust::Trust;
use base::server_trust::client_trusting;

/// Returns the configuration of a client with this trust, this certificate, and these protocols (ALPN),
/// preferred first.
pub(crate) fn config(
    trust: Trust<'_>,
    identity: Option<&ClientIdentity>,
    protocols: &[&[u8]],
) -> Result<ClientConfig, String> {
    let builder = client_trusting(trust)?;
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(vec![identity.certificate.clone()], identity.key.clone_key())
            .map_err(|error| error.to_string())?,
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}
