//! The dialog before a user's plugin runs: its inputs, and the command for confirmation.

use crate::dialog::{Choice, Dialog as AnyDialog, Field, FieldId, Fields, Note, Switch, Text};
use crate::effect::{Dialog, Effect};
use crate::extensions::{Input, InputKind, Plugin, Program, Run, Variables};
use crate::resource::ObjectRef;
use crate::text::clean;

/// The field of an input.
#[derive(Clone, Copy)]
enum Asked {
    Text(FieldId<Text>),
    Switch(FieldId<Switch>),
    Choice(FieldId<Choice>),
}

/// Creates the dialog of a plugin for an object.
pub(crate) fn dialog(plugin: &Plugin, target: ObjectRef, variables: Variables) -> Dialog {
    let mut fields = Fields::default();
    let mut asked: Vec<(Input, Asked)> = Vec::new();
    for input in &plugin.inputs {
        let label = clean(&input.label).into_owned();
        let field = match input.kind {
            InputKind::String | InputKind::Number if !input.required && input.default.is_empty() => {
                Asked::Text(fields.add(Field::text_or(&label, "")))
            }
            InputKind::String | InputKind::Number => {
                Asked::Text(fields.add(Field::text(&label, input.default.clone())))
            }
            InputKind::Bool => Asked::Switch(fields.add(Field::switch(&label).on(input.default == "true"))),
            InputKind::Dropdown => {
                let options = input.options.iter().map(|option| clean(option).into_owned()).collect();
                Asked::Choice(fields.add(Field::choice(&label, options).picking(&clean(&input.default))))
            }
        };
        asked.push((input.clone(), field));
    }
    let title = clean(&plugin.description).into_owned();
    let about = target.describe();
    let program = {
        let plugin = plugin.clone();
        move |dialog: &Dialog| fill(&plugin, &asked, &variables, dialog)
    };
    let shown = program.clone();
    let (name, place) = (plugin.name.clone(), plugin.place);
    let dialog = AnyDialog::new(title, "Run", move |dialog, _| {
        let program = program(dialog)?;
        let run = Run { name: name.clone(), target: target.clone(), program, place };
        Ok(vec![Effect::Run(Box::new(run))])
    });
    let dialog = dialog.line(about).fields(fields).notes(move |dialog, _| match shown(dialog) {
        Ok(program) => vec![Note::Plain(clean(&program.to_string()).into_owned())],
        Err(why) => vec![Note::Warning(why)],
    });
    if plugin.dangerous { dialog.careful() } else { dialog }
}

fn fill(
    plugin: &Plugin,
    asked: &[(Input, Asked)],
    variables: &Variables,
    dialog: &Dialog,
) -> Result<Program, String> {
    let mut variables = variables.clone();
    for (input, field) in asked {
        let value = match field {
            Asked::Text(field) => dialog.text(*field).to_owned(),
            Asked::Switch(field) => dialog.is_on(*field).to_string(),
            Asked::Choice(field) => dialog.choice(*field).to_owned(),
        };
        if input.required && value.trim().is_empty() {
            return Err(format!("{}: required", input.label));
        }
        if input.kind == InputKind::Number && !value.is_empty() && value.trim().parse::<f64>().is_err() {
            return Err(format!("{}: {value:?} is not a number", input.label));
        }
        variables.set(&input.variable, value);
    }
    plugin.program(&variables)
}
