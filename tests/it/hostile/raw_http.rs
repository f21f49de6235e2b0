//! A connection to the API on which the test controls every byte.

use std::sync::Arc;

use podium::base::insecure_verifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::instance::{Instance, WAIT_TIMEOUT};

/// An encrypted connection that speaks HTTP/1.1.
pub(super) struct TlsConnection(TlsStream<TcpStream>);

/// The received text, and whether the server has closed.
#[derive(Debug)]
pub(super) struct RawResponses {
    pub(super) text: String,
    pub(super) closed: bool,
}

impl RawResponses {
    /// Status codes of all responses, in order.
    pub(super) fn statuses(&self) -> Vec<u16> {
        let after = self.text.split("HTTP/1.1 ").skip(1);
        after.filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
    }
}

/// The owner's credential.
pub(super) fn token(instance: &Instance) -> String {
    std::fs::read_to_string(instance.kubeconfig().with_file_name("token")).unwrap().trim().to_owned()
}

impl TlsConnection {
    pub(super) async fn open(instance: &Instance) -> Self {
        let address = instance.ready_line.split_whitespace().nth(1).unwrap();
        let address = address.strip_prefix("https://").unwrap().to_owned();
        let mut config = insecure_verifier::config().unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        Self(TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap())
    }

    /// Sends bytes; a server that has closed already takes none.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
        let _ = self.0.flush().await;
    }

    /// Reads this many responses, or until the server closes.
    pub(super) async fn answers(&mut self, count: Option<usize>) -> RawResponses {
        let mut answers = RawResponses { text: String::new(), closed: false };
        let mut chunk = vec![0; 16 << 10];
        while count.is_none_or(|count| answers.statuses().len() < count) && !answers.closed {
            let read = tokio::time::timeout(WAIT_TIMEOUT, self.0.read(&mut chunk)).await;
            match read.unwrap_or_else(|_| panic!("the server neither answers nor closes: {answers:?}")) {
                Ok(count) if count > 0 => answers.text.push_str(&String::from_utf8_lossy(&chunk[..count])),
                _ => answers.closed = true,
            }
        }
        answers
    }
}
