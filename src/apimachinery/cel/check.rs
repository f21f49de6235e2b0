//! Type checks of an expression before it runs: unknown names, fields and functions, and operators without an
//! overload for the types. Unknown types pass, and are checked at run time.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, StructExpr};

use super::format;
use super::macros::Macro;
use super::named_formats;
use super::node::{ExpressionError, NAMESPACES, PairKind, VARIABLES, fault, type_named, unescape};
use super::types::{Environment, Type};
use super::values::{field_schema, item_schema};

/// Functions whose result type does not depend on their arguments: the type's name, the type, and the
/// functions.
const FUNCTIONS: [(&str, Type<'static>, &[&str]); 6] = [
    (
        "bool",
        Type::Bool,
        &[
            "matches",
            "startsWith",
            "endsWith",
            "contains",
            "isSorted",
            "hasValue",
            "allowed",
            "errored",
            "isQuantity",
            "isInteger",
            "isGreaterThan",
            "isLessThan",
            "isIP",
            "isCIDR",
            "isURL",
            "isSemver",
            "isUnspecified",
            "isLoopback",
            "isLinkLocalMulticast",
            "isLinkLocalUnicast",
            "isGlobalUnicast",
            "containsIP",
            "containsCIDR",
            "ip.isCanonical",
            "sets.contains",
            "sets.equivalent",
            "sets.intersects",
            "bool",
            "_==_",
            "_!=_",
            "_<_",
            "_<=_",
            "_>_",
            "_>=_",
            "@in",
            "!_",
            "_&&_",
            "_||_",
            "@not_strictly_false",
        ],
    ),
    (
        "int",
        Type::Int,
        &[
            "size",
            "int",
            "compareTo",
            "sign",
            "asInteger",
            "lastIndexOf",
            "indexOf",
            "family",
            "prefixLength",
            "major",
            "minor",
            "patch",
            "getFullYear",
            "getMonth",
            "getDate",
            "getDayOfMonth",
            "getDayOfYear",
            "getDayOfWeek",
            "getHours",
            "getMinutes",
            "getSeconds",
            "getMilliseconds",
        ],
    ),
    (
        "string",
        Type::Text,
        &[
            "string",
            "reason",
            "error",
            "jsonpatch.escapeKey",
            "lowerAscii",
            "upperAscii",
            "trim",
            "charAt",
            "substring",
            "replace",
            "join",
            "format",
            "strings.quote",
            "find",
            "getScheme",
            "getHost",
            "getHostname",
            "getPort",
            "getEscapedPath",
        ],
    ),
    ("list", Type::List, &["split", "findAll", "slice", "distinct", "sort", "flatten"]),
    ("double", Type::Double, &["double", "asApproximateFloat"]),
    (
        "dyn",
        Type::Dyn,
        &[
            "dyn",
            "path",
            "group",
            "serviceAccount",
            "resource",
            "subresource",
            "namespace",
            "name",
            "fieldSelector",
            "labelSelector",
            "check",
            "type",
            "uint",
            "bytes",
            "timestamp",
            "duration",
            "sum",
            "min",
            "max",
            "first",
            "last",
            "reverse",
            "quantity",
            "add",
            "sub",
            "ip",
            "cidr",
            "masked",
            "url",
            "getQuery",
            "semver",
            "optional.of",
            "optional.none",
            "optional.ofNonZeroValue",
            "value",
            "orValue",
            "or",
            "optMap",
            "optFlatMap",
            "math.greatest",
            "math.least",
            "format.named",
            "validate",
            "_[_]",
            "_[?_]",
            "_?._",
            "_?_:_",
            "-_",
            "_+_",
            "_-_",
            "_*_",
            "_/_",
            "_%_",
        ],
    ),
];

/// Returns the result type of a function, if it does not depend on the arguments.
pub(super) fn result_of(name: &str) -> Option<Type<'static>> {
    FUNCTIONS.iter().find(|(_, _, names)| names.contains(&name)).map(|(_, type_, _)| *type_)
}

/// Functions that apply to strings only.
const OF_TEXTS: [&str; 12] = [
    "matches",
    "startsWith",
    "endsWith",
    "contains",
    "lowerAscii",
    "upperAscii",
    "substring",
    "split",
    "format",
    "strings.quote",
    "semver",
    "isSemver",
];

/// Returns the type of an expression, which must be one of `expected`, or the first error.
pub(super) fn check(
    node: &IdedExpr,
    environment: &Environment<'_>,
    result: &[Type<'_>],
) -> Result<Type<'static>, ExpressionError> {
    let scope = environment.variables.iter().map(|(name, type_)| ((*name).to_string(), *type_)).collect();
    let found = Checker { scope, environment }.check(node)?;
    if result.iter().any(|expected| expected.overlaps(found)) {
        Ok(found.without_schema())
    } else {
        let expected = result.first().map_or("dyn", |expected| expected.name());
        Err(fault(node.id, format!("cel expression must evaluate to a {expected}")))
    }
}

struct Checker<'s, 'e> {
    scope: Vec<(String, Type<'s>)>,
    environment: &'e Environment<'s>,
}

impl<'s> Checker<'s, '_> {
    fn check(&mut self, node: &IdedExpr) -> Result<Type<'s>, ExpressionError> {
        Ok(match &node.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::UInt(_) => Type::Uint,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Null => Type::Null,
            },
            Expr::Ident(name) => {
                let name = name.trim_start_matches('.');
                match self.find(name) {
                    Some(type_) => type_.resolved(),
                    None if type_named(name).is_some() => Type::Dyn,
                    None => return Err(undeclared(node.id, name)),
                }
            }
            Expr::Select(select) if self.is_composed(&select.operand) => {
                match self.environment.composed_type(&select.field) {
                    Some(_) if select.test => Type::Bool,
                    Some(type_) => type_,
                    None => return Err(fault(node.id, format!("undefined field '{}'", select.field))),
                }
            }
            Expr::Select(select) => self.select(node.id, select)?,
            Expr::List(list) => {
                list.elements.iter().try_for_each(|item| self.check(item).map(drop))?;
                Type::List
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.check(&entry.key)?;
                        self.check(&entry.value)?;
                    }
                }
                Type::Map
            }
            Expr::Call(call) => self.call(node.id, call)?,
            Expr::Comprehension(fold) => {
                let range = self.check(&fold.iter_range)?;
                let item = match range {
                    Type::Schema(schema) if schema.type_.as_deref() == Some("array") => {
                        item_schema(Some(schema)).map_or(Type::Dyn, Type::of_schema)
                    }
                    Type::Schema(_) | Type::Object(_) => Type::Text,
                    Type::List | Type::Map | Type::Dyn => Type::Dyn,
                    other => return Err(no_range(fold.iter_range.id, other)),
                };
                let accumulator = self.check(&fold.accu_init)?;
                self.scope.push((fold.accu_var.clone(), accumulator));
                self.scope.push((fold.iter_var.clone(), item));
                self.check(&fold.loop_cond)?;
                self.check(&fold.loop_step)?;
                self.scope.pop();
                let result = self.check(&fold.result);
                self.scope.pop();
                // A filter keeps the type of its items.
                match (result?, range) {
                    (Type::List, Type::Schema(_)) if is_filter(&fold.loop_step, &fold.iter_var) => range,
                    (result, _) => result,
                }
            }
            Expr::Struct(made) => self.object_literal(node.id, made)?,
            Expr::Unspecified => Type::Dyn,
        })
    }

    /// Returns true for the name `variables`, unless a macro's variable hides it.
    fn is_composed(&self, node: &IdedExpr) -> bool {
        let is_named = matches!(&node.expr, Expr::Ident(name) if name == VARIABLES);
        is_named && self.environment.is_composed() && self.find(VARIABLES).is_none()
    }

    /// Checks an object literal. The type names of nested literals must match their positions in it.
    fn object_literal(&mut self, at: u64, made: &StructExpr) -> Result<Type<'s>, ExpressionError> {
        let name = made.type_name.as_str();
        let type_ = match name {
            "Object" => Type::ObjectLiteral,
            "JSONPatch" => Type::JsonPatch,
            _ if name.starts_with("Object.") => Type::ObjectLiteralPart,
            _ => return Err(undeclared(at, name)),
        };
        if !self.environment.writes_objects {
            return Err(undeclared(at, name));
        }
        for entry in &made.entries {
            let EntryExpr::StructField(entry) = &entry.expr else { continue };
            let field = unescape(&entry.field);
            if matches!(type_, Type::JsonPatch) && !["op", "path", "from", "value"].contains(&field.as_str())
            {
                return Err(fault(at, format!("undefined field '{field}'")));
            }
            self.check(&entry.value)?;
            let parts = match &entry.value.expr {
                Expr::List(list) => list.elements.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            for part in parts {
                let Expr::Struct(part) = &part.expr else { continue };
                if !matches!(type_, Type::JsonPatch) && part.type_name != format!("{name}.{}", entry.field) {
                    let expected = format!("{name}.{}", entry.field);
                    let message = format!(
                        "expected type of field '{field}' is '{expected}' but provided type is '{}'",
                        part.type_name
                    );
                    return Err(fault(at, message));
                }
            }
        }
        Ok(type_)
    }

    /// Checks an expression with additional variables.
    fn within(&mut self, names: &[(&str, Type<'s>)], node: &IdedExpr) -> Result<Type<'s>, ExpressionError> {
        let before = self.scope.len();
        self.scope.extend(names.iter().map(|(name, type_)| ((*name).to_string(), *type_)));
        let checked = self.check(node);
        self.scope.truncate(before);
        checked
    }

    fn expanded(&mut self, found: &Macro<'_>) -> Result<Type<'s>, ExpressionError> {
        match found {
            Macro::Bind { variable, value, expression } => {
                let type_ = self.check(value)?;
                self.within(&[(variable, type_)], expression)
            }
            Macro::OptionalMap { of, variable, expression, .. } => {
                self.check(of)?;
                self.within(&[(variable, Type::Dyn)], expression).map(|_| Type::Dyn)
            }
            Macro::Pairs { kind: sort, range, key, value, filter, expression } => {
                let (key_type, value_type) = match self.check(range)? {
                    Type::Schema(schema) if schema.type_.as_deref() == Some("array") => {
                        (Type::Int, item_schema(Some(schema)).map_or(Type::Dyn, Type::of_schema))
                    }
                    Type::Schema(_) | Type::Object(_) => (Type::Text, Type::Dyn),
                    Type::List => (Type::Int, Type::Dyn),
                    Type::Map | Type::Dyn => (Type::Dyn, Type::Dyn),
                    other => return Err(no_range(range.id, other)),
                };
                let both = [(*key, key_type), (*value, value_type)];
                if let Some(filter) = filter {
                    self.within(&both, filter)?;
                }
                self.within(&both, expression)?;
                Ok(match sort {
                    PairKind::All | PairKind::Exists | PairKind::ExistsOne => Type::Bool,
                    PairKind::List => Type::List,
                    PairKind::Map | PairKind::MapEntry => Type::Map,
                })
            }
        }
    }

    /// Checks a constant format string and its arguments.
    fn format(&mut self, at: u64, format: &str, arguments: &[IdedExpr]) -> Result<Type<'s>, ExpressionError> {
        let types = arguments.iter().map(|argument| self.check(argument)).collect::<Result<Vec<_>, _>>()?;
        format::check(format, &types).map_err(|(index, error)| {
            let argument = index.and_then(|index| arguments.get(index));
            fault(argument.map_or(at, |argument| argument.id), error)
        })?;
        Ok(Type::Text)
    }

    fn find(&self, name: &str) -> Option<Type<'s>> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, type_)| *type_)
    }

    fn select(&mut self, at: u64, select: &SelectExpr) -> Result<Type<'s>, ExpressionError> {
        let of = self.check(&select.operand)?;
        let field = unescape(&select.field);
        let found = match of {
            Type::Dyn | Type::Map => Type::Dyn,
            Type::Schema(schema) | Type::Object(schema) if schema.type_.as_deref() != Some("array") => {
                match (of.of_every_object(&field), field_schema(Some(schema), &field)) {
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

    fn call(&mut self, at: u64, call: &CallExpr) -> Result<Type<'s>, ExpressionError> {
        if let Some(found) = Macro::of(call) {
            return self.expanded(&found?);
        }
        if let Some((format, arguments)) = constant_format(call) {
            return self.format(at, format, arguments);
        }
        let mut name = call.func_name.as_str();
        let namespaced;
        let mut types = Vec::new();
        match call.target.as_deref() {
            Some(IdedExpr { expr: Expr::Ident(namespace), .. })
                if NAMESPACES.contains(&namespace.as_str()) && self.find(namespace).is_none() =>
            {
                namespaced = format!("{namespace}.{name}");
                name = &namespaced;
            }
            Some(target) => types.push(self.check(target)?),
            None => {}
        }
        for arg in &call.args {
            types.push(self.check(arg)?);
        }
        let no_overload = || {
            let (target, args) = match call.target {
                Some(_) if !types.is_empty() && !name.contains('.') => {
                    (format!("{}.", types[0].name()), &types[1..])
                }
                _ => (String::new(), types.as_slice()),
            };
            let args: Vec<&str> = args.iter().map(|type_| type_.name()).collect();
            let message =
                format!("found no matching overload for '{name}' applied to '{target}({})'", args.join(", "));
            fault(at, message)
        };
        match (name, types.as_slice()) {
            ("_&&_" | "_||_" | "!_", all) if !all.iter().all(|type_| type_.overlaps(Type::Bool)) => {
                Err(no_overload())
            }
            ("_==_" | "_!=_", [a, b]) if !a.overlaps(*b) => Err(no_overload()),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b])
                if !(a.overlaps(*b) || (a.is_number() && b.is_number())) =>
            {
                Err(no_overload())
            }
            ("_?_:_", [when, ..]) if !when.overlaps(Type::Bool) => Err(no_overload()),
            ("_?_:_", [_, yes, no]) => Ok(if yes.name() == no.name() { *yes } else { Type::Dyn }),
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) if a.is_number() && b.is_number() => {
                if a.name() == b.name() { Ok(*a) } else { Err(no_overload()) }
            }
            ("_+_", [Type::Text, Type::Text]) => Ok(Type::Text),
            ("_[_]", [Type::Schema(schema), _]) if schema.type_.as_deref() == Some("array") => {
                Ok(item_schema(Some(schema)).map_or(Type::Dyn, Type::of_schema))
            }
            ("_[_]", [Type::Schema(schema), _]) => {
                Ok(field_schema(Some(schema), "").map_or(Type::Dyn, Type::of_schema))
            }
            (name, [of, ..]) if OF_TEXTS.contains(&name) && !of.overlaps(Type::Text) => Err(no_overload()),
            ("format", [_, list]) if !list.overlaps(Type::List) => Err(no_overload()),
            ("size", [of]) if of.is_number() || matches!(of, Type::Bool) => Err(no_overload()),
            (name, []) if name.strip_prefix("format.").is_some_and(|n| named_formats::find(n).is_some()) => {
                Ok(Type::Dyn)
            }
            _ => result_of(name).ok_or_else(|| undeclared(at, name)),
        }
    }
}

/// Returns the format string and the arguments of `'…'.format([…])`, if both are written out.
fn constant_format(call: &CallExpr) -> Option<(&str, &[IdedExpr])> {
    match (call.func_name.as_str(), call.target.as_deref().map(|target| &target.expr), call.args.as_slice()) {
        (
            "format",
            Some(Expr::Literal(LiteralValue::String(format))),
            [IdedExpr { expr: Expr::List(list), .. }],
        ) => Some((format.inner(), &list.elements)),
        _ => None,
    }
}

fn no_range(at: u64, type_: Type<'_>) -> ExpressionError {
    let name = type_.name();
    let message = format!(
        "expression of type '{name}' cannot be range of a comprehension (must be list, map, or dynamic)"
    );
    fault(at, message)
}

fn undeclared(at: u64, name: &str) -> ExpressionError {
    fault(at, format!("undeclared reference to '{name}' (in container '')"))
}

/// Returns true if a step appends its item unchanged.
fn is_filter(step: &IdedExpr, variable: &str) -> bool {
    let Expr::Call(choose) = &step.expr else { return false };
    let Some(IdedExpr { expr: Expr::Call(add), .. }) = choose.args.get(1) else { return false };
    let Some(IdedExpr { expr: Expr::List(list), .. }) = add.args.get(1) else { return false };
    choose.func_name == "_?_:_"
        && matches!(list.elements.as_slice(), [IdedExpr { expr: Expr::Ident(name), .. }] if name == variable)
}
