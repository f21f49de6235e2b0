//! Translates parsed expressions to evaluable ones: remaining macros are expanded, patterns are compiled, and
//! lists that grow item by item are recognized.

use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::macros::Macro;
use super::node::{
    ExpressionError, Literal, LoopStep, MacroLoop, NAMESPACES, Node, Pairs, VARIABLES, fault, unescape,
};
use crate::pattern;

/// The state of a translation.
#[derive(Default)]
pub(super) struct Reader {
    /// Variables of enclosing macros.
    bound: Vec<String>,
    /// Variables from outside.
    pub(super) uses: Vec<String>,
    /// The names of expressions that are read as `variables.NAME`.
    composed: Vec<String>,
}

impl Reader {
    /// Returns a reader that resolves these names to other expressions.
    pub(super) fn new(composed: Vec<String>) -> Self {
        Self { composed, ..Self::default() }
    }

    pub(super) fn read(&mut self, node: &IdedExpr) -> Result<Node, ExpressionError> {
        let at = node.id;
        Ok(match &node.expr {
            Expr::Literal(value) => Node::Literal(literal(value)),
            Expr::Ident(name) => {
                let name = name.trim_start_matches('.').to_string();
                if !self.bound.contains(&name) && !self.uses.contains(&name) {
                    self.uses.push(name.clone());
                }
                Node::Variable(name)
            }
            Expr::Select(select) if self.is_composed(&select.operand) => {
                if !self.composed.contains(&select.field) {
                    return Err(fault(at, format!("undefined field '{}'", select.field)));
                }
                if select.test {
                    Node::Literal(Literal::Bool(true))
                } else {
                    Node::Composed(select.field.clone())
                }
            }
            Expr::Select(select) => Node::Select {
                of: self.boxed(&select.operand)?,
                field: unescape(&select.field),
                test: select.test,
                optional: false,
            },
            Expr::Call(call) => return self.call(at, call),
            Expr::List(list) => {
                let items = list.elements.iter().enumerate();
                Node::List(
                    items
                        .map(|(i, item)| Ok((self.read(item)?, list.optional_indices.contains(&i))))
                        .collect::<Result<_, _>>()?,
                )
            }
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(fault(at, "a map has no fields"));
                    };
                    entries.push((self.read(&entry.key)?, self.read(&entry.value)?, entry.optional));
                }
                Node::Map(entries)
            }
            Expr::Comprehension(fold) => self.fold(at, fold)?,
            // The checker has verified that such a type may be written as a literal.
            Expr::Struct(made) => {
                let mut entries = Vec::new();
                for entry in &made.entries {
                    let EntryExpr::StructField(entry) = &entry.expr else {
                        return Err(fault(at, "an object has fields"));
                    };
                    let name = Node::Literal(Literal::Text(unescape(&entry.field)));
                    entries.push((name, self.read(&entry.value)?, entry.optional));
                }
                Node::Map(entries)
            }
            Expr::Unspecified => return Err(fault(at, "syntax error")),
        })
    }

    fn boxed(&mut self, node: &IdedExpr) -> Result<Box<Node>, ExpressionError> {
        self.read(node).map(Box::new)
    }

    /// Translates an expression with additional variables.
    fn within(&mut self, names: &[&str], node: &IdedExpr) -> Result<Node, ExpressionError> {
        let before = self.bound.len();
        self.bound.extend(names.iter().map(ToString::to_string));
        let read = self.read(node);
        self.bound.truncate(before);
        read
    }

    /// Returns true for the name `variables`, unless a macro's variable hides it.
    fn is_composed(&self, node: &IdedExpr) -> bool {
        !self.composed.is_empty()
            && matches!(&node.expr, Expr::Ident(name) if name == VARIABLES && !self.bound.contains(name))
    }

    fn call(&mut self, at: u64, call: &CallExpr) -> Result<Node, ExpressionError> {
        if let Some(found) = Macro::of(call) {
            return self.expand(&found?);
        }
        let (name, target, args) = (&call.func_name, call.target.as_deref(), &call.args);
        if let Some(of) = target
            && let Expr::Ident(namespace) = &of.expr
            && NAMESPACES.contains(&namespace.as_str())
            && !self.bound.contains(namespace)
        {
            let args = args.iter().map(|arg| self.read(arg)).collect::<Result<_, _>>()?;
            return Ok(Node::Call { name: format!("{namespace}.{name}"), target: None, args, pattern: None });
        }
        let target = target.map(|of| self.boxed(of)).transpose()?;
        let mut args = args.iter().map(|arg| self.read(arg)).collect::<Result<Vec<_>, _>>()?;
        let two = |args: &mut Vec<Node>| {
            let last = args.pop();
            args.pop().zip(last).map(|(a, b)| (Box::new(a), Box::new(b)))
        };
        match (name.as_str(), args.len()) {
            ("_&&_", 2) => two(&mut args).map(|(a, b)| Node::And(a, b)),
            ("_||_", 2) => two(&mut args).map(|(a, b)| Node::Or(a, b)),
            ("_?_:_", 3) => {
                let (yes, no) = two(&mut args).ok_or_else(|| fault(at, "syntax error"))?;
                args.pop().map(|when| Node::Choose(Box::new(when), yes, no))
            }
            ("_?._", 2) => match two(&mut args) {
                Some((of, field)) => match *field {
                    Node::Literal(Literal::Text(field)) => {
                        Some(Node::Select { of, field: unescape(&field), test: false, optional: true })
                    }
                    _ => None,
                },
                None => None,
            },
            _ => {
                let pattern = match (name.as_str(), args.first()) {
                    ("matches" | "find" | "findAll", Some(Node::Literal(Literal::Text(text))))
                        if target.is_some() =>
                    {
                        Some(text)
                    }
                    ("matches", Some(_)) => match args.get(1) {
                        Some(Node::Literal(Literal::Text(text))) => Some(text),
                        _ => None,
                    },
                    _ => None,
                };
                let pattern = pattern.map(|text| {
                    pattern::compile(text).map(Arc::new).map_err(|reason| {
                        fault(at, format!("invalid matches argument: error parsing regexp: {reason}"))
                    })
                });
                let pattern = pattern.transpose()?;
                return Ok(Node::Call { name: name.clone(), target, args, pattern });
            }
        }
        .ok_or_else(|| fault(at, "syntax error"))
    }

    fn expand(&mut self, found: &Macro<'_>) -> Result<Node, ExpressionError> {
        Ok(match found {
            Macro::Bind { variable, value, expression } => Node::Bind {
                value: self.boxed(value)?,
                variable: (*variable).into(),
                expression: Box::new(self.within(&[variable], expression)?),
            },
            Macro::OptionalMap { of, variable, expression, flat } => Node::OptionalMap {
                of: self.boxed(of)?,
                variable: (*variable).into(),
                expression: Box::new(self.within(&[variable], expression)?),
                flat: *flat,
            },
            Macro::Pairs { kind: sort, range, key, value, filter, expression } => {
                Node::Pairs(Box::new(Pairs {
                    kind: *sort,
                    range: self.read(range)?,
                    key: (*key).into(),
                    value: (*value).into(),
                    filter: filter.map(|filter| self.within(&[key, value], filter)).transpose()?,
                    expression: self.within(&[key, value], expression)?,
                }))
            }
        })
    }

    fn fold(&mut self, at: u64, fold: &ComprehensionExpr) -> Result<Node, ExpressionError> {
        if fold.iter_var2.is_some() {
            return Err(fault(at, "syntax error"));
        }
        let range = self.read(&fold.iter_range)?;
        let init = self.read(&fold.accu_init)?;
        let both = [fold.accu_var.as_str(), fold.iter_var.as_str()];
        Ok(Node::Fold(Box::new(MacroLoop {
            range,
            init,
            condition: self.within(&both, &fold.loop_cond)?,
            step: as_append(self.within(&both, &fold.loop_step)?, &fold.accu_var),
            result: self.within(&both[..1], &fold.result)?,
            variable: fold.iter_var.clone(),
            accumulator: fold.accu_var.clone(),
        })))
    }
}

/// Recognizes a step that only appends an item to a list.
fn as_append(step: Node, accumulator: &str) -> LoopStep {
    let is_it = |node: &Node| matches!(node, Node::Variable(name) if name == accumulator);
    let item = |node: Node| match node {
        Node::Call { name, target: None, mut args, pattern } => {
            let appends = name == "_+_"
                && args.len() == 2
                && is_it(&args[0])
                && matches!(&args[1], Node::List(items) if items.len() == 1 && !items[0].1);
            match (appends, args.pop()) {
                (true, Some(Node::List(mut items))) => items.pop().map(|(item, _)| item).ok_or(None),
                (_, last) => {
                    args.extend(last);
                    Err(Some(Node::Call { name, target: None, args, pattern }))
                }
            }
        }
        other => Err(Some(other)),
    };
    match step {
        Node::Choose(when, yes, no) if is_it(&no) => match item(*yes) {
            Ok(item) => LoopStep::Append { when: Some(*when), item },
            Err(yes) => {
                let yes = Box::new(yes.unwrap_or(Node::Literal(Literal::Null)));
                LoopStep::Any(Node::Choose(when, yes, no))
            }
        },
        other => match item(other) {
            Ok(item) => LoopStep::Append { when: None, item },
            Err(node) => LoopStep::Any(node.unwrap_or(Node::Literal(Literal::Null))),
        },
    }
}

fn literal(value: &LiteralValue) -> Literal {
    match value {
        LiteralValue::Null => Literal::Null,
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
        LiteralValue::Double(value) => Literal::Double(*value.inner()),
        LiteralValue::String(value) => Literal::Text(value.inner().to_string()),
        LiteralValue::Bytes(value) => Literal::Bytes(value.inner().to_vec()),
    }
}
