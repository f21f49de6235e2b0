//! Tests of reference resolution: the user's entries, loaded images, built-in ones, and errors (IMG-1, IMG-2).

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

/// IMG-1, IMG-2: the references that resolve, and the program of each.
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
fn an_unresolved_image_reference_names_the_fix() {
    let error = catalogue().resolve("nginx:1.91").unwrap_err();
    assert!(matches!(error, ResolveError::UnknownTag(_)));
    let text = error.to_string();
    assert!(text.starts_with("manifest for nginx:1.91 not found: manifest unknown"), "{text}");
    assert!(text.contains("1.91 or 1.161") && text.contains("/data/images/*.yaml"), "{text}");

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
    assert!(matches!(catalogue().resolve(&other), Err(ResolveError::UnknownDigest(_))));
}

#[test]
fn tags_become_versions() {
    for (tag, expect) in
        [("1.9.1", "1.9.1"), ("1.25", "1.25.0"), ("alpine", "9.9.9"), ("2.4-alpine", "2.4.0")]
    {
        let reference = ImageReference::parse(&format!("nginx:{tag}")).unwrap();
        assert_eq!(version(&reference, "9.9.9"), expect);
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

/// A digest that Podium's own image does not have.
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// IMG-2: an image of another registry is never replaced by a built-in one because its name ends alike.
#[test]
fn only_docker_library_and_documented_names_mean_a_built_in_image_img_2() {
    let (_directory, catalogue) = with_programs(&["sh", "python3", "curl"]);
    let built_in = [
        ("nginx", "nginx"),
        ("nginx:1.25", "nginx"),
        ("library/nginx", "nginx"),
        ("docker.io/nginx", "nginx"),
        ("docker.io/library/nginx:1.25", "nginx"),
        ("index.docker.io/library/nginx", "nginx"),
        ("docker.io/library/python:3.12", "python"),
        ("pause", "pause"),
        ("registry.k8s.io/pause:3.10", "pause"),
        ("k8s.gcr.io/pause:3.9", "pause"),
        ("registry.k8s.io/busybox:1.27.2", "busybox"),
        ("gcr.io/google-samples/gb-frontend:v5", "gcr.io/google-samples/gb-frontend"),
        ("gcr.io/google_samples/gb-frontend:v3", "gcr.io/google-samples/gb-frontend"),
        (
            "us-docker.pkg.dev/google-samples/containers/gke/gb-frontend:v5",
            "gcr.io/google-samples/gb-frontend",
        ),
        ("gcr.io/google-samples/hello-app:1.0", "gcr.io/google-samples/hello-app"),
        ("gcr.io/google-samples/hello-app:2.0", "gcr.io/google-samples/hello-app"),
        ("k8s.gcr.io/liveness", "registry.k8s.io/liveness"),
        ("registry.k8s.io/liveness", "registry.k8s.io/liveness"),
        ("registry.k8s.io/e2e-test-images/agnhost:2.40", "registry.k8s.io/e2e-test-images/agnhost"),
        ("k8s.gcr.io/nginx-slim:0.8", "registry.k8s.io/nginx-slim"),
        ("registry.k8s.io/nginx-slim:0.24", "registry.k8s.io/nginx-slim"),
        ("k8s.gcr.io/fluentd-elasticsearch:1.20", "registry.k8s.io/fluentd-elasticsearch"),
        ("quay.io/fluentd_elasticsearch/fluentd:v5.0.1", "registry.k8s.io/fluentd-elasticsearch"),
        ("host", "host"),
    ];
    for (reference, name) in built_in {
        let image = catalogue.resolve(reference).unwrap();
        let found = catalogue.builtin(&image.reference.name()).map(Builtin::name);
        assert_eq!(found, Some(name), "{reference}");
    }
    let of_others = [
        "ghcr.io/acme/nginx:1.25",
        "registry.example.com/team/python:2.0",
        "localhost:5000/nginx",
        "localhost/nginx",
        "quay.io/library/nginx",
        "bitnami/nginx",
        "docker.io/bitnami/nginx:1.25",
        "acme/library/nginx",
        "mirror.gcr.io/library/debian",
        "registry.k8s.io/nginx",
        "gcr.io/acme/pause",
        "acme.io/k8s.gcr.io/pause",
        "liveness",
        "hello-app:1.0",
        "any.registry/host:whatever",
        "ghcr.io/acme/curl",
        "ghcr.io/acme/nginx@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ];
    for reference in of_others {
        let error = catalogue.resolve(reference).unwrap_err();
        assert!(matches!(error, ResolveError::UnknownName(_)), "{reference}: {error:?}");
        let text = error.to_string();
        let name = ImageReference::parse(reference).unwrap().name();
        assert!(text.starts_with(&format!("no image of this machine has the name {name}: ")), "{text}");
        assert!(text.contains("/data/images/*.yaml") && text.contains("podium image load FILE"), "{text}");
        let hint = format!("list {name} under registry.builtin in the config file");
        assert!(text.contains(&hint), "{text}");
    }
    for unknown in ["nginxx", "me/shop:v1"] {
        let error = catalogue.resolve(unknown).unwrap_err();
        assert!(matches!(error, ResolveError::UnknownName(_)), "{unknown}");
        assert!(!error.to_string().contains("registry.builtin"), "{error}");
    }
    assert!(catalogue.resolve("host").unwrap().host_view);
}

fn mapping(repositories: &[&str]) -> RegistryConfig {
    let builtin = repositories.iter().map(|&name| name.to_owned()).collect();
    RegistryConfig { builtin, ..RegistryConfig::default() }
}

/// IMG-2: only the user's settings map other names to a built-in image.
#[test]
fn a_user_maps_further_repositories_to_built_in_images_img_2() {
    let catalogue = Catalogue::new(Vec::new(), "PLACE");
    let mapped = ["docker.io/bitnami/nginx", "registry.example.com:5000/team/httpd", "ghcr.io/me/pause"];
    let (catalogue, refused) = catalogue.with_registry(&mapping(&mapped));
    assert_eq!(refused, []);
    for (reference, entrypoint, cmd) in [
        ("bitnami/nginx:1.29.1-debian-12-r0", None, Some("nginx")),
        ("registry.example.com:5000/team/httpd", None, Some("httpd-foreground")),
        ("ghcr.io/me/pause:1", Some("/pause"), None),
    ] {
        let image = catalogue.resolve(reference).unwrap();
        let first = |words: &[String]| words.first().cloned();
        assert_eq!(first(&image.entrypoint).as_deref(), entrypoint, "{reference}");
        assert_eq!(first(&image.cmd).as_deref(), cmd, "{reference}");
    }
    assert!(matches!(catalogue.resolve("bitnami/nginx:1.91"), Err(ResolveError::UnknownTag(_))));
    for other in ["ghcr.io/bitnami/nginx", "bitnami/httpd", "registry.example.com/team/httpd"] {
        assert!(matches!(catalogue.resolve(other), Err(ResolveError::UnknownName(_))), "{other}");
    }
    let listed = catalogue.list();
    assert!(listed.iter().any(|image| image.repository.as_deref() == Some("bitnami/nginx")));

    let table = [
        ("ghcr.io/acme/shop", "\"ghcr.io/acme/shop\": no built-in image has the name shop"),
        ("nginx:1.25", "use the repository's name without tag and digest"),
        ("NGINX", "repository name must be lowercase"),
        ("", "invalid reference format"),
    ];
    for (text, expect) in table {
        let (_, refused) = Catalogue::new(Vec::new(), "").with_registry(&mapping(&["nginx", text]));
        assert!(refused.len() == 1 && refused[0].0 == 1 && refused[0].1.contains(expect), "{refused:?}");
    }
}

/// IMG-2: a built-in image has every tag that its repository may have, except those that tutorials use as mistyped
/// versions and those of another program.
#[test]
fn built_in_images_have_every_tag_but_the_documented_ones_img_2() {
    let (_directory, catalogue) = with_programs(&["sh", "php", "python3"]);
    let good = [
        "nginx:1.7.9", "nginx:1.16.0", "nginx:1.16.1", "nginx:1.9.1", "nginx:1.28", "nginx:1.29",
        "nginx:1.27-alpine", "nginx:1.29.3-trixie-perl", "nginx:mainline", "nginx:stable-alpine", "nginx:1",
        "nginx:1.9", "httpd:2.4.65-alpine3.22", "busybox:1.36.1-musl", "debian:bookworm-slim",
        "ubuntu:24.04", "alpine:edge", "php:8.4-cli-alpine", "python:3.14-slim", "python:latest",
    ];
    for reference in good {
        assert!(catalogue.resolve(reference).is_ok(), "{reference}");
    }
    let missing = [
        ("nginx:1.91", "tutorials use them as mistyped versions"),
        ("nginx:1.91.0", "tutorials use them as mistyped versions"),
        ("nginx:1.91-alpine", "tutorials use them as mistyped versions"),
        ("nginx:1.161", "tutorials use them as mistyped versions"),
        ("docker.io/library/nginx:1.161", "tutorials use them as mistyped versions"),
        ("php:8.4-apache", "not the servers of the apache and fpm variants"),
        ("php:fpm-alpine", "not the servers of the apache and fpm variants"),
        ("python:2.7", "this machine's Python 3"),
        ("python:2", "this machine's Python 3"),
    ];
    for (reference, why) in missing {
        let error = catalogue.resolve(reference).unwrap_err();
        assert!(matches!(error, ResolveError::UnknownTag(_)), "{reference}: {error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let digest = catalogue.resolve(&format!("nginx:1.25@{DIGEST}")).unwrap_err();
    assert!(matches!(digest, ResolveError::UnknownDigest(_)), "{digest:?}");
    let env = |reference: &str| catalogue.resolve(reference).unwrap().env;
    let version = |version: &str| ("NGINX_VERSION".to_owned(), version.to_owned());
    assert!(env("nginx:1.16.0").contains(&version("1.16.0")));
    assert!(env("k8s.gcr.io/nginx-slim:0.8").contains(&version("1.27.4")), "its tag is not nginx's version");
}

/// IMG-2: an image that runs a program of the machine resolves only if the program is installed; otherwise the error
/// names it.
#[test]
fn program_images_need_their_program_img_2() {
    let table = [
        ("perl:5", "perl", "perl"),
        ("python:3.12-slim", "python3", "python3 or python"),
        ("python", "python", "python3 or python"),
        ("node:22-alpine", "node", "node or nodejs"),
        ("redis:7", "redis-server", "redis-server or valkey-server"),
        ("postgres:16", "postgres", "postgres"),
        ("memcached:1", "memcached", "memcached"),
    ];
    let (_nothing, without) = with_programs(&[]);
    for (reference, program, named) in table {
        let (directory, with) = with_programs(&[program]);
        let image = with.resolve(reference).unwrap();
        // The program is found by its usual name in any directory.
        let place = directory.path().join(program);
        let by_path = image.env.iter().any(|(name, value)| {
            name == "PATH" && value.starts_with(&directory.path().display().to_string())
        });
        let by_alias = image.programs.iter().any(|(_, known)| *known == Program::Path(place.clone()));
        assert!(by_path || by_alias, "{reference}");
        let error = without.resolve(reference).unwrap_err();
        assert!(matches!(error, ResolveError::ProgramMissing(_)), "{reference}");
        let expect = format!("runs this machine's program {named}, which is not installed");
        assert!(error.to_string().contains(&expect), "{error}");
    }
}

/// IMG-1, IMG-3: loaded images, then the user's entries, then built-in ones.
#[test]
fn loaded_images_come_before_the_users_entries_and_built_in_ones_img_3() {
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
    let catalogue = Catalogue::live(Box::new(user), Some(Arc::new(ImageStore::of(data.path()))), "PLACE");

    assert!(catalogue.resolve("shop:v1").unwrap().layers.len() == 1, "before the user's entry");
    assert!(catalogue.resolve("gcr.io/me/shop:v1").unwrap().layers.is_empty(), "the entry has no registry");
    let loaded = catalogue.resolve("docker.io/library/shop:v3").unwrap();
    assert_eq!(loaded.layers, [image.join("rootfs")]);
    assert_eq!((loaded.image_id.as_str(), loaded.size_bytes, loaded.stop_signal), (id.as_str(), 7, 2));
    assert_eq!(loaded.working_dir, Path::new("/srv"));
    assert_eq!((loaded.user.as_deref(), &loaded.env[0]), (Some("1"), &("A".into(), "b=c".into())));
    assert!(catalogue.resolve("nginx:1.25").unwrap().layers.len() == 1, "before the built-in one");
    assert!(catalogue.resolve("nginx:1.27").unwrap().layers.is_empty());
    assert!(
        catalogue.find_loaded("shop:v3").is_some() && catalogue.find_loaded("gcr.io/me/shop:v1").is_none()
    );
    // Unlike the user's entries, a loaded name belongs to one registry.
    assert!(catalogue.resolve("gcr.io/mine:1").is_err());
    let error = catalogue.resolve("mine:2").unwrap_err().to_string();
    assert!(error.contains("mine has the tags 1 here; declare others in PLACE or load them with"), "{error}");
    let error = catalogue.resolve("shop:v2").unwrap_err().to_string();
    assert!(
        error.contains("shop has the tags v1, v1, v3") || error.contains("shop has the tags v1, v3"),
        "{error}"
    );
    let digest = format!("shop@sha256:{}", "0".repeat(64));
    assert!(matches!(catalogue.resolve(&digest), Err(ResolveError::UnknownDigest(_))));
    assert!(!catalogue.resolve(&format!("shop@{id}")).unwrap().layers.is_empty());
}

/// A reference, and the sources that have it with each setting of `registry.pull`.
type ExplainedRow<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

/// IMG-9: `podium image explain` names the source that gives the image, and the reasons of the others.
#[test]
fn the_sources_of_an_image_are_explained_in_their_order_img_9() {
    let applying = |catalogue: &Catalogue, reference: &str| -> Vec<&'static str> {
        let explanation = catalogue.explain(reference).unwrap();
        explanation.steps.iter().filter(|step| step.applies).map(|step| step.source).collect()
    };
    let entries = vec![serde_json::from_str(r#"{"name":"shop","tags":["v1"],"entrypoint":["sh"]}"#).unwrap()];
    let of = |pull| {
        let config = RegistryConfig { pull, builtin: vec!["bitnami/nginx".into()], ..Default::default() };
        Catalogue::new(entries.clone(), "PLACE").with_registry(&config).0
    };
    let (auto, registry, never) = (of(PullMode::Auto), of(PullMode::Registry), of(PullMode::Never));
    let (entry, builtin, remote) = ("entry of yours", "built-in image", "registry");
    let table: [ExplainedRow<'_>; 8] = [
        ("shop:v1", &[entry, remote], &[entry, remote], &[entry]),
        ("shop:v2", &[remote], &[remote], &[]),
        ("nginx", &[builtin, remote], &[remote], &[builtin]),
        ("bitnami/nginx:1", &[builtin, remote], &[builtin, remote], &[builtin]),
        ("ghcr.io/acme/nginx", &[remote], &[remote], &[]),
        ("nginx:1.91", &[], &[remote], &[]),
        ("python:2.7", &[remote], &[remote], &[]),
        ("host", &[builtin, remote], &[builtin, remote], &[builtin]),
    ];
    for (reference, in_auto, in_registry, in_never) in table {
        assert_eq!(applying(&auto, reference), in_auto, "{reference}");
        assert_eq!(applying(&registry, reference), in_registry, "{reference}");
        assert_eq!(applying(&never, reference), in_never, "{reference}");
        assert_eq!(auto.can_pull(reference), in_auto.contains(&remote), "{reference}");
        assert!(!never.can_pull(reference), "{reference}");
    }
    assert_eq!(auto.explain("shop:v2").unwrap().name, "docker.io/library/shop:v2");
    assert_eq!(auto.explain("shop:v2").unwrap().steps[1].reason, "the entries of this name have other tags");
    assert!(auto.explain("Shop").is_err());
}
