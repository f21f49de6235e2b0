//! Expressions, compiled once and evaluated many times.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::parser::Parser;

use super::eval::{CompositionContext, Evaluation};
use super::node::{ExpressionError, Node, VARIABLES, fault};
use super::reader::Reader;
use super::types::{Environment, Type};
use super::{Budget, Error, Val, check, cost};

/// The maximum length of a rule, because the parser is recursive. The longest known rules have a quarter of it.
const MAX_SOURCE_BYTES: usize = 5 * 1024;
/// The size of the parser's stack. It reserves address space only; memory is used as needed.
const STACK_BYTES: usize = 256 * 1024 * 1024;
/// The limit on nesting: evaluation is recursive as well.
const MAX_DEPTH: usize = 100;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: Node,
    uses: Vec<String>,
    result: Type<'static>,
    /// The nesting of the expression's evaluation, including the expressions that it reads.
    depth: usize,
    cost: Option<u64>,
}

impl Program {
    /// Compiles an expression over these variables, whose value must have one of these types; the error is
    /// Kubernetes' text.
    pub fn compile(
        source: &str,
        variables: &[(&str, Type<'_>)],
        result: &[Type<'_>],
    ) -> Result<Self, String> {
        Self::compile_in(source, &Environment::of(variables.to_vec()), result)
    }

    /// As [`Program::compile`], with a complete environment.
    pub fn compile_in(
        source: &str,
        environment: &Environment<'_>,
        result: &[Type<'_>],
    ) -> Result<Self, String> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(failed(&format!("ERROR: <input>:1:1: more than {MAX_SOURCE_BYTES} bytes")));
        }
        // The parser runs on a stack of its own, large enough for the deepest nesting that the length
        // permits.
        let read = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("cel".into()).stack_size(STACK_BYTES);
            let reader = thread.spawn_scoped(scope, || Self::read(source, environment, result)).ok()?;
            reader.join().ok()
        });
        read.unwrap_or_else(|| Err(failed("ERROR: <input>:1:1: cannot parse the expression")))
    }

    fn read(source: &str, environment: &Environment<'_>, result: &[Type<'_>]) -> Result<Self, String> {
        let parsed = Parser::new().enable_optional_syntax(true).parse_with_source_info(source);
        let (parsed, info) = parsed.map_err(|errors| failed(&errors.to_string()))?;
        let at = |fault: ExpressionError| {
            let offset = info.offset_for(fault.at).map_or(0, |(start, _)| start as usize);
            let before: String = source.chars().take(offset).collect();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let shown = source.lines().nth(line - 1).unwrap_or_default();
            let message = fault.message;
            failed(&format!("ERROR: <input>:{line}:{column}: {message}\n | {shown}\n | {:.>column$}", "^"))
        };
        let depth = depth(&parsed, environment, 0).map_err(at)?;
        let result = check::check(&parsed, environment, result).map_err(at)?;
        let mut reader = Reader::new(environment.composed_names());
        let root = reader.read(&parsed).map_err(at)?;
        let cost = environment.sizes.map(|sizes| cost::estimate(&parsed, sizes));
        Ok(Self { root, uses: reader.uses, result, depth, cost })
    }

    /// Returns the maximum cost, if its environment has the sizes of values.
    pub fn cost(&self) -> Option<u64> {
        self.cost
    }

    /// Returns true if the expression reads this variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.uses.iter().any(|used| used == variable)
    }

    /// Evaluates it with these values.
    pub fn run<'a>(
        &'a self,
        variables: &[(&'a str, Val<'a>)],
        budget: &mut Budget,
    ) -> Result<Val<'a>, Error> {
        budget.begin();
        Evaluation::new(variables, None, budget).eval(&self.root)
    }

    /// Adds this expression to an environment, where others read it as `variables.NAME`.
    pub fn compose_into(&self, name: &str, environment: &mut Environment<'_>) {
        environment.compose(name, self.result, self.depth);
    }

    /// Returns the context of named expressions over the same variables; each may read those before it.
    pub fn composed<'a>(
        variables: Vec<(&'a str, Val<'a>)>,
        programs: &'a [(String, Self)],
    ) -> CompositionContext<'a> {
        let nodes = programs.iter().map(|(name, program)| (name.as_str(), &program.root));
        CompositionContext::new(variables, nodes.collect())
    }

    /// As [`Program::run`], with named expressions that this one may read.
    pub fn run_composed<'a>(
        &'a self,
        composed: &CompositionContext<'a>,
        budget: &mut Budget,
    ) -> Result<Val<'a>, Error> {
        budget.begin();
        Evaluation::new(&composed.variables, Some(composed), budget).eval(&self.root)
    }
}

fn failed(text: &str) -> String {
    format!("compilation failed: {text}")
}

/// Returns the depth of the deepest part of an expression at this level, including the expressions that it
/// reads; fails beyond [`MAX_DEPTH`].
fn depth(node: &IdedExpr, environment: &Environment<'_>, level: usize) -> Result<usize, ExpressionError> {
    let read = match &node.expr {
        Expr::Select(select) if matches!(&select.operand.expr, Expr::Ident(name) if name == VARIABLES) => {
            environment.composed_depth(&select.field)
        }
        _ => 0,
    };
    let mut deepest = level + read;
    if deepest > MAX_DEPTH {
        return Err(fault(node.id, format!("expression nests deeper than {MAX_DEPTH}")));
    }
    each_part(node, &mut |part| {
        deepest = deepest.max(depth(part, environment, level + 1)?);
        Ok(())
    })?;
    Ok(deepest)
}

/// Visits the direct parts of an expression.
fn each_part(
    node: &IdedExpr,
    visit: &mut dyn FnMut(&IdedExpr) -> Result<(), ExpressionError>,
) -> Result<(), ExpressionError> {
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
        Expr::Struct(made) => made.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => visit(&entry.key).and_then(|()| visit(&entry.value)),
            EntryExpr::StructField(field) => visit(&field.value),
        }),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Ok(()),
    }
}
