//! Expands macros: those of cel-go's standard library, and those of its extensions that Kubernetes enables.

use super::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, Literal, PairKind, PairsMacro, Select};
use crate::cel::names::{ExpressionError, fault};

/// The name of the list that `sortBy` sorts, which no source can write.
const SORT_INPUT: &str = "@__sortBy_input__";

/// Returns a call, expanded if it is a macro; `at` is its opening parenthesis.
pub(super) fn call(
    at: usize,
    name: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, ExpressionError> {
    let kind = match (name, target, args.len()) {
        ("has", None, 1) => presence_test(args)?,
        ("all" | "exists" | "exists_one" | "existsOne" | "filter", Some(range), 2)
        | ("map", Some(range), 2 | 3) => comprehension(at, name, range, args)?,
        ("bind", Some(target), 3) if target.is_ident("cel") => {
            let [variable, value, expression] = array(args);
            ExprKind::Bind {
                variable: simple_name(&variable)?,
                value: value.into(),
                expression: expression.into(),
            }
        }
        ("sortBy", Some(list), 2) => sort_by(at, list, args)?,
        ("optMap" | "optFlatMap", Some(of), 2) => {
            let [variable, expression] = array(args);
            let (variable, flat) = (simple_name(&variable)?, name == "optFlatMap");
            ExprKind::OptionalMap { of: of.into(), variable, expression: expression.into(), flat }
        }
        ("all", Some(range), 3) => pairs(PairKind::All, range, args)?,
        ("exists", Some(range), 3) => pairs(PairKind::Exists, range, args)?,
        ("exists_one" | "existsOne", Some(range), 3) => pairs(PairKind::ExistsOne, range, args)?,
        ("transformList", Some(range), 3 | 4) => pairs(PairKind::List, range, args)?,
        ("transformMap", Some(range), 3 | 4) => pairs(PairKind::Map, range, args)?,
        ("transformMapEntry", Some(range), 3 | 4) => pairs(PairKind::MapEntry, range, args)?,
        (_, target, _) => ExprKind::Call(Call::new(name, target, args)),
    };
    Ok(Expr::new(at, kind))
}

/// Returns the arguments of a call, whose number the caller has matched.
fn array<const N: usize>(args: Vec<Expr>) -> [Expr; N] {
    args.try_into().expect("the number of arguments is matched")
}

fn simple_name(node: &Expr) -> Result<String, ExpressionError> {
    match &node.kind {
        ExprKind::Ident(name) => Ok(name.clone()),
        _ => Err(fault(node.at, "argument must be a simple name")),
    }
}

/// `has(operand.field)`.
fn presence_test(args: Vec<Expr>) -> Result<ExprKind, ExpressionError> {
    let [argument] = array(args);
    match argument.kind {
        ExprKind::Select(select) => Ok(ExprKind::Select(Select { test: true, ..select })),
        _ => Err(fault(argument.at, "invalid argument to has() macro")),
    }
}

/// `cel.bind(input, list, input.@sortByAssociatedKeys(input.map(item, key)))`.
fn sort_by(at: usize, list: Expr, args: Vec<Expr>) -> Result<ExprKind, ExpressionError> {
    if matches!(list.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Message(_)) {
        let message =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(fault(list.at, message));
    }
    let input = || Expr::new(at, ExprKind::Ident(SORT_INPUT.into()));
    let keys = Expr::new(at, comprehension(at, "map", input(), args)?);
    let sorted = Call::new("@sortByAssociatedKeys", Some(input()), vec![keys]);
    Ok(ExprKind::Bind {
        variable: SORT_INPUT.into(),
        value: list.into(),
        expression: Expr::new(at, ExprKind::Call(sorted)).into(),
    })
}

/// A macro with one variable.
fn comprehension(
    at: usize,
    name: &str,
    range: Expr,
    mut args: Vec<Expr>,
) -> Result<ExprKind, ExpressionError> {
    let filter = (args.len() == 3).then(|| args.remove(1));
    let [item, expression] = array(args);
    let variable = simple_name(&item)?;

    let literal = |value| Expr::new(at, ExprKind::Literal(value));
    let accumulator = || Expr::new(at, ExprKind::Ident(ACCUMULATOR.into()));
    let list = |items| Expr::new(at, ExprKind::List(items, Vec::new()));
    let call = |name, args| Expr::call(at, name, args);
    let append = |item| call("_+_", vec![accumulator(), list(vec![item])]);
    let append_if = |when, item| call("_?_:_", vec![when, append(item), accumulator()]);
    let always = literal(Literal::Bool(true));

    let (init, condition, step, result) = match (name, filter) {
        ("all", _) => {
            let condition = call("@not_strictly_false", vec![accumulator()]);
            let step = call("_&&_", vec![accumulator(), expression]);
            (literal(Literal::Bool(true)), condition, step, accumulator())
        }
        ("exists", _) => {
            let condition = call("@not_strictly_false", vec![call("!_", vec![accumulator()])]);
            let step = call("_||_", vec![accumulator(), expression]);
            (literal(Literal::Bool(false)), condition, step, accumulator())
        }
        ("filter", _) => (list(vec![]), always, append_if(expression, item), accumulator()),
        ("map", None) => (list(vec![]), always, append(expression), accumulator()),
        ("map", Some(filter)) => (list(vec![]), always, append_if(filter, expression), accumulator()),
        // `exists_one`
        _ => {
            let one = || literal(Literal::Int(1));
            let more = call("_+_", vec![accumulator(), one()]);
            let step = call("_?_:_", vec![expression, more, accumulator()]);
            (literal(Literal::Int(0)), always, step, call("_==_", vec![accumulator(), one()]))
        }
    };
    Ok(ExprKind::Comprehension(Box::new(Comprehension { range, variable, init, condition, step, result })))
}

/// A macro with a variable for the key or index and one for the value.
fn pairs(kind: PairKind, range: Expr, mut args: Vec<Expr>) -> Result<ExprKind, ExpressionError> {
    let filter = (args.len() == 4).then(|| args.remove(2));
    let [key, value, expression] = array(args);
    let (key, value) = (simple_name(&key)?, simple_name(&value)?);
    Ok(ExprKind::Pairs(Box::new(PairsMacro { kind, range, key, value, filter, expression })))
}
