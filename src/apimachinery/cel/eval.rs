//! Evaluates expressions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::names::type_named;
use super::operators;
use super::syntax::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, Literal, PairKind, PairsMacro};
use super::values::{Outcome, Text, Val};
use super::{Budget, Error, functions, other};

/// Named expressions that other expressions read. Each is evaluated at its first read, and all have the same
/// variables.
#[derive(Debug)]
pub struct CompositionContext<'a> {
    /// The variables of all the expressions.
    pub(super) variables: Vec<(&'a str, Val<'a>)>,
    nodes: Vec<(&'a str, &'a Expr)>,
    outcomes: RefCell<BTreeMap<&'a str, Outcome<'a>>>,
}

impl<'a> CompositionContext<'a> {
    /// Expressions with their names; each may read those before it.
    pub(super) fn new(variables: Vec<(&'a str, Val<'a>)>, nodes: Vec<(&'a str, &'a Expr)>) -> Self {
        Self { variables, nodes, outcomes: RefCell::default() }
    }

    fn value(&self, name: &str, budget: &mut Budget) -> Outcome<'a> {
        if let Some(judged) = self.outcomes.borrow().get(name) {
            return judged.clone();
        }
        let Some((name, node)) = self.nodes.iter().find(|(known, _)| *known == name) else {
            return Err(other(format!("no such key: {name}")));
        };
        let outcome = Evaluation::new(&self.variables, Some(self), budget).eval(node);
        self.outcomes.borrow_mut().insert(name, outcome.clone());
        outcome
    }
}

/// One evaluation.
pub(super) struct Evaluation<'a, 'b> {
    /// The variables in scope, the innermost last. An accumulator may be an error that is never read.
    variables: Vec<(&'a str, Outcome<'a>)>,
    composed: Option<&'b CompositionContext<'a>>,
    budget: &'b mut Budget,
}

impl<'a, 'b> Evaluation<'a, 'b> {
    pub(super) fn new(
        variables: &[(&'a str, Val<'a>)],
        composed: Option<&'b CompositionContext<'a>>,
        budget: &'b mut Budget,
    ) -> Self {
        let variables = variables.iter().map(|(name, value)| (*name, Ok(value.clone()))).collect();
        Self { variables, composed, budget }
    }

    fn take(&mut self, steps: u64) -> Result<(), Error> {
        self.budget.take(steps)
    }

    pub(super) fn eval(&mut self, node: &'a Expr) -> Outcome<'a> {
        self.take(1)?;
        match &node.kind {
            ExprKind::Literal(literal) => Ok(Val::of_literal(literal)),
            ExprKind::Ident(name) => self.variable(name),
            ExprKind::Select(select) => self.select(&select.operand, &select.field, select.test, false),
            ExprKind::Call(call) => self.call(call),
            ExprKind::List(items, optional) => {
                let mut list = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    match self.eval(item)? {
                        Val::Optional(value) if optional.binary_search(&i).is_ok() => {
                            list.extend(value.map(|value| (*value).clone()));
                        }
                        value => list.push(value),
                    }
                }
                Ok(Val::list(list))
            }
            ExprKind::Map(entries) => {
                let mut map = Vec::with_capacity(entries.len());
                for entry in entries {
                    let key = self.eval(&entry.key)?;
                    self.add_entry(&mut map, key, &entry.value, entry.optional)?;
                }
                Ok(Val::Map(Rc::new(map)))
            }
            // The checker has verified that such a type may be written as a literal.
            ExprKind::Message(message) => {
                let mut map = Vec::with_capacity(message.fields.len());
                for field in &message.fields {
                    let name = Val::Text(Text::Lent(&field.name));
                    self.add_entry(&mut map, name, &field.value, field.optional)?;
                }
                Ok(Val::Map(Rc::new(map)))
            }
            ExprKind::Comprehension(fold) => self.fold(fold),
            ExprKind::OptionalMap { of, variable, expression, flat } => match self.eval(of)? {
                Val::Optional(None) => Ok(Val::Optional(None)),
                Val::Optional(Some(value)) => {
                    let made = self.within(variable, (*value).clone(), expression)?;
                    Ok(if *flat { made } else { Val::some(made) })
                }
                _ => Err(Error::Overload("optMap".into())),
            },
            ExprKind::Pairs(pairs) => self.pairs(pairs),
            ExprKind::Bind { variable, value, expression } => {
                let value = self.eval(value)?;
                self.within(variable, value, expression)
            }
            ExprKind::Composed(name) => match self.composed {
                Some(composed) => composed.value(name, self.budget),
                None => Err(other(format!("no such key: {name}"))),
            },
        }
    }

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        match (call.name.as_str(), call.args.as_slice()) {
            ("_&&_", [a, b]) => self.logical(a, b, false),
            ("_||_", [a, b]) => self.logical(a, b, true),
            ("_?_:_", [when, yes, no]) => match self.eval(when)? {
                Val::Bool(true) => self.eval(yes),
                Val::Bool(false) => self.eval(no),
                _ => Err(Error::Overload("_?_:_".into())),
            },
            ("_?._", [of, Expr { kind: ExprKind::Literal(Literal::Text(field)), .. }]) => {
                self.select(of, field, false, true)
            }
            ("@not_strictly_false", [of]) => match self.eval(of) {
                Err(Error::Budget) => Err(Error::Budget),
                Ok(Val::Bool(false)) => Ok(Val::Bool(false)),
                _ => Ok(Val::Bool(true)),
            },
            (name, args) => {
                let parts = call.target.as_deref().into_iter().chain(args);
                let values = parts.map(|part| self.eval(part)).collect::<Result<Vec<_>, _>>()?;
                if let Some(value) = operators::apply(name, &values, self.budget)? {
                    return Ok(value);
                }
                functions::call(name, call.target.is_some(), &values, call.pattern.as_ref(), self.budget)
            }
        }
    }

    fn select(&mut self, of: &'a Expr, field: &str, test: bool, optional: bool) -> Outcome<'a> {
        let of = self.eval(of)?;
        self.take(of.search_cost())?;
        select(&of, field, test, optional, self.budget)
    }

    /// Evaluates the value of an entry and adds it to a map.
    fn add_entry(
        &mut self,
        map: &mut Vec<(Val<'a>, Val<'a>)>,
        key: Val<'a>,
        value: &'a Expr,
        optional: bool,
    ) -> Result<(), Error> {
        let value = match self.eval(value)? {
            Val::Optional(None) if optional => return Ok(()),
            Val::Optional(Some(value)) if optional => (*value).clone(),
            value => value,
        };
        if !matches!(key, Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Text(_)) {
            return Err(other(format!("unsupported key type: {}", key.type_name())));
        }
        self.take(map.len() as u64 / 10)?;
        if map.iter().any(|(known, _)| known.equals_plainly(&key)) {
            return Err(other("Failed with repeated key"));
        }
        map.push((key, value));
        Ok(())
    }

    /// Evaluates an expression with an additional variable.
    fn within(&mut self, variable: &'a str, value: Val<'a>, expression: &'a Expr) -> Outcome<'a> {
        self.variables.push((variable, Ok(value)));
        let made = self.eval(expression);
        self.variables.pop();
        made
    }

    fn pairs(&mut self, pairs: &'a PairsMacro) -> Outcome<'a> {
        let range = self.eval(&pairs.range)?;
        let found = range.pairs().ok_or_else(|| {
            Error::Overload("comprehension over a value that is neither a list nor a map".into())
        })?;
        self.take(found.len() as u64)?;
        let (mut list, mut map, mut holding) = (Vec::new(), Vec::new(), 0_usize);
        // As in `all` with one variable, an error does not matter if another pair decides the result.
        let mut failed = None;
        for (key, value) in found {
            self.variables.push((&pairs.key, Ok(key.clone())));
            self.variables.push((&pairs.value, Ok(value)));
            let filtered = pairs.filter.as_ref().map_or(Ok(Val::Bool(true)), |filter| self.eval(filter));
            let made = match filtered {
                Ok(Val::Bool(false)) => Ok(None),
                Ok(Val::Bool(true)) => self.eval(&pairs.expression).map(Some),
                Ok(_) => Err(Error::Overload("_?_:_".into())),
                Err(error) => Err(error),
            };
            self.variables.truncate(self.variables.len() - 2);
            match (pairs.kind, made) {
                (_, Err(Error::Budget)) => return Err(Error::Budget),
                (PairKind::All, Ok(Some(Val::Bool(false)))) => return Ok(Val::Bool(false)),
                (PairKind::Exists, Ok(Some(Val::Bool(true)))) => return Ok(Val::Bool(true)),
                (PairKind::ExistsOne, Ok(Some(Val::Bool(holds)))) => holding += usize::from(holds),
                (_, Ok(None)) | (PairKind::All | PairKind::Exists, Ok(Some(Val::Bool(_)))) => {}
                (PairKind::All | PairKind::Exists, Err(error)) => failed = Some(error),
                (_, Err(error)) => return Err(error),
                (PairKind::List, Ok(Some(value))) => list.push(value),
                (PairKind::Map, Ok(Some(value))) => map.push((key, value)),
                (PairKind::MapEntry, Ok(Some(made))) => self.add_entries(&mut map, &made)?,
                (PairKind::All | PairKind::Exists | PairKind::ExistsOne, Ok(Some(_))) => {
                    return Err(Error::Overload("_&&_".into()));
                }
            }
        }
        match (pairs.kind, failed) {
            (_, Some(error)) => Err(error),
            (PairKind::All, None) => Ok(Val::Bool(true)),
            (PairKind::Exists, None) => Ok(Val::Bool(false)),
            (PairKind::ExistsOne, None) => Ok(Val::Bool(holding == 1)),
            (PairKind::List, None) => Ok(Val::list(list)),
            (PairKind::Map | PairKind::MapEntry, None) => Ok(Val::Map(Rc::new(map))),
        }
    }

    fn add_entries(&mut self, map: &mut Vec<(Val<'a>, Val<'a>)>, made: &Val<'a>) -> Result<(), Error> {
        let entries = made.pairs().filter(|_| made.type_name() == "map");
        for (key, value) in entries.ok_or_else(|| Error::Overload("cel.@mapInsert".into()))? {
            self.take(1 + map.len() as u64 / 10)?;
            if map.iter().any(|(known, _)| known.equals_plainly(&key)) {
                return Err(other(format!("insert failed: key {} already exists", key.to_display_string())));
            }
            map.push((key, value));
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Outcome<'a> {
        match self.variables.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => value.clone(),
            None => {
                Ok(Val::Type(type_named(name).ok_or_else(|| other(format!("no such attribute(s): {name}")))?))
            }
        }
    }

    /// Evaluates `&&` or `||`. The value `decides` determines the result regardless of the other operand,
    /// even if that is an error.
    fn logical(&mut self, a: &'a Expr, b: &'a Expr, decides: bool) -> Outcome<'a> {
        let first = self.eval(a);
        match &first {
            Ok(Val::Bool(value)) if *value == decides => return first,
            Err(Error::Budget) => return first,
            _ => {}
        }
        let second = self.eval(b);
        match (first, second) {
            (_, Err(Error::Budget)) => Err(Error::Budget),
            (_, Ok(Val::Bool(value))) if value == decides => Ok(Val::Bool(decides)),
            (Ok(Val::Bool(_)), Ok(Val::Bool(value))) => Ok(Val::Bool(value)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Err(Error::Overload(if decides { "_||_" } else { "_&&_" }.into())),
        }
    }

    fn fold(&mut self, fold: &'a Comprehension) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let items = range.iterated().ok_or_else(|| {
            Error::Overload("comprehension over a value that is neither a list nor a map".into())
        })?;
        self.take(items.len() as u64 + items.iter().map(Val::decoding_cost).sum::<u64>())?;
        let accumulated = if let Some((when, item)) = fold.appended() {
            self.append(&fold.variable, items, when, item)
        } else {
            let init = self.eval(&fold.init);
            self.variables.push((ACCUMULATOR, init));
            let ended = self.steps(fold, items);
            let accumulated = self.variables.pop().map_or(Ok(Val::Null), |(_, value)| value);
            ended?;
            accumulated
        };
        if let Err(Error::Budget) = accumulated {
            return accumulated;
        }
        self.variables.push((ACCUMULATOR, accumulated));
        let result = self.eval(&fold.result);
        self.variables.pop();
        result
    }

    fn steps(&mut self, fold: &'a Comprehension, items: Vec<Val<'a>>) -> Result<(), Error> {
        for item in items {
            match self.eval(&fold.condition) {
                Ok(Val::Bool(false)) => break,
                Err(Error::Budget) => return Err(Error::Budget),
                _ => {}
            }
            self.variables.push((&fold.variable, Ok(item)));
            let next = self.eval(&fold.step);
            self.variables.pop();
            if let Err(Error::Budget) = next {
                return Err(Error::Budget);
            }
            if let Some((_, accumulator)) = self.variables.last_mut() {
                *accumulator = next;
            }
        }
        Ok(())
    }

    fn append(
        &mut self,
        variable: &'a str,
        items: Vec<Val<'a>>,
        when: Option<&'a Expr>,
        item: &'a Expr,
    ) -> Outcome<'a> {
        let mut list = Vec::new();
        for value in items {
            self.variables.push((variable, Ok(value)));
            let holds = when.map_or(Ok(Val::Bool(true)), |when| self.eval(when));
            let next = match holds {
                Ok(Val::Bool(true)) => self.eval(item).map(Some),
                Ok(Val::Bool(false)) => Ok(None),
                Ok(_) => Err(Error::Overload("_?_:_".into())),
                Err(error) => Err(error),
            };
            self.variables.pop();
            list.extend(next?);
        }
        Ok(Val::list(list))
    }
}

fn select<'a>(of: &Val<'a>, field: &str, test: bool, optional: bool, budget: &mut Budget) -> Outcome<'a> {
    let key = Val::text(field);
    if let Val::Optional(inner) = of {
        let found = match inner {
            Some(inner) => inner.entry(&key).ok_or_else(|| Error::Overload(format!("select {field}")))?,
            None => None,
        };
        return Ok(if test {
            Val::Bool(found.is_some())
        } else {
            found.map_or(Val::Optional(None), Val::some)
        });
    }
    let found = match of {
        Val::Authority(authority) => Some(authority.field(field)),
        of => of.entry(&key),
    };
    let Some(found) = found else {
        return Err(Error::Overload(format!("select {field} of {}", of.type_name())));
    };
    budget.take(found.as_ref().map_or(0, Val::decoding_cost))?;
    match (found, test, optional) {
        (found, true, _) => Ok(Val::Bool(found.is_some_and(|value| !matches!(value, Val::Null)))),
        (found, _, true) => Ok(found.map_or(Val::Optional(None), Val::some)),
        (Some(value), ..) => Ok(value),
        (None, ..) => Err(other(format!("no such key: {field}"))),
    }
}
