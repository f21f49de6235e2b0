//! `:dir DIRECTORY` and `:apply FILE`: manifests on the user's disk.

use crate::model::Model;
use console_data::read_only;
use console_operations::effect::{Effect, FilesRoute, Route};
use console_toolkit::text::typed_path;

/// Opens `:dir` and `:apply`; the path is the whole rest of the line, because file names may contain spaces.
pub(super) fn open(command: &str, text: &str, model: &Model) -> Result<Vec<Effect>, String> {
    let apply = command == "apply";
    if apply && model.shared.read_only {
        return Err(read_only::command_refusal(command));
    }
    let path = text.trim().strip_prefix(command).unwrap_or_default().trim();
    // Accepts kubectl's `-f`.
    let path = path.strip_prefix("-f ").unwrap_or(path).trim();
    if apply && path.is_empty() {
        return Err("apply: the file or directory is required; :dir browses files".into());
    }
    if path.starts_with("http://") || path.starts_with("https://") {
        return Err("apply reads files only; download the manifest first".into());
    }
    let path = typed_path(if path.is_empty() { "." } else { path })?;
    Ok(vec![Effect::open(Route::Files(FilesRoute { path, apply }))])
}
