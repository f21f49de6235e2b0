//! `'…%s…'.format([…])` and `strings.quote`: cel-go's library of strings in version 2, which Kubernetes uses.

use std::fmt::Write as _;

use base::quote::quote;
use base::sort::SliceOrder;

use super::doubles;
use super::types::Type;
use super::values::Val;
use super::{Budget, Error, other};

/// The places after a decimal point, if a clause does not set them.
const PLACES: usize = 6;

/// A part of a format string.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'f> {
    /// Text that is copied.
    Text(&'f str),
    /// A clause, and the index of its argument.
    Clause(usize, Clause),
}

/// The form of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    /// `%s`
    Text,
    /// `%d`
    Decimal,
    /// `%f`, with places after the decimal point.
    Fixed(usize),
    /// `%e`, with places after the decimal point.
    Scientific(usize),
    /// `%b`
    Binary,
    /// `%x`
    Hex,
    /// `%X`
    UpperHex,
    /// `%o`
    Octal,
}

/// Reads the pieces of a format string. After an error there are no more.
pub(super) struct Pieces<'f> {
    rest: &'f str,
    arguments: usize,
    used: usize,
}

impl<'f> Pieces<'f> {
    /// Returns the pieces of a format string with this many arguments.
    pub(super) fn of(format: &'f str, arguments: usize) -> Self {
        Self { rest: format, arguments, used: 0 }
    }

    /// Reads the clause after a percent sign.
    fn clause(&mut self, rest: &'f str) -> Result<Piece<'f>, String> {
        if rest.is_empty() {
            return Err("unexpected end of string".into());
        }
        let index = self.used;
        if index >= self.arguments {
            return Err(format!("index {index} out of range"));
        }
        let in_clause = |reason: String| format!("could not parse formatting clause: {reason}");
        let (places, rest) =
            places(rest).map_err(|reason| in_clause(format!("error while parsing precision: {reason}")))?;
        let mut letters = rest.chars();
        let clause = match letters.next() {
            Some('s') => Clause::Text,
            Some('d') => Clause::Decimal,
            Some('f') => Clause::Fixed(places),
            Some('e') => Clause::Scientific(places),
            Some('b') => Clause::Binary,
            Some('x') => Clause::Hex,
            Some('X') => Clause::UpperHex,
            Some('o') => Clause::Octal,
            letter => {
                let letter = letter.map(String::from).unwrap_or_default();
                return Err(in_clause(format!("unrecognized formatting clause \"{letter}\"")));
            }
        };
        (self.rest, self.used) = (letters.as_str(), index + 1);
        Ok(Piece::Clause(index, clause))
    }
}

impl<'f> Iterator for Pieces<'f> {
    type Item = Result<Piece<'f>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let all = std::mem::take(&mut self.rest);
        if all.is_empty() {
            return None;
        }
        if let Some(rest) = all.strip_prefix("%%") {
            self.rest = rest;
            return Some(Ok(Piece::Text("%")));
        }
        if let Some(rest) = all.strip_prefix('%') {
            return Some(self.clause(rest));
        }
        let text;
        (text, self.rest) = all.split_at(all.find('%').unwrap_or(all.len()));
        Some(Ok(Piece::Text(text)))
    }
}

/// Returns the places after the decimal point that a clause sets, and the rest of the clause.
fn places(clause: &str) -> Result<(usize, &str), String> {
    let Some(rest) = clause.strip_prefix('.') else { return Ok((PLACES, clause)) };
    let Some(end) = rest.find(|letter: char| !letter.is_ascii_digit()) else {
        return Err("could not find end of precision specifier".into());
    };
    let (digits, rest) = rest.split_at(end);
    let places = digits.parse().map_err(|_| {
        let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {reason}")
    })?;
    Ok((places, rest))
}

impl Clause {
    /// Returns true if values of the type may have this form.
    fn accepts(self, type_: Type<'_>) -> bool {
        let is_integer = matches!(type_, Type::Int | Type::Uint);
        type_.is_dyn()
            || match self {
                Self::Text => {
                    !matches!(type_, Type::ObjectLiteral | Type::ObjectLiteralPart | Type::JsonPatch)
                }
                Self::Decimal | Self::Octal => is_integer,
                // Not finite numbers are written as strings.
                Self::Fixed(_) | Self::Scientific(_) => matches!(type_, Type::Double | Type::Text),
                Self::Binary => is_integer || matches!(type_, Type::Bool),
                Self::Hex | Self::UpperHex => is_integer || matches!(type_, Type::Text | Type::Bytes),
            }
    }

    /// Returns the error for values of another type.
    fn refusal(self, type_name: &str) -> String {
        let accepted = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex | Self::UpperHex => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        in_formatting(&format!("{accepted}, was given {type_name}"))
    }

    /// Appends a value in this form.
    fn write(self, value: &Val<'_>, out: &mut String, budget: &mut Budget) -> Result<(), Error> {
        let integer = match value {
            Val::Int(number) => Some((*number < 0, number.unsigned_abs())),
            Val::Uint(number) => Some((false, *number)),
            Val::Bool(value) if self == Self::Binary => Some((false, u64::from(*value))),
            _ => None,
        };
        if let Some((is_negative, number)) = integer {
            let sign = if is_negative { "-" } else { "" };
            let written = match self {
                Self::Text | Self::Decimal => write!(out, "{sign}{number}"),
                Self::Binary => write!(out, "{sign}{number:b}"),
                Self::Hex => write!(out, "{sign}{number:x}"),
                Self::UpperHex => write!(out, "{sign}{number:X}"),
                Self::Octal => write!(out, "{sign}{number:o}"),
                Self::Fixed(_) | Self::Scientific(_) => {
                    return Err(other(self.refusal(value.type_name())));
                }
            };
            return written.map_err(|_| other("cannot write a number"));
        }
        match (self, value) {
            (Self::Text, value) => write_text(value, out, budget),
            (Self::Hex | Self::UpperHex, Val::Text(text)) => self.write_bytes(text.as_bytes(), out, budget),
            (Self::Hex | Self::UpperHex, Val::Bytes(bytes)) => self.write_bytes(bytes, out, budget),
            (Self::Fixed(places) | Self::Scientific(places), value) => {
                let number = match value {
                    Val::Double(number) => *number,
                    Val::Text(text) if &**text == "NaN" => f64::NAN,
                    Val::Text(text) if &**text == "Infinity" => f64::INFINITY,
                    Val::Text(text) if &**text == "-Infinity" => f64::NEG_INFINITY,
                    _ => return Err(other(self.refusal(value.type_name()))),
                };
                budget.take(places as u64 / 10)?;
                out.push_str(&match self {
                    Self::Fixed(_) => doubles::fixed(number, places),
                    _ => doubles::scientific(number, places),
                });
                Ok(())
            }
            _ => Err(other(self.refusal(value.type_name()))),
        }
    }

    fn write_bytes(self, bytes: &[u8], out: &mut String, budget: &mut Budget) -> Result<(), Error> {
        budget.take(bytes.len() as u64 / 5)?;
        for byte in bytes {
            let written = match self {
                Self::UpperHex => write!(out, "{byte:02X}"),
                _ => write!(out, "{byte:02x}"),
            };
            written.map_err(|_| other("cannot write a byte"))?;
        }
        Ok(())
    }
}

fn in_formatting(reason: &str) -> String {
    format!("error during formatting: {reason}")
}

/// Checks a constant format string and the types of its arguments; the error has the index of the argument,
/// if it is about one.
pub(super) fn check(format: &str, arguments: &[Type<'_>]) -> Result<(), (Option<usize>, String)> {
    let mut used = 0;
    for piece in Pieces::of(format, arguments.len()) {
        let Piece::Clause(index, clause) = piece.map_err(|error| (None, error))? else { continue };
        used = index + 1;
        if let Some(type_) = arguments.get(index).filter(|type_| !clause.accepts(**type_)) {
            let name = match type_.name() {
                "null" => "null_type",
                name => name.split('(').next().unwrap_or_default(),
            };
            return Err((Some(index), clause.refusal(name)));
        }
    }
    if used < arguments.len() {
        let given = arguments.len();
        let error = format!("too many arguments supplied to string.format (expected {used}, got {given})");
        return Err((None, error));
    }
    Ok(())
}

/// Returns a format string with its clauses replaced by the arguments.
pub(super) fn format(format: &str, arguments: &[Val<'_>], budget: &mut Budget) -> Result<String, Error> {
    let mut out = String::new();
    for piece in Pieces::of(format, arguments.len()) {
        match piece.map_err(other)? {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(index, clause) => {
                if let Some(argument) = arguments.get(index) {
                    clause.write(argument, &mut out, budget)?;
                }
            }
        }
    }
    Ok(out)
}

/// Appends a value as `%s` shows it. Each part is charged: a small value may contain the same part many times.
fn write_text(value: &Val<'_>, out: &mut String, budget: &mut Budget) -> Result<(), Error> {
    budget.take(1)?;
    match value {
        Val::Text(text) => {
            budget.take(text.len() as u64 / 10)?;
            out.push_str(text);
        }
        Val::Bytes(bytes) => {
            budget.take(bytes.len() as u64 / 10)?;
            out.push_str(std::str::from_utf8(bytes).map_err(|_| {
                let error = "invalid UTF-8 in bytes, cannot convert to string";
                other(in_formatting(&format!("could not convert argument \"{error}\" to string")))
            })?);
        }
        Val::Null => out.push_str("null"),
        Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Double(_)
        | Val::Time(_)
        | Val::Duration(_)
        | Val::Type(_) => out.push_str(&value.to_display_string()),
        _ if value.type_name() == "list" => write_list(value, out, budget)?,
        _ if value.type_name() == "map" => write_map(value, out, budget)?,
        _ => return Err(other(Clause::Text.refusal(value.type_name()))),
    }
    Ok(())
}

/// Appends a value as it is written in an expression, as an item of a list or map.
fn write_literal(value: &Val<'_>, out: &mut String, budget: &mut Budget) -> Result<(), Error> {
    let quoted = |value: &Val<'_>, budget: &mut Budget| {
        let mut text = String::new();
        write_text(value, &mut text, budget)?;
        Ok::<_, Error>(quote(&text))
    };
    match value {
        Val::Text(_) => out.push_str(&quoted(value, budget)?),
        Val::Bytes(_) => {
            out.push('b');
            out.push_str(&quoted(value, budget)?);
        }
        Val::Time(_) | Val::Duration(_) => {
            let name = if matches!(value, Val::Time(_)) { "timestamp" } else { "duration" };
            let text = quoted(value, budget)?;
            write!(out, "{name}({text})").map_err(|_| other("cannot write a time"))?;
        }
        Val::Double(number) => {
            budget.take(1)?;
            out.push_str(&doubles::in_list(*number));
        }
        Val::Null | Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Type(_) => {
            write_text(value, out, budget)?;
        }
        _ if matches!(value.type_name(), "list" | "map") => write_text(value, out, budget)?,
        _ => return Err(other(in_formatting(&format!("no formatting function for {}", value.type_name())))),
    }
    Ok(())
}

fn write_list(list: &Val<'_>, out: &mut String, budget: &mut Budget) -> Result<(), Error> {
    budget.take(list.size().unwrap_or_default() as u64)?;
    out.push('[');
    for (at, item) in list.items().unwrap_or_default().into_iter().enumerate() {
        budget.take(item.decoding_cost())?;
        if at > 0 {
            out.push_str(", ");
        }
        write_literal(&item, out, budget)?;
    }
    out.push(']');
    Ok(())
}

fn write_map(map: &Val<'_>, out: &mut String, budget: &mut Budget) -> Result<(), Error> {
    budget.take(map.size().unwrap_or_default() as u64)?;
    let mut entries = Vec::new();
    for (key, value) in map.pairs().unwrap_or_default() {
        budget.take(value.decoding_cost())?;
        if !matches!(key, Val::Text(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_)) {
            let reason = format!("no formatting function for map key of type {}", key.type_name());
            return Err(other(in_formatting(&reason)));
        }
        let (mut name, mut literal) = (String::new(), String::new());
        write_literal(&key, &mut name, budget)?;
        write_literal(&value, &mut literal, budget)?;
        entries.push((name, literal));
    }
    entries.order_by(|(a, _), (b, _)| a.cmp(b));
    out.push('{');
    for (at, (name, literal)) in entries.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        out.push_str(name);
        out.push(':');
        out.push_str(literal);
    }
    out.push('}');
    Ok(())
}

/// Returns a text in quotation marks, with CEL's escape sequences: `strings.quote`.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        let escaped = match letter {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' | '"' => letter,
            _ => {
                out.push(letter);
                continue;
            }
        };
        out.extend(['\\', escaped]);
    }
    out.push('"');
    out
}
