//! Compiles the parser's tree into filters: only supported expressions, up to a maximum depth.

use base::did_you_mean::nearest;
use jaq_core::load::lex::{Lexer, StrPart};
use jaq_core::load::parse::{BinaryOp, Parser, Pattern, Term};
use jaq_core::ops::{Cmp, Math};
use jaq_core::path::{Opt, Part as PathPart, Path};
use serde_json::Value;

use super::functions::{FilterFunction, Function};

/// The maximum depth of an expression.
const DEPTH: usize = 64;

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    Id,
    Recurse,
    Const(Value),
    /// Text with interpolated values.
    Text(Vec<TextPart>),
    Array(Option<Box<Filter>>),
    Object(Vec<(Filter, Filter)>),
    Negate(Box<Filter>),
    Pipe(Box<Filter>, Box<Filter>),
    /// Binds each result of the first filter to a name in the second filter.
    Bind(Box<Filter>, String, Box<Filter>),
    Comma(Box<Filter>, Box<Filter>),
    Alternative(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Math(Math, Box<Filter>, Box<Filter>),
    Compare(Cmp, Box<Filter>, Box<Filter>),
    Try(Box<Filter>, Option<Box<Filter>>),
    If(Vec<(Filter, Filter)>, Option<Box<Filter>>),
    /// Source, name, initial value, and update.
    Reduce(Box<Filter>, String, Box<Filter>, Box<Filter>),
    Call(Function, Vec<Filter>),
    Through(FilterFunction, Box<Filter>),
    Var(String),
    Path(Box<Filter>, Vec<(PathStep, bool)>),
}

/// A part of an interpolated text.
#[derive(Clone, Debug)]
pub(super) enum TextPart {
    Plain(String),
    Of(Filter),
}

/// An element of a path.
#[derive(Clone, Debug)]
pub(super) enum PathStep {
    At(Filter),
    All,
    Slice(Option<Filter>, Option<Filter>),
}

/// Compiles an expression.
pub(super) fn compile(text: &str) -> Result<Filter, String> {
    // The parser recurses as deep as the text, so its depth is checked first.
    let opens = text.chars().scan(0_usize, |depth, c| {
        match c {
            '(' | '[' | '{' => *depth += 1,
            ')' | ']' | '}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    let minuses = text.as_bytes().windows(DEPTH).any(|run| run.iter().all(|c| matches!(c, b'-' | b' ')));
    if opens.max().unwrap_or(0) > DEPTH || minuses {
        return Err(format!("nested deeper than {DEPTH} levels"));
    }
    let tokens = Lexer::new(text).lex().map_err(|errors| {
        let rest = errors.first().map(|(_, rest)| *rest).unwrap_or_default();
        format!("syntax error at {}", describe_position(rest))
    })?;
    let term = Parser::new(&tokens).parse(Parser::term).map_err(|errors| {
        let found = errors.first().and_then(|(_, found)| *found).map(|token| token.0);
        format!("syntax error at {}", describe_position(found.unwrap_or_default()))
    })?;
    Compiler { names: Vec::new() }.filter(&term, DEPTH)
}

/// Describes the position: `"rest"`, or the end.
fn describe_position(rest: &str) -> String {
    if rest.is_empty() {
        "the end".to_owned()
    } else {
        format!("{:?}", rest.chars().take(20).collect::<String>())
    }
}

/// Tracks the names in scope.
struct Compiler {
    names: Vec<String>,
}

impl Compiler {
    fn boxed(&mut self, term: &Term<&str>, depth: usize) -> Result<Box<Filter>, String> {
        self.filter(term, depth).map(Box::new)
    }

    fn filter(&mut self, term: &Term<&str>, depth: usize) -> Result<Filter, String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!("nested deeper than {DEPTH} levels"));
        };
        Ok(match term {
            Term::Id => Filter::Id,
            Term::Recurse => Filter::Recurse,
            Term::Num(number) => {
                Filter::Const(serde_json::from_str(number).map_err(|_| format!("invalid number {number:?}"))?)
            }
            Term::Str(Some(format), _) => return Err(format!("the format {format} is not supported")),
            Term::Str(None, parts) => Filter::Text(self.pieces(parts, depth)?),
            Term::Arr(None) => Filter::Array(None),
            Term::Arr(Some(inner)) => Filter::Array(Some(self.boxed(inner, depth)?)),
            Term::Obj(fields) => {
                let fields = fields.iter().map(|(key, value)| self.field(key, value.as_ref(), depth));
                Filter::Object(fields.collect::<Result<_, _>>()?)
            }
            Term::Neg(inner) => Filter::Negate(self.boxed(inner, depth)?),
            Term::BinOp(left, op, right) => return self.operation(left, op, right, depth),
            Term::Label(..) | Term::Break(_) => return Err("label and break are not supported".to_owned()),
            Term::Fold("reduce", source, Pattern::Var(name), steps) if steps.len() == 2 => {
                let source = self.boxed(source, depth)?;
                let from = self.boxed(&steps[0], depth)?;
                let step = self.with_name(name, |own| own.boxed(&steps[1], depth))?;
                Filter::Reduce(source, (*name).to_owned(), from, step)
            }
            Term::Fold(name, ..) => return Err(format!("this form of {name} is not supported")),
            Term::TryCatch(inner, caught) => {
                let caught = caught.as_ref().map(|caught| self.boxed(caught, depth)).transpose()?;
                Filter::Try(self.boxed(inner, depth)?, caught)
            }
            Term::IfThenElse(cases, otherwise) => {
                let cases =
                    cases.iter().map(|(is, then)| Ok((self.filter(is, depth)?, self.filter(then, depth)?)));
                let cases = cases.collect::<Result<_, String>>()?;
                Filter::If(cases, otherwise.as_ref().map(|term| self.boxed(term, depth)).transpose()?)
            }
            Term::Def(..) => return Err("definitions are not supported".to_owned()),
            Term::Call("null", arguments) if arguments.is_empty() => Filter::Const(Value::Null),
            Term::Call("true", arguments) if arguments.is_empty() => Filter::Const(Value::Bool(true)),
            Term::Call("false", arguments) if arguments.is_empty() => Filter::Const(Value::Bool(false)),
            Term::Call(name, arguments) if arguments.len() == 1 && FilterFunction::find(name).is_some() => {
                let through = FilterFunction::find(name).ok_or_else(|| unknown(name, 1))?;
                Filter::Through(through, self.boxed(&arguments[0], depth)?)
            }
            Term::Call(name, arguments) => {
                let function =
                    Function::find(name, arguments.len()).ok_or_else(|| unknown(name, arguments.len()))?;
                let arguments = arguments.iter().map(|argument| self.filter(argument, depth));
                Filter::Call(function, arguments.collect::<Result<_, _>>()?)
            }
            Term::Var(name) if self.names.iter().any(|known| known == name) => {
                Filter::Var((*name).to_owned())
            }
            Term::Var(name) => return Err(format!("the variable {name} is not defined")),
            Term::Path(inner, Path(parts)) => {
                let inner = self.boxed(inner, depth)?;
                let parts = parts
                    .iter()
                    .map(|(part, opt)| Ok((self.part(part, depth)?, matches!(opt, Opt::Optional))));
                Filter::Path(inner, parts.collect::<Result<_, String>>()?)
            }
        })
    }

    fn with_name<T>(&mut self, name: &str, f: impl FnOnce(&mut Self) -> T) -> T {
        self.names.push(name.to_owned());
        let done = f(self);
        self.names.pop();
        done
    }

    fn part(&mut self, part: &PathPart<Term<&str>>, depth: usize) -> Result<PathStep, String> {
        Ok(match part {
            PathPart::Index(at) => PathStep::At(self.filter(at, depth)?),
            PathPart::Range(None, None) => PathStep::All,
            PathPart::Range(from, to) => {
                let mut bound = |term: &Option<Term<&str>>| {
                    term.as_ref().map(|term| self.filter(term, depth)).transpose()
                };
                PathStep::Slice(bound(from)?, bound(to)?)
            }
        })
    }

    fn pieces(&mut self, parts: &[StrPart<&str, Term<&str>>], depth: usize) -> Result<Vec<TextPart>, String> {
        let piece = |part: &StrPart<&str, Term<&str>>| {
            Ok(match part {
                StrPart::Str(text) => TextPart::Plain((*text).to_owned()),
                StrPart::Char(c) => TextPart::Plain(c.to_string()),
                StrPart::Term(term) => TextPart::Of(self.filter(term, depth)?),
            })
        };
        parts.iter().map(piece).collect()
    }

    /// Compiles `k: v`, or `k` alone for `k: .k`, and `$x` for `x: $x`.
    fn field(
        &mut self,
        key: &Term<&str>,
        value: Option<&Term<&str>>,
        depth: usize,
    ) -> Result<(Filter, Filter), String> {
        if let (Term::Var(name), None) = (key, value) {
            let text = name.trim_start_matches('$').to_owned();
            return Ok((Filter::Const(Value::String(text)), self.filter(key, depth)?));
        }
        let key = self.filter(key, depth)?;
        let value = match value {
            Some(value) => self.filter(value, depth)?,
            None => Filter::Path(Box::new(Filter::Id), vec![(PathStep::At(key.clone()), false)]),
        };
        Ok((key, value))
    }

    fn operation(
        &mut self,
        left: &Term<&str>,
        op: &BinaryOp<&str>,
        right: &Term<&str>,
        depth: usize,
    ) -> Result<Filter, String> {
        let first = self.boxed(left, depth)?;
        if let BinaryOp::Pipe(Some(pattern)) = op {
            let Pattern::Var(name) = pattern else {
                return Err("patterns are not supported; use as $name".to_owned());
            };
            let body = self.with_name(name, |own| own.boxed(right, depth))?;
            return Ok(Filter::Bind(first, (*name).to_owned(), body));
        }
        let second = self.boxed(right, depth)?;
        Ok(match op {
            BinaryOp::Pipe(_) => Filter::Pipe(first, second),
            BinaryOp::Comma => Filter::Comma(first, second),
            BinaryOp::Alt => Filter::Alternative(first, second),
            BinaryOp::Or => Filter::Or(first, second),
            BinaryOp::And => Filter::And(first, second),
            BinaryOp::Math(math) => Filter::Math(*math, first, second),
            BinaryOp::Cmp(cmp) => Filter::Compare(*cmp, first, second),
            BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
                return Err("assignments are not supported: an expression only reads".to_owned());
            }
        })
    }
}

fn unknown(name: &str, arguments: usize) -> String {
    let count = if arguments == 1 { "1 argument".to_owned() } else { format!("{arguments} arguments") };
    match nearest(name, Function::names()).filter(|near| *near != name) {
        Some(near) => format!("no function {name} with {count}; did you mean {near}?"),
        None => format!("no function {name} with {count}"),
    }
}
