//! Regular expressions in Go's syntax, as users of Kubernetes write them, within bounds on memory.

use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// The memory limit of a compiled pattern: the automaton of a long repetition of a large class would take
/// megabytes.
const MAX_COMPILED_BYTES: usize = 512 * 1024;
/// The factor by which a few large patterns of a schema may exceed [`MAX_COMPILED_BYTES`], such as those that
/// repeat Unicode classes hundreds of times.
pub const LARGE: usize = 32;
/// The maximum number of large patterns in a schema.
pub const MAX_LARGE_PATTERNS: usize = 4;
/// The maximum length of a pattern; its text stays in memory beside the compiled form.
const MAX_BYTES: usize = 8 * 1024;
/// The maximum number of patterns in a schema; the largest known schemas for Kubernetes have a hundred. With
/// [`MAX_COMPILED_BYTES`] this bounds the memory of a schema.
pub const MAX_PATTERNS: usize = 500;

/// Compiles a pattern; the error has the reason if it is invalid or too large. Matching takes time in
/// proportion to the text and to the pattern's [`weight`].
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, MAX_COMPILED_BYTES)
}

/// As [`compile`], for one of the few patterns that may take more memory.
pub fn compile_large(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, MAX_COMPILED_BYTES * LARGE)
}

fn compile_within(pattern: &str, bytes: usize) -> Result<Regex, String> {
    if pattern.len() > MAX_BYTES {
        return Err(format!("more than {MAX_BYTES} bytes"));
    }
    RegexBuilder::new(&translate(pattern)).size_limit(bytes).build().map_err(|error| {
        let text = error.to_string();
        // The library draws a marker below the pattern; only the last line has the reason.
        text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string()
    })
}

/// Returns the approximate number of characters in a compilable pattern once its repetitions are written out.
pub fn weight(pattern: &str) -> u64 {
    weight_of_group(&mut pattern.chars().peekable())
}

fn weight_of_group(letters: &mut Peekable<Chars<'_>>) -> u64 {
    let (mut before, mut last) = (0_u64, 0_u64);
    while let Some(letter) = letters.next() {
        let next = match letter {
            ')' => break,
            // The library limits the nesting of patterns that compile.
            '(' => weight_of_group(letters),
            '{' => {
                let bounds: String = letters.by_ref().take_while(|letter| *letter != '}').collect();
                let most = bounds.split(',').filter_map(|bound| bound.trim().parse::<u64>().ok()).max();
                last = last.saturating_mul(most.unwrap_or(1).max(1));
                continue;
            }
            '[' => {
                while let Some(letter) = letters.next() {
                    match letter {
                        ']' => break,
                        '\\' => drop(letters.next()),
                        _ => {}
                    }
                }
                1
            }
            '\\' => {
                letters.next();
                1
            }
            _ => 1,
        };
        before = before.saturating_add(last);
        last = next;
    }
    before.saturating_add(last)
}

/// Translates Go's syntax to the library's: in Go, `\d`, `\s`, `\w` and `\b` are ASCII only, and a class
/// contains neither classes nor operators on them.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut letters = pattern.chars().peekable();
    let mut in_class = false;
    let mut first_in_class = false;
    let mut last = ' ';
    while let Some(letter) = letters.next() {
        let starts_class = first_in_class;
        first_in_class = false;
        match letter {
            '\\' => match letters.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\x0C\\r ]"),
                Some('S') => out.push_str("[^\\t\\n\\x0C\\r ]"),
                Some('b') if !in_class => out.push_str("(?-u:\\b)"),
                // `\B` would match within a letter of several bytes; Go leaves its meaning there open as
                // well.
                Some('C') => out.push('.'),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if in_class => {
                if letters.peek() == Some(&':') {
                    out.push('[');
                    // A named class: `[:alpha:]`.
                    for letter in letters.by_ref() {
                        out.push(letter);
                        if letter == ']' {
                            break;
                        }
                    }
                } else {
                    out.push_str("\\[");
                }
            }
            '[' => {
                in_class = true;
                first_in_class = true;
                out.push('[');
                if letters.peek() == Some(&'^') {
                    letters.next();
                    out.push('^');
                }
            }
            // A bracket at the start of a class is literal.
            ']' if in_class && starts_class => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', letter]),
            '-' if in_class && (last == '-' || starts_class) => out.push_str("\\-"),
            letter => out.push(letter),
        }
        last = letter;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go_api_14() {
        for (pattern, matching, others) in [
            ("^\\d+$", "12", "\u{661}"),
            ("^\\w+$", "a_1", "\u{e9}"),
            ("^[\\w-]+$", "a-b", "a b"),
            ("^[-a-z]+$", "-a", "A"),
            ("^[a&&b]+$", "&a", "c"),
            ("^[[a]+$", "[a", "b"),
            ("^[]a]+$", "]a", "b"),
            ("^[[:alpha:]_]+$", "a_", "1"),
            ("^[^[]+$", "a", "["),
            ("^a\\.b\\/c$", "a.b/c", "axb/c"),
            ("^(?:[a-z]+\\.)+[a-z]{2,}$", "a.bc", "a."),
            ("^\\S+$", "\u{e9}", "a b"),
        ] {
            let compiled = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(compiled.is_match(matching) && !compiled.is_match(others), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_is_bounded_api_14() {
        for hostile in ["(", "(a{1000}){1000}", "\\pL{1000}", "(?=a)", &"a".repeat(MAX_BYTES + 1)] {
            assert!(compile(hostile).is_err(), "{}", &hostile[..hostile.len().min(20)]);
        }
        // OpenShift's host names: letters of any script, hundreds of times.
        let large = "^([\\p{S}\\p{L}](-?[\\p{S}\\p{L}]{0,62})|([\\p{S}\\p{L}]{0,61}\\.)+[\\p{L}]{2,63})$";
        assert!(compile(large).is_err() && compile_large(large).is_ok());
        // Catastrophic for backtracking engines; linear here.
        assert!(!compile("^(a+)+$").unwrap().is_match(&format!("{}b", "a".repeat(10_000))));
    }
}
