//! Authentication: challenges, tokens, and several credentials.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// A keyring with entries `[key, user, password]`.
fn keyring(entries: &[[String; 3]]) -> Keyring {
    let auths: serde_json::Map<String, serde_json::Value> = entries
        .iter()
        .map(|[key, username, password]| {
            (key.clone(), serde_json::json!({ "username": username, "password": password }))
        })
        .collect();
    let mut keyring = Keyring::new();
    keyring.add_docker_config_json(serde_json::json!({ "auths": auths }).to_string().as_bytes()).unwrap();
    keyring
}

fn entry(key: &impl ToString, user: &str, password: &str) -> [String; 3] {
    [key.to_string(), user.to_owned(), password.to_owned()]
}

fn challenge(text: &str) -> Answer {
    with_header(status(401), "www-authenticate", text)
}

/// IMG-6: Basic authentication; the matching credentials are tried in turn, the most specific first.
#[tokio::test]
async fn matching_credentials_are_tried_in_turn() {
    let repository = Repository::new();
    let good = basic("u", "right");
    let server = Server::start(move |seen| {
        if seen.authorization.as_ref() == Some(&good) {
            repository.answer(seen)
        } else {
            challenge("Basic realm=r")
        }
    })
    .await;
    let at = server.address;
    let table = [
        (vec![], "authorization failed: no basic auth credentials"),
        (vec![entry(&"other.io", "u", "right")], "no basic auth credentials"),
        (vec![entry(&at, "u", "wrong")], "authorization failed: 401 Unauthorized"),
        (vec![entry(&at, "u", "right")], ""),
        (vec![entry(&at, "u", "wrong"), entry(&format!("{at}/team"), "u", "right")], ""),
        (vec![entry(&at, "u", "right"), entry(&format!("{at}/team"), "u", "wrong")], ""),
    ];
    for (entries, expect) in table {
        let image = open(&server.reference(), "{}", &keyring(&entries)).await;
        match image.manifest().await {
            Ok(manifest) => {
                assert_eq!(expect, "");
                read(&image, &manifest.layers[0]).await.unwrap();
            }
            Err(error) => {
                let text = error.to_string();
                assert!(!expect.is_empty() && text.contains(expect), "{entries:?}: {text}");
                assert!(
                    text.contains(
                        "pull access denied, repository does not exist or may require authorization"
                    )
                );
                assert!(error.is_denied() && error.hint().unwrap().contains("imagePullSecrets"));
                assert!(!text.contains("wrong"), "{text}");
            }
        }
    }
}

/// IMG-6: a token is fetched for the repository, used for all of it, and renewed once when it has expired.
#[tokio::test]
async fn tokens_are_fetched_cached_and_renewed() {
    let issued = Arc::new(AtomicUsize::new(0));
    let number = issued.clone();
    let tokens = Server::start(move |_| {
        let token = number.fetch_add(1, Ordering::Relaxed) + 1;
        with_type("application/json", format!(r#"{{"access_token":"t{token}","expires_in":300}}"#))
    })
    .await;
    let repository = Repository::new();
    let realm = tokens.address;
    let newest = issued.clone();
    let server = Server::start(move |seen| {
        let expect = format!("Bearer t{}", newest.load(Ordering::Relaxed));
        // The configuration is refused with the first token, as if it had expired.
        let is_expired = seen.path.contains("/blobs/") && expect == "Bearer t1";
        if seen.authorization.as_ref() == Some(&expect) && !is_expired {
            repository.answer(seen)
        } else {
            challenge(&format!(r#"Bearer realm="http://{realm}/token?a=b",service="s""#))
        }
    })
    .await;
    let client = client("{}");
    let reference = ImageReference::parse(&server.reference()).unwrap();
    let user = keyring(&[entry(&server.address, "u", "pw")]);
    for _ in 0..2 {
        let image = client.open(&reference, &user).await.unwrap();
        let manifest = image.manifest().await.unwrap();
        read(&image, &manifest.layers[0]).await.unwrap();
    }
    let expect = "GET /token?a=b&service=s&scope=repository%3Ateam%2Fapp%3Apull&account=u";
    assert_eq!(tokens.requests(), [expect, expect]);
    assert!(tokens.log.lock().iter().all(|seen| seen.authorization == Some(basic("u", "pw"))));
}

/// IMG-6: an identity token is exchanged by OAuth2, and a registry token is used as it is.
#[tokio::test]
async fn identity_and_registry_tokens_are_used() {
    let tokens = Server::start(|seen| {
        assert_eq!((seen.method.as_str(), seen.authorization.as_ref()), ("POST", None));
        with_type("application/json", r#"{"token":"given"}"#)
    })
    .await;
    let realm = tokens.address;
    let repository = Repository::new();
    let server = Server::start(move |seen| match seen.authorization.as_deref() {
        Some("Bearer given" | "Bearer own") => repository.answer(seen),
        _ => challenge(&format!(r#"Bearer realm="http://{realm}/t",scope="repository:team/app:pull""#)),
    })
    .await;
    for field in [r#""identitytoken":"a&b""#, r#""registrytoken":"own""#] {
        let mut keyring = Keyring::new();
        let secret = format!(r#"{{"{}":{{{field}}}}}"#, server.address);
        keyring.add_docker_cfg(secret.as_bytes()).unwrap();
        open(&server.reference(), "{}", &keyring).await.manifest().await.unwrap();
    }
    let bodies: Vec<String> =
        tokens.log.lock().iter().map(|seen| String::from_utf8(seen.body.clone()).unwrap()).collect();
    let expect = "grant_type=refresh_token&client_id=podium&service=&scope=repository%3Ateam%2Fapp%3Apull&refresh_token=a%26b";
    assert_eq!(bodies, [expect]);
}

/// IMG-6, SEC-2: bad token servers give their reason, and no message has a password or token.
#[tokio::test]
async fn bad_token_servers_give_their_reason() {
    type Reply = fn(&SeenRequest) -> Answer;
    let table: &[(&str, Reply, &str)] = &[
        ("not JSON", |_| with_type("a/b", "sesame"), "the answer is not valid JSON at line 1"),
        (
            "a wrong type",
            |_| with_type("a/b", r#"{"token":{"sesame":1}}"#),
            "the answer is not valid JSON at line 1",
        ),
        ("no token", |_| with_type("a/b", r#"{"token":""}"#), "the answer has no token"),
        (
            "a large answer",
            |_| with_type("a/b", streamed(&vec![b' '; 1 << 20], false)),
            "more than 131072 bytes",
        ),
        (
            "a token of two lines",
            |_| with_type("a/b", r#"{"token":"a\nsesame"}"#),
            "characters that HTTP does not",
        ),
        ("a failure", |_| status(500), "500 Internal Server Error"),
        ("a refusal", |_| status(401), "refused a token: 401 Unauthorized"),
        ("not there", |_| status(404), "failed to fetch a token from \"http://127.0.0.1"),
        ("a circle", |seen| with_header(status(302), "location", &seen.path), "stopped after 10 redirects"),
        ("a token that is refused", |_| with_type("a/b", r#"{"token":"sesame"}"#), "pull access denied"),
    ];
    for (name, reply, expect) in table {
        let tokens = Server::start(*reply).await;
        let realm = tokens.address;
        let server = Server::start(move |_| challenge(&format!("Bearer realm=\"http://{realm}/t\""))).await;
        let user = keyring(&[entry(&server.address, "u", "sesame")]);
        let image = open(&server.reference(), "{}", &user).await;
        let text = image.manifest().await.unwrap_err().to_string();
        assert!(text.contains(expect), "{name}: {text}");
        assert!(!format!("{text}{user:?}{image:?}").contains("sesame"), "{name}: {text}");
    }
    for (realm, expect) in [
        ("ftp://a/b", "the realm is not an HTTP URL"),
        ("", "the challenge's realm is not a URL"),
        ("http://169.254.169.254/t", "link-local"),
    ] {
        let server = Server::start(move |_| challenge(&format!("Bearer realm=\"{realm}\""))).await;
        let text = server.open().await.manifest().await.unwrap_err().to_string();
        assert!(text.contains(expect), "{realm}: {text}");
    }
}

/// IMG-6: credentials go only to the origin that demands them: not to mirrors, and not along redirects.
#[tokio::test]
async fn credentials_stay_with_their_registry() {
    let storage = Server::start(|seen| match seen.before {
        0 => challenge("Basic realm=r"),
        _ => status(404),
    })
    .await;
    let target = storage.address;
    let server = Server::start(move |seen| match seen.authorization {
        None => challenge("Basic realm=r"),
        Some(_) => with_header(status(302), "location", &format!("http://{target}/x")),
    })
    .await;
    let user = keyring(&[entry(&server.address, "u", "pw"), entry(&format!("{target}/v2"), "u", "pw")]);
    let text = open(&server.reference(), "{}", &user).await.manifest().await.unwrap_err().to_string();
    assert!(text.contains("401 Unauthorized"), "{text}");

    let config = format!(r#"{{"hosts":{{"{}":{{"mirrors":["http://{target}"]}}}}}}"#, server.address);
    let user = keyring(&[entry(&server.address, "u", "pw")]);
    open(&server.reference(), &config, &user).await.manifest().await.unwrap_err();
    assert!(storage.log.lock().iter().all(|seen| seen.authorization.is_none()));
    assert!(storage.requests().len() >= 2);
}
