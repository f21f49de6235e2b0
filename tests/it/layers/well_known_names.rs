//! Names of labels, annotations, taints and finalizers are defined once, in `object`.

use regex::Regex;

use super::{source_root, sources};

/// Crates with names of their own: the node host, which links no crate that knows Kubernetes, and test instruments.
const EXEMPT: [&str; 2] = ["host/", "lab/"];

/// Returns the sources that are not tests, by their paths below `src`, each without the tests at its end.
fn product_sources() -> Vec<(String, String)> {
    let root = source_root();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let in_test = Regex::new(r"/(tests|cases|[^/]*_(tests|scenarios)\.rs|tests\.rs|test_[^/]*\.rs)").unwrap();
    let tests = Regex::new(r"(?m)^#\[cfg\(test\)\]\n(pub\S* )?mod \w+ \{").unwrap();
    let inside = |path: &std::path::Path| path.strip_prefix(&root).unwrap().display().to_string();
    let all = files.iter().map(|path| (inside(path), std::fs::read_to_string(path).unwrap()));
    let product = all.filter(|(path, _)| !in_test.is_match(&format!("/{path}")));
    product
        .map(|(path, mut text)| {
            text.truncate(tests.find(&text).map_or(text.len(), |found| found.start()));
            (path, text)
        })
        .collect()
}

/// Returns `path:line: text` for each line of code that matches, outside of the exempt crates and `home`.
fn lines_with(pattern: &Regex, home: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in product_sources() {
        if path.starts_with(home) || EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        found.extend(
            code.filter(|(_, line)| pattern.is_match(line))
                .map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())),
        );
    }
    found
}

/// Versions of the API group are no names.
#[test]
fn podiums_own_names_are_defined_in_object() {
    let wrong = lines_with(&Regex::new(r#""podium\.dev/([^v]|v[^0-9])"#).unwrap(), "object/");
    assert!(wrong.is_empty(), "move the name to object::well_known:\n{}", wrong.join("\n"));
}

#[test]
fn well_known_names_are_written_once() {
    let home = "object/well_known.rs";
    let text = std::fs::read_to_string(source_root().join(home)).unwrap();
    let names = Regex::new(r#"const \w+: &str = ("[^"]*[/-][^"]*");"#).unwrap();
    let names: Vec<String> = names.captures_iter(&text).map(|name| regex::escape(&name[1])).collect();
    assert!(names.len() > 50, "{names:?}");
    let wrong = lines_with(&Regex::new(&names.join("|")).unwrap(), home);
    assert!(wrong.is_empty(), "use the constant of object::well_known:\n{}", wrong.join("\n"));
}
