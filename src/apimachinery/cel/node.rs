//! The nodes of an expression, and the names it may use.

use std::sync::Arc;

use regex::Regex;

/// A node of an expression.
#[derive(Debug)]
pub(super) enum Node {
    Literal(Literal),
    Variable(String),
    /// A field of an object; `test`: only its presence; `optional`: as an optional.
    Select {
        of: Box<Node>,
        field: String,
        test: bool,
        optional: bool,
    },
    Call {
        name: String,
        target: Option<Box<Node>>,
        args: Vec<Node>,
        pattern: Option<Arc<Regex>>,
    },
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Choose(Box<Node>, Box<Node>, Box<Node>),
    /// Each item, and true if it is optional.
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Fold(Box<MacroLoop>),
    Pairs(Box<Pairs>),
    /// `cel.bind(variable, value, expression)`.
    Bind {
        variable: String,
        value: Box<Node>,
        expression: Box<Node>,
    },
    /// The value of another expression: `variables.NAME`.
    Composed(String),
    /// `of.optMap(variable, expression)`; `flat` if the expression is itself optional.
    OptionalMap {
        of: Box<Node>,
        variable: String,
        expression: Box<Node>,
        flat: bool,
    },
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

/// The expansion of macros over lists and maps: a loop that computes
/// [`ACCUMULATOR`](super::syntax::ACCUMULATOR).
#[derive(Debug)]
pub(super) struct MacroLoop {
    pub(super) range: Node,
    pub(super) variable: String,
    pub(super) init: Node,
    pub(super) condition: Node,
    pub(super) step: LoopStep,
    pub(super) result: Node,
}

#[derive(Debug)]
pub(super) enum LoopStep {
    /// The next value of the accumulator.
    Any(Node),
    /// The accumulator with one more item if the condition holds: `map` and `filter`, whose lists would
    /// otherwise be copied for each item.
    Append { when: Option<Node>, item: Node },
}

/// A macro over the pairs of a map, or of a list and its indices.
#[derive(Debug)]
pub(super) struct Pairs {
    pub(super) kind: PairKind,
    pub(super) range: Node,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) filter: Option<Node>,
    pub(super) expression: Node,
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

/// The name through which an expression reads others.
pub(super) const VARIABLES: &str = "variables";

/// An error in an expression, and its position in bytes.
pub(super) struct ExpressionError {
    pub(super) at: usize,
    pub(super) message: String,
}

pub(super) fn fault(at: usize, message: impl Into<String>) -> ExpressionError {
    ExpressionError { at, message: message.into() }
}

/// Names before a dot that are no values: `math.greatest(…)` is a function of that name.
pub(super) const NAMESPACES: [&str; 9] =
    ["optional", "math", "sets", "format", "ip", "cidr", "jsonpatch", "strings", "lists"];

/// Returns the type of a name, as in `type(self.x) == string`.
pub(super) fn type_named(name: &str) -> Option<&'static str> {
    const TYPES: [&str; 10] =
        ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];
    TYPES.into_iter().find(|known| *known == name)
}

/// Reserved words of the language.
pub(super) const RESERVED: [&str; 21] = [
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
    "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
];

/// Names that are valid identifiers and are escaped (`__self__`) as reserved words are: rules' variables and
/// `default`.
const ESCAPED_NAMES: [&str; 3] = ["self", "oldSelf", "default"];

/// Returns true if the name is a valid identifier.
pub fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !RESERVED.contains(&name)
}

/// Returns the name of a field that a rule writes as an identifier: `x__dash__y` is `x-y`.
pub(super) fn unescape(name: &str) -> String {
    if !name.contains("__") {
        return name.to_string();
    }
    let inner = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| RESERVED.contains(word) || ESCAPED_NAMES.contains(word)) {
        return word.to_string();
    }
    name.replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .replace("__underscores__", "__")
}
