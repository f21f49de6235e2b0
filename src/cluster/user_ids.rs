//! The user ids of containers, where an ordinary user runs the cluster: the processes whose user namespace a further
//! start must share, and what nodes tell about a single id (IMG-12).

use std::path::Path;

use super::data_dir::{DataDir, DataDirError, OF_IDS, running_instance};
use super::network_entry::NetworkEntry;
use base::subordinate_ids::file_owners;
use fabric::Fabric;
use host::running_hosts::running_hosts;

/// Returns the processes that run for a data directory: nodes' hosts, the process of the pods' network, and the
/// instance.
pub fn running_processes(data_dir: &Path) -> Vec<u32> {
    let Ok(directory) = data_dir.canonicalize() else { return Vec::new() };
    let hosts = running_hosts().into_iter().filter(|host| host.data_dir() == directory).map(|host| host.pid);
    let network = Fabric::connect(&NetworkEntry::socket(&directory)).and_then(|fabric| fabric.process());
    hosts.chain(network).chain(running_instance(&directory)).collect()
}

/// Records the ids that this run's files get, and returns a note for nodes whose containers have a single id;
/// `single_id` is the reason for it.
pub(super) fn note(data_dir: &DataDir, single_id: Option<&str>) -> Result<Option<String>, DataDirError> {
    if let Some(owners) = file_owners() {
        data_dir.write(OF_IDS, &owners)?;
        return Ok(None);
    }
    let Some(why) = single_id else { return Ok(None) };
    let mut note = format!(
        "containers have a single user id: programs that change their user or give files to one (redis, postgres) \
         stay the user that runs podium, or fail ({why})"
    );
    if data_dir.read(OF_IDS).is_some() {
        note.push_str(
            "; files that an earlier run with subordinate ids left in volumes can be neither used nor removed",
        );
    }
    Ok(Some(note))
}
