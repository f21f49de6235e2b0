//! Image archives: loading never writes, reads or removes anything outside the store, and leaves nothing of a refused
//! archive behind.

use std::io::{Cursor, Read as _};
use std::path::Path;

use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use base::hex::hex;
use images::ImageStore;
use images::store::{Input, Limits, LoadOptions};

/// Limits so small that inputs exceed them quickly.
const LIMITS: Limits =
    Limits { unpacked_bytes: 1 << 20, entries: 200, layers: 8, members: 1000, document_bytes: 64 << 10 };

/// Input: an archive; or a byte 0 and the bytes from which [`layers`] makes layers, which are put into an archive with
/// correct digests.
pub(super) fn check(bytes: &[u8]) {
    let outer = tempfile::tempdir().expect("a temporary directory can be created");
    let marker = outer.path().join("marker");
    std::fs::write(&marker, "outside").expect("the temporary directory is writable");
    let store_dir = outer.path().join("store");
    std::fs::create_dir(&store_dir).expect("the temporary directory is writable");
    let archive = match bytes.split_first() {
        Some((0, rest)) => archive(&layers(rest)),
        _ => bytes.to_vec(),
    };
    let options = LoadOptions { limits: LIMITS, ..LoadOptions::default() };
    let mut loaded = Vec::new();
    let store = ImageStore::of(&store_dir);
    let result = store.load(Input::Stream(Box::new(Cursor::new(archive))), &options, |image| {
        loaded.push(image.image.clone());
    });
    assert_eq!(std::fs::read_to_string(&marker).ok().as_deref(), Some("outside"));
    let outside = std::fs::read_dir(outer.path()).expect("the temporary directory exists").count();
    assert_eq!(outside, 2, "a file was created outside of the store");
    let mut left = 0;
    measure(&store_dir, &mut left);
    for image in &loaded {
        assert!(store.layer_roots(image).iter().all(|root| root.is_dir()));
    }
    if result.is_err() && loaded.is_empty() {
        assert!(left < 4096, "{left} bytes of a refused archive remain");
    }
    assert!(left < (1 << 20) * (loaded.len() as u64 + 1) + (256 << 10), "{left} bytes");
}

/// Adds up the bytes of all files below a directory, without following links.
fn measure(directory: &Path, total: &mut u64) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            measure(&entry.path(), total);
        } else {
            *total += about.len();
        }
    }
}

/// Makes layers from bytes: each entry has a few bytes for kind and mode, name, and target. The kind 15 starts the next
/// layer.
fn layers(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut bytes = Cursor::new(bytes);
    let mut layers = Vec::new();
    let mut builder = Builder::new(Vec::new());
    let mut head = [0; 3];
    while bytes.read_exact(&mut head).is_ok() {
        let [kind, name_len, target_len] = head;
        if kind & 15 == 15 {
            let next = std::mem::replace(&mut builder, Builder::new(Vec::new()));
            layers.extend(next.into_inner());
            continue;
        }
        let mut take = |length: u8| {
            let mut text = vec![0; usize::from(length) % 100];
            let count = bytes.read(&mut text).expect("bytes in memory can be read");
            text.truncate(count);
            text
        };
        let (name, target) = (take(name_len), take(target_len));
        let mut header = Header::new_gnu();
        let gnu = header.as_gnu_mut().expect("the header is a GNU header");
        gnu.name[..name.len()].copy_from_slice(&name);
        let entry_type = match kind & 15 {
            0..4 => EntryType::Regular,
            4..6 => EntryType::Directory,
            6..9 => EntryType::Symlink,
            9..11 => EntryType::Link,
            11 => EntryType::Char,
            12 => EntryType::Fifo,
            13 => EntryType::Block,
            _ => EntryType::Continuous,
        };
        let content: &[u8] = if entry_type == EntryType::Regular { &target } else { &[] };
        if content.is_empty() {
            gnu.linkname[..target.len()].copy_from_slice(&target);
        }
        header.set_entry_type(entry_type);
        header.set_mode(if kind & 16 == 0 { 0o755 } else { 0o6000 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1);
        header.set_size(content.len() as u64);
        header.set_cksum();
        if builder.append(&header, content).is_err() {
            break;
        }
    }
    layers.extend(builder.into_inner());
    layers
}

/// Makes a `docker save` archive of these layers.
fn archive(layers: &[Vec<u8>]) -> Vec<u8> {
    let ids: Vec<String> =
        layers.iter().map(|layer| format!("sha256:{}", hex(Sha256::digest(layer)))).collect();
    let names: Vec<String> = (0..layers.len()).map(|n| format!("{n}.tar")).collect();
    let config =
        json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": ids}});
    let manifest = json!([{"Config": "config.json", "RepoTags": ["fuzz:v1"], "Layers": names}]);
    let mut outer = Builder::new(Vec::new());
    let mut add = |name: &str, content: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        outer.append_data(&mut header, name, content).expect("a vector accepts all writes");
    };
    add("config.json", config.to_string().as_bytes());
    for (name, layer) in names.iter().zip(layers) {
        add(name, layer);
    }
    add("manifest.json", manifest.to_string().as_bytes());
    outer.into_inner().expect("a vector accepts all writes")
}
