//! The kernel's settings of a network namespace: files that apply to the namespace of the thread that writes them.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::{fs, io};

use rustix::fs::{Mode, OFlags};

use crate::FabricError;

const ROOT: &str = "/proc/sys/net";

/// Sets a sysctl by its path below `/proc/sys/net`.
pub(crate) fn set(name: &str, value: &str) -> Result<(), FabricError> {
    fs::write(Path::new(ROOT).join(name), value)
        .map_err(|error| FabricError::new(format!("sysctl {name}"), error))
}

/// Sets a sysctl if the kernel has it.
pub(crate) fn set_if_exists(name: &str, value: &str) -> Result<(), FabricError> {
    ignore_missing(set(name, value))
}

fn ignore_missing(set: Result<(), FabricError>) -> Result<(), FabricError> {
    match set {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The settings of one family in the namespace that this thread was in at their lookup. The directories of all
/// namespaces have the same name in one directory, and the kernel compares all of them during a lookup: so the lookup
/// is done once.
#[derive(Debug)]
pub(crate) struct FamilySettings {
    family: &'static str,
    /// The family's directory; `None` if the kernel does not support the family.
    directory: Option<OwnedFd>,
}

impl FamilySettings {
    /// Opens the settings of `ipv4` or `ipv6`.
    pub(crate) fn of(family: &'static str) -> Result<Self, FabricError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(Path::new(ROOT).join(family), flags, Mode::empty()) {
            Ok(directory) => Ok(Self { family, directory: Some(directory) }),
            Err(rustix::io::Errno::NOENT) => Ok(Self { family, directory: None }),
            Err(error) => Err(FabricError::new(format!("sysctls of {family}"), error.into())),
        }
    }

    /// Sets a sysctl by its path below the family's directory.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), FabricError> {
        let written = || -> io::Result<()> {
            let directory = self.directory.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let file = rustix::fs::openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            File::from(file).write_all(value.as_bytes())
        };
        written().map_err(|error| FabricError::new(format!("sysctl {}/{name}", self.family), error))
    }

    /// Sets a sysctl if the kernel has it.
    pub(crate) fn set_if_exists(&self, name: &str, value: &str) -> Result<(), FabricError> {
        ignore_missing(self.set(name, value))
    }
}

/// Returns true if this kernel supports IPv6 at all.
pub fn has_ipv6() -> bool {
    Path::new(ROOT).join("ipv6/conf/all/forwarding").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NET-11: a missing setting is reported by its whole name, or skipped; nothing is created.
    #[test]
    fn settings_that_the_kernel_does_not_have_are_reported_by_name_net_11() {
        let settings = FamilySettings::of("ipv4").unwrap();
        let error = settings.set("no_such_setting", "0").unwrap_err();
        assert_eq!(
            (error.step.as_str(), error.source.kind()),
            ("sysctl ipv4/no_such_setting", io::ErrorKind::NotFound)
        );
        settings.set_if_exists("no_such_setting", "0").unwrap();
        let unknown = FamilySettings::of("ipv9").unwrap();
        assert_eq!(unknown.set("x", "0").unwrap_err().source.kind(), io::ErrorKind::NotFound);
        unknown.set_if_exists("x", "0").unwrap();
    }
}
