//! The dialogs of a copy: source and destination, and the confirmation to replace an existing file.

use k8s_openapi::api::core::v1::Pod;

use super::{CopyDirection, Plan, TransferChoice, TransferData};
use console_data::container::default_container;
use console_data::container_state;
use console_data::resource::ObjectRef;
use console_operations::dialog::{Field, Fields};
use console_operations::effect::{Dialog, Effect};
use console_operations::transfer::split;
use console_toolkit::text::clean;

const OUT: &str = "out of the container";
const IN: &str = "into the container";

/// Creates the dialog for source and destination; an error if no container runs, or if the given one does not run.
pub(super) fn source_dialog(
    target: &ObjectRef,
    pod: &Pod,
    container: Option<&str>,
) -> Result<Dialog, String> {
    let mut running = container_state::running(pod);
    if let Some(container) = container {
        running.retain(|name| name == container);
    }
    if running.is_empty() {
        return Err(match container {
            Some(container) => format!("container {container} is not running"),
            None => format!("no container of {} is running: nothing can be copied", target.name),
        });
    }
    let preferred = default_container(pod).unwrap_or_default();
    let mut fields = Fields::default();
    let direction = fields.add(Field::choice("direction", vec![OUT.to_owned(), IN.to_owned()]));
    let container = fields.add(Field::choice("container", running).picking(&preferred));
    let there = fields.add(Field::text("path there", "").hint("a file or a directory of the container"));
    let here =
        fields.add(Field::text("path here", ".").hint("on this machine; an existing directory receives it"));
    let dialog = Dialog::new(format!("Copy with {}", target.describe()), "Copy", move |dialog, _| {
        let direction = if dialog.choice(direction) == IN { CopyDirection::In } else { CopyDirection::Out };
        let path = |text: &str, label: &str| match text.trim() {
            "" => Err(format!("{label}: enter a path")),
            path if path.contains('\0') => Err(format!("{label}: invalid path")),
            path => Ok(path.to_owned()),
        };
        let there = path(dialog.text(there), "path there")?;
        let here = path(dialog.text(here), "path here")?;
        if direction == CopyDirection::Out && split(&there).is_none() {
            return Err(format!("path there: {there} must name a file or directory below the root"));
        }
        let container = dialog.choice(container).to_owned();
        let plan = Plan { direction, container, container_path: there, local_path: here, replaces: false };
        Ok(vec![Effect::send(TransferData::Decided(TransferChoice(plan)))])
    });
    Ok(dialog.fields(fields).on_cancel(|_, _| vec![Effect::Back]))
}

/// Creates the dialog that confirms a replacement.
pub(super) fn replace(plan: Plan, place: &str) -> Dialog {
    let title = "Replace the destination";
    Dialog::new(title, "Replace", move |_, _| {
        let plan = Plan { replaces: true, ..plan.clone() };
        Ok(vec![Effect::send(TransferData::Decided(TransferChoice(plan)))])
    })
    .warning(format!("{} already exists. It is lost once the copy is complete.", clean(place)))
    .on_cancel(|_, _| vec![Effect::Back])
}
