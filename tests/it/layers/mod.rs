//! Checks the shape of the tree: each layer links only those below it (the crate documentation has the picture),
//! modules of one parent form no cycles, no path climbs twice.

mod cycles;
mod modules;
mod randomness;
mod well_known_names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use modules::Modules;

/// The remaining cycles: a module, and those of its children that reference each other. To see their references, remove
/// an entry and run the test: it prints every path.
const KNOWN_CYCLES: &[(&str, &[&str])] = &[];

pub(crate) fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The directory of all crates' sources.
fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Our crates, read once for all tests.
static CRATE: LazyLock<Modules> = LazyLock::new(|| Modules::read(&source_root()));

/// The layers' table in the crate documentation: layer → the layers it may name. Rows of modules of the program's own
/// crate, which may name all, are left out.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(source_root().join("lib.rs")).unwrap();
    let layer = regex::Regex::new(r"`(\w+)`").unwrap();
    let mut table = BTreeMap::new();
    let rows = text.lines().filter(|line| line.starts_with("//! | [`") || line.starts_with("//! | `"));
    for cells in rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>()) {
        let may_name: BTreeSet<String> = match cells[3] {
            "all" => continue,
            "–" => BTreeSet::new(),
            names => names.split(", ").map(str::to_owned).collect(),
        };
        for name in layer.captures_iter(cells[1]) {
            table.insert(name[1].to_owned(), may_name.clone());
        }
    }
    table
}

/// Layer → the layers among the dependencies of its crate. Dependencies of its tests do not count.
fn linked() -> BTreeMap<String, BTreeSet<String>> {
    let root = source_root();
    let layers = modules::layers(&root);
    let dependencies = |layer: &String| {
        let text = std::fs::read_to_string(root.join(layer).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let names = manifest["dependencies"].as_table().unwrap().keys().cloned();
        names.filter(|name| layers.contains(name)).collect()
    };
    layers.iter().map(|layer| (layer.clone(), dependencies(layer))).collect()
}

/// Each layer is a crate, so that the compiler enforces its dependencies; this test checks the documentation of them.
#[test]
fn each_layer_links_the_layers_that_the_documentation_lets_it_name() {
    assert_eq!(linked(), documented());
}

#[test]
fn no_modules_of_one_parent_name_each_other_in_a_circle() {
    let known: BTreeSet<(&str, &str)> = KNOWN_CYCLES
        .iter()
        .flat_map(|(parent, members)| members.iter().map(move |member| (*parent, *member)))
        .collect();
    let knots = cycles::module_cycles(&CRATE);
    let knotted: BTreeSet<(&str, &str)> = knots
        .iter()
        .flat_map(|knot| knot.members.iter().map(|member| (knot.parent.as_str(), member.as_str())))
        .collect();
    let new: Vec<String> = knots
        .iter()
        .filter(|knot| {
            knot.members.iter().any(|member| !known.contains(&(knot.parent.as_str(), member.as_str())))
        })
        .map(|knot| format!("in {}:\n    {}", knot.parent, knot.ties.join("\n    ")))
        .collect();
    assert!(new.is_empty(), "new knots\n{}", new.join("\n"));
    let untied: Vec<_> = known.difference(&knotted).collect();
    assert!(untied.is_empty(), "no longer knotted, remove them from KNOWN_CYCLES: {untied:?}");
}

#[test]
fn no_path_climbs_twice() {
    let root = source_root();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut climbing = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            if line.contains("super::super") {
                climbing.push(format!("{}:{}", inside.display(), number + 1));
            }
        }
    }
    assert!(climbing.is_empty(), "say `crate::…`: {climbing:#?}");
}

/// Returns the files below `src` that have this pattern in a line other than a comment, by their paths inside.
fn files_with(pattern: &str) -> Vec<String> {
    let root = source_root();
    let pattern = regex::Regex::new(pattern).unwrap();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let has = |file: &PathBuf| {
        std::fs::read_to_string(file).unwrap().lines().filter(is_code).any(|l| pattern.is_match(l))
    };
    let inside = |file: &PathBuf| file.strip_prefix(&root).unwrap().display().to_string();
    files.iter().filter(|file| has(file)).map(inside).collect()
}

/// `base` uses no types of Kubernetes except those of times.
#[test]
fn of_the_base_only_the_clock_names_kubernetes_types() {
    let named: Vec<_> =
        files_with("k8s_openapi").into_iter().filter(|file| file.starts_with("base/")).collect();
    assert_eq!(named, ["base/clock.rs"]);
}

/// Code that reads `std`'s clock cannot run in virtual time.
#[test]
fn only_real_processes_and_measurements_go_by_the_machines_own_instants() {
    let reading = files_with(r"std::time::(Instant|\{[^}]*\bInstant\b)");
    let wrong: Vec<_> = reading
        .iter()
        .filter(|file| !["host/", "lab/bench/"].iter().any(|room| file.starts_with(room)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut files = Vec::new();
    for directory in ["src", "tests"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut files);
    }
    let silent: Vec<_> =
        files.iter().filter(|f| !std::fs::read_to_string(f).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

/// Names of functions in a text, each with its text.
fn functions(text: &str) -> Vec<(&str, &str)> {
    let head = regex::Regex::new(r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?(?:async )?fn (\w+)").unwrap();
    let found: Vec<_> = head.captures_iter(text).map(|c| c.get(1).unwrap()).collect();
    let ends = found.iter().skip(1).map(regex::Match::start).chain([text.len()]);
    found.iter().zip(ends).map(|(name, end)| (name.as_str(), &text[name.end()..end])).collect()
}

/// A test that runs kubectl, itself or by a function of its file, starts with `needs!(Kubectl)`: without that, it would
/// fail on a machine without kubectl instead of being counted as skipped.
#[test]
fn every_test_that_runs_kubectl_says_so() {
    let test = regex::Regex::new(r"#\[(?:tokio::)?test[^\n]*\]\s*(?:async )?fn (\w+)").unwrap();
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it"), &mut files);
    let mut silent = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("instance.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let functions = functions(&text);
        let mut running: Vec<&str> = Vec::new();
        // The functions that run it, then their callers, until there are no new ones.
        loop {
            let runs = |body: &str| {
                let calls = |name: &&str| body.contains(&format!("{name}("));
                body.contains(".kubectl(") || body.contains(".kubectl_output(") || running.iter().any(calls)
            };
            let new: Vec<&str> = functions
                .iter()
                .filter(|(name, body)| !running.contains(name) && runs(body))
                .map(|(name, _)| *name)
                .collect();
            if new.is_empty() {
                break;
            }
            running.extend(new);
        }
        for name in test.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()) {
            let says = |(known, body): &(&str, &str)| *known == name && body.contains("needs!(Kubectl)");
            if running.contains(&name) && !functions.iter().any(says) {
                silent.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}
