//! Uploads.

use std::io::Cursor;

use super::*;
use crate::registry::{ByteCount, PushImage};
use crate::store::{LayerBlob, OpenBlob};

/// A registry that stores what it gets.
#[derive(Default)]
struct Storage {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: BTreeMap<String, Vec<u8>>,
    upload: Vec<u8>,
}

/// Bodies of at most this size are accepted.
const ACCEPTED_BYTES: usize = 20 << 20;

fn answer(storage: &Mutex<Storage>, limit: usize, seen: &SeenRequest) -> Answer {
    let mut storage = storage.lock();
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let rest = path.strip_prefix("/v2/team/app/").unwrap();
    if seen.body.len() > limit {
        return status(413);
    }
    match (seen.method.as_str(), rest) {
        ("HEAD", rest) => {
            let digest = rest.strip_prefix("blobs/").unwrap();
            status(if storage.blobs.contains_key(digest) { 200 } else { 404 })
        }
        ("POST", "blobs/uploads/") => {
            storage.upload.clear();
            with_header(status(202), "location", "/v2/team/app/blobs/uploads/1?state=a%2Fb")
        }
        ("PATCH", "blobs/uploads/1") => {
            let begin = seen.content_range.as_deref().unwrap().split('-').next().unwrap();
            assert_eq!(begin, storage.upload.len().to_string());
            storage.upload.extend_from_slice(&seen.body);
            with_header(status(202), "location", "1?state=a%2Fb")
        }
        ("PUT", "blobs/uploads/1") => {
            let digest = query.strip_prefix("state=a%2Fb&digest=").unwrap().replace("%3A", ":");
            let content = [std::mem::take(&mut storage.upload), seen.body.clone()].concat();
            assert_eq!(digest_of(&content), digest);
            storage.blobs.insert(digest, content);
            status(201)
        }
        ("PUT", rest) => {
            storage.manifests.insert(rest.strip_prefix("manifests/").unwrap().into(), seen.body.clone());
            status(201)
        }
        other => panic!("{other:?}"),
    }
}

fn layer(content: Vec<u8>, size: usize) -> LayerBlob {
    let digest = digest_of(&content);
    let content = bytes::Bytes::from(content);
    let open: OpenBlob = Arc::new(move || Ok(Box::new(Cursor::new(content.clone()))));
    LayerBlob { digest, size: size as u64, media_type: LAYER.into(), open }
}

async fn push(server: &Server, image: &PushImage) -> Result<(String, u64), RegistryError> {
    let count = ByteCount::new();
    let digest = server.open().await.push(image, &count).await?;
    Ok((digest, count.get()))
}

/// IMG-7: the missing blobs are uploaded, then the manifest; also in chunks where the server demands it.
#[tokio::test]
async fn an_image_is_uploaded() {
    let config =
        serde_json::json!({ "rootfs": { "diff_ids": [digest_of(b"a"), digest_of(b"b")] } }).to_string();
    let content: Vec<u8> = (0..2_500_000_u32).flat_map(u32::to_le_bytes).collect();
    for limit in [ACCEPTED_BYTES, 9 << 20] {
        let storage = Arc::new(Mutex::new(Storage::default()));
        let known = content.clone();
        storage.lock().blobs.insert(digest_of(b"known"), b"known".to_vec());
        let shared = storage.clone();
        let server = Server::start(move |seen| answer(&shared, limit, seen)).await;
        let layers = vec![layer(known.clone(), known.len()), layer(b"known".to_vec(), 5)];
        let image = PushImage::new(config.clone().into_bytes(), layers);
        let (digest, count) = push(&server, &image).await.unwrap();
        let storage = storage.lock();
        assert_eq!(digest, digest_of(&storage.manifests["latest"]));
        assert_eq!(count, image.size());
        assert!(storage.blobs[&digest_of(&content)] == content);
        assert!(storage.blobs.contains_key(&digest_of(config.as_bytes())));
        let requests = server.requests();
        assert_eq!(
            requests.iter().filter(|request| request.starts_with("PATCH")).count(),
            usize::from(limit < ACCEPTED_BYTES) * 2
        );
        assert!(requests.last().unwrap().starts_with("PUT /v2/team/app/manifests/"));
    }
}

/// IMG-7: failures of the registry and of the content give their reason.
#[tokio::test]
async fn failed_uploads_give_their_reason() {
    type Reply = fn(&SeenRequest) -> Answer;
    let location = |seen: &SeenRequest| match seen.method.as_str() {
        "POST" => with_header(status(202), "location", "/up"),
        _ => status(404),
    };
    let table: &[(&str, Reply, &str)] = &[
        ("read-only", |seen| status(if seen.method == "HEAD" { 404 } else { 405 }), "405 Method Not Allowed"),
        ("no Location", |seen| status(if seen.method == "HEAD" { 404 } else { 202 }), "has no Location"),
        (
            "a strange Location",
            |seen| match seen.method.as_str() {
                "POST" => with_header(status(202), "location", "file:///x"),
                _ => status(404),
            },
            "has the scheme \"file\"",
        ),
        ("a lost upload", location, "the upload of blob"),
        ("denied", |_| with_header(status(401), "www-authenticate", "Basic realm=r"), "push access denied"),
        (
            "even chunks are too large",
            |seen| match seen.method.as_str() {
                "POST" => with_header(status(202), "location", "/up"),
                "HEAD" => status(404),
                _ => status(413),
            },
            "the registry refuses even chunks of it",
        ),
    ];
    for (name, reply, expect) in table {
        let server = Server::start(*reply).await;
        let image = PushImage::new(b"{}".to_vec(), vec![layer(b"abc".to_vec(), 3)]);
        let error = push(&server, &image).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{name}: {error}");
    }
    let server = Server::start(location).await;
    let image = PushImage::new(b"{}".to_vec(), vec![layer(b"abc".to_vec(), 300)]);
    let error = push(&server, &image).await.unwrap_err().to_string();
    assert!(error.contains("the content is shorter than its size"), "{error}");

    let reference = format!("{}@{}", server.reference(), digest_of(b"other"));
    let error =
        open(&reference, "{}", &Keyring::new()).await.push(&image, &ByteCount::new()).await.unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
}

/// IMG-7: a manifest is pushed as it is, and only with its own blobs.
#[test]
fn a_manifest_is_pushed_only_with_its_own_blobs() {
    let config = b"{}".to_vec();
    let layers = || vec![layer(b"abc".to_vec(), 3)];
    let manifest = PushImage::new(config.clone(), layers()).manifest().to_vec();
    let with = |config: &[u8], layers| {
        PushImage::with_manifest(manifest.clone(), MANIFEST.into(), config.to_vec(), layers)
    };
    assert_eq!(with(&config, layers()).unwrap().digest(), digest_of(&manifest));
    assert!(with(b"{ }", layers()).unwrap_err().to_string().contains("another configuration"));
    assert!(with(&config, vec![]).unwrap_err().to_string().contains("other layers"));
}
