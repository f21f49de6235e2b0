//! Output of the commands: escaped lines, for terminals that may be closed.
//!
//! Names and messages come from manifests, archives and servers, and must not control the terminal (SEC-3). Writing to
//! a closed terminal fails, and must not panic. All other code of the command line prints through this module.

use std::io::Write;

use tracing_subscriber::fmt::MakeWriter;
use unicode_width::UnicodeWidthStr;

use base::quote::printable;

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
    print_line(&table(rows));
}

/// Formats rows with columns aligned by the width that a terminal shows. Each row is one line.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let cell = |text: &String| printable(text).replace(['\n', '\t'], " ");
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(cell)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell}{}", " ".repeat(width + 3 - cell.width())));
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
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
            ("Con\u{1b}]0;PWN\u{7}figMap", "Con\\x1b]0;PWN\\afigMap"),
            ("\u{9b}2J\r\u{8}\0", "\\u009b2J\\r\\b\\x00"),
            ("a\u{202e}b\u{2066}c", "a\\u202eb\\u2066c"),
            ("\u{61c}\u{200b}\u{e0001}", "\\u061c\\u200b\\U000e0001"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn columns_are_aligned_by_the_width_of_their_characters_cli_4() {
        let rows = [["NAME", "STATE"], ["漢字", "up"], ["a\u{1b}\nb", "e\u{301}"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "NAME      STATE\n漢字      up\na\\x1b b   e\u{301}");
    }
}
