//! The directories for a user's files of programs, by the XDG Base Directory Specification.

use std::env;
use std::path::PathBuf;

/// Returns the directory of configurations; `None` if the user has no home.
pub fn config_dir() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME", ".config")
}

/// Returns the directory of data; `None` if the user has no home.
pub fn data_dir() -> Option<PathBuf> {
    directory("XDG_DATA_HOME", ".local/share")
}

/// Returns the directory of data that is not worth a backup; `None` if the user has no home.
pub fn state_dir() -> Option<PathBuf> {
    directory("XDG_STATE_HOME", ".local/state")
}

/// Returns the directory in a variable; a relative one is ignored, as the specification demands.
fn directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let home = || env::home_dir().filter(|home| home.is_absolute());
    let chosen = env::var_os(variable).map(PathBuf::from).filter(|chosen| chosen.is_absolute());
    chosen.or_else(|| Some(home()?.join(below_home)))
}
