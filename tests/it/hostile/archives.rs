//! Malicious or damaged image archives, as a user loads them (IMG-3, SEC-2). The contents of layers are tested beside
//! the code (`images/store/tests.rs`) and by the fuzz target.

use std::path::Path;
use std::process::Command;

use podium::base::hex::hex;
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::instance::DataDir;

/// Adds an entry with an unchecked name.
fn add(builder: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, target: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    let gnu = header.as_gnu_mut().unwrap();
    gnu.name[..name.len()].copy_from_slice(name.as_bytes());
    gnu.linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o6777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1);
    header.set_size(content.len() as u64);
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

/// A `docker save` archive with this layer.
fn archive(layer: &[u8]) -> Vec<u8> {
    let id = format!("sha256:{}", hex(Sha256::digest(layer)));
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({"os": "linux", "architecture": architecture,
        "rootfs": {"type": "layers", "diff_ids": [id]}});
    let manifest = json!([{"Config": "config.json", "RepoTags": ["bad/one:v1"], "Layers": ["layer.tar"]}]);
    let mut outer = Builder::new(Vec::new());
    add(&mut outer, "config.json", EntryType::Regular, "", config.to_string().as_bytes());
    add(&mut outer, "layer.tar", EntryType::Regular, "", layer);
    add(&mut outer, "manifest.json", EntryType::Regular, "", manifest.to_string().as_bytes());
    outer.into_inner().unwrap()
}

/// Loads an archive. Returns the exit code and the output.
fn load(home: &DataDir, archive: &[u8]) -> (Option<i32>, String) {
    let file = home.path("archive.tar");
    std::fs::write(&file, archive).unwrap();
    let mut podium = Command::new(env!("CARGO_BIN_EXE_podium"));
    let output = podium.args(["image", "load"]).arg(&file).arg("--data-dir").arg(home.data_dir()).output();
    let output = output.unwrap();
    let combined = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&combined).into_owned())
}

/// Finds every file below a directory; links are not followed.
fn files(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        if entry.metadata().is_ok_and(|about| about.is_dir()) {
            files(&entry.path(), found);
        }
    }
}

/// The entries of an archive: path, type, and the target of a link.
type Entries<'a> = Vec<(&'a str, EntryType, &'a str)>;

/// Each archive is refused or harmless, and no file outside is touched.
#[test]
fn an_archive_writes_nothing_outside_of_its_root_sec_2() {
    use EntryType::{Block, Char, Directory, Fifo, Link, Regular, Symlink};
    let home = DataDir::new();
    let marker = home.path("marker");
    std::fs::write(&marker, "untouched").unwrap();
    let outside = marker.display().to_string();
    let up = format!("{}marker", "../".repeat(8));
    let (deep, through) = (format!("d/{up}"), format!("l{outside}"));
    let cases: [(&str, Entries<'_>, Option<i32>); 10] = [
        ("a path that goes up", vec![(&up, Regular, "")], Some(1)),
        ("a path that goes up later", vec![("d", Directory, ""), (&deep, Regular, "")], Some(1)),
        ("an absolute path", vec![(&outside, Regular, "")], None),
        ("through a link to the root", vec![("l", Symlink, "/"), (&through, Regular, "")], None),
        ("through a link upwards", vec![("l", Symlink, "../../../.."), ("l/marker", Regular, "")], None),
        ("a hard link to a file outside", vec![("h", Link, &outside), ("h", Regular, "")], None),
        ("a hard link upwards", vec![("h", Link, &up), ("h", Regular, "")], Some(1)),
        ("over a link", vec![("f", Symlink, &outside), ("f", Regular, "")], None),
        ("devices", vec![("disk", Block, ""), ("null", Char, ""), ("pipe", Fifo, "")], None),
        (
            "whiteouts upwards",
            vec![("l", Symlink, "/"), ("l/.wh.marker", Regular, ""), (".wh...", Regular, "")],
            None,
        ),
    ];
    for (name, entries, code) in cases {
        let mut layer = Builder::new(Vec::new());
        for (path, kind, target) in entries {
            let content: &[u8] = if kind == Regular { b"harm" } else { b"" };
            add(&mut layer, path, kind, target, content);
        }
        let (found, output) = load(&home, &archive(&layer.into_inner().unwrap()));
        assert!(
            matches!(found, Some(0 | 1)) && (code.is_none() || found == code),
            "{name}: {found:?}: {output}"
        );
        assert!(!output.contains("panicked"), "{name}: {output}");
        assert_eq!(std::fs::read_to_string(&marker).unwrap(), "untouched", "{name}");
        let mut left = Vec::new();
        files(&home.data_dir(), &mut left);
        for device in ["disk", "null"] {
            assert!(!left.iter().any(|path| path.ends_with(&format!("rootfs/{device}"))), "{name}: {left:?}");
        }
    }
}

/// An archive truncated at any point is refused with a reason, and leaves nothing behind.
#[test]
fn an_archive_that_was_cut_leaves_nothing_img_3() {
    let home = DataDir::new();
    let mut layer = Builder::new(Vec::new());
    add(&mut layer, "file", EntryType::Regular, "", &vec![b'x'; 5000]);
    let whole = archive(&layer.into_inner().unwrap());
    // The last kilobyte is only the archive's end.
    for cut in (1..12).map(|part| (whole.len() - 1024) * part / 12) {
        let (code, output) = load(&home, &whole[..cut]);
        assert_eq!(code, Some(1), "{cut} of {}: {output}", whole.len());
        assert!(output.starts_with("podium: ") && output.trim_end().lines().count() == 1, "{cut}: {output}");
        let mut left = Vec::new();
        files(&home.data_dir(), &mut left);
        assert!(!left.iter().any(|path| path.contains("rootfs")), "{cut}: {left:?}");
    }
    assert_eq!(load(&home, &whole).0, Some(0), "whole it is an image");
}
