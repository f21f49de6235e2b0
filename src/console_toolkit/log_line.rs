//! One log line: the container's text, without sequences that would control the user's terminal (SEC-3).
//!
//! Colours (SGR) become styles; every other escape sequence and control character is dropped. The words never change.

use std::ops::Range;
use std::sync::Arc;

use ratatui::style::{Color, Modifier, Style};

use super::text::{changes_direction, joins};

/// The severity that a line states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None, or information.
    #[default]
    Plain,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

/// The origin of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineOrigin {
    /// Written by a container.
    #[default]
    Output,
    /// Inserted by the console about the stream: it broke, the container was restarted.
    Note,
    /// Drawn by the user.
    Mark,
}

/// A line, ready to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLine {
    /// `pod/container`, shared by all lines of a stream.
    pub source: Arc<str>,
    /// The server's timestamp, verbatim; empty if the line has none.
    pub at: String,
    /// The text, without control characters.
    pub text: String,
    /// The byte ranges that the container coloured.
    pub styles: Vec<(Range<usize>, Style)>,
    /// Its severity.
    pub level: Level,
    /// Its origin.
    pub kind: LineOrigin,
}

impl LogLine {
    /// Parses a line as the server sends it with `timestamps=true`: time, a space, the text.
    pub fn parse(source: &Arc<str>, raw: &[u8]) -> Self {
        let raw = String::from_utf8_lossy(raw);
        let raw = raw.strip_suffix('\r').unwrap_or(&raw);
        let (at, rest) = match raw.split_once(' ') {
            Some((at, rest)) if is_timestamp(at) => (at, rest),
            _ if is_timestamp(raw) => (raw, ""),
            _ => ("", raw),
        };
        // A progress bar rewrites its line; a terminal would show the last version.
        let shown = rest.rsplit('\r').find(|part| !part.is_empty()).unwrap_or(rest);
        let (text, styles) = sanitize(shown);
        let level = level_of(&text);
        Self { source: source.clone(), at: at.to_owned(), text, styles, level, kind: LineOrigin::Output }
    }

    /// Creates a line that the console inserts.
    pub fn note(source: &Arc<str>, text: impl Into<String>) -> Self {
        let (text, _) = sanitize(&text.into());
        Self { source: source.clone(), text, kind: LineOrigin::Note, ..Self::default() }
    }

    /// Creates a marker line for the user.
    pub fn mark(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: LineOrigin::Mark, ..Self::default() }
    }
}

fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes[0].is_ascii_digit()
}

/// Returns the text without terminal control, and its coloured ranges.
fn sanitize(raw: &str) -> (String, Vec<(Range<usize>, Style)>) {
    if raw.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return (raw.to_owned(), Vec::new());
    }
    let mut text = String::with_capacity(raw.len());
    let mut styles: Vec<(Range<usize>, Style)> = Vec::new();
    let mut style = Style::default();
    let mut from = 0;
    let mut rest = raw.chars();
    while let Some(character) = rest.next() {
        match character {
            '\t' => {
                let column = text.chars().count();
                text.extend(std::iter::repeat_n(' ', 8 - column % 8));
            }
            '\u{1b}' => {
                if let Some(codes) = escape(&mut rest) {
                    if style != Style::default() && text.len() > from {
                        styles.push((from..text.len(), style));
                    }
                    from = text.len();
                    style = select_graphic(style, codes);
                }
            }
            '\u{9b}' => {
                // The one-byte form of `ESC [`.
                let _ = control_sequence(&mut rest);
            }
            character if character.is_control() || joins(character) => {}
            character if changes_direction(character) => text.push('\u{fffd}'),
            character => text.push(character),
        }
    }
    if style != Style::default() && text.len() > from {
        styles.push((from..text.len(), style));
    }
    (text, styles)
}

/// Skips an escape sequence; returns its parameters if it selects colours.
fn escape<'a>(rest: &mut std::str::Chars<'a>) -> Option<&'a str> {
    match rest.clone().next()? {
        '[' => {
            rest.next();
            control_sequence(rest)
        }
        // A string for the terminal (title, clipboard, image), up to BEL or ESC \.
        ']' | 'P' | '_' | '^' | 'X' => {
            while let Some(character) = rest.next() {
                if character == '\u{7}' || character == '\u{9c}' {
                    break;
                }
                if character == '\u{1b}' {
                    if rest.clone().next() == Some('\\') {
                        rest.next();
                    }
                    break;
                }
            }
            None
        }
        '(' | ')' | '*' | '+' | '#' | ' ' | '%' => {
            rest.nth(1);
            None
        }
        _ => {
            rest.next();
            None
        }
    }
}

/// Skips a control sequence after its introducer; returns its parameters if it ends in `m`.
fn control_sequence<'a>(rest: &mut std::str::Chars<'a>) -> Option<&'a str> {
    let all = rest.as_str();
    let mut length = 0;
    for character in rest.by_ref() {
        if ('\u{40}'..='\u{7e}').contains(&character) {
            return (character == 'm').then(|| &all[..length]);
        }
        if !('\u{20}'..='\u{3f}').contains(&character) {
            return None;
        }
        length += character.len_utf8();
    }
    None
}

/// Applies an SGR sequence to a style.
fn select_graphic(mut style: Style, codes: &str) -> Style {
    let codes: Vec<u8> = codes
        .split([';', ':'])
        .map(|code| if code.is_empty() { Some(0) } else { code.parse().ok() })
        .collect::<Option<_>>()
        .unwrap_or_default();
    let mut at = 0;
    while let Some(&code) = codes.get(at) {
        at += 1;
        style = match code {
            0 => Style::default(),
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            22 => without(style, Modifier::BOLD | Modifier::DIM),
            23 => without(style, Modifier::ITALIC),
            24 => without(style, Modifier::UNDERLINED),
            27 => without(style, Modifier::REVERSED),
            29 => without(style, Modifier::CROSSED_OUT),
            30..=37 => style.fg(Color::Indexed(code - 30)),
            90..=97 => style.fg(Color::Indexed(code - 90 + 8)),
            40..=47 => style.bg(Color::Indexed(code - 40)),
            100..=107 => style.bg(Color::Indexed(code - 100 + 8)),
            39 => Style { fg: None, ..style },
            49 => Style { bg: None, ..style },
            38 | 48 => {
                let colour = match codes.get(at..).unwrap_or_default() {
                    [5, index, ..] => {
                        at += 2;
                        Some(Color::Indexed(*index))
                    }
                    [2, red, green, blue, ..] => {
                        at += 4;
                        Some(Color::Rgb(*red, *green, *blue))
                    }
                    _ => {
                        at = codes.len();
                        None
                    }
                };
                match (code, colour) {
                    (_, None) => style,
                    (38, Some(colour)) => style.fg(colour),
                    (_, Some(colour)) => style.bg(colour),
                }
            }
            _ => style,
        };
    }
    style
}

fn without(mut style: Style, modifier: Modifier) -> Style {
    style.add_modifier.remove(modifier);
    style
}

/// Derives the severity from the words that loggers use in the first part of a line.
fn level_of(text: &str) -> Level {
    let end = text.char_indices().nth(160).map_or(text.len(), |(index, _)| index);
    let head = &text[..end];
    // klog: `E1121 03:27:14.123456`.
    if let [letter @ (b'E' | b'W' | b'F'), digits @ ..] = head.as_bytes()
        && digits.len() > 5
        && digits[..4].iter().all(u8::is_ascii_digit)
        && digits[4] == b' '
    {
        return if *letter == b'W' { Level::Warning } else { Level::Error };
    }
    let mut level = Level::Plain;
    for word in head.split(|character: char| !character.is_ascii_alphabetic()) {
        let found = match word {
            "ERROR" | "Error" | "error" | "ERR" | "FATAL" | "fatal" | "CRITICAL" | "PANIC" | "panic"
            | "panicked" | "EMERG" | "emerg" | "crit" | "Traceback" => Level::Error,
            "WARN" | "warn" | "WARNING" | "Warning" | "warning" => Level::Warning,
            _ => Level::Plain,
        };
        level = level.max(found);
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(raw: &str) -> String {
        LogLine::parse(&Arc::from("p/c"), raw.as_bytes()).text
    }

    /// CON-10, SEC-3: only text and colours of a container's output reach the terminal.
    #[test]
    fn escapes_are_dropped_and_text_stays() {
        let cases = [
            ("plain", "plain"),
            ("a\tb", "a       b"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[2J\x1b[Hgone", "gone"),
            ("x\x1b]0;title\x07y", "xy"),
            ("x\x1b]52;c;aGk=\x1b\\y", "xy"),
            ("x\x1bP1$qm\x1b\\y", "xy"),
            ("\x1b(Bx\x1b=y\x1b7z", "xyz"),
            ("bell\x07back\x08space\x7f", "bellbackspace"),
            ("10%\r50%\r100%", "100%"),
            ("\u{9b}31mred", "red"),
            ("open\x1b[38;5;1", "open"),
            ("open\x1b", "open"),
            ("name\u{202e}txt.exe", "name\u{fffd}txt.exe"),
            ("name\u{61c}txt.exe", "name\u{fffd}txt.exe"),
            ("👨\u{200d}👩 ❤\u{fe0f}", "👨👩 ❤"),
        ];
        for (raw, expect) in cases {
            assert_eq!(text(raw), expect, "{raw:?}");
        }
        let invalid = LogLine::parse(&Arc::from("p/c"), b"a\xffb");
        assert_eq!(invalid.text, "a\u{fffd}b");
    }

    #[test]
    fn colours_become_styles_of_byte_ranges() {
        let line = LogLine::parse(&Arc::from("p/c"), "é\x1b[1;31mé!\x1b[39m?\x1b[0m.".as_bytes());
        assert_eq!(line.text, "éé!?.");
        let bold_red = Style::default().add_modifier(Modifier::BOLD).fg(Color::Indexed(1));
        let bold = Style::default().add_modifier(Modifier::BOLD);
        assert_eq!(line.styles, vec![(2..5, bold_red), (5..6, bold)]);
        let rgb = LogLine::parse(&Arc::from("p/c"), b"\x1b[38;2;1;2;3;48;5;200mx");
        assert_eq!(rgb.styles[0].1, Style::default().fg(Color::Rgb(1, 2, 3)).bg(Color::Indexed(200)));
    }

    #[test]
    fn the_timestamp_is_taken_off_and_the_level_is_seen() {
        let line = LogLine::parse(&Arc::from("p/c"), b"2026-11-21T03:27:14.123456789Z WARN low disk");
        assert_eq!(
            (line.at.as_str(), line.text.as_str()),
            ("2026-11-21T03:27:14.123456789Z", "WARN low disk")
        );
        assert_eq!(line.level, Level::Warning);
        let cases = [
            ("level=error msg=x", Level::Error),
            (r#"{"level":"warn"}"#, Level::Warning),
            ("E1121 03:27:14.1 reflector.go", Level::Error),
            ("thread 'main' panicked at x", Level::Error),
            ("terror alert", Level::Plain),
            ("GET / 200", Level::Plain),
        ];
        for (raw, expect) in cases {
            assert_eq!(LogLine::parse(&Arc::from("p/c"), raw.as_bytes()).level, expect, "{raw}");
        }
    }
}
