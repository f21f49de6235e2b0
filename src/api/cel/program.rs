//! Expressions, read and made ready to be judged many times.

use std::sync::Arc;

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::parser::Parser;

use super::check::{self, Type};
use super::eval::Run;
use super::node::{Fault, Fold, Literal, NAMESPACES, Node, Step, fault, unescape};
use super::{Budget, Error, Val};
use crate::pattern;

/// A rule may be so long. The longest known ones have a quarter of it; what reads it calls itself.
const MAX_SOURCE_BYTES: usize = 5 * 1024;
/// What reads a rule may use so much of the address space for calling itself; memory it takes only as it needs it.
const STACK_BYTES: usize = 256 * 1024 * 1024;
/// And nest so deep: what judges it calls itself as well.
const MAX_DEPTH: usize = 100;

/// An expression that can be judged.
#[derive(Debug)]
pub(crate) struct Program {
    root: Node,
    uses: Vec<String>,
}

impl Program {
    /// Reads an expression over these variables, which must come to a value of one of these types; the error is
    /// Kubernetes' text.
    pub(crate) fn compile(
        source: &str,
        variables: &[(&str, Type<'_>)],
        result: &[Type<'_>],
    ) -> Result<Self, String> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(failed(&format!("ERROR: <input>:1:1: more than {MAX_SOURCE_BYTES} bytes")));
        }
        // On a stack of its own, which what nests as deep as its bytes allow does not fill.
        let read = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("cel".into()).stack_size(STACK_BYTES);
            let reader = thread.spawn_scoped(scope, || Self::read(source, variables, result)).ok()?;
            reader.join().ok()
        });
        read.unwrap_or_else(|| Err(failed("ERROR: <input>:1:1: the expression cannot be read")))
    }

    fn read(source: &str, variables: &[(&str, Type<'_>)], result: &[Type<'_>]) -> Result<Self, String> {
        let parsed = Parser::new().enable_optional_syntax(true).parse_with_source_info(source);
        let (parsed, info) = parsed.map_err(|errors| failed(&errors.to_string()))?;
        let at = |fault: Fault| {
            let offset = info.offset_for(fault.at).map_or(0, |(start, _)| start as usize);
            let before: String = source.chars().take(offset).collect();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let shown = source.lines().nth(line - 1).unwrap_or_default();
            let message = fault.message;
            failed(&format!("ERROR: <input>:{line}:{column}: {message}\n | {shown}\n | {:.>column$}", "^"))
        };
        let mut reader = Reader { bound: Vec::new(), uses: Vec::new() };
        depth(&parsed, 0).map_err(at)?;
        check::check(&parsed, variables, result).map_err(at)?;
        let root = reader.read(parsed).map_err(at)?;
        Ok(Self { root, uses: reader.uses })
    }

    /// Whether the expression reads this variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.uses.iter().any(|used| used == variable)
    }

    /// Judges it with these values.
    pub(crate) fn run<'a>(
        &'a self,
        variables: &[(&'a str, Val<'a>)],
        budget: &mut Budget,
    ) -> Result<Val<'a>, Error> {
        budget.begin();
        Run::new(variables, budget).eval(&self.root)
    }
}

fn failed(text: &str) -> String {
    format!("compilation failed: {text}")
}

fn depth(node: &IdedExpr, level: usize) -> Result<(), Fault> {
    if level > MAX_DEPTH {
        return Err(fault(node.id, format!("expression nests deeper than {MAX_DEPTH}")));
    }
    each_part(node, &mut |part| depth(part, level + 1))
}

/// Visits what an expression is made of.
fn each_part(node: &IdedExpr, visit: &mut dyn FnMut(&IdedExpr) -> Result<(), Fault>) -> Result<(), Fault> {
    match &node.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).try_for_each(visit),
        Expr::Comprehension(fold) => {
            [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result]
                .into_iter()
                .try_for_each(visit)
        }
        Expr::List(list) => list.elements.iter().try_for_each(visit),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => visit(&entry.key).and_then(|()| visit(&entry.value)),
            EntryExpr::StructField(field) => visit(&field.value),
        }),
        Expr::Select(select) => visit(&select.operand),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Ok(()),
    }
}

struct Reader {
    /// Variables of macros around.
    bound: Vec<String>,
    /// Variables from outside.
    uses: Vec<String>,
}

impl Reader {
    fn read(&mut self, node: IdedExpr) -> Result<Node, Fault> {
        let at = node.id;
        Ok(match node.expr {
            Expr::Literal(value) => Node::Literal(literal(&value)),
            Expr::Ident(name) => {
                let name = name.trim_start_matches('.').to_string();
                if !self.bound.contains(&name) && !self.uses.contains(&name) {
                    self.uses.push(name.clone());
                }
                Node::Variable(name)
            }
            Expr::Select(select) => Node::Select {
                of: self.boxed(*select.operand)?,
                field: unescape(&select.field),
                test: select.test,
                optional: false,
            },
            Expr::Call(call) => return self.call(at, call.func_name, call.target, call.args),
            Expr::List(list) => {
                let optional = list.optional_indices;
                let items = list.elements.into_iter().enumerate();
                Node::List(
                    items
                        .map(|(i, item)| Ok((self.read(item)?, optional.contains(&i))))
                        .collect::<Result<_, _>>()?,
                )
            }
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for entry in map.entries {
                    let EntryExpr::MapEntry(entry) = entry.expr else {
                        return Err(fault(at, "a map has no fields"));
                    };
                    entries.push((self.read(entry.key)?, self.read(entry.value)?, entry.optional));
                }
                Node::Map(entries)
            }
            Expr::Comprehension(fold) => self.fold(at, *fold)?,
            Expr::Struct(made) => {
                return Err(fault(
                    at,
                    format!("undeclared reference to '{}' (in container '')", made.type_name),
                ));
            }
            Expr::Unspecified => return Err(fault(at, "syntax error")),
        })
    }

    fn boxed(&mut self, node: IdedExpr) -> Result<Box<Node>, Fault> {
        self.read(node).map(Box::new)
    }

    fn call(
        &mut self,
        at: u64,
        name: String,
        target: Option<Box<IdedExpr>>,
        args: Vec<IdedExpr>,
    ) -> Result<Node, Fault> {
        if let Some(of) = &target
            && let Expr::Ident(namespace) = &of.expr
            && NAMESPACES.contains(&namespace.as_str())
            && !self.bound.contains(namespace)
        {
            let args = args.into_iter().map(|arg| self.read(arg)).collect::<Result<_, _>>()?;
            return Ok(Node::Call { name: format!("{namespace}.{name}"), target: None, args, pattern: None });
        }
        if let ("optMap" | "optFlatMap", 2, Some(of)) = (name.as_str(), args.len(), &target) {
            let mut args = args.into_iter();
            let (Some(variable), Some(expression)) = (args.next(), args.next()) else {
                return Err(fault(at, "two arguments are needed"));
            };
            let Expr::Ident(variable) = variable.expr else {
                return Err(fault(variable.id, "argument must be a simple name"));
            };
            let of = self.boxed((**of).clone())?;
            self.bound.push(variable.clone());
            let expression = self.boxed(expression)?;
            self.bound.pop();
            return Ok(Node::OptionalMap { of, variable, expression, flat: name == "optFlatMap" });
        }
        let target = target.map(|of| self.boxed(*of)).transpose()?;
        let mut args = args.into_iter().map(|arg| self.read(arg)).collect::<Result<Vec<_>, _>>()?;
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
                return Ok(Node::Call { name, target, args, pattern });
            }
        }
        .ok_or_else(|| fault(at, "syntax error"))
    }

    fn fold(&mut self, at: u64, fold: ComprehensionExpr) -> Result<Node, Fault> {
        if fold.iter_var2.is_some() {
            return Err(fault(at, "macros of two variables are not supported"));
        }
        let range = self.read(fold.iter_range)?;
        let init = self.read(fold.accu_init)?;
        self.bound.push(fold.accu_var.clone());
        self.bound.push(fold.iter_var.clone());
        let condition = self.read(fold.loop_cond)?;
        let step = as_append(self.read(fold.loop_step)?, &fold.accu_var);
        self.bound.pop();
        let result = self.read(fold.result)?;
        self.bound.pop();
        Ok(Node::Fold(Box::new(Fold {
            range,
            variable: fold.iter_var,
            accumulator: fold.accu_var,
            init,
            condition,
            step,
            result,
        })))
    }
}

/// A step that only adds an item to a list, as such.
fn as_append(step: Node, accumulator: &str) -> Step {
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
            Ok(item) => Step::Append { when: Some(*when), item },
            Err(yes) => {
                let yes = Box::new(yes.unwrap_or(Node::Literal(Literal::Null)));
                Step::Any(Node::Choose(when, yes, no))
            }
        },
        other => match item(other) {
            Ok(item) => Step::Append { when: None, item },
            Err(node) => Step::Any(node.unwrap_or(Node::Literal(Literal::Null))),
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
