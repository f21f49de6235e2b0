//! The values of literals.

use super::Literal;
use super::lexer::TokenKind;

/// Returns the value of a literal token, or the reason why it has none. A number may have a sign.
pub(super) fn parse(kind: TokenKind, text: &str, negative: bool) -> Result<Literal, String> {
    let sign = if negative { "-" } else { "" };
    match kind {
        TokenKind::Int => {
            let (digits, radix) = number(text);
            let value = i64::from_str_radix(&format!("{sign}{digits}"), radix);
            value.map(Literal::Int).map_err(|_| "invalid int literal".into())
        }
        TokenKind::Uint => {
            let (digits, radix) = number(text.trim_end_matches(['u', 'U']));
            let value = u64::from_str_radix(digits, radix);
            value.map(Literal::Uint).map_err(|_| "invalid uint literal".into())
        }
        TokenKind::Double => {
            let value = format!("{sign}{text}").parse().ok().filter(|value: &f64| value.is_finite());
            value.map(Literal::Double).ok_or_else(|| "invalid double literal".into())
        }
        TokenKind::Bytes => {
            let value = unescape(&text[1..], true);
            value.map(Literal::Bytes).map_err(|reason| format!("invalid bytes literal: {reason}"))
        }
        TokenKind::Text => {
            let value = unescape(text, false)
                .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "invalid unicode code point".into()));
            value.map(Literal::Text).map_err(|reason| format!("invalid string literal: {reason}"))
        }
        _ => Ok(match text {
            "true" => Literal::Bool(true),
            "false" => Literal::Bool(false),
            _ => Literal::Null,
        }),
    }
}

/// Returns the digits of a number and their radix.
fn number(text: &str) -> (&str, u32) {
    text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16))
}

/// Returns the content of a quoted literal. In a string an escaped number is a character, in bytes a byte.
fn unescape(literal: &str, is_bytes: bool) -> Result<Vec<u8>, String> {
    let quoted = literal.trim_start_matches(['r', 'R']);
    let quotes = if quoted.starts_with("'''") || quoted.starts_with("\"\"\"") { 3 } else { 1 };
    let content = quoted[quotes..quoted.len() - quotes].replace("\r\n", "\n").replace('\r', "\n");
    if quoted.len() < literal.len() {
        return Ok(content.into_bytes());
    }
    let (mut value, mut rest) = (Vec::with_capacity(content.len()), content.as_str());
    while let Some((plain, escape)) = rest.split_once('\\') {
        value.extend(plain.bytes());
        let letter = escape.chars().next().unwrap_or_default();
        // The position and number of an escaped number's digits, and their radix.
        let (from, digits, radix) = match letter {
            '0'..='3' => (0, 3, 8),
            'x' | 'X' => (1, 2, 16),
            'u' if !is_bytes => (1, 4, 16),
            'U' if !is_bytes => (1, 8, 16),
            _ => {
                value.push(escaped(letter).ok_or_else(|| format!("invalid escape \\{letter}"))?);
                rest = &escape[1..];
                continue;
            }
        };
        let digits = escape.get(from..from + digits).filter(|text| text.chars().all(|c| c.is_digit(radix)));
        let digits = digits.ok_or_else(|| format!("invalid escape \\{letter}"))?;
        let number = u32::from_str_radix(digits, radix).map_err(|error| error.to_string())?;
        if is_bytes {
            value.push(number as u8);
        } else {
            let letter = char::from_u32(number).ok_or("invalid unicode code point")?;
            value.extend(letter.encode_utf8(&mut [0; 4]).bytes());
        }
        rest = &escape[from + digits.len()..];
    }
    value.extend(rest.bytes());
    Ok(value)
}

/// Returns the character that a letter stands for after a backslash.
fn escaped(letter: char) -> Option<u8> {
    Some(match letter {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' | '\'' | '"' | '`' | '?' => letter as u8,
        _ => return None,
    })
}
