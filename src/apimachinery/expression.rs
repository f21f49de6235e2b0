//! CEL expressions over objects in their API form, for actors that are configured with expressions: compiled
//! once, evaluated many times, each time within the cost budget of a user's rule.

use jiff::Timestamp;
use serde_json::Value;

use crate::cel::{Budget, Program, Type, Val};

/// The result type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// A boolean.
    Bool,
    /// A string.
    String,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    result_type: ResultType,
}

impl Expression {
    /// Compiles an expression over these variables and `now`; the error has the problem and its position.
    pub fn compile(source: &str, variables: &[&str], result_type: ResultType) -> Result<Self, String> {
        let mut known: Vec<(&str, Type<'_>)> = variables.iter().map(|name| (*name, Type::Dyn)).collect();
        known.push(("now", Type::Time));
        let result = match result_type {
            ResultType::Bool => Type::Bool,
            ResultType::String => Type::Text,
        };
        Ok(Self { program: Program::compile(source, &known, &[result])?, result_type })
    }

    /// Evaluates a boolean expression with these values. Fails if a value is missing or the cost budget is
    /// exceeded.
    pub fn holds(&self, variables: &[(&str, &Value)], now: Timestamp) -> Result<bool, String> {
        debug_assert_eq!(self.result_type, ResultType::Bool);
        self.run(variables, now, |value| match value {
            Val::Bool(holds) => Ok(*holds),
            _ => Err("the expression did not return a boolean".to_owned()),
        })
    }

    /// Evaluates a string expression with these values; fails as [`Expression::holds`] does.
    pub fn text(&self, variables: &[(&str, &Value)], now: Timestamp) -> Result<String, String> {
        debug_assert_eq!(self.result_type, ResultType::String);
        self.run(variables, now, |value| {
            value
                .as_text()
                .map(str::to_owned)
                .ok_or_else(|| "the expression did not return a string".to_owned())
        })
    }

    fn run<T>(
        &self,
        variables: &[(&str, &Value)],
        now: Timestamp,
        read: impl FnOnce(&Val<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut values: Vec<(&str, Val<'_>)> =
            variables.iter().map(|(name, value)| (*name, Val::of_json(value, None))).collect();
        values.push(("now", Val::Time(now)));
        let value = self.program.run(&values, &mut Budget::default()).map_err(|error| error.to_string())?;
        read(&value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_evaluate_to_the_requested_type_fault_2() {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let pod = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}});
        let evaluate = |source: &str| {
            let read = Expression::compile(source, &["object"], ResultType::Bool)?;
            read.holds(&[("object", &pod)], now)
        };
        assert_eq!(evaluate("object.status.phase == 'Running'"), Ok(true));
        assert_eq!(evaluate("now < timestamp('2026-01-01T00:00:00Z')"), Ok(false));
        assert!(evaluate("object.status.nothing").unwrap_err().contains("no such key"));
        assert!(evaluate("other").unwrap_err().contains("undeclared reference"));
        assert!(evaluate("object.").is_err() && evaluate("'a'").is_err());
        let endless =
            (0..9).fold("true".to_owned(), |inner, n| format!("[1,2,3,4,5,6,7,8,9].all(x{n}, {inner})"));
        assert!(evaluate(&endless).unwrap_err().contains("cost limit"), "it ends");
        let text = Expression::compile("object.spec.nodeName", &["object"], ResultType::String).unwrap();
        assert_eq!(text.text(&[("object", &pod)], now), Ok("n".to_owned()));
        assert!(text.text(&[("object", &json!({"spec": {"nodeName": 1}}))], now).is_err());
    }
}
