//! Parses paths.

use serde_json::Value;

use super::{
    COMPARISONS, Comparison, Dialect, FilterSelector, JsonPath, MAX_FILTER_DEPTH, Operand, PathSegment, STEPS,
};

/// Reads a text that begins with a path; its errors name the position, counted in characters from one.
pub struct PathReader<'a> {
    text: &'a str,
    rest: &'a str,
    dialect: Dialect,
    /// The number of filters around the current position.
    filters: usize,
}

impl<'a> PathReader<'a> {
    /// Creates a reader at the start of a text.
    pub fn new(text: &'a str, dialect: Dialect) -> Self {
        Self { text, rest: text, dialect, filters: 0 }
    }

    /// Returns an error at the current position.
    pub fn wrong<T>(&self, message: &str) -> Result<T, String> {
        let at = self.text[..self.text.len() - self.rest.len()].chars().count() + 1;
        Err(format!("character {at}: {message}"))
    }

    /// Skips this text if it comes next.
    pub fn take(&mut self, start: &str) -> bool {
        match self.rest.strip_prefix(start) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Skips spaces.
    pub fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Returns whether only spaces follow.
    pub fn is_at_end(&self) -> bool {
        self.rest.trim().is_empty()
    }

    /// Takes the rest of the text.
    pub fn take_rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Takes a comparison's sign.
    pub fn comparison(&mut self) -> Option<Comparison> {
        COMPARISONS.iter().find(|(sign, _)| self.take(sign)).map(|(_, comparison)| *comparison)
    }

    /// Parses a path until the end of the text or one of these terminators.
    pub fn path(&mut self, ends: &[&str]) -> Result<JsonPath, String> {
        self.steps(ends).map(JsonPath)
    }

    fn steps(&mut self, ends: &[&str]) -> Result<Vec<PathSegment>, String> {
        let _ = self.take("$") || self.take("@");
        let mut steps = Vec::new();
        let mut first = true;
        loop {
            let is_over = self.rest.is_empty() || ends.iter().any(|end| self.rest.starts_with(end));
            if is_over {
                return Ok(steps);
            }
            if steps.len() >= STEPS {
                return self.wrong(&format!("more than {STEPS} steps"));
            }
            if self.take("[") {
                steps.extend(self.bracket()?);
            } else if self.take("..") {
                steps.push(PathSegment::Descendants);
                if !self.rest.starts_with('[') {
                    steps.push(self.key(ends)?);
                }
            } else if self.take(".") {
                // `.` alone is the object itself, and `.[0]` is `[0]`.
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.key(ends)?);
                }
            } else if first {
                steps.push(self.key(ends)?);
            } else {
                return self.wrong("expected a dot or a bracket before the next key");
            }
            first = false;
        }
    }

    fn key(&mut self, ends: &[&str]) -> Result<PathSegment, String> {
        if self.take("*") {
            return Ok(PathSegment::All);
        }
        let mut key = String::new();
        let mut chars = self.rest.char_indices();
        let mut length = self.rest.len();
        while let Some((at, c)) = chars.next() {
            let is_over = matches!(c, '.' | '[') || ends.iter().any(|end| self.rest[at..].starts_with(end));
            if is_over {
                length = at;
                break;
            }
            match c {
                '\\' => key.extend(chars.next().map(|(_, c)| c)),
                ']' | '{' | '}' | '(' | ')' | '|' => {
                    self.rest = &self.rest[at..];
                    return self.wrong(&format!("unexpected {c:?}"));
                }
                c => key.push(c),
            }
        }
        if key.is_empty() {
            return self.wrong("expected a key");
        }
        self.rest = &self.rest[length..];
        Ok(PathSegment::Key(key))
    }

    /// Parses the rest of a bracket expression after its opening bracket.
    fn bracket(&mut self) -> Result<Vec<PathSegment>, String> {
        self.spaces();
        if self.take("]") {
            return Ok(vec![PathSegment::All]);
        }
        if self.take("?") {
            self.spaces();
            if !self.take("(") {
                return self.wrong("a parenthesis is missing: [?(@.type==\"Ready\")]");
            }
            if self.filters == MAX_FILTER_DEPTH {
                return self.wrong(&format!("more than {MAX_FILTER_DEPTH} filters within each other"));
            }
            self.filters += 1;
            let filter = self.filter()?;
            self.filters -= 1;
            self.spaces();
            if !self.take("]") {
                return self.wrong("the bracket is not closed");
            }
            return Ok(vec![PathSegment::Only(filter)]);
        }
        let mut paths = Vec::new();
        loop {
            self.spaces();
            paths.push(self.inner()?);
            self.spaces();
            if self.take("]") {
                break;
            }
            if !self.take(",") {
                return self.wrong("the bracket is not closed");
            }
            if paths.len() >= STEPS {
                return self.wrong(&format!("more than {STEPS} in a bracket"));
            }
        }
        Ok(if paths.len() == 1 { paths.remove(0) } else { vec![PathSegment::Union(paths)] })
    }

    fn inner(&mut self) -> Result<Vec<PathSegment>, String> {
        if self.take("*") {
            return Ok(vec![PathSegment::All]);
        }
        if self.at_quote() {
            return self.quoted_keys();
        }
        let from = self.number()?;
        self.spaces();
        if !self.take(":") {
            return match from {
                Some(index) => Ok(vec![PathSegment::Index(index)]),
                None => self.wrong("expected a number, a key in quotes, * or ?( in the bracket"),
            };
        }
        self.spaces();
        let to = self.number()?;
        self.spaces();
        let each = if self.take(":") { self.number()?.unwrap_or(1) } else { 1 };
        match usize::try_from(each) {
            Ok(each) if each > 0 => Ok(vec![PathSegment::Slice(from, to, each)]),
            _ => self.wrong("the step of a slice must be positive"),
        }
    }

    /// Parses a key in quotes, or as many as the dialect sees in it.
    fn quoted_keys(&mut self) -> Result<Vec<PathSegment>, String> {
        let start = self.rest;
        let key = self.quoted()?;
        if self.dialect == Dialect::Columns {
            return Ok(vec![PathSegment::Key(key)]);
        }
        // Between the quotes.
        let text = &start[1..start.len() - self.rest.len() - 1];
        let mut keys = vec![String::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (c, keys.last_mut()) {
                ('.', _) => keys.push(String::new()),
                ('\\', Some(key)) => key.extend(chars.next()),
                (c, Some(key)) => key.push(c),
                (_, None) => {}
            }
        }
        Ok(keys.into_iter().map(PathSegment::Key).collect())
    }

    fn number(&mut self) -> Result<Option<i64>, String> {
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let length = digits.bytes().take_while(u8::is_ascii_digit).count() + self.rest.len() - digits.len();
        let (number, rest) = self.rest.split_at(length);
        if number.is_empty() {
            return Ok(None);
        }
        match number.parse() {
            Ok(number) => {
                self.rest = rest;
                Ok(Some(number))
            }
            Err(_) => self.wrong("invalid number"),
        }
    }

    /// Returns whether a text in quotes comes next.
    pub fn at_quote(&self) -> bool {
        self.rest.starts_with(['\'', '"'])
    }

    /// Parses a text in quotes.
    pub fn quoted(&mut self) -> Result<String, String> {
        let Some(quote) = self.rest.chars().next() else { return self.wrong("expected a text in quotes") };
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        self.wrong("the quote is not closed")
    }

    /// Parses `@.type=="Ready"`, including its closing parenthesis.
    fn filter(&mut self) -> Result<FilterSelector, String> {
        self.spaces();
        if !self.rest.starts_with('@') {
            return self.wrong("a test must begin with @");
        }
        let left = self.steps(&["==", "!=", "<", ">", ")", " "])?;
        self.spaces();
        let is = match self.comparison() {
            None => None,
            Some(comparison) => {
                self.spaces();
                Some((comparison, self.operand()?))
            }
        };
        self.spaces();
        if !self.take(")") {
            return self.wrong("the parenthesis is not closed; it takes one comparison");
        }
        Ok(FilterSelector { left, is })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        if self.rest.starts_with('@') {
            return Ok(Operand::Path(self.steps(&[")", " "])?));
        }
        self.literal().map(Operand::Literal)
    }

    fn literal(&mut self) -> Result<Value, String> {
        if self.at_quote() {
            return Ok(Value::String(self.quoted()?));
        }
        let length = self.rest.find([')', ' ']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        match serde_json::from_str(word) {
            Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => {
                self.rest = rest;
                Ok(value)
            }
            _ => self.wrong("expected a text in quotes, a number, true or false"),
        }
    }
}
