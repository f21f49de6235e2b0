//! The kernel's settings of a network namespace: files that speak of the namespace of the thread that writes them.

use std::path::Path;
use std::{fs, io};

use crate::FabricError;

const ROOT: &str = "/proc/sys/net";

/// Sets one by its path below `/proc/sys/net`.
pub(crate) fn set(name: &str, value: &str) -> Result<(), FabricError> {
    fs::write(Path::new(ROOT).join(name), value)
        .map_err(|error| FabricError::new(format!("sysctl {name}"), error))
}

/// Sets one where the kernel has it.
pub(crate) fn set_if_there(name: &str, value: &str) -> Result<(), FabricError> {
    match set(name, value) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether this kernel speaks IPv6 at all.
pub fn has_ipv6() -> bool {
    Path::new(ROOT).join("ipv6/conf/all/forwarding").exists()
}
