//! Checks the documents: links between them resolve, every page of the book is in its table of contents, files that
//! they name exist, and the README stays short.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

/// The README is for newcomers; everything else belongs in the book.
const README_LINES: usize = 220;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn markdown_below(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown_below(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            into.push(path);
        }
    }
}

/// All documents: those of the root, the book, and the page on fuzzing.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("fuzz/README.md")];
    let top = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    found.extend(top.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    markdown_below(&root().join("docs"), &mut found);
    found.sort();
    found
}

/// The text without code blocks and inline code, in which brackets are no links and `#` no headings.
fn prose(text: &str) -> String {
    let (blocks, code) = (Regex::new(r"(?ms)^```.*?^```").unwrap(), Regex::new("`[^`\n]*`").unwrap());
    code.replace_all(&blocks.replace_all(text, ""), |found: &regex::Captures<'_>| {
        found[0].trim_matches('`').replace(['[', ']', '(', ')'], "")
    })
    .into_owned()
}

/// The anchors of a document: GitHub's for its headings, and explicit ones.
fn anchors(text: &str) -> BTreeSet<String> {
    let explicit = Regex::new(r#"<a id="([^"]+)">"#).unwrap();
    let slug = |heading: &str| {
        let anchor = heading.trim().to_lowercase();
        anchor
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect::<String>()
    };
    let text = prose(text);
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| slug(line.trim_start_matches('#')));
    headings.chain(explicit.captures_iter(&text).map(|found| found[1].to_owned())).collect()
}

/// A path without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

/// The broken links of one document.
fn broken_links(document: &Path) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let text = std::fs::read_to_string(document).unwrap();
    let (name, directory) = (document.strip_prefix(root()).unwrap(), document.parent().unwrap());
    let mut broken = Vec::new();
    for found in link.captures_iter(&prose(&text)) {
        let target = &found[1];
        if target.contains("://") {
            continue;
        }
        let (path, anchor) =
            target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let file = if path.is_empty() { document.to_path_buf() } else { normalized(&directory.join(path)) };
        if !file.starts_with(root()) || !file.exists() {
            broken.push(format!("{} links to {target}, which does not exist", name.display()));
        } else if let Some(anchor) = anchor
            && !anchors(&std::fs::read_to_string(&file).unwrap()).contains(anchor)
        {
            broken.push(format!("{} links to {target}, and there is no such heading", name.display()));
        }
    }
    broken
}

#[test]
fn links_between_documents_lead_to_files_and_headings() {
    let broken: Vec<String> = documents().iter().flat_map(|document| broken_links(document)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_of_the_book_is_in_its_table_of_contents() {
    let contents = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut pages = Vec::new();
    markdown_below(&root().join("docs"), &mut pages);
    let missing: Vec<String> = pages
        .iter()
        .map(|page| page.strip_prefix(root().join("docs")).unwrap().display().to_string())
        .filter(|page| page != "SUMMARY.md" && !contents.contains(&format!("]({page})")))
        .collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

/// `docs/spec.md` names behaviour, not files; the changelog and the track record name files as they were.
#[test]
fn files_that_documents_name_exist() {
    let file = Regex::new(r"`([a-z0-9_/.]+\.(?:rs|md)|(?:src|tests|docs|fuzz|\.ci)/[a-z0-9_/.-]*)`").unwrap();
    let mut missing = Vec::new();
    for document in documents() {
        let name = document.strip_prefix(root()).unwrap();
        if ["CHANGELOG.md", "docs/spec.md", "docs/internals/track-record.md"]
            .iter()
            .any(|page| name == Path::new(page))
        {
            continue;
        }
        let beside = document.parent().unwrap().to_path_buf();
        let places = [
            root().to_path_buf(),
            root().join("src"),
            root().join("src/api"),
            root().join("src/apimachinery"),
            root().join("src/apiserver"),
            root().join("src/console"),
            root().join("src/console_toolkit"),
            root().join("src/console_data"),
            root().join("src/console_operations"),
            root().join("src/console_screens"),
            beside,
        ];
        for found in file.captures_iter(&std::fs::read_to_string(&document).unwrap()) {
            if !places.iter().any(|place| place.join(&found[1]).exists()) {
                missing.push(format!("{} names {}", name.display(), &found[1]));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_readme_is_short() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(
        lines <= README_LINES,
        "README.md has {lines} lines, at most {README_LINES}; details belong into docs/"
    );
}
