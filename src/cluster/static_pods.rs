//! Polls a node's directory for the manifests of static pods, on behalf of its kubelet (POD-15).

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::clock::Clock;
use base::sort::SliceOrder;
use kubelet::{Kubelet, StaticManifest};

/// The maximum size of a manifest, in bytes, as in Kubernetes. A larger file is an error.
const MAX_MANIFEST: u64 = 10 << 20;

/// Reads every manifest in a directory, sorted by file name; none if the directory does not exist.
pub(super) fn read(directory: &Path) -> Vec<StaticManifest> {
    let mut manifests: Vec<StaticManifest> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let source = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
            // Symbolic links are followed: a mounted ConfigMap consists of them.
            let about = std::fs::metadata(entry.path()).ok()?;
            about.is_file().then(|| StaticManifest { content: content(&entry.path()), source })
        })
        .collect();
    manifests.order_by(|a, b| a.source.cmp(&b.source));
    manifests
}

fn content(path: &Path) -> Result<serde_json::Value, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_MANIFEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_MANIFEST {
        return Err(format!("the file is longer than {MAX_MANIFEST} bytes"));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut documents = manifest::parse_bytes(&bytes, &name);
    match (documents.pop(), documents.is_empty()) {
        (Some(document), true) => document.map(|d| d.value).map_err(|error| error.to_string()),
        (None, _) => Err("the file is empty".into()),
        _ => Err("the file contains more than one object".into()),
    }
}

/// Reads the directory each `period`, and passes the manifests to the kubelet.
pub(super) async fn follow(kubelet: Kubelet, directory: PathBuf, clock: Clock, period: Duration) {
    let mut had_some = true;
    loop {
        clock.sleep(period).await;
        let path = directory.clone();
        let Ok(manifests) = base::task::blocking(move || read(&path)).await else { continue };
        // The manifests are passed even if they have not changed, because the kubelet applies a changed manifest only
        // once the previous pod has ended.
        if had_some || !manifests.is_empty() {
            kubelet.set_static_pods(&manifests);
        }
        had_some = !manifests.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_manifests_is_read_file_by_file_pod_15() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert!(read(&path("none")).is_empty());
        std::fs::write(path("b.yaml"), "kind: Pod\n").unwrap();
        std::fs::write(path("a.json"), "{\"kind\": \"Pod\"}").unwrap();
        std::fs::write(path("two.yaml"), "kind: Pod\n---\nkind: Pod\n").unwrap();
        std::fs::write(path("broken.yaml"), "a: [").unwrap();
        std::fs::write(path("empty.yaml"), "").unwrap();
        std::fs::write(path(".hidden.yaml"), "kind: Pod\n").unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        std::os::unix::fs::symlink(path("b.yaml"), path("c.yaml")).unwrap();
        let described: Vec<String> = read(directory.path())
            .into_iter()
            .map(|m| match m.content {
                Ok(value) => format!("{} {}", m.source, value["kind"].as_str().unwrap()),
                Err(error) => format!("{} ! {error}", m.source),
            })
            .collect();
        assert_eq!(described.len(), 6, "{described:?}");
        assert_eq!((described[0].as_str(), described[1].as_str()), ("a.json Pod", "b.yaml Pod"));
        assert!(described[2].starts_with("broken.yaml ! broken.yaml:1"), "{described:?}");
        assert_eq!(
            described[3..],
            [
                "c.yaml Pod",
                "empty.yaml ! the file is empty",
                "two.yaml ! the file contains more than one object"
            ]
        );
    }
}
