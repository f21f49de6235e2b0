//! Foreign text inside our own messages: makes sure that it cannot drive a terminal or reverse the direction of a
//! line (SEC-3).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns a text in double quotes with non-printing characters escaped: Go's `%q`, as in Kubernetes' messages.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if prints(c) => quoted.push(c),
            c => escape(&mut quoted, c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a text as one word of a shell command, in single quotes if it needs them.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+,%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', "'\\''")))
}

/// Returns a message without non-printing characters: control characters (C1 as well), direction marks, invisible
/// characters. Line ends and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let stays = |c: char| prints(c) || matches!(c, '\n' | '\t');
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if stays(c) { shown.push(c) } else { escape(&mut shown, c) }
    }
    Cow::Owned(shown)
}

/// Returns true if a character is a letter, a mark, a number, punctuation, a symbol or the space: Go's
/// `unicode.IsPrint`.
pub fn prints(c: char) -> bool {
    match c {
        ' '..='~' => true,
        c if c.is_ascii() => false,
        c => {
            // At the start of a text Rust also escapes combining marks, which do print.
            let mut text = [b'a', 0, 0, 0, 0];
            let end = 1 + c.encode_utf8(&mut text[1..]).len();
            str::from_utf8(&text[..end]).is_ok_and(|text| text.escape_debug().count() == 2)
        }
    }
}

fn escape(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\u{b}' => out.push_str("\\v"),
        c if c.is_ascii() => drop(write!(out, "\\x{:02x}", c as u32)),
        c if (c as u32) < 0x1_0000 => drop(write!(out, "\\u{:04x}", c as u32)),
        c => drop(write!(out, "\\U{:08x}", c as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_is_left_sec_3() {
        for (text, quoted, shown) in [
            ("a\"\\'é", "\"a\\\"\\\\'é\"", "a\"\\'é"),
            ("x\u{1b}]0;P\u{7}", "\"x\\x1b]0;P\\a\"", "x\\x1b]0;P\\a"),
            ("c1\u{9b}31m", "\"c1\\u009b31m\"", "c1\\u009b31m"),
            ("del\u{7f}\0", "\"del\\x7f\\x00\"", "del\\x7f\\x00"),
            ("bidi\u{202e}\u{2066}\u{200f}", "\"bidi\\u202e\\u2066\\u200f\"", "bidi\\u202e\\u2066\\u200f"),
            ("\u{200b}\u{feff}\u{2028}", "\"\\u200b\\ufeff\\u2028\"", "\\u200b\\ufeff\\u2028"),
            ("\u{e0001}", "\"\\U000e0001\"", "\\U000e0001"),
            ("a\nb\tc\rd", "\"a\\nb\\tc\\rd\"", "a\nb\tc\\rd"),
            ("e\u{301} 日本 🦀", "\"e\u{301} 日本 🦀\"", "e\u{301} 日本 🦀"),
            ("हिन्दी ⚠\u{fe0f}", "\"हिन्दी ⚠\u{fe0f}\"", "हिन्दी ⚠\u{fe0f}"),
        ] {
            assert_eq!(quote(text), quoted, "{text:?}");
            assert_eq!(printable(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_shell_reads_back_the_word_cli_6() {
        for (text, word) in [
            ("/srv/podium-1", "/srv/podium-1"),
            ("/srv/my data", "'/srv/my data'"),
            ("~/x", "'~/x'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
            let script = format!("printf %s {word}");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
