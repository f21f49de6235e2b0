//! Layers: lost connections, stalls, and content that is not what it should be.

use super::*;
use crate::registry::{ByteCount, LayerSource};

/// A registry whose layer is answered by a function of the content and the request.
async fn server(
    layer: impl Fn(&[u8], &SeenRequest) -> Answer + Send + Sync + 'static,
) -> (Server, Repository) {
    let repository = Repository::new();
    let (content, digest) = (repository.clone(), digest_of(&repository.layer));
    let server = Server::start(move |seen| {
        if seen.path.contains(&digest) { layer(&content.layer, seen) } else { content.answer(seen) }
    })
    .await;
    (server, repository)
}

/// IMG-5: a dropped connection is continued at its offset, also by a server that ignores ranges, and bytes count once.
#[tokio::test]
async fn a_dropped_connection_is_continued() {
    type Layer = fn(&[u8], &SeenRequest) -> Answer;
    let drops_twice: Layer = |layer, seen| {
        let mut answer = partial(layer, seen);
        if seen.before < 2 {
            let begin = range_begin(seen);
            *answer.body_mut() = streamed(&layer[begin..begin + 100_000], true);
        }
        answer
    };
    let ignores_ranges: Layer = |layer, seen| match seen.before {
        0 => with_type("application/octet-stream", streamed(&layer[..100_000], true)),
        _ => with_type("application/octet-stream", layer.to_vec()),
    };
    let closes_early: Layer = |layer, seen| match seen.before {
        0 => with_type("application/octet-stream", streamed(&layer[..100_000], false)),
        _ => partial(layer, seen),
    };
    for layer in [drops_twice, ignores_ranges, closes_early] {
        let (server, repository) = server(layer).await;
        let image = server.open().await;
        let manifest = image.manifest().await.unwrap();
        let count = ByteCount::new();
        let mut reader = image.blob(&manifest.layers[0], LayerSource::Mirrors, &count).unwrap();
        let mut bytes = Vec::new();
        while let Some(chunk) = reader.chunk().await.unwrap() {
            bytes.extend_from_slice(&chunk);
        }
        assert!(bytes == repository.layer);
        assert_eq!(count.get(), repository.layer.len() as u64);
        let ranges: Vec<Option<String>> = server.log.lock().iter().map(|seen| seen.range.clone()).collect();
        assert!(ranges.last().unwrap().is_some(), "{ranges:?}");
    }
}

/// IMG-5, SEC-2: content that is not that of its descriptor is an error.
#[tokio::test]
async fn bad_content_gives_its_reason() {
    type Layer = fn(&[u8], &SeenRequest) -> Answer;
    let table: &[(&str, Layer, &str)] = &[
        (
            "other content",
            |layer, _| with_type("application/octet-stream", vec![7; layer.len()]),
            "is damaged: its digest is sha256:",
        ),
        (
            "more than stated",
            |layer, _| with_type("application/octet-stream", [layer, b"x"].concat()),
            "it has more than the 800000 bytes of its descriptor",
        ),
        (
            "more, and no length",
            |layer, _| with_type("application/octet-stream", streamed(&[layer, b"x"].concat(), false)),
            "it has more than the 800000 bytes of its descriptor",
        ),
        (
            "less",
            |layer, _| with_type("application/octet-stream", layer[1..].to_vec()),
            "it has 799999 bytes, but its descriptor says 800000",
        ),
        ("a page", |_, _| with_type("text/html", "<html>"), "is an HTML page and not the layer"),
        ("nothing", |_, _| status(404), ": not found"),
        (
            "an end at once",
            |_, _| with_type("a/b", streamed(b"", false)),
            "lost at byte 0 of 800000, 5 times",
        ),
        (
            "a byte each time",
            |layer, seen| {
                let mut answer = partial(layer, seen);
                *answer.body_mut() = streamed(&layer[seen.before..=seen.before], true);
                answer
            },
            "lost at byte 5 of 800000, 5 times",
        ),
        (
            "another range",
            |layer, seen| match seen.before {
                0 => with_type("a/b", streamed(&layer[..1000], true)),
                _ => {
                    partial(layer, &SeenRequest { range: Some("bytes=5-".into()), ..SeenRequest::default() })
                }
            },
            "the answer does not begin at byte 1000",
        ),
        (
            "silence",
            |layer, _| {
                let begin = futures::stream::iter([Ok::<_, std::io::Error>(layer[..1000].to_vec())]);
                let silence = futures::StreamExt::chain(begin, futures::stream::pending());
                with_type("a/b", Body::from_stream(silence))
            },
            "i/o timeout: no data for 0.4 s",
        ),
    ];
    for (name, layer, expect) in table {
        let (server, _) = server(*layer).await;
        let image = server.open().await;
        let manifest = image.manifest().await.unwrap();
        let error = read(&image, &manifest.layers[0]).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{name}: {error}");
    }
}

/// IMG-5: a layer that a mirror loses is continued at the registry.
#[tokio::test]
async fn a_layer_that_a_mirror_loses_is_continued_at_the_registry() {
    let (mirror, repository) = server(|layer, seen| match seen.before {
        0 => with_type("a/b", streamed(&layer[..300_000], true)),
        _ => status(500),
    })
    .await;
    let content = repository.clone();
    let registry = Server::start(move |seen| content.answer(seen)).await;
    let config =
        format!(r#"{{"hosts":{{"{}":{{"mirrors":["http://{}"]}}}}}}"#, registry.address, mirror.address);
    let image = open(&registry.reference(), &config, &Keyring::new()).await;
    let manifest = image.manifest().await.unwrap();
    assert_eq!(manifest.origin, format!("http://{}", mirror.address));
    assert!(read(&image, &manifest.layers[0]).await.unwrap() == repository.layer);
    let last = registry.log.lock().last().cloned().unwrap();
    assert!(last.path.contains("/blobs/") && range_begin(&last) > 0, "{last:?}");
}

/// IMG-5, SEC-2: the URLs of foreign layers are not followed.
#[tokio::test]
async fn urls_of_foreign_layers_are_not_followed() {
    let foreign = Server::start(|_| status(200)).await;
    let mut repository = Repository::new();
    let mut manifest: serde_json::Value = serde_json::from_slice(&repository.manifests["latest"].1).unwrap();
    let missing =
        descriptor("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", &digest_of(b"x"), 1);
    manifest["layers"][0] = missing;
    manifest["layers"][0]["urls"] = serde_json::json!([format!("http://{}/x", foreign.address)]);
    repository.add_manifest("latest", MANIFEST, manifest.to_string());
    let server = Server::start(move |seen| repository.answer(seen)).await;
    let image = server.open().await;
    let layers = image.manifest().await.unwrap().layers;
    assert!(read(&image, &layers[0]).await.unwrap_err().is_not_found());
    assert_eq!(foreign.requests(), [""; 0]);
}
