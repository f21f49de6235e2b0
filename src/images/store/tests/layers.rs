//! Layers over each other: each table gives the entries of layers, and the tree that they amount to. Every case is
//! unpacked with overlayfs' whiteouts, and flattened as where the file system refuses them.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::store::layer_tree::WhiteoutForm;

/// A case's name, its layers' entries, and the tree.
type Case<'a> = (&'a str, Vec<Vec<(&'a str, TestEntry<'a>)>>, &'a [&'a str]);

/// Adds layers as an image `NAME:latest`.
fn add(
    store: &ImageStore,
    name: &str,
    layers: &[Vec<u8>],
    form: WhiteoutForm,
) -> Result<StoredImage, LoadError> {
    add_within(store, name, layers, form, &Limits::default())
}

fn add_within(
    store: &ImageStore,
    name: &str,
    layers: &[Vec<u8>],
    form: WhiteoutForm,
    limits: &Limits,
) -> Result<StoredImage, LoadError> {
    let mut writer = store.writer(limits)?;
    writer.whiteouts = form;
    for layer in layers {
        let diff_id = Digest::of(layer);
        if !writer.reuse_layer(&diff_id)? {
            let packed = PackedLayer { name: "of the test", diff_id: &diff_id, digest: Some(&diff_id) };
            writer.add_layer(packed, layer.as_slice())?;
        }
    }
    let configuration = configuration(layers, &json!({"Cmd": [name]}));
    let (description, _, _) = ImageDescription::read(&configuration).unwrap();
    writer.add_image(description, &[ImageReference::parse(name).unwrap()])
}

/// Formats a tree as `path: kind`, without the directories' modes.
fn shown(scene: &StoreFixture, name: &str) -> Vec<String> {
    let files = scene.files(name).into_iter();
    files
        .map(
            |(path, what)| {
                if what.starts_with("dir ") { format!("{path}/") } else { format!("{path}: {what}") }
            },
        )
        .collect()
}

#[test]
fn upper_layers_change_what_lower_ones_have_img_3() {
    let file = |text: &'static str| Plain(text, 0o644);
    let table: Vec<Case<'_>> = vec![
        (
            "a file over a directory, and a directory over that file",
            vec![
                vec![("d/", Dir(0o755)), ("d/old", file("old"))],
                vec![("d", file("now a file"))],
                vec![("d/", Dir(0o755)), ("d/new", file("new"))],
            ],
            &["d/", "d/new: 644 new"],
        ),
        (
            "a directory over a file",
            vec![vec![("x", file("file"))], vec![("x/", Dir(0o755)), ("x/y", file("y"))]],
            &["x/", "x/y: 644 y"],
        ),
        (
            "a link over a directory, and entries through it",
            vec![
                vec![("a/", Dir(0o755)), ("a/old", file("old")), ("b/", Dir(0o755))],
                vec![("a", Link("b")), ("a/new", file("new"))],
            ],
            &["a: -> b", "b/", "b/new: 644 new"],
        ),
        (
            "a file that becomes a directory within one layer",
            vec![
                vec![("d/", Dir(0o755)), ("d/old", file("old"))],
                vec![("d", file("for a moment")), ("d/", Dir(0o755)), ("d/new", file("new"))],
            ],
            &["d/", "d/new: 644 new"],
        ),
        (
            "a directory whose whiteout the same layer has, before and after its own entries",
            vec![
                vec![("a/x/old", file("old")), ("b/x/old", file("old")), ("c/old", file("old"))],
                vec![
                    ("a/.wh.x", file("")),
                    ("a/x/new", file("new")),
                    ("b/x/new", file("new")),
                    ("b/.wh.x", file("")),
                    ("c/.wh.old", file("")),
                    ("c/old", file("again")),
                ],
            ],
            &["a/", "a/x/", "a/x/new: 644 new", "b/", "b/x/", "b/x/new: 644 new", "c/", "c/old: 644 again"],
        ),
        (
            "what was removed stays removed below a later layer",
            vec![
                vec![("d/old", file("old")), ("d/deep/old", file("old")), ("f", file("f"))],
                vec![(".wh.d", file("")), (".wh.f", file("")), (".wh.nothing", file(""))],
                vec![("d/new", file("new"))],
            ],
            &["d/", "d/new: 644 new"],
        ),
        (
            "an opaque directory, before and after entries of it",
            vec![
                vec![("d/old", file("old")), ("d/deep/old", file("old")), ("e/deep/old", file("old"))],
                vec![
                    ("d/.wh..wh..opq", file("")),
                    ("d/deep/new", file("new")),
                    ("e/deep/new", file("new")),
                    ("e/.wh..wh..opq", file("")),
                    ("nothing/.wh..wh..opq", file("")),
                ],
            ],
            &["d/", "d/deep/", "d/deep/new: 644 new", "e/", "e/deep/", "e/deep/new: 644 new"],
        ),
        (
            "an opaque root",
            vec![
                vec![("d/old", file("old")), ("gone", file("old"))],
                vec![("early", file("e")), (".wh..wh..opq", file("")), ("d/new", file("new"))],
            ],
            &["d/", "d/new: 644 new", "early: 644 e"],
        ),
        (
            "whiteouts and entries through a lower layer's links",
            vec![
                vec![
                    ("usr/lib/", Dir(0o755)),
                    ("usr/lib/a", file("a")),
                    ("lib", Link("usr/lib")),
                    ("up", Link("../../usr")),
                    ("loop", Link("loop")),
                ],
                vec![
                    ("lib/.wh.a", file("")),
                    ("lib/b", file("b")),
                    ("up/c", file("c")),
                    ("loop/.wh.x", file("")),
                ],
            ],
            &[
                "lib: -> usr/lib", "loop: -> loop", "up: -> ../../usr", "usr/", "usr/c: 644 c", "usr/lib/",
                "usr/lib/b: 644 b",
            ],
        ),
        (
            "devices change nothing",
            vec![
                vec![("etc/shadow", file("s")), ("d/x", file("x"))],
                vec![("etc/shadow", Device), ("d", Device), ("etc/none", Device)],
            ],
            &["d/", "d/x: 644 x", "etc/", "etc/shadow: 644 s"],
        ),
    ];
    for (what, layers, expect) in table {
        let layers: Vec<Vec<u8>> = layers.iter().map(|entries| tar_of(entries)).collect();
        for form in [WhiteoutForm::Device, WhiteoutForm::Socket] {
            let scene = StoreFixture::new();
            add(&scene.store, "app", &layers, form).unwrap();
            assert_eq!(shown(&scene, "app"), expect, "{what} ({form:?})");
            // As an archive, too, whose layers are compressed.
            scene.load(&oci("app:2", &layers, &json!({}))).unwrap();
            assert_eq!(shown(&scene, "app:2"), expect, "{what} (archive)");
        }
    }
}

/// A directory that only lower layers have keeps its attributes when an upper one writes into it, and its time is not
/// that of the unpacking.
#[test]
fn directories_keep_their_attributes_img_3() {
    let scene = StoreFixture::new();
    let lower = tar_of(&[
        ("./", Dir(0o711)),
        ("a/", Dir(0o2775)),
        ("a/b/", Dir(0o700)),
        ("a/b/old", Plain("old", 0o644)),
    ]);
    let upper = tar_of(&[("a/b/new", Plain("new", 0o644)), ("a/b/.wh.old", Plain("", 0))]);
    let image = add(&scene.store, "app", &[lower, upper], WhiteoutForm::Device).unwrap();
    let root = &scene.store.layer_roots(&image)[0];
    for (path, mode) in [("", 0o711), ("a", 0o2775), ("a/b", 0o700)] {
        let about = std::fs::metadata(root.join(path)).unwrap();
        assert_eq!((about.mode() & 0o7777, about.mtime()), (mode, 1_600_000_000), "{path:?}");
    }
    // The whiteout is in overlayfs' form.
    let whiteout = std::fs::symlink_metadata(root.join("a/b/old")).unwrap();
    assert!(base::layers::is_whiteout(&whiteout) && whiteout.rdev() == 0);
}

/// A pipe has its mode, which the umask does not restrict; pipes and links have their times.
#[test]
fn pipes_and_links_have_their_modes_and_times_img_3() {
    let scene = StoreFixture::new();
    let layer = tar_of(&[("pipe", Fifo(0o666)), ("link", Link("pipe"))]);
    let image = add(&scene.store, "app", &[layer], WhiteoutForm::Device).unwrap();
    let root = &scene.store.layer_roots(&image)[0];
    for (name, mode) in [("pipe", 0o666), ("link", 0o777)] {
        let about = std::fs::symlink_metadata(root.join(name)).unwrap();
        assert_eq!((about.mode() & 0o777, about.mtime()), (mode, 1_600_000_000), "{name}");
    }
}

/// A hard link to a file of a lower layer shares one copy with that file's name, as overlayfs has it.
#[test]
fn a_hard_link_reaches_lower_layers_img_3() {
    for form in [WhiteoutForm::Device, WhiteoutForm::Socket] {
        let scene = StoreFixture::new();
        let lower = tar_of(&[
            ("usr/bin/tool", Plain("tool", 0o4755)),
            ("bin", Link("usr/bin")),
            ("link", Link("nowhere")),
            ("gone", Plain("x", 0o644)),
        ]);
        let upper = tar_of(&[
            ("usr/bin/same", Hard("bin/tool")),
            ("again", Hard("usr/bin/tool")),
            ("link2", Hard("link")),
            (".wh.gone", Plain("", 0)),
        ]);
        add(&scene.store, "app", &[lower.clone(), upper], form).unwrap();
        let expect = [
            "again: 4755 tool", "bin: -> usr/bin", "link: -> nowhere", "link2: -> nowhere", "usr/",
            "usr/bin/", "usr/bin/same: 4755 tool", "usr/bin/tool: 4755 tool",
        ];
        assert_eq!(shown(&scene, "app"), expect);
        let merged = scene.merged("app");
        let inode = |path: &str| std::fs::metadata(merged.path().join(path)).unwrap().ino();
        assert_eq!((inode("again"), inode("usr/bin/same")), (inode("usr/bin/tool"), inode("usr/bin/tool")));

        for target in ["gone", "usr", "nothing", "usr/bin/tool/x"] {
            let upper = tar_of(&[(".wh.gone", Plain("", 0)), ("hard", Hard(target))]);
            let error = add(&scene.store, "bad", &[lower.clone(), upper], form).unwrap_err();
            assert!(matches!(error, LoadError::Unsafe { .. }), "{target}: {error}");
        }
    }
}

/// SEC-2: attributes that would change the meaning of files for the kernel are not taken from an archive.
#[test]
fn attributes_of_overlays_are_left_out_img_3() {
    let mut builder = Builder::new(Vec::new());
    let names = [
        "user.mine", "user.overlay.opaque", "user.overlay.metacopy", "user.overlay.redirect",
        "trusted.overlay.redirect", "security.selinux",
    ];
    let attributes: Vec<(String, &[u8])> =
        names.iter().map(|name| (format!("SCHILY.xattr.{name}"), &b"y"[..])).collect();
    builder.append_pax_extensions(attributes.iter().map(|(name, value)| (name.as_str(), *value))).unwrap();
    let mut header = Header::new_ustar();
    header.set_size(0);
    header.set_mode(0o644);
    builder.append_data(&mut header, "file", &b""[..]).unwrap();
    let scene = StoreFixture::new();
    let layer = builder.into_inner().unwrap();
    let image = add(&scene.store, "app", &[layer], WhiteoutForm::Device).unwrap();
    let file = scene.store.layer_roots(&image)[0].join("file");
    let mut buffer = vec![0; 4096];
    let length = rustix::fs::llistxattr(&file, &mut buffer).unwrap();
    let found = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(!found.contains("overlay") && !found.contains("selinux"), "{found}");
}

/// A sparse file has its holes, and an entry that cannot be unpacked is refused and not left out.
#[test]
fn sparse_files_are_unpacked_and_unknown_entries_refused_img_3() {
    let entry = |kind: EntryType, change: &dyn Fn(&mut Header)| {
        let mut header = Header::new_gnu();
        header.set_path("file").unwrap();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(3);
        change(&mut header);
        header.set_cksum();
        header
    };
    let with_hole = |header: &mut Header| {
        let gnu = header.as_gnu_mut().unwrap();
        gnu.set_real_size(1027);
        gnu.sparse[0].offset = *b"00000002000\0";
        gnu.sparse[0].numbytes = *b"00000000003\0";
    };
    let scene = StoreFixture::new();
    let mut builder = Builder::new(Vec::new());
    builder.append(&entry(EntryType::XGlobalHeader, &|_| {}), &b"x=y"[..]).unwrap();
    builder.append(&entry(EntryType::GNUSparse, &with_hole), &b"end"[..]).unwrap();
    let image = add(&scene.store, "app", &[builder.into_inner().unwrap()], WhiteoutForm::Device).unwrap();
    let content = std::fs::read(scene.store.layer_roots(&image)[0].join("file")).unwrap();
    assert_eq!(content, [&[0; 1024][..], b"end"].concat());
    assert_eq!(image.size_bytes, 1027);

    let mut in_pax = Builder::new(Vec::new());
    in_pax.append_pax_extensions([("GNU.sparse.major", &b"1"[..])]).unwrap();
    in_pax.append(&entry(EntryType::Regular, &|_| {}), &b"0\nx"[..]).unwrap();
    let mut unknown = Builder::new(Vec::new());
    unknown.append(&entry(EntryType::new(b'V'), &|_| {}), &b"abc"[..]).unwrap();
    for (layer, expect) in [(in_pax, "not in PAX format"), (unknown, "its type is unknown")] {
        let layers = [layer.into_inner().unwrap()];
        let error = add(&scene.store, "bad", &layers, WhiteoutForm::Device).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

/// The limits are for all layers of an image together, including those that the store already has.
#[test]
fn limits_cover_all_layers_of_an_image_img_3() {
    let scene = StoreFixture::new();
    let text = "x".repeat(1000);
    let layers: Vec<_> = ["a", "b", "c"].map(|name| tar_of(&[(name, Plain(&text, 0o644))])).into();
    let form = WhiteoutForm::Device;
    let within = |limits: Limits, layers: &[Vec<u8>]| add_within(&scene.store, "app", layers, form, &limits);
    let bytes = |count| Limits { unpacked_bytes: count, ..Limits::default() };
    let entries = |count| Limits { entries: count, ..Limits::default() };
    for (limits, possible) in [
        (bytes(2500), false),
        (entries(2), false),
        (Limits { layers: 2, ..Limits::default() }, false),
        (bytes(3000), true),
        // Now every layer is there.
        (bytes(2500), false),
        (entries(2), false),
        (entries(3), true),
    ] {
        let added = within(limits.clone(), &layers);
        assert_eq!(added.is_ok(), possible, "{limits:?}");
        assert!(possible || matches!(added, Err(LoadError::TooLarge(_))));
    }
    let image = scene.find("app").unwrap();
    assert_eq!((image.size_bytes, image.layers.len(), image.diff_ids.len()), (3000, 3, 3));
    // Directories count that no entry names.
    let deep = tar_of(&[("a/b/c/d/e/f", Plain("x", 0o644))]);
    assert!(within(entries(5), std::slice::from_ref(&deep)).is_err() && within(entries(6), &[deep]).is_ok());
}

/// SEC-2: an image of very many layers is refused before any is unpacked.
#[test]
fn too_many_layers_are_refused_img_3() {
    let mut members = Members::default();
    let layer = tar_of(&[("a", Plain("x", 0o644))]);
    let config = members.blob(configuration(&vec![layer.clone(); 10_000], &json!({})));
    let layer = members.blob(layer);
    let mut manifest = members.blob(json!({"config": config, "layers": vec![layer; 10_000]}).to_string());
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": "many:1"});
    members.add("index.json", json!({"manifests": [manifest]}).to_string());
    let scene = StoreFixture::new();
    let error = scene.load(&members.tar()).unwrap_err();
    assert!(matches!(error, LoadError::TooLarge(_)), "{error}");
    assert!(scene.store_entries().is_empty());
}

/// The same layer over others is another layer, and below others the same one.
#[test]
fn images_share_their_lowest_layers_img_3() {
    let scene = StoreFixture::new();
    let layer = |name: &str| tar_of(&[(name, Plain(name, 0o644))]);
    let (a, b, c) = (layer("a"), layer("b"), layer("c"));
    let form = WhiteoutForm::Device;
    let one = add(&scene.store, "one", &[a.clone(), b.clone()], form).unwrap();
    let two = add(&scene.store, "two", &[a.clone(), c.clone()], form).unwrap();
    let three = add(&scene.store, "three", &[c, b], form).unwrap();
    assert_eq!(one.layers[0], two.layers[0]);
    assert_ne!(one.layers[1], three.layers[1]);
    assert_eq!(scene.listed("layers").len(), 5);
    assert_eq!(scene.store.present_layers(&one.diff_ids), 2);
    assert_eq!(scene.store.present_layers(&[one.diff_ids[0].clone(), Digest::of(b"?")]), 1);
    scene.store.remove("one", |_| None).unwrap();
    assert_eq!(scene.listed("layers").len(), 4, "the other image has the lower layer");
    assert_eq!(shown(&scene, "two"), ["a: 644 a", "c: 644 c"]);
    scene.store.prune(|image| image.id == three.id).unwrap();
    scene.store.prune(|_| true).unwrap();
    assert!(scene.store_entries().is_empty() && scene.store.list().is_empty());
}
