//! The supported functions: those useful for a cell of a table.

use jaq_core::ops::Math;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use super::budget::Budget;
use super::values::{as_number, calculate, is_true, kind, number, order, split, text};
use base::sort::SliceOrder;

macro_rules! functions {
    ($( $name:ident $word:literal $arguments:literal; )*) => {
        /// A function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function {
            $( $name, )*
        }

        /// Each function with its name and number of arguments.
        const ALL: &[(Function, &str, usize)] = &[ $( (Function::$name, $word, $arguments), )* ];
    };
}

functions! {
    Empty "empty" 0;
    Error "error" 1;
    Not "not" 0;
    Length "length" 0;
    Keys "keys" 0;
    Values "values" 0;
    Nulls "nulls" 0;
    Strings "strings" 0;
    Numbers "numbers" 0;
    Type "type" 0;
    ToText "tostring" 0;
    ToNumber "tonumber" 0;
    ToJson "tojson" 0;
    Add "add" 0;
    Any "any" 0;
    All "all" 0;
    Sort "sort" 0;
    Unique "unique" 0;
    Min "min" 0;
    Max "max" 0;
    Reverse "reverse" 0;
    First "first" 0;
    Last "last" 0;
    Flatten "flatten" 0;
    Has "has" 1;
    Contains "contains" 1;
    Index "index" 1;
    ToEntries "to_entries" 0;
    FromEntries "from_entries" 0;
    Split "split" 1;
    Join "join" 1;
    Test "test" 1;
    Sub "sub" 2;
    GSub "gsub" 2;
    StartsWith "startswith" 1;
    EndsWith "endswith" 1;
    TrimStart "ltrimstr" 1;
    TrimEnd "rtrimstr" 1;
    Trim "trim" 0;
    Upper "ascii_upcase" 0;
    Lower "ascii_downcase" 0;
    Floor "floor" 0;
    Ceil "ceil" 0;
    Round "round" 0;
}

impl Function {
    /// Finds a function by its name and number of arguments.
    pub(super) fn find(name: &str, arguments: usize) -> Option<Self> {
        ALL.iter().find(|(_, known, takes)| *known == name && *takes == arguments).map(|(found, _, _)| *found)
    }

    /// Returns all names.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, name, _)| *name).chain(FILTER_FUNCTIONS.iter().map(|(_, name)| *name))
    }
}

/// A function that evaluates its argument itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterFunction {
    AnyOf,
    AllOf,
    SortBy,
    FirstOf,
    LastOf,
    Map,
    Select,
}

/// Each function with its name; all take one argument.
const FILTER_FUNCTIONS: [(FilterFunction, &str); 7] = [
    (FilterFunction::AnyOf, "any"),
    (FilterFunction::AllOf, "all"),
    (FilterFunction::SortBy, "sort_by"),
    (FilterFunction::FirstOf, "first"),
    (FilterFunction::LastOf, "last"),
    (FilterFunction::Map, "map"),
    (FilterFunction::Select, "select"),
];

impl FilterFunction {
    /// Finds a function by its name.
    pub(super) fn find(name: &str) -> Option<Self> {
        FILTER_FUNCTIONS.iter().find(|(_, known)| *known == name).map(|(found, _)| *found)
    }
}

/// Calls a function on a value, with the results of its arguments.
pub(super) fn call(
    budget: &mut Budget,
    function: Function,
    input: &Value,
    arguments: &[Value],
) -> Result<Vec<Value>, String> {
    let cannot = |operation: &str| format!("{} cannot be {operation}", kind(input));
    let keep = |is: bool| if is { vec![input.clone()] } else { Vec::new() };
    budget.spend_for(input)?;
    arguments.iter().try_for_each(|argument| budget.spend_for(argument))?;
    let made = match function {
        Function::Empty => return Ok(Vec::new()),
        Function::Error => return Err(text(&arguments[0])),
        Function::Values => return Ok(keep(!input.is_null())),
        Function::Nulls => return Ok(keep(input.is_null())),
        Function::Strings => return Ok(keep(input.is_string())),
        Function::Numbers => return Ok(keep(input.is_number())),
        Function::Not => Value::Bool(!is_true(input)),
        Function::Type => Value::String(kind(input).to_owned()),
        Function::ToText => Value::String(text(input)),
        Function::ToJson => Value::String(input.to_string()),
        Function::Length => match input {
            Value::Null => number(0.0),
            Value::String(text) => number(text.chars().count() as f64),
            Value::Array(items) => number(items.len() as f64),
            Value::Object(fields) => number(fields.len() as f64),
            Value::Number(_) => number(as_number(input)?.abs()),
            Value::Bool(_) => return Err(cannot("measured")),
        },
        Function::ToNumber => match input {
            Value::String(text) => {
                let parsed: Option<f64> = text.trim().parse().ok();
                number(parsed.filter(|n| n.is_finite()).ok_or_else(|| format!("{text:?} is not a number"))?)
            }
            other => number(as_number(other)?),
        },
        Function::Floor => number(as_number(input)?.floor()),
        Function::Ceil => number(as_number(input)?.ceil()),
        Function::Round => number(as_number(input)?.round()),
        Function::Keys => match input {
            Value::Object(fields) => fields.keys().cloned().collect(),
            Value::Array(items) => json!((0..items.len()).collect::<Vec<_>>()),
            _ => return Err(cannot("used with keys")),
        },
        Function::Has => match (input, &arguments[0]) {
            (Value::Object(fields), Value::String(key)) => Value::Bool(fields.contains_key(key)),
            (Value::Array(items), at) => Value::Bool((0.0..items.len() as f64).contains(&as_number(at)?)),
            _ => return Err(cannot("used with has")),
        },
        Function::Contains => Value::Bool(contains(budget, input, &arguments[0])?),
        Function::ToEntries => match input {
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| json!({"key": key, "value": value})).collect()
            }
            _ => return Err(cannot("used with to_entries")),
        },
        Function::FromEntries => from_entries(input)?,
        Function::Any => Value::Bool(items(input)?.iter().any(is_true)),
        Function::All => Value::Bool(items(input)?.iter().all(is_true)),
        Function::Split | Function::Join | Function::Test | Function::Sub | Function::GSub => {
            return texts(budget, function, arguments, input);
        }
        Function::StartsWith | Function::EndsWith | Function::TrimStart | Function::TrimEnd => {
            let trims = matches!(function, Function::TrimStart | Function::TrimEnd);
            let (Value::String(text), Value::String(part)) = (input, &arguments[0]) else {
                // Values other than text are returned unchanged.
                return if trims { Ok(vec![input.clone()]) } else { Err(cannot("used as text")) };
            };
            let trimmed = |rest: Option<&str>| Value::String(rest.unwrap_or(text).to_owned());
            match function {
                Function::StartsWith => Value::Bool(text.starts_with(part.as_str())),
                Function::EndsWith => Value::Bool(text.ends_with(part.as_str())),
                Function::TrimStart => trimmed(text.strip_prefix(part.as_str())),
                _ => trimmed(text.strip_suffix(part.as_str())),
            }
        }
        Function::Upper | Function::Lower | Function::Trim => match (input, function) {
            (Value::String(text), Function::Upper) => Value::String(text.to_ascii_uppercase()),
            (Value::String(text), Function::Lower) => Value::String(text.to_ascii_lowercase()),
            (Value::String(text), _) => Value::String(text.trim().to_owned()),
            _ => return Err(cannot("used as text")),
        },
        Function::Index => {
            let at = match (input, &arguments[0]) {
                (Value::Null, _) => None,
                (Value::String(text), Value::String(part)) => {
                    text.find(part.as_str()).map(|at| text[..at].chars().count())
                }
                (Value::Array(items), needle) => items.iter().position(|item| item == needle),
                _ => return Err(cannot("searched for this value")),
            };
            json!(at)
        }
        Function::Add
        | Function::Sort
        | Function::Unique
        | Function::Min
        | Function::Max
        | Function::Reverse
        | Function::First
        | Function::Last
        | Function::Flatten => return of_items(budget, function, input),
    };
    budget.spend_for(&made)?;
    Ok(vec![made])
}

/// Returns the items of an array, or the values of an object.
fn items(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items.clone()),
        Value::Object(fields) => Ok(fields.values().cloned().collect()),
        other => Err(format!("{} cannot be iterated over", kind(other))),
    }
}

/// Evaluates a function of all items.
fn of_items(budget: &mut Budget, function: Function, input: &Value) -> Result<Vec<Value>, String> {
    if input.is_null()
        && matches!(function, Function::Add | Function::First | Function::Last | Function::Reverse)
    {
        return Ok(vec![if function == Function::Reverse { json!([]) } else { Value::Null }]);
    }
    if let (Value::String(text), Function::Reverse) = (input, function) {
        return Ok(vec![Value::String(text.chars().rev().collect())]);
    }
    let mut all = items(input)?;
    let sorted = |mut all: Vec<Value>| {
        all.order_by(order);
        all
    };
    let made = match function {
        Function::Add => {
            let mut sum = Value::Null;
            for item in all {
                sum = calculate(Math::Add, &sum, &item)?;
                budget.spend_for(&sum)?;
            }
            sum
        }
        Function::Sort => Value::Array(sorted(all)),
        Function::Unique => {
            let mut all = sorted(all);
            all.dedup();
            Value::Array(all)
        }
        Function::Min => sorted(all).into_iter().next().unwrap_or_default(),
        Function::Max => sorted(all).pop().unwrap_or_default(),
        Function::First => all.into_iter().next().unwrap_or_default(),
        Function::Last => all.pop().unwrap_or_default(),
        Function::Reverse => {
            all.reverse();
            Value::Array(all)
        }
        _ => {
            let mut flat = Vec::new();
            flatten(all, &mut flat);
            Value::Array(flat)
        }
    };
    budget.spend_for(&made)?;
    Ok(vec![made])
}

fn flatten(items: Vec<Value>, flat: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::Array(inner) => flatten(inner, flat),
            other => flat.push(other),
        }
    }
}

fn from_entries(value: &Value) -> Result<Value, String> {
    let Value::Array(entries) = value else { return Err(format!("{} has no entries", kind(value))) };
    let mut fields = Map::new();
    for entry in entries {
        let of = |names: &[&str]| names.iter().find_map(|name| entry.get(name)).cloned();
        let key = of(&["key", "k", "name", "Name", "Key"]).unwrap_or_default();
        fields.insert(text(&key), of(&["value", "v", "Value"]).unwrap_or_default());
    }
    Ok(Value::Object(fields))
}

fn contains(budget: &mut Budget, value: &Value, needle: &Value) -> Result<bool, String> {
    budget.spend(1)?;
    Ok(match (value, needle) {
        (Value::String(text), Value::String(part)) => {
            budget.spend(text.len() / 8)?;
            text.contains(part.as_str())
        }
        (Value::Array(items), Value::Array(needles)) => {
            for needle in needles {
                let mut is_there = false;
                for item in items {
                    is_there |= kind(item) == kind(needle) && contains(budget, item, needle)?;
                }
                if !is_there {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(fields), Value::Object(needles)) => {
            for (key, needle) in needles {
                let Some(value) = fields.get(key) else { return Ok(false) };
                if !contains(budget, value, needle)? {
                    return Ok(false);
                }
            }
            true
        }
        (value, needle) => value == needle,
    })
}

/// Evaluates a function of texts.
fn texts(
    budget: &mut Budget,
    function: Function,
    arguments: &[Value],
    input: &Value,
) -> Result<Vec<Value>, String> {
    let mut strings = Vec::new();
    for argument in arguments {
        strings.push(argument.as_str().ok_or("an argument is not a string")?);
    }
    let made = match (input, function) {
        (Value::Array(items), Function::Join) => {
            let length: usize =
                items.iter().map(|item| item.as_str().map_or(8, str::len) + strings[0].len()).sum();
            budget.spend(length / 8)?;
            let parts = items.iter().map(|item| if item.is_null() { String::new() } else { text(item) });
            Value::String(parts.collect::<Vec<_>>().join(strings[0]))
        }
        (Value::String(text), Function::Split) => split(text, strings[0]),
        (Value::String(text), Function::Test) => {
            budget.spend(PATTERN)?;
            Value::Bool(pattern(strings[0])?.is_match(text))
        }
        (Value::String(text), Function::Sub | Function::GSub) => {
            budget.spend(PATTERN + text.len())?;
            // jq's replacements are expressions, in which a dollar has no special meaning.
            let with = regex::NoExpand(strings[1]);
            let most = usize::from(function == Function::Sub);
            // There is at most one empty match after each letter.
            budget.spend(text.len().saturating_mul(strings[1].len()) / 64)?;
            Value::String(pattern(strings[0])?.replacen(text, most, with).into_owned())
        }
        (Value::String(_), _) => return Err("string cannot be iterated over".to_owned()),
        (other, Function::Split) => return Err(format!("{} cannot be split", kind(other))),
        (other, Function::Join) => return Err(format!("{} cannot be joined", kind(other))),
        (other, _) => return Err(format!("{} cannot be used as text", kind(other))),
    };
    budget.spend_for(&made)?;
    Ok(vec![made])
}

/// The cost of compiling a pattern.
const PATTERN: usize = 1_000;

fn pattern(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text).size_limit(1 << 16).dfa_size_limit(1 << 16).build();
    built.map_err(|_| format!("invalid regular expression {text:?}"))
}
