//! A token server for docker-registry's token authentication: gives signed tokens to one user.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use podium::base::clock::Clock;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

const ISSUER: &str = "test-token-server";
const SERVICE: &str = "test-registry";

/// A running token server; its thread ends with the test process.
pub(super) struct TokenServer {
    address: String,
    /// The certificate of the key that signs tokens, in PEM.
    certificate: String,
    scopes: Arc<Mutex<Vec<String>>>,
}

impl TokenServer {
    /// Starts a server that gives `user` with `password` every right that they ask for, and others the right to pull
    /// what is below `public/`.
    pub(super) fn start(user: &str, password: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new([ISSUER.to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let signer = Signer {
            key: EcdsaKeyPair::from_pkcs8(
                &ECDSA_P256_SHA256_FIXED_SIGNING,
                &key.serialize_der(),
                &SystemRandom::new(),
            )
            .unwrap(),
            certificate: STANDARD.encode(certificate.der()),
            basic: format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let scopes: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&scopes);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that goes away is no matter of the test.
                let _ = stream.and_then(|stream| signer.answer(&stream, &seen));
            }
        });
        Self { address, certificate: certificate.pem(), scopes }
    }

    /// The `auth` of a docker-registry's configuration; the certificate is written to this file.
    pub(super) fn settings(&self, certificate: &std::path::Path) -> Value {
        std::fs::write(certificate, &self.certificate).unwrap();
        let realm = format!("http://{}/token", self.address);
        json!({"token": {"realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": certificate}})
    }

    /// The scopes of the tokens that it gave.
    pub(super) fn scopes(&self) -> Vec<String> {
        self.scopes.lock().unwrap().clone()
    }
}

struct Signer {
    key: EcdsaKeyPair,
    certificate: String,
    /// The `Authorization` of the user.
    basic: String,
}

impl Signer {
    /// Answers one request, `GET /token?service=…&scope=repository:NAME:pull,push`.
    fn answer(&self, stream: &TcpStream, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let mut is_user = false;
        for line in lines {
            let line = line?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or_default();
            is_user |= name.eq_ignore_ascii_case("authorization") && value == self.basic;
        }
        let target = first.split(' ').nth(1).unwrap_or_default();
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let scope = query.split('&').find_map(|pair| pair.strip_prefix("scope=")).unwrap_or_default();
        let scope = percent_decode_str(scope).decode_utf8_lossy().into_owned();
        let access = match scope.split(':').collect::<Vec<_>>()[..] {
            ["repository", name, actions]
                if is_user || (name.starts_with("public/") && actions == "pull") =>
            {
                json!([{"type": "repository", "name": name, "actions": actions.split(',').collect::<Vec<_>>()}])
            }
            _ => json!([]),
        };
        seen.lock().unwrap().push(scope);
        let body = json!({"token": self.token(&access), "expires_in": 300}).to_string();
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
        let mut stream = stream;
        stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
    }

    fn token(&self, access: &Value) -> String {
        let now = Clock::machine().now().as_second();
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [self.certificate]});
        let claims = json!({"iss": ISSUER, "sub": "user", "aud": SERVICE, "iat": now, "nbf": now - 5,
            "exp": now + 300, "jti": format!("{now}"), "access": access});
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
