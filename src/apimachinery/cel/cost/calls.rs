//! The costs of functions by the sizes of their arguments, and the sizes of their results.

use super::kind::Kind;
use super::size::{PER_LETTER, PER_PATTERN_LETTER, Size, scaled};
use super::{Entries, MAKE_LIST, Value, ValueOrigin};
use crate::cel::check;
use crate::cel::syntax::{Expr, ExprKind, Literal};
use crate::cel::types::Type;

/// The cost of an authorizer check: the limit of an expression in Kubernetes allows two.
const CHECK: u64 = 350_000;
/// The length of a named format's pattern that the cost of `validate` assumes.
const FORMAT_PATTERN: f64 = 128.0;
/// The length of a named format that the cost of a comparison assumes.
const FORMAT_LETTERS: u64 = 64;
/// The size of an address in bytes.
const ADDRESS: u64 = 16;

/// The cost of a call without its arguments.
pub(super) struct CallEstimate {
    pub(super) cost: u64,
    /// The size of the result, if it follows from those of the arguments.
    pub(super) size: Option<Size>,
    pub(super) entries: Option<Entries>,
}

impl CallEstimate {
    fn of(cost: u64) -> Self {
        Self { cost, size: None, entries: None }
    }

    fn sized(cost: u64, size: Size) -> Self {
        Self { size: Some(size), ..Self::of(cost) }
    }

    /// Returns the estimate of a call that creates a list of this many items.
    fn list(size: Size, per_item: f64) -> Self {
        Self::sized(size.cost(per_item).saturating_add(1 + MAKE_LIST), size)
    }
}

/// Returns the cost of a function with these arguments; `nodes` are the arguments' expressions.
pub(super) fn call_estimate<'d>(
    name: &str,
    target: Option<&Value<'d>>,
    args: &[&Value<'d>],
    nodes: &[Expr],
) -> CallEstimate {
    let traversed = |of: &Value<'d>| of.size().cost(PER_LETTER);
    match (name, target, args) {
        ("check", ..) => CallEstimate::of(CHECK),
        ("fieldSelector" | "labelSelector", _, [selector]) => {
            CallEstimate::of(selector_cost(selector.size()))
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes", Some(of), _) => {
            CallEstimate::of(searched(name, of))
        }
        ("url" | "jsonpatch.escapeKey", _, [of]) => CallEstimate::sized(traversed(of), of.size()),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(of), _) => {
            CallEstimate::sized(traversed(of), of.size())
        }
        ("replace", Some(of), [replaced, with, ..]) => {
            let size = replaced_size(of.size(), replaced.size(), with.size());
            CallEstimate::sized(of.size().cost(2.0 * PER_LETTER), size)
        }
        ("split", Some(of), _) => {
            let most = nodes.get(1).and_then(integer).map(|most| most as u64);
            let size = Size::up_to(most.unwrap_or(of.size().max));
            CallEstimate::sized(of.size().cost(2.0 * PER_LETTER), size)
        }
        ("join", Some(of), _) => {
            let list = of.size();
            let item = list_item(of).map_or(Size::exactly(0), |item| list.times(item.size()));
            let between = Size { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
            let size = args.first().map_or(item, |with| item.plus(with.size().times(between)));
            CallEstimate::sized(size.cost(PER_LETTER), size)
        }
        ("find" | "findAll", Some(of), [pattern, ..]) => {
            CallEstimate::sized(matched(of.size(), pattern.size()), Size::up_to(of.size().max))
        }
        ("matches", Some(of), [pattern]) => CallEstimate::of(matched(of.size(), pattern.size())),
        ("contains", Some(of), [part]) => CallEstimate::of(traversed(of).saturating_mul(traversed(part))),
        ("startsWith" | "endsWith", Some(_), [part]) => CallEstimate::of(traversed(part)),
        ("cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [of, ..]) => {
            CallEstimate::of(traversed(of))
        }
        ("ip", None, [of]) => CallEstimate::of(traversed(of)),
        ("ip.isCanonical", _, [of]) => CallEstimate::of(of.size().cost(2.0 * PER_LETTER)),
        ("containsIP" | "containsCIDR", Some(_), [of]) => {
            let mut cost = scaled(2 * ADDRESS, PER_LETTER);
            if name == "containsCIDR" {
                cost += scaled(ADDRESS, PER_LETTER) + 1;
            }
            let parsed = if matches!(of.kind, Kind::Text | Kind::Dyn) { traversed(of) } else { 0 };
            CallEstimate::of(cost.saturating_add(parsed))
        }
        ("validate", _, [of]) => CallEstimate::of(scaled(traversed(of), FORMAT_PATTERN * PER_PATTERN_LETTER)),
        ("strings.quote", _, [of]) => {
            let size = of.size();
            // Each letter may be escaped; two quotation marks.
            CallEstimate::sized(traversed(of), size.plus(Size::up_to(size.max)).plus(Size::exactly(2)))
        }
        ("format", Some(of), _) => CallEstimate::of(traversed(of)),
        ("bytes", _, [of]) if matches!(of.kind, Kind::Text | Kind::Dyn) => {
            let size = of.size();
            CallEstimate::sized(traversed(of), Size { max: size.max.saturating_mul(4), ..size })
        }
        ("string", _, [of]) if matches!(of.kind, Kind::Bytes | Kind::Dyn) => {
            let size = of.size();
            CallEstimate::sized(traversed(of), Size { min: size.min / 4, ..size })
        }
        ("@in", _, [_, of]) if matches!(of.kind, Kind::List(_) | Kind::Dyn) => {
            CallEstimate::of(of.size().max)
        }
        ("_==_" | "_!=_", _, [a, b]) => CallEstimate::of(compared(name, a, b)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", _, [a, b]) if may_be_letters(a, b) => {
            CallEstimate::of(compared(name, a, b))
        }
        ("_+_", _, [a, b]) => added(a, b),
        (_, target, args) => list_price(name, target, args, nodes).unwrap_or(CallEstimate::of(1)),
    }
}

/// Returns the cost of a function of a list, or of two lists as sets; `None` for other functions.
fn list_price<'d>(
    name: &str,
    target: Option<&Value<'d>>,
    args: &[&Value<'d>],
    nodes: &[Expr],
) -> Option<CallEstimate> {
    let number = |at: usize, otherwise: u64| {
        nodes.get(at).and_then(integer).map_or(otherwise, |n| u64::try_from(n).unwrap_or(0))
    };
    Some(match (name, target, args) {
        ("slice", Some(of), [_, _]) => {
            let (start, end) = (number(0, 0), number(1, of.size().max));
            CallEstimate::list(Size::exactly(end.saturating_sub(start)), 1.0)
        }
        ("lists.range", None, [_]) => CallEstimate::list(Size::exactly(number(0, u64::MAX)), 1.0),
        ("reverse", Some(of), []) => CallEstimate::list(of.size(), 1.0),
        ("flatten", Some(of), [] | [_]) => {
            let depth = if args.is_empty() { 1 } else { number(0, u64::MAX) };
            CallEstimate::list(of.size(), depth as f64)
        }
        ("distinct", Some(of), []) => CallEstimate::list(of.size().times(of.size()), 2.0),
        ("sort", Some(of), []) | ("@sortByAssociatedKeys", Some(_), &[of]) => {
            let letters = if of.kind.element().is_letters() { PER_LETTER } else { 0.0 };
            CallEstimate::list(of.size().times(of.size()), 2.0 + letters)
        }
        ("sets.contains" | "sets.intersects" | "sets.equivalent", None, [a, b]) => {
            let factor = if name == "sets.equivalent" { 2.0 } else { 1.0 };
            CallEstimate::of(a.size().times(b.size()).cost(factor).saturating_add(1))
        }
        _ => return None,
    })
}

/// Returns the cost of looking at each item of a list, or each letter of a string.
fn searched(name: &str, of: &Value<'_>) -> u64 {
    match list_item(of) {
        Some(item) => {
            let letters = if item.kind.is_letters() { item.size().cost(PER_LETTER) } else { 0 };
            of.size().max.saturating_mul(letters.saturating_add(1))
        }
        None if name == "includes" => of.size().max,
        None => of.size().cost(PER_LETTER),
    }
}

/// Returns an item of a list by its schema; for computed lists only the item's type is known.
fn list_item<'d>(list: &Value<'d>) -> Option<Value<'d>> {
    let Kind::List(item) = &list.kind else { return None };
    let declared = match list.origin {
        ValueOrigin::At(Some(declared)) => declared.element(),
        _ => None,
    };
    let size = declared.map(|declared| Size::up_to(declared.max));
    Some(Value { origin: ValueOrigin::None, kind: (**item).clone(), size, entries: None })
}

fn integer(node: &Expr) -> Option<i64> {
    match &node.kind {
        ExprKind::Literal(Literal::Int(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the cost of a selector: it is traversed, and parsed into as many requirements as its length
/// permits.
fn selector_cost(size: Size) -> u64 {
    let requirements = size.cost(0.5);
    MAKE_LIST.saturating_add(size.cost(PER_LETTER)).saturating_add(requirements.saturating_mul(50))
}

/// Returns the cost of matching a string with a pattern; the empty string costs too.
fn matched(of: Size, pattern: Size) -> u64 {
    of.plus(Size::exactly(1)).cost(PER_LETTER).saturating_mul(pattern.cost(PER_PATTERN_LETTER))
}

fn compared(name: &str, a: &Value<'_>, b: &Value<'_>) -> u64 {
    match (&a.kind, &b.kind) {
        (Kind::Extension(one), Kind::Extension(other)) if name == "_==_" && one == other => match *one {
            "quantity" | "ip" | "cidr" | "semver" => 1,
            "format" => scaled(FORMAT_LETTERS, PER_LETTER),
            "url" => b.size.unwrap_or(Size::exactly(1)).cost(PER_LETTER),
            _ => scaled(a.size().max.min(b.size().max), PER_LETTER),
        },
        _ => scaled(a.size().max.min(b.size().max), PER_LETTER),
    }
}

fn may_be_letters(a: &Value<'_>, b: &Value<'_>) -> bool {
    [a, b].into_iter().all(|value| value.kind.is_letters() || value.kind.is_dyn())
}

fn added(a: &Value<'_>, b: &Value<'_>) -> CallEstimate {
    let size = a.size().plus(b.size());
    let entries = a.entries.zip(b.entries).map(|(a, b)| a.or(b));
    let kind = if a.kind.is_dyn() { &b.kind } else { &a.kind };
    match kind {
        Kind::Text | Kind::Bytes | Kind::Dyn => {
            CallEstimate { entries, ..CallEstimate::sized(size.cost(PER_LETTER), size) }
        }
        Kind::List(_) => CallEstimate { entries, ..CallEstimate::sized(1, size) },
        _ => CallEstimate::of(1),
    }
}

/// Returns the size of a string after replacements.
fn replaced_size(of: Size, part: Size, with: Size) -> Size {
    let per = |whole: u64, part: u64| (whole as f64 / part as f64).ceil() as u64;
    // An empty part matches around each letter; otherwise the string grows most with the most matches, if the
    // replacement is longer.
    let (most, retained_most) = match part.min {
        0 => (of.max.saturating_add(1), of.max),
        least if with.max <= least => (0, of.max),
        least => (per(of.max, least), 0),
    };
    let (fewest, retained_fewest) = match part.max {
        0 => (of.min.saturating_add(1), of.min),
        longest if longest <= with.min => (0, of.min),
        longest => (per(of.min, longest), 0),
    };
    let count = Size { min: fewest, max: most };
    count.times(with).plus(Size { min: retained_fewest, max: retained_most })
}

/// Returns the type of a function's result.
pub(super) fn result<'d>(
    name: &str,
    target: Option<&Value<'d>>,
    args: &[&Value<'d>],
    nodes: &[Expr],
) -> Kind<'d> {
    let first = target.or_else(|| args.first().copied()).map_or(Kind::Dyn, |value| value.kind.clone());
    match name {
        "split" | "findAll" => Kind::list(Kind::Text),
        "slice" | "distinct" | "sort" | "@sortByAssociatedKeys" | "reverse" | "or" | "-_" => first,
        "flatten" => match first.element() {
            nested @ Kind::List(_) => nested,
            _ => first,
        },
        "lists.range" => Kind::list(Kind::Int),
        "sum" | "min" | "max" => first.element(),
        "first" | "last" | "_[?_]" => Kind::optional(first.element()),
        "value" | "orValue" => match first {
            Kind::Optional(of) => (*of).clone(),
            _ => Kind::Dyn,
        },
        "optional.of" | "optional.ofNonZeroValue" => Kind::optional(first),
        "optional.none" => Kind::optional(Kind::Dyn),
        "_?._" => match (first, nodes.get(1).map(|node| &node.kind)) {
            (Kind::Optional(of), Some(ExprKind::Literal(Literal::Text(name)))) => {
                Kind::optional(of.field(name))
            }
            (of, Some(ExprKind::Literal(Literal::Text(name)))) => Kind::optional(of.field(name)),
            _ => Kind::optional(Kind::Dyn),
        },
        "_+_" | "_-_" | "_*_" | "_/_" | "_%_" => {
            arithmetic(name, &first, args.get(1).map(|value| &value.kind))
        }
        "quantity" | "add" | "sub" => Kind::Extension("quantity"),
        "ip" => Kind::Extension("ip"),
        "cidr" | "masked" => Kind::Extension("cidr"),
        "url" => Kind::Extension("url"),
        "semver" => Kind::Extension("semver"),
        "type" => Kind::Extension("type"),
        "getQuery" => Kind::map(Kind::Text, Kind::list(Kind::Text)),
        "format.named" => Kind::optional(Kind::Extension("format")),
        name if name.starts_with("format.") => Kind::Extension("format"),
        "validate" => Kind::optional(Kind::list(Kind::Text)),
        name => match check::result_of(name) {
            Some(Type::Bool) => Kind::Bool,
            Some(Type::Int) => Kind::Int,
            Some(Type::Text) => Kind::Text,
            Some(Type::Double) => Kind::Double,
            Some(Type::Uint) => Kind::Uint,
            Some(Type::Bytes) => Kind::Bytes,
            Some(Type::Time) => Kind::Time,
            Some(Type::Duration) => Kind::Duration,
            _ => Kind::Dyn,
        },
    }
}

fn arithmetic<'d>(name: &str, a: &Kind<'d>, b: Option<&Kind<'d>>) -> Kind<'d> {
    let Some(b) = b else { return Kind::Dyn };
    match (a, b) {
        (Kind::Time, Kind::Time) if name == "_-_" => Kind::Duration,
        (Kind::Time, _) | (_, Kind::Time) => Kind::Time,
        (Kind::Dyn, known) | (known, Kind::Dyn) => known.clone(),
        // The item type of an empty list is unknown.
        (Kind::List(item), Kind::List(_)) if item.is_dyn() => b.clone(),
        _ => a.clone(),
    }
}
