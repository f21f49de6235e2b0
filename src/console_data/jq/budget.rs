//! The evaluation budget of an expression for one object.

use serde_json::Value;

use super::values::BUDGET_EXHAUSTED;

/// The remaining budget.
pub(super) struct Budget(pub(super) usize);

impl Budget {
    /// Spends `amount` steps of the budget; an error if it is exhausted.
    pub(super) fn spend(&mut self, amount: usize) -> Result<(), String> {
        self.0 = self.0.checked_sub(amount.max(1)).ok_or(BUDGET_EXHAUSTED)?;
        Ok(())
    }

    /// Spends the cost of a value that is created or scanned.
    pub(super) fn spend_for(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::String(text) => self.spend(1 + text.len() / 8),
            Value::Array(items) => {
                self.spend(1)?;
                items.iter().try_for_each(|item| self.spend_for(item))
            }
            Value::Object(fields) => {
                self.spend(1)?;
                fields.iter().try_for_each(|(key, value)| {
                    self.spend(key.len() / 8)?;
                    self.spend_for(value)
                })
            }
            _ => self.spend(1),
        }
    }
}
