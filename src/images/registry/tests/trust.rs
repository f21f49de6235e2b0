//! TLS: authorities of the settings, and registries that are not trusted.

use rcgen::{CertificateParams, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;

/// A self-signed certificate for a name: its PEM, and a server's side of TLS.
fn certificate(name: &str) -> (String, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    (certificate.pem(), TlsAcceptor::from(Arc::new(config)))
}

/// IMG-4: `ca` and `insecure` decide which certificates are trusted; errors name the reason, and the hint the setting.
#[tokio::test]
async fn trust_is_that_of_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    let (own, tls) = certificate("127.0.0.1");
    let (other, _) = certificate("127.0.0.1");
    let (misnamed, misnamed_tls) = certificate("registry.example");
    let files = [
        ("own", own.as_str()),
        ("other", &other),
        ("misnamed", &misnamed),
        ("text", "no certificate"),
        ("empty", ""),
    ];
    for (name, content) in files {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let repository = Repository::new();
    let content = repository.clone();
    let server = Server::start_with(Some(tls), move |seen| repository.answer(seen)).await;
    let misnamed = Server::start_with(Some(misnamed_tls), move |seen| content.answer(seen)).await;
    let ca = |name: &str| format!(r#""ca":"{}""#, directory.path().join(name).display());
    let table = [
        (&server, String::new(), ""),
        (&server, ca("own"), ""),
        (
            &server,
            ca("other"),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        ),
        (&server, format!(r#"{},"insecure":true"#, ca("other")), ""),
        (&server, ca("text"), "ca: the file contains no certificate in PEM"),
        (&server, ca("empty"), "ca: the file contains no certificate in PEM"),
        (&server, ca("absent"), "absent: No such file"),
        (&misnamed, ca("misnamed"), "certificate is valid for registry.example, not 127.0.0.1"),
    ];
    for (server, settings, expect) in table {
        let config = format!(r#"{{"hosts":{{"{}":{{{settings}}}}}}}"#, server.address);
        match open(&server.reference(), &config, &Keyring::new()).await.manifest().await {
            Ok(_) => assert_eq!(expect, "", "{settings}"),
            Err(error) => {
                let text = error.to_string();
                assert!(!expect.is_empty() && text.contains(expect), "{settings}: {text}");
                let advises = error.hint().is_some_and(|hint| hint.contains("registry.hosts.\"127.0.0.1:"));
                assert_eq!(advises, expect.contains("x509") || expect.contains("is valid for"), "{settings}");
            }
        }
    }
}

/// IMG-4: a registry that speaks plain HTTP where TLS is required gives Go's words and the setting that permits it.
#[tokio::test]
async fn plain_http_needs_a_setting() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca");
    std::fs::write(&file, certificate("127.0.0.1").0).unwrap();
    let server = Server::start(|_| status(200)).await;
    let config = format!(r#"{{"hosts":{{"{}":{{"ca":"{}"}}}}}}"#, server.address, file.display());
    let error = open(&server.reference(), &config, &Keyring::new()).await.manifest().await.unwrap_err();
    assert!(error.to_string().ends_with("http: server gave HTTP response to HTTPS client"), "{error}");
    assert!(error.hint().unwrap().contains("insecure: true"));
}

/// IMG-4: one handshake that fails decides that a registry of this machine speaks plain HTTP.
#[tokio::test]
async fn plain_http_is_tried_after_one_failed_handshake() {
    let repository = Repository::new();
    let server = Server::start(move |seen| repository.answer(seen)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = listener.local_addr().unwrap();
    let handshakes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (seen, behind) = (handshakes.clone(), server.address);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut first = [0];
            let _ = stream.peek(&mut first).await;
            if first == [0x16] {
                // The connection closes within the handshake.
                seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                continue;
            }
            tokio::spawn(async move {
                let mut inner = tokio::net::TcpStream::connect(behind).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut inner).await;
            });
        }
    });
    let image = open(&format!("{front}/team/app"), "{}", &Keyring::new()).await;
    let manifest = image.manifest().await.unwrap();
    read(&image, &manifest.layers[0]).await.unwrap();
    assert_eq!(handshakes.load(std::sync::atomic::Ordering::SeqCst), 1);
}
