//! The README's pictures and the casts of the samples are made by this console from recorded sessions (CON-21), so that
//! none of them is outdated.
//!
//! `PODIUM_PICTURES=write cargo test --test it console::pictures` writes them again. `docs/recordings/record` records
//! the sessions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use podium::base::optional_file::read_optional;
use podium::console::recording::{Cast, Recording, ReplayOptions, Screen, replay};

/// A session, the number of the screen of it that is shown, and the picture.
const PICTURES: [(&str, usize, &str); 2] = [("tour", 0, "overview.svg"), ("tour", 23, "rollout.svg")];

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

fn replayed(session: &str) -> (Vec<Screen>, Cast) {
    let recording = Recording::read(&docs("recordings").join(format!("{session}.jsonl.gz"))).unwrap();
    replay(recording, &ReplayOptions::default()).unwrap()
}

/// Compares a file with its expected content, or writes it.
fn check_or_write(file: &Path, drawn: &str) {
    if std::env::var("PODIUM_PICTURES").is_ok_and(|value| value == "write") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, drawn).unwrap();
    }
    let saved = read_optional(file);
    assert!(
        saved == drawn,
        "{} shows another console: look at it, and write it anew with PODIUM_PICTURES=write",
        file.display()
    );
}

/// The names of a directory's files, up to their first dot.
fn names(directory: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(directory).unwrap().flatten().filter(|entry| entry.path().is_file());
    let stem = |name: String| name.split('.').next().unwrap_or_default().to_owned();
    files.map(|entry| stem(entry.file_name().into_string().unwrap())).collect()
}

#[test]
fn the_pictures_are_what_the_console_draws_con_21() {
    for (session, screen, picture) in PICTURES {
        check_or_write(&docs(picture), &replayed(session).0[screen].svg());
    }
}

/// `docs/casts/01-web.cast` is a session with `sample-manifests/01-web.yaml`, and so on: one for each sample.
#[test]
fn the_casts_of_the_samples_are_what_the_console_draws_con_21() {
    let samples = names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sample-manifests"));
    for sample in &samples {
        check_or_write(&docs("casts").join(format!("{sample}.cast")), &replayed(sample).1.text());
    }
    assert_eq!(names(&docs("casts")), samples);
}
