//! Operators: comparison, arithmetic, concatenation.

use std::borrow::Borrow;
use std::cmp::Ordering;

use jiff::SignedDuration;
use serde_json::Value;

use super::durations;
use super::lists;
use super::values::{FunctionResult, Outcome, Val, item_schema};
use super::{Budget, Error, other};

/// Returns the result of an operator; `None` if the name is not an operator.
pub(super) fn apply<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> FunctionResult<'a> {
    let overload = || Error::Overload(name.to_string());
    Ok(Some(match (name, values) {
        ("_==_", [a, b]) => Val::Bool(a.equals(b, budget)?),
        ("_!=_", [a, b]) => Val::Bool(!a.equals(b, budget)?),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
            budget.take(letters(a, b))?;
            let order = a.compare(b).ok_or_else(overload)?;
            let order = order.ok_or_else(|| other("NaN values cannot be ordered"))?;
            Val::Bool(match name {
                "_<_" => order.is_lt(),
                "_<=_" => order.is_le(),
                "_>_" => order.is_gt(),
                _ => order.is_ge(),
            })
        }
        ("!_", [Val::Bool(value)]) => Val::Bool(!value),
        ("-_", [Val::Int(value)]) => Val::Int(value.checked_neg().ok_or_else(overflow)?),
        ("-_", [Val::Double(value)]) => Val::Double(-value),
        ("_+_", [a, b]) => add(a, b, budget)?.ok_or_else(overload)?,
        ("_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(name, a, b)?.ok_or_else(overload)?,
        ("@in", [item, of]) => contains(item, of, budget)?.ok_or_else(overload)?,
        ("_[_]", [of, key]) => {
            budget.take(of.search_cost())?;
            let found = index(of, key)?.ok_or_else(overload)?;
            budget.take(found.decoding_cost())?;
            found
        }
        ("_[?_]", [of, key]) => {
            let of = match of {
                Val::Optional(None) => return Ok(Some(Val::Optional(None))),
                Val::Optional(Some(of)) => (**of).clone(),
                of => of.clone(),
            };
            budget.take(of.search_cost())?;
            match index(&of, key) {
                Ok(found) => Val::some(found.ok_or_else(overload)?),
                Err(_) => Val::Optional(None),
            }
        }
        ("!_" | "-_", _) => return Err(overload()),
        _ => return Ok(None),
    }))
}

/// Returns the cost of comparing two strings: in Kubernetes, a tenth of the letters of the shorter one.
fn letters(a: &Val<'_>, b: &Val<'_>) -> u64 {
    let size = |value: &Val<'_>| match value {
        Val::Text(_) | Val::Bytes(_) => value.size().unwrap_or_default(),
        Val::SemanticVersion(version) => version.bytes(),
        _ => 0,
    };
    size(a).min(size(b)) as u64 / 10
}

fn overflow() -> Error {
    other("integer overflow")
}

fn duration_overflow() -> Error {
    other("duration overflow")
}

/// Returns a computed duration.
fn duration<'a>(made: SignedDuration) -> Outcome<'a> {
    if durations::is_within_bounds(made) { Ok(Val::Duration(made)) } else { Err(duration_overflow()) }
}

fn add<'a>(a: &Val<'a>, b: &Val<'a>, budget: &mut Budget) -> FunctionResult<'a> {
    Ok(Some(match (a, b) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_add(*b).ok_or_else(overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_add(*b).ok_or_else(overflow)?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
        (Val::Text(a), Val::Text(b)) => {
            budget.take(((a.len() + b.len()) / 10) as u64)?;
            Val::text(format!("{}{}", &**a, &**b))
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            budget.take(((a.len() + b.len()) / 10) as u64)?;
            Val::Bytes([&**a, &**b].concat().into())
        }
        (Val::Time(at), Val::Duration(by)) | (Val::Duration(by), Val::Time(at)) => {
            Val::Time(at.checked_add(*by).map_err(|_| other("timestamp overflow"))?)
        }
        (Val::Duration(a), Val::Duration(b)) => duration(a.checked_add(*b).ok_or_else(duration_overflow)?)?,
        _ => {
            if a.type_name() != "list" || b.type_name() != "list" {
                return Ok(None);
            }
            let (Some(first), Some(second)) = (a.size(), b.size()) else { return Ok(None) };
            budget.take(first.saturating_add(second) as u64)?;
            lists::add(a, b, budget)?
        }
    }))
}

fn arithmetic<'a>(name: &str, a: &Val<'a>, b: &Val<'a>) -> FunctionResult<'a> {
    Ok(Some(match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) if matches!(name, "_/_" | "_%_") => {
            return Err(other(if name == "_/_" { "division by zero" } else { "modulus by zero" }));
        }
        (Val::Int(a), Val::Int(b)) => {
            let result = match name {
                "_-_" => a.checked_sub(*b),
                "_*_" => a.checked_mul(*b),
                "_/_" => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            Val::Int(result.ok_or_else(overflow)?)
        }
        (Val::Uint(a), Val::Uint(b)) => {
            let result = match name {
                "_-_" => a.checked_sub(*b),
                "_*_" => a.checked_mul(*b),
                "_/_" => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            Val::Uint(result.ok_or_else(overflow)?)
        }
        (Val::Double(a), Val::Double(b)) => Val::Double(match name {
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return Ok(None),
        }),
        (Val::Time(a), Val::Time(b)) if name == "_-_" => duration(a.duration_since(*b))?,
        (Val::Time(at), Val::Duration(by)) if name == "_-_" => {
            Val::Time(at.checked_sub(*by).map_err(|_| other("timestamp overflow"))?)
        }
        (Val::Duration(a), Val::Duration(b)) if name == "_-_" => {
            duration(a.checked_sub(*b).ok_or_else(duration_overflow)?)?
        }
        _ => return Ok(None),
    }))
}

fn contains<'a>(item: &Val<'a>, of: &Val<'a>, budget: &mut Budget) -> FunctionResult<'a> {
    budget.take(of.search_cost())?;
    if let Some(found) = of.entry(item) {
        return Ok(Some(Val::Bool(found.is_some())));
    }
    let found = match of {
        // Items are converted one by one, because an early one may match.
        Val::Json(Value::Array(items), schema) => {
            let items = items.iter().map(|item| Val::of_json(item, item_schema(*schema)));
            position(items, item, budget)?
        }
        Val::List(items) | Val::Joined(items, _) => position(items.iter(), item, budget)?,
        _ => return Ok(None),
    };
    Ok(Some(Val::Bool(found.is_some())))
}

/// Returns the index of the first item that equals `needle`.
pub(super) fn position<'a>(
    items: impl Iterator<Item = impl Borrow<Val<'a>>>,
    needle: &Val<'a>,
    budget: &mut Budget,
) -> Result<Option<usize>, Error> {
    for (at, item) in items.enumerate() {
        let item = item.borrow();
        budget.take(item.decoding_cost())?;
        if item.equals(needle, budget)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Returns the item of a list at an index, or the map entry of a key; `None` if `of` is neither list nor map.
fn index<'a>(of: &Val<'a>, key: &Val<'a>) -> FunctionResult<'a> {
    if let Some(found) = of.entry(key) {
        return found.map(Some).ok_or_else(|| other(format!("no such key: {}", key.to_display_string())));
    }
    let place = match key {
        Val::Int(place) => *place,
        Val::Uint(place) => i64::try_from(*place).unwrap_or(i64::MAX),
        Val::Double(place) if place.fract() == 0.0 => *place as i64,
        _ => return Ok(None),
    };
    let found = match of {
        Val::List(items) | Val::Joined(items, _) => {
            usize::try_from(place).ok().and_then(|at| items.get(at).cloned())
        }
        Val::Json(Value::Array(items), schema) => {
            let item = usize::try_from(place).ok().and_then(|at| items.get(at));
            item.map(|item| Val::of_json(item, item_schema(*schema)))
        }
        _ => return Ok(None),
    };
    found.map(Some).ok_or_else(|| other(format!("index out of bounds: {place}")))
}

impl Val<'_> {
    /// Compares by CEL's equality: numbers by their value, anything else only within a type. Each part that
    /// is compared is charged: a small value may contain the same part many times.
    pub(super) fn equals(&self, other: &Val<'_>, budget: &mut Budget) -> Result<bool, Error> {
        budget.take(1)?;
        Ok(match (self, other) {
            (Val::Optional(Some(a)), Val::Optional(Some(b))) => a.equals(b, budget)?,
            _ if self.type_name() == "list" && other.type_name() == "list" => {
                if self.size() != other.size() {
                    return Ok(false);
                }
                budget.take(self.size().unwrap_or_default() as u64)?;
                lists::equal(self, other, budget)?
            }
            _ if self.type_name() == "map" && other.type_name() == "map" => {
                if self.size() != other.size() {
                    return Ok(false);
                }
                budget.take(self.size().unwrap_or_default() as u64)?;
                for key in self.iterated().unwrap_or_default() {
                    budget.take(self.search_cost() + other.search_cost())?;
                    let (Some(a), Some(b)) = (self.entry(&key).flatten(), other.entry(&key).flatten()) else {
                        return Ok(false);
                    };
                    if !a.equals(&b, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (a, b) => {
                budget.take(letters(a, b))?;
                a.equals_plainly(b)
            }
        })
    }

    /// As [`Val::equals`], for values without parts; values with parts are equal to nothing.
    pub(super) fn equals_plainly(&self, other: &Val<'_>) -> bool {
        match (self, other) {
            (Val::Null, Val::Null) | (Val::Optional(None), Val::Optional(None)) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Text(a), Val::Text(b)) => **a == **b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Time(a), Val::Time(b)) => a == b,
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Address(a), Val::Address(b)) => a == b,
            (Val::Range(a), Val::Range(b)) => a == b,
            (Val::Url(a), Val::Url(b)) => a == b,
            (Val::SemanticVersion(a), Val::SemanticVersion(b)) => a == b,
            (Val::Type(a), Val::Type(b)) | (Val::Format(a), Val::Format(b)) => a == b,
            _ if self.is_number() && other.is_number() => {
                self.compare(other).flatten() == Some(Ordering::Equal)
            }
            (Val::Quantity(_), Val::Quantity(_)) => self.compare(other).flatten() == Some(Ordering::Equal),
            _ => false,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Val::Int(_) | Val::Uint(_) | Val::Double(_))
    }

    /// The order of two values; the outer `None` if their types have no order, the inner one if one of them
    /// is NaN.
    #[expect(
        clippy::option_option,
        reason = "no order between types is an error, none between numbers is not"
    )]
    pub(super) fn compare(&self, other: &Val<'_>) -> Option<Option<Ordering>> {
        Some(match (self, other) {
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
            (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
            (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
            (Val::Double(a), b) if b.is_number() => a.partial_cmp(&b.as_double()),
            (a, Val::Double(b)) if a.is_number() => a.as_double().partial_cmp(b),
            (Val::Text(a), Val::Text(b)) => Some((**a).cmp(&**b)),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            (Val::Time(a), Val::Time(b)) => Some(a.cmp(b)),
            (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
            (Val::Quantity(a), Val::Quantity(b)) => Some(a.cmp(b)),
            _ => return None,
        })
    }

    pub(super) fn as_double(&self) -> f64 {
        match self {
            Val::Int(value) => *value as f64,
            Val::Uint(value) => *value as f64,
            Val::Double(value) => *value,
            Val::Duration(value) => value.as_secs_f64(),
            _ => f64::NAN,
        }
    }
}
