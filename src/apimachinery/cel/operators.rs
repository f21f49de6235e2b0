//! Operators: comparison, arithmetic, concatenation.

use std::borrow::Borrow;
use std::cmp::Ordering;

use jiff::SignedDuration;
use serde_json::Value;

use super::durations;
use super::lists;
use super::values::{Outcome, Val, item_schema};
use super::{Budget, Error, other};

/// Returns the result of an operator; `None` if the name is not an operator.
pub(super) fn apply<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let overload = || Error::Overload(name.to_string());
    Some(match (name, values) {
        ("_==_", [a, b]) => a.equals(b, budget).map(Val::Bool),
        ("_!=_", [a, b]) => a.equals(b, budget).map(|same| Val::Bool(!same)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
            match budget.take(letters(a, b)).map(|()| a.compare(b)) {
                Err(error) => Err(error),
                Ok(None) => Err(overload()),
                Ok(Some(order)) => Ok(Val::Bool(match name {
                    "_<_" => order == Some(Ordering::Less),
                    "_<=_" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    "_>_" => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                })),
            }
        }
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("-_", [Val::Int(value)]) => value.checked_neg().map(Val::Int).ok_or_else(overflow),
        ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
        ("_+_", [a, b]) => add(a, b, budget).unwrap_or_else(|| Err(overload())),
        ("_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(name, a, b).unwrap_or_else(|| Err(overload())),
        ("@in", [item, of]) => contains(item, of, budget).unwrap_or_else(|| Err(overload())),
        ("_[_]", [of, key]) => match budget.take(of.search_cost()) {
            Ok(()) => {
                let found = index(of, key).unwrap_or_else(|| Err(overload()));
                found.and_then(|found| budget.take(found.decoding_cost()).map(|()| found))
            }
            Err(error) => Err(error),
        },
        ("_[?_]", [of, key]) => {
            let of = match of {
                Val::Optional(None) => return Some(Ok(Val::Optional(None))),
                Val::Optional(Some(of)) => (**of).clone(),
                of => of.clone(),
            };
            if let Err(error) = budget.take(of.search_cost()) {
                return Some(Err(error));
            }
            match index(&of, key) {
                None => Err(overload()),
                Some(found) => Ok(found.map_or(Val::Optional(None), Val::some)),
            }
        }
        ("!_" | "-_", _) => Err(overload()),
        _ => return None,
    })
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

fn add<'a>(a: &Val<'a>, b: &Val<'a>, budget: &mut Budget) -> Option<Outcome<'a>> {
    Some(match (a, b) {
        (Val::Int(a), Val::Int(b)) => a.checked_add(*b).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(a), Val::Uint(b)) => a.checked_add(*b).map(Val::Uint).ok_or_else(overflow),
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
        (Val::Text(a), Val::Text(b)) => {
            budget.take(((a.len() + b.len()) / 10) as u64).map(|()| Val::text(format!("{}{}", &**a, &**b)))
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            let taken = budget.take(((a.len() + b.len()) / 10) as u64);
            taken.map(|()| Val::Bytes([&**a, &**b].concat().into()))
        }
        (Val::Time(at), Val::Duration(by)) | (Val::Duration(by), Val::Time(at)) => {
            at.checked_add(*by).map(Val::Time).map_err(|_| other("timestamp overflow"))
        }
        (Val::Duration(a), Val::Duration(b)) => {
            a.checked_add(*b).ok_or_else(duration_overflow).and_then(duration)
        }
        _ => {
            let count = a.size()?.saturating_add(b.size()?) as u64;
            if a.type_name() != "list" || b.type_name() != "list" {
                return None;
            }
            if let Err(error) = budget.take(count) {
                return Some(Err(error));
            }
            lists::add(a, b, budget)
        }
    })
}

fn arithmetic<'a>(name: &str, a: &Val<'a>, b: &Val<'a>) -> Option<Outcome<'a>> {
    Some(match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) if matches!(name, "_/_" | "_%_") => {
            Err(other(if name == "_/_" { "division by zero" } else { "modulus by zero" }))
        }
        (Val::Int(a), Val::Int(b)) => match name {
            "_-_" => a.checked_sub(*b),
            "_*_" => a.checked_mul(*b),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Val::Int)
        .ok_or_else(overflow),
        (Val::Uint(a), Val::Uint(b)) => match name {
            "_-_" => a.checked_sub(*b),
            "_*_" => a.checked_mul(*b),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Val::Uint)
        .ok_or_else(overflow),
        (Val::Double(a), Val::Double(b)) => match name {
            "_-_" => Ok(Val::Double(a - b)),
            "_*_" => Ok(Val::Double(a * b)),
            "_/_" => Ok(Val::Double(a / b)),
            _ => return None,
        },
        (Val::Time(a), Val::Time(b)) if name == "_-_" => duration(a.duration_since(*b)),
        (Val::Time(at), Val::Duration(by)) if name == "_-_" => {
            at.checked_sub(*by).map(Val::Time).map_err(|_| other("timestamp overflow"))
        }
        (Val::Duration(a), Val::Duration(b)) if name == "_-_" => {
            a.checked_sub(*b).ok_or_else(duration_overflow).and_then(duration)
        }
        _ => return None,
    })
}

fn contains<'a>(item: &Val<'a>, of: &Val<'a>, budget: &mut Budget) -> Option<Outcome<'a>> {
    if let Err(error) = budget.take(of.search_cost()) {
        return Some(Err(error));
    }
    if let Some(found) = of.entry(item) {
        return Some(Ok(Val::Bool(found.is_some())));
    }
    let found = match of {
        // Items are converted one by one, because an early one may match.
        Val::Json(Value::Array(items), schema) => {
            let items = items.iter().map(|item| Val::of_json(item, item_schema(*schema)));
            position(items, item, budget)
        }
        Val::List(items) | Val::Joined(items, _) => position(items.iter(), item, budget),
        _ => return None,
    };
    Some(found.map(|found| Val::Bool(found.is_some())))
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
fn index<'a>(of: &Val<'a>, key: &Val<'a>) -> Option<Outcome<'a>> {
    if let Some(found) = of.entry(key) {
        return Some(found.ok_or_else(|| other(format!("no such key: {}", key.to_display_string()))));
    }
    let place = match key {
        Val::Int(place) => *place,
        Val::Uint(place) => i64::try_from(*place).unwrap_or(i64::MAX),
        Val::Double(place) if place.fract() == 0.0 => *place as i64,
        _ => return None,
    };
    let found = match of {
        Val::List(items) | Val::Joined(items, _) => {
            usize::try_from(place).ok().and_then(|at| items.get(at).cloned())
        }
        Val::Json(Value::Array(items), schema) => {
            let item = usize::try_from(place).ok().and_then(|at| items.get(at));
            item.map(|item| Val::of_json(item, item_schema(*schema)))
        }
        _ => return None,
    };
    Some(found.ok_or_else(|| other(format!("index out of bounds: {place}"))))
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
