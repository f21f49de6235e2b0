//! What references mean: the user's entries, loaded images, built-in ones, and errors (IMG-1, IMG-2).

use std::os::unix::fs::PermissionsExt;

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

/// A catalogue without the user's entries, on a machine that has these programs.
fn with_programs(programs: &[&str]) -> (tempfile::TempDir, Catalogue) {
    let directory = tempfile::tempdir().unwrap();
    for program in programs {
        let path = directory.path().join(program);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut catalogue = Catalogue::new(Vec::new(), "/data/images/*.yaml");
    catalogue.search_path = directory.path().into();
    (directory, catalogue)
}

/// IMG-2: the built-in images, under any registry, with the tags they have and no others.
#[test]
fn built_in_images_are_known_by_every_registry_and_the_right_tags_img_2() {
    let (_directory, catalogue) = with_programs(&["sh"]);
    let good = [
        "pause",
        "registry.k8s.io/pause:3.10",
        "docker.io/library/nginx",
        "localhost:5000/deep/er/nginx:1.25",
        "public.ecr.aws/nginx/nginx:stable",
        "quay.io/x/httpd:2.4-alpine",
        "ghcr.io/me/busybox:1.36.1-musl",
        "mirror.gcr.io/library/debian:bookworm-slim",
        "ubuntu:24.04",
        "alpine:edge",
        "host",
        "any.registry/host:whatever",
    ];
    for reference in good {
        assert!(catalogue.resolve(reference).is_ok(), "{reference}");
    }
    let tags = ["1.7.9", "1.9.1", "1.14.2", "1.16.1", "1.25", "1.27", "latest", "stable", "alpine"];
    for name in ["nginx", "httpd"] {
        for tag in tags {
            assert!(catalogue.resolve(&format!("{name}:{tag}")).is_ok(), "{name}:{tag}");
        }
        for tag in ["1.91", "1.7", "1.161", "lates", "v1.25"] {
            let error = catalogue.resolve(&format!("gcr.io/{name}:{tag}")).unwrap_err();
            let begin =
                format!("manifest for gcr.io/{name}:{tag} not found: manifest unknown: gcr.io/{name} has");
            assert!(error.to_string().starts_with(&begin), "{error}");
        }
    }
    assert!(catalogue.resolve("host").unwrap().host_view);
    for unknown in ["nginxx", "me/shop:v1", "gcr.io/google-samples/hello-app:1.0"] {
        let error = catalogue.resolve(unknown).unwrap_err();
        assert!(matches!(error, ResolveError::UnknownName(_)), "{unknown}");
        let text = error.to_string();
        assert!(text.contains("/data/images/*.yaml") && text.contains("podium image load FILE"), "{text}");
    }
}

/// IMG-2: images that stand for a program of the machine exist when it does, else the error names it.
#[test]
fn program_images_need_their_program_img_2() {
    let table = [
        ("perl:5", "perl", "perl"),
        ("python:3.12-slim", "python3", "python3 or python"),
        ("python:2", "python", "python3 or python"),
        ("node:22-alpine", "node", "node or nodejs"),
        ("redis:7", "redis-server", "redis-server or valkey-server"),
        ("postgres:16", "postgres", "postgres"),
        ("mysql:8", "mysqld", "mysqld"),
    ];
    let (_nothing, without) = with_programs(&[]);
    for (reference, program, named) in table {
        let (directory, with) = with_programs(&[program]);
        let image = with.resolve(reference).unwrap();
        // It is found by its usual name, wherever it is.
        let place = directory.path().join(program);
        let by_path = image.env.iter().any(|(name, value)| {
            name == "PATH" && value.starts_with(&directory.path().display().to_string())
        });
        let by_alias = image.programs.iter().any(|(_, known)| *known == Program::Path(place.clone()));
        assert!(by_path || by_alias, "{reference}");
        let error = without.resolve(reference).unwrap_err();
        assert!(matches!(error, ResolveError::ProgramMissing(_)), "{reference}");
        let expect = format!("stands for the program {named} of this machine, which is not installed");
        assert!(error.to_string().contains(&expect), "{error}");
    }
}

/// IMG-1, IMG-3: the user's entries, then loaded images, then built-in ones.
#[test]
fn loaded_images_come_between_the_users_and_built_in_ones_img_3() {
    let data = tempfile::tempdir().unwrap();
    let store = data.path().join("images/store");
    let id = format!("sha256:{}", "ab".repeat(32));
    let image = store.join(id.replace(':', "-"));
    std::fs::create_dir_all(image.join("rootfs")).unwrap();
    let run =
        r#"{"entrypoint":["/app"],"env":["A=b=c"],"workingDir":"srv","user":"1","stopSignal":"SIGINT"}"#;
    let about = format!(
        r#"{{"id":"{id}","manifestDigest":null,"platform":"linux/amd64","sizeBytes":7,"run":{run}}}"#
    );
    std::fs::write(image.join("image.json"), about).unwrap();
    let tags = format!(r#"{{"shop:v1":"{id}","shop:v3":"{id}","nginx:1.25":"{id}","mine:1":"{id}"}}"#);
    std::fs::write(store.join("tags.json"), tags).unwrap();
    let entries = vec![serde_json::from_str(r#"{"name":"shop","tags":["v1"],"entrypoint":["sh"]}"#).unwrap()];
    let user = Arc::new(UserImages { entries, problems: Vec::new() });
    let catalogue = Catalogue::live(Box::new(user), Some(ImageStore::of(data.path())), "PLACE");

    assert!(catalogue.resolve("shop:v1").unwrap().root.is_none(), "declared by the user");
    let loaded = catalogue.resolve("docker.io/library/shop:v3").unwrap();
    assert_eq!(loaded.root, Some(image.join("rootfs")));
    assert_eq!((loaded.image_id.as_str(), loaded.size_bytes, loaded.stop_signal), (id.as_str(), 7, 2));
    assert_eq!(loaded.working_dir, Path::new("/srv"));
    assert_eq!((loaded.user.as_deref(), &loaded.env[0]), (Some("1"), &("A".into(), "b=c".into())));
    assert!(catalogue.resolve("nginx:1.25").unwrap().root.is_some(), "before the built-in one");
    assert!(catalogue.resolve("nginx:1.27").unwrap().root.is_none());
    assert!(catalogue.find_loaded("shop:v3").is_some() && catalogue.find_loaded("shop:v1").is_none());
    // Unlike the user's, a loaded name is one registry's.
    assert!(catalogue.resolve("gcr.io/mine:1").is_err());
    let error = catalogue.resolve("mine:2").unwrap_err().to_string();
    assert!(error.contains("mine has the tags 1 here; declare others in PLACE or load them with"), "{error}");
    let error = catalogue.resolve("shop:v2").unwrap_err().to_string();
    assert!(
        error.contains("shop has the tags v1, v1, v3") || error.contains("shop has the tags v1, v3"),
        "{error}"
    );
    let digest = format!("shop@sha256:{}", "0".repeat(64));
    assert!(matches!(catalogue.resolve(&digest), Err(ResolveError::UnknownTag(_))));
    assert!(catalogue.resolve(&format!("shop@{id}")).unwrap().root.is_some());
}
