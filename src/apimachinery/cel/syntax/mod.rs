//! The syntax tree of an expression, and its parser: the grammar of cel-go with optional syntax. Macros are
//! expanded; names and types are not resolved.
//!
//! Invariant: no tree is deeper than [`MAX_DEPTH`] and a few levels, so recursion over it is safe on any
//! stack.

mod expansion;
mod lexer;
mod literal;
mod parser;

#[cfg(test)]
mod tests;

pub(super) use parser::parse;

use super::node::{Literal, PairKind};

/// The limit on nesting: cel-go's.
const MAX_DEPTH: usize = 250;

/// The name of an expanded macro's accumulator, which no source can write.
pub(super) const ACCUMULATOR: &str = "@result";

#[derive(Debug)]
pub(super) struct Expr {
    /// The offset in bytes of the token that stands for the expression: the operator, the dot before a field,
    /// the opening bracket of a call, list, map or message.
    pub(super) at: usize,
    /// The number of levels, including this one.
    depth: usize,
    pub(super) kind: ExprKind,
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Literal(Literal),
    /// A name, with its leading dot if it has one.
    Ident(String),
    Select(Select),
    Call(Call),
    /// A list, and the positions of its optional items.
    List(Vec<Expr>, Vec<usize>),
    Map(Vec<MapEntry>),
    Message(Message),
    Comprehension(Box<Comprehension>),
    /// `cel.bind(variable, value, expression)`.
    Bind {
        variable: String,
        value: Box<Expr>,
        expression: Box<Expr>,
    },
    /// `of.optMap(variable, expression)`; `flat` if the expression is itself optional.
    OptionalMap {
        of: Box<Expr>,
        variable: String,
        expression: Box<Expr>,
        flat: bool,
    },
    Pairs(Box<PairsMacro>),
}

/// A field of an object; `test`: only its presence.
#[derive(Debug)]
pub(super) struct Select {
    pub(super) operand: Box<Expr>,
    pub(super) field: String,
    pub(super) test: bool,
}

/// A call of a function or operator.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) target: Option<Box<Expr>>,
    pub(super) args: Vec<Expr>,
}

#[derive(Debug)]
pub(super) struct MapEntry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// An object literal: `Object{field: value}`.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) type_name: String,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// The expansion of a macro with one variable: a loop that computes [`ACCUMULATOR`].
#[derive(Debug)]
pub(super) struct Comprehension {
    pub(super) range: Expr,
    pub(super) variable: String,
    pub(super) init: Expr,
    pub(super) condition: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

/// `range.all(key, value, expression)` and similar, some with a filter before the expression.
#[derive(Debug)]
pub(super) struct PairsMacro {
    pub(super) kind: PairKind,
    pub(super) range: Expr,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) filter: Option<Expr>,
    pub(super) expression: Expr,
}

impl Expr {
    fn new(at: usize, kind: ExprKind) -> Self {
        let deepest = kind.parts().iter().map(|part| part.depth).max();
        Self { at, depth: 1 + deepest.unwrap_or(0), kind }
    }

    fn call(at: usize, name: &str, args: Vec<Self>) -> Self {
        Self::new(at, ExprKind::Call(Call { name: name.into(), target: None, args }))
    }

    /// Returns true if the expression is this name.
    pub(super) fn is_ident(&self, name: &str) -> bool {
        matches!(&self.kind, ExprKind::Ident(ident) if ident == name)
    }
}

impl ExprKind {
    /// Returns the direct parts of the expression.
    pub(super) fn parts(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Ident(_) => Vec::new(),
            Self::Select(select) => vec![&select.operand],
            Self::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
            Self::List(items, _) => items.iter().collect(),
            Self::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Self::Message(message) => message.fields.iter().map(|field| &field.value).collect(),
            Self::Comprehension(fold) => {
                vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
            }
            Self::Bind { value, expression, .. } => vec![value, expression],
            Self::OptionalMap { of, expression, .. } => vec![of, expression],
            Self::Pairs(pairs) => [Some(&pairs.range), pairs.filter.as_ref(), Some(&pairs.expression)]
                .into_iter()
                .flatten()
                .collect(),
        }
    }
}
