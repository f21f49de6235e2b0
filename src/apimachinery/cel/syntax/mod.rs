//! The syntax tree of an expression, and its parser: the grammar of cel-go with optional syntax. Macros are
//! expanded; the checker resolves names and types.
//!
//! Invariant: no tree is deeper than [`MAX_DEPTH`] and a few levels, so recursion over it is safe on any
//! stack.

mod expansion;
mod lexer;
mod literal;
mod parser;

#[cfg(test)]
mod tests;

use regex::Regex;

pub(super) use parser::parse;

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
    /// A name. The parser leaves its leading dot, which the checker removes.
    Ident(String),
    /// The value of another expression: `variables.NAME`, resolved by the checker.
    Composed(String),
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

#[derive(Clone, Debug)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A field of an object; `test`: only its presence. The checker unescapes the field's name.
#[derive(Debug)]
pub(super) struct Select {
    pub(super) operand: Box<Expr>,
    pub(super) field: String,
    pub(super) test: bool,
}

/// A call of a function or operator. The checker moves a namespace from the target to the name.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) target: Option<Box<Expr>>,
    pub(super) args: Vec<Expr>,
    /// The constant regular expression among the arguments, compiled by the checker.
    pub(super) pattern: Option<Regex>,
}

impl Call {
    fn new(name: &str, target: Option<Expr>, args: Vec<Expr>) -> Self {
        Self { name: name.into(), target: target.map(Box::new), args, pattern: None }
    }
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

impl Comprehension {
    /// Returns the condition and the item of a step that only appends an item to the accumulator: those of `map`
    /// and `filter`, whose lists would otherwise be copied for each item.
    pub(super) fn appended(&self) -> Option<(Option<&Expr>, &Expr)> {
        if let Some(item) = appended_item(&self.step) {
            return Some((None, item));
        }
        let ExprKind::Call(Call { name, args, .. }) = &self.step.kind else { return None };
        match args.as_slice() {
            [when, yes, no] if name == "_?_:_" && no.is_ident(ACCUMULATOR) => {
                Some((Some(when), appended_item(yes)?))
            }
            _ => None,
        }
    }
}

fn appended_item(step: &Expr) -> Option<&Expr> {
    let ExprKind::Call(Call { name, args, .. }) = &step.kind else { return None };
    match args.as_slice() {
        [list, Expr { kind: ExprKind::List(items, optional), .. }]
            if name == "_+_" && list.is_ident(ACCUMULATOR) && items.len() == 1 && optional.is_empty() =>
        {
            items.first()
        }
        _ => None,
    }
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

/// The result of a macro over pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairKind {
    All,
    Exists,
    ExistsOne,
    /// A list of the expression's values.
    List,
    /// A map of the same keys to the expression's values.
    Map,
    /// A map of the entries that the expression returns.
    MapEntry,
}

impl Expr {
    fn new(at: usize, kind: ExprKind) -> Self {
        let deepest = kind.parts().iter().map(|part| part.depth).max();
        Self { at, depth: 1 + deepest.unwrap_or(0), kind }
    }

    fn call(at: usize, name: &str, args: Vec<Self>) -> Self {
        Self::new(at, ExprKind::Call(Call::new(name, None, args)))
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
            Self::Literal(_) | Self::Ident(_) | Self::Composed(_) => Vec::new(),
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
