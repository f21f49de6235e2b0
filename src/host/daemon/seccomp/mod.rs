//! Filters of system calls (POD-17): profiles compiled for this machine, and their application to a process.

mod default;
mod filter;
mod numbers;

use std::io;

use rustix::thread::CapabilitySet;

use super::os;
use super::program::os_text;
use crate::Security;
use crate::seccomp::{Seccomp, SeccompFlag, SeccompProfile};
use filter::Machine;

/// A compiled profile.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    program: Vec<libc::sock_filter>,
    flags: libc::c_ulong,
}

impl Filter {
    /// Compiles the profile of a container that may have these capabilities; `None` if its system calls are not
    /// filtered.
    pub(super) fn of(security: &Security, capabilities: CapabilitySet) -> Result<Option<Self>, String> {
        let (name, profile) = match &security.seccomp {
            Seccomp::Unconfined => return Ok(None),
            // As in Kubernetes, nothing confines a privileged container.
            _ if security.privileged => return Ok(None),
            Seccomp::RuntimeDefault => ("RuntimeDefault", &default::profile()),
            Seccomp::Localhost { name, profile } => (name.as_str(), profile.as_ref()),
        };
        let failure = |reason: &str| format!("seccomp profile {name}: {reason}");
        if !os::can_filter_system_calls() {
            return Err(failure(
                "this machine's kernel does not filter system calls (CONFIG_SECCOMP_FILTER)",
            ));
        }
        let machine = Machine { capabilities, kernel: kernel_version() };
        let program = filter::compile(profile, &machine).map_err(|reason| failure(&reason))?;
        Ok(Some(Self { program, flags: flags(profile) }))
    }

    /// Filters the system calls of this process and of its descendants from now on.
    pub(super) fn apply(&self) -> Result<(), String> {
        let filter = || match os::filter_system_calls(&self.program, self.flags) {
            // A kernel before 4.17 knows no flag about speculation, and has no use for it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && self.flags != 0 => {
                os::filter_system_calls(&self.program, 0)
            }
            done => done,
        };
        let filtered = match filter() {
            // Without the right to filter a program that gains rights, only a program that gains none is filtered. That
            // is an ordinary user's process without a user namespace.
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                rustix::thread::set_no_new_privs(true).map_err(io::Error::from).and_then(|()| filter())
            }
            done => done,
        };
        filtered.map_err(|error| format!("seccomp: {}", os_text(&error)))
    }
}

/// Permits this process, which can gain no rights any more, only these system calls from now on; others fail. Without
/// effect if the kernel filters no system calls.
pub(super) fn allow_only(calls: &[libc::c_long]) -> io::Result<()> {
    if !os::can_filter_system_calls() {
        return Ok(());
    }
    os::filter_system_calls(&filter::only(calls).map_err(io::Error::other)?, 0)
}

/// The kernel's flags for a profile. As with runc, a profile without flags does not slow the program down.
fn flags(profile: &SeccompProfile) -> libc::c_ulong {
    if profile.flags.is_empty() {
        return libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    }
    let number = |flag: &SeccompFlag| match flag {
        // The process has one thread, to which the filter applies in any case.
        SeccompFlag::AllThreads => 0,
        SeccompFlag::Log => libc::SECCOMP_FILTER_FLAG_LOG,
        SeccompFlag::AllowSpeculation => libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
    };
    profile.flags.iter().map(number).fold(0, |all, flag| all | flag)
}

/// The kernel's version, `(0, 0)` if it cannot be read.
fn kernel_version() -> (u32, u32) {
    let system = rustix::system::uname();
    system.release().to_str().ok().and_then(filter::version).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POD-17: the kernel takes the default profile, for every set of capabilities; a privileged container has none.
    #[test]
    fn the_default_profile_is_compiled_for_all_capabilities() {
        if crate::needs::lacks(crate::needs::Need::Seccomp, os::can_filter_system_calls()) {
            return;
        }
        let security = Security { seccomp: Seccomp::RuntimeDefault, ..Security::default() };
        for capabilities in [CapabilitySet::empty(), CapabilitySet::all(), CapabilitySet::SYS_ADMIN] {
            let filter = Filter::of(&security, capabilities).unwrap().unwrap();
            assert!(filter.program.len() < 4096);
            assert_eq!(filter.flags, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
        }
        let privileged = Security { privileged: true, ..security };
        assert!(Filter::of(&privileged, CapabilitySet::all()).unwrap().is_none());
    }
}
