//! Writes speech to a terminal: lines, and one input line. Only the input line is ever overwritten.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::Speech;

/// The writer.
#[derive(Debug)]
pub struct SpeechWriter<W> {
    out: W,
    /// The present input line, without a line end.
    open: String,
    /// The input line is the last line of the output: nothing was printed below it.
    is_open_last: bool,
}

impl<W: Write> SpeechWriter<W> {
    /// Creates a writer to this output.
    pub fn new(out: W) -> Self {
        Self { out, open: String::new(), is_open_last: false }
    }

    /// Returns the output.
    pub fn out(&self) -> &W {
        &self.out
    }

    /// Writes the speech. The input line continues below the new lines.
    ///
    /// # Errors
    /// If the terminal fails.
    pub fn write(&mut self, lines: &[Speech]) -> io::Result<()> {
        for speech in lines {
            match speech {
                Speech::Line(line) => self.line(line)?,
                Speech::Typed(text) => self.typed(text)?,
            }
        }
        if !self.open.is_empty() && !self.is_open_last {
            write!(self.out, "{}", self.open)?;
            self.is_open_last = true;
        }
        self.out.flush()
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        if std::mem::take(&mut self.is_open_last) {
            write!(self.out, "\r\n")?;
        }
        write!(self.out, "{line}\r\n")
    }

    fn typed(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            self.open.clear();
            if std::mem::take(&mut self.is_open_last) {
                write!(self.out, "\r\n")?;
            }
            return Ok(());
        }
        if !self.is_open_last {
            // `write` prints it below the lines.
            text.clone_into(&mut self.open);
            return Ok(());
        }
        let common = self.open.char_indices().zip(text.chars());
        let common =
            common.take_while(|((_, old), new)| old == new).map(|((at, old), _)| at + old.len_utf8());
        let common = common.last().unwrap_or(0);
        let (same, erased) = self.open.split_at(common);
        if !erased.is_empty() && same.trim().is_empty() {
            // The new text has at most the indentation in common with the old one, so it gets a line of its own.
            write!(self.out, "\r\n{text}")?;
        } else {
            let added = text.get(common..).unwrap_or_default();
            write!(self.out, "{}{added}", "\u{8} \u{8}".repeat(erased.width()))?;
        }
        text.clone_into(&mut self.open);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_text_grows_and_shrinks_in_its_line_con_20() {
        let (line, typed) = (|text: &str| Speech::Line(text.into()), |text: &str| Speech::Typed(text.into()));
        for (lines, text) in [
            (vec![line("a"), line("b")], "a\r\nb\r\n"),
            (vec![typed(":"), typed(":p"), typed(":po")], ":po"),
            (vec![typed(":po"), typed(":p")], ":po\u{8} \u{8}"),
            (vec![typed(":p"), typed(""), line("View")], ":p\r\nView\r\n"),
            (vec![typed(":p"), line("Error: no"), typed(":po")], ":p\r\nError: no\r\n:po"),
            (vec![typed("$ ls"), typed("a.txt"), typed("$ ")], "$ ls\r\na.txt\r\n$ "),
            (vec![typed("  a: 1"), typed("  b: 2")], "  a: 1\r\n  b: 2"),
            (vec![typed("é日"), typed("é")], "é日\u{8} \u{8}\u{8} \u{8}"),
            (vec![typed("")], ""),
        ] {
            let mut voice = SpeechWriter::new(Vec::new());
            for speech in &lines {
                voice.write(std::slice::from_ref(speech)).unwrap();
            }
            assert_eq!(String::from_utf8(voice.out().clone()).unwrap(), text, "{lines:?}");
        }
    }

    #[test]
    fn the_input_line_is_printed_once_below_the_new_lines_con_20() {
        let (line, typed) = (|text: &str| Speech::Line(text.into()), |text: &str| Speech::Typed(text.into()));
        let mut voice = SpeechWriter::new(Vec::new());
        for (lines, all) in [
            (vec![typed("$ ")], "$ "),
            (vec![line("a"), line("b")], "$ \r\na\r\nb\r\n$ "),
            (vec![line("c"), typed("")], "$ \r\na\r\nb\r\n$ \r\nc\r\n"),
            (vec![line("d")], "$ \r\na\r\nb\r\n$ \r\nc\r\nd\r\n"),
        ] {
            voice.write(&lines).unwrap();
            assert_eq!(String::from_utf8(voice.out().clone()).unwrap(), all, "{lines:?}");
        }
    }
}
