//! A dialog as text: its lines, and the part with the focus.

use super::{Dialog, Field, Focus, Note, Value};
use console_data::context::Context;
use console_toolkit::text::clean;

impl<E> Dialog<E> {
    /// Returns its lines, without its title.
    pub fn text_lines(&self, cx: &Context<'_>) -> Vec<String> {
        let notes = self.current_notes(cx);
        let error = self.error.iter().map(|error| format!("Error: {}", clean(error)));
        let text = self.text.iter().flat_map(note_lines);
        let place =
            self.context.iter().map(|name| format!("in the context {}{}", clean(name), self.number_text()));
        place
            .chain(self.number_alone())
            .chain(text)
            .chain(self.fields.iter().map(describe_field))
            .chain(notes.iter().flat_map(note_lines))
            .chain(error)
            .collect()
    }

    /// Returns `question 1 of 2` if one key opens several dialogs for one cluster.
    pub(super) fn number_alone(&self) -> Option<String> {
        let (number, of) = self.number.filter(|_| self.context.is_none())?;
        Some(format!("question {number} of {of}"))
    }

    /// Returns `, question 1 of 2` if one key opens several dialogs.
    pub(super) fn number_text(&self) -> String {
        self.number.map(|(number, of)| format!(", question {number} of {of}")).unwrap_or_default()
    }

    /// Describes the part with the focus.
    pub fn focused(&self) -> String {
        match self.focus {
            Focus::Field(index) => match self.fields.get(index) {
                Some(field) => format!("Field: {}", describe_field(field)),
                None => String::new(),
            },
            Focus::Cancel => "Button: Cancel".to_owned(),
            Focus::Submit => format!("Button: {}", clean(&self.verb)),
        }
    }
}

fn note_lines(note: &Note) -> Vec<String> {
    let (text, word) = match note {
        Note::Plain(text) => (text, ""),
        Note::Warning(text) => (text, "Warning: "),
    };
    text.lines().map(|line| format!("{word}{}", clean(line))).collect()
}

fn describe_field(field: &Field) -> String {
    let value = match &field.value {
        Value::Text(text) | Value::Number(text) if text.is_empty() => "empty".to_owned(),
        Value::Text(text) | Value::Number(text) => clean(text).into_owned(),
        Value::Switch(on) => if *on { "on" } else { "off" }.to_owned(),
        Value::Choice { options, .. } => format!("{}, one of {}", clean(field.value.text()), options.len()),
    };
    let hint = if field.hint.is_empty() { String::new() } else { format!(", {}", clean(&field.hint)) };
    format!("{}: {value}{hint}", clean(&field.label))
}
