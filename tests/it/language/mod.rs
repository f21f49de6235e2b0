//! Holds the language of the sources: comments are statements, names are nouns and verbs of the field.
//!
//! The target for every folder: at most 3 % of the comment blocks open with a question word, no banned word in
//! identifiers and comments, no type whose name is not a noun. No comment refers to papers outside of the repository;
//! it says the fact instead. [`CEILINGS`] has today's numbers, which may only fall.
//!
//! `PODIUM_LANGUAGE=console cargo test --test it -- language:: --nocapture` lists all places of a folder,
//! `PODIUM_LANGUAGE=rows` the table with each number that can be lowered.

mod rules;
mod scanner;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use crate::layers::sources;

use scanner::Source;

/// The share of comment blocks, in percent, that may open with a question word in the end.
const TARGET: f64 = 3.0;

/// For each folder below `src`, the files directly in it (`podium`) and `tests/`: the percentage of comment blocks that
/// open with a question word, the number of banned words in identifiers and in comments, and the number of types whose
/// names are not nouns. Lower a number after an improvement: the test fails if a folder is better than its ceiling by
/// more than 5 % and by more than 10 places, and prints the new row.
#[rustfmt::skip]
const CEILINGS: &[(&str, f64, usize, usize, usize)] = &[
    // folder, questions, identifiers, comments, types
    ("api", 3.0, 1548, 74, 128),
    ("apply", 3.0, 11, 0, 2),
    ("base", 3.0, 12, 0, 4),
    ("cli", 3.0, 322, 0, 24),
    ("cluster", 3.0, 354, 25, 31),
    ("console", 3.0, 2618, 9, 150),
    ("controllers", 3.0, 271, 0, 23),
    ("fabric", 3.0, 43, 11, 7),
    ("fuzz", 3.0, 0, 0, 0),
    ("host", 3.0, 95, 15, 11),
    ("kubelet", 3.0, 208, 18, 29),
    ("manifest", 3.0, 2, 2, 3),
    ("network", 3.0, 629, 19, 80),
    ("object", 3.0, 81, 2, 5),
    ("podium", 3.0, 0, 0, 0),
    ("programs", 3.0, 32, 2, 4),
    ("reconcile", 3.0, 107, 2, 9),
    ("scheduler", 3.0, 183, 0, 18),
    ("simulate", 3.0, 243, 3, 7),
    ("store", 3.0, 24, 0, 10),
    ("testing", 3.0, 74, 0, 5),
    ("tests/", 3.0, 1159, 7, 17),
    ("trial", 3.0, 6, 0, 10),
    ("workspace-hack", 3.0, 0, 3, 0),
];

struct Exception {
    word: &'static str,
    /// A file, an identifier, or both if empty.
    place: &'static str,
    reason: &'static str,
}

/// Legitimate uses of banned words.
const EXCEPTIONS: &[Exception] =
    &[Exception { word: "nobody", place: "tests/it/fabric/mod.rs", reason: "the Unix user of this name" }];

/// A violation: file, line, and the words.
type Finding = (String, usize, String);

#[derive(Default)]
struct Folder {
    blocks: usize,
    questions: Vec<Finding>,
    identifiers: Vec<Finding>,
    comments: Vec<Finding>,
    types: Vec<Finding>,
    papers: Vec<Finding>,
}

#[derive(Default)]
struct Measurement {
    folders: BTreeMap<String, Folder>,
    /// The exceptions that apply to some place, by their positions.
    used: BTreeSet<usize>,
}

/// All sources, read once for all tests.
static TREE: LazyLock<Measurement> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for directory in ["src", "tests"] {
        sources(&root.join(directory), &mut files);
    }
    files.sort();
    let mut tree = Measurement::default();
    for file in files {
        let path = file.strip_prefix(root).unwrap().to_str().unwrap();
        tree.add(path, &std::fs::read_to_string(&file).unwrap());
    }
    tree
});

/// The name of the folder in [`CEILINGS`] that a file belongs to.
fn folder(path: &str) -> &str {
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("tests"), ..) => "tests/",
        (_, Some(folder), Some(_)) => folder,
        _ => "podium",
    }
}

impl Measurement {
    fn add(&mut self, path: &str, text: &str) {
        let folder = self.folders.entry(folder(path).to_owned()).or_default();
        let used = &mut self.used;
        let mut is_exception = |word: &str, identifier: &str| {
            let found = EXCEPTIONS.iter().position(|e| {
                e.word == word && (e.place.is_empty() || e.place == path || e.place == identifier)
            });
            used.extend(found);
            found.is_some()
        };
        let source = Source::parse(text);
        for comment in &source.comments {
            folder.blocks += 1;
            let lines: Vec<&str> = comment.lines.iter().map(|(_, line)| line.as_str()).collect();
            let first = comment.lines[0].0;
            if rules::opens_with_a_question(&lines.join(" ")) {
                folder.questions.push((path.to_owned(), first, lines[0].to_owned()));
            }
            for paper in rules::papers(&lines.join(" ")) {
                folder.papers.push((path.to_owned(), first, paper));
            }
            for (number, line) in &comment.lines {
                for word in rules::banned(line).filter(|word| !is_exception(word, "")) {
                    folder.comments.push((path.to_owned(), *number, format!("{word}: {line}")));
                }
            }
        }
        for found in &source.identifiers {
            for word in rules::banned(found.name).filter(|word| !is_exception(word, found.name)) {
                folder.identifiers.push((path.to_owned(), found.line, format!("{word}: {}", found.name)));
            }
            if found.declares_type && rules::is_no_noun(found.name) {
                folder.types.push((path.to_owned(), found.line, found.name.to_owned()));
            }
        }
    }
}

impl Folder {
    fn share(&self) -> f64 {
        100.0 * self.questions.len() as f64 / self.blocks.max(1) as f64
    }

    /// The row of [`CEILINGS`] for the current numbers, with a margin of 1 %. No number rises above its ceiling.
    fn row(&self, name: &str) -> String {
        let old = ceilings(name).unwrap_or((f64::MAX, usize::MAX, usize::MAX, usize::MAX));
        let count =
            |findings: &[Finding], old: usize| (findings.len() + findings.len().div_ceil(100)).min(old);
        let questions = ((self.share() * 10.1).ceil() / 10.0).max(TARGET).min(old.0);
        let identifiers = count(&self.identifiers, old.1);
        let comments = count(&self.comments, old.2);
        let types = count(&self.types, old.3);
        format!("    (\"{name}\", {questions:.1}, {identifiers}, {comments}, {types}),")
    }
}

fn ceilings(name: &str) -> Option<(f64, usize, usize, usize)> {
    CEILINGS.iter().find(|row| row.0 == name).map(|row| (row.1, row.2, row.3, row.4))
}

/// Percentages are compared as numbers of blocks.
fn blocks(folder: &Folder, percent: f64) -> usize {
    (percent * folder.blocks as f64 / 100.0).floor() as usize
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Fits,
    Over,
    /// So far below the ceiling that the ceiling has to be lowered.
    Stale,
}

/// Compares a count with its ceiling; a ceiling at or below the target stays.
fn verdict(count: usize, ceiling: usize, target: usize) -> Verdict {
    if count > ceiling {
        Verdict::Over
    } else if ceiling > target && ceiling - count > (ceiling / 20).max(10) {
        Verdict::Stale
    } else {
        Verdict::Fits
    }
}

fn list(findings: &[Finding]) -> String {
    findings.iter().fold(String::new(), |mut text, (path, line, words)| {
        let _ = writeln!(text, "    {path}:{line}: {words}");
        text
    })
}

#[test]
fn the_language_of_each_folder_stays_below_its_ceilings() {
    let names: BTreeSet<&str> = TREE.folders.keys().map(String::as_str).collect();
    let option = std::env::var("PODIUM_LANGUAGE").unwrap_or_default();
    let mut wrong = String::new();
    for name in CEILINGS.iter().map(|row| row.0).filter(|name| !names.contains(name)) {
        let _ = writeln!(wrong, "{name}: there is no such folder, remove its row");
    }
    for (name, folder) in &TREE.folders {
        let Some((share, identifiers, comments, types)) = ceilings(name) else {
            let _ = writeln!(wrong, "{name}: has no row, add\n{}", folder.row(name));
            continue;
        };
        let mut lower = false;
        for (rule, findings, ceiling, target) in [
            (
                "comments that open with a question",
                &folder.questions,
                blocks(folder, share),
                blocks(folder, TARGET),
            ),
            ("banned words in identifiers", &folder.identifiers, identifiers, 0),
            ("banned words in comments", &folder.comments, comments, 0),
            ("types whose names are not nouns", &folder.types, types, 0),
        ] {
            match verdict(findings.len(), ceiling, target) {
                Verdict::Fits => {}
                Verdict::Over => {
                    let _ = writeln!(wrong, "{name}: {} {rule}, at most {ceiling}", findings.len());
                    if findings.len() <= 40 {
                        wrong.push_str(&list(findings));
                    }
                }
                Verdict::Stale => {
                    lower = true;
                    let _ =
                        writeln!(wrong, "{name}: only {} {rule}, the ceiling is {ceiling}", findings.len());
                }
            }
        }
        if lower {
            let _ = writeln!(
                wrong,
                "  lower the row of {name} in tests/it/language/mod.rs:\n{}",
                folder.row(name)
            );
        }
        if option == *name {
            for findings in [&folder.questions, &folder.identifiers, &folder.comments, &folder.types] {
                print!("{}", list(findings));
            }
        } else if option == "rows" {
            println!("{}", folder.row(name));
        }
    }
    assert!(wrong.is_empty(), "PODIUM_LANGUAGE=FOLDER lists all places of a folder\n{wrong}");
}

#[test]
fn comments_say_facts_and_do_not_refer_to_papers_outside_of_the_repository() {
    let papers: String = TREE.folders.values().map(|folder| list(&folder.papers)).collect();
    assert!(papers.is_empty(), "say the fact itself:\n{papers}");
}

#[test]
fn each_exception_is_used_and_has_a_reason() {
    for (position, exception) in EXCEPTIONS.iter().enumerate() {
        assert!(rules::BANNED.contains(&exception.word), "{} is not banned", exception.word);
        assert!(!exception.reason.is_empty(), "{} in {}", exception.word, exception.place);
        assert!(TREE.used.contains(&position), "not used: {} in {}", exception.word, exception.place);
    }
}

#[test]
fn a_source_is_measured_by_folder() {
    let mut found = Measurement::default();
    found.add(
        "src/a/b.rs",
        r#"//! What it does.
/// A plain statement, told
/// to somebody.
struct Told { kept: u8, other: u8 } // HOUSE 7
fn f() { g("told", 'k', r"struct Kept; // what"); }
"#,
    );
    found.add("src/lib.rs", "// Who runs.\n");
    found.add("tests/it/main.rs", "/// A pod.\nstruct Pod;");
    assert_eq!(found.folders.keys().collect::<Vec<_>>(), ["a", "podium", "tests/"]);
    let all = |findings: &[Finding]| {
        findings.iter().map(|(path, line, words)| format!("{path}:{line}: {words}")).collect::<Vec<_>>()
    };
    let a = &found.folders["a"];
    assert_eq!(a.blocks, 3);
    assert_eq!(all(&a.questions), ["src/a/b.rs:1: What it does."]);
    assert_eq!(all(&a.identifiers), ["src/a/b.rs:4: told: Told", "src/a/b.rs:4: kept: kept"]);
    assert_eq!(
        all(&a.comments),
        ["src/a/b.rs:2: told: A plain statement, told", "src/a/b.rs:3: somebody: to somebody."]
    );
    assert_eq!(all(&a.types), ["src/a/b.rs:4: Told"]);
    assert_eq!(all(&a.papers), ["src/a/b.rs:4: HOUSE 7"]);
    assert_eq!(a.row("a"), "    (\"a\", 33.7, 3, 3, 2),");
    assert_eq!(found.folders["podium"].row("new"), "    (\"new\", 101.0, 0, 0, 0),");
    assert_eq!(found.folders["tests/"].row("tests/"), "    (\"tests/\", 3.0, 0, 0, 0),");
}

#[test]
fn a_ceiling_is_exceeded_fits_or_is_stale() {
    for (count, ceiling, target, expected) in [
        (101, 100, 0, Verdict::Over),
        (100, 100, 0, Verdict::Fits),
        (90, 100, 0, Verdict::Fits),
        (89, 100, 0, Verdict::Stale),
        (950, 1000, 0, Verdict::Fits),
        (949, 1000, 0, Verdict::Stale),
        (0, 10, 0, Verdict::Fits),
        (0, 11, 0, Verdict::Stale),
        (0, 0, 0, Verdict::Fits),
        (1, 0, 0, Verdict::Over),
        (0, 30, 30, Verdict::Fits),
        (0, 31, 30, Verdict::Stale),
    ] {
        assert_eq!(verdict(count, ceiling, target), expected, "{count} of {ceiling}");
    }
}
