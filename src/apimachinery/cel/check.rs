//! Type checks of an expression before it runs: unknown names, fields and functions, and operators without an
//! overload for the types. Unknown types pass, and are checked at run time. The checker also resolves names in the
//! tree and compiles its constant patterns.

use super::format;
use super::named_formats;
use super::names::{ExpressionError, NAMESPACES, VARIABLES, fault, type_named, unescape};
use super::syntax::{
    ACCUMULATOR, Call, Comprehension, Expr, ExprKind, Literal, Message, PairKind, PairsMacro, Select,
};
use super::types::{Environment, Type};
use super::values::field_schema;
use crate::pattern;

/// Functions whose result type does not depend on their arguments, and those whose result is of any type; the
/// standard library has more in [`OVERLOADS`].
const FUNCTIONS: [(Type<'static>, &[&str]); 6] = [
    (
        Type::Bool,
        &[
            "isSorted", "hasValue", "allowed", "errored", "isQuantity", "isInteger", "isGreaterThan",
            "isLessThan", "isIP", "isCIDR", "isURL", "isSemver", "isUnspecified", "isLoopback",
            "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "containsIP", "containsCIDR",
            "ip.isCanonical", "sets.contains", "sets.equivalent", "sets.intersects", "_==_", "_!=_", "@in",
            "@not_strictly_false",
        ],
    ),
    (
        Type::Int,
        &[
            "compareTo", "sign", "asInteger", "lastIndexOf", "indexOf", "family", "prefixLength", "major",
            "minor", "patch",
        ],
    ),
    (
        Type::Text,
        &[
            "reason", "error", "jsonpatch.escapeKey", "lowerAscii", "upperAscii", "trim", "charAt",
            "substring", "replace", "join", "format", "strings.quote", "find", "getScheme", "getHost",
            "getHostname", "getPort", "getEscapedPath",
        ],
    ),
    (
        Type::List,
        &["split", "findAll", "slice", "distinct", "sort", "@sortByAssociatedKeys", "flatten", "lists.range"],
    ),
    (Type::Double, &["asApproximateFloat"]),
    (
        Type::Dyn,
        &[
            "dyn", "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name",
            "fieldSelector", "labelSelector", "check", "type", "sum", "min", "max", "first", "last",
            "reverse", "quantity", "add", "sub", "ip", "cidr", "masked", "url", "getQuery", "semver",
            "optional.of", "optional.none", "optional.ofNonZeroValue", "value", "orValue", "or", "optMap",
            "optFlatMap", "math.greatest", "math.least", "format.named", "validate", "_[?_]", "_?._",
        ],
    ),
];

/// Returns the result type of a function, if it does not depend on the arguments.
pub(super) fn result_of(name: &str) -> Option<Type<'static>> {
    let library = FUNCTIONS.iter().find(|(_, names)| names.contains(&name)).map(|(result, _)| *result);
    let standard = || OVERLOADS.iter().find(|(names, ..)| names.contains(&name)).map(|(.., result)| *result);
    library.or_else(standard)
}

/// Functions of extension libraries that apply to strings only.
const OF_TEXTS: [&str; 8] =
    ["lowerAscii", "upperAscii", "substring", "split", "format", "strings.quote", "semver", "isSemver"];

/// The names of functions, the types that each parameter may have, and the result's type. The receiver is the
/// first parameter.
type Overload = (&'static [&'static str], &'static [&'static [Type<'static>]], Type<'static>);

const ORDER: &[&str] = &["_<_", "_<=_", "_>_", "_>=_"];
const NUMBERS: &[Type<'static>] = &[Type::Int, Type::Uint, Type::Double];
const PARTS_OF_TIMES: &[&str] = &[
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfYear", "getDayOfWeek", "getHours",
    "getMinutes", "getSeconds", "getMilliseconds",
];

/// The functions of cel-go's standard library, except those of lists and maps with items of one type.
const OVERLOADS: &[Overload] = &[
    (&["_&&_", "_||_"], &[&[Type::Bool], &[Type::Bool]], Type::Bool),
    (&["!_"], &[&[Type::Bool]], Type::Bool),
    (ORDER, &[NUMBERS, NUMBERS], Type::Bool),
    (ORDER, &[&[Type::Bool], &[Type::Bool]], Type::Bool),
    (ORDER, &[&[Type::Text], &[Type::Text]], Type::Bool),
    (ORDER, &[&[Type::Bytes], &[Type::Bytes]], Type::Bool),
    (ORDER, &[&[Type::Time], &[Type::Time]], Type::Bool),
    (ORDER, &[&[Type::Duration], &[Type::Duration]], Type::Bool),
    (&["_+_", "_-_", "_*_", "_/_", "_%_"], &[&[Type::Int], &[Type::Int]], Type::Int),
    (&["_+_", "_-_", "_*_", "_/_", "_%_"], &[&[Type::Uint], &[Type::Uint]], Type::Uint),
    (&["_+_", "_-_", "_*_", "_/_"], &[&[Type::Double], &[Type::Double]], Type::Double),
    (&["_+_"], &[&[Type::Text], &[Type::Text]], Type::Text),
    (&["_+_"], &[&[Type::Bytes], &[Type::Bytes]], Type::Bytes),
    (&["_+_"], &[&[Type::List], &[Type::List]], Type::List),
    (&["_+_"], &[&[Type::Duration], &[Type::Time]], Type::Time),
    (&["_+_", "_-_"], &[&[Type::Time], &[Type::Duration]], Type::Time),
    (&["_+_", "_-_"], &[&[Type::Duration], &[Type::Duration]], Type::Duration),
    (&["_-_"], &[&[Type::Time], &[Type::Time]], Type::Duration),
    (&["-_"], &[&[Type::Int]], Type::Int),
    (&["-_"], &[&[Type::Double]], Type::Double),
    (&["size"], &[&[Type::Text, Type::Bytes, Type::List, Type::Map]], Type::Int),
    (&["contains", "endsWith", "matches", "startsWith"], &[&[Type::Text], &[Type::Text]], Type::Bool),
    (PARTS_OF_TIMES, &[&[Type::Time]], Type::Int),
    (PARTS_OF_TIMES, &[&[Type::Time], &[Type::Text]], Type::Int),
    (&["getHours", "getMinutes", "getSeconds", "getMilliseconds"], &[&[Type::Duration]], Type::Int),
    (&["bool"], &[&[Type::Bool, Type::Text]], Type::Bool),
    (&["bytes"], &[&[Type::Bytes, Type::Text]], Type::Bytes),
    (&["double"], &[&[Type::Double, Type::Int, Type::Uint, Type::Text]], Type::Double),
    (&["duration"], &[&[Type::Duration, Type::Text]], Type::Duration),
    (&["int"], &[&[Type::Int, Type::Uint, Type::Double, Type::Duration, Type::Time, Type::Text]], Type::Int),
    (&["timestamp"], &[&[Type::Time, Type::Int, Type::Text]], Type::Time),
    (&["uint"], &[&[Type::Uint, Type::Int, Type::Double, Type::Text]], Type::Uint),
    (
        &["string"],
        &[&[
            Type::Text,
            Type::Bool,
            Type::Bytes,
            Type::Double,
            Type::Duration,
            Type::Int,
            Type::Time,
            Type::Uint,
        ]],
        Type::Text,
    ),
];

/// Returns true if arguments of these types may be given for the parameters.
fn accepts(parameters: &[&[Type<'static>]], types: &[Type<'_>]) -> bool {
    parameters.len() == types.len()
        && parameters
            .iter()
            .zip(types)
            .all(|(accepted, type_)| accepted.iter().any(|accepted| type_.overlaps(*accepted)))
}

/// Resolves an expression and returns its type, which must be one of `result`, and the variables that it reads;
/// or the first error.
pub(super) fn check(
    node: &mut Expr,
    environment: &Environment<'_>,
    result: &[Type<'_>],
) -> Result<(Type<'static>, Vec<String>), ExpressionError> {
    let scope = environment.variables.iter().map(|(name, type_)| ((*name).to_string(), *type_)).collect();
    let mut checker = Checker { scope, environment, uses: Vec::new(), invalid_pattern: None };
    let found = checker.check(node)?;
    if !result.iter().any(|expected| expected.overlaps(found)) {
        let expected = result.first().map_or("dyn", |expected| expected.name());
        return Err(fault(node.at, format!("cel expression must evaluate to a {expected}")));
    }
    checker.invalid_pattern.map_or(Ok((found.without_schema(), checker.uses)), Err)
}

struct Checker<'s, 'e> {
    /// The variables in scope, those of the environment first.
    scope: Vec<(String, Type<'s>)>,
    environment: &'e Environment<'s>,
    /// The variables of the environment that the expression reads.
    uses: Vec<String>,
    /// The first invalid pattern, which is reported if the types are right.
    invalid_pattern: Option<ExpressionError>,
}

impl<'s> Checker<'s, '_> {
    fn check(&mut self, node: &mut Expr) -> Result<Type<'s>, ExpressionError> {
        let at = node.at;
        Ok(match &mut node.kind {
            ExprKind::Literal(literal) => match literal {
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::Text(_) => Type::Text,
                Literal::Bytes(_) => Type::Bytes,
                Literal::Null => Type::Null,
            },
            ExprKind::Ident(name) => {
                if let Some(absolute) = name.strip_prefix('.') {
                    *name = absolute.to_string();
                }
                match self.find(name) {
                    Some((place, type_)) => {
                        if place < self.environment.variables.len() && !self.uses.contains(name) {
                            self.uses.push(name.clone());
                        }
                        type_.resolved()
                    }
                    None if type_named(name).is_some() => Type::Dyn,
                    None => return Err(undeclared(at, name)),
                }
            }
            ExprKind::Select(select) if self.is_composed(&select.operand) => {
                let field = std::mem::take(&mut select.field);
                let Some(type_) = self.environment.composed_type(&field) else {
                    return Err(fault(at, format!("undefined field '{field}'")));
                };
                let is_test = select.test;
                node.kind =
                    if is_test { ExprKind::Literal(Literal::Bool(true)) } else { ExprKind::Composed(field) };
                if is_test { Type::Bool } else { type_ }
            }
            ExprKind::Composed(_) => unreachable!("an expression is checked once"),
            ExprKind::Select(select) => self.select(at, select)?,
            ExprKind::List(items, _) => {
                items.iter_mut().try_for_each(|item| self.check(item).map(drop))?;
                Type::List
            }
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.check(&mut entry.key)?;
                    self.check(&mut entry.value)?;
                }
                Type::Map
            }
            ExprKind::Call(call) => self.call(at, call)?,
            ExprKind::Message(message) => self.message(at, message)?,
            ExprKind::Comprehension(fold) => self.fold(fold)?,
            ExprKind::Bind { variable, value, expression } => {
                let type_ = self.check(value)?;
                self.within(&[(variable.as_str(), type_)], expression)?
            }
            ExprKind::OptionalMap { of, variable, expression, .. } => {
                self.check(of)?;
                self.within(&[(variable.as_str(), Type::Dyn)], expression)?;
                Type::Dyn
            }
            ExprKind::Pairs(pairs) => self.pairs(pairs)?,
        })
    }

    fn fold(&mut self, fold: &mut Comprehension) -> Result<Type<'s>, ExpressionError> {
        let range = self.check(&mut fold.range)?;
        let item = range.iterated().ok_or_else(|| no_range(fold.range.at, range))?;
        let accumulator = self.check(&mut fold.init)?;
        let both = [(ACCUMULATOR, accumulator), (fold.variable.as_str(), item)];
        self.within(&both, &mut fold.condition)?;
        self.within(&both, &mut fold.step)?;
        let result = self.within(&both[..1], &mut fold.result)?;
        // A filter of a list has the type of the list.
        let is_filter = matches!(fold.appended(), Some((Some(_), item)) if item.is_ident(&fold.variable));
        Ok(match (result, range) {
            (Type::List, Type::Schema(_)) if is_filter => range,
            (result, _) => result,
        })
    }

    /// Returns true for the name `variables`, unless a macro's variable hides it.
    fn is_composed(&self, node: &Expr) -> bool {
        node.is_ident(VARIABLES) && self.environment.is_composed() && self.find(VARIABLES).is_none()
    }

    /// Checks an object literal. The type names of nested literals must match their positions in it.
    fn message(&mut self, at: usize, message: &mut Message) -> Result<Type<'s>, ExpressionError> {
        let name = message.type_name.as_str();
        let type_ = match name {
            "Object" => Type::ObjectLiteral,
            "JSONPatch" => Type::JsonPatch,
            _ if name.starts_with("Object.") => Type::ObjectLiteralPart,
            _ => return Err(undeclared(at, name)),
        };
        if !self.environment.writes_objects {
            return Err(undeclared(at, name));
        }
        for entry in &mut message.fields {
            let field = unescape(&entry.name);
            if matches!(type_, Type::JsonPatch) && !["op", "path", "from", "value"].contains(&field.as_str())
            {
                return Err(fault(at, format!("undefined field '{field}'")));
            }
            self.check(&mut entry.value)?;
            let parts = match &entry.value.kind {
                ExprKind::List(items, _) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            for part in parts {
                let ExprKind::Message(Message { type_name, .. }) = &part.kind else { continue };
                let expected = format!("{name}.{}", entry.name);
                if !matches!(type_, Type::JsonPatch) && *type_name != expected {
                    let message = format!(
                        "expected type of field '{field}' is '{expected}' but provided type is '{type_name}'"
                    );
                    return Err(fault(at, message));
                }
            }
            entry.name = field;
        }
        Ok(type_)
    }

    /// Checks an expression with additional variables.
    fn within(&mut self, names: &[(&str, Type<'s>)], node: &mut Expr) -> Result<Type<'s>, ExpressionError> {
        let before = self.scope.len();
        self.scope.extend(names.iter().map(|(name, type_)| ((*name).to_string(), *type_)));
        let checked = self.check(node);
        self.scope.truncate(before);
        checked
    }

    fn pairs(&mut self, pairs: &mut PairsMacro) -> Result<Type<'s>, ExpressionError> {
        let range = self.check(&mut pairs.range)?;
        let (key, value) = range.entries().ok_or_else(|| no_range(pairs.range.at, range))?;
        let both = [(pairs.key.as_str(), key), (pairs.value.as_str(), value)];
        if let Some(filter) = &mut pairs.filter {
            self.within(&both, filter)?;
        }
        self.within(&both, &mut pairs.expression)?;
        Ok(match pairs.kind {
            PairKind::All | PairKind::Exists | PairKind::ExistsOne => Type::Bool,
            PairKind::List => Type::List,
            PairKind::Map | PairKind::MapEntry => Type::Map,
        })
    }

    /// Checks a constant format string and its arguments.
    fn format(
        &mut self,
        at: usize,
        format: &str,
        arguments: &mut [Expr],
    ) -> Result<Type<'s>, ExpressionError> {
        let types =
            arguments.iter_mut().map(|argument| self.check(argument)).collect::<Result<Vec<_>, _>>()?;
        format::check(format, &types).map_err(|(index, error)| {
            let argument = index.and_then(|index| arguments.get(index));
            fault(argument.map_or(at, |argument| argument.at), error)
        })?;
        Ok(Type::Text)
    }

    /// Returns the place of a variable in the scope, and its type.
    fn find(&self, name: &str) -> Option<(usize, Type<'s>)> {
        let place = self.scope.iter().rposition(|(known, _)| known == name)?;
        Some((place, self.scope[place].1))
    }

    fn select(&mut self, at: usize, select: &mut Select) -> Result<Type<'s>, ExpressionError> {
        let of = self.check(&mut select.operand)?;
        select.field = unescape(&select.field);
        let field = select.field.as_str();
        let found = match of {
            Type::Dyn | Type::Map => Type::Dyn,
            Type::Schema(schema) | Type::Object(schema) if schema.type_.as_deref() != Some("array") => {
                match (of.of_every_object(field), field_schema(Some(schema), field)) {
                    (Some(type_), _) => type_,
                    (None, Some(schema)) => Type::of_schema(schema),
                    (None, None) => return Err(fault(at, format!("undefined field '{field}'"))),
                }
            }
            other => {
                let message = format!("type '{}' does not support field selection", other.name());
                return Err(fault(at, message));
            }
        };
        Ok(if select.test { Type::Bool } else { found })
    }

    fn call(&mut self, at: usize, call: &mut Call) -> Result<Type<'s>, ExpressionError> {
        match (
            call.name.as_str(),
            call.target.as_deref().map(|target| &target.kind),
            call.args.as_mut_slice(),
        ) {
            (
                "format",
                Some(ExprKind::Literal(Literal::Text(format))),
                [Expr { kind: ExprKind::List(items, _), .. }],
            ) => return self.format(at, format, items),
            ("_?._", _, [_, Expr { kind: ExprKind::Literal(Literal::Text(field)), .. }]) => {
                *field = unescape(field);
            }
            (name, Some(ExprKind::Ident(namespace)), _)
                if NAMESPACES.contains(&namespace.as_str()) && self.find(namespace).is_none() =>
            {
                call.name = format!("{namespace}.{name}");
                call.target = None;
            }
            _ => {}
        }
        let mut types = Vec::new();
        for part in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
            types.push(self.check(part)?);
        }
        self.compile_pattern(at, call);
        let name = call.name.as_str();
        let no_overload = || {
            let (target, args) = match call.target {
                Some(_) => (format!("{}.", types[0].name()), &types[1..]),
                None => (String::new(), types.as_slice()),
            };
            let args: Vec<&str> = args.iter().map(|type_| type_.name()).collect();
            let message =
                format!("found no matching overload for '{name}' applied to '{target}({})'", args.join(", "));
            fault(at, message)
        };
        let overloads: Vec<_> = OVERLOADS.iter().filter(|(names, ..)| names.contains(&name)).collect();
        if !overloads.is_empty() {
            let matching = overloads.iter().filter(|(_, parameters, _)| accepts(parameters, &types));
            let mut results = matching.map(|(.., result)| *result);
            let result = results.next().ok_or_else(no_overload)?;
            return Ok(if results.all(|other| other.name() == result.name()) { result } else { Type::Dyn });
        }
        match (name, types.as_slice()) {
            ("_==_" | "_!=_", [a, b]) if !a.overlaps(*b) => Err(no_overload()),
            ("_?_:_", [when, yes, no]) if !(when.overlaps(Type::Bool) && yes.overlaps(*no)) => {
                Err(no_overload())
            }
            ("_?_:_", [_, yes, no]) => Ok(if yes.name() == no.name() { *yes } else { Type::Dyn }),
            ("_[_]", [of, index]) => {
                let indexed = of.entries().filter(|(key, _)| key.overlaps(*index));
                indexed.map(|(_, value)| value).ok_or_else(no_overload)
            }
            ("@in", [item, of]) if of.iterated().is_none_or(|each| !each.overlaps(*item)) => {
                Err(no_overload())
            }
            (name, [of, ..]) if OF_TEXTS.contains(&name) && !of.overlaps(Type::Text) => Err(no_overload()),
            ("format", [_, list]) if !list.overlaps(Type::List) => Err(no_overload()),
            (name, []) if name.strip_prefix("format.").is_some_and(|n| named_formats::find(n).is_some()) => {
                Ok(Type::Dyn)
            }
            _ => result_of(name).ok_or_else(|| undeclared(at, name)),
        }
    }

    /// Compiles the regular expression of a call, if it is constant.
    fn compile_pattern(&mut self, at: usize, call: &mut Call) {
        let (("matches" | "find" | "findAll", Some(_), [pattern, ..]) | ("matches", None, [_, pattern])) =
            (call.name.as_str(), &call.target, call.args.as_slice())
        else {
            return;
        };
        let ExprKind::Literal(Literal::Text(text)) = &pattern.kind else { return };
        match pattern::compile(text) {
            Ok(pattern) => call.pattern = Some(pattern),
            Err(reason) => {
                let message = format!("invalid matches argument: error parsing regexp: {reason}");
                self.invalid_pattern.get_or_insert(fault(at, message));
            }
        }
    }
}

fn no_range(at: usize, type_: Type<'_>) -> ExpressionError {
    let name = type_.name();
    let message = format!(
        "expression of type '{name}' cannot be range of a comprehension (must be list, map, or dynamic)"
    );
    fault(at, message)
}

fn undeclared(at: usize, name: &str) -> ExpressionError {
    fault(at, format!("undeclared reference to '{name}' (in container '')"))
}
