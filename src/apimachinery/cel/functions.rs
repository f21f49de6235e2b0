//! The functions that CEL expressions can call: CEL's own, and Kubernetes' libraries for strings, lists, regular
//! expressions, quantities, versions, addresses, URLs, sets and formats.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use ipnet::IpNet;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use regex::Regex;

use super::durations::duration;
use super::operators::position;
use super::semver::SemanticVersion;
use super::values::{Outcome, Text, Val};
use super::{Budget, Error, format, named_formats, other};
use crate::pattern;
use base::sort::SliceOrder;
use object::quantity::Amount;

/// Calls a function. The first value is the receiver, if there is one.
pub(super) fn call<'a>(
    name: &str,
    on_value: bool,
    values: &[Val<'a>],
    pattern: Option<&Regex>,
    budget: &mut Budget,
) -> Outcome<'a> {
    for value in values {
        budget.take(value.size().unwrap_or(0) as u64 / 10)?;
    }
    let found = match values {
        [Val::Text(text), rest @ ..] if on_value => of_text(name, text, rest, pattern, budget),
        [Val::Authority(authority), rest @ ..] if on_value => authority.call(name, rest, budget),
        [list, rest @ ..] if on_value && list.type_name() == "list" => of_list(name, list, rest, budget),
        _ => None,
    };
    found
        .or_else(|| library(name, on_value, values, pattern, budget))
        .unwrap_or_else(|| Err(Error::Overload(name.trim_start_matches('@').to_string())))
}

fn int(size: usize) -> Val<'static> {
    Val::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

fn library<'a>(
    name: &str,
    on_value: bool,
    values: &[Val<'a>],
    pattern: Option<&Regex>,
    budget: &mut Budget,
) -> Option<Outcome<'a>> {
    Some(match (name, values) {
        ("size", [value]) => return value.size().map(|size| Ok(int(size))),
        ("dyn", [value]) if !on_value => Ok(value.clone()),
        ("type", [value]) if !on_value => Ok(Val::Type(value.type_name())),
        ("matches", [Val::Text(text), Val::Text(by)]) if !on_value => matches(text, by, pattern, budget),
        ("string" | "int" | "uint" | "double" | "bool" | "bytes" | "timestamp" | "duration", [value])
            if !on_value =>
        {
            return convert(name, value);
        }
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => {
            let is_zero = match value {
                Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) => true,
                Val::Double(number) => *number == 0.0,
                value => value.size() == Some(0),
            };
            Ok(if is_zero { Val::Optional(None) } else { Val::some(value.clone()) })
        }
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(other("optional.none() dereference")),
        },
        ("orValue", [Val::Optional(value), or]) => Ok(value.as_deref().unwrap_or(or).clone()),
        ("or", [Val::Optional(value), or]) => {
            Ok(if value.is_some() { values[0].clone() } else { or.clone() })
        }
        ("jsonpatch.escapeKey", [Val::Text(key)]) => Ok(Val::text(key.replace('~', "~0").replace('/', "~1"))),
        ("lists.range", [Val::Int(count)]) => {
            let count = (*count).max(0);
            budget.take(count.unsigned_abs()).map(|()| Val::list((0..count).map(Val::Int).collect()))
        }
        ("strings.quote", [Val::Text(text)]) => Ok(Val::text(format::quoted(text))),
        ("format.named", [Val::Text(text)]) => {
            Ok(named_formats::find(text).map_or(Val::Optional(None), |name| Val::some(Val::Format(name))))
        }
        (name, []) if name.starts_with("format.") => {
            return named_formats::find(&name["format.".len()..]).map(|name| Ok(Val::Format(name)));
        }
        ("validate", [Val::Format(format), Val::Text(text)]) => {
            let wrong = named_formats::validate(format, text);
            Ok(if wrong.is_empty() {
                Val::Optional(None)
            } else {
                Val::some(Val::list(wrong.into_iter().map(Val::text).collect()))
            })
        }
        _ => {
            return quantities(name, values)
                .or_else(|| versions(name, values, budget))
                .or_else(|| addresses(name, values))
                .or_else(|| urls(name, values, budget))
                .or_else(|| sets(name, values, budget))
                .or_else(|| numbers(name, values))
                .or_else(|| times(name, values));
        }
    })
}

fn matches<'a>(text: &str, by: &str, pattern: Option<&Regex>, budget: &mut Budget) -> Outcome<'a> {
    let compiled = compiled(text, by, pattern, budget)?;
    Ok(Val::Bool(pattern.or(compiled.as_ref()).is_some_and(|pattern| pattern.is_match(text))))
}

/// Compiles a pattern that was not constant, which is expensive. The cost of matching is charged as in
/// Kubernetes, which ignores the pattern's repetitions.
fn compiled(
    text: &str,
    by: &str,
    cached: Option<&Regex>,
    budget: &mut Budget,
) -> Result<Option<Regex>, Error> {
    let compiled = if cached.is_some() {
        None
    } else {
        budget.take(1000 + by.len() as u64 * 10)?;
        let compiled = pattern::compile(by);
        Some(compiled.map_err(|reason| other(format!("error parsing regexp: {reason}")))?)
    };
    let (letters, weight) = ((text.len() as u64 + 1).div_ceil(10), pattern::weight(by).div_ceil(4));
    budget.take(letters.saturating_mul(weight))?;
    Ok(compiled)
}

fn of_text<'a>(
    name: &str,
    text: &Text<'a>,
    rest: &[Val<'a>],
    pattern: Option<&Regex>,
    budget: &mut Budget,
) -> Option<Outcome<'a>> {
    let texts = |parts: Vec<String>| Val::list(parts.into_iter().map(Val::text).collect());
    let place = |found: Option<usize>| found.map_or(Val::Int(-1), |at| int(text[..at].chars().count()));
    let letter = |at: i64, most: usize| usize::try_from(at).ok().filter(|at| *at <= most);
    Some(Ok(match (name, rest) {
        ("startsWith", [Val::Text(part)]) => Val::Bool(text.starts_with(&**part)),
        ("endsWith", [Val::Text(part)]) => Val::Bool(text.ends_with(&**part)),
        ("contains", [Val::Text(part)]) => Val::Bool(text.contains(&**part)),
        ("matches", [Val::Text(by)]) => return Some(matches(text, by, pattern, budget)),
        ("find", [Val::Text(by)]) => {
            let compiled = match compiled(text, by, pattern, budget) {
                Ok(compiled) => compiled,
                Err(error) => return Some(Err(error)),
            };
            let found = pattern.or(compiled.as_ref()).and_then(|pattern| pattern.find(text));
            Val::text(found.map_or("", |found| found.as_str()))
        }
        ("findAll", [Val::Text(by), most @ ..]) if most.len() <= 1 => {
            let compiled = match compiled(text, by, pattern, budget) {
                Ok(compiled) => compiled,
                Err(error) => return Some(Err(error)),
            };
            let most = match most {
                [Val::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                [] => usize::MAX,
                _ => return None,
            };
            if let Err(error) = budget.take(text.len() as u64) {
                return Some(Err(error));
            }
            let mut all = Vec::new();
            for found in
                pattern.or(compiled.as_ref()).into_iter().flat_map(|by| by.find_iter(text)).take(most)
            {
                all.push(found.as_str().to_string());
                // For each match, a pattern may read to the end of the text.
                if let Err(error) = budget.take((text.len() - found.end()) as u64 / 10) {
                    return Some(Err(error));
                }
            }
            texts(all)
        }
        ("format", [list]) => {
            if let Err(error) = budget.take(list.size().unwrap_or_default() as u64) {
                return Some(Err(error));
            }
            return Some(format::format(text, &list.items()?, budget).map(Val::text));
        }
        ("lowerAscii", []) => Val::text(text.to_ascii_lowercase()),
        ("upperAscii", []) => Val::text(text.to_ascii_uppercase()),
        ("trim", []) => Val::text(text.trim()),
        ("reverse", []) => Val::text(text.chars().rev().collect::<String>()),
        ("charAt", [Val::Int(at)]) => match letter(*at, text.chars().count()) {
            Some(at) => Val::text(text.chars().nth(at).map(String::from).unwrap_or_default()),
            None => return Some(Err(other(format!("index out of range: {at}")))),
        },
        ("indexOf", [Val::Text(part)]) => place(text.find(&**part)),
        ("lastIndexOf", [Val::Text(part)]) => place(text.rfind(&**part)),
        ("indexOf" | "lastIndexOf", [Val::Text(part), Val::Int(from)]) => {
            let Ok(from) = usize::try_from(*from) else {
                return Some(Err(other(format!("index out of range: {from}"))));
            };
            match text.char_indices().nth(from) {
                // The empty string is everywhere, lastly at the end.
                _ if part.is_empty() => int(from.min(text.chars().count())),
                None => Val::Int(-1),
                Some((at, _)) if name == "indexOf" => place(text[at..].find(&**part).map(|found| at + found)),
                Some((at, _)) => place(text[..text.floor_char_boundary(at + part.len())].rfind(&**part)),
            }
        }
        ("substring", [Val::Int(from), end @ ..]) if end.len() <= 1 => {
            let count = text.chars().count();
            let end = match end {
                [Val::Int(end)] => *end,
                [] => count as i64,
                _ => return None,
            };
            match (letter(*from, count), letter(end, count)) {
                (Some(from), Some(end)) if from <= end => {
                    Val::text(text.chars().skip(from).take(end - from).collect::<String>())
                }
                (Some(_), Some(_)) => {
                    return Some(Err(other(format!("invalid substring range. start: {from}, end: {end}"))));
                }
                _ => return Some(Err(other(format!("index out of range: {from}")))),
            }
        }
        ("split", [Val::Text(by), most @ ..]) if most.len() <= 1 => {
            let most = match most {
                [Val::Int(0)] => return Some(Ok(Val::list(Vec::new()))),
                [Val::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                [] => usize::MAX,
                _ => return None,
            };
            if let Err(error) = budget.take(text.len() as u64) {
                return Some(Err(error));
            }
            if by.is_empty() {
                texts(text.chars().map(String::from).take(most).collect())
            } else {
                texts(text.splitn(most, &**by).map(ToString::to_string).collect())
            }
        }
        ("replace", [Val::Text(from), Val::Text(to), most @ ..]) if most.len() <= 1 => {
            let most = match most {
                [Val::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                [] => usize::MAX,
                _ => return None,
            };
            // In the worst case, `to` is inserted around each letter.
            let grown = (text.len() as u64 + 1).saturating_mul(to.len() as u64 + 1) / 10;
            if let Err(error) = budget.take(grown) {
                return Some(Err(error));
            }
            Val::text(text.replacen(&**from, to, most))
        }
        _ => return None,
    }))
}

fn of_list<'a>(name: &str, list: &Val<'a>, rest: &[Val<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let items = list.items()?;
    let cost = match name {
        "min" | "max" | "isSorted" => reading_cost(&items),
        _ => items.len() as u64,
    };
    if let Err(error) = budget.take(cost) {
        return Some(Err(error));
    }
    let ordered = |a: &Val<'a>, b: &Val<'a>| a.compare(b).flatten();
    Some(Ok(match (name, rest) {
        ("isSorted", []) => {
            let mut pairs = items.windows(2);
            Val::Bool(pairs.all(|pair| ordered(&pair[0], &pair[1]) != Some(Ordering::Greater)))
        }
        ("sum", []) => {
            let zero = match items.first() {
                Some(Val::Double(_)) => Val::Double(0.0),
                Some(Val::Uint(_)) => Val::Uint(0),
                Some(Val::Duration(_)) => Val::Duration(SignedDuration::ZERO),
                _ => Val::Int(0),
            };
            let add = |sum: Outcome<'a>, item: &Val<'a>| {
                let pair = [sum?, item.clone()];
                super::operators::apply("_+_", &pair, budget)
                    .unwrap_or_else(|| Err(other("no such overload: sum")))
            };
            return Some(items.iter().fold(Ok(zero), add));
        }
        ("min" | "max", []) => {
            let preferred = if name == "min" { Ordering::Less } else { Ordering::Greater };
            let better = |best: Val<'a>, item: Val<'a>| {
                if ordered(&item, &best) == Some(preferred) { item } else { best }
            };
            match items.into_iter().reduce(better) {
                Some(best) => best,
                None => return Some(Err(other(format!("{name} called on empty list")))),
            }
        }
        ("indexOf", [item]) => match position(items.iter(), item, budget) {
            Ok(found) => found.map_or(Val::Int(-1), int),
            Err(error) => return Some(Err(error)),
        },
        ("lastIndexOf", [item]) => match position(items.iter().rev(), item, budget) {
            Ok(found) => found.map_or(Val::Int(-1), |at| int(items.len() - 1 - at)),
            Err(error) => return Some(Err(error)),
        },
        ("join", by) if by.len() <= 1 => {
            let by = by.first().map_or(Some(""), Val::as_text)?;
            let parts: Option<Vec<&str>> = items.iter().map(Val::as_text).collect();
            let joined = parts?;
            let bytes: usize = joined.iter().map(|part| part.len() + by.len()).sum();
            if let Err(error) = budget.take(bytes as u64 / 10) {
                return Some(Err(error));
            }
            Val::text(joined.join(by))
        }
        ("reverse", []) => Val::list(items.into_iter().rev().collect()),
        ("slice", [Val::Int(from), Val::Int(end)]) => match (usize::try_from(*from), usize::try_from(*end)) {
            (Ok(from), Ok(end)) if from <= end && end <= items.len() => Val::list(items[from..end].to_vec()),
            _ => return Some(Err(other(format!("cannot slice({from}, {end})")))),
        },
        ("first", []) => items.first().cloned().map_or(Val::Optional(None), Val::some),
        ("last", []) => items.last().cloned().map_or(Val::Optional(None), Val::some),
        ("distinct", []) => {
            let mut seen: Vec<Val<'a>> = Vec::new();
            for item in items {
                match position(seen.iter(), &item, budget) {
                    Ok(None) => seen.push(item),
                    Ok(Some(_)) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
            Val::list(seen)
        }
        ("sort", []) => return Some(sorted_by(items.clone(), items, budget)),
        ("@sortByAssociatedKeys", [keys]) => return Some(sorted_by(items, keys.items()?, budget)),
        ("flatten", depth) if depth.len() <= 1 => {
            let depth = match depth {
                [Val::Int(depth)] => *depth,
                [] => 1,
                _ => return None,
            };
            if depth < 0 {
                return Some(Err(other("level must be non-negative")));
            }
            let mut flat = Vec::new();
            if let Err(error) = flatten(items, depth, &mut flat, budget) {
                return Some(Err(error));
            }
            Val::list(flat)
        }
        _ => return None,
    }))
}

/// Returns the cost of reading each item once.
fn reading_cost(items: &[Val<'_>]) -> u64 {
    let letters = items.iter().filter(|item| matches!(item, Val::Text(_) | Val::Bytes(_)));
    letters.fold(items.len() as u64, |sum, text| sum.saturating_add(text.size().unwrap_or(0) as u64 / 10))
}

/// Returns the items in the order of their keys.
fn sorted_by<'a>(items: Vec<Val<'a>>, keys: Vec<Val<'a>>, budget: &mut Budget) -> Outcome<'a> {
    // Sorting reads each key about log2(n) times for n keys.
    let rounds = u64::from(keys.len().checked_ilog2().unwrap_or(0) + 1);
    budget.take(reading_cost(&keys).saturating_mul(rounds))?;
    if !keys.iter().all(|key| key.compare(key).is_some()) {
        return Err(other("list elements must be comparable"));
    }
    if keys.windows(2).any(|pair| pair[0].type_name() != pair[1].type_name()) {
        return Err(other("list elements must have the same type"));
    }
    let mut pairs: Vec<(Val<'a>, Val<'a>)> = keys.into_iter().zip(items).collect();
    // Values of one type are ordered, except for NaN, which comes first or last.
    let order = |a: &Val<'a>, b: &Val<'a>| {
        a.compare(b).flatten().unwrap_or_else(|| a.as_double().total_cmp(&b.as_double()))
    };
    pairs.order_by(|(a, _), (b, _)| order(a, b));
    Ok(Val::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

/// Appends the items, and in place of a list its items, down to this depth.
fn flatten<'a>(
    items: Vec<Val<'a>>,
    depth: i64,
    flat: &mut Vec<Val<'a>>,
    budget: &mut Budget,
) -> Result<(), Error> {
    for item in items {
        if depth == 0 || item.type_name() != "list" {
            flat.push(item);
        } else {
            budget.take(item.size().unwrap_or_default() as u64)?;
            flatten(item.items().unwrap_or_default(), depth - 1, flat, budget)?;
        }
    }
    Ok(())
}

fn convert<'a>(to: &str, value: &Val<'a>) -> Option<Outcome<'a>> {
    let bad =
        |from: &str, text: &str| other(format!("type conversion error from '{from}' to '{to}': {text}"));
    Some(match (to, value) {
        ("string", Val::Text(_))
        | ("bytes", Val::Bytes(_))
        | ("bool", Val::Bool(_))
        | ("int", Val::Int(_))
        | ("uint", Val::Uint(_))
        | ("double", Val::Double(_))
        | ("timestamp", Val::Time(_))
        | ("duration", Val::Duration(_)) => Ok(value.clone()),
        ("string", Val::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Val::text(text)),
            Err(_) => Err(other("invalid UTF-8 in bytes, cannot convert to string")),
        },
        (
            "string",
            Val::Map(_)
            | Val::List(_)
            | Val::Joined(..)
            | Val::Json(..)
            | Val::Null
            | Val::Optional(_)
            | Val::SemanticVersion(_),
        ) => return None,
        ("string", value) => Ok(Val::text(value.to_display_string())),
        ("bytes", Val::Text(text)) => Ok(Val::Bytes(text.as_bytes().into())),
        ("bool", Val::Text(text)) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Val::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Val::Bool(false)),
            text => Err(bad("string", text)),
        },
        ("int", Val::Uint(number)) => {
            i64::try_from(*number).map(Val::Int).map_err(|_| other("integer overflow"))
        }
        // As in cel-go, the bounds are exclusive: 2^63 in either direction, and 2^64.
        ("int", Val::Double(number)) if number.abs() < 2_f64.powi(63) => Ok(Val::Int(*number as i64)),
        ("int", Val::Double(_)) => Err(other("integer overflow")),
        ("int", Val::Text(text)) => text.parse().map(Val::Int).map_err(|_| bad("string", text)),
        ("int", Val::Time(time)) => Ok(Val::Int(time.as_second())),
        ("uint", Val::Int(number)) => {
            u64::try_from(*number).map(Val::Uint).map_err(|_| other("unsigned integer overflow"))
        }
        ("uint", Val::Double(number)) if (0.0..2_f64.powi(64)).contains(number) => {
            Ok(Val::Uint(*number as u64))
        }
        ("uint", Val::Double(_)) => Err(other("unsigned integer overflow")),
        ("uint", Val::Text(text)) => text.parse().map(Val::Uint).map_err(|_| bad("string", text)),
        ("double", Val::Int(_) | Val::Uint(_)) => Ok(Val::Double(value.as_double())),
        ("double", Val::Text(text)) => text.parse().map(Val::Double).map_err(|_| bad("string", text)),
        ("timestamp", Val::Text(text)) => text.parse().map(Val::Time).map_err(|_| bad("string", text)),
        ("timestamp", Val::Int(second)) => {
            Timestamp::from_second(*second).map(Val::Time).map_err(|_| other("timestamp overflow"))
        }
        ("duration", Val::Text(text)) => duration(text).map(Val::Duration).ok_or_else(|| bad("string", text)),
        _ => return None,
    })
}

fn quantities<'a>(name: &str, values: &[Val<'a>]) -> Option<Outcome<'a>> {
    let amount = |value: &Val<'a>| match value {
        Val::Quantity(amount) => Some(*amount),
        _ => None,
    };
    Some(Ok(match (name, values) {
        ("quantity", [Val::Text(text)]) => match Amount::parse(text) {
            Ok(amount) => Val::Quantity(amount),
            Err(error) => return Some(Err(other(error.to_string()))),
        },
        ("isQuantity", [Val::Text(text)]) => Val::Bool(Amount::parse(text).is_ok()),
        ("sign", [Val::Quantity(amount)]) => Val::Int(match amount {
            amount if amount.is_negative() => -1,
            amount if amount.is_zero() => 0,
            _ => 1,
        }),
        ("isInteger", [Val::Quantity(amount)]) => Val::Bool(amount.as_f64().fract() == 0.0),
        ("asInteger", [Val::Quantity(amount)]) if amount.as_f64().fract() == 0.0 => Val::Int(amount.units()),
        ("asInteger", [Val::Quantity(_)]) => {
            return Some(Err(other("cannot convert value to integer")));
        }
        ("asApproximateFloat", [Val::Quantity(amount)]) => Val::Double(amount.as_f64()),
        ("isGreaterThan" | "isLessThan" | "compareTo", [a, b]) => {
            let order = amount(a)?.cmp(&amount(b)?);
            match name {
                "isGreaterThan" => Val::Bool(order == Ordering::Greater),
                "isLessThan" => Val::Bool(order == Ordering::Less),
                _ => Val::Int(order as i64),
            }
        }
        ("add" | "sub", [Val::Quantity(a), b]) => {
            let b = match b {
                Val::Quantity(b) => *b,
                Val::Int(b) => Amount::from_units(*b),
                _ => return None,
            };
            Val::Quantity(if name == "add" { *a + b } else { *a - b })
        }
        _ => return None,
    }))
}

fn versions<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let parsed = |text: &str, normalize: &[Val<'_>]| match normalize {
        [] => Some(SemanticVersion::parse(text, false)),
        [Val::Bool(normalize)] => Some(SemanticVersion::parse(text, *normalize)),
        _ => None,
    };
    let part = |part: u64| Val::Int(part.cast_signed());
    Some(Ok(match (name, values) {
        ("semver", [Val::Text(text), normalize @ ..]) => {
            let version = parsed(text, normalize)?.map_err(other);
            return Some(version.map(|version| Val::SemanticVersion(Rc::new(version))));
        }
        ("isSemver", [Val::Text(text), normalize @ ..]) => Val::Bool(parsed(text, normalize)?.is_ok()),
        ("major", [Val::SemanticVersion(version)]) => part(version.major),
        ("minor", [Val::SemanticVersion(version)]) => part(version.minor),
        ("patch", [Val::SemanticVersion(version)]) => part(version.patch),
        (
            "isGreaterThan" | "isLessThan" | "compareTo",
            [Val::SemanticVersion(a), Val::SemanticVersion(b)],
        ) => {
            if let Err(error) = budget.take(a.bytes().min(b.bytes()) as u64 / 10) {
                return Some(Err(error));
            }
            let order = a.cmp(b);
            match name {
                "isGreaterThan" => Val::Bool(order == Ordering::Greater),
                "isLessThan" => Val::Bool(order == Ordering::Less),
                _ => Val::Int(order as i64),
            }
        }
        _ => return None,
    }))
}

fn address(text: &str) -> Result<IpAddr, Error> {
    let strict = || other(format!("IP Address '{text}' parse error during conversion from string"));
    // Go accepts neither a zone nor an IPv4 address in IPv6 form.
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => Err(strict()),
        Ok(address) => Ok(address),
        Err(_) => Err(strict()),
    }
}

fn addresses<'a>(name: &str, values: &[Val<'a>]) -> Option<Outcome<'a>> {
    let range = |text: &str| {
        text.parse::<IpNet>()
            .map_err(|_| other(format!("network address '{text}' parse error during conversion from string")))
    };
    Some(Ok(match (name, values) {
        ("ip", [Val::Text(text)]) => return Some(address(text).map(Val::Address)),
        ("isIP", [Val::Text(text)]) => Val::Bool(address(text).is_ok()),
        ("ip.isCanonical", [Val::Text(text)]) => {
            return Some(address(text).map(|address| Val::Bool(address.to_string() == **text)));
        }
        ("family", [Val::Address(address)]) => Val::Int(if address.is_ipv4() { 4 } else { 6 }),
        ("isUnspecified", [Val::Address(address)]) => Val::Bool(address.is_unspecified()),
        ("isLoopback", [Val::Address(address)]) => Val::Bool(address.is_loopback()),
        ("isLinkLocalMulticast", [Val::Address(address)]) => Val::Bool(match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }),
        ("isLinkLocalUnicast", [Val::Address(address)]) => Val::Bool(match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }),
        ("isGlobalUnicast", [Val::Address(address)]) => Val::Bool(match address {
            IpAddr::V4(v4) => {
                !(v4.is_unspecified()
                    || v4.is_loopback()
                    || v4.is_multicast()
                    || v4.is_link_local()
                    || v4.is_broadcast())
            }
            IpAddr::V6(v6) => {
                !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || v6.is_unicast_link_local())
            }
        }),
        ("cidr", [Val::Text(text)]) => return Some(range(text).map(Val::Range)),
        ("isCIDR", [Val::Text(text)]) => Val::Bool(range(text).is_ok()),
        ("containsIP", [Val::Range(range), Val::Address(address)]) => Val::Bool(range.contains(address)),
        ("containsIP", [Val::Range(range), Val::Text(text)]) => {
            return Some(address(text).map(|address| Val::Bool(range.contains(&address))));
        }
        ("containsCIDR", [Val::Range(outer), Val::Range(inner)]) => Val::Bool(outer.contains(inner)),
        ("containsCIDR", [Val::Range(outer), Val::Text(text)]) => {
            return Some(range(text).map(|inner| Val::Bool(outer.contains(&inner))));
        }
        ("ip", [Val::Range(range)]) => Val::Address(range.addr()),
        ("prefixLength", [Val::Range(range)]) => Val::Int(range.prefix_len().into()),
        ("masked", [Val::Range(range)]) => Val::Range(range.trunc()),
        _ => return None,
    }))
}

fn url(text: &str) -> Result<http::Uri, Error> {
    let uri = text.parse::<http::Uri>().ok();
    // Kubernetes accepts a path from the root, or an absolute URL.
    let uri = uri.filter(|uri| text.starts_with('/') || uri.scheme().is_some());
    uri.ok_or_else(|| {
        other(format!(
            "URL parse error during conversion from string: parse \"{text}\": invalid URI for request"
        ))
    })
}

fn urls<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    Some(Ok(match (name, values) {
        ("url", [Val::Text(text)]) => return Some(url(text).map(|url| Val::Url(Rc::new(url)))),
        ("isURL", [Val::Text(text)]) => Val::Bool(url(text).is_ok()),
        ("getScheme", [Val::Url(url)]) => Val::text(url.scheme_str().unwrap_or_default()),
        ("getHost", [Val::Url(url)]) => {
            let authority = url.authority().map_or("", http::uri::Authority::as_str);
            Val::text(authority.rsplit('@').next().unwrap_or_default())
        }
        ("getHostname", [Val::Url(url)]) => {
            Val::text(url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']'))
        }
        ("getPort", [Val::Url(url)]) => {
            Val::text(url.port().map_or_else(String::new, |port| port.to_string()))
        }
        ("getEscapedPath", [Val::Url(url)]) => Val::text(url.path()),
        ("getQuery", [Val::Url(url)]) => {
            if let Err(error) = budget.take(url.query().unwrap_or_default().len() as u64) {
                return Some(Err(error));
            }
            let mut query: BTreeMap<String, Vec<Val<'a>>> = BTreeMap::new();
            for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let decoded = |text: &str| {
                    let text = text.replace('+', " ");
                    percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
                };
                query.entry(decoded(key)).or_default().push(Val::text(decoded(value)));
            }
            let entries = query.into_iter().map(|(key, values)| (Val::text(key), Val::list(values)));
            Val::Map(Rc::new(entries.collect()))
        }
        _ => return None,
    }))
}

fn sets<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let [a, b] = values else { return None };
    let name = name.strip_prefix("sets.")?;
    let (a, b) = (a.items()?, b.items()?);
    if let Err(error) = budget.take((a.len() + b.len()) as u64) {
        return Some(Err(error));
    }
    // Counts the items of `of` that are also in `all`.
    let mut among = |of: &[Val<'a>], all: &[Val<'a>]| -> Result<usize, Error> {
        let mut count = 0;
        for item in of {
            count += usize::from(position(all.iter(), item, budget)?.is_some());
        }
        Ok(count)
    };
    let holds = match name {
        "contains" => among(&b, &a).map(|count| count == b.len()),
        "equivalent" => among(&a, &b).and_then(|of_a| Ok(of_a == a.len() && among(&b, &a)? == b.len())),
        "intersects" => among(&a, &b).map(|count| count > 0),
        _ => return None,
    };
    Some(holds.map(Val::Bool))
}

fn numbers<'a>(name: &str, values: &[Val<'a>]) -> Option<Outcome<'a>> {
    let preferred = match name {
        "math.greatest" => Ordering::Greater,
        "math.least" => Ordering::Less,
        _ => return None,
    };
    let of = match values {
        [list] => list.items()?,
        several => several.to_vec(),
    };
    let better = |best: Val<'a>, item: Val<'a>| {
        if item.compare(&best).flatten() == Some(preferred) { item } else { best }
    };
    of.into_iter().reduce(better).map(Ok)
}

fn times<'a>(name: &str, values: &[Val<'a>]) -> Option<Outcome<'a>> {
    if let [Val::Duration(duration)] = values {
        return Some(Ok(Val::Int(match name {
            "getHours" => duration.as_hours(),
            "getMinutes" => duration.as_mins(),
            "getSeconds" => duration.as_secs(),
            "getMilliseconds" => i64::from(duration.subsec_millis()),
            _ => return None,
        })));
    }
    let (time, zone) = match values {
        [Val::Time(time)] => (time, TimeZone::UTC),
        [Val::Time(time), Val::Text(zone)] => match base::time_zone::time_zone(zone) {
            Ok(zone) => (time, zone),
            Err(_) => return Some(Err(other(format!("unknown time zone {}", &**zone)))),
        },
        _ => return None,
    };
    let zoned = time.to_zoned(zone);
    Some(Ok(Val::Int(match name {
        "getFullYear" => zoned.year().into(),
        "getMonth" => i64::from(zoned.month()) - 1,
        "getDate" => zoned.day().into(),
        "getDayOfMonth" => i64::from(zoned.day()) - 1,
        "getDayOfYear" => i64::from(zoned.day_of_year()) - 1,
        "getDayOfWeek" => zoned.weekday().to_sunday_zero_offset().into(),
        "getHours" => zoned.hour().into(),
        "getMinutes" => zoned.minute().into(),
        "getSeconds" => zoned.second().into(),
        "getMilliseconds" => zoned.millisecond().into(),
        _ => return None,
    })))
}
