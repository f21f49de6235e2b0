//! The start of commands that give files to users of containers, or remove such files, as an ordinary user (IMG-12).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cluster::{default_data_dir, running_processes};

/// Continues this process as root of a user namespace with the user's subordinate ids, in which everything that it
/// starts runs, too. Returns the reason why it goes on with a single id; `None` if it has others, or is root anyway. The
/// process must have one thread.
pub(super) fn start_over(data_dir: Option<&Path>) -> Option<String> {
    let running = data_dir.map(running_processes).unwrap_or_default();
    base::subordinate_ids::start_over(&running).err()
}

/// The data directory that a command means, unless it belongs to another user: the command refuses that one, and its
/// message has the users as they are outside of any namespace.
pub(super) fn of_user(given: Option<&Path>) -> Option<std::path::PathBuf> {
    let directory = given.map_or_else(|| default_data_dir().ok(), |given| Some(given.to_path_buf()))?;
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = directory.metadata().is_ok_and(|about| about.uid() != own);
    (!is_foreign).then_some(directory)
}
