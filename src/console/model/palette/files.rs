//! `:dir DIRECTORY` and `:apply FILE`: manifests of the user's own disk.

use crate::effect::{Effect, FilesRoute, Route};
use crate::model::Model;
use crate::text::typed_path;

/// What `:dir` and `:apply` do; the path is all that follows the word, as file names may hold spaces.
pub(super) fn open(word: &str, text: &str, model: &Model) -> Result<Vec<Effect>, String> {
    let apply = word == "apply";
    if apply && model.shared.read_only {
        return Err("read-only: apply changes the cluster".into());
    }
    let path = text.trim().strip_prefix(word).unwrap_or_default().trim();
    // As kubectl has it.
    let path = path.strip_prefix("-f ").unwrap_or(path).trim();
    if apply && path.is_empty() {
        return Err("apply which file or directory? :dir looks for one".into());
    }
    if path.starts_with("http://") || path.starts_with("https://") {
        return Err("manifests are read from files; download it first".into());
    }
    let path = typed_path(if path.is_empty() { "." } else { path });
    Ok(vec![Effect::open(Route::Files(FilesRoute { path, apply }))])
}
