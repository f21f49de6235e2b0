//! Text for the screen: sanitizes text from the server, and formats times.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::LazyLock;

use jiff::Timestamp;
use rand::RngExt;
use regex::Regex;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use base::count::noun_for;
use object::time::human_duration;

/// Replaces everything that could control the terminal or change the text's direction by a visible glyph (SEC-3):
/// control characters by their picture, C1 and direction marks by `�`. Line ends become a picture, too; split into
/// lines first to retain them. Tabs become a space, and emoji joiners are removed.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match c {
        c if joins(c) => None,
        c if is_unsafe(c) => Some(picture(c)),
        c => Some(c),
    };
    Cow::Owned(text.chars().filter_map(shown).collect())
}

/// Reports whether a character joins emoji or widens them: terminals disagree on the width of the result (tmux shows
/// the parts), which would shift the rest of the line. The separate parts have the same width everywhere.
pub(crate) fn joins(c: char) -> bool {
    matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

/// Reports whether a character changes the direction of text, so that a line could read as another.
pub(crate) fn changes_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || joins(c)
        || changes_direction(c)
        || matches!(c, '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn picture(c: char) -> char {
    match c {
        '\t' => ' ',
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
        '\u{7f}' => '␡',
        _ => '\u{fffd}',
    }
}

/// Matches a time or a quantity: `5m`, `2h13m`, `1.5s`, `4 s`, `12:03:05`, `250m`, `12Mi`.
static AMOUNT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\b(?:\d+(?:\.\d+)?(?:ms|d|h|m|s|Ki|Mi|Gi|Ti|%))+(?:\b|$)|\b\d+ s\b|\b\d{2}:\d{2}:\d{2}\b|\b\d+(?:\.\d+)?%",
    )
    .expect("a pattern")
});

/// Returns the text with `#` for each time and quantity.
pub fn without_amounts(text: &str) -> Cow<'_, str> {
    AMOUNT.replace_all(text, "#")
}

/// Returns the seconds until a time, never negative, for countdowns.
pub fn seconds_until(now: Timestamp, at: Timestamp) -> i64 {
    (at.as_second() - now.as_second()).max(0)
}

/// Truncates text to this many columns, with `…` if it is longer. A sentence ends after a whole word, unless that would
/// leave more than a third of the columns empty; names and paths have no words and are cut anywhere.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let cut = &text[..end_within(text, columns.saturating_sub(1))];
    let is_between_words = text[cut.len()..].starts_with(' ');
    let word_end = if is_between_words { Some(cut.len()) } else { cut.rfind(' ') };
    let words = word_end.map(|end| cut[..end].trim_end_matches([' ', '·', ',', ';', ':']));
    let words = words.filter(|words| words.width() * 3 >= columns * 2);
    let ellipsis = if columns > 0 { "…" } else { "" };
    Cow::Owned(format!("{}{ellipsis}", words.unwrap_or(cut)))
}

/// Returns the index at which the text exceeds this many columns; its length if it does not.
fn end_within(text: &str, columns: usize) -> usize {
    let mut used = 0;
    let beyond = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    beyond.map_or(text.len(), |(at, _)| at)
}

/// Joins as many parts as fit into this many columns, the first one being the most important: a hint that is cut would
/// say nothing. The first part is truncated if even that does not fit.
pub fn fit_parts<S: AsRef<str>>(
    parts: impl IntoIterator<Item = S>,
    separator: &str,
    columns: usize,
) -> String {
    let mut joined = String::new();
    for part in parts {
        let part = part.as_ref();
        if part.is_empty() {
            continue;
        }
        if joined.is_empty() {
            joined = fit(part, columns).into_owned();
            continue;
        }
        if joined.width() + separator.width() + part.width() <= columns {
            joined.push_str(separator);
            joined.push_str(part);
        }
    }
    joined
}

/// Returns the end of the text in this many columns, after `…` if it is longer: for input fields, where the cursor is
/// at the end.
pub fn tail(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 1;
    let suffix = text.char_indices().rev().take_while(|(_, c)| {
        used += c.width().unwrap_or(0);
        used <= columns
    });
    let from = suffix.last().map_or(text.len(), |(at, _)| at);
    Cow::Owned(if columns > 0 { format!("…{}", &text[from..]) } else { String::new() })
}

/// Shortens a text to this many columns by cutting its middle: the end of a title names the view of the object.
pub fn fit_middle(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let end = tail(text, columns / 2);
    let start = &text[..end_within(text, columns - end.width())];
    Cow::Owned(format!("{start}{end}"))
}

/// Resolves a path as users type it: `~` is the home directory, and an error if there is none.
pub fn typed_path(text: &str) -> Result<PathBuf, String> {
    path_in_home(text, std::env::home_dir)
}

fn path_in_home(text: &str, home: impl FnOnce() -> Option<PathBuf>) -> Result<PathBuf, String> {
    let below = match text.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix('/'),
        None => None,
    };
    let Some(below) = below else { return Ok(PathBuf::from(text)) };
    let home = home().ok_or_else(|| format!("{text}: no home directory"))?;
    Ok(home.join(below.trim_start_matches('/')))
}

/// Wraps each line of a text to this many columns, at spaces if possible. An empty text gives one empty line.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        wrap_line(line, columns.max(1), &mut lines);
    }
    lines
}

fn wrap_line(text: &str, columns: usize, lines: &mut Vec<String>) {
    let (mut line, mut used) = (String::new(), 0);
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 && used > 0 && used + 1 + UnicodeWidthStr::width(word) > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if at > 0 && used < columns {
            line.push(' ');
            used += 1;
        }
        for letter in word.chars() {
            let width = UnicodeWidthChar::width(letter).unwrap_or(0);
            if used + width > columns && used > 0 {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(letter);
            used += width;
        }
    }
    lines.push(line);
}

/// Returns pasted text for an input of one line: a space separates its lines, and control characters are dropped.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.split(['\n', '\r', '\t']).filter(|line| !line.is_empty()).collect();
    lines.join(" ").chars().filter(|letter| !letter.is_control()).collect()
}

/// Truncates or pads text to exactly this many columns.
pub fn pad(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    let spaces = columns.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(spaces))
}

/// Formats seconds as kubectl prints ages: `59s`, `119s`, `2m5s`, `3h`, `2d3h`, `45d`, `2y10d`.
pub fn age(seconds: i64) -> String {
    age_and_next(seconds).0
}

/// Returns the age, and the number of seconds until its text may change.
pub fn age_and_next(seconds: i64) -> (String, i64) {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = seconds.max(0);
    // The smallest unit that the text shows, in seconds.
    let step = match seconds {
        s if s < 10 * MINUTE => 1,
        s if s < 8 * HOUR => MINUTE,
        s if s < 8 * DAY => HOUR,
        _ => DAY,
    };
    (human_duration(seconds), step - seconds % step)
}

/// Returns the seconds from one time to another.
pub fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second() - from.as_second()
}

/// Formats a size: `12 B`, `3 KiB`, `41 MiB`.
pub fn format_size(size: u64) -> String {
    match size {
        ..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{} KiB", size / 1024),
        _ => format!("{} MiB", size / 1_048_576),
    }
}

/// Formats a whole number in groups of three with thin spaces: `1 204 331`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Generates this many letters as Kubernetes does for names: no vowels and no ambiguous characters.
pub fn generated(count: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = rand::rng();
    (0..count).map(|_| LETTERS[random.random_range(0..LETTERS.len())] as char).collect()
}

/// Formats a count with its noun: `1 pod`, `1 200 pods`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{} {}", grouped(count as u64), noun_for(count, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_lines_stay_apart_in_an_input_of_one_line_con_15() {
        for (pasted, typed) in [
            ("web-1\r\nweb-2\n", "web-1 web-2"),
            ("app\tweb", "app web"),
            (" a b ", " a b "),
            ("\u{1b}[31mred", "[31mred"),
            ("\n", ""),
        ] {
            assert_eq!(one_line(pasted), typed, "{pasted:?}");
        }
    }

    #[test]
    fn texts_are_broken_at_spaces_con_2() {
        for (text, columns, lines) in [
            ("", 5, &[""][..]),
            ("a\nb\n", 5, &["a", "b", ""]),
            ("one two three", 7, &["one two", "three"]),
            ("one two three", 8, &["one two", "three"]),
            ("abcdefghijkl", 8, &["abcdefgh", "ijkl"]),
            ("abcdefgh ij", 5, &["abcde", "fgh", "ij"]),
            ("漢字漢字 x", 5, &["漢字", "漢字", "x"]),
        ] {
            assert_eq!(wrapped(text, columns), lines, "{text} in {columns}");
        }
    }

    #[test]
    fn a_path_in_the_home_directory_needs_one_con_3() {
        let home = || Some(PathBuf::from("/home/me"));
        for (typed, path) in [
            ("~", "/home/me"),
            ("~/x", "/home/me/x"),
            ("~//x", "/home/me/x"),
            ("~other/x", "~other/x"),
            ("x/~", "x/~"),
            ("/x", "/x"),
        ] {
            assert_eq!(path_in_home(typed, home), Ok(PathBuf::from(path)), "{typed}");
        }
        assert_eq!(path_in_home("~/x", || None), Err("~/x: no home directory".to_owned()));
        assert_eq!(path_in_home("/x", || None), Ok(PathBuf::from("/x")));
    }

    #[test]
    fn nothing_drives_the_terminal_sec_3() {
        for (given, shown) in [
            ("plain ünïcode 漢", "plain ünïcode 漢"),
            ("\u{1b}[31mred\u{1b}]0;title\u{7}", "␛[31mred␛]0;title␇"),
            ("a\nb\tc\r", "a␊b c␍"),
            ("\u{9b}31m\u{7f}", "\u{fffd}31m␡"),
            ("abc\u{202e}fed", "abc\u{fffd}fed"),
            ("abc\u{61c}fed", "abc\u{fffd}fed"),
            ("👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}", "👨👩👧 ❤"),
        ] {
            assert_eq!(clean(given), shown);
        }
    }

    #[test]
    fn ages_read_as_kubectl_prints_them_con_4() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (183_600, "2d3h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_936_000, "2y10d"),
        ] {
            assert_eq!(age(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn an_age_says_when_it_changes() {
        for seconds in [0, 59, 119, 130, 700, 11_000, 40_000, 200_000, 800_000, 70_000_000] {
            let (text, next) = age_and_next(seconds);
            assert_eq!(age(seconds + next - 1), text, "{seconds} + {next}");
        }
    }

    #[test]
    fn a_long_title_keeps_both_its_ends_con_17() {
        for (text, columns, cut) in [
            ("Pods shop", 9, "Pods shop"),
            ("chatter-6bf8995874-r6rhg · shell", 24, "chatter-6bf8…rhg · shell"),
            ("chatter-6bf8995874-r6rhg · shell", 6, "cha…ll"),
            ("日本語日本語日本語", 7, "日本…語"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fit_middle(text, columns), cut);
        }
    }

    #[test]
    fn long_text_is_cut_with_an_ellipsis() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcde…");
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("abc", 0), "");
        for (text, columns, cut) in [
            ("esc goes back · r resumes it", 20, "esc goes back · r…"),
            ("esc goes back · resume it", 19, "esc goes back…"),
            ("waiting for the controller", 12, "waiting for…"),
            ("pulling docker.io/library/nginx", 16, "pulling docker.…"),
            ("one two", 4, "one…"),
            (" indented text", 5, " ind…"),
        ] {
            assert_eq!(fit(text, columns), cut, "{text} in {columns}");
        }
        for (parts, columns, joined) in [
            (&["r resumes", "u uncordons", "esc"][..], 40, "r resumes · u uncordons · esc"),
            (&["r resumes", "u uncordons", "esc"], 16, "r resumes · esc"),
            (&["r resumes", "esc"], 6, "r res…"),
            (&["", "esc"], 6, "esc"),
            (&[], 6, ""),
        ] {
            assert_eq!(fit_parts(parts, " · ", columns), joined, "{parts:?} in {columns}");
        }
        for (text, columns, end) in
            [("abc", 3, "abc"), ("abcdef", 3, "…ef"), ("漢字漢", 4, "…漢"), ("ab", 0, "")]
        {
            assert_eq!(tail(text, columns), end);
        }
        for (text, columns, padded) in [("ab", 4, "ab  "), ("漢字", 5, "漢字 "), ("abcdef", 3, "ab…")] {
            assert_eq!(pad(text, columns), padded);
        }
        assert_eq!(grouped(1_204_331), "1 204 331");
        assert_eq!(grouped(42), "42");
    }
}
