//! Evaluates a filter on a value, within a budget.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::budget::Budget;
use super::compile::{Filter, PathStep, TextPart};
use super::functions::{self, FilterFunction, Function};
use super::values::{
    BUDGET_EXHAUSTED, ValueRef, as_number, calculate, child, children, compares, is_true, items, kind,
    number, order, slice, text,
};
use base::sort::SliceOrder;

/// Bound variables, the innermost last.
type Names<'v> = Vec<(String, ValueRef<'v>)>;

/// One evaluation, with its remaining budget.
pub(super) struct JqRun<'v> {
    budget: Budget,
    names: Names<'v>,
}

impl<'v> JqRun<'v> {
    /// Creates an evaluation with this budget.
    pub(super) fn new(budget: usize) -> Self {
        Self { budget: Budget(budget), names: Vec::new() }
    }

    /// Reports whether the error is an exhausted budget, which no part of an expression can catch.
    fn is_over(error: &str) -> bool {
        error == BUDGET_EXHAUSTED
    }

    /// Copies a value and charges its size to the budget.
    fn keep(&mut self, value: &Value) -> Result<Value, String> {
        self.budget.spend_for(value)?;
        Ok(value.clone())
    }

    /// Returns all results of a filter for a value.
    pub(super) fn all(&mut self, filter: &Filter, input: &'v Value) -> Result<Vec<ValueRef<'v>>, String> {
        self.run(filter, &Cow::Borrowed(input))
    }

    /// As [`Self::all`], for a value that may be owned.
    pub(super) fn run(&mut self, filter: &Filter, input: &ValueRef<'v>) -> Result<Vec<ValueRef<'v>>, String> {
        self.budget.spend(1)?;
        let one = |value: Value| Ok(vec![Cow::Owned(value)]);
        match filter {
            Filter::Id => Ok(vec![self.duplicate(input)?]),
            Filter::Recurse => {
                let mut found = Vec::new();
                self.below(input.clone(), &mut found)?;
                Ok(found)
            }
            Filter::Const(value) => one(self.keep(value)?),
            Filter::Text(pieces) => self.text(pieces, input),
            Filter::Array(inner) => {
                let items = inner.as_ref().map(|inner| self.run(inner, input)).transpose()?;
                let mut made = Vec::new();
                for item in items.into_iter().flatten() {
                    made.push(self.own(item)?);
                }
                one(Value::Array(made))
            }
            Filter::Object(fields) => self.object(fields, input),
            Filter::Negate(inner) => {
                let values = self.run(inner, input)?;
                values.iter().map(|value| Ok(Cow::Owned(number(-as_number(value)?)))).collect()
            }
            Filter::Pipe(first, second) => {
                let mut given = Vec::new();
                for value in self.run(first, input)? {
                    given.extend(self.run(second, &value)?);
                }
                Ok(given)
            }
            Filter::Bind(source, name, body) => {
                let mut given = Vec::new();
                for value in self.run(source, input)? {
                    given.extend(self.with(name, value, |own| own.run(body, input))?);
                }
                Ok(given)
            }
            Filter::Comma(first, second) => {
                let mut given = self.run(first, input)?;
                given.extend(self.run(second, input)?);
                Ok(given)
            }
            Filter::Alternative(first, second) => {
                let given = match self.run(first, input) {
                    Ok(given) => given,
                    Err(why) if Self::is_over(&why) => return Err(why),
                    Err(_) => Vec::new(),
                };
                let given: Vec<ValueRef<'v>> = given.into_iter().filter(|value| is_true(value)).collect();
                if given.is_empty() { self.run(second, input) } else { Ok(given) }
            }
            Filter::Or(first, second) => self.logic(first, second, input, true),
            Filter::And(first, second) => self.logic(first, second, input, false),
            Filter::Math(math, first, second) => self.pairs(first, second, input, |own, a, b| {
                let made = calculate(*math, a, b)?;
                own.budget.spend_for(&made)?;
                Ok(made)
            }),
            Filter::Compare(cmp, first, second) => self.pairs(first, second, input, |own, a, b| {
                own.budget.spend_for(a)?;
                Ok(Value::Bool(compares(*cmp, order(a, b))))
            }),
            Filter::Try(inner, caught) => match (self.run(inner, input), caught) {
                (Err(why), _) if Self::is_over(&why) => Err(why),
                (Err(why), Some(caught)) => self.run(caught, &Cow::Owned(Value::String(why))),
                (Err(_), None) => Ok(Vec::new()),
                (given, _) => given,
            },
            Filter::If(cases, otherwise) => self.cases(cases, otherwise.as_deref(), input),
            Filter::Reduce(source, name, from, step) => {
                let mut accumulated = self.last(from, input)?;
                for value in self.run(source, input)? {
                    accumulated = self.with(name, value, |own| own.last(step, &accumulated))?;
                }
                Ok(vec![accumulated])
            }
            Filter::Call(function, arguments) => self.call(*function, arguments, input),
            Filter::Through(through, argument) => self.call_filter_function(*through, argument, input),
            Filter::Var(name) => {
                let found = self.names.iter().rev().find(|(known, _)| known == name);
                let value = found.map(|(_, value)| value.clone()).ok_or("a variable is not defined")?;
                Ok(vec![self.duplicate(&value)?])
            }
            Filter::Path(inner, parts) => {
                let mut here = self.run(inner, input)?;
                for (part, is_optional) in parts {
                    let mut next = Vec::new();
                    for value in here {
                        match self.part(part, &value, input) {
                            Ok(found) => next.extend(found),
                            Err(why) if !is_optional || Self::is_over(&why) => return Err(why),
                            Err(_) => {}
                        }
                    }
                    here = next;
                }
                Ok(here)
            }
        }
    }

    /// Calls a function with the last result of each argument.
    fn call(
        &mut self,
        function: Function,
        arguments: &[Filter],
        input: &ValueRef<'v>,
    ) -> Result<Vec<ValueRef<'v>>, String> {
        let mut values = Vec::new();
        for argument in arguments {
            let value = self.run(argument, input)?.pop().ok_or("an argument has no result")?;
            values.push(self.own(value)?);
        }
        let made = functions::call(&mut self.budget, function, input, &values)?;
        Ok(made.into_iter().map(Cow::Owned).collect())
    }

    /// Calls a function that evaluates its argument itself.
    fn call_filter_function(
        &mut self,
        through: FilterFunction,
        argument: &Filter,
        input: &ValueRef<'v>,
    ) -> Result<Vec<ValueRef<'v>>, String> {
        let made = match through {
            FilterFunction::Select => {
                let given = self.run(argument, input)?;
                let selected = given.iter().filter(|value| is_true(value)).map(|_| self.duplicate(input));
                return selected.collect();
            }
            FilterFunction::FirstOf => return Ok(self.run(argument, input)?.into_iter().take(1).collect()),
            FilterFunction::LastOf => return Ok(self.run(argument, input)?.pop().into_iter().collect()),
            FilterFunction::Map => {
                let mut mapped = Vec::new();
                for item in items(input)? {
                    for value in self.run(argument, &item)? {
                        mapped.push(self.own(value)?);
                    }
                }
                Value::Array(mapped)
            }
            FilterFunction::AnyOf | FilterFunction::AllOf => {
                let mut results = Vec::new();
                for item in items(input)? {
                    results.extend(self.run(argument, &item)?.iter().map(|value| is_true(value)));
                }
                Value::Bool(if through == FilterFunction::AnyOf {
                    results.contains(&true)
                } else {
                    !results.contains(&false)
                })
            }
            FilterFunction::SortBy => {
                let mut keyed = Vec::new();
                for item in items(input)? {
                    let mut key = Vec::new();
                    for value in self.run(argument, &item)? {
                        key.push(self.own(value)?);
                    }
                    keyed.push((Value::Array(key), self.own(item)?));
                }
                keyed.order_by(|(a, _), (b, _)| order(a, b));
                keyed.into_iter().map(|(_, item)| item).collect()
            }
        };
        Ok(vec![Cow::Owned(made)])
    }

    fn duplicate(&mut self, value: &ValueRef<'v>) -> Result<ValueRef<'v>, String> {
        match value {
            Cow::Borrowed(value) => Ok(Cow::Borrowed(*value)),
            Cow::Owned(value) => Ok(Cow::Owned(self.keep(value)?)),
        }
    }

    /// Converts to an owned value.
    pub(super) fn own(&mut self, value: ValueRef<'v>) -> Result<Value, String> {
        match value {
            Cow::Borrowed(value) => self.keep(value),
            Cow::Owned(value) => Ok(value),
        }
    }

    fn with<T>(&mut self, name: &str, value: ValueRef<'v>, f: impl FnOnce(&mut Self) -> T) -> T {
        self.names.push((name.to_owned(), value));
        let done = f(self);
        self.names.pop();
        done
    }

    /// Returns the last result of a filter; null if there are none.
    fn last(&mut self, filter: &Filter, input: &ValueRef<'v>) -> Result<ValueRef<'v>, String> {
        Ok(self.run(filter, input)?.pop().unwrap_or(Cow::Owned(Value::Null)))
    }

    /// Collects a value and all its descendants.
    fn below(&mut self, value: ValueRef<'v>, found: &mut Vec<ValueRef<'v>>) -> Result<(), String> {
        self.budget.spend(1)?;
        if let Cow::Owned(made) = &value {
            self.budget.spend_for(made)?;
        }
        let within = children(&value);
        found.push(value);
        within.into_iter().try_for_each(|child| self.below(child, found))
    }

    fn text(&mut self, pieces: &[TextPart], input: &ValueRef<'v>) -> Result<Vec<ValueRef<'v>>, String> {
        let mut texts = vec![String::new()];
        for piece in pieces {
            let values: Vec<String> = match piece {
                TextPart::Plain(text) => vec![text.clone()],
                TextPart::Of(filter) => self.run(filter, input)?.iter().map(|value| text(value)).collect(),
            };
            let mut next = Vec::new();
            for value in &values {
                for text in &texts {
                    self.budget.spend(1 + (text.len() + value.len()) / 8)?;
                    next.push(format!("{text}{value}"));
                }
            }
            texts = next;
        }
        Ok(texts.into_iter().map(|text| Cow::Owned(Value::String(text))).collect())
    }

    fn object(
        &mut self,
        fields: &[(Filter, Filter)],
        input: &ValueRef<'v>,
    ) -> Result<Vec<ValueRef<'v>>, String> {
        let mut objects = vec![Map::new()];
        for (key, value) in fields {
            let (keys, values) = (self.run(key, input)?, self.run(value, input)?);
            let mut next = Vec::new();
            for object in &objects {
                for key in &keys {
                    let Value::String(key) = &**key else {
                        return Err(format!("{} cannot be an object's key", kind(key)));
                    };
                    for value in &values {
                        self.budget.spend_for(value)?;
                        self.budget.spend(object.len())?;
                        let mut object = object.clone();
                        object.insert(key.clone(), value.clone().into_owned());
                        next.push(object);
                    }
                }
            }
            objects = next;
        }
        Ok(objects.into_iter().map(|object| Cow::Owned(Value::Object(object))).collect())
    }

    fn logic(
        &mut self,
        first: &Filter,
        second: &Filter,
        input: &ValueRef<'v>,
        decides: bool,
    ) -> Result<Vec<ValueRef<'v>>, String> {
        let mut given = Vec::new();
        for value in self.run(first, input)? {
            if is_true(&value) == decides {
                given.push(Cow::Owned(Value::Bool(decides)));
                continue;
            }
            let second = self.run(second, input)?;
            given.extend(second.iter().map(|value| Cow::Owned(Value::Bool(is_true(value)))));
        }
        Ok(given)
    }

    /// Combines each pair of results of two filters; as in jq, the result of the first filter varies fastest.
    fn pairs(
        &mut self,
        first: &Filter,
        second: &Filter,
        input: &ValueRef<'v>,
        combine: impl Fn(&mut Self, &Value, &Value) -> Result<Value, String>,
    ) -> Result<Vec<ValueRef<'v>>, String> {
        let (a, b) = (self.run(first, input)?, self.run(second, input)?);
        let mut given = Vec::new();
        for b in &b {
            for a in &a {
                self.budget.spend(1)?;
                given.push(Cow::Owned(combine(self, a, b)?));
            }
        }
        Ok(given)
    }

    fn cases(
        &mut self,
        cases: &[(Filter, Filter)],
        otherwise: Option<&Filter>,
        input: &ValueRef<'v>,
    ) -> Result<Vec<ValueRef<'v>>, String> {
        let Some(((is, then), rest)) = cases.split_first() else {
            return match otherwise {
                Some(otherwise) => self.run(otherwise, input),
                None => Ok(vec![self.duplicate(input)?]),
            };
        };
        let mut given = Vec::new();
        for value in self.run(is, input)? {
            given.extend(if is_true(&value) {
                self.run(then, input)?
            } else {
                self.cases(rest, otherwise, input)?
            });
        }
        Ok(given)
    }

    /// Applies one path element to a value. Expressions within the element are evaluated on the input of the whole
    /// path.
    fn part(
        &mut self,
        part: &PathStep,
        value: &ValueRef<'v>,
        input: &ValueRef<'v>,
    ) -> Result<Vec<ValueRef<'v>>, String> {
        self.budget.spend(1)?;
        match part {
            PathStep::All => match &**value {
                Value::Array(items) => {
                    self.budget.spend(items.len())?;
                    Ok(children(value))
                }
                Value::Object(fields) => {
                    self.budget.spend(fields.len())?;
                    Ok(children(value))
                }
                other => Err(format!("{} cannot be iterated over", kind(other))),
            },
            PathStep::At(at) => {
                let places = self.run(at, input)?;
                places.iter().map(|place| child(value, place)).collect()
            }
            PathStep::Slice(from, to) => {
                let mut bound = |filter: &Option<Filter>| -> Result<Option<i64>, String> {
                    let Some(filter) = filter else { return Ok(None) };
                    let value = self.last(filter, input)?;
                    if value.is_null() { Ok(None) } else { Ok(Some(as_number(&value)?.floor() as i64)) }
                };
                let (from, to) = (bound(from)?, bound(to)?);
                let cut = slice(value, from, to)?;
                self.budget.spend_for(&cut)?;
                Ok(vec![Cow::Owned(cut)])
            }
        }
    }
}
