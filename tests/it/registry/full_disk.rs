//! A disk that fills during a pull (IMG-8, NODE-4).

use std::path::PathBuf;

use serde_json::{Value, json};
use tar::EntryType;

use super::{Registry, field, free_address, pod, push};
use crate::full_volumes::FileSystem;
use crate::images::{Layer, saved};
use crate::instance::{DataDir, wait_for};
use crate::needs::{Need, lacks, needs, on_path};

/// More than the file that fills the disk leaves free. A pull needs space for a layer's download and for its files.
const LAYER_BYTES: usize = 3 << 20;
const LEFT_BYTES: u64 = 3 << 20;

/// Content that no compression makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}

/// The paths below a directory of the store, which need not exist.
fn listed(directory: PathBuf) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// IMG-8: the pod waits with the cause and the remedy, nothing of the pull stays on the disk, images of before still start,
/// and once there is space again the pull succeeds by itself.
#[test]
fn a_pull_on_a_full_disk_fails_with_the_cause_and_succeeds_later_img_8() {
    needs!(Kubectl);
    if lacks(Need::DockerRegistry, on_path("docker-registry")) {
        return;
    }
    let home = DataDir::new();
    let registry = Registry::with_settings(&home, "plain", &free_address(), &json!({}), &Value::Null);
    let [small, large] = ["small:1", "large:1"].map(|name| format!("{}/{name}", registry.address));
    push(&home, &super::archive("small"), &small);
    let mut layer = Layer::new();
    for program in ["sh", "sleep"] {
        layer.program(program);
    }
    layer.add("noise", EntryType::Regular, 0o644, &noise(LAYER_BYTES));
    let config = json!({"Cmd": ["sleep", "3600"], "Env": ["PATH=/bin"]});
    push(&home, &saved("anything:1", &layer.finish(), &config), &large);

    let store = home.data_dir().join("images/store");
    let mounted = FileSystem::mount_at(&home, &store);
    if lacks(Need::Mounts, mounted.is_some()) {
        return;
    }
    let instance = home.start(&["--nodes", "1"]);
    let node = instance.kubectl(&["get", "nodes", "-o", "json"]);
    if lacks(Need::Namespaces, !node.contains("\"podium.dev/namespaces\": \"none\"")) {
        return instance.stop();
    }
    instance.apply_all(&[pod("before", &small, "IfNotPresent", false)]);
    instance.until_ready("before");
    let layers = listed(store.join("layers"));
    let filler = store.join("filler");
    let space = rustix::fs::statvfs(&store).unwrap();
    let length = space.f_bavail * space.f_frsize - LEFT_BYTES;
    std::fs::write(&filler, vec![1; usize::try_from(length).unwrap()]).unwrap();

    instance.apply_all(&[pod("waits", &large, "IfNotPresent", false)]);
    let message = super::wait_for_failure(&instance, "waits");
    assert!(
        message.contains("No space left on device") && message.contains("podium image prune"),
        "{message}"
    );
    let events = wait_for("the event", || {
        let about = ["get", "events", "--field-selector=involvedObject.name=waits", "-o"];
        let events = instance.kubectl(&[&about[..], &["jsonpath={.items[*].message}"]].concat());
        events.contains("No space left on device").then_some(events)
    });
    assert!(events.contains(&format!("Failed to pull image \"{large}\"")), "{events}");
    wait_for("the end of the attempt", || listed(store.join("new")).is_empty().then_some(()));
    assert_eq!(listed(store.join("layers")), layers, "nothing of the image stays");
    assert_eq!(field(&instance, "before", ".ready"), "true");
    instance.apply_all(&[pod("same", &small, "IfNotPresent", false)]);
    instance.until_ready("same");

    std::fs::remove_file(filler).unwrap();
    wait_for("the pull to succeed", || {
        let phase = instance.phase("waits");
        (phase == "Running").then_some(())
    });
    instance.stop();
}
