//! Compares `docs/spec.md` with the code: ids in the code exist there, and each id there is proved by a test or listed
//! as not proved yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::layers::sources;

const SPEC: &str = include_str!("../../docs/spec.md");

/// The heading of the list of ids that no test proves.
const NOT_PROVED: &str = "\n## Not proved yet\n";

/// Ids of the requirements, and of those that are listed as not proved.
fn spec() -> (BTreeSet<String>, BTreeSet<String>) {
    let (requirements, rest) = SPEC.split_once(NOT_PROVED).expect("the list at the end");
    let entry = Regex::new(r#"(?m)^- <a id="([a-z]+-\d+)"></a>([A-Z]+-\d+) "#).unwrap();
    let mut ids = BTreeSet::new();
    for found in entry.captures_iter(requirements) {
        assert_eq!(found[1].to_uppercase(), found[2], "an anchor is its id");
        assert!(ids.insert(found[2].to_string()), "{} is there twice", &found[2]);
    }
    let id = Regex::new(r"\b[A-Z]+-\d+\b").unwrap();
    (ids, id.find_iter(rest).map(|found| found.as_str().to_string()).collect())
}

/// The ids that a text names: in prose, and at the ends of functions' names.
struct Names {
    prose: Regex,
    function: Regex,
    suffix: Regex,
}

impl Names {
    fn new(areas: &BTreeSet<&str>) -> Self {
        let upper = areas.iter().copied().collect::<Vec<_>>().join("|");
        let lower = upper.to_lowercase();
        Self {
            prose: Regex::new(&format!(r"\b(?:{upper})-[1-9]\d*\b")).unwrap(),
            function: Regex::new(r"\bfn (\w+)").unwrap(),
            suffix: Regex::new(&format!(r"_({lower})_(\d+)$")).unwrap(),
        }
    }

    fn of(&self, text: &str) -> BTreeSet<String> {
        let mut ids: BTreeSet<String> =
            self.prose.find_iter(text).map(|id| id.as_str().to_string()).collect();
        for function in self.function.captures_iter(text) {
            let mut name = &function[1];
            while let Some(found) = self.suffix.captures(name) {
                ids.insert(format!("{}-{}", found[1].to_uppercase(), &found[2]));
                name = &name[..found.get(0).unwrap().start()];
            }
        }
        ids
    }
}

/// The part of a source file that tests.
fn tests_of<'t>(path: &Path, text: &'t str) -> &'t str {
    let of_tests = |part: &str| part == "tests" || part.contains("scenarios") || part.ends_with("tests.rs");
    if path.iter().any(|part| of_tests(&part.to_string_lossy())) {
        return text;
    }
    text.find("#[cfg(test)]").map_or("", |start| &text[start..])
}

#[test]
fn ids_in_the_code_are_in_the_spec_and_every_spec_id_is_tested_or_listed() {
    let (ids, not_proved) = spec();
    let areas: BTreeSet<&str> = ids.iter().filter_map(|id| id.split('-').next()).collect();
    let names = Names::new(&areas);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = Vec::new();
    for directory in ["src", "tests"] {
        sources(&root.join(directory), &mut files);
    }
    let (mut named, mut proved) = (BTreeMap::new(), BTreeSet::new());
    for path in files.iter().filter(|path| !path.ends_with("it/spec.rs")) {
        let text = std::fs::read_to_string(path).unwrap();
        proved.extend(names.of(tests_of(path, &text)));
        named.extend(names.of(&text).into_iter().map(|id| (id, path)));
    }
    let dangling: Vec<_> = named.iter().filter(|(id, _)| !ids.contains(*id)).collect();
    assert!(dangling.is_empty(), "named in the code and not in docs/spec.md: {dangling:?}");
    let unknown: Vec<_> = not_proved.difference(&ids).collect();
    assert!(unknown.is_empty(), "listed as not proved and not there: {unknown:?}");
    let missing: Vec<_> =
        ids.iter().filter(|id| !proved.contains(*id) && !not_proved.contains(*id)).collect();
    assert!(missing.is_empty(), "in docs/spec.md, and no test names it: {missing:?}");
    let stale: Vec<_> = not_proved.intersection(&proved).collect();
    assert!(stale.is_empty(), "listed as not proved, and a test names it: {stale:?}");
}
