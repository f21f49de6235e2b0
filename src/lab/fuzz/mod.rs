//! Properties that must hold for arbitrary bytes, one function for each parser of untrusted input.
//!
//! `fuzz/` (a workspace in cargo-fuzz's layout) makes a libFuzzer program of each function; the test below runs them
//! over the seeds in `fuzz/seeds`, so that `cargo test` builds and runs them on stable Rust. Each finding becomes one
//! more seed.
//!
//! A function panics if its property does not hold; no input is an error by itself.

mod applies;
mod archives;
mod dns;
mod http_server;
mod manifests;
mod patches;
mod protobuf;
mod quantities;
mod schemas;
mod selectors;

/// A target: its name, which its program and its directory of seeds share, and its property.
pub(crate) type Target = (&'static str, fn(&[u8]));

pub(crate) const TARGETS: &[Target] = &[
    ("request", apiserver::fuzz::request),
    ("patch", patches::check),
    ("apply", applies::check),
    ("schema", schemas::check),
    ("protobuf", protobuf::check),
    ("selector", selectors::check),
    ("quantity", quantities::check),
    ("manifest", manifests::check),
    ("image_archive", archives::check),
    ("registry", images::registry::fuzz::credentials),
    ("host_frame", host::fuzz::frames),
    ("dns", dns::check),
];

/// Runs the target of this name.
///
/// # Panics
///
/// If its property does not hold, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, check) = TARGETS.iter().find(|(known, _)| *known == name).expect("the target is in the table");
    check(bytes);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// SEC-2: every committed seed keeps its target's property, complete and truncated at any of its first bytes.
    #[test]
    fn seeds_of_every_fuzz_target_keep_its_property_sec_2() {
        for (name, check) in TARGETS {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
            let mut seeds: Vec<_> = std::fs::read_dir(&directory)
                .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
                .map(|entry| entry.unwrap().path())
                .collect();
            seeds.sort();
            assert!(!seeds.is_empty(), "{name} has seeds");
            for seed in seeds {
                let bytes = std::fs::read(&seed).unwrap();
                for end in (0..bytes.len().min(64)).chain([bytes.len()]) {
                    check(&bytes[..end]);
                }
            }
        }
    }

    /// Each target has a program, and each program a target.
    #[test]
    fn every_fuzz_target_is_a_program() {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
        let mut found: Vec<String> = std::fs::read_dir(programs)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        found.sort();
        let mut known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
