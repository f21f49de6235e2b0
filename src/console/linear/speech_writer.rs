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
}

impl<W: Write> SpeechWriter<W> {
    /// Creates a writer to this output.
    pub fn new(out: W) -> Self {
        Self { out, open: String::new() }
    }

    /// Returns the output.
    pub fn out(&self) -> &W {
        &self.out
    }

    /// Writes the speech.
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
        self.out.flush()
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        if self.open.is_empty() {
            return write!(self.out, "{line}\r\n");
        }
        // The input line continues below.
        write!(self.out, "\r\n{line}\r\n{}", self.open)
    }

    fn typed(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            if !self.open.is_empty() {
                self.open.clear();
                write!(self.out, "\r\n")?;
            }
            return Ok(());
        }
        let common = self.open.char_indices().zip(text.chars());
        let common =
            common.take_while(|((_, old), new)| old == new).map(|((at, old), _)| at + old.len_utf8());
        let common = common.last().unwrap_or(0);
        let erased = self.open.get(common..).unwrap_or_default().width();
        if common == 0 && erased > 0 {
            // The new text has nothing in common with the old one, so it gets a line of its own.
            write!(self.out, "\r\n")?;
        } else {
            write!(self.out, "{}", "\u{8} \u{8}".repeat(erased))?;
        }
        write!(self.out, "{}", text.get(common..).unwrap_or_default())?;
        text.clone_into(&mut self.open);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lines: &[Speech]) -> String {
        let mut voice = SpeechWriter::new(Vec::new());
        voice.write(lines).unwrap();
        String::from_utf8(voice.out().clone()).unwrap()
    }

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
            (vec![typed("é日"), typed("é")], "é日\u{8} \u{8}\u{8} \u{8}"),
            (vec![typed("")], ""),
        ] {
            assert_eq!(written(&lines), text, "{lines:?}");
        }
    }
}
