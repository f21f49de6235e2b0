//! Writers that crash, fail, or work at the same time; and the removal of images.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use base::clock::Clock;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};

use super::*;

fn packed(diff_id: &Digest) -> PackedLayer<'_> {
    PackedLayer { name: "of the test", diff_id, digest: None }
}

fn description(text: &str) -> ImageDescription {
    let (description, _, _) = ImageDescription::read(&configuration(&[], &json!({"Cmd": [text]}))).unwrap();
    description
}

fn reference(name: &str) -> ImageReference {
    ImageReference::parse(name).unwrap()
}

/// SAFE-7, IMG-3: what a killed writer left is removed; what a living one has is not.
#[test]
fn the_remains_of_killed_writers_are_removed_img_3() {
    let scene = StoreFixture::new();
    let new = scene.data.path().join("images/store/new");
    let layer = tar_of(&[("a", Plain("x", 0o644))]);
    let diff_id = Digest::of(&layer);
    let mut writer = scene.store.writer(&Limits::default()).unwrap();
    fs::write(writer.directory().join("blob"), "half").unwrap();
    for (name, holder) in [("killed", true), ("killed-early", false)] {
        let locked = new.join(name).join("layer/root/locked");
        fs::create_dir_all(&locked).unwrap();
        fs::write(locked.join("file"), "x").unwrap();
        symlink("/etc", locked.join("link")).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        if holder {
            File::create(new.join(name).join("holder")).unwrap();
        }
    }
    // The unfinished image of an earlier version.
    fs::create_dir_all(scene.data.path().join("images/store/unpack-0123/rootfs/bin")).unwrap();
    let other = ImageStore::of(scene.data.path());
    other.prune(|_| false).unwrap();
    assert_eq!(scene.listed("new").len(), 1);
    assert!(!scene.listed("").iter().any(|name| name.starts_with("unpack-")));
    assert!(writer.directory().join("blob").exists() && fs::metadata("/etc").unwrap().is_dir());
    writer.add_layer(packed(&diff_id), layer.as_slice()).unwrap();
    writer.add_image(description("x"), &[reference("app")]).unwrap();
    assert_eq!(scene.store_entries().len(), 1);
}

/// A reader that fails after some bytes, as a connection or a full disk does.
struct FailingReader<'a>(&'a [u8], io::ErrorKind);

impl Read for FailingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(self.1.into()) } else { self.0.read(buffer) }
    }
}

/// A layer that fails leaves nothing, and can be added again by the same writer.
#[test]
fn a_failed_layer_leaves_nothing_and_can_be_repeated_img_3() {
    let scene = StoreFixture::new();
    let text = "x".repeat(3000);
    let layer = tar_of(&[("a", Plain(&text, 0o644)), ("b", Plain(&text, 0o644))]);
    let diff_id = Digest::of(&layer);
    // The limits allow the layer once: what a failed attempt unpacked does not count.
    let mut writer = scene.store.writer(&Limits { unpacked_bytes: 6000, ..Limits::default() }).unwrap();
    for cut in [0, 100, 600, 2000, 5000] {
        let failed =
            writer.add_layer(packed(&diff_id), FailingReader(&layer[..cut], io::ErrorKind::ConnectionReset));
        assert!(failed.is_err(), "{cut}");
        assert!(scene.listed("layers").is_empty(), "{cut}");
        assert!(!writer.directory().join("layer").exists(), "{cut}");
    }
    let wrong = Digest::of(b"wrong");
    let as_packed = PackedLayer { digest: Some(&wrong), ..packed(&diff_id) };
    for packed in [packed(&wrong), as_packed] {
        let error = writer.add_layer(packed, layer.as_slice()).unwrap_err();
        assert!(matches!(error, LoadError::Digest { .. }), "{error}");
    }
    assert!(!writer.add_layer(packed(&diff_id), layer.as_slice()).unwrap().was_present);
    drop(writer);
    assert!(scene.listed("new").is_empty());
}

/// Several pulls may add the same layers at once; each gets its image.
#[test]
fn writers_add_the_same_layers_at_once_img_3() {
    let scene = StoreFixture::new();
    let layers: Vec<Vec<u8>> = (0..5)
        .map(|number| {
            let name = format!("file-{number}");
            tar_of(&[(&name, Plain("x", 0o644)), (".wh.file-0", Plain("", 0))])
        })
        .collect();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (store, layers) = (ImageStore::of(scene.data.path()), &layers);
            scope.spawn(move || {
                let mut writer = store.writer(&Limits::default()).unwrap();
                for layer in layers {
                    // Without a look whether it is there.
                    writer.add_layer(packed(&Digest::of(layer)), layer.as_slice()).unwrap();
                    store.prune(|_| false).unwrap();
                }
                let name = reference(&format!("app:{number}"));
                writer.add_image(description(&number.to_string()), &[name]).unwrap();
            });
        }
    });
    assert_eq!(scene.store_entries().len(), 6);
    assert_eq!(scene.listed("layers").len(), 5);
    assert_eq!(scene.files("app:3").len(), 4);
}

/// A layer that has no image yet stays for its writer, and only for it.
#[test]
fn a_writers_layers_are_not_removed_img_3() {
    let scene = StoreFixture::new();
    let layer = tar_of(&[("a", Plain("x", 0o644))]);
    let diff_id = Digest::of(&layer);
    let mut first = scene.store.writer(&Limits::default()).unwrap();
    first.add_layer(packed(&diff_id), layer.as_slice()).unwrap();
    let mut second = scene.store.writer(&Limits::default()).unwrap();
    assert!(second.reuse_layer(&diff_id).unwrap());
    drop(first);
    scene.store.prune(|_| true).unwrap();
    assert_eq!(scene.listed("layers").len(), 1);
    drop(second);
    scene.store.prune(|_| true).unwrap();
    assert!(scene.listed("layers").is_empty());
    let mut late = scene.store.writer(&Limits::default()).unwrap();
    assert!(!late.reuse_layer(&diff_id).unwrap());
}

/// Nothing is lost for a record that this version cannot read.
#[test]
fn an_unreadable_record_keeps_all_layers_img_3() {
    let scene = StoreFixture::new();
    scene.load(&docker(&["app:1"], &layers(), &run_config())).unwrap();
    scene.load(&docker(&["app:2"], &layers()[..1], &run_config())).unwrap();
    let record = scene.data.path().join("images/store/images").join(&scene.listed("images")[0]);
    fs::write(&record, "{").unwrap();
    let before = scene.listed("layers");
    ImageStore::of(scene.data.path()).prune(|_| true).unwrap();
    assert_eq!((scene.listed("layers"), scene.listed("images").len()), (before, 1));
    fs::remove_file(record).unwrap();
    ImageStore::of(scene.data.path()).prune(|_| true).unwrap();
    assert!(scene.store_entries().is_empty());
}

/// An image as earlier versions stored it is found, used and removed.
#[test]
fn a_flattened_image_of_an_earlier_version_works_img_3() {
    let scene = StoreFixture::new();
    let store = scene.data.path().join("images/store");
    let (id, manifest) = (Digest::of(b"configuration"), Digest::of(b"manifest"));
    let image = store.join(format!("sha256-{}", id.hex()));
    fs::create_dir_all(image.join("rootfs/etc/closed")).unwrap();
    fs::write(image.join("rootfs/etc/closed/file"), "x").unwrap();
    fs::set_permissions(image.join("rootfs/etc/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::write(store.join("lock"), "").unwrap();
    let record = format!(
        r#"{{"id": "{id}", "manifestDigest": "{manifest}", "platform": "linux/amd64", "sizeBytes": 7,
            "run": {{"entrypoint": [], "cmd": ["/app"], "env": [], "workingDir": "", "user": "", "stopSignal": "",
            "exposedPorts": {{}}}}}}"#
    );
    fs::write(image.join("image.json"), record).unwrap();
    fs::write(store.join("tags.json"), format!(r#"{{"old:1": "{id}"}}"#)).unwrap();
    let found = scene.find("old:1").unwrap();
    assert_eq!((found.id.as_str(), found.size_bytes, found.run.cmd.len()), (id.as_str(), 7, 1));
    assert!(scene.find(&format!("old@{manifest}")).is_some() && scene.find(&format!("old@{id}")).is_some());
    assert_eq!(scene.store.layer_roots(&found), [image.join("rootfs")]);
    scene.store.touch(&found.id).unwrap();
    let used = scene.store.usage();
    assert_eq!((used.len(), used[0].own_bytes), (1, 7));

    // Images with layers live beside it.
    scene.load(&docker(&["new:1"], &layers(), &run_config())).unwrap();
    assert_eq!(scene.store.list().len(), 2);
    let named = scene.store.add_names_to(id.as_str(), &[reference("old:2")], Provenance::Loaded).unwrap();
    assert_eq!(named.map(|image| image.id), Some(id.to_string()));
    assert_eq!(scene.store.remove("old:1", |_| None).unwrap(), ["old:1"]);
    assert_eq!(scene.store.remove("old:2", |_| None).unwrap(), ["old:2", id.as_str()]);
    assert!(!image.exists() && scene.store_entries().len() == 1);
}

/// Whole layers of a pull that failed stay for a while, for its next attempt.
#[test]
fn layers_of_failed_pulls_go_after_a_while_img_10() {
    let scene = StoreFixture::new();
    scene.load(&docker(&["a:1"], &layers(), &run_config())).unwrap();
    let of_images = scene.listed("layers");
    let mut writer = scene.store.writer(&Limits::default()).unwrap();
    let orphan = tar_of(&[("orphan", Plain("123", 0o644))]);
    let packed = PackedLayer { name: "orphan", diff_id: &Digest::of(&orphan), digest: None };
    writer.add_layer(packed, orphan.as_slice()).unwrap();
    let hour = Duration::from_hours(1);
    let later = Clock::machine().now() + Duration::from_hours(2);
    assert_eq!(scene.store.remove_unused_layers(later, hour).unwrap(), 0, "the writer lives");
    drop(writer);
    assert_eq!(scene.store.remove_unused_layers(Clock::machine().now(), hour).unwrap(), 0, "it is young");
    assert_eq!(scene.store.remove_unused_layers(later, hour).unwrap(), 1);
    assert_eq!(scene.listed("layers"), of_images);
    assert_eq!(scene.store.remove_unused_layers(later, hour).unwrap(), 0);
}

/// Garbage collection sees the image first that was not used for the longest time.
#[test]
fn unused_images_come_first_img_3() {
    let scene = StoreFixture::new();
    let base = tar_of(&[("base", Plain("12345", 0o644))]);
    for name in ["a", "b", "c"] {
        let own = tar_of(&[(name, Plain("123", 0o644))]);
        let archive = docker(&[&format!("{name}:1")], &[base.clone(), own], &json!({}));
        scene.load(&archive).unwrap();
    }
    let age = |name: &str, days: u64| {
        let record = scene.store.record_path(&scene.find(name).unwrap());
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400);
        File::options().write(true).open(record).unwrap().set_modified(time).unwrap();
    };
    let order = || -> Vec<String> { scene.store.usage().into_iter().flat_map(|one| one.names).collect() };
    for (name, days) in [("a:1", 30), ("b:1", 10), ("c:1", 20)] {
        age(name, days);
    }
    assert_eq!(order(), ["b:1", "c:1", "a:1"]);
    scene.store.touch(&scene.find("b:1").unwrap().id).unwrap();
    assert_eq!(order(), ["c:1", "a:1", "b:1"]);
    let used = &scene.store.usage()[0];
    assert_eq!((used.image.size_bytes, used.own_bytes), (8, 3), "the lower layer is not its own");
    assert!(used.last_used < Timestamp::from_second(40 * 86_400).unwrap() && used.image.added_at.is_some());
    let removed = scene.store.prune(|image| image.id == used.image.id).unwrap();
    assert_eq!(removed.len(), 1);
    assert_eq!(order(), ["a:1", "b:1"]);
}

/// A pulled image is found by the digest of its manifest, in the repositories that it came from.
#[test]
fn an_image_has_digests_in_its_repositories_img_3() {
    let scene = StoreFixture::new();
    let (index, manifest) = (Digest::of(b"index"), Digest::of(b"manifest"));
    let writer = scene.store.writer(&Limits::default()).unwrap();
    let description = ImageDescription { manifest_digest: Some(manifest.clone()), ..description("x") };
    let names = [reference("reg.io/app:1"), reference(&format!("reg.io/app@{index}"))];
    let image = writer.add_image(description, &names).unwrap();
    for name in ["reg.io/app:1".to_owned(), format!("reg.io/app@{index}"), format!("reg.io/app@{manifest}")] {
        assert_eq!(scene.find(&name), Some(image.clone()), "{name}");
    }
    // A tag beside a digest has no meaning; another repository has another image.
    assert!(scene.find(&format!("reg.io/app:2@{index}")).is_some());
    assert!(scene.find(&format!("other@{index}")).is_none() && scene.find("app:1").is_none());
    let mut digests = [format!("reg.io/app@{index}"), format!("reg.io/app@{manifest}")];
    digests.sort();
    assert_eq!(scene.store.repository_digests(&image.id), digests);
    assert_eq!(scene.store.list()[0].1, ["reg.io/app:1"]);
    // The tag takes them with it, but not those of another repository.
    let pulled = reference(&format!("other.io/app@{index}"));
    scene.store.add_names_to(&image.id, std::slice::from_ref(&pulled), Provenance::Pulled).unwrap();
    assert_eq!(scene.store.remove("reg.io/app:1", |_| None).unwrap(), ["reg.io/app:1"]);
    assert!(scene.find(&format!("reg.io/app@{index}")).is_none());
    assert!(scene.find(&pulled.to_string()).is_some());
    assert_eq!(scene.store.remove(&image.id, |_| None).unwrap().last(), Some(&image.id));
    assert!(scene.store_entries().is_empty());
}

/// An image without layers has an empty root file system.
#[test]
fn an_image_may_have_no_layers_img_3() {
    let scene = StoreFixture::new();
    scene.load(&docker(&["empty:1"], &[], &json!({}))).unwrap();
    assert!(scene.files("empty:1").is_empty());
    assert_eq!(scene.store_entries().len(), 1);
}

/// A removal waits for no other one, and a writer's lock is its own.
#[test]
fn the_lock_of_the_store_is_held_for_moments_only_img_3() {
    let scene = StoreFixture::new();
    let writer = scene.store.writer(&Limits::default()).unwrap();
    let lock = File::options().append(true).open(scene.data.path().join("images/store/lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    flock(&lock, FlockOperation::Unlock).unwrap();
    drop(writer);
}
