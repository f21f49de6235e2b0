//! Splits an expression into tokens. Characters that begin no token become a token of their own, whose error
//! the parser reports once it gets there.

/// A token, and its place in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Identifier,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    /// An operator, a bracket or a keyword.
    Symbol(&'static str),
    /// A character or an unterminated string that is no token.
    Invalid,
    End,
}

/// Operators and brackets; each is before its prefixes.
#[rustfmt::skip]
const SYMBOLS: [&str; 24] = [
    ".", "(", ")", ",", "==", "&&", "[", "]", "{", "}", "?", ":", "!=", "!", "||", "<=", "<", ">=", ">", "+",
    "-", "*", "/", "%",
];

/// Words that are tokens of their own. Other reserved words are identifiers for the lexer.
const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

/// Returns the tokens of an expression; the last is [`TokenKind::End`].
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = 0;
    loop {
        start += blank(&source[start..]);
        let (kind, length) = first(&source[start..]);
        let end = start + length;
        tokens.push(Token { kind, start, end });
        if kind == TokenKind::End {
            return tokens;
        }
        start = end;
    }
}

/// Returns the length of the spaces and comments at the beginning.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
        if !rest.starts_with("//") {
            return text.len() - rest.len();
        }
        rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
    }
}

/// Returns the first token and its length.
fn first(text: &str) -> (TokenKind, usize) {
    let mut chars = text.chars();
    let Some(letter) = chars.next() else { return (TokenKind::End, 0) };
    let before_digit = chars.next().is_some_and(|next| next.is_ascii_digit());
    if letter.is_ascii_digit() || (letter == '.' && before_digit) {
        return number(text);
    }
    if let Some(found) = string(text) {
        return found;
    }
    if letter.is_ascii_alphabetic() || letter == '_' {
        let end = count(text, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let keyword = KEYWORDS.into_iter().find(|keyword| *keyword == &text[..end]);
        return (keyword.map_or(TokenKind::Identifier, TokenKind::Symbol), end);
    }
    match SYMBOLS.into_iter().find(|symbol| text.starts_with(symbol)) {
        Some(symbol) => (TokenKind::Symbol(symbol), symbol.len()),
        None => (TokenKind::Invalid, letter.len_utf8()),
    }
}

/// Returns the number of leading bytes that match.
fn count(text: &str, matches: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| matches(*byte)).count()
}

fn number(text: &str) -> (TokenKind, usize) {
    let digits = |from: usize| count(&text[from..], |byte| byte.is_ascii_digit());
    let byte = |at: usize| text.as_bytes().get(at).copied().unwrap_or_default();
    let hexadecimal = text.strip_prefix("0x").map_or(0, |rest| count(rest, |byte| byte.is_ascii_hexdigit()));
    let whole = if hexadecimal > 0 { 2 + hexadecimal } else { digits(0) };
    let mut end = whole;
    if hexadecimal == 0 {
        if byte(end) == b'.' && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
        }
        if matches!(byte(end), b'e' | b'E') {
            let exponent = end + 1 + usize::from(matches!(byte(end + 1), b'+' | b'-'));
            let length = text.get(exponent..).map_or(0, |_| digits(exponent));
            end = if length > 0 { exponent + length } else { end };
        }
    }
    match byte(whole) {
        _ if end > whole => (TokenKind::Double, end),
        b'u' | b'U' => (TokenKind::Uint, whole + 1),
        _ => (TokenKind::Int, whole),
    }
}

/// Returns a string or bytes with the prefixes; `None` if the text does not begin with one.
fn string(text: &str) -> Option<(TokenKind, usize)> {
    let unprefixed = text.strip_prefix(['b', 'B']).unwrap_or(text);
    let kind = if unprefixed.len() < text.len() { TokenKind::Bytes } else { TokenKind::Text };
    let quoted = unprefixed.strip_prefix(['r', 'R']).unwrap_or(unprefixed);
    let raw = quoted.len() < unprefixed.len();
    if !quoted.starts_with(['"', '\'']) {
        return None;
    }
    let triple = quoted.starts_with("'''") || quoted.starts_with("\"\"\"");
    let closing = &quoted[..if triple { 3 } else { 1 }];
    let mut end = closing.len();
    while let Some(byte) = quoted.as_bytes().get(end) {
        match byte {
            b'\n' | b'\r' if !triple => break,
            b'\\' if !raw => end += 2,
            _ if quoted.as_bytes()[end..].starts_with(closing.as_bytes()) => {
                return Some((kind, text.len() - quoted.len() + end + closing.len()));
            }
            _ => end += 1,
        }
    }
    // The error shows the line.
    let end = text.find(['\n', '\r']).unwrap_or(text.len());
    Some((TokenKind::Invalid, end))
}
