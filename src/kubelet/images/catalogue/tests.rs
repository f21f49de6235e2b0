//! What references mean: the user's entries, loaded images, built-in ones, and errors (IMG-1, IMG-2).

use super::*;

fn catalogue() -> Catalogue {
    let entry = |text: &str| serde_json::from_str::<ImageEntry>(text).unwrap();
    Catalogue::new(
        vec![
            entry(r#"{"name":"shop","tags":["v1","v2"],"entrypoint":["sh"],"cmd":["-c","true"]}"#),
            entry(r#"{"name":"ghcr.io/me/api","entrypoint":["./api"],"stopSignal":"SIGINT"}"#),
            entry(r#"{"name":"nginx","tags":["mine"],"entrypoint":["sh"]}"#),
        ],
        "/data/images/*.yaml",
    )
}

/// IMG-1, IMG-2: what resolves, and to which program.
#[test]
fn references_resolve_to_the_users_entries_then_to_built_in_ones() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("shop:v1", &["sh"], &["-c", "true"]),
        ("registry.example/any/shop:v2", &["sh"], &["-c", "true"]),
        ("ghcr.io/me/api:anything", &["./api"], &[]),
        ("nginx:mine", &["sh"], &[]),
        ("nginx", &[], &["nginx", "-g", "daemon off;"]),
        ("nginx:1.7.9", &[], &["nginx", "-g", "daemon off;"]),
        ("docker.io/library/nginx:alpine", &[], &["nginx", "-g", "daemon off;"]),
        ("httpd:2.4", &[], &["httpd-foreground"]),
        ("k8s.gcr.io/pause:3.9", &["/pause"], &[]),
        ("busybox:1.28", &[], &["sh"]),
        ("host", &[], &[]),
    ];
    for (reference, entrypoint, cmd) in table {
        let image = catalogue().resolve(reference).unwrap();
        assert_eq!(
            (&image.entrypoint[..], &image.cmd[..]),
            (
                &entrypoint.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()[..],
                &cmd.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()[..]
            ),
            "{reference}"
        );
        assert!(image.image_id.starts_with("sha256:") && image.image_id.len() == 71, "{reference}");
    }
    assert_eq!(catalogue().resolve("ghcr.io/me/api").unwrap().stop_signal, libc::SIGINT);
    assert_eq!(catalogue().resolve("nginx").unwrap().stop_signal, libc::SIGQUIT);
}

/// IMG-2: nginx:1.91 does not exist, and the error names the fix.
#[test]
fn what_does_not_resolve_names_the_fix() {
    let error = catalogue().resolve("nginx:1.91").unwrap_err();
    assert!(matches!(error, ResolveError::UnknownTag(_)));
    let text = error.to_string();
    assert!(text.starts_with("manifest for nginx:1.91 not found: manifest unknown"), "{text}");
    assert!(text.contains("1.7.9, 1.9.1") && text.contains("/data/images/*.yaml"), "{text}");

    assert!(matches!(catalogue().resolve("shop:v3"), Err(ResolveError::UnknownTag(_))));
    assert!(matches!(catalogue().resolve("ghcr.io/other/api"), Err(ResolveError::UnknownName(_))));
    assert!(matches!(catalogue().resolve("No/Way:x:y"), Err(ResolveError::Invalid(_))));
    let mut bare = catalogue();
    bare.search_path = OsString::from("/nowhere");
    let missing = bare.resolve("redis:7").unwrap_err();
    assert!(matches!(&missing, ResolveError::ProgramMissing(text) if text.contains("redis-server")));
}

#[test]
fn a_digest_must_be_the_images_own() {
    let known = catalogue().resolve("nginx:1.25").unwrap();
    let by_both = format!("nginx:1.25@{}", known.image_id);
    assert_eq!(catalogue().resolve(&by_both).unwrap().image_id, known.image_id);
    let other = format!("nginx@sha256:{}", "0".repeat(64));
    assert!(matches!(catalogue().resolve(&other), Err(ResolveError::UnknownTag(_))));
}

#[test]
fn tags_become_versions() {
    for (tag, expect) in
        [("1.9.1", "1.9.1"), ("1.25", "1.25.0"), ("alpine", "9.9.9"), ("2.4-alpine", "2.4.0")]
    {
        let reference = ImageReference::parse(&format!("nginx:{tag}")).unwrap();
        assert_eq!(web_version(&reference, "9.9.9"), expect);
    }
}
