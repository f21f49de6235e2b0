//! A process that is killed by SIGKILL at any step of a change of the store (IMG-3, IMG-8, IMG-10): this test's program,
//! started again.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use super::*;

/// The variables of the process that is killed: the data directory, and the number of the step.
const DATA: &str = "PODIUM_TEST_STORE";
const STEP: &str = "PODIUM_TEST_KILL_AT_STEP";

/// Changes the store of a data directory, in a process that is killed at a step. Returns true if the process came to its
/// end before.
fn ends_before(step: usize, test: &str, data: &Path) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("store::tests::kills::{test}")]);
    let output = command.env(DATA, data).env(STEP, step.to_string()).output().unwrap();
    let killed = output.status.signal() == Some(Signal::KILL.as_raw());
    assert!(killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    !killed
}

/// In the process that is killed: makes the change, and kills the process at its step. Returns false in the test itself.
fn is_killed_in(change: impl FnOnce(&ImageStore)) -> bool {
    let Some(data) = std::env::var_os(DATA) else { return false };
    let last: usize = std::env::var(STEP).unwrap().parse().unwrap();
    let count = AtomicUsize::new(0);
    let is_observing = base::step_observer::observe(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == last {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    });
    assert!(is_observing);
    change(&ImageStore::of(Path::new(&data)));
    true
}

fn archives() -> [Vec<u8>; 2] {
    let common = tar_of(&[("common", Plain("1", 0o644))]);
    let of = |names: &[&str]| {
        let own = tar_of(&[(names[0], Plain("2", 0o644))]);
        docker(names, &[common.clone(), own], &json!({"Cmd": names}))
    };
    [of(&["one:1", "one:2"]), of(&["two:1"])]
}

/// Every name leads to an image, every image and every layer is whole, and `tags.json` has no
/// other name once a writer has worked on the store.
fn assert_whole(fixture: &StoreFixture, about: &str) {
    let store = ImageStore::of(fixture.data.path());
    let index = store.index();
    assert_eq!(store.list().len(), index.images.len(), "{about}: an image without layers");
    for (name, id) in &index.names {
        assert!(index.images.contains_key(id), "{about}: {name}");
    }
    for layer in fixture.listed("layers") {
        let layer = fixture.data.path().join("images/store/layers").join(layer);
        assert!(crate::store::record::LayerRecord::read(&layer).is_some(), "{about}: {}", layer.display());
    }
    store.remove_remains().unwrap();
    assert!(fixture.listed("new").is_empty(), "{about}");
    assert!(!fixture.listed("images").iter().any(|name| name.contains(".new")), "{about}");
    let text = fs::read(store.names_path()).unwrap_or_else(|_| b"{}".to_vec());
    let names: Names = serde_json::from_slice(&text).unwrap();
    assert_eq!(names, store.index().names, "{about}: names without images");
}

/// IMG-10: after a kill during a removal an image is there with all its names and layers, or not at all; a reader that
/// knew it sees that, its names do not come back with another one, and another removal leaves nothing.
#[test]
fn a_kill_at_any_step_of_a_removal_leaves_whole_images_img_10() {
    if is_killed_in(|store| drop(store.prune(|_| true).unwrap())) {
        return;
    }
    let name = "a_kill_at_any_step_of_a_removal_leaves_whole_images_img_10";
    let mut half_done = 0;
    for step in 0.. {
        let about = format!("killed at step {step}");
        let fixture = StoreFixture::new();
        for archive in archives() {
            fixture.load(&archive).unwrap();
        }
        let reader = ImageStore::of(fixture.data.path());
        assert_eq!(reader.list().len(), 2);
        let ended = ends_before(step, name, fixture.data.path());
        let left = reader.list();
        for (image, names) in &left {
            let expect: &[&str] = if image.run.cmd.len() == 2 { &["one:1", "one:2"] } else { &["two:1"] };
            let expect: Vec<String> = expect.iter().map(|name| reference_text(name)).collect();
            assert_eq!(*names, expect, "{about}");
        }
        half_done += usize::from(left.len() == 1);
        // Loaded under another name, the image has that name alone.
        if reader.find(&ImageReference::parse("one:1").unwrap()).is_none() {
            let common = tar_of(&[("common", Plain("1", 0o644))]);
            let own = tar_of(&[("one:1", Plain("2", 0o644))]);
            fixture.load(&docker(&["other:1"], &[common, own], &json!({"Cmd": ["one:1", "one:2"]}))).unwrap();
            assert!(fixture.find("other:1").is_some() && fixture.find("one:2").is_none(), "{about}");
        }
        assert_whole(&fixture, &about);
        fixture.store.prune(|_| true).unwrap();
        assert!(fixture.store_entries().is_empty() && fixture.listed("layers").is_empty(), "{about}");
        if ended {
            assert!(step > 5 && half_done > 0, "{step} steps");
            return;
        }
    }
}

/// IMG-3, IMG-8: after a kill while an image is added, it is there as a whole or not at all, and can be added.
#[test]
fn a_kill_at_any_step_of_a_load_leaves_whole_layers_or_nothing_img_3() {
    let load = |store: &ImageStore| {
        let input = Input::Stream(Box::new(std::io::Cursor::new(archives()[0].clone())));
        store.load(input, &LoadOptions::default(), |_| {}).unwrap();
    };
    if is_killed_in(load) {
        return;
    }
    let name = "a_kill_at_any_step_of_a_load_leaves_whole_layers_or_nothing_img_3";
    for step in 0.. {
        let about = format!("killed at step {step}");
        let fixture = StoreFixture::new();
        fixture.load(&archives()[1]).unwrap();
        let ended = ends_before(step, name, fixture.data.path());
        assert_whole(&fixture, &about);
        assert_eq!(fixture.files("two:1").len(), 2, "{about}");
        fixture.load(&archives()[0]).unwrap();
        assert_eq!(fixture.files("one:2").len(), 2, "{about}");
        assert_eq!(fixture.store_entries().len(), 2, "{about}");
        if ended {
            assert!(step > 5, "{step} steps");
            return;
        }
    }
}

/// A name as the store lists it.
fn reference_text(name: &str) -> String {
    ImageReference::parse(name).unwrap().to_string()
}
