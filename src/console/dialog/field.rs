//! The fields of a dialog: text, number, switch, choice.

use std::marker::PhantomData;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::text::grouped;

/// The largest number a field takes: replicas and seconds are 32 bits wide in Kubernetes.
const LARGEST: i32 = i32::MAX;
/// Digits a number field shows. What is too large is shown as it was typed and refused as a whole; nobody
/// means more digits than this.
const DIGITS: usize = 40;

/// A field that holds any text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text;
/// A field that holds a whole number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number;
/// A field that is on or off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch;
/// A field that holds one of several texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice;

/// Names one field of a dialog and what it holds, whatever its label says: two fields may be called alike.
#[derive(Debug)]
pub(crate) struct FieldId<K> {
    pub(super) index: usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for FieldId<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for FieldId<K> {}

/// A field to be.
#[derive(Debug)]
pub(crate) struct NewField<K>(Field, PhantomData<fn() -> K>);

impl<K> NewField<K> {
    fn new(label: &str, value: Value) -> Self {
        let may_be_empty = !matches!(value, Value::Text(_) | Value::Number(_));
        let hint = String::new();
        let label = label.to_owned();
        Self(Field { label, value, hint, untouched: true, may_be_empty, confirms: false }, PhantomData)
    }

    fn left_out(mut self) -> Self {
        self.0.may_be_empty = true;
        self
    }

    /// With a hint behind it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        hint.clone_into(&mut self.0.hint);
        self
    }
}

impl NewField<Switch> {
    /// On at first, or off.
    #[must_use]
    pub(crate) fn on(mut self, on: bool) -> Self {
        self.0.value = Value::Switch(on);
        self
    }
}

impl NewField<Choice> {
    /// With the option of this text picked.
    #[must_use]
    pub(crate) fn picking(mut self, wanted: &str) -> Self {
        if let Value::Choice { options, picked } = &mut self.0.value {
            *picked = options.iter().position(|option| option == wanted).unwrap_or(*picked);
        }
        self
    }
}

/// The fields of a dialog to be.
#[derive(Debug, Default)]
pub(crate) struct Fields(pub(super) Vec<Field>);

impl Fields {
    /// Adds a field below the others; the name is good for the dialog these fields are given to.
    pub(crate) fn add<K>(&mut self, field: NewField<K>) -> FieldId<K> {
        self.0.push(field.0);
        FieldId { index: self.0.len() - 1, kind: PhantomData }
    }
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Any text.
    Text(String),
    /// A whole number as typed; empty means the default.
    Number(String),
    /// On or off.
    Switch(bool),
    /// One of several.
    Choice {
        /// What can be chosen.
        options: Vec<String>,
        /// Which is.
        picked: usize,
    },
}

impl Value {
    /// What is typed or chosen.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
            Self::Switch(true) => "on",
            Self::Switch(false) => "off",
            Self::Choice { options, picked } => options.get(*picked).map_or("", String::as_str),
        }
    }
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name, in front of it.
    pub(crate) label: String,
    /// What it holds.
    pub(crate) value: Value,
    /// Shown dim behind it.
    pub(crate) hint: String,
    /// Whether the value is the prefilled one: the first digit or letter typed replaces it; a text that → or End
    /// was pressed in is typed on.
    pub(crate) untouched: bool,
    /// Whether there is nothing to fill in: empty it means what the hint says.
    pub(super) may_be_empty: bool,
    /// The field asks for a name that confirms: no such name begins with the key of the filter.
    pub(crate) confirms: bool,
}

impl Field {
    /// A text, prefilled.
    pub(crate) fn text(label: &str, value: impl Into<String>) -> NewField<Text> {
        NewField::new(label, Value::Text(value.into()))
    }

    /// The name of an object, typed in full to confirm what is done to it.
    pub(crate) fn confirmation(wanted: &str) -> NewField<Text> {
        let mut field = Self::text("name", "").hint(&format!("type {wanted}"));
        field.0.confirms = true;
        field
    }

    /// A text that may be left out; empty it means what the hint says.
    pub(crate) fn text_or(label: &str, hint: &str) -> NewField<Text> {
        NewField::new(label, Value::Text(String::new())).hint(hint).left_out()
    }

    /// A number, prefilled.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers and text alike, at each call without a borrow"
    )]
    pub(crate) fn number(label: &str, value: impl ToString) -> NewField<Number> {
        NewField::new(label, Value::Number(value.to_string()))
    }

    /// A number that is empty: the default named in the hint.
    pub(crate) fn number_or(label: &str, hint: &str) -> NewField<Number> {
        NewField::new(label, Value::Number(String::new())).hint(hint).left_out()
    }

    /// On or off; off at first.
    pub(crate) fn switch(label: &str) -> NewField<Switch> {
        NewField::new(label, Value::Switch(false))
    }

    /// One of several; the first at first.
    pub(crate) fn choice(label: &str, options: Vec<String>) -> NewField<Choice> {
        NewField::new(label, Value::Choice { options, picked: 0 })
    }

    /// Returns whether users can type any text into the field.
    pub(crate) fn takes_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    /// Returns whether the user has typed nothing that is still there: the next letter replaces the value.
    pub(super) fn is_untyped(&self) -> bool {
        self.untouched || self.value.text().is_empty()
    }

    /// Takes a key; returns whether it edits the value, also where the value stays the same at its limit.
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

    /// Takes pasted text. Of numbers, only digits: `3x` is no number, and 3 is not what was meant.
    pub(super) fn paste(&mut self, pasted: &str) {
        match &mut self.value {
            Value::Text(text) => {
                if self.untouched {
                    text.clear();
                }
                text.extend(pasted.chars().filter(|c| !c.is_control()));
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

    /// The number of a number field, none when it is empty; why it cannot be taken. Digits are never dropped.
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

    /// Whether something has to be filled in yet.
    pub(super) fn is_missing(&self) -> bool {
        !self.may_be_empty && self.value.text().trim().is_empty()
    }

    /// What is wrong with what is typed so far.
    pub(super) fn problem(&self) -> Option<String> {
        matches!(self.value, Value::Number(_)).then(|| self.as_number().err()).flatten()
    }
}

/// One more or one less; what is too large to be a number stays as it is.
fn nudge(text: &mut String, by: i32) {
    let number = if text.is_empty() { Ok(0) } else { text.parse::<i32>() };
    if let Ok(number) = number {
        *text = number.saturating_add(by).max(0).to_string();
    }
}
