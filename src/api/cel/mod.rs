//! The Common Expression Language, as Kubernetes has it: rules that users write, judged within a budget.
//!
//! The grammar is the `cel` crate's. What a rule may take is held here, where each step is counted, which no library
//! does: a hostile rule ends with an error, whatever it loops over or builds. Pure: no clock, no API.
//!
//! Missing beside what Kubernetes has: all but the plain faults of types at compile time.

mod authority;
mod check;
mod cost;
mod declared;
mod durations;
mod eval;
mod functions;
mod lists;
mod macros;
mod named_formats;
mod node;
mod operators;
mod program;
mod question;
mod reader;
mod types;
mod values;

#[cfg(test)]
mod tests;

pub(crate) use declared::Declared;
pub(crate) use eval::Composed;
pub(crate) use node::is_identifier;
pub(crate) use program::Program;
pub(crate) use question::{Authority, Authorizer, Decision, Question};
pub(crate) use types::{Environment, Type};
pub(crate) use values::{Val, field_schema};

/// What one evaluation may take: Kubernetes' `PerCallLimit`.
const CALL_BUDGET: u64 = 1_000_000;
/// And all those of one object together: Kubernetes' `RuntimeCELCostBudget`.
const OBJECT_BUDGET: u64 = 10_000_000;

/// Steps that are left to the rules of one object.
#[derive(Debug)]
pub(crate) struct Budget {
    object: u64,
    call: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { object: OBJECT_BUDGET, call: CALL_BUDGET }
    }
}

impl Budget {
    /// Of so many steps for all calls.
    pub(crate) fn of(steps: u64) -> Self {
        Self { object: steps, call: CALL_BUDGET.min(steps) }
    }

    /// Begins another call.
    fn begin(&mut self) {
        self.call = CALL_BUDGET.min(self.object);
    }

    fn take(&mut self, steps: u64) -> Result<(), Error> {
        if self.call < steps {
            self.call = 0;
            return Err(Error::Budget);
        }
        self.call -= steps;
        self.object = self.object.saturating_sub(steps);
        Ok(())
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// It took too many steps.
    Budget,
    /// No function of this name takes such values.
    Overload(String),
    /// Anything else, in CEL's words.
    Other(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Budget => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Overload(name) => write!(f, "no such overload: {name}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

fn other(text: impl Into<String>) -> Error {
    Error::Other(text.into())
}
