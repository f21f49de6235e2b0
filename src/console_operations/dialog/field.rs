//! The fields of a dialog: text, number, switch, choice.

use std::marker::PhantomData;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use console_toolkit::text::{grouped, one_line};

/// The largest number a field accepts: replicas and seconds are 32 bits wide in Kubernetes.
const LARGEST: i32 = i32::MAX;
/// The maximum number of digits in a number field. A number that is too large is shown as typed and refused as a whole.
const DIGITS: usize = 40;

/// The marker of a text field.
#[derive(Clone, Copy, Debug)]
pub struct Text;
/// The marker of a number field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number;
/// The marker of a switch.
#[derive(Clone, Copy, Debug)]
pub struct Switch;
/// The marker of a choice.
#[derive(Clone, Copy, Debug)]
pub struct Choice;

/// Identifies a field of a dialog and its type, independent of its label, which need not be unique.
#[derive(Debug)]
pub struct FieldId<K> {
    pub(super) index: usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for FieldId<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for FieldId<K> {}

/// A field that was not added to a dialog yet.
#[derive(Debug)]
pub struct NewField<K>(Field, PhantomData<fn() -> K>);

impl<K> NewField<K> {
    fn new(label: &str, value: Value) -> Self {
        let may_be_empty = !matches!(value, Value::Text(_) | Value::Number(_));
        let hint = String::new();
        let label = label.to_owned();
        Self(Field { label, value, hint, untouched: true, may_be_empty, confirms: false }, PhantomData)
    }

    fn optional(mut self) -> Self {
        self.0.may_be_empty = true;
        self
    }

    /// Sets the hint behind the field.
    #[must_use]
    pub fn hint(mut self, hint: &str) -> Self {
        hint.clone_into(&mut self.0.hint);
        self
    }
}

impl NewField<Switch> {
    /// Sets the initial state.
    #[must_use]
    pub fn on(mut self, on: bool) -> Self {
        self.0.value = Value::Switch(on);
        self
    }
}

impl NewField<Choice> {
    /// Selects the option with this text.
    #[must_use]
    pub fn picking(mut self, initial: &str) -> Self {
        if let Value::Choice { options, picked } = &mut self.0.value {
            *picked = options.iter().position(|option| option == initial).unwrap_or(*picked);
        }
        self
    }
}

/// The fields of a new dialog.
#[derive(Debug, Default)]
pub struct Fields(pub Vec<Field>);

impl Fields {
    /// Adds a field below the others; the id is valid for the dialog that receives these fields.
    pub fn add<K>(&mut self, field: NewField<K>) -> FieldId<K> {
        self.0.push(field.0);
        FieldId { index: self.0.len() - 1, kind: PhantomData }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    /// A whole number as typed; empty for the default.
    Number(String),
    /// On or off.
    Switch(bool),
    /// One of several options.
    Choice {
        options: Vec<String>,
        /// The index of the selected option.
        picked: usize,
    },
}

impl Value {
    /// Returns the text or the selected option.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
            Self::Switch(true) => "on",
            Self::Switch(false) => "off",
            Self::Choice { options, picked } => options.get(*picked).map_or("", String::as_str),
        }
    }
}

/// A field of a dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The label in front of it.
    pub(crate) label: String,
    pub(crate) value: Value,
    /// The hint, shown dim behind it.
    pub(crate) hint: String,
    /// The value is the prefilled one: the first digit or letter typed replaces it, unless → or End was pressed before.
    pub(crate) untouched: bool,
    /// The field may stay empty; then the default in the hint applies.
    pub(super) may_be_empty: bool,
    /// The field takes an object's name as a confirmation. No name begins with the filter's key, so that key leaves the
    /// dialog while the user has typed nothing.
    pub confirms: bool,
}

impl Field {
    /// Creates a prefilled text field.
    pub fn text(label: &str, value: impl Into<String>) -> NewField<Text> {
        NewField::new(label, Value::Text(value.into()))
    }

    /// Creates a field for an object's name, which must be typed in full to confirm a change.
    pub fn confirmation(expected: &str) -> NewField<Text> {
        let mut field = Self::text("name", "").hint(&format!("type {expected}"));
        field.0.confirms = true;
        field
    }

    /// Creates an optional text field; if empty, the default in the hint applies.
    pub fn text_or(label: &str, hint: &str) -> NewField<Text> {
        NewField::new(label, Value::Text(String::new())).hint(hint).optional()
    }

    /// Creates a prefilled number field.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers and text alike, at each call without a borrow"
    )]
    pub(crate) fn number(label: &str, value: impl ToString) -> NewField<Number> {
        NewField::new(label, Value::Number(value.to_string()))
    }

    /// Creates an empty number field; the hint names the default.
    pub(crate) fn number_or(label: &str, hint: &str) -> NewField<Number> {
        NewField::new(label, Value::Number(String::new())).hint(hint).optional()
    }

    /// Creates a switch; off at first.
    pub fn switch(label: &str) -> NewField<Switch> {
        NewField::new(label, Value::Switch(false))
    }

    /// Creates a choice; the first option is selected at first.
    pub fn choice(label: &str, options: Vec<String>) -> NewField<Choice> {
        NewField::new(label, Value::Choice { options, picked: 0 })
    }

    /// Returns whether users can type any text into the field.
    pub fn takes_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    /// Reports whether the field is empty or still has its prefilled value: the next letter replaces the value.
    pub(super) fn is_untyped(&self) -> bool {
        self.untouched || self.value.text().is_empty()
    }

    /// Handles a key; returns whether it is an editing key, even if the value is at its limit and stays the same.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match (&mut self.value, key.code) {
            (Value::Text(text) | Value::Number(text), KeyCode::Char('u')) if control => {
                text.clear();
                self.untouched = false;
                true
            }
            (Value::Text(text) | Value::Number(text), KeyCode::Backspace) => {
                self.untouched = false;
                text.pop().is_some()
            }
            (Value::Number(text), KeyCode::Char(c)) if !control && c.is_ascii_digit() => {
                if std::mem::take(&mut self.untouched) {
                    text.clear();
                }
                if text.len() < DIGITS {
                    text.push(c);
                }
                true
            }
            (_, KeyCode::Char(_)) if control => false,
            // A sign, not a step.
            (Value::Number(text), KeyCode::Char('+' | '-')) if text.is_empty() => false,
            (Value::Number(text), KeyCode::Char('+' | 'k') | KeyCode::Right) => {
                nudge(text, 1);
                true
            }
            (Value::Number(text), KeyCode::Char('-' | 'j') | KeyCode::Left) => {
                nudge(text, -1);
                true
            }
            (Value::Text(_), KeyCode::Right | KeyCode::End) => {
                self.untouched = false;
                false
            }
            (Value::Text(text), KeyCode::Char(c)) if !c.is_control() => {
                if std::mem::take(&mut self.untouched) {
                    text.clear();
                }
                text.push(c);
                true
            }
            (Value::Switch(on), KeyCode::Char(' ') | KeyCode::Left | KeyCode::Right) => {
                *on = !*on;
                true
            }
            (Value::Choice { options, picked }, KeyCode::Char(' ' | 'l') | KeyCode::Right) => {
                *picked = (*picked + 1) % options.len().max(1);
                true
            }
            (Value::Choice { options, picked }, KeyCode::Char('h') | KeyCode::Left) => {
                *picked = (*picked + options.len().max(1) - 1) % options.len().max(1);
                true
            }
            _ => false,
        }
    }

    /// Inserts pasted text. A number field accepts digits only: for `3x`, 3 would not be what the user meant.
    pub(super) fn paste(&mut self, pasted: &str) {
        match &mut self.value {
            Value::Text(text) => {
                if self.untouched {
                    text.clear();
                }
                text.push_str(&one_line(pasted));
            }
            Value::Number(text) => {
                let digits = pasted.trim();
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return;
                }
                if self.untouched {
                    text.clear();
                }
                text.extend(digits.chars().take(DIGITS.saturating_sub(text.len())));
            }
            Value::Switch(_) | Value::Choice { .. } => return,
        }
        self.untouched = false;
    }

    /// Returns the number of a number field, `None` if it is empty; or an error. Digits are never dropped.
    pub(super) fn as_number(&self) -> Result<Option<i32>, String> {
        let text = self.value.text();
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) if text.is_empty() => Ok(None),
            Err(_) => {
                let largest = grouped(u64::from(LARGEST.unsigned_abs()));
                Err(format!("{}: {text} is more than {largest}", self.label))
            }
        }
    }

    /// Reports whether a required value is missing.
    pub(super) fn is_missing(&self) -> bool {
        !self.may_be_empty && self.value.text().trim().is_empty()
    }

    /// Returns the error in the present input.
    pub(super) fn problem(&self) -> Option<String> {
        matches!(self.value, Value::Number(_)).then(|| self.as_number().err()).flatten()
    }
}

/// Increments or decrements; a text that is too large for a number is unchanged.
fn nudge(text: &mut String, by: i32) {
    let number = if text.is_empty() { Ok(0) } else { text.parse::<i32>() };
    if let Ok(number) = number {
        *text = number.saturating_add(by).max(0).to_string();
    }
}
