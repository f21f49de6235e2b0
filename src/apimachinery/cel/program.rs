//! Expressions, compiled once and evaluated many times.

use super::eval::{CompositionContext, Evaluation};
use super::names::{ExpressionError, VARIABLES, fault};
use super::syntax::{self, Expr, ExprKind};
use super::types::{Environment, Type};
use super::{Budget, Error, Val, check, cost};

/// The maximum length of a rule. The longest known rules have a quarter of it.
const MAX_SOURCE_BYTES: usize = 5 * 1024;
/// The limit on nesting: evaluation is recursive as well.
const MAX_DEPTH: usize = 100;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: Expr,
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
        Self::read(source, environment, result).map_err(|fault| located(source, &fault))
    }

    fn read(
        source: &str,
        environment: &Environment<'_>,
        result: &[Type<'_>],
    ) -> Result<Self, ExpressionError> {
        let mut root = syntax::parse(source)?;
        let depth = depth(&root, environment, 0)?;
        let (result, uses) = check::check(&mut root, environment, result)?;
        let cost = environment.sizes.map(|sizes| cost::estimate(&root, sizes));
        Ok(Self { root, uses, result, depth, cost })
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

/// Returns cel-go's text of an error, with the line and a mark below its column.
fn located(source: &str, fault: &ExpressionError) -> String {
    let (before, message) = (&source[..fault.at], &fault.message);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let shown = source.lines().nth(line - 1).unwrap_or_default();
    failed(&format!("ERROR: <input>:{line}:{column}: {message}\n | {shown}\n | {:.>column$}", "^"))
}

/// Returns the depth of the deepest part of an expression at this level, including the expressions that it
/// reads; fails beyond [`MAX_DEPTH`].
fn depth(node: &Expr, environment: &Environment<'_>, level: usize) -> Result<usize, ExpressionError> {
    let read = match &node.kind {
        ExprKind::Select(select) if select.operand.is_ident(VARIABLES) => {
            environment.composed_depth(&select.field)
        }
        _ => 0,
    };
    let mut deepest = level + read;
    if deepest > MAX_DEPTH {
        return Err(fault(node.at, format!("expression nests deeper than {MAX_DEPTH}")));
    }
    for part in node.kind.parts() {
        deepest = deepest.max(depth(part, environment, level + 1)?);
    }
    Ok(deepest)
}
