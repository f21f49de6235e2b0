//! Translates parsed expressions to evaluable ones: patterns are compiled, and lists that grow item by item
//! are recognized.

use std::sync::Arc;

use super::node::{
    ExpressionError, Literal, LoopStep, MacroLoop, NAMESPACES, Node, Pairs, VARIABLES, fault, unescape,
};
use super::syntax::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, PairsMacro};
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

    pub(super) fn read(&mut self, node: &Expr) -> Result<Node, ExpressionError> {
        let at = node.at;
        Ok(match &node.kind {
            ExprKind::Literal(value) => Node::Literal(value.clone()),
            ExprKind::Ident(name) => {
                let name = name.trim_start_matches('.').to_string();
                if !self.bound.contains(&name) && !self.uses.contains(&name) {
                    self.uses.push(name.clone());
                }
                Node::Variable(name)
            }
            ExprKind::Select(select) if self.is_composed(&select.operand) => {
                if !self.composed.contains(&select.field) {
                    return Err(fault(at, format!("undefined field '{}'", select.field)));
                }
                if select.test {
                    Node::Literal(Literal::Bool(true))
                } else {
                    Node::Composed(select.field.clone())
                }
            }
            ExprKind::Select(select) => Node::Select {
                of: self.boxed(&select.operand)?,
                field: unescape(&select.field),
                test: select.test,
                optional: false,
            },
            ExprKind::Call(call) => return self.call(at, call),
            ExprKind::List(items, optional) => {
                let items = items.iter().enumerate();
                Node::List(
                    items
                        .map(|(i, item)| Ok((self.read(item)?, optional.contains(&i))))
                        .collect::<Result<_, _>>()?,
                )
            }
            ExprKind::Map(entries) => Node::Map(
                entries
                    .iter()
                    .map(|entry| Ok((self.read(&entry.key)?, self.read(&entry.value)?, entry.optional)))
                    .collect::<Result<_, _>>()?,
            ),
            // The checker has verified that such a type may be written as a literal.
            ExprKind::Message(message) => {
                let mut entries = Vec::new();
                for field in &message.fields {
                    let name = Node::Literal(Literal::Text(unescape(&field.name)));
                    entries.push((name, self.read(&field.value)?, field.optional));
                }
                Node::Map(entries)
            }
            ExprKind::Comprehension(fold) => self.fold(fold)?,
            ExprKind::Bind { variable, value, expression } => Node::Bind {
                value: self.boxed(value)?,
                variable: variable.clone(),
                expression: Box::new(self.within(&[variable], expression)?),
            },
            ExprKind::OptionalMap { of, variable, expression, flat } => Node::OptionalMap {
                of: self.boxed(of)?,
                variable: variable.clone(),
                expression: Box::new(self.within(&[variable], expression)?),
                flat: *flat,
            },
            ExprKind::Pairs(pairs) => self.pairs(pairs)?,
        })
    }

    fn boxed(&mut self, node: &Expr) -> Result<Box<Node>, ExpressionError> {
        self.read(node).map(Box::new)
    }

    /// Translates an expression with additional variables.
    fn within(&mut self, names: &[&str], node: &Expr) -> Result<Node, ExpressionError> {
        let before = self.bound.len();
        self.bound.extend(names.iter().map(ToString::to_string));
        let read = self.read(node);
        self.bound.truncate(before);
        read
    }

    /// Returns true for the name `variables`, unless a macro's variable hides it.
    fn is_composed(&self, node: &Expr) -> bool {
        !self.composed.is_empty()
            && node.is_ident(VARIABLES)
            && !self.bound.iter().any(|bound| bound == VARIABLES)
    }

    fn call(&mut self, at: usize, call: &Call) -> Result<Node, ExpressionError> {
        let (name, target, args) = (&call.name, call.target.as_deref(), &call.args);
        if let Some(of) = target
            && let ExprKind::Ident(namespace) = &of.kind
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

    fn pairs(&mut self, pairs: &PairsMacro) -> Result<Node, ExpressionError> {
        let both = [pairs.key.as_str(), pairs.value.as_str()];
        Ok(Node::Pairs(Box::new(Pairs {
            kind: pairs.kind,
            range: self.read(&pairs.range)?,
            key: pairs.key.clone(),
            value: pairs.value.clone(),
            filter: pairs.filter.as_ref().map(|filter| self.within(&both, filter)).transpose()?,
            expression: self.within(&both, &pairs.expression)?,
        })))
    }

    fn fold(&mut self, fold: &Comprehension) -> Result<Node, ExpressionError> {
        let range = self.read(&fold.range)?;
        let init = self.read(&fold.init)?;
        let both = [ACCUMULATOR, fold.variable.as_str()];
        Ok(Node::Fold(Box::new(MacroLoop {
            range,
            init,
            condition: self.within(&both, &fold.condition)?,
            step: as_append(self.within(&both, &fold.step)?),
            result: self.within(&both[..1], &fold.result)?,
            variable: fold.variable.clone(),
        })))
    }
}

/// Recognizes a step that only appends an item to a list.
fn as_append(step: Node) -> LoopStep {
    let is_it = |node: &Node| matches!(node, Node::Variable(name) if name == ACCUMULATOR);
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
