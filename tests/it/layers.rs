//! Holds the layer table: each layer names only those below it (the crate documentation has the picture).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Layer → the layers it may name.
fn table() -> BTreeMap<&'static str, &'static [&'static str]> {
    let actor: &[&str] = &["reconcile", "api", "object", "base"];
    BTreeMap::from([
        ("base", &[] as &[&str]),
        ("object", &["base"]),
        ("manifest", &["object", "base"]),
        ("store", &["object", "base"]),
        ("api", &["store", "manifest", "object", "base"]),
        ("reconcile", &["api", "object", "base"]),
        ("controllers", actor),
        ("scheduler", actor),
        ("kubelet", actor),
        ("network", actor),
        ("console", &["object", "manifest", "base"]),
    ])
}

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

/// The layers a source text names, by line; tests inside a file may use what they like.
fn named(text: &str) -> Vec<(usize, String)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("//") {
            continue;
        }
        for part in line.split("crate::").skip(1) {
            let layer: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            found.push((number + 1, layer));
        }
    }
    found
}

#[test]
fn each_layer_names_only_those_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = table();
    let mut wrong = Vec::new();
    for (layer, allowed) in &table {
        let mut files = Vec::new();
        sources(&root.join(layer), &mut files);
        assert!(!files.is_empty(), "the layer {layer} has files");
        for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
            for (line, named) in named(&std::fs::read_to_string(file).unwrap()) {
                let known = table.contains_key(named.as_str()) || named == "cluster" || named == "cli";
                if known && named != **layer && !allowed.contains(&named.as_str()) {
                    wrong.push(format!("{}:{line}: {layer} names {named}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

/// A test that runs kubectl, itself or by a function of its file, begins with `needs!(Kubectl)`: it would fail on a
/// machine without, instead of being counted.
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
        // Who runs it, then who calls one of those, until nobody is new.
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
