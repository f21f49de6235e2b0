//! Holds the language of the sources: comments are statements, names are nouns and verbs of the field.
//!
//! In every folder at most 3 % of the comment blocks open with a question word. No identifier and no comment has a
//! banned word, no type has a name that is not a noun, and no comment refers to papers outside of the repository.

mod rules;
mod scanner;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use crate::layers::sources;

use scanner::Source;

/// The share of a folder's comment blocks, in percent, that may open with a question word.
const QUESTIONS: usize = 3;

struct Exception {
    /// A banned word, or the name of a type.
    word: &'static str,
    file: &'static str,
    reason: &'static str,
}

#[rustfmt::skip]
const EXCEPTIONS: &[Exception] = &[
    Exception { word: "nobody", file: "tests/it/fabric/mod.rs", reason: "the Unix user of this name" },
    Exception { word: "InFlightRequest", file: "src/apiserver/request_metrics.rs", reason: "Kubernetes' requests in flight" },
    Exception { word: "asked", file: "src/extension/scenario/mod.rs", reason: "the field hintsAsked of scenarios" },
    Exception { word: "InMemoryServer", file: "tests/it/http.rs", reason: "an adjective and a noun" },
    Exception { word: "WhoCanReport", file: "src/console_data/access/who_can.rs", reason: "the report of `who-can`" },
    Exception { word: "WhoCanResult", file: "src/console_screens/access/mod.rs", reason: "the result of `who-can`" },
    Exception { word: "WhyRequest", file: "src/cli/why/mod.rs", reason: "a request of `podium why`" },
];

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

/// The folder below `src` that a file belongs to, `podium` for files directly in it, or `tests/`.
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
        let mut is_exception = |word: &str| {
            let found = EXCEPTIONS.iter().position(|e| e.word == word && e.file == path);
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
                // Within a sentence "whose" is a possessive.
                for word in rules::banned(line).filter(|word| *word != "whose" && !is_exception(word)) {
                    folder.comments.push((path.to_owned(), *number, format!("{word}: {line}")));
                }
            }
        }
        for found in &source.identifiers {
            for word in rules::banned(found.name).filter(|word| !is_exception(word)) {
                folder.identifiers.push((path.to_owned(), found.line, format!("{word}: {}", found.name)));
            }
            if found.declares_type && rules::is_no_noun(found.name) && !is_exception(found.name) {
                folder.types.push((path.to_owned(), found.line, found.name.to_owned()));
            }
        }
    }
}

fn list(findings: &[Finding]) -> String {
    findings.iter().fold(String::new(), |mut text, (path, line, words)| {
        let _ = writeln!(text, "    {path}:{line}: {words}");
        text
    })
}

#[test]
fn comments_and_names_are_plain() {
    let mut wrong = String::new();
    for (name, folder) in &TREE.folders {
        let Folder { blocks, questions, identifiers, comments, types, .. } = folder;
        if questions.len() * 100 > blocks * QUESTIONS {
            let _ = writeln!(
                wrong,
                "{name}: {} of {blocks} comment blocks open with a question",
                questions.len()
            );
            wrong.push_str(&list(questions));
        }
        for (rule, findings) in [
            ("banned words in identifiers", identifiers),
            ("banned words in comments", comments),
            ("types whose names are not nouns", types),
        ] {
            if !findings.is_empty() {
                let _ = writeln!(wrong, "{name}: {rule}");
                wrong.push_str(&list(findings));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn comments_say_facts_and_do_not_refer_to_papers_outside_of_the_repository() {
    let papers: String = TREE.folders.values().map(|folder| list(&folder.papers)).collect();
    assert!(papers.is_empty(), "say the fact itself:\n{papers}");
}

#[test]
fn each_exception_is_used_and_has_a_reason() {
    for (position, exception) in EXCEPTIONS.iter().enumerate() {
        assert!(!exception.reason.is_empty(), "{} in {}", exception.word, exception.file);
        assert!(TREE.used.contains(&position), "not used: {} in {}", exception.word, exception.file);
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
}
