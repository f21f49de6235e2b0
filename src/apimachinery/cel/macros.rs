//! Macros that the parser leaves as calls, because they are Kubernetes' extensions: `cel.bind`, those of
//! optionals, and those over the pairs of a list or map.

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::node::{ExpressionError, PairKind, fault};

/// A macro with its parts.
pub(super) enum Macro<'e> {
    /// `cel.bind(variable, value, expression)`.
    Bind { variable: &'e str, value: &'e IdedExpr, expression: &'e IdedExpr },
    /// `of.optMap(variable, expression)`; `flat` if the expression is itself optional.
    OptionalMap { of: &'e IdedExpr, variable: &'e str, expression: &'e IdedExpr, flat: bool },
    /// `range.all(key, value, expression)` and similar, some with a filter before the expression.
    Pairs {
        kind: PairKind,
        range: &'e IdedExpr,
        key: &'e str,
        value: &'e str,
        filter: Option<&'e IdedExpr>,
        expression: &'e IdedExpr,
    },
}

impl<'e> Macro<'e> {
    /// Returns the macro that a call is, or the error in it; `None` for other calls.
    pub(super) fn of(call: &'e CallExpr) -> Option<Result<Self, ExpressionError>> {
        let target = call.target.as_deref()?;
        let kind = match (call.func_name.as_str(), call.args.as_slice()) {
            ("bind", [variable, value, expression]) if matches!(&target.expr, Expr::Ident(name) if name == "cel") =>
            {
                return Some(name(variable).map(|variable| Self::Bind { variable, value, expression }));
            }
            (called @ ("optMap" | "optFlatMap"), [variable, expression]) => {
                let flat = called == "optFlatMap";
                return Some(name(variable).map(|variable| Self::OptionalMap {
                    of: target,
                    variable,
                    expression,
                    flat,
                }));
            }
            ("all", [_, _, _]) => PairKind::All,
            ("exists", [_, _, _]) => PairKind::Exists,
            ("existsOne" | "exists_one", [_, _, _]) => PairKind::ExistsOne,
            ("transformList", [_, _, _] | [_, _, _, _]) => PairKind::List,
            ("transformMap", [_, _, _] | [_, _, _, _]) => PairKind::Map,
            ("transformMapEntry", [_, _, _] | [_, _, _, _]) => PairKind::MapEntry,
            _ => return None,
        };
        Some(Self::pairs(kind, target, &call.args))
    }

    fn pairs(kind: PairKind, range: &'e IdedExpr, args: &'e [IdedExpr]) -> Result<Self, ExpressionError> {
        let (key, value, filter, expression) = match args {
            [key, value, expression] => (key, value, None, expression),
            [key, value, filter, expression] => (key, value, Some(filter), expression),
            _ => return Err(fault(range.id, "syntax error")),
        };
        let (key, value) = (name(key)?, name(value)?);
        Ok(Self::Pairs { kind, range, key, value, filter, expression })
    }
}

fn name(node: &IdedExpr) -> Result<&str, ExpressionError> {
    match &node.expr {
        Expr::Ident(name) => Ok(name),
        _ => Err(fault(node.id, "argument must be a simple name")),
    }
}
