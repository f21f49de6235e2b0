//! Finds the podium whose processes the nodes of a test are: the test itself is another program.

use std::path::{Path, PathBuf};

use super::error::Error;

/// Names the program where it is not on the PATH.
const VARIABLE: &str = "PODIUM";

/// The program that was given, or that `$PODIUM` names, or `podium` on the PATH.
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
        let how = "install it (cargo install --path PODIUM), or name it with process_nodes_by() or $PODIUM";
        Error::Program(format!(
            "nodes that run processes need the podium program, which is not on the PATH: {how}"
        ))
    })
}

fn usable(path: PathBuf, said_by: &str) -> Result<PathBuf, Error> {
    // A node's host starts in another directory.
    let path = std::path::absolute(&path).unwrap_or(path);
    if is_program(&path) {
        return Ok(path);
    }
    Err(Error::Program(format!("{}, which {said_by} names, is no program that can be run", path.display())))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
