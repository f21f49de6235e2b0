//! Pulls into a real store from a registry of this process: what is downloaded, what is shared, and what a failure leaves.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Body as _;

use super::*;
use crate::registry::tests::{
    Answer, LAYER, MANIFEST, Repository, SeenRequest, Server, client, descriptor, status,
};
use crate::store::digest_of;

/// A layer with one file, and its diff id.
fn layer(file: &str, content: &[u8]) -> (Vec<u8>, String) {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, file, content).unwrap();
    let tar = tar.into_inner().unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut gzip, &tar).unwrap();
    (gzip.finish().unwrap(), digest_of(&tar))
}

/// Adds an image of these layers to a repository; returns the digest of its manifest.
fn add_image(repository: &mut Repository, tag: &str, layers: &[(Vec<u8>, String)]) -> String {
    let diff_ids: Vec<String> = layers.iter().map(|(_, diff_id)| diff_id.clone()).collect();
    let config = repository.config(&diff_ids);
    let mut descriptors = Vec::new();
    for (bytes, _) in layers {
        let digest = repository.add_blob(bytes.clone());
        descriptors.push(descriptor(LAYER, &digest, bytes.len()));
    }
    let manifest = repository.manifest(&config, &descriptors);
    repository.add_manifest(tag, MANIFEST, manifest)
}

struct Scene {
    data: tempfile::TempDir,
    store: Arc<ImageStore>,
    puller: Puller,
}

impl Scene {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let store = Arc::new(ImageStore::of(data.path()));
        let puller = Puller::with_client(store.clone(), client("{}"), None);
        Self { data, store, puller }
    }

    /// With these settings of registries.
    fn with_config(config: &str) -> Self {
        let scene = Self::new();
        let puller = Puller::with_client(scene.store.clone(), client(config), None);
        Self { puller, ..scene }
    }

    async fn pull(&self, name: &str) -> Result<StoredImage, String> {
        self.puller.pull(name, &[]).await.map_err(|error| error.to_string())
    }

    /// The content of a file of an image; the topmost layer that has it counts.
    fn read(&self, image: &StoredImage, file: &str) -> Option<String> {
        let roots = self.store.layer_roots(image);
        roots.iter().find_map(|root| std::fs::read_to_string(root.join(file)).ok())
    }

    fn entries(&self, directory: &str) -> usize {
        let path = self.data.path().join("images/store").join(directory);
        std::fs::read_dir(path).map_or(0, Iterator::count)
    }
}

fn blobs(server: &Server) -> usize {
    server
        .requests()
        .iter()
        .filter(|request| request.starts_with("GET") && request.contains("/blobs/"))
        .count()
}

/// Waits until a condition holds that other tasks bring about.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(std::time::Duration::from_mins(1), waiting).await.is_ok(), "{what}");
}

#[tokio::test]
async fn images_share_layers_and_a_layer_is_downloaded_once_img_8() {
    let mut repository = Repository::new();
    let (base, one, two) = (layer("base", b"b"), layer("one", b"1"), layer("two", b"2"));
    add_image(&mut repository, "one", &[base.clone(), one]);
    let digest = add_image(&mut repository, "two", &[base, two]);
    let server = Server::start(move |seen| repository.answer(seen)).await;
    let scene = Scene::new();
    let (first, second) = (format!("{}:one", server.reference()), format!("{}:two", server.reference()));
    let (one, two) = tokio::join!(scene.pull(&first), scene.pull(&second));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(scene.read(&one, "base").as_deref(), Some("b"));
    assert_eq!((scene.read(&one, "one").as_deref(), scene.read(&one, "two")), (Some("1"), None));
    assert_eq!(scene.read(&two, "two").as_deref(), Some("2"));
    assert_eq!(one.provenance, Provenance::Pulled);
    assert_eq!((scene.entries("layers"), scene.entries("new")), (3, 0));
    assert_eq!(blobs(&server), 5, "three layers and two configurations: {:#?}", server.requests());
    // By digest, and by the same name again: one question, and no download.
    let by_digest = scene.pull(&format!("{}@{digest}", server.reference())).await.unwrap();
    assert_eq!(by_digest.id, two.id);
    assert_eq!(scene.pull(&second).await.unwrap().id, two.id);
    assert_eq!(blobs(&server), 5);
    assert_eq!(server.requests().last().unwrap(), "HEAD /v2/team/app/manifests/two");
}

#[tokio::test]
async fn pulls_of_one_image_are_one_pull_and_end_when_no_caller_waits_img_8() {
    let mut repository = Repository::new();
    add_image(&mut repository, "latest", &[layer("file", b"x")]);
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let server = Server::start(move |seen| {
        // A layer that does not come yet: the client tries again.
        if seen.path.contains("/blobs/") && !gate.load(Ordering::SeqCst) {
            status(503)
        } else {
            repository.answer(seen)
        }
    })
    .await;
    let scene = Scene::new();
    let name = server.reference();
    open.store(true, Ordering::SeqCst);
    let pulls = futures::future::join_all((0..5).map(|_| scene.pull(&name))).await;
    assert!(pulls.iter().all(|pull| pull.as_ref().unwrap().id == pulls[0].as_ref().unwrap().id));
    let manifests =
        server.requests().iter().filter(|request| request.contains("GET /v2/team/app/manifests")).count();
    assert_eq!((manifests, blobs(&server)), (1, 2), "one manifest, one configuration, one layer");
    assert_eq!(scene.puller.progress(&name), None);
}

#[tokio::test]
async fn a_cancelled_pull_leaves_nothing_and_can_be_repeated_img_8() {
    let mut repository = Repository::new();
    let bytes: Vec<u8> =
        (0..300_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    add_image(&mut repository, "latest", &[layer("file", &bytes)]);
    let (stalls, requests) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (stalling, asking) = (stalls.clone(), requests.clone());
    let big = repository.clone();
    let server = Server::start(move |seen: &SeenRequest| -> Answer {
        let answer = big.answer(seen);
        let is_layer = seen.path.contains("/blobs/") && answer.body().size_hint().lower() > 100_000;
        if is_layer && stalling.load(Ordering::SeqCst) {
            asking.fetch_add(1, Ordering::SeqCst);
            return status(503);
        }
        answer
    })
    .await;
    let scene = Arc::new(Scene::new());
    let (waiting, name) = (scene.clone(), server.reference());
    let pull = tokio::spawn({
        let name = name.clone();
        async move { waiting.pull(&name).await }
    });
    until("the layer is requests for", || requests.load(Ordering::SeqCst) > 0).await;
    pull.abort();
    until("the pull has left nothing", || scene.entries("new") == 0).await;
    assert_eq!((scene.entries("layers"), scene.entries("images")), (0, 0));
    stalls.store(false, Ordering::SeqCst);
    scene.pull(&name).await.unwrap();
    assert_eq!(scene.entries("layers"), 1);
}

#[tokio::test]
async fn damaged_and_hostile_layers_fail_and_leave_nothing_partial_img_8() {
    let escape = {
        let mut bytes = Vec::new();
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.as_gnu_mut().unwrap().name[..9].copy_from_slice(b"../escape");
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 1024]);
        let digest = digest_of(&bytes);
        (bytes, digest)
    };
    let (good, diff_id) = layer("file", b"x");
    let other = digest_of(b"another stream");
    let table = [
        ("a path outside", escape, "the path contains \"..\""),
        ("another diff id", (good.clone(), other), "its digest is"),
        ("no archive", (vec![7; 3000], digest_of(&[7; 3000])), "not a valid image archive"),
        ("a cut archive", (good[..good.len() - 20].to_vec(), diff_id), "layer sha256"),
    ];
    for (what, bad, expect) in table {
        let mut repository = Repository::new();
        add_image(&mut repository, "latest", &[layer("base", b"b"), bad]);
        let server = Server::start(move |seen| repository.answer(seen)).await;
        let scene = Scene::new();
        let error = scene.pull(&server.reference()).await.unwrap_err();
        let begin = format!("failed to pull and unpack image \"{}:latest\": ", server.reference());
        assert!(error.starts_with(&begin) && error.contains(expect), "{what}: {error}");
        // The layer below is whole, and may serve the next attempt.
        assert_eq!(
            (scene.entries("layers"), scene.entries("new"), scene.entries("images")),
            (1, 0, 0),
            "{what}"
        );
        assert!(!Path::new(&scene.data.path().join("images/store/escape")).exists());
    }
}

/// A mirror whose layer is not what its manifest says is passed over: its bytes may be noticed while they are unpacked,
/// or at the end of the download.
#[tokio::test]
async fn a_mirror_with_other_layers_is_followed_by_the_registry_img_5() {
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut repository = Repository::new();
    add_image(&mut repository, "latest", &[layer("base", b"b"), layer("file", &bytes)]);
    let damages: [fn(&mut Vec<u8>); 3] =
        [|layer| layer[600] ^= 1, |layer| layer.iter_mut().for_each(|byte| *byte = 7), |layer| layer.push(0)];
    for damage in damages {
        let (good, bad) = (repository.clone(), repository.clone());
        let registry = Server::start(move |seen| good.answer(seen)).await;
        let mirror = Server::start(move |seen| {
            let mut answer = bad.answer(seen);
            if seen.path.contains("/blobs/")
                && let Some(mut content) = bad.layer_at(&seen.path)
            {
                damage(&mut content);
                *answer.body_mut() = content.into();
            }
            answer
        })
        .await;
        let (host, mirror_url) = (registry.reference(), mirror.reference());
        let (host, mirror_url) = (host.split('/').next().unwrap(), mirror_url.split('/').next().unwrap());
        let config = format!(r#"{{"hosts":{{"{host}":{{"mirrors":["http://{mirror_url}"]}}}}}}"#);
        let scene = Scene::with_config(&config);
        let image = scene.pull(&registry.reference()).await.unwrap();
        assert_eq!(scene.read(&image, "base").as_deref(), Some("b"));
        assert_eq!((scene.entries("layers"), scene.entries("new")), (2, 0));
        assert!(blobs(&mirror) > 0 && blobs(&registry) > 0);
    }
}

#[tokio::test]
async fn a_loaded_image_stays_loaded_when_it_is_pulled_img_8() {
    let mut repository = Repository::new();
    add_image(&mut repository, "latest", &[layer("file", b"x")]);
    let server = Server::start(move |seen| repository.answer(seen)).await;
    let scene = Scene::new();
    let pulled = scene.pull(&server.reference()).await.unwrap();
    let name = [ImageReference::parse("mine:1").unwrap()];
    let loaded = scene.store.add_names_to(&pulled.id, &name, Provenance::Loaded).unwrap().unwrap();
    assert_eq!(loaded.provenance, Provenance::Loaded);
    assert_eq!(scene.pull(&server.reference()).await.unwrap().provenance, Provenance::Loaded);
}

#[tokio::test]
async fn errors_name_the_image_and_the_cause_img_8() {
    let repository = Repository::new();
    let server = Server::start(move |seen| repository.answer(seen)).await;
    let scene = Scene::new();
    let missing = format!("{}:none", server.reference());
    let error = scene.pull(&missing).await.unwrap_err();
    let begin =
        format!("failed to pull and unpack image \"{missing}\": failed to resolve reference \"{missing}\": ");
    assert!(error.starts_with(&begin) && error.contains("not found"), "{error}");
    assert_eq!(
        scene.pull("UPPER").await.unwrap_err(),
        "image name \"UPPER\": invalid reference format: repository name must be lowercase"
    );
    let secret = [PullSecret::Config(b"{\"auths\": 7}".to_vec())];
    let error = scene.puller.pull(&missing, &secret).await.unwrap_err().to_string();
    assert!(error.contains(".dockerconfigjson is not a valid docker configuration"), "{error}");
}
