//! Evaluates expressions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::node::{LoopStep, MacroLoop, Node, PairKind, Pairs, type_named};
use super::operators;
use super::syntax::ACCUMULATOR;
use super::values::{Outcome, Val};
use super::{Budget, Error, functions, other};

/// Named expressions that other expressions read. Each is evaluated at its first read, and all have the same
/// variables.
#[derive(Debug)]
pub struct CompositionContext<'a> {
    /// The variables of all the expressions.
    pub(super) variables: Vec<(&'a str, Val<'a>)>,
    nodes: Vec<(&'a str, &'a Node)>,
    outcomes: RefCell<BTreeMap<&'a str, Outcome<'a>>>,
}

impl<'a> CompositionContext<'a> {
    /// Expressions with their names; each may read those before it.
    pub(super) fn new(variables: Vec<(&'a str, Val<'a>)>, nodes: Vec<(&'a str, &'a Node)>) -> Self {
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

    pub(super) fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        self.take(1)?;
        match node {
            Node::Literal(literal) => Ok(Val::of_literal(literal)),
            Node::Variable(name) => self.variable(name),
            Node::Select { of, field, test, optional } => {
                let of = self.eval(of)?;
                self.take(of.search_cost())?;
                select(&of, field, *test, *optional, self.budget)
            }
            Node::Call { name, target, args, pattern } => {
                if name == "@not_strictly_false" {
                    return match self.eval(&args[0]) {
                        Err(Error::Budget) => Err(Error::Budget),
                        Ok(Val::Bool(false)) => Ok(Val::Bool(false)),
                        _ => Ok(Val::Bool(true)),
                    };
                }
                let mut values = Vec::with_capacity(args.len() + 1);
                if let Some(target) = target {
                    values.push(self.eval(target)?);
                }
                for arg in args {
                    values.push(self.eval(arg)?);
                }
                if let Some(value) = operators::apply(name, &values, self.budget)? {
                    return Ok(value);
                }
                functions::call(name, target.is_some(), &values, pattern.as_deref(), self.budget)
            }
            Node::And(a, b) => self.logical(a, b, false),
            Node::Or(a, b) => self.logical(a, b, true),
            Node::Choose(when, yes, no) => match self.eval(when)? {
                Val::Bool(true) => self.eval(yes),
                Val::Bool(false) => self.eval(no),
                _ => Err(Error::Overload("_?_:_".into())),
            },
            Node::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (item, optional) in items {
                    match self.eval(item)? {
                        Val::Optional(value) if *optional => list.extend(value.map(|value| (*value).clone())),
                        value => list.push(value),
                    }
                }
                Ok(Val::list(list))
            }
            Node::Map(entries) => {
                let mut map: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
                for (key, value, optional) in entries {
                    let key = self.eval(key)?;
                    let value = match self.eval(value)? {
                        Val::Optional(None) if *optional => continue,
                        Val::Optional(Some(value)) if *optional => (*value).clone(),
                        value => value,
                    };
                    if !matches!(
                        key,
                        Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Text(_)
                    ) {
                        return Err(other(format!("unsupported key type: {}", key.type_name())));
                    }
                    self.take(map.len() as u64 / 10)?;
                    if map.iter().any(|(known, _)| known.equals_plainly(&key)) {
                        return Err(other("Failed with repeated key"));
                    }
                    map.push((key, value));
                }
                Ok(Val::Map(Rc::new(map)))
            }
            Node::Fold(fold) => self.fold(fold),
            Node::OptionalMap { of, variable, expression, flat } => match self.eval(of)? {
                Val::Optional(None) => Ok(Val::Optional(None)),
                Val::Optional(Some(value)) => {
                    let made = self.within(variable, (*value).clone(), expression)?;
                    Ok(if *flat { made } else { Val::some(made) })
                }
                _ => Err(Error::Overload("optMap".into())),
            },
            Node::Pairs(pairs) => self.pairs(pairs),
            Node::Bind { variable, value, expression } => {
                let value = self.eval(value)?;
                self.within(variable, value, expression)
            }
            Node::Composed(name) => match self.composed {
                Some(composed) => composed.value(name, self.budget),
                None => Err(other(format!("no such key: {name}"))),
            },
        }
    }

    /// Evaluates an expression with an additional variable.
    fn within(&mut self, variable: &'a str, value: Val<'a>, expression: &'a Node) -> Outcome<'a> {
        self.variables.push((variable, Ok(value)));
        let made = self.eval(expression);
        self.variables.pop();
        made
    }

    fn pairs(&mut self, pairs: &'a Pairs) -> Outcome<'a> {
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
    fn logical(&mut self, a: &'a Node, b: &'a Node, decides: bool) -> Outcome<'a> {
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

    fn fold(&mut self, fold: &'a MacroLoop) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let items = range.iterated().ok_or_else(|| {
            Error::Overload("comprehension over a value that is neither a list nor a map".into())
        })?;
        self.take(items.len() as u64 + items.iter().map(Val::decoding_cost).sum::<u64>())?;
        let accumulated = match &fold.step {
            LoopStep::Append { when, item } => self.append(&fold.variable, items, when.as_ref(), item),
            LoopStep::Any(step) => {
                let init = self.eval(&fold.init);
                self.variables.push((ACCUMULATOR, init));
                let ended = self.steps(fold, step, items);
                let accumulated = self.variables.pop().map_or(Ok(Val::Null), |(_, value)| value);
                ended?;
                accumulated
            }
        };
        if let Err(Error::Budget) = accumulated {
            return accumulated;
        }
        self.variables.push((ACCUMULATOR, accumulated));
        let result = self.eval(&fold.result);
        self.variables.pop();
        result
    }

    fn steps(&mut self, fold: &'a MacroLoop, step: &'a Node, items: Vec<Val<'a>>) -> Result<(), Error> {
        for item in items {
            match self.eval(&fold.condition) {
                Ok(Val::Bool(false)) => break,
                Err(Error::Budget) => return Err(Error::Budget),
                _ => {}
            }
            self.variables.push((&fold.variable, Ok(item)));
            let next = self.eval(step);
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
        when: Option<&'a Node>,
        item: &'a Node,
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
