//! Identifies a node's machine: `status.nodeInfo.machineID`, `systemUUID` and `bootID`.

use std::fs;

use base::hex::hex;
use sha2::{Digest, Sha256};

/// Files with the machine's id, which lasts as long as the installation.
const MACHINE_ID: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
/// The file with the kernel's id of the current boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The three ids of one node. The nodes of one machine must differ in the first two, so both are derived from the
/// machine's id and the node's name: the same at every start. The boot id is the same for all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MachineIds {
    pub(super) machine: String,
    pub(super) system: String,
    pub(super) boot: String,
}

impl MachineIds {
    pub(super) fn of_node(name: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let machine = MACHINE_ID.iter().find_map(|path| read(path)).unwrap_or_default();
        Self::derive(&machine, read(BOOT_ID).filter(|id| !id.is_empty()), name)
    }

    fn derive(machine: &str, boot: Option<String>, node: &str) -> Self {
        let id = |kind: &str| -> String {
            let digest = hex(Sha256::digest(format!("podium {kind} {machine} {node}")));
            digest[..32].to_owned()
        };
        Self {
            machine: id("machine"),
            system: uuid(&id("system")),
            boot: boot.unwrap_or_else(|| uuid(&id("boot"))),
        }
    }
}

/// 32 hexadecimal digits as a UUID is written.
fn uuid(digits: &str) -> String {
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tools that identify machines rely on these ids (NODE-1).
    #[test]
    fn a_nodes_ids_differ_from_each_other_and_from_other_nodes() {
        let (one, two) = (MachineIds::of_node("node-1"), MachineIds::of_node("node-2"));
        assert_eq!(one, MachineIds::of_node("node-1"), "the same on every start");
        assert!(one.machine != two.machine && one.system != two.system && one.boot == two.boot);
        assert!(one.machine != one.system && one.system != one.boot && one.machine != one.boot);
        assert_eq!((one.machine.len(), one.system.len(), one.boot.len()), (32, 36, 36));
        let alone = MachineIds::derive("", None, "n");
        assert!(alone.boot.len() == 36 && alone.boot != alone.system, "{alone:?}");
    }
}
