//! The user behind a process that is root of a user namespace with subordinate ids.
#![expect(unsafe_code, reason = "the environment, user namespaces and the way of a child to its program")]

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use rustix::thread::UnshareFlags;

use super::IDS_OF_A_SYSTEM;
use crate::optional_file::read_optional;

/// The variable by which child processes know the user: `UID:GID`.
const STARTED_BY: &str = "PODIUM_STARTED_BY";
/// The map of the machine's own user namespace.
const IDENTITY: [&str; 3] = ["0", "0", "4294967295"];

/// A user of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealUser {
    /// The user's id on the machine.
    pub uid: u32,
    /// The id of the user's group.
    pub gid: u32,
}

impl RealUser {
    /// The user that this process runs as.
    pub fn of_process() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self { uid: uid.as_raw(), gid: gid.as_raw() }
    }
}

/// Returns the user who started a process that has started over as root of a user namespace; `None` for any other
/// process.
pub fn real_user() -> Option<RealUser> {
    static USER: OnceLock<Option<RealUser>> = OnceLock::new();
    *USER.get_or_init(|| {
        let given = std::env::var(STARTED_BY).ok()?;
        let (uid, gid) = given.split_once(':')?;
        let user = RealUser { uid: uid.parse().ok()?, gid: gid.parse().ok()? };
        // A variable alone proves nothing.
        (rustix::process::geteuid().is_root() && !is_machine_root()).then_some(user)
    })
}

/// Records the user after the namespace was entered. The process has one thread.
pub(super) fn remember(user: RealUser) {
    // The password file names another home for root.
    let home = std::env::var_os("HOME").is_none().then(|| home_of(user)).flatten();
    // SAFETY: no other thread exists that could read the environment.
    unsafe {
        std::env::set_var(STARTED_BY, format!("{}:{}", user.uid, user.gid));
        if let Some(home) = home {
            std::env::set_var("HOME", home);
        }
    }
}

fn home_of(user: RealUser) -> Option<String> {
    let passwd = read_optional("/etc/passwd");
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (uid, home) = (fields.get(2)?, fields.get(5)?);
        (uid.parse() == Ok(user.uid) && home.starts_with('/')).then(|| (*home).to_owned())
    })
}

/// Returns true if this process is root of the machine, or of a container that has the machine's ids: the machine's
/// files belong to it, and not only those of a user namespace's ids.
pub fn is_machine_root() -> bool {
    static IS_IT: OnceLock<bool> = OnceLock::new();
    *IS_IT.get_or_init(|| {
        let map = read_optional("/proc/self/uid_map");
        let is_root = rustix::process::geteuid().is_root();
        is_root && (map.is_empty() || map.split_ascii_whitespace().eq(IDENTITY))
    })
}

/// Returns true if this process can give files to all users of a system: it is root, and its user namespace has these
/// users.
pub fn keeps_owners() -> bool {
    let map = read_optional("/proc/self/uid_map");
    let counts = map.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
    rustix::process::geteuid().is_root() && (map.is_empty() || counts.sum::<u64>() >= IDS_OF_A_SYSTEM)
}

/// Describes which ids of the machine own the files that this process gives to the users of a system, if they are
/// subordinate ids: files are of use only with the same ones.
pub fn file_owners() -> Option<String> {
    real_user()?;
    let part = |file: &str| {
        let mut left = IDS_OF_A_SYSTEM;
        let mut parts = Vec::new();
        for line in read_optional(file).lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(inside), Some(outside), Some(count)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            // Further ranges that are added to the machine's files change nothing.
            let count = count.parse::<u64>().unwrap_or(0).min(left);
            left -= count;
            if count > 0 {
                parts.push(format!("{inside}:{outside}:{count}"));
            }
        }
        parts.join(",")
    };
    Some(format!("users {} groups {}", part("/proc/self/uid_map"), part("/proc/self/gid_map")))
}

/// Lets a program that this process starts run as the user, if this process has started over as root of a user
/// namespace.
pub fn as_real_user(command: &mut Command) {
    let Some(user) = real_user() else { return };
    let maps = [format!("{} 0 1", user.uid), format!("{} 0 1", user.gid)];
    // SAFETY: the child only calls the kernel.
    unsafe {
        command.pre_exec(move || enter(&own_process()?, &maps));
    }
}

/// Makes this process appear to itself as a user: for the machine its user does not change. The process must have one
/// thread.
pub fn appear_as(user: RealUser) -> io::Result<()> {
    appear_as_by(&own_process()?, user)
}

/// [`appear_as`] for a process whose /proc is that of a PID namespace it is not in: `own` is its [`own_process`].
pub fn appear_as_by(own: &OwnedFd, user: RealUser) -> io::Result<()> {
    let from = RealUser::of_process();
    enter(own, &[format!("{} {} 1", user.uid, from.uid), format!("{} {} 1", user.gid, from.gid)])
}

/// Opens the directory of this process in /proc.
pub fn own_process() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(c"/proc/self", flags, Mode::empty())?)
}

/// Enters a user namespace with these maps of one user and one group. Needs no memory.
fn enter(own: &OwnedFd, maps: &[String; 2]) -> io::Result<()> {
    // SAFETY: never called with FILES or FS, so no other code's idea of its descriptors changes.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?;
    write(own, c"setgroups", "deny")?;
    write(own, c"uid_map", &maps[0])?;
    write(own, c"gid_map", &maps[1])
}

fn write(own: &OwnedFd, name: &CStr, text: &str) -> io::Result<()> {
    let file = rustix::fs::openat(own, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}
