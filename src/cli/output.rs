//! Output of the commands: escaped lines, for terminals that may be closed.
//!
//! Names and messages come from manifests, archives and servers, and must not control the terminal (SEC-3). Writing to
//! a closed terminal fails, and must not panic. All other code of the command line prints through this module.

use std::io::Write;

use tracing_subscriber::fmt::MakeWriter;

/// Prints a line on standard output.
pub fn print_line(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{}", printable(line)).and_then(|()| out.flush());
}

/// Prints a line with its origin before it, in a colour of the terminal's if one is given.
pub(super) fn print_with_origin(origin: &str, colour: Option<u8>, line: &str) {
    let (origin, line) = (printable(origin), printable(line));
    let text = match colour {
        Some(colour) => format!("\u{1b}[3{}m{origin}\u{1b}[0m {line}", colour % 8),
        None => format!("{origin} {line}"),
    };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints rows with aligned columns.
pub(super) fn print_table<const N: usize>(rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}   "));
        print_line(cells.collect::<String>().trim_end());
    }
}

/// Converts an error of a request: only the server's message remains, without the error types that wrap it.
pub(super) fn api_error(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::Error::msg(status.message.clone()),
        other => other.into(),
    }
}

/// Prints a line on standard error.
pub fn eprint_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(line));
}

/// Makes text safe for a terminal: characters that control it or reverse the reading direction are shown as their code
/// points.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\n' || letter == '\t' || !drives_terminals(letter) {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_unicode());
        }
    }
    shown
}

fn drives_terminals(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes log lines to standard error, and ignores errors: the log is also written to a file.
pub(super) struct LogStderr;

impl<'a> MakeWriter<'a> for LogStderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for LogStderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = std::io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Control characters in a manifest reached the user's terminal (SEC-3).
    #[test]
    fn no_text_drives_the_terminal() {
        for (text, shown) in [
            ("plain ö 漢 ✓\tand\nlines", "plain ö 漢 ✓\tand\nlines"),
            ("Con\u{1b}]0;PWN\u{7}figMap", "Con\\u{1b}]0;PWN\\u{7}figMap"),
            ("\u{9b}2J\r\u{8}\0", "\\u{9b}2J\\u{d}\\u{8}\\u{0}"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
