//! Operations on objects, as in kubectl: one file per operation, with its dialog and actions.

pub mod add_node;
pub mod connection;
pub mod controller;
pub mod cron_job;
pub mod delete;
pub mod drain;
pub mod fault;
pub mod fence;
pub mod forward;
pub mod image;
pub mod label;
mod label_syntax;
pub mod node;
pub mod node_shell;
pub mod plugin;
pub mod restart;
pub mod scale;
pub mod set_image;
pub mod snapshot;

use console_data::resource::ObjectRef;

/// Returns the title of a dialog: `Delete Pod default/web`, or `Delete 3 objects`.
fn title(verb: &str, targets: &[ObjectRef], plural: &str) -> String {
    match targets {
        [one] => format!("{verb} {}", one.describe()),
        many => format!("{verb} {} {plural}", many.len()),
    }
}
