//! Resolution: documents of good and of hostile registries.

use super::*;

/// IMG-4: a tag is resolved to the image of this machine, over plain HTTP on the loopback interface.
#[tokio::test]
async fn a_reference_resolves_to_the_image_of_this_machine() {
    let mut repository = Repository::new();
    let plain = repository.manifests["latest"].clone();
    let other = repository.add_manifest(
        "other",
        MANIFEST,
        format!("{} ", String::from_utf8(plain.1.clone()).unwrap()),
    );
    let mine = digest_of(&plain.1);
    let at = |digest: &str, size: usize, platform: (&str, &str, &str)| {
        let (os, architecture, variant) = platform;
        let mut descriptor = descriptor(MANIFEST, digest, size);
        descriptor["platform"] =
            serde_json::json!({ "os": os, "architecture": architecture, "variant": variant });
        descriptor
    };
    let size = plain.1.len();
    let manifests = [
        at(&other, size + 1, ("unknown", "unknown", "")),
        at(&other, size + 1, ("linux", "arm", "v6")),
        at(&mine, size, ("linux", "arm", "v7")),
        at(&other, size + 1, ("windows", "arm", "v7")),
        at(&other, size + 1, ("linux", "arm", "v8")),
    ];
    let index =
        serde_json::json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests }).to_string();
    let index = repository.add_manifest("latest", INDEX, index);
    // An index in an index.
    let outer = serde_json::json!({ "schemaVersion": 2, "manifests": [descriptor(INDEX, &index, repository.manifests["latest"].1.len())] });
    let outer = repository.add_manifest("nested", INDEX, outer.to_string());
    let content = repository.clone();
    let server = Server::start(move |seen| content.answer(seen)).await;

    let machine = Platform { os: "linux".into(), architecture: "arm".into(), variant: "v7".into() };
    let image = server.open().await;
    let found = image.manifest_for(&machine).await.unwrap();
    assert_eq!((&found.digest, &found.manifest_digest), (&index, &mine));
    assert_eq!(found.config_digest, digest_of(&found.config));
    assert_eq!(found.layers.len(), 1);
    assert_eq!(read(&image, &found.layers[0]).await.unwrap(), repository.layer);
    assert_eq!(image.digest().await.unwrap(), index);
    assert!(server.requests().contains(&"HEAD /v2/team/app/manifests/latest".to_owned()));

    let nested = open(&format!("{}:nested", server.reference()), "{}", &Keyring::new()).await;
    assert_eq!(nested.manifest_for(&machine).await.unwrap().digest, outer);
    let pinned = open(&format!("{}@{mine}", server.reference()), "{}", &Keyring::new()).await;
    assert_eq!(pinned.manifest_for(&machine).await.unwrap().digest, mine);

    let foreign = Platform { os: "linux".into(), architecture: "riscv64".into(), variant: String::new() };
    let error = image.manifest_for(&foreign).await.unwrap_err().to_string();
    assert!(error.contains("not for linux/riscv64; its platforms: unknown/unknown, linux/arm/v6"), "{error}");
}

/// IMG-4: a registry without HEAD, or without a digest header, is read with GET.
#[tokio::test]
async fn the_digest_of_a_tag_needs_no_head() {
    for head in [405, 200] {
        let repository = Repository::new();
        let expect = digest_of(&repository.manifests["latest"].1);
        let server = Server::start(move |seen| {
            let mut answer = if seen.method == "HEAD" { status(head) } else { repository.answer(seen) };
            answer.headers_mut().remove("docker-content-digest");
            answer
        })
        .await;
        assert_eq!(server.open().await.digest().await.unwrap(), expect);
    }
}

/// IMG-4, IMG-5, SEC-2: each bad document gives its reason, and nothing is read beyond its limit.
#[tokio::test]
async fn bad_documents_give_their_reason() {
    type Change = fn(&mut Repository);
    fn manifest_with(repository: &mut Repository, change: impl FnOnce(&mut serde_json::Value)) {
        let mut manifest = serde_json::from_slice(&repository.manifests["latest"].1).unwrap();
        change(&mut manifest);
        repository.add_manifest("latest", MANIFEST, manifest.to_string());
    }
    let table: &[(&str, Change, &str)] = &[
        ("not JSON", |r| drop(r.add_manifest("latest", MANIFEST, "no")), "is not a manifest: expected ident"),
        (
            "an HTML page",
            |r| drop(r.add_manifest("latest", "text/html; charset=utf-8", "<html>")),
            "is an HTML page and not a manifest",
        ),
        (
            "schema 1 by type",
            |r| {
                drop(r.add_manifest(
                    "latest",
                    "application/vnd.docker.distribution.manifest.v1+prettyjws",
                    "{}",
                ));
            },
            "schema version 1",
        ),
        (
            "schema 1 by content",
            |r| drop(r.add_manifest("latest", "application/json", r#"{"schemaVersion":1,"fsLayers":[]}"#)),
            "schema version 1",
        ),
        (
            "10 MB",
            |r| drop(r.add_manifest("latest", MANIFEST, vec![b' '; 10 << 20])),
            "is too large: it has more than 4194304 bytes",
        ),
        (
            "10 000 layers",
            |r| manifest_with(r, |m| m["layers"] = vec![m["layers"][0].clone(); 9999].into()),
            "it has 9999 layers, and at most 1000 are allowed",
        ),
        (
            "more layers than are parsed",
            |r| manifest_with(r, |m| m["layers"] = vec![m["layers"][0].clone(); 10_001].into()),
            "more than 10000 elements",
        ),
        (
            "manifest and index at once",
            |r| manifest_with(r, |m| m["manifests"] = serde_json::json!([])),
            "a manifest and an index at once",
        ),
        (
            "neither",
            |r| drop(r.add_manifest("latest", "application/json", "{}")),
            "neither a manifest nor an index",
        ),
        (
            "two media types",
            |r| manifest_with(r, |m| m["mediaType"] = INDEX.into()),
            "the manifest says that it is application/vnd.oci.image.index.v1+json, but",
        ),
        (
            "a negative size",
            |r| manifest_with(r, |m| m["layers"][0]["size"] = (-1).into()),
            "invalid value: integer `-1`",
        ),
        (
            "no size",
            |r| manifest_with(r, |m| drop(m["layers"][0].as_object_mut().unwrap().remove("size"))),
            "has no size",
        ),
        (
            "a size that no disk has",
            |r| manifest_with(r, |m| m["layers"][0]["size"] = u64::MAX.into()),
            "its layers have 18446744073709551615 bytes",
        ),
        (
            "a path as a digest",
            |r| manifest_with(r, |m| m["config"]["digest"] = "sha256:../../../x".into()),
            "invalid digest \"sha256:../../../x\"",
        ),
        (
            "an encrypted layer",
            |r| manifest_with(r, |m| m["layers"][0]["mediaType"] = format!("{LAYER}+encrypted").into()),
            "is encrypted",
        ),
        (
            "layers that the configuration does not have",
            |r| manifest_with(r, |m| m["layers"] = serde_json::json!([])),
            "its configuration lists 1 layers, but its manifest lists 0",
        ),
        (
            "another configuration size",
            |r| manifest_with(r, |m| m["config"]["size"] = 3.into()),
            "but its descriptor says 3",
        ),
        (
            "a large configuration",
            |r| manifest_with(r, |m| m["config"]["size"] = (5 << 20).into()),
            "is too large: it has more than 4194304 bytes",
        ),
        (
            "a chart",
            |r| {
                let chart = r.add_blob(b"{}".to_vec());
                manifest_with(r, |m| {
                    m["config"] = descriptor("application/vnd.cncf.helm.config.v1+json", &chart, 2);
                });
            },
            "its configuration (application/vnd.cncf.helm.config.v1+json) is not that of a container image",
        ),
        (
            "a damaged configuration",
            |r| r.blobs.values_mut().for_each(|blob| blob[0] ^= 1),
            "is damaged: its digest is sha256:",
        ),
        (
            "a damaged manifest of an index",
            |r| {
                let inner = digest_of(&r.manifests["latest"].1);
                let index = serde_json::json!({ "manifests": [{ "digest": inner }] });
                r.add_manifest("latest", INDEX, index.to_string());
                r.manifests.get_mut(&inner).unwrap().1.push(b' ');
            },
            "is damaged: its digest is sha256:",
        ),
        (
            "indexes without end",
            |r| {
                for _ in 0..10 {
                    let inner = digest_of(&r.manifests["latest"].1);
                    let index = serde_json::json!({ "manifests": [{ "digest": inner }] });
                    r.add_manifest("latest", INDEX, index.to_string());
                }
            },
            "indexes are nested too deeply",
        ),
        (
            "an unknown tag",
            |r| r.manifests.clear(),
            "/team/app:latest: not found: MANIFEST_UNKNOWN: manifest unknown",
        ),
    ];
    for (name, change, expect) in table {
        let mut repository = Repository::new();
        change(&mut repository);
        let server = Server::start(move |seen| repository.answer(seen)).await;
        let error = server.open().await.manifest().await.unwrap_err();
        let text = error.to_string();
        let begin = format!("failed to resolve reference \"{}:latest\": ", server.reference());
        assert!(text.starts_with(&begin) && text.contains(expect), "{name}: {text}");
        assert!(text.len() < 1000, "{name}: {text}");
        assert_eq!(error.is_not_found(), *name == "an unknown tag");
    }
}

/// IMG-4, SEC-2, SEC-3: each bad answer gives its reason, and requests are repeated only where that may help.
#[tokio::test]
async fn bad_answers_give_their_reason() {
    type Reply = fn(&SeenRequest) -> Answer;
    fn redirect(to: &str) -> Answer {
        with_header(status(307), "location", to)
    }
    fn answer(code: u16, text: &'static str) -> Answer {
        let mut answer = with_type("application/json", text);
        *answer.status_mut() = code.try_into().unwrap();
        answer
    }
    let latest = "/v2/team/app/manifests/latest";
    let table: &[(&str, Reply, usize, &str)] = &[
        (
            "403",
            |_| answer(403, r#"{"errors":[{"code":"DENIED","message":"no"}]}"#),
            1,
            "403 Forbidden: DENIED: no",
        ),
        ("418", |_| status(418), 1, "unexpected status from GET request to http://127.0.0.1:"),
        ("500", |_| answer(500, "<html>"), 3, "500 Internal Server Error: (an HTML page)"),
        ("501", |_| status(501), 1, "501 Not Implemented"),
        ("429", |_| status(429), 3, "429 Too Many Requests"),
        ("429 for an hour", |_| with_header(status(429), "retry-after", "3600"), 1, "try again in 3600 s"),
        (
            "429 for ages",
            |_| with_header(status(429), "retry-after", "99999999999999999999999"),
            1,
            "try again in",
        ),
        (
            "429 for a second, then for ever",
            |seen| {
                let named =
                    if seen.method == "HEAD" || seen.before == 0 { "1" } else { "18446744073709551615" };
                with_header(status(429), "retry-after", named)
            },
            2,
            "try again in 18446744073709551615 s",
        ),
        (
            "503 until a date",
            |_| with_header(status(503), "retry-after", "Sat, 28 Nov 2026 22:00:00 GMT"),
            1,
            "503 Service Unavailable: try again in 7",
        ),
        (
            "503 with a strange date",
            |_| with_header(status(503), "retry-after", "soon"),
            3,
            "503 Service Unavailable",
        ),
        (
            "control characters",
            |_| answer(400, "{\"errors\":[{\"code\":\"X\",\"message\":\"\\u001b[31mred\\n\\u202e\"}]}"),
            1,
            r"X: \x1b[31mred \u202e",
        ),
        ("a circle", |seen| redirect(&seen.path), 11, "stopped after 10 redirects"),
        ("a file", |_| redirect("file:///etc/passwd"), 1, "its Location has the scheme \"file\""),
        ("without a target", |_| status(302), 1, "it has no Location"),
        (
            "the metadata service",
            |_| redirect("http://169.254.169.254/latest/meta-data"),
            1,
            "the link-local network is not accessible",
        ),
        ("the same in IPv6", |_| redirect("http://[::ffff:a9fe:a9fe]/x"), 1, "link-local"),
        ("401 alone", |_| status(401), 1, "401 Unauthorized without a WWW-Authenticate header"),
        (
            "401 with a scheme that is not known",
            |_| with_header(status(401), "www-authenticate", "Negotiate"),
            1,
            "401 Unauthorized without a WWW-Authenticate header",
        ),
    ];
    for (name, reply, count, expect) in table {
        let server = Server::start(*reply).await;
        let text = server.open().await.manifest().await.unwrap_err().to_string();
        assert!(text.contains(expect), "{name}: {text}");
        let requests = server.requests().iter().filter(|request| request.ends_with(latest)).count();
        assert_eq!(requests, *count, "{name}");
    }
}

/// IMG-4: a registry that is busy for a short time is waited for.
#[tokio::test]
async fn a_busy_registry_is_waited_for() {
    let busy = [with_header as fn(Answer, &'static str, &str) -> Answer, |answer, name, _| {
        with_header(answer, name, "Sat, 28 Nov 2026 19:00:00 GMT")
    }];
    for header in busy {
        let repository = Repository::new();
        let server = Server::start(move |seen| {
            if seen.before == 0 { header(status(429), "retry-after", "0") } else { repository.answer(seen) }
        })
        .await;
        server.open().await.manifest().await.unwrap();
    }
}

/// IMG-4: redirects of documents and layers are followed without the query in messages.
#[tokio::test]
async fn redirects_are_followed() {
    let repository = Repository::new();
    let content = repository.clone();
    let storage = Server::start(move |seen| content.answer(seen)).await;
    let target = storage.address;
    let server = Server::start(move |seen| {
        with_header(status(307), "location", &format!("http://user:pw@{target}{}?sig=secret", seen.path))
    })
    .await;
    let image = server.open().await;
    let manifest = image.manifest().await.unwrap();
    assert_eq!(read(&image, &manifest.layers[0]).await.unwrap(), repository.layer);
    assert!(storage.log.lock().iter().all(|seen| seen.authorization.is_none()));
}

/// IMG-4: mirrors are tried in order, and their failures are mentioned only if all fail.
#[tokio::test]
async fn mirrors_come_before_the_registry() {
    let repository = Repository::new();
    let content = repository.clone();
    let empty = Server::start(|_| status(404)).await;
    let full = Server::start(move |seen| content.answer(seen)).await;
    let registry = Server::start(|_| unknown_manifest()).await;
    let config =
        |mirrors: &str| format!(r#"{{"hosts":{{"{}":{{"mirrors":[{mirrors}]}}}}}}"#, registry.address);
    let both = config(&format!(r#""http://{}","http://{}""#, empty.address, full.address));
    let image = open(&registry.reference(), &both, &Keyring::new()).await;
    let manifest = image.manifest().await.unwrap();
    assert_eq!(manifest.origin, format!("http://{}", full.address));
    assert_eq!(read(&image, &manifest.layers[0]).await.unwrap(), repository.layer);
    assert_eq!(registry.requests(), [""; 0]);
    let namespace = format!("?ns={}", registry.address.to_string().replace(':', "%3A"));
    assert_eq!(empty.requests()[0], format!("GET /v2/team/app/manifests/latest{namespace}"));

    let one = config(&format!(r#""http://{}""#, empty.address));
    let error = open(&registry.reference(), &one, &Keyring::new()).await.manifest().await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("not found: MANIFEST_UNKNOWN: manifest unknown; mirror http://127.0.0.1:"),
        "{text}"
    );
    assert!(error.is_not_found());
}

/// IMG-4: a registry that cannot be reached gives the cause in Go's words, and a hint.
#[tokio::test]
async fn an_unreachable_registry_gives_the_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = open(&format!("{address}/a"), "{}", &Keyring::new()).await.manifest().await.unwrap_err();
    let expect = format!("dial tcp {address}: connect: connection refused");
    assert!(error.to_string().contains(&expect), "{error}");
    assert!(matches!(error.cause(), RegistryError::Request { .. }));
    assert!(error.hint().unwrap().contains("podium image load"));

    // A registry that accepts connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let error = open(&format!("{address}/a"), "{}", &Keyring::new()).await.manifest().await.unwrap_err();
    assert!(error.to_string().contains("i/o timeout: no data for"), "{error}");
}
