//! The dialogs before a terminal opens: the choice of a container, or the options of a debug container.

use k8s_openapi::api::core::v1::Pod;

use super::{Plan, TerminalData};
use console_data::container::default_container;
use console_data::resource::ObjectRef;
use console_operations::dialog::{Field, Fields};
use console_operations::effect::{Dialog, Effect, TerminalPurpose};
use console_operations::pane::{DebugPlan, SessionTarget};

/// Returns the session target in a container for a purpose.
pub(super) fn opening(purpose: TerminalPurpose, container: &str) -> SessionTarget {
    let container = Some(container.to_owned());
    match purpose {
        TerminalPurpose::Attach => SessionTarget::Attach { container },
        TerminalPurpose::Shell
        | TerminalPurpose::NodeShell
        | TerminalPurpose::Debug
        | TerminalPurpose::Program => SessionTarget::Shell { container },
    }
}

/// Creates the dialog that asks for the container.
pub(super) fn container_dialog(
    target: &ObjectRef,
    pod: &Pod,
    purpose: TerminalPurpose,
    options: Vec<String>,
) -> Dialog {
    let title = match purpose {
        TerminalPurpose::Attach => format!("Attach to {}", target.name),
        _ => format!("Shell in {}", target.name),
    };
    let preferred = preferred(pod, purpose, &options);
    let mut fields = Fields::default();
    let container = fields.add(Field::choice("container", options).picking(&preferred));
    Dialog::new(title, "Open", move |dialog, _| {
        let plan = Plan::of(opening(purpose, dialog.choice(container)));
        Ok(vec![Effect::send(TerminalData::Decided(plan))])
    })
    .fields(fields)
    .on_cancel(|_, _| vec![Effect::Back])
}

/// Splits a command line into words; quotes group words.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err("the command has an open quote".to_owned());
    }
    words.extend(word);
    Ok(words)
}

/// Creates the dialog that asks for the image and target of a debug container.
pub(super) fn debug_dialog(target: &ObjectRef, pod: &Pod) -> Dialog {
    const NONE: &str = "(none)";
    let spec = pod.spec.as_ref();
    let mut options: Vec<String> = spec
        .map(|spec| spec.containers.iter().map(|container| container.name.clone()).collect())
        .unwrap_or_default();
    options.push(NONE.to_owned());
    let preferred = default_container(pod).unwrap_or_default();
    let name = target.name.clone();
    let mut fields = Fields::default();
    let into = fields.add(Field::choice("target", options).picking(&preferred));
    let image = fields.add(Field::text("image", "busybox").hint("any image that the cluster can run"));
    let command = fields.add(Field::text_or("command", "the image's own, if empty"));
    Dialog::new(format!("Debug {name}"), "Start", move |dialog, _| {
        let image = dialog.text(image).trim().to_owned();
        if image.is_empty() {
            return Err("the image is required, such as busybox".to_owned());
        }
        let chosen = dialog.choice(into);
        let into = (chosen != NONE).then(|| chosen.to_owned());
        let debug = DebugPlan::new(&image, into, split_words(dialog.text(command))?);
        let opening = SessionTarget::Debug { container: debug.name.clone() };
        let plan = Plan { debug: Some(debug), ..Plan::of(opening) };
        Ok(vec![Effect::send(TerminalData::Decided(plan))])
    })
    .line("Adds an ephemeral container that sees the target's processes. It stays until the pod is deleted.")
    .fields(fields)
    .on_cancel(|_, _| vec![Effect::Back])
}

/// Returns the default choice: for an attach the newest running debug container, else the pod's default container.
fn preferred(pod: &Pod, purpose: TerminalPurpose, running: &[String]) -> String {
    let spec = pod.spec.as_ref();
    let debuggers = spec.and_then(|spec| spec.ephemeral_containers.as_deref()).unwrap_or_default();
    let newest = debuggers.iter().rev().map(|container| &container.name).find(|name| running.contains(name));
    match (purpose, newest) {
        (TerminalPurpose::Attach, Some(debugger)) => debugger.clone(),
        _ => default_container(pod).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON-8: the debug command is split as a shell splits it.
    #[test]
    fn a_command_line_is_split_into_words() {
        let cases: &[(&str, Result<&[&str], ()>)] = &[
            ("", Ok(&[])),
            ("sh", Ok(&["sh"])),
            (" sh  -c 'echo a b' ", Ok(&["sh", "-c", "echo a b"])),
            (r#"a"b c"d ''"#, Ok(&["ab cd", ""])),
            ("sh -c 'x", Err(())),
        ];
        for (text, expect) in cases {
            let expect = expect.map(|list| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            assert_eq!(split_words(text).map_err(|_| ()), expect, "{text}");
        }
    }
}
