//! The functions that CEL expressions can call: CEL's own, and Kubernetes' libraries for strings, lists, regular
//! expressions, quantities, versions, addresses, URLs, sets and formats.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use ipnet::IpNet;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use regex::Regex;

use super::durations::duration;
use super::operators::position;
use super::semver::SemanticVersion;
use super::values::{FunctionResult, Outcome, Text, Val};
use super::{Budget, Error, format, named_formats, other};
use crate::{formats, pattern};
use base::sort::SliceOrder;
use object::quantity::Amount;

/// A library of functions.
type Library = for<'a> fn(&str, &[Val<'a>], &mut Budget) -> FunctionResult<'a>;

const LIBRARIES: [Library; 6] = [quantities, versions, addresses, urls, sets, times];

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
    let of_receiver = match values {
        [Val::Text(text), rest @ ..] if on_value => of_text(name, text, rest, pattern, budget)?,
        [Val::Authority(authority), rest @ ..] if on_value => authority.call(name, rest, budget)?,
        [list, rest @ ..] if on_value && list.type_name() == "list" => of_list(name, list, rest, budget)?,
        _ => None,
    };
    if let Some(value) = of_receiver {
        return Ok(value);
    }
    let found = library(name, on_value, values, pattern, budget)?;
    found.ok_or_else(|| Error::Overload(name.trim_start_matches('@').to_string()))
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
) -> FunctionResult<'a> {
    Ok(Some(match (name, values) {
        ("size", [value]) => return Ok(value.size().map(int)),
        ("dyn", [value]) if !on_value => value.clone(),
        ("type", [value]) if !on_value => Val::Type(value.type_name()),
        ("matches", [Val::Text(text), Val::Text(by)]) if !on_value => matches(text, by, pattern, budget)?,
        ("string" | "int" | "uint" | "double" | "bool" | "bytes" | "timestamp" | "duration", [value])
            if !on_value =>
        {
            return convert(name, value);
        }
        ("optional.of", [value]) => Val::some(value.clone()),
        ("optional.none", []) => Val::Optional(None),
        ("optional.ofNonZeroValue", [value]) => {
            let is_zero = match value {
                Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) => true,
                Val::Double(number) => *number == 0.0,
                value => value.size() == Some(0),
            };
            if is_zero { Val::Optional(None) } else { Val::some(value.clone()) }
        }
        ("hasValue", [Val::Optional(value)]) => Val::Bool(value.is_some()),
        ("value", [Val::Optional(value)]) => {
            value.as_deref().ok_or_else(|| other("optional.none() dereference"))?.clone()
        }
        ("orValue", [Val::Optional(value), or]) => value.as_deref().unwrap_or(or).clone(),
        ("or", [Val::Optional(value), or]) => {
            if value.is_some() {
                values[0].clone()
            } else {
                or.clone()
            }
        }
        ("jsonpatch.escapeKey", [Val::Text(key)]) => Val::text(key.replace('~', "~0").replace('/', "~1")),
        ("lists.range", [Val::Int(count)]) => {
            let count = (*count).max(0);
            budget.take(count.unsigned_abs())?;
            Val::list((0..count).map(Val::Int).collect())
        }
        ("math.greatest" | "math.least", numbers) => {
            let numbers = match numbers {
                [list] => list.items().unwrap_or_default(),
                several => several.to_vec(),
            };
            let preferred = if name == "math.greatest" { Ordering::Greater } else { Ordering::Less };
            let better = |best: Val<'a>, item: Val<'a>| {
                if item.compare(&best).flatten() == Some(preferred) { item } else { best }
            };
            return Ok(numbers.into_iter().reduce(better));
        }
        ("strings.quote", [Val::Text(text)]) => Val::text(format::quoted(text)),
        ("format.named", [Val::Text(text)]) => {
            named_formats::find(text).map_or(Val::Optional(None), |name| Val::some(Val::Format(name)))
        }
        (name, []) if name.starts_with("format.") => {
            return Ok(named_formats::find(&name["format.".len()..]).map(Val::Format));
        }
        ("validate", [Val::Format(format), Val::Text(text)]) => {
            let wrong = named_formats::validate(format, text);
            if wrong.is_empty() {
                Val::Optional(None)
            } else {
                Val::some(Val::list(wrong.into_iter().map(Val::text).collect()))
            }
        }
        _ => {
            for library in LIBRARIES {
                if let Some(value) = library(name, values, budget)? {
                    return Ok(Some(value));
                }
            }
            return Ok(None);
        }
    }))
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

fn out_of_range(at: i64) -> Error {
    other(format!("index out of range: {at}"))
}

/// Returns the limit that a call may give as its last argument; `None` if that is not a limit.
fn limit(most: &[Val<'_>]) -> Option<usize> {
    match most {
        [] => Some(usize::MAX),
        [Val::Int(most)] => Some(usize::try_from(*most).unwrap_or(usize::MAX)),
        _ => None,
    }
}

fn of_text<'a>(
    name: &str,
    text: &Text<'a>,
    rest: &[Val<'a>],
    pattern: Option<&Regex>,
    budget: &mut Budget,
) -> FunctionResult<'a> {
    let texts = |parts: Vec<String>| Val::list(parts.into_iter().map(Val::text).collect());
    let place = |found: Option<usize>| found.map_or(Val::Int(-1), |at| int(text[..at].chars().count()));
    let letter = |at: i64, most: usize| usize::try_from(at).ok().filter(|at| *at <= most);
    Ok(Some(match (name, rest) {
        ("startsWith", [Val::Text(part)]) => Val::Bool(text.starts_with(&**part)),
        ("endsWith", [Val::Text(part)]) => Val::Bool(text.ends_with(&**part)),
        ("contains", [Val::Text(part)]) => Val::Bool(text.contains(&**part)),
        ("matches", [Val::Text(by)]) => matches(text, by, pattern, budget)?,
        ("find", [Val::Text(by)]) => {
            let compiled = compiled(text, by, pattern, budget)?;
            let found = pattern.or(compiled.as_ref()).and_then(|pattern| pattern.find(text));
            Val::text(found.map_or("", |found| found.as_str()))
        }
        ("findAll", [Val::Text(by), most @ ..]) => {
            let Some(most) = limit(most) else { return Ok(None) };
            let compiled = compiled(text, by, pattern, budget)?;
            budget.take(text.len() as u64)?;
            let mut all = Vec::new();
            for found in
                pattern.or(compiled.as_ref()).into_iter().flat_map(|by| by.find_iter(text)).take(most)
            {
                all.push(found.as_str().to_string());
                // For each match, a pattern may read to the end of the text.
                budget.take((text.len() - found.end()) as u64 / 10)?;
            }
            texts(all)
        }
        ("format", [list]) => {
            budget.take(list.size().unwrap_or_default() as u64)?;
            let Some(arguments) = list.items() else { return Ok(None) };
            Val::text(format::format(text, &arguments, budget)?)
        }
        ("lowerAscii", []) => Val::text(text.to_ascii_lowercase()),
        ("upperAscii", []) => Val::text(text.to_ascii_uppercase()),
        ("trim", []) => Val::text(text.trim()),
        ("reverse", []) => Val::text(text.chars().rev().collect::<String>()),
        ("charAt", [Val::Int(at)]) => {
            let place = letter(*at, text.chars().count()).ok_or_else(|| out_of_range(*at))?;
            Val::text(text.chars().nth(place).map(String::from).unwrap_or_default())
        }
        ("indexOf", [Val::Text(part)]) => place(text.find(&**part)),
        ("lastIndexOf", [Val::Text(part)]) => place(text.rfind(&**part)),
        ("indexOf" | "lastIndexOf", [Val::Text(part), Val::Int(from)]) => {
            let from = usize::try_from(*from).map_err(|_| out_of_range(*from))?;
            match text.char_indices().nth(from) {
                // The empty string is everywhere, lastly at the end.
                _ if part.is_empty() => int(from.min(text.chars().count())),
                None => Val::Int(-1),
                Some((at, _)) if name == "indexOf" => place(text[at..].find(&**part).map(|found| at + found)),
                Some((at, _)) => place(text[..text.floor_char_boundary(at + part.len())].rfind(&**part)),
            }
        }
        ("substring", [Val::Int(from), end @ ..]) => {
            let count = text.chars().count();
            let end = match end {
                [Val::Int(end)] => *end,
                [] => count as i64,
                _ => return Ok(None),
            };
            match (letter(*from, count), letter(end, count)) {
                (Some(from), Some(end)) if from <= end => {
                    Val::text(text.chars().skip(from).take(end - from).collect::<String>())
                }
                (Some(_), Some(_)) => {
                    return Err(other(format!("invalid substring range. start: {from}, end: {end}")));
                }
                _ => return Err(out_of_range(*from)),
            }
        }
        ("split", [Val::Text(by), most @ ..]) => {
            let Some(most) = limit(most) else { return Ok(None) };
            budget.take(text.len() as u64)?;
            if by.is_empty() {
                texts(text.chars().map(String::from).take(most).collect())
            } else {
                texts(text.splitn(most, &**by).map(ToString::to_string).collect())
            }
        }
        ("replace", [Val::Text(from), Val::Text(to), most @ ..]) => {
            let Some(most) = limit(most) else { return Ok(None) };
            // In the worst case, `to` is inserted around each letter.
            budget.take((text.len() as u64 + 1).saturating_mul(to.len() as u64 + 1) / 10)?;
            Val::text(text.replacen(&**from, to, most))
        }
        _ => return Ok(None),
    }))
}

fn of_list<'a>(name: &str, list: &Val<'a>, rest: &[Val<'a>], budget: &mut Budget) -> FunctionResult<'a> {
    let Some(items) = list.items() else { return Ok(None) };
    budget.take(match name {
        "min" | "max" | "isSorted" => reading_cost(&items),
        _ => items.len() as u64,
    })?;
    let ordered = |a: &Val<'a>, b: &Val<'a>| a.compare(b).flatten();
    Ok(Some(match (name, rest) {
        ("isSorted", []) => {
            let mut pairs = items.windows(2);
            Val::Bool(pairs.all(|pair| ordered(&pair[0], &pair[1]) != Some(Ordering::Greater)))
        }
        ("sum", []) => {
            let mut sum = match items.first() {
                Some(Val::Double(_)) => Val::Double(0.0),
                Some(Val::Uint(_)) => Val::Uint(0),
                Some(Val::Duration(_)) => Val::Duration(SignedDuration::ZERO),
                _ => Val::Int(0),
            };
            for item in items {
                let added = super::operators::apply("_+_", &[sum, item], budget)?;
                sum = added.ok_or_else(|| other("no such overload: sum"))?;
            }
            sum
        }
        ("min" | "max", []) => {
            let preferred = if name == "min" { Ordering::Less } else { Ordering::Greater };
            let better = |best: Val<'a>, item: Val<'a>| {
                if ordered(&item, &best) == Some(preferred) { item } else { best }
            };
            let best = items.into_iter().reduce(better);
            best.ok_or_else(|| other(format!("{name} called on empty list")))?
        }
        ("indexOf", [item]) => position(items.iter(), item, budget)?.map_or(Val::Int(-1), int),
        ("lastIndexOf", [item]) => {
            let found = position(items.iter().rev(), item, budget)?;
            found.map_or(Val::Int(-1), |at| int(items.len() - 1 - at))
        }
        ("join", by) if by.len() <= 1 => {
            let by = by.first().map_or(Some(""), Val::as_text);
            let parts: Option<Vec<&str>> = items.iter().map(Val::as_text).collect();
            let (Some(by), Some(parts)) = (by, parts) else { return Ok(None) };
            let bytes: usize = parts.iter().map(|part| part.len() + by.len()).sum();
            budget.take(bytes as u64 / 10)?;
            Val::text(parts.join(by))
        }
        ("reverse", []) => Val::list(items.into_iter().rev().collect()),
        ("slice", [Val::Int(from), Val::Int(end)]) => match (usize::try_from(*from), usize::try_from(*end)) {
            (Ok(from), Ok(end)) if from <= end && end <= items.len() => Val::list(items[from..end].to_vec()),
            _ => return Err(other(format!("cannot slice({from}, {end})"))),
        },
        ("first", []) => items.first().cloned().map_or(Val::Optional(None), Val::some),
        ("last", []) => items.last().cloned().map_or(Val::Optional(None), Val::some),
        ("distinct", []) => {
            let mut seen: Vec<Val<'a>> = Vec::new();
            for item in items {
                if position(seen.iter(), &item, budget)?.is_none() {
                    seen.push(item);
                }
            }
            Val::list(seen)
        }
        ("sort", []) => sorted_by(items.clone(), items, budget)?,
        ("@sortByAssociatedKeys", [keys]) => {
            let Some(keys) = keys.items() else { return Ok(None) };
            sorted_by(items, keys, budget)?
        }
        ("flatten", depth) => {
            let depth = match depth {
                [Val::Int(depth)] => *depth,
                [] => 1,
                _ => return Ok(None),
            };
            if depth < 0 {
                return Err(other("level must be non-negative"));
            }
            let mut flat = Vec::new();
            flatten(items, depth, &mut flat, budget)?;
            Val::list(flat)
        }
        _ => return Ok(None),
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

fn convert<'a>(to: &str, value: &Val<'a>) -> FunctionResult<'a> {
    let bad =
        |from: &str, text: &str| other(format!("type conversion error from '{from}' to '{to}': {text}"));
    Ok(Some(match (to, value) {
        ("string", Val::Text(_))
        | ("bytes", Val::Bytes(_))
        | ("bool", Val::Bool(_))
        | ("int", Val::Int(_))
        | ("uint", Val::Uint(_))
        | ("double", Val::Double(_))
        | ("timestamp", Val::Time(_))
        | ("duration", Val::Duration(_)) => value.clone(),
        ("string", Val::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes);
            Val::text(text.map_err(|_| other("invalid UTF-8 in bytes, cannot convert to string"))?)
        }
        (
            "string",
            Val::Map(_)
            | Val::List(_)
            | Val::Joined(..)
            | Val::Json(..)
            | Val::Null
            | Val::Optional(_)
            | Val::SemanticVersion(_),
        ) => return Ok(None),
        ("string", value) => Val::text(value.to_display_string()),
        ("bytes", Val::Text(text)) => Val::Bytes(text.as_bytes().into()),
        ("bool", Val::Text(text)) => match &**text {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => Val::Bool(true),
            "false" | "False" | "FALSE" | "f" | "F" | "0" => Val::Bool(false),
            text => return Err(bad("string", text)),
        },
        ("int", Val::Uint(number)) => {
            Val::Int(i64::try_from(*number).map_err(|_| other("integer overflow"))?)
        }
        // As in cel-go, the bounds are exclusive: 2^63 in either direction, and 2^64.
        ("int", Val::Double(number)) if number.abs() < 2_f64.powi(63) => Val::Int(*number as i64),
        ("int", Val::Double(_)) => return Err(other("integer overflow")),
        ("int", Val::Text(text)) => Val::Int(text.parse().map_err(|_| bad("string", text))?),
        ("int", Val::Time(time)) => Val::Int(time.as_second()),
        ("int", Val::Duration(duration)) => {
            Val::Int(i64::try_from(duration.as_nanos()).map_err(|_| other("integer overflow"))?)
        }
        ("uint", Val::Int(number)) => {
            Val::Uint(u64::try_from(*number).map_err(|_| other("unsigned integer overflow"))?)
        }
        ("uint", Val::Double(number)) if (0.0..2_f64.powi(64)).contains(number) => Val::Uint(*number as u64),
        ("uint", Val::Double(_)) => return Err(other("unsigned integer overflow")),
        ("uint", Val::Text(text)) => Val::Uint(text.parse().map_err(|_| bad("string", text))?),
        ("double", Val::Int(_) | Val::Uint(_)) => Val::Double(value.as_double()),
        ("double", Val::Text(text)) => Val::Double(text.parse().map_err(|_| bad("string", text))?),
        ("timestamp", Val::Text(text)) => Val::Time(timestamp(text).ok_or_else(|| bad("string", text))?),
        ("timestamp", Val::Int(second)) => {
            Val::Time(Timestamp::from_second(*second).map_err(|_| other("timestamp overflow"))?)
        }
        ("duration", Val::Text(text)) => Val::Duration(duration(text).ok_or_else(|| bad("string", text))?),
        _ => return Ok(None),
    }))
}

/// Reads a time as Go does, in the form of RFC 3339 with capitals.
fn timestamp(text: &str) -> Option<Timestamp> {
    let is_time = formats::holds("date-time", text) && !text.contains(['t', 'z']);
    if is_time { text.parse().ok() } else { None }
}

/// Returns the result of a function that compares values with an order.
fn compared(name: &str, order: Ordering) -> Val<'static> {
    match name {
        "isGreaterThan" => Val::Bool(order == Ordering::Greater),
        "isLessThan" => Val::Bool(order == Ordering::Less),
        _ => Val::Int(order as i64),
    }
}

fn quantities<'a>(name: &str, values: &[Val<'a>], _budget: &mut Budget) -> FunctionResult<'a> {
    Ok(Some(match (name, values) {
        ("quantity", [Val::Text(text)]) => {
            Val::Quantity(Amount::parse(text).map_err(|error| other(error.to_string()))?)
        }
        ("isQuantity", [Val::Text(text)]) => Val::Bool(Amount::parse(text).is_ok()),
        ("sign", [Val::Quantity(amount)]) => Val::Int(match amount {
            amount if amount.is_negative() => -1,
            amount if amount.is_zero() => 0,
            _ => 1,
        }),
        ("isInteger", [Val::Quantity(amount)]) => Val::Bool(amount.whole_units().is_some()),
        ("asInteger", [Val::Quantity(amount)]) => {
            Val::Int(amount.whole_units().ok_or_else(|| other("cannot convert value to integer"))?)
        }
        ("asApproximateFloat", [Val::Quantity(amount)]) => Val::Double(amount.as_f64()),
        ("isGreaterThan" | "isLessThan" | "compareTo", [Val::Quantity(a), Val::Quantity(b)]) => {
            compared(name, a.cmp(b))
        }
        ("add" | "sub", [Val::Quantity(a), b]) => {
            let b = match b {
                Val::Quantity(b) => *b,
                Val::Int(b) => Amount::from_units(*b),
                _ => return Ok(None),
            };
            Val::Quantity(if name == "add" { *a + b } else { *a - b })
        }
        _ => return Ok(None),
    }))
}

fn versions<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> FunctionResult<'a> {
    let part = |part: u64| Val::Int(part.cast_signed());
    Ok(Some(match (name, values) {
        ("semver" | "isSemver", [Val::Text(text), normalize @ ..]) => {
            let normalize = match normalize {
                [] => false,
                [Val::Bool(normalize)] => *normalize,
                _ => return Ok(None),
            };
            let version = SemanticVersion::parse(text, normalize);
            if name == "isSemver" {
                Val::Bool(version.is_ok())
            } else {
                Val::SemanticVersion(Rc::new(version.map_err(other)?))
            }
        }
        ("major", [Val::SemanticVersion(version)]) => part(version.major),
        ("minor", [Val::SemanticVersion(version)]) => part(version.minor),
        ("patch", [Val::SemanticVersion(version)]) => part(version.patch),
        (
            "isGreaterThan" | "isLessThan" | "compareTo",
            [Val::SemanticVersion(a), Val::SemanticVersion(b)],
        ) => {
            budget.take(a.bytes().min(b.bytes()) as u64 / 10)?;
            compared(name, a.cmp(b))
        }
        _ => return Ok(None),
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

fn addresses<'a>(name: &str, values: &[Val<'a>], _budget: &mut Budget) -> FunctionResult<'a> {
    let range = |text: &str| {
        text.parse::<IpNet>()
            .map_err(|_| other(format!("network address '{text}' parse error during conversion from string")))
    };
    Ok(Some(match (name, values) {
        ("ip", [Val::Text(text)]) => Val::Address(address(text)?),
        ("isIP", [Val::Text(text)]) => Val::Bool(address(text).is_ok()),
        ("ip.isCanonical", [Val::Text(text)]) => Val::Bool(address(text)?.to_string() == **text),
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
        ("cidr", [Val::Text(text)]) => Val::Range(range(text)?),
        ("isCIDR", [Val::Text(text)]) => Val::Bool(range(text).is_ok()),
        ("containsIP", [Val::Range(range), Val::Address(address)]) => Val::Bool(range.contains(address)),
        ("containsIP", [Val::Range(range), Val::Text(text)]) => Val::Bool(range.contains(&address(text)?)),
        ("containsCIDR", [Val::Range(outer), Val::Range(inner)]) => Val::Bool(outer.contains(inner)),
        ("containsCIDR", [Val::Range(outer), Val::Text(text)]) => Val::Bool(outer.contains(&range(text)?)),
        ("ip", [Val::Range(range)]) => Val::Address(range.addr()),
        ("prefixLength", [Val::Range(range)]) => Val::Int(range.prefix_len().into()),
        ("masked", [Val::Range(range)]) => Val::Range(range.trunc()),
        _ => return Ok(None),
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

fn urls<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> FunctionResult<'a> {
    Ok(Some(match (name, values) {
        ("url", [Val::Text(text)]) => Val::Url(Rc::new(url(text)?)),
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
            budget.take(url.query().unwrap_or_default().len() as u64)?;
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
        _ => return Ok(None),
    }))
}

fn sets<'a>(name: &str, values: &[Val<'a>], budget: &mut Budget) -> FunctionResult<'a> {
    let ([a, b], Some(name)) = (values, name.strip_prefix("sets.")) else { return Ok(None) };
    let (Some(a), Some(b)) = (a.items(), b.items()) else { return Ok(None) };
    budget.take((a.len() + b.len()) as u64)?;
    // Counts the items of `of` that are also in `all`.
    let mut among = |of: &[Val<'a>], all: &[Val<'a>]| -> Result<usize, Error> {
        let mut count = 0;
        for item in of {
            count += usize::from(position(all.iter(), item, budget)?.is_some());
        }
        Ok(count)
    };
    Ok(Some(Val::Bool(match name {
        "contains" => among(&b, &a)? == b.len(),
        "equivalent" => among(&a, &b)? == a.len() && among(&b, &a)? == b.len(),
        "intersects" => among(&a, &b)? > 0,
        _ => return Ok(None),
    })))
}

/// Returns the time zone of this name, or at this offset from UTC: `+02:00`, `-8:30`.
fn time_zone(text: &str) -> Option<TimeZone> {
    let Some((hours, minutes)) = text.split_once(':') else { return base::time_zone::time_zone(text).ok() };
    let hours: i8 = hours.parse().ok()?;
    let minutes = minutes.parse::<i32>().ok().filter(|minutes| (0..60).contains(minutes))?;
    let minutes = i32::from(hours) * 60 + if text.starts_with('-') { -minutes } else { minutes };
    Offset::from_seconds(minutes * 60).ok().map(TimeZone::fixed)
}

fn times<'a>(name: &str, values: &[Val<'a>], _budget: &mut Budget) -> FunctionResult<'a> {
    if let [Val::Duration(duration)] = values {
        return Ok(Some(Val::Int(match name {
            "getHours" => duration.as_hours(),
            "getMinutes" => duration.as_mins(),
            "getSeconds" => duration.as_secs(),
            "getMilliseconds" => i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
            _ => return Ok(None),
        })));
    }
    let (time, zone) = match values {
        [Val::Time(time)] => (time, TimeZone::UTC),
        [Val::Time(time), Val::Text(zone)] => {
            (time, time_zone(zone).ok_or_else(|| other(format!("unknown time zone {}", &**zone)))?)
        }
        _ => return Ok(None),
    };
    let zoned = time.to_zoned(zone);
    Ok(Some(Val::Int(match name {
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
        _ => return Ok(None),
    })))
}
