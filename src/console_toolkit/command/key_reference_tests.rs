//! docs/use/keys.md is generated from the table of commands.

use std::fmt::Write as _;
use std::path::Path;

use super::{KeyContext, PROMPT_WORDS, TABLE};

const BEGIN: &str =
    "<!-- generated: UPDATE_KEYS=1 cargo test -p podium-console-toolkit --lib the_key_reference -->\n";
const END: &str = "<!-- end of the generated part -->\n";

/// Returns `text` as code in a cell of a table.
fn code(text: &str) -> String {
    if text.contains(['|', '`']) {
        format!("<code>{}</code>", text.replace('|', "&#124;").replace('`', "&#96;"))
    } else {
        format!("`{text}`")
    }
}

/// Returns the parts of `texts` as code, separated by spaces.
fn codes<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(code).collect::<Vec<_>>().join(" ")
}

/// Returns a table of keys for each context, and one of the words of the `:` prompt.
fn reference() -> String {
    let mut out = String::new();
    for context in KeyContext::ALL {
        let _ = writeln!(out, "\n## {}\n\n| keys | effect | name |\n|---|---|---|", context.title());
        for entry in TABLE.iter().filter(|entry| entry.context == *context) {
            let keys = if entry.keys.is_empty() { "none".into() } else { codes(entry.keys.iter().copied()) };
            let _ = writeln!(out, "| {keys} | {} | {} |", entry.about, code(entry.name));
        }
    }
    out.push_str(
        "\n## Words of the `:` prompt\n\n| word | aliases | arguments | effect |\n|---|---|---|---|\n",
    );
    for word in PROMPT_WORDS {
        let aliases = codes(word.aliases.split_whitespace());
        let _ = writeln!(out, "| {} | {aliases} | {} | {} |", code(word.name), word.rest, word.about);
    }
    out.push('\n');
    out
}

#[test]
fn the_key_reference_lists_every_command_con_3() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/keys.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the comment at the start of the generated part");
    let (written, after) = rest.split_once(END).expect("the comment at its end");
    let expected = reference();
    if std::env::var_os("UPDATE_KEYS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, expected, "UPDATE_KEYS=1 writes docs/use/keys.md anew");
}
