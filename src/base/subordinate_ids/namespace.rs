//! Enters a user namespace with subordinate ids: a new one, or that of processes of an earlier run.
//!
//! A new namespace is made by a short-lived child, whose maps this process has written by `newuidmap` and `newgidmap`.
//! Only when both have succeeded does this process enter: a failure leaves it as it was, and its pid, terminal and
//! parent never change.
#![expect(unsafe_code, reason = "fork and unshare have no safe wrappers")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::IDS_OF_A_SYSTEM;
use super::ranges::IdMap;
use super::real_user::RealUser;
use crate::optional_file::read_optional;

/// Enters the namespace of processes that still run; returns false if none does. An error says that they have a single
/// id: this process must do without others, too, because it could not use their namespaces.
pub(super) fn join_running(running: &[u32], user: RealUser) -> Result<bool, String> {
    for pid in running {
        let namespace = match File::open(format!("/proc/{pid}/ns/user")) {
            Ok(namespace) => namespace,
            // A program of the console, which runs as the user again, has no rights over the console's namespace.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(format!("process {pid} of an earlier run is out of reach from here ({error})"));
            }
            // It has ended meanwhile.
            Err(_) => continue,
        };
        let own = File::open("/proc/self/ns/user").and_then(|own| own.metadata());
        let is_own = own.is_ok_and(|own| {
            namespace.metadata().is_ok_and(|other| (own.dev(), own.ino()) == (other.dev(), other.ino()))
        });
        if is_own || !has_subordinate_ids(*pid, user) {
            return Err(format!(
                "process {pid} of an earlier run has a single id; after `podium stop` another start can have more"
            ));
        }
        return enter(&namespace).map(|()| true);
    }
    Ok(false)
}

/// Returns true if a process's namespace has the user as root and the ids of a system.
fn has_subordinate_ids(pid: u32, user: RealUser) -> bool {
    let has = |file: &str, own: u32| {
        let text = read_optional(format!("/proc/{pid}/{file}"));
        let numbers = |line: &str| -> Option<[u64; 3]> {
            let mut fields = line.split_ascii_whitespace().map(str::parse);
            Some([fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?])
        };
        let map: Vec<[u64; 3]> = text.lines().filter_map(numbers).collect();
        map.first() == Some(&[0, own.into(), 1])
            && map.iter().map(|[_, _, count]| count).sum::<u64>() > IDS_OF_A_SYSTEM
    };
    has("uid_map", user.uid) && has("gid_map", user.gid)
}

/// Creates a namespace with these maps of users and groups, and enters it.
pub(super) fn enter_new(programs: &[PathBuf; 2], maps: &[IdMap; 2]) -> Result<(), String> {
    let (made, made_by_holder) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("pipe: {error}"))?;
    let (until_closed, retained) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("pipe: {error}"))?;
    // SAFETY: the child only calls the kernel, and never returns.
    let holder = match unsafe { libc::fork() } {
        0 => {
            drop((made, retained));
            hold_new_namespace(&made_by_holder, &until_closed)
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0),
    };
    let holder = holder.ok_or_else(|| format!("fork: {}", io::Error::last_os_error()))?;
    drop((made_by_holder, until_closed));
    let entered = wait_until_made(made).and_then(|()| {
        for (program, map) in programs.iter().zip(maps) {
            write_map(program, holder, map)?;
        }
        let namespace = File::open(format!("/proc/{}/ns/user", holder.as_raw_nonzero()));
        enter(&namespace.map_err(|error| format!("cannot open the user namespace: {error}"))?)
    });
    // The child ends by this.
    drop(retained);
    let _ = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(holder), WaitOptions::empty()));
    entered
}

/// The child: creates a user namespace, reports it, and keeps it until its parent has entered it or is gone.
fn hold_new_namespace(made: &OwnedFd, until_closed: &OwnedFd) -> ! {
    // SAFETY: this process has one thread and shares no descriptors.
    let result = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) };
    let code = result.map_or_else(rustix::io::Errno::raw_os_error, |()| 0);
    let _ = rustix::io::write(made, &code.to_ne_bytes());
    let _ = rustix::io::retry_on_intr(|| rustix::io::read(until_closed, &mut [0_u8; 1]));
    // SAFETY: ends the process without running anything of its parent's.
    unsafe { libc::_exit(0) }
}

fn wait_until_made(made: OwnedFd) -> Result<(), String> {
    let mut code = [0; 4];
    let read = File::from(made).read_exact(&mut code);
    match (read, i32::from_ne_bytes(code)) {
        (Ok(()), 0) => Ok(()),
        (Ok(()), code) => {
            Err(format!("cannot create a user namespace: {}", io::Error::from_raw_os_error(code)))
        }
        (Err(error), _) => Err(format!("cannot create a user namespace: {error}")),
    }
}

/// Lets the privileged program write a map of a process: it checks that the ids are the user's.
fn write_map(program: &Path, process: Pid, map: &IdMap) -> Result<(), String> {
    let failed = |reason: String| {
        let name = program.file_name().unwrap_or_default().display();
        // It begins its messages with its name.
        let reason = reason.trim_start_matches(&format!("{name}: "));
        format!("{name} failed: {reason}")
    };
    let mut command = Command::new(program);
    command.arg(process.as_raw_nonzero().to_string());
    command.args(map.numbers().iter().flatten().map(u32::to_string));
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line: String = text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    Err(failed(if line.is_empty() { output.status.to_string() } else { line }))
}

fn enter(namespace: &File) -> Result<(), String> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))
        .map_err(|error| format!("cannot enter the user namespace: {error}"))
}
