//! The dialog before a user's plugin runs: its inputs, and the command for confirmation.

use crate::dialog::{Choice, Dialog as AnyDialog, Field, FieldId, Fields, Note, Switch, Text};
use crate::effect::{Dialog, Effect};
use console_data::extensions::{Input, InputKind, Plugin, PluginRun, Program, Variables};
use console_data::resource::ObjectRef;
use console_toolkit::text::clean;

#[derive(Clone, Copy)]
enum InputField {
    Text(FieldId<Text>),
    Switch(FieldId<Switch>),
    Choice(FieldId<Choice>),
}

/// Creates the dialog that asks for the inputs of a plugin and confirms its run.
pub fn dialog(plugin: &Plugin, target: ObjectRef, variables: Variables) -> Dialog {
    let mut fields = Fields::default();
    let mut input_fields: Vec<(Input, InputField)> = Vec::new();
    for input in &plugin.inputs {
        let label = clean(&input.label).into_owned();
        let field = match input.kind {
            InputKind::String | InputKind::Number if !input.required && input.default.is_empty() => {
                InputField::Text(fields.add(Field::text_or(&label, "")))
            }
            InputKind::String | InputKind::Number => {
                InputField::Text(fields.add(Field::text(&label, input.default.clone())))
            }
            InputKind::Bool => {
                InputField::Switch(fields.add(Field::switch(&label).on(input.default == "true")))
            }
            InputKind::Dropdown => {
                let options = input.options.iter().map(|option| clean(option).into_owned()).collect();
                InputField::Choice(fields.add(Field::choice(&label, options).picking(&clean(&input.default))))
            }
        };
        input_fields.push((input.clone(), field));
    }
    let title = clean(&plugin.description).into_owned();
    let about = target.describe();
    let program = {
        let plugin = plugin.clone();
        move |dialog: &Dialog| fill(&plugin, &input_fields, &variables, dialog)
    };
    let shown = program.clone();
    let (name, place) = (plugin.name.clone(), plugin.run_target);
    let dialog = AnyDialog::new(title, "Run", move |dialog, _| {
        let program = program(dialog)?;
        let run = PluginRun { name: name.clone(), target: target.clone(), program, run_target: place };
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
    input_fields: &[(Input, InputField)],
    variables: &Variables,
    dialog: &Dialog,
) -> Result<Program, String> {
    let mut variables = variables.clone();
    for (input, field) in input_fields {
        let value = match field {
            InputField::Text(field) => dialog.text(*field).to_owned(),
            InputField::Switch(field) => dialog.is_on(*field).to_string(),
            InputField::Choice(field) => dialog.choice(*field).to_owned(),
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
