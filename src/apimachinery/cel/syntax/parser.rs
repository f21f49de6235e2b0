//! Parses an expression by recursive descent, and binary operators by their precedence.

use super::lexer::{Token, TokenKind, tokens};
use super::{Expr, ExprKind, Field, Literal, MAX_DEPTH, MapEntry, Message, Select, expansion, literal};
use crate::cel::names::{ExpressionError, RESERVED, fault};

type ParseResult<T> = Result<T, ExpressionError>;

/// The tokens that begin an expression, in cel-go's words.
const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                          NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Parses an expression; the error is the first one in it.
pub(in crate::cel) fn parse(source: &str) -> ParseResult<Expr> {
    let mut parser = Parser { source, tokens: tokens(source), next: 0, depth: 0 };
    let parsed = parser.expression()?;
    match parser.peek().kind {
        TokenKind::End => Ok(parsed),
        _ => Err(parser.unexpected("extraneous", "<EOF>")),
    }
}

struct Parser<'s> {
    source: &'s str,
    /// Invariant: the last one is [`TokenKind::End`], and `next` is never beyond it.
    tokens: Vec<Token>,
    next: usize,
    /// The number of expressions around the next token.
    depth: usize,
}

impl<'s> Parser<'s> {
    fn expression(&mut self) -> ParseResult<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(self.peek().start));
        }
        let mut parsed = self.operation(1)?;
        if let Some(at) = self.consume("?") {
            let yes = self.operation(1)?;
            self.expect(":")?;
            let no = self.expression()?;
            parsed = bounded(Expr::call(at, "_?_:_", vec![parsed, yes, no]))?;
        }
        self.depth -= 1;
        Ok(parsed)
    }

    /// Parses operators of at least this precedence, and their operands.
    fn operation(&mut self, least: u8) -> ParseResult<Expr> {
        let mut left = self.unary()?;
        while let Some((symbol, precedence)) = operator(self.peek().kind)
            && precedence >= least
        {
            let name = if symbol == "in" { "@in" } else { &format!("_{symbol}_") };
            let (mut operands, mut positions) = (vec![left], Vec::new());
            while let Some(at) = self.consume(symbol) {
                positions.push(at);
                operands.push(self.operation(precedence + 1)?);
                if !matches!(symbol, "&&" | "||") {
                    break;
                }
            }
            left = bounded(balanced(name, &positions, &mut operands.into_iter()))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> ParseResult<Expr> {
        let is_signed = self.is("-") && is_number(self.tokens[self.next + 1].kind);
        let name = match self.peek().kind {
            TokenKind::Symbol("!") => "!_",
            TokenKind::Symbol("-") if !is_signed => "-_",
            _ => return self.member(),
        };
        let Token { start: at, kind, .. } = self.peek();
        let before = self.next;
        while self.peek().kind == kind {
            self.next += 1;
        }
        // Two of them have no effect, even on an operand of another type.
        let is_odd = (self.next - before) % 2 == 1;
        let operand = self.member()?;
        Ok(if is_odd { Expr::call(at, name, vec![operand]) } else { operand })
    }

    /// Parses an operand with its fields, calls and indexes.
    fn member(&mut self) -> ParseResult<Expr> {
        let mut parsed = self.primary()?;
        loop {
            parsed = bounded(if let Some(at) = self.consume(".") {
                let is_optional = self.consume("?").is_some();
                let field = self.identifier()?;
                if is_optional {
                    let field = Expr::new(at, ExprKind::Literal(Literal::Text(field.into())));
                    Expr::call(at, "_?._", vec![parsed, field])
                } else if let Some(open) = self.consume("(") {
                    expansion::call(open, field, Some(parsed), self.arguments()?)?
                } else {
                    let (operand, field) = (Box::new(parsed), field.into());
                    Expr::new(at, ExprKind::Select(Select { operand, field, test: false }))
                }
            } else if let Some(at) = self.consume("[") {
                let name = if self.consume("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                Expr::call(at, name, vec![parsed, index])
            } else {
                return bounded(parsed);
            })?;
        }
    }

    fn primary(&mut self) -> ParseResult<Expr> {
        let token = self.peek();
        let at = token.start;
        let kind = match token.kind {
            TokenKind::Symbol("(") => {
                self.next += 1;
                let parsed = self.expression()?;
                self.expect(")")?;
                return Ok(parsed);
            }
            TokenKind::Symbol("[") => {
                self.next += 1;
                let (mut items, mut optional) = (Vec::new(), Vec::new());
                self.entries("]", |parser, is_optional| {
                    optional.extend(is_optional.then_some(items.len()));
                    items.push(parser.expression()?);
                    Ok(())
                })?;
                ExprKind::List(items, optional)
            }
            TokenKind::Symbol("{") => {
                self.next += 1;
                let mut entries = Vec::new();
                self.entries("}", |parser, optional| {
                    let key = parser.expression()?;
                    parser.expect(":")?;
                    entries.push(MapEntry { key, value: parser.expression()?, optional });
                    Ok(())
                })?;
                ExprKind::Map(entries)
            }
            TokenKind::Identifier | TokenKind::Symbol(".") => return self.name(),
            TokenKind::Symbol("-") if is_number(self.tokens[self.next + 1].kind) => {
                self.next += 2;
                ExprKind::Literal(self.literal(at, true)?)
            }
            TokenKind::Symbol("true" | "false" | "null")
            | TokenKind::Int
            | TokenKind::Uint
            | TokenKind::Double
            | TokenKind::Text
            | TokenKind::Bytes => {
                self.next += 1;
                ExprKind::Literal(self.literal(at, false)?)
            }
            _ => return Err(self.unexpected("mismatched", EXPRESSION)),
        };
        Ok(Expr::new(at, kind))
    }

    /// Returns the value of the previous token.
    fn literal(&self, at: usize, negative: bool) -> ParseResult<Literal> {
        let token = self.tokens[self.next - 1];
        literal::parse(token.kind, self.text(token), negative).map_err(|reason| fault(at, reason))
    }

    /// Parses a variable, the call of a function, or a message.
    fn name(&mut self) -> ParseResult<Expr> {
        let dot = if self.consume(".").is_some() { "." } else { "" };
        let Token { start: at, .. } = self.peek();
        let first = self.identifier()?;
        if let Some(length) = self.type_name_length() {
            let mut type_name = format!("{dot}{first}");
            for token in &self.tokens[self.next..self.next + length] {
                type_name.push_str(self.text(*token));
            }
            self.next += length;
            return self.message(type_name);
        }
        if RESERVED.contains(&first) {
            return Err(fault(at, format!("reserved identifier: {first}")));
        }
        let name = format!("{dot}{first}");
        match self.consume("(") {
            Some(open) => expansion::call(open, &name, None, self.arguments()?),
            None => Ok(Expr::new(at, ExprKind::Ident(name))),
        }
    }

    /// Returns the number of tokens up to a brace, if these are the rest of a qualified name.
    fn type_name_length(&self) -> Option<usize> {
        let rest = &self.tokens[self.next..];
        let names = rest.as_chunks::<2>().0.iter().take_while(|pair| {
            pair.map(|token| token.kind) == [TokenKind::Symbol("."), TokenKind::Identifier]
        });
        let length = 2 * names.count();
        (rest[length].kind == TokenKind::Symbol("{")).then_some(length)
    }

    fn message(&mut self, type_name: String) -> ParseResult<Expr> {
        let at = self.expect("{")?;
        let mut fields = Vec::new();
        self.entries("}", |parser, optional| {
            let name = parser.identifier()?.into();
            parser.expect(":")?;
            fields.push(Field { name, value: parser.expression()?, optional });
            Ok(())
        })?;
        Ok(Expr::new(at, ExprKind::Message(Message { type_name, fields })))
    }

    /// Parses the arguments of a call behind its opening parenthesis.
    fn arguments(&mut self) -> ParseResult<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.consume(")").is_none() {
            arguments.push(self.expression()?);
            while self.consume(",").is_some() {
                arguments.push(self.expression()?);
            }
            self.expect(")")?;
        }
        Ok(arguments)
    }

    /// Parses entries that may be optional, and the closing bracket. A comma may be before the bracket.
    fn entries(
        &mut self,
        close: &'static str,
        mut entry: impl FnMut(&mut Self, bool) -> ParseResult<()>,
    ) -> ParseResult<usize> {
        if self.consume(",").is_none() {
            while !self.is(close) {
                let is_optional = self.consume("?").is_some();
                entry(self, is_optional)?;
                if self.consume(",").is_none() {
                    break;
                }
            }
        }
        self.expect(close)
    }

    fn peek(&self) -> Token {
        self.tokens[self.next]
    }

    fn is(&self, symbol: &'static str) -> bool {
        self.peek().kind == TokenKind::Symbol(symbol)
    }

    /// Skips this symbol and returns its position, if it is next.
    fn consume(&mut self, symbol: &'static str) -> Option<usize> {
        let at = self.is(symbol).then(|| self.peek().start)?;
        self.next += 1;
        Some(at)
    }

    fn expect(&mut self, symbol: &'static str) -> ParseResult<usize> {
        self.consume(symbol).ok_or_else(|| self.unexpected("mismatched", &format!("'{symbol}'")))
    }

    fn identifier(&mut self) -> ParseResult<&'s str> {
        let token = self.peek();
        if token.kind != TokenKind::Identifier {
            return Err(self.unexpected("mismatched", "IDENTIFIER"));
        }
        self.next += 1;
        Ok(self.text(token))
    }

    fn text(&self, token: Token) -> &'s str {
        &self.source[token.start..token.end]
    }

    /// Returns the error for the next token, in cel-go's words.
    fn unexpected(&self, problem: &str, expected: &str) -> ExpressionError {
        let token = self.peek();
        let text = self.text(token);
        let message = match token.kind {
            TokenKind::Invalid if text == "`" => "unsupported syntax: '`'".into(),
            TokenKind::Invalid => format!("Syntax error: token recognition error at: '{text}'"),
            TokenKind::End => format!("Syntax error: {problem} input '<EOF>' expecting {expected}"),
            _ => format!("Syntax error: {problem} input '{text}' expecting {expected}"),
        };
        fault(token.start, message)
    }
}

/// Returns a binary operator's symbol and precedence.
fn operator(kind: TokenKind) -> Option<(&'static str, u8)> {
    let TokenKind::Symbol(symbol) = kind else { return None };
    let precedence = match symbol {
        "||" => 1,
        "&&" => 2,
        "<" | "<=" | ">" | ">=" | "==" | "!=" | "in" => 3,
        "+" | "-" => 4,
        "*" | "/" | "%" => 5,
        _ => return None,
    };
    Some((symbol, precedence))
}

/// Returns the tree of a chain of equal operators at these positions, as flat as possible.
fn balanced(name: &str, positions: &[usize], operands: &mut impl Iterator<Item = Expr>) -> Expr {
    let (left, rest) = positions.split_at(positions.len() / 2);
    match rest {
        [] => operands.next().expect("a chain has one operand more than operators"),
        [at, right @ ..] => {
            let left = balanced(name, left, operands);
            let right = balanced(name, right, operands);
            Expr::call(*at, name, vec![left, right])
        }
    }
}

fn is_number(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Int | TokenKind::Double)
}

/// Returns the expression, unless it is too deep. Chains such as `a.b.c` nest without recursion in the
/// parser.
fn bounded(node: Expr) -> ParseResult<Expr> {
    if node.depth > MAX_DEPTH { Err(too_deep(node.at)) } else { Ok(node) }
}

fn too_deep(at: usize) -> ExpressionError {
    fault(at, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
}
