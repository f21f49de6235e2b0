//! The names that an expression may use, and the error in one.

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
