//! The Common Expression Language of Kubernetes: users' rules, evaluated within a cost budget.
//!
//! Evaluation and its limits are implemented here, because no library counts each step: a hostile rule ends
//! with an error, whether it loops or builds large values. Pure: no clock, no API.
//!
//! Missing compared with Kubernetes: the types of items of computed lists and of values of extension libraries are
//! known only at run time.

mod authority;
mod authorization_check;
mod check;
mod cost;
mod decl_type;
mod doubles;
mod durations;
mod eval;
mod format;
mod functions;
mod lists;
mod named_formats;
mod names;
mod operators;
mod program;
mod semver;
mod syntax;
mod types;
mod values;

#[cfg(test)]
mod tests;

pub use authorization_check::{Authority, AuthorizationCheck, Authorizer, Decision};
pub use decl_type::DeclType;
pub use eval::CompositionContext;
pub use names::is_identifier;
pub use program::Program;
pub use types::{Environment, Type};
pub use values::{Val, field_schema, item_schema};

/// The budget of one evaluation: Kubernetes' `PerCallLimit`.
const CALL_BUDGET: u64 = 1_000_000;
/// The budget of all evaluations for one object: Kubernetes' `RuntimeCELCostBudget`.
const OBJECT_BUDGET: u64 = 10_000_000;

/// The remaining cost units of one object's rules.
#[derive(Debug)]
pub struct Budget {
    object: u64,
    call: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { object: OBJECT_BUDGET, call: CALL_BUDGET }
    }
}

impl Budget {
    /// Returns a budget of this many units for all calls.
    pub fn of(steps: u64) -> Self {
        Self { object: steps, call: CALL_BUDGET.min(steps) }
    }

    /// Starts another call.
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

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The evaluation exceeded its budget.
    Budget,
    /// No function of this name accepts such values.
    Overload(String),
    /// Other errors, in CEL's words.
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
