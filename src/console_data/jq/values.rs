//! Operations on values: path steps, arithmetic, and jq's ordering.

use std::borrow::Cow;
use std::cmp::Ordering;

use jaq_core::ops::{Cmp, Math};
use serde_json::{Number, Value, json};

/// A value borrowed from the object, or a new one.
pub(super) type ValueRef<'v> = Cow<'v, Value>;

/// The error of an exhausted budget.
pub(super) const BUDGET_EXHAUSTED: &str = "too many steps";

/// Returns the direct children of a value.
pub(super) fn children<'v>(value: &ValueRef<'v>) -> Vec<ValueRef<'v>> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.iter().cloned().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(fields)) => fields.values().cloned().map(Cow::Owned).collect(),
        Cow::Borrowed(_) | Cow::Owned(_) => Vec::new(),
    }
}

pub(super) fn child<'v>(value: &ValueRef<'v>, place: &Value) -> Result<ValueRef<'v>, String> {
    let null = || Cow::Owned(Value::Null);
    let at = |items: &[Value]| -> Option<usize> {
        let at = place.as_f64()?.floor();
        let at = if at < 0.0 { at + items.len() as f64 } else { at };
        (at >= 0.0 && at < items.len() as f64).then_some(at as usize)
    };
    match (value, place) {
        (_, Value::String(_) | Value::Number(_)) if value.is_null() => Ok(null()),
        (Cow::Borrowed(Value::Object(fields)), Value::String(key)) => {
            Ok(fields.get(key).map_or_else(null, Cow::Borrowed))
        }
        (Cow::Owned(Value::Object(fields)), Value::String(key)) => {
            Ok(fields.get(key).cloned().map_or_else(null, Cow::Owned))
        }
        (Cow::Borrowed(Value::Array(items)), Value::Number(_)) => {
            Ok(at(items).map_or_else(null, |at| Cow::Borrowed(&items[at])))
        }
        (Cow::Owned(Value::Array(items)), Value::Number(_)) => {
            Ok(at(items).map_or_else(null, |at| Cow::Owned(items[at].clone())))
        }
        (value, Value::String(key)) => Err(format!("{} has no field {key:?}", kind(value))),
        (value, place) => Err(format!("{} cannot be indexed with {place}", kind(value))),
    }
}

pub(super) fn slice(value: &Value, from: Option<i64>, to: Option<i64>) -> Result<Value, String> {
    let range = |length: usize| {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let place = |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(0, length) as usize;
        let (from, to) = (place(from.unwrap_or(0)), place(to.unwrap_or(length)));
        from..to.max(from)
    };
    match value {
        Value::Null => Ok(Value::Null),
        Value::Array(items) => Ok(Value::Array(items[range(items.len())].to_vec())),
        Value::String(text) => {
            let range = range(text.chars().count());
            Ok(Value::String(text.chars().skip(range.start).take(range.len()).collect()))
        }
        other => Err(format!("{} cannot be sliced", kind(other))),
    }
}

/// Reports whether a value is neither false nor null.
pub(super) fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// Returns jq's name of a value's type.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Creates a number; an integral one is written without a fraction.
pub(super) fn number(number: f64) -> Value {
    // Above this, floating point cannot represent every integer.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < WHOLE {
        return Value::Number(Number::from(number as i64));
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

pub(super) fn as_number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("{} is not a number", kind(value)))
}

pub(super) fn calculate(math: Math, a: &Value, b: &Value) -> Result<Value, String> {
    let operation = match math {
        Math::Add => "added",
        Math::Sub => "subtracted",
        Math::Mul => "multiplied",
        Math::Div | Math::Rem => "divided",
    };
    Ok(match (math, a, b) {
        (Math::Add, Value::Null, other) | (Math::Add, other, Value::Null) => other.clone(),
        (Math::Add, Value::String(a), Value::String(b)) => Value::String(format!("{a}{b}")),
        (Math::Add, Value::Array(a), Value::Array(b)) => Value::Array(a.iter().chain(b).cloned().collect()),
        (Math::Add, Value::Object(a), Value::Object(b)) => {
            let mut both = a.clone();
            both.extend(b.clone());
            Value::Object(both)
        }
        (Math::Sub, Value::Array(a), Value::Array(b)) => {
            // The cost is the product of the lengths; no column needs arrays this long.
            if a.len().saturating_mul(b.len()) > 10_000 {
                return Err(BUDGET_EXHAUSTED.to_owned());
            }
            Value::Array(a.iter().filter(|item| !b.contains(item)).cloned().collect())
        }
        (Math::Div, Value::String(a), Value::String(b)) => split(a, b),
        (Math::Div, Value::Number(_), Value::Number(b)) if b.as_f64() == Some(0.0) => {
            return Err(format!("{a} cannot be divided by zero"));
        }
        // jq truncates both operands.
        (Math::Rem, Value::Number(_), Value::Number(b)) if b.as_f64().map(f64::trunc) == Some(0.0) => {
            return Err(format!("{a} cannot be divided by zero"));
        }
        (_, Value::Number(_), Value::Number(_)) => {
            let (a, b) = (as_number(a)?, as_number(b)?);
            number(match math {
                Math::Add => a + b,
                Math::Sub => a - b,
                Math::Mul => a * b,
                Math::Div => a / b,
                Math::Rem => a.trunc() % b.trunc(),
            })
        }
        _ => return Err(format!("{} and {} cannot be {operation}", kind(a), kind(b))),
    })
}

pub(super) fn compares(cmp: Cmp, order: Ordering) -> bool {
    match cmp {
        Cmp::Lt => order.is_lt(),
        Cmp::Le => order.is_le(),
        Cmp::Gt => order.is_gt(),
        Cmp::Ge => order.is_ge(),
        Cmp::Eq => order.is_eq(),
        Cmp::Ne => order.is_ne(),
    }
}

/// Compares values by jq's ordering.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    };
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let mut pairs = a.iter().zip(b).map(|(a, b)| order(a, b));
            pairs.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => a.keys().cmp(b.keys()).then_with(|| {
            let mut pairs = a.values().zip(b.values()).map(|(a, b)| order(a, b));
            pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        }),
        _ => Ordering::Equal,
    })
}

/// Splits a text at each occurrence of `at`; into letters if `at` is empty.
pub(super) fn split(text: &str, at: &str) -> Value {
    if text.is_empty() {
        return json!([]);
    }
    if at.is_empty() {
        return text.chars().map(|c| c.to_string()).map(Value::String).collect();
    }
    text.split(at).map(|part| Value::String(part.to_owned())).collect()
}

/// Formats a value as text: a text unchanged, all else as JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the items of an array, or the values of an object.
pub(super) fn items<'v>(value: &ValueRef<'v>) -> Result<Vec<ValueRef<'v>>, String> {
    match &**value {
        Value::Array(_) | Value::Object(_) => Ok(children(value)),
        other => Err(format!("{} cannot be iterated over", kind(other))),
    }
}
