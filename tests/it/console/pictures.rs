//! The README's pictures are what this console makes of recorded sessions (CON-21): none of them shows what no longer is.
//!
//! `PODIUM_PICTURES=write cargo test --test it console::pictures` makes them anew.

use std::path::PathBuf;

use podium::console::recording::{Recording, ReplayOptions, replay};

/// A session, the number of the screen of it that is shown, and the picture.
const PICTURES: [(&str, usize, &str); 2] =
    [("tour.jsonl", 0, "overview.svg"), ("tour.jsonl", 23, "rollout.svg")];

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

#[test]
fn the_pictures_are_what_the_console_draws_con_21() {
    let writes = std::env::var("PODIUM_PICTURES").is_ok_and(|value| value == "write");
    for (session, screen, picture) in PICTURES {
        let recording = Recording::read(&docs("recordings").join(session)).unwrap();
        let (screens, _) = replay(recording, &ReplayOptions::default()).unwrap();
        let drawn = screens[screen].svg();
        if writes {
            std::fs::write(docs(picture), &drawn).unwrap();
        }
        let kept = std::fs::read_to_string(docs(picture)).unwrap_or_default();
        assert!(
            kept == drawn,
            "docs/{picture} shows another console: look at it, and write it anew with PODIUM_PICTURES=write"
        );
    }
}
