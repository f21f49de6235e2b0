//! Finds programs of the machine along search paths, and composes a container's search path.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use host::DEFAULT_PATH;

/// Adds a `PATH` that also has the directory of the image's program, if the default path lacks it and the image sets
/// none.
pub(super) fn with_search_path(
    mut env: Vec<(String, String)>,
    program: Option<&Path>,
) -> Vec<(String, String)> {
    let Some(directory) = program.and_then(Path::to_str) else { return env };
    let usual = DEFAULT_PATH.split(':').any(|known| known == directory);
    if !usual && !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".to_owned(), format!("{directory}:{DEFAULT_PATH}")));
    }
    env
}

/// Finds a program along a search path; a name with a slash is its own path.
pub(super) fn find_program(name: &str, search_path: &std::ffi::OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    std::env::split_paths(search_path).map(|directory| directory.join(name)).find(is_program)
}
