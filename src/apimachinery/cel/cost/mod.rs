//! Estimates the maximum cost of an expression before it runs, from the sizes that a schema permits: the
//! estimates of cel-go's checker, with those of Kubernetes' libraries. They decide which definitions are
//! accepted, so they are identical to the unit, including their oddities: a value to which no path of fields
//! leads is assumed to be as large as the whole object.

mod calls;
mod kind;
mod size;

#[cfg(test)]
mod tests;

use self::calls::CallEstimate;
use self::kind::Kind;
use self::size::Size;
use super::decl_type::{self, DeclType, KEY};
use super::syntax::{
    ACCUMULATOR, Call, Comprehension, Expr, ExprKind, Literal, MapEntry, PairKind, PairsMacro, Select,
};

/// The cost of reading a variable or a field.
const READ: u64 = 1;
const MAKE_LIST: u64 = 10;
const MAKE_MAP: u64 = 30;
const MAKE_OBJECT: u64 = 40;

/// Returns the maximum cost of an expression whose variables have such a schema.
pub(super) fn estimate(node: &Expr, root: &DeclType) -> u64 {
    Estimator { root, scope: Vec::new() }.estimate(node).cost
}

/// The estimate for a part of an expression: its cost and its value.
struct Estimate<'d> {
    cost: u64,
    value: Value<'d>,
}

/// The known properties of a value.
#[derive(Clone, Debug)]
struct Value<'d> {
    origin: ValueOrigin<'d>,
    kind: Kind<'d>,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// The path of fields from a variable to a value.
#[derive(Clone, Copy, Debug)]
enum ValueOrigin<'d> {
    /// No path: the value is computed.
    None,
    /// The declaration at the path, if the schema has one.
    At(Option<&'d DeclType>),
}

/// The sizes of keys and values in a list or map that the expression creates.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

impl<'d> Value<'d> {
    /// Returns a computed value; its size is known if its type implies one.
    fn computed(kind: Kind<'d>, size: Option<Size>) -> Self {
        let size = size.or_else(|| kind.is_scalar().then_some(Size::exactly(1)));
        Self { origin: ValueOrigin::None, kind, size, entries: None }
    }

    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// The accumulation of a macro's values.
struct ComprehensionEstimate<'d> {
    init: Value<'d>,
    init_cost: u64,
    /// The estimate for each item.
    step: Estimate<'d>,
    result_cost: u64,
    kind: Kind<'d>,
}

struct Estimator<'d> {
    root: &'d DeclType,
    /// The variables in scope, the innermost last.
    scope: Vec<(String, Value<'d>)>,
}

impl<'d> Estimator<'d> {
    fn estimate(&mut self, node: &Expr) -> Estimate<'d> {
        match &node.kind {
            ExprKind::Literal(literal) => Estimate { cost: 0, value: of_literal(literal) },
            ExprKind::Ident(name) | ExprKind::Composed(name) => {
                Estimate { cost: READ, value: self.variable(name) }
            }
            ExprKind::Select(select) => self.select(select),
            ExprKind::Call(call) => self.call(call),
            ExprKind::List(items, _) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Message(message) => {
                let costs = message.fields.iter().map(|field| self.estimate(&field.value).cost);
                let cost = costs.fold(MAKE_OBJECT, u64::saturating_add);
                Estimate { cost, value: Value::computed(Kind::Extension("object"), None) }
            }
            ExprKind::Comprehension(fold) => self.fold(fold),
            // Macros that expand to other expressions have the cost of their expansion.
            ExprKind::Bind { variable, value, expression } => {
                let value = self.estimate(value);
                let made = self.within(&[(variable, value.value)], expression);
                let cost = made.cost.saturating_add(value.cost).saturating_add(MAKE_LIST);
                Estimate { cost, value: Value { origin: ValueOrigin::None, ..made.value } }
            }
            ExprKind::OptionalMap { of, variable, expression, flat } => {
                // `of.hasValue() ? optional.of(cel.bind(variable, of.value(), expression)) : optional.none()`
                let of = self.estimate(of);
                let inner = calls::result("value", Some(&of.value), &[], &[]);
                let made = self.within(&[(variable, Value::computed(inner, None))], expression);
                let optional_cost = of.cost.saturating_add(1);
                let mut cost = made.cost.saturating_add(optional_cost).saturating_add(MAKE_LIST);
                let kind = if *flat { made.value.kind } else { Kind::optional(made.value.kind) };
                cost = cost.saturating_add(u64::from(!*flat)).saturating_add(optional_cost);
                Estimate { cost, value: Value::computed(kind, None) }
            }
            ExprKind::Pairs(pairs) => self.pairs(pairs),
        }
    }

    fn map(&mut self, entries: &[MapEntry]) -> Estimate<'d> {
        let (mut cost, mut both, mut kinds) = (MAKE_MAP, None::<Entries>, None);
        for entry in entries {
            let (key, value) = (self.estimate(&entry.key), self.estimate(&entry.value));
            cost = cost.saturating_add(key.cost).saturating_add(value.cost);
            let entry = Entries { is_list: false, key: key.value.size(), value: value.value.size() };
            both = Some(both.map_or(entry, |both| both.or(entry)));
            kinds.get_or_insert((key.value.kind, value.value.kind));
        }
        let (key, value) = kinds.unwrap_or((Kind::Dyn, Kind::Dyn));
        let nothing = Entries { is_list: false, key: Size::exactly(0), value: Size::exactly(0) };
        let mut value = Value::computed(Kind::map(key, value), Some(Size::exactly(entries.len() as u64)));
        value.entries = Some(both.unwrap_or(nothing));
        Estimate { cost, value }
    }

    fn list(&mut self, items: &[Expr]) -> Estimate<'d> {
        let (mut cost, mut size, mut kind) = (MAKE_LIST, None::<Size>, None);
        for item in items {
            let item = self.estimate(item);
            cost = cost.saturating_add(item.cost);
            size = Some(size.map_or(item.value.size(), |size| size.or(item.value.size())));
            kind.get_or_insert(item.value.kind);
        }
        let kind = Kind::list(kind.unwrap_or(Kind::Dyn));
        let mut value = Value::computed(kind, Some(Size::exactly(items.len() as u64)));
        let size = size.unwrap_or(Size::exactly(0));
        value.entries = Some(Entries { is_list: true, key: Size::exactly(1), value: size });
        Estimate { cost, value }
    }

    fn variable(&self, name: &str) -> Value<'d> {
        match self.scope.iter().rev().find(|(known, _)| known == name) {
            Some((_, value)) => value.clone(),
            // `self`, `oldSelf`; a type's name is treated like a variable, too.
            None => at(ValueOrigin::At(Some(self.root)), Kind::of(self.root), None),
        }
    }

    /// Returns the origin one step below another; below a computed value, the origin is the whole object.
    fn below(
        &self,
        origin: ValueOrigin<'d>,
        step: impl FnOnce(&'d DeclType) -> Option<&'d DeclType>,
    ) -> ValueOrigin<'d> {
        match origin {
            ValueOrigin::None => ValueOrigin::At(Some(self.root)),
            ValueOrigin::At(declared) => ValueOrigin::At(declared.and_then(step)),
        }
    }

    fn select(&mut self, select: &Select) -> Estimate<'d> {
        let of = self.estimate(&select.operand);
        if select.test {
            return Estimate { cost: of.cost, value: Value::computed(Kind::Bool, None) };
        }
        let read = if matches!(of.value.kind, Kind::Map(_) | Kind::Object(_)) { READ } else { 0 };
        let kind = of.value.kind.field(&select.field);
        let place = self.below(of.value.origin, |declared| declared.field(&select.field));
        Estimate { cost: of.cost.saturating_add(read), value: at(place, kind, None) }
    }

    fn call(&mut self, call: &Call) -> Estimate<'d> {
        let name = call.name.as_str();
        let target = call.target.as_deref().map(|target| self.estimate(target));
        let args: Vec<Estimate<'d>> = call.args.iter().map(|arg| self.estimate(arg)).collect();
        match (name, args.as_slice()) {
            ("dyn", [of]) => {
                let value = Value { origin: ValueOrigin::None, kind: Kind::Dyn, ..of.value.clone() };
                return Estimate { cost: of.cost.saturating_add(1), value };
            }
            ("_&&_" | "_||_", [a, b]) => {
                let cost = a.cost.saturating_add(b.cost);
                return Estimate { cost, value: Value::computed(Kind::Bool, None) };
            }
            ("_?_:_", [when, yes, no]) => return choice(when.cost, yes, no),
            ("_[_]", [of, at]) => return self.indexed(of, at),
            _ => {}
        }
        let paid = args.iter().chain(&target).fold(0_u64, |sum, part| sum.saturating_add(part.cost));
        let values: Vec<&Value<'d>> = args.iter().map(|arg| &arg.value).collect();
        let target = target.as_ref().map(|target| &target.value);
        let CallEstimate { cost, size, entries } = calls::call_estimate(name, target, &values, &call.args);
        let kind = calls::result(name, target, &values, &call.args);
        let value = Value { entries, ..Value::computed(kind, size) };
        Estimate { cost: paid.saturating_add(cost), value }
    }

    fn indexed(&self, of: &Estimate<'d>, index: &Estimate<'d>) -> Estimate<'d> {
        let kind = of.value.kind.element();
        let place = self.below(of.value.origin, DeclType::element);
        let mut value = at(place, kind, None);
        // Sizes in a list or map that the expression created are known more exactly.
        value.size = of.value.entries.map(|entries| entries.value).or(value.size);
        Estimate { cost: of.cost.saturating_add(index.cost).saturating_add(1), value }
    }

    fn fold(&mut self, fold: &Comprehension) -> Estimate<'d> {
        let range = self.estimate(&fold.range);
        let init = self.estimate(&fold.init);
        let is_made = matches!(&fold.init.kind, ExprKind::List(..));
        let both = [(ACCUMULATOR, init.value.clone()), (fold.variable.as_str(), self.item(&range.value))];
        let condition = self.within(&both, &fold.condition);
        let mut step = self.within(&both, &fold.step);
        let result = self.within(&both[..1], &fold.result);
        step.cost = step.cost.saturating_add(condition.cost);
        let kind = if is_made { step.value.kind.clone() } else { result.value.kind };
        let (init, init_cost) = (init.value, init.cost);
        comprehension_estimate(
            &range,
            ComprehensionEstimate { init, init_cost, step, result_cost: result.cost, kind },
        )
    }

    /// Returns the value of a macro's single variable.
    fn item(&self, range: &Value<'d>) -> Value<'d> {
        let is_list =
            range.entries.map_or_else(|| matches!(range.kind, Kind::List(_)), |entries| entries.is_list);
        if is_list { self.value_in(range) } else { self.key_in(range) }
    }

    fn value_in(&self, range: &Value<'d>) -> Value<'d> {
        let known = range.entries.map(|entries| entries.value);
        at(self.below(range.origin, DeclType::element), range.kind.element(), known)
    }

    fn key_in(&self, range: &Value<'d>) -> Value<'d> {
        let known = range.entries.map(|entries| entries.key);
        let place = self.below(range.origin, |declared| match declared.kind {
            decl_type::DeclTypeKind::Map(_) => Some(&KEY),
            _ => None,
        });
        at(place, range.kind.key(), known)
    }

    /// Estimates an expression with additional variables.
    fn within(&mut self, bound: &[(&str, Value<'d>)], node: &Expr) -> Estimate<'d> {
        let before = self.scope.len();
        self.scope.extend(bound.iter().map(|(name, value)| ((*name).to_string(), value.clone())));
        let estimate = self.estimate(node);
        self.scope.truncate(before);
        estimate
    }

    fn pairs(&mut self, macro_: &PairsMacro) -> Estimate<'d> {
        let range = self.estimate(&macro_.range);
        let (key, value) = (self.key_in(&range.value), self.value_in(&range.value));
        let both = [(macro_.key.as_str(), key), (macro_.value.as_str(), value)];
        let filter = macro_.filter.as_ref().map(|filter| self.within(&both, filter).cost);
        let made = self.within(&both, &macro_.expression);
        comprehension_estimate(&range, pairs(macro_.kind, filter, &made))
    }
}

/// Returns a value of this origin and kind. Its size is that of the declaration, else 1 for a scalar, else
/// `known`.
fn at<'d>(place: ValueOrigin<'d>, kind: Kind<'d>, known: Option<Size>) -> Value<'d> {
    let declared = match place {
        ValueOrigin::At(Some(declared)) => Some(Size::up_to(declared.max)),
        _ => None,
    };
    let scalar = kind.is_scalar().then_some(Size::exactly(1));
    Value { origin: place, kind, size: declared.or(scalar).or(known), entries: None }
}

/// Returns the accumulation of a macro over pairs, with the condition and step for each pair.
fn pairs<'d>(pair_kind: PairKind, filter: Option<u64>, made: &Estimate<'d>) -> ComprehensionEstimate<'d> {
    // `beside` is the cost per pair in addition to the expression's: of the condition, and of the step that
    // adds to the accumulator.
    let (init_cost, beside, result_cost) = match pair_kind {
        PairKind::All => (0, 3, READ),
        PairKind::Exists => (0, 4, READ),
        PairKind::ExistsOne => (0, 2, 2),
        PairKind::List => (MAKE_LIST, MAKE_LIST + 2, READ),
        PairKind::Map => (MAKE_MAP, 3, READ),
        PairKind::MapEntry => (MAKE_MAP, 2, READ),
    };
    let size = made.value.size();
    let nothing = Size::exactly(0);
    let holding = |is_list, value: Size| Some(Entries { is_list, key: Size::exactly(1), value });
    let (init, kind, entries) = match pair_kind {
        PairKind::All | PairKind::Exists => (Kind::Bool, Kind::Bool, None),
        PairKind::ExistsOne => (Kind::Int, Kind::Bool, None),
        PairKind::List => {
            let kind = Kind::list(made.value.kind.clone());
            (kind.clone(), kind, holding(true, size.or(nothing)))
        }
        PairKind::Map | PairKind::MapEntry => {
            let kind = Kind::map(Kind::Dyn, made.value.kind.clone());
            (kind.clone(), kind, None)
        }
    };
    let init_entries = match pair_kind {
        PairKind::List => holding(true, nothing),
        PairKind::Map | PairKind::MapEntry => holding(false, nothing),
        _ => None,
    };
    let init = Value { entries: init_entries, ..Value::computed(init, None) };
    let cost = made.cost.saturating_add(beside).saturating_add(filter.unwrap_or(0));
    let step = Estimate { cost, value: Value { entries, ..Value::computed(kind.clone(), None) } };
    ComprehensionEstimate { init, init_cost, step, result_cost, kind }
}

/// Returns the estimate of a macro over a range, whose step runs for each item.
fn comprehension_estimate<'d>(range: &Estimate<'d>, macro_: ComprehensionEstimate<'d>) -> Estimate<'d> {
    let count = range.value.size();
    let steps = count.max.saturating_mul(macro_.step.cost);
    let cost =
        [macro_.init_cost, macro_.result_cost, steps].into_iter().fold(range.cost, u64::saturating_add);
    let is_made = matches!(macro_.init.kind, Kind::List(_) | Kind::Map(_));
    let size = if is_made { Some(count) } else { macro_.init.size };
    let entries = macro_.step.value.entries.filter(|_| is_made);
    Estimate { cost, value: Value { entries, ..Value::computed(macro_.kind, size) } }
}

fn choice<'d>(when: u64, yes: &Estimate<'d>, no: &Estimate<'d>) -> Estimate<'d> {
    let cost = when.saturating_add(yes.cost.max(no.cost));
    let size = yes.value.size().or(no.value.size());
    let kind = match (&yes.value.kind, &no.value.kind) {
        // The item type of an empty list is unknown.
        (Kind::List(item), Kind::List(_)) if item.is_dyn() => no.value.kind.clone(),
        (yes, no) if yes.is_same_kind(no) => yes.clone(),
        _ => Kind::Dyn,
    };
    let entries = yes.value.entries.zip(no.value.entries).map(|(yes, no)| yes.or(no));
    Estimate { cost, value: Value { entries, ..Value::computed(kind, Some(size)) } }
}

fn of_literal<'d>(literal: &Literal) -> Value<'d> {
    let (kind, count) = match literal {
        Literal::Bool(_) => (Kind::Bool, 1),
        Literal::Int(_) => (Kind::Int, 1),
        Literal::Uint(_) => (Kind::Uint, 1),
        Literal::Double(_) => (Kind::Double, 1),
        Literal::Null => (Kind::Null, 1),
        Literal::Text(text) => (Kind::Text, text.chars().count() as u64),
        Literal::Bytes(bytes) => (Kind::Bytes, bytes.len() as u64),
    };
    Value::computed(kind, Some(Size::exactly(count)))
}
