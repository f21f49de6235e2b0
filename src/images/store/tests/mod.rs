//! Archives of every shape, good, damaged and hostile (IMG-3, SEC-2).

mod kills;
mod layers;
mod other_owners;
mod writers;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::*;
use base::layers::Layers;

/// The type of a layer's entry.
enum TestEntry<'a> {
    File(&'a str, u32),
    Dir(u32),
    Link(&'a str),
    Hard(&'a str),
    Fifo(u32),
    Device,
}
use TestEntry::{Device, Dir, Fifo, File as Plain, Hard, Link};

/// A tar archive; names are written unchanged, even invalid ones.
fn tar_of(entries: &[(&str, TestEntry<'_>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, is) in entries {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        let (kind, mode, content) = match is {
            Plain(content, mode) => (EntryType::Regular, *mode, *content),
            Dir(mode) => (EntryType::Directory, *mode, ""),
            Link(_) => (EntryType::Symlink, 0o777, ""),
            Hard(_) => (EntryType::Link, 0o644, ""),
            Fifo(mode) => (EntryType::Fifo, *mode, ""),
            Device => (EntryType::Char, 0o600, ""),
        };
        if let Link(target) | Hard(target) = is {
            header.as_gnu_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
        }
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_600_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn digest_of(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// The members of an archive under construction, by name.
#[derive(Default)]
struct Members(Vec<(String, Vec<u8>)>);

impl Members {
    fn add(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.0.push((name.to_owned(), bytes.into()));
    }

    /// Adds a blob of an OCI layout; returns its descriptor.
    fn blob(&mut self, bytes: impl Into<Vec<u8>>) -> Value {
        let bytes = bytes.into();
        let digest = digest_of(&bytes);
        let descriptor = json!({"digest": digest, "size": bytes.len(), "mediaType": "application/any"});
        self.add(&format!("blobs/sha256/{}", &digest[7..]), bytes);
        descriptor
    }

    fn tar(&self) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (name, bytes) in &self.0 {
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, bytes.as_slice()).unwrap();
        }
        builder.into_inner().unwrap()
    }
}

fn configuration(layers: &[Vec<u8>], config: &Value) -> Vec<u8> {
    let diff_ids: Vec<String> = layers.iter().map(|layer| digest_of(layer)).collect();
    let architecture = super::platform::Platform::machine().architecture;
    let rootfs = json!({"type": "layers", "diff_ids": diff_ids});
    serde_json::to_vec(
        &json!({"os": "linux", "architecture": architecture, "config": config, "rootfs": rootfs}),
    )
    .unwrap()
}

/// Builds an archive as `docker save` does.
fn docker(names: &[&str], layers: &[Vec<u8>], config: &Value) -> Vec<u8> {
    let mut members = Members::default();
    let configuration = configuration(layers, config);
    let name = format!("{}.json", &digest_of(&configuration)[7..]);
    members.add(&name, configuration);
    let paths: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    for (path, layer) in paths.iter().zip(layers) {
        members.add(path, layer.clone());
    }
    members.add("manifest.json", json!([{"Config": name, "RepoTags": names, "Layers": paths}]).to_string());
    members.tar()
}

/// Compresses a layer.
type CompressFn = fn(&[u8]) -> Vec<u8>;

/// Adds an OCI manifest with gzip layers; returns its descriptor.
fn oci_image(members: &mut Members, layers: &[Vec<u8>], config: &Value) -> Value {
    oci_image_packed_by(gzip, members, layers, config)
}

fn oci_image_packed_by(pack: CompressFn, members: &mut Members, layers: &[Vec<u8>], config: &Value) -> Value {
    let config = members.blob(configuration(layers, config));
    let layers: Vec<Value> = layers.iter().map(|layer| members.blob(pack(layer))).collect();
    members.blob(json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string())
}

fn oci(name: &str, layers: &[Vec<u8>], config: &Value) -> Vec<u8> {
    oci_packed_by(gzip, name, layers, config)
}

fn oci_packed_by(pack: CompressFn, name: &str, layers: &[Vec<u8>], config: &Value) -> Vec<u8> {
    let mut members = Members::default();
    let mut manifest = oci_image_packed_by(pack, &mut members, layers, config);
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    members.add("index.json", json!({"manifests": [manifest]}).to_string());
    members.add("oci-layout", "{\"imageLayoutVersion\": \"1.0.0\"}");
    members.tar()
}

struct StoreFixture {
    data: tempfile::TempDir,
    store: ImageStore,
}

impl StoreFixture {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let store = ImageStore::of(data.path());
        Self { data, store }
    }

    fn load_as(&self, archive: &[u8], options: &LoadOptions) -> Result<Vec<LoadedImage>, LoadError> {
        let mut loaded = Vec::new();
        let input = Input::Stream(Box::new(std::io::Cursor::new(archive.to_vec())));
        self.store.load(input, options, |one| loaded.push(one.clone())).map(|()| loaded)
    }

    fn load(&self, archive: &[u8]) -> Result<Vec<LoadedImage>, LoadError> {
        self.load_as(archive, &LoadOptions::default())
    }

    fn find(&self, name: &str) -> Option<StoredImage> {
        // A new store has no cached state, as in another process.
        ImageStore::of(self.data.path()).find(&ImageReference::parse(name).unwrap())
    }

    /// Returns a copy of the image's merged layers.
    fn merged(&self, name: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let layers = Layers::new(self.store.layer_roots(&self.find(name).unwrap()));
        layers.copy(root.path()).unwrap();
        root
    }

    /// Returns the root file system: path → kind, mode and content.
    fn files(&self, name: &str) -> BTreeMap<String, String> {
        let root = self.merged(name);
        let root = root.path().to_path_buf();
        let mut files = BTreeMap::new();
        let mut next = vec![root.clone()];
        while let Some(directory) = next.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let about = std::fs::symlink_metadata(&path).unwrap();
                let mode = about.permissions().mode() & 0o7777;
                let shown = if about.is_dir() {
                    next.push(path.clone());
                    format!("dir {mode:o}")
                } else if about.is_symlink() {
                    format!("-> {}", std::fs::read_link(&path).unwrap().display())
                } else {
                    format!("{mode:o} {}", std::fs::read_to_string(&path).unwrap())
                };
                files.insert(path.strip_prefix(&root).unwrap().display().to_string(), shown);
            }
        }
        files
    }

    /// Lists a directory of the store.
    fn listed(&self, directory: &str) -> Vec<String> {
        let paths = super::work::entries(&self.data.path().join("images/store").join(directory)).unwrap();
        let name = |path: std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = paths.into_iter().map(name).collect();
        names.sort();
        names
    }

    /// Lists the images: nothing unfinished, and no layer without an image may remain.
    fn store_entries(&self) -> Vec<String> {
        let known = ["images", "layers", "lock", "new", "tags.json"];
        let mut others = self.listed("");
        others.retain(|name| !known.contains(&name.as_str()) && !name.starts_with("sha256-"));
        assert!(others.is_empty() && self.listed("new").is_empty(), "{others:?}");
        let images: Vec<String> = self.listed("images");
        let flat = self.listed("").into_iter().filter(|name| name.starts_with("sha256-"));
        let needed = self.store.list().into_iter().flat_map(|(image, _)| image.layers);
        let needed: std::collections::BTreeSet<_> = needed.map(|layer| layer.hex().to_owned()).collect();
        assert_eq!(self.listed("layers"), needed.into_iter().collect::<Vec<_>>());
        images.iter().map(|name| format!("sha256-{}", name.trim_end_matches(".json"))).chain(flat).collect()
    }
}

fn layers() -> Vec<Vec<u8>> {
    vec![
        tar_of(&[
            ("./", Dir(0o755)),
            ("bin/", Dir(0o755)),
            ("bin/app", Plain("v1", 0o755)),
            ("bin/same", Hard("bin/app")),
            ("bin/link", Link("app")),
            ("etc/passwd", Plain("root:x:0:0::/root:/bin/sh\n", 0o644)),
            ("lib", Link("usr/lib")),
            ("usr/lib/", Dir(0o755)),
            ("var/cache/old", Plain("old", 0o644)),
            ("var/cache/deep/er", Plain("old", 0o644)),
            ("var/gone", Plain("old", 0o644)),
            ("run", Link("/var/run")),
            ("var/run/", Dir(0o711)),
        ]),
        tar_of(&[
            ("bin/app", Plain("v2", 0o4755)),
            // Through links: they lead to places inside.
            ("lib/new.so", Plain("so", 0o644)),
            ("run/pid", Plain("1", 0o644)),
            ("var/cache/new", Plain("new", 0o600)),
            ("var/cache/.wh..wh..opq", Plain("", 0)),
            ("var/cache/late", Plain("late", 0o644)),
            ("var/.wh.gone", Plain("", 0)),
            ("never/there/.wh.thing", Plain("", 0)),
            ("etc/", Dir(0o700)),
            ("dev/console", Device),
        ]),
    ]
}

fn run_config() -> Value {
    json!({"Entrypoint": ["/bin/app"], "Cmd": ["-x"], "Env": ["PATH=/bin", "A=b=c"], "WorkingDir": "/srv",
        "User": "app:staff", "StopSignal": "SIGINT", "ExposedPorts": {"80/tcp": {}}, "Healthcheck": null})
}

#[test]
fn layers_lie_over_each_other_img_3() {
    for (archive, how) in [
        (docker(&["me/app:v1"], &layers(), &run_config()), "docker"),
        (gzip(&docker(&["me/app:v1"], &layers(), &run_config())), "docker, gzip"),
        (oci("me/app:v1", &layers(), &run_config()), "oci"),
        (gzip(&oci("me/app:v1", &layers(), &run_config())), "oci, gzip"),
        (zstd(&docker(&["me/app:v1"], &layers(), &run_config())), "docker, zstd"),
        (oci_packed_by(zstd, "me/app:v1", &layers(), &run_config()), "oci, layers of zstd"),
    ] {
        let scene = StoreFixture::new();
        let loaded = scene.load(&archive).unwrap();
        assert_eq!(loaded[0].names, ["me/app:v1"], "{how}");
        assert!(loaded[0].notes[0].starts_with("1 device nodes were left out"), "{:?}", loaded[0].notes);
        let expect = [
            ("bin", "dir 755"),
            ("bin/app", "4755 v2"),
            ("bin/link", "-> app"),
            ("bin/same", "755 v1"),
            ("dev", "dir 755"),
            ("etc", "dir 700"),
            ("etc/passwd", "644 root:x:0:0::/root:/bin/sh\n"),
            ("lib", "-> usr/lib"),
            ("run", "-> /var/run"),
            ("usr", "dir 755"),
            ("usr/lib", "dir 755"),
            ("usr/lib/new.so", "644 so"),
            ("var", "dir 755"),
            ("var/cache", "dir 755"),
            ("var/cache/late", "644 late"),
            ("var/cache/new", "600 new"),
            ("var/run", "dir 711"),
            ("var/run/pid", "644 1"),
        ];
        let expect: BTreeMap<_, _> =
            expect.into_iter().map(|(path, what)| (path.to_owned(), what.to_owned())).collect();
        assert_eq!(scene.files("me/app:v1"), expect, "{how}");
        let image = scene.find("docker.io/me/app:v1").unwrap();
        assert_eq!(image.run.entrypoint, ["/bin/app"]);
        assert_eq!((image.run.user.as_str(), image.run.stop_signal.as_str()), ("app:staff", "SIGINT"));
        assert_eq!(image.run.exposed_ports.keys().collect::<Vec<_>>(), ["80/tcp"]);
        let mtime = std::fs::metadata(scene.merged("me/app:v1").path().join("bin/app")).unwrap().mtime();
        assert_eq!(mtime, 1_600_000_000, "{how}");
    }
}

#[test]
fn loading_again_changes_only_names_img_3() {
    let scene = StoreFixture::new();
    let archive = docker(&["app:1", "app:latest"], &layers(), &run_config());
    let first = scene.load(&archive).unwrap();
    assert!(!first[0].was_present && first[0].names == ["app:1", "app:latest"]);
    let again = scene.load(&archive).unwrap();
    assert!(again[0].was_present && again[0].image == first[0].image);
    assert_eq!(scene.store_entries(), [first[0].image.id.replace(':', "-")]);

    // Another name for the same image, and the same name for another image.
    let named = LoadOptions { tag: Some("other.io/x".into()), ..LoadOptions::default() };
    assert_eq!(scene.load_as(&archive, &named).unwrap()[0].names, ["other.io/x:latest"]);
    let second = scene.load(&docker(&["app:latest"], &layers(), &json!(null))).unwrap();
    assert_ne!(second[0].image.id, first[0].image.id);
    let id = |name: &str| scene.find(name).map(|image| image.id);
    assert_eq!(id("app"), Some(second[0].image.id.clone()));
    assert_eq!(id("app:1"), Some(first[0].image.id.clone()));
    assert_eq!(id("other.io/x"), Some(first[0].image.id.clone()));
    assert_eq!(id("app:2"), None);
    assert_eq!(id(&format!("app@{}", first[0].image.id)), Some(first[0].image.id.clone()));
    assert_eq!(id(&format!("nothing@{}", first[0].image.id)), None);
    scene.load(&docker(&["localhost/built:1"], &layers(), &json!({"Cmd": ["built"]}))).unwrap();
    assert!(id("built:1").is_some() && id("docker.io/built:2").is_none());
}

#[test]
fn a_store_that_changes_is_seen_at_once_img_3() {
    let scene = StoreFixture::new();
    let reader = ImageStore::of(scene.data.path());
    let reference = ImageReference::parse("app:1").unwrap();
    assert!(reader.find(&reference).is_none());
    scene.load(&docker(&["app:1"], &layers(), &run_config())).unwrap();
    assert!(reader.find(&reference).is_some());
    scene.store.remove("app:1", |_| None).unwrap();
    assert!(reader.find(&reference).is_none() && reader.list().is_empty());
}

#[test]
fn a_crash_leaves_no_half_image_img_3() {
    let scene = StoreFixture::new();
    let archive = docker(&["app:1"], &layers(), &run_config());
    let id = scene.load(&archive).unwrap()[0].image.id.clone();
    // The process was killed while unpacking: the directory exists, and no name refers to it.
    let half = scene.data.path().join("images/store/unpack-0123/rootfs/bin");
    std::fs::create_dir_all(&half).unwrap();
    // The process was killed before it wrote the name, or the user deleted the files.
    std::fs::remove_dir_all(&scene.store.layer_roots(&scene.find("app:1").unwrap())[0]).unwrap();
    assert!(scene.find("app:1").is_none());
    let again = scene.load(&archive).unwrap();
    assert!(!again[0].was_present);
    assert_eq!(scene.store_entries(), [id.replace(':', "-")]);
    assert!(scene.find("app:1").is_some());
}

#[test]
fn this_machines_image_of_several_is_loaded_img_3() {
    let scene = StoreFixture::new();
    let mut members = Members::default();
    let host_platform = super::platform::Platform::machine();
    let mut of = |architecture: &str, os: &str| {
        let mut manifest = oci_image(&mut members, &layers(), &json!({"Cmd": [architecture]}));
        manifest["platform"] = json!({"os": os, "architecture": architecture});
        manifest
    };
    let manifests = [
        of("unknown", "unknown"),
        of("s390x", "linux"),
        of(&host_platform.architecture, "windows"),
        of(&host_platform.architecture, "linux"),
    ];
    let mut index = members.blob(json!({"manifests": manifests}).to_string());
    index["annotations"] = json!({"io.containerd.image.name": "docker.io/library/multi:1"});
    members.add("index.json", json!({"manifests": [index]}).to_string());
    scene.load(&members.tar()).unwrap();
    let image = scene.find("multi:1").unwrap();
    assert_eq!(image.run.cmd, std::slice::from_ref(&host_platform.architecture));
    // The reference has the manifest's digest, as a pinned reference does.
    let digest = manifests[3]["digest"].as_str().unwrap();
    assert_eq!(image.manifest_digest.as_ref().map(Digest::as_str), Some(digest));
    assert!(scene.find(&format!("multi@{digest}")).is_some());

    let mut members = Members::default();
    let mut other = oci_image(&mut members, &layers(), &json!({}));
    other["platform"] = json!({"os": "linux", "architecture": "s390x"});
    members.add("index.json", json!({"manifests": [other]}).to_string());
    let error = scene.load(&members.tar()).unwrap_err().to_string();
    assert_eq!(error, format!("the archive has no image for {host_platform}; its platforms: linux/s390x"));
}

#[test]
fn an_image_needs_one_name_img_3() {
    let scene = StoreFixture::new();
    let archive = oci("v1", &layers(), &run_config());
    let error = scene.load(&archive).unwrap_err().to_string();
    assert!(error.contains("--tag NAME:TAG"), "{error}");
    let with = |tag: &str| LoadOptions { tag: Some(tag.into()), ..LoadOptions::default() };
    assert_eq!(scene.load_as(&archive, &with("app:v1")).unwrap()[0].names, ["app:v1"]);
    for bad in ["App", "app:v1:v2", ""] {
        assert!(matches!(scene.load_as(&archive, &with(bad)), Err(LoadError::Name { .. })), "{bad:?}");
    }
    let digest = format!("app@sha256:{}", "0".repeat(64));
    assert!(matches!(scene.load_as(&archive, &with(&digest)), Err(LoadError::Names(_))));
}

/// SEC-2: each archive is refused, and leaves nothing behind, inside or outside.
#[test]
fn hostile_layers_are_refused_img_3() {
    let outside = tempfile::tempdir().unwrap();
    let out = outside.path().display().to_string();
    std::fs::write(outside.path().join("file"), "mine").unwrap();
    let absolute = format!("{out}/evil");
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("\"..\"", tar_of(&[("../evil", Plain("x", 0o644))])),
        ("\"..\"", tar_of(&[("a/../../evil", Plain("x", 0o644))])),
        ("not a file of the image", tar_of(&[("hard", Hard("nothing"))])),
        ("\"..\"", tar_of(&[("hard", Hard("../../../../etc/passwd"))])),
        ("whiteout names no file", tar_of(&[("a/.wh...", Plain("", 0))])),
        ("whiteout names no file", tar_of(&[(".wh.", Plain("", 0))])),
        ("not a file of the image", tar_of(&[("dir/", Dir(0o755)), ("hard", Hard("dir"))])),
    ];
    for (expect, layer) in table {
        let scene = StoreFixture::new();
        let error = scene.load(&docker(&["evil:1"], &[layer], &json!({}))).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
        assert!(scene.store_entries().is_empty() && scene.find("evil:1").is_none());
    }
    // Links that lead outside are followed inside of the root, or not at all.
    let escape = tar_of(&[
        ("abs", Link(&out)),
        ("up", Link("../../../../../../../../../../../..")),
        ("proc", Link("/proc/self/root")),
        ("abs/file", Plain("evil", 0o644)),
        ("up/file", Plain("evil", 0o644)),
        ("hard", Link(&format!("{out}/file"))),
        ("harder", Hard("hard")),
        (absolute.as_str(), Plain("inside", 0o644)),
    ]);
    let scene = StoreFixture::new();
    let removal = tar_of(&[("up/abs/.wh.file", Plain("", 0))]);
    scene.load(&docker(&["evil:1"], &[escape, removal], &json!({}))).unwrap();
    assert_eq!(std::fs::read_to_string(outside.path().join("file")).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    let files = scene.files("evil:1");
    assert_eq!(files["file"], "644 evil", "the root's parent is the root");
    assert!(!files.contains_key(&format!("{}/file", &out[1..])), "taken away again: {files:#?}");
    assert_eq!(files["harder"], files["hard"]);
    assert_eq!(files[&absolute[1..]], "644 inside");
}

/// Images that `ko` builds have absolute paths, which begin at the image's root.
#[test]
fn absolute_paths_begin_at_the_root_img_3() {
    let lower = tar_of(&[
        ("/ko-app", Dir(0o755)),
        ("/ko-app/server", Plain("go", 0o755)),
        ("/ko-app/old", Plain("old", 0o644)),
    ]);
    let upper = tar_of(&[("/ko-app/same", Hard("/ko-app/server")), ("/ko-app/.wh.old", Plain("", 0))]);
    let scene = StoreFixture::new();
    scene.load(&oci("ko:1", &[lower, upper], &json!({}))).unwrap();
    let files: Vec<(String, String)> = scene.files("ko:1").into_iter().collect();
    let expect = [("ko-app", "dir 755"), ("ko-app/same", "755 go"), ("ko-app/server", "755 go")];
    assert_eq!(files, expect.map(|(path, what)| (path.to_owned(), what.to_owned())));
}

#[test]
fn too_much_is_refused_img_3() {
    let big = "x".repeat(100_000);
    let layer = tar_of(&[("a", Plain(&big, 0o644)), ("b", Plain(&big, 0o644))]);
    let limited = |limits: Limits| LoadOptions { limits, ..LoadOptions::default() };
    let table = [
        Limits { unpacked_bytes: 150_000, ..Limits::default() },
        Limits { entries: 1, ..Limits::default() },
        Limits { layers: 0, ..Limits::default() },
        Limits { members: 2, ..Limits::default() },
        Limits { document_bytes: 10, ..Limits::default() },
    ];
    for limits in table {
        let scene = StoreFixture::new();
        let archive = docker(&["big:1"], std::slice::from_ref(&layer), &json!({}));
        let oci = oci_packed_by(zstd, "big:1", std::slice::from_ref(&layer), &json!({}));
        for archive in [gzip(&archive), zstd(&archive), oci] {
            let error = scene.load_as(&archive, &limited(limits.clone())).unwrap_err();
            assert!(matches!(error, LoadError::TooLarge(_)), "{error}");
            assert!(scene.store_entries().is_empty());
        }
    }
    // A name of many megabytes is not read into memory.
    let mut long = Header::new_gnu();
    long.set_entry_type(EntryType::GNULongName);
    long.set_size(5 << 20);
    long.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&long, std::io::Read::take(std::io::repeat(b'a'), 5 << 20)).unwrap();
    let layer = builder.into_inner().unwrap();
    let error = StoreFixture::new().load(&oci("long:1", &[layer], &json!({}))).unwrap_err().to_string();
    assert!(error.contains("larger than allowed"), "{error}");
}

#[test]
fn a_damaged_archive_is_refused_img_3() {
    let scene = StoreFixture::new();
    let good = docker(&["app:1"], &layers(), &run_config());
    let change = |from: &[u8], to: &[u8]| {
        let mut bytes = good.clone();
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let broken_layer = change(b"root:x:0:0", b"evil:x:0:0");
    let broken_config = change(b"/bin/app", b"/bin/bad");
    for archive in [broken_layer, broken_config] {
        let error = scene.load(&archive).unwrap_err();
        assert!(matches!(error, LoadError::Digest { .. }), "{error}");
    }
    let mut empty = Members::default();
    empty.add("manifest.json", b"[]".to_vec());
    let table: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "neither a manifest.json"),
        (b"hello, I am no archive".to_vec(), "not a valid image archive"),
        (good[..good.len() / 2].to_vec(), ""),
        (gzip(&good)[..1000].to_vec(), "cannot read the whole archive"),
        (zstd(&good)[..1000].to_vec(), "cannot read the whole archive"),
        (empty.tar(), "contains no image"),
        ([0x28, 0xb5, 0x2f, 0xfd, 0, 0].to_vec(), "zstd"),
        (docker(&["app:1"], &[vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0]], &json!({})), "zstd"),
    ];
    for (archive, expect) in table {
        let error = scene.load(&archive).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
    assert!(scene.store_entries().is_empty());
}

#[test]
fn a_shared_layer_may_be_a_link_img_3() {
    let scene = StoreFixture::new();
    let layer = tar_of(&[("file", Plain("x", 0o644))]);
    let configuration = configuration(std::slice::from_ref(&layer), &json!({}));
    let mut builder = Builder::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, bytes).unwrap();
    };
    add("one/layer.tar", &layer);
    add("c.json", &configuration);
    let manifest = json!([{"Config": "c.json", "RepoTags": ["l:1"], "Layers": ["two/layer.tar"]}]);
    add("manifest.json", manifest.to_string().as_bytes());
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "two/layer.tar", Path::new("../one/layer.tar")).unwrap();
    scene.load(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(scene.files("l:1")["file"], "644 x");
}

#[test]
fn a_removed_name_takes_the_image_with_the_last_img_3() {
    let scene = StoreFixture::new();
    let archive = docker(&["app:1", "app:2"], &layers(), &run_config());
    let id = scene.load(&archive).unwrap()[0].image.id.clone();
    let used = |_: &StoredImage| Some("container a of pod default/p".to_owned());
    // One of two names may be removed while the image is in use; the last one may not.
    assert_eq!(scene.store.remove("app:1", used).unwrap(), ["app:1"]);
    let error = scene.store.remove("app:2", used).unwrap_err().to_string();
    assert_eq!(error, "image app:2 is in use by container a of pod default/p; delete the pod first");
    assert!(scene.store.remove(&id[7..19], used).is_err());
    assert!(scene.find("app:2").is_some());
    assert!(matches!(scene.store.remove("app:3", |_| None), Err(RemoveError::Unknown(_))));
    assert_eq!(scene.store.remove(&id[7..19], |_| None).unwrap(), ["app:2".to_owned(), id]);
    assert!(scene.store_entries().is_empty() && scene.store.list().is_empty());
}

/// DEV-5, IMG-3: an image that is in use stays with its name, and one with another name loses only the removed one.
#[test]
fn names_are_removed_together_unless_their_image_is_in_use_dev_5_img_3() {
    let scene = StoreFixture::new();
    let load = |names: &[&str], program: &str| {
        let archive = docker(names, &layers(), &json!({"Entrypoint": [program]}));
        scene.load(&archive).unwrap()[0].image.id.clone()
    };
    let used = load(&["app:dev-1"], "one");
    load(&["app:dev-2"], "two");
    load(&["app:dev-3", "shop:v1"], "three");
    let names = ["app:dev-1", "app:dev-2", "app:dev-3", "app:dev-4"].map(str::to_owned);
    let gone = scene.store.remove_names(&names, |image| image.id == used).unwrap();
    assert_eq!(gone, names[1..]);
    let left: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| scene.find(name).is_some()).collect();
    assert_eq!(left, ["app:dev-1"]);
    assert!(scene.find("shop:v1").is_some());
    assert_eq!(scene.store.list().len(), 2);
}
