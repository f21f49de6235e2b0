//! Finds the `podium` program that runs the processes of a test's nodes; the test itself is another program.

use std::path::{Path, PathBuf};

use super::error::Error;

/// The environment variable that names the program if it is not on the PATH.
const VARIABLE: &str = "PODIUM";

/// Returns the given program, else the one that `$PODIUM` names, else `podium` on the PATH.
pub(super) fn podium(given: Option<PathBuf>) -> Result<PathBuf, Error> {
    if let Some(path) = given {
        return usable(path, "process_nodes_by()");
    }
    if let Some(path) = std::env::var_os(VARIABLE) {
        return usable(path.into(), "$PODIUM");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join("podium")).find(|file| is_program(file));
    found.ok_or_else(|| {
        let how =
            "install it (cargo install --path PODIUM), or give its path with process_nodes_by() or $PODIUM";
        Error::Program(format!(
            "nodes that run processes need the podium program, which is not on the PATH; {how}"
        ))
    })
}

fn usable(path: PathBuf, source: &str) -> Result<PathBuf, Error> {
    // A node's host starts in another directory, so a relative path would be wrong there.
    let path = std::path::absolute(&path).unwrap_or(path);
    if is_program(&path) {
        return Ok(path);
    }
    Err(Error::Program(format!("{}, given by {source}, is not an executable file", path.display())))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
