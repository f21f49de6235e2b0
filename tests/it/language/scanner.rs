//! Splits a Rust source into its comments and its identifiers. Strings and characters belong to neither.

/// A comment block: consecutive lines that hold only a comment with the same marker, or a comment after code.
#[derive(Debug, PartialEq)]
pub(super) struct Comment {
    /// Line number and text of each line, without the marker.
    pub(super) lines: Vec<(usize, String)>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Identifier<'s> {
    pub(super) line: usize,
    pub(super) name: &'s str,
    /// The keyword before it declares a type.
    pub(super) declares_type: bool,
}

#[derive(Debug, Default)]
pub(super) struct Source<'s> {
    pub(super) comments: Vec<Comment>,
    pub(super) identifiers: Vec<Identifier<'s>>,
}

impl<'s> Source<'s> {
    pub(super) fn parse(text: &'s str) -> Self {
        let mut scanner = Scanner { text, at: 0, line: 1, line_start: 0, previous: "", block: None };
        let mut source = Self::default();
        while scanner.at < text.len() {
            scanner.step(&mut source);
        }
        source
    }
}

/// The kinds of line comments; a block has only lines of one kind.
#[derive(Clone, Copy, PartialEq)]
enum Marker {
    Outer,
    Inner,
    Plain,
}

struct Scanner<'s> {
    text: &'s str,
    at: usize,
    line: usize,
    /// The position of the first byte of the line.
    line_start: usize,
    /// The name directly before this position, apart from white space; empty if there is none.
    previous: &'s str,
    /// The last line and marker of the newest comment block that the next line may continue.
    block: Option<(usize, Marker)>,
}

impl<'s> Scanner<'s> {
    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn byte(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(self.at + offset).copied().unwrap_or(0)
    }

    /// Moves on by this many bytes and counts the lines among them.
    fn skip(&mut self, bytes: usize) {
        let end = (self.at + bytes).min(self.text.len());
        let passed = &self.text[self.at..end];
        if let Some(last) = passed.rfind('\n') {
            self.line += passed.matches('\n').count();
            self.line_start = self.at + last + 1;
        }
        self.at = end;
    }

    fn step(&mut self, source: &mut Source<'s>) {
        if self.byte(0).is_ascii_whitespace() {
            return self.skip(self.rest().len() - self.rest().trim_start().len());
        }
        let previous = std::mem::take(&mut self.previous);
        match self.byte(0) {
            b'/' if self.byte(1) == b'/' => self.line_comment(source),
            b'/' if self.byte(1) == b'*' => self.block_comment(source),
            b'"' => self.string(),
            b'\'' => self.quote(),
            byte if byte == b'_' || byte.is_ascii_alphabetic() => self.word(previous, source),
            byte if byte.is_ascii_digit() => self.at += self.word_length(),
            // A character beyond ASCII is skipped whole, so that `at` stays at a character.
            _ => self.at += self.rest().chars().next().map_or(1, char::len_utf8),
        }
    }

    fn line_comment(&mut self, source: &mut Source<'s>) {
        let rest = self.rest();
        let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let (marker, text) = if line.starts_with("///") && !line.starts_with("////") {
            (Marker::Outer, &line[3..])
        } else if let Some(text) = line.strip_prefix("//!") {
            (Marker::Inner, text)
        } else {
            (Marker::Plain, &line[2..])
        };
        let alone = self.text[self.line_start..self.at].trim().is_empty();
        let text = (self.line, text.trim().to_owned());
        match (self.block, source.comments.last_mut()) {
            (Some((line, of)), Some(block)) if alone && of == marker && line + 1 == self.line => {
                block.lines.push(text);
            }
            _ => source.comments.push(Comment { lines: vec![text] }),
        }
        self.block = alone.then_some((self.line, marker));
        self.skip(line.len());
    }

    /// A comment between `/*` and `*/`, which may contain others.
    fn block_comment(&mut self, source: &mut Source<'s>) {
        let (mut depth, mut length) = (0_usize, 0);
        let bytes = self.rest().as_bytes();
        while length < bytes.len() {
            match &bytes[length..] {
                [b'/', b'*', ..] => (depth, length) = (depth + 1, length + 2),
                [b'*', b'/', ..] => (depth, length) = (depth - 1, length + 2),
                _ => length += 1,
            }
            if depth == 0 {
                break;
            }
        }
        let text = self.rest()[..length].trim_matches(['/', '*', '!']);
        let trim = |line: &str| line.trim().trim_start_matches('*').trim().to_owned();
        // An empty comment has a line, too.
        let lines = text.split('\n').enumerate().map(|(n, line)| (self.line + n, trim(line))).collect();
        source.comments.push(Comment { lines });
        self.block = None;
        self.skip(length);
    }

    /// A string with its opening quote at this position.
    fn string(&mut self) {
        let bytes = self.rest().as_bytes();
        let mut length = 1;
        while length < bytes.len() && bytes[length] != b'"' {
            length += if bytes[length] == b'\\' { 2 } else { 1 };
        }
        self.skip(length + 1);
    }

    /// A raw string with its hashes at this position.
    fn raw_string(&mut self) {
        let rest = self.rest();
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let body = hashes + 1;
        let length = rest[body..].find(&end).map_or(rest.len(), |found| body + found + end.len());
        self.skip(length);
    }

    /// A character, or a lifetime or label.
    fn quote(&mut self) {
        let rest = self.rest();
        let mut inside = rest[1..].chars();
        match inside.next() {
            Some('\\') => {
                let end = rest.get(3..).and_then(|rest| rest.find('\''));
                self.skip(end.map_or(rest.len(), |end| end + 4));
            }
            Some(character) if inside.next() == Some('\'') => self.skip(character.len_utf8() + 2),
            _ => {
                self.at += 1;
                self.at += self.word_length();
            }
        }
    }

    fn word_length(&self) -> usize {
        let word = |byte: &u8| *byte == b'_' || byte.is_ascii_alphanumeric();
        self.rest().as_bytes().iter().take_while(|byte| word(byte)).count()
    }

    /// An identifier or a keyword, or the prefix of a string.
    fn word(&mut self, previous: &str, source: &mut Source<'s>) {
        let mut name = &self.rest()[..self.word_length()];
        let line = self.line;
        self.at += name.len();
        match (name, self.byte(0)) {
            ("b" | "c", b'"') => return self.string(),
            ("b", b'\'') => return self.quote(),
            ("r" | "br" | "cr", b'"') => return self.raw_string(),
            ("r" | "br" | "cr", b'#') => {
                let after = self.rest().trim_start_matches('#');
                if after.starts_with('"') {
                    return self.raw_string();
                }
                self.at += 1;
                name = &self.rest()[..self.word_length()];
                self.at += name.len();
            }
            // A raw identifier is no keyword, as opposed to this one.
            _ => self.previous = name,
        }
        let declares_type = matches!(previous, "struct" | "enum" | "trait" | "type" | "union");
        source.identifiers.push(Identifier { line, name, declares_type });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments(text: &str) -> Vec<Vec<String>> {
        let lines = |comment: Comment| comment.lines.into_iter().map(|(_, text)| text).collect();
        Source::parse(text).comments.into_iter().map(lines).collect()
    }

    #[test]
    fn lines_with_one_marker_are_a_block() {
        let none: &[&[&str]] = &[];
        for (text, expected) in [
            ("// a\n// b\nfn f() {}", &[&["a", "b"][..]][..]),
            ("  /// a\n  /// b\n", &[&["a", "b"]]),
            ("//! a\n\n//! b", &[&["a"], &["b"]]),
            ("//! a\n/// b\n// c\n//// d", &[&["a"], &["b"], &["c", "// d"]]),
            ("let a = 1; // a\n// b\n// c", &[&["a"], &["b", "c"]]),
            ("let a = 1; // a\nlet b = 2; // b", &[&["a"], &["b"]]),
            ("// a\nlet b = 2; // b", &[&["a"], &["b"]]),
            ("/* a */ let b; /* b /* c */ d */", &[&["a"], &["b /* c */ d"]]),
            ("/** a\n * b\n */ x", &[&["a", "b", ""]]),
            ("/* a", &[&["a"]]),
            ("/**/ x", &[&[""]]),
            ("//", &[&[""]]),
            ("", none),
            ("a / b", none),
            (r#"let url = "http://x"; let c = '"'; let d = "// a \" // b";"#, none),
            ("let s = r\"\\\"; // a", &[&["a"]]),
            ("let s = r#\"// \" // \"#; // a", &[&["a"]]),
            ("let s = br##\"\"# // \"##; // a", &[&["a"]]),
            ("let s = b\"// \\\\\"; let c = b'\"'; // a", &[&["a"]]),
            ("let s = \"a\n// b\n\";\n// c", &[&["c"]]),
            (
                "fn f<'a>(c: &'a str) { if c == '\\'' || c == '\\u{2f}' || c == '/' { 'x: loop {} } } // a",
                &[&["a"]],
            ),
            ("let c = 'ü'; // é", &[&["é"]]),
            ("let open = \"// a", none),
            ("let open = r#\"// a\"", none),
            ("let open = '", none),
            ("let open = '\\", none),
        ] {
            assert_eq!(comments(text), expected, "{text}");
        }
    }

    #[test]
    fn identifiers_are_neither_strings_nor_comments() {
        for (text, expected) in [
            ("let a_b = c::D;", &["let", "a_b", "c", "D"][..]),
            ("'a' 'b: b'c' \"d\" r\"e\" b\"f\" c\"g\" br#\"h\"# x", &["x"]),
            ("// a\nb /* c */ d", &["b", "d"]),
            ("r#type r#fn r", &["type", "fn", "r"]),
            ("1u8 0xff_u32 1.5e3 x1", &["x1"]),
            ("&'static str", &["str"]),
            ("é ü x", &["x"]),
        ] {
            let names: Vec<_> = Source::parse(text).identifiers.iter().map(|found| found.name).collect();
            assert_eq!(names, expected, "{text}");
        }
    }

    #[test]
    fn types_are_declared_by_their_keywords() {
        for (text, expected) in [
            ("pub(crate) struct A<T>(T); enum B {} trait C {} type D = u8; union E { a: u8 }", "ABCDE"),
            ("struct\n    A;", "A"),
            ("let a = x.union(B); r#type A; struct_ A; \"struct B\"; // struct C", ""),
            ("impl A for B { fn c() -> D { E } }", ""),
            ("type_of(A)", ""),
        ] {
            let found = Source::parse(text);
            let types: String = found
                .identifiers
                .iter()
                .filter(|found| found.declares_type)
                .map(|found| found.name)
                .collect();
            assert_eq!(types, expected, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let text = "/* a\n b */\nlet s = \"c\nd\";\n// e\nf(r\"\n\")\ng";
        let source = Source::parse(text);
        let line =
            |name: &str| source.identifiers.iter().find(|found| found.name == name).map(|found| found.line);
        assert_eq!((line("let"), line("f"), line("g")), (Some(3), Some(6), Some(8)));
        assert_eq!(source.comments[1].lines, [(5, "e".to_owned())]);
    }
}
