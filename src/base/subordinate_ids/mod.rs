//! Subordinate ids: the user and group ids that the machine's administrator gives an ordinary user besides their own
//! (`/etc/subuid`, `/etc/subgid`). With them programs of containers can be root, become other users and give them files.
//!
//! [`start_over`] moves this process into a user namespace whose root is the user and whose other ids are the
//! subordinate ones. Everything that the process does and starts from then on happens in that namespace, as root there.
//! [`real_user()`] tells the user.

mod namespace;
mod ranges;
mod real_user;

use std::path::{Path, PathBuf};

use ranges::{IdMap, names_of, read_bounded};

pub use real_user::{
    RealUser, appear_as, appear_as_by, as_real_user, file_owners, is_machine_root, keeps_owners, own_process,
    real_user,
};

/// The number of ids that a system has at least: images use ids up to 65535.
pub const IDS_OF_A_SYSTEM: u64 = 65_536;
/// The variable by which a user keeps to a single id: `PODIUM_USERS=one`.
const CHOICE: &str = "PODIUM_USERS";

/// Moves this process, run by an ordinary user, into a user namespace with the user's subordinate ids; root needs none.
/// An error is the reason why the process goes on with a single id, unchanged. The process must have one thread.
///
/// `running` are processes that an earlier run for the same data left behind: this process shares their namespace,
/// because processes of different user namespaces have no rights over each other's namespaces.
pub fn start_over(running: &[u32]) -> Result<(), String> {
    let user = RealUser::of_process();
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    if std::env::var_os(CHOICE).is_some_and(|choice| choice == "one") {
        return Err(format!("the environment has {CHOICE}=one"));
    }
    if namespace::join_running(running, user)? {
        real_user::remember(user);
        return Ok(());
    }
    let maps = maps_of(user)?;
    let programs = [program("newuidmap")?, program("newgidmap")?];
    namespace::enter_new(&programs, &maps)?;
    real_user::remember(user);
    Ok(())
}

/// The maps of user and group ids that the machine's files allow.
fn maps_of(user: RealUser) -> Result<[IdMap; 2], String> {
    let names = names_of(user.uid, &read_bounded(Path::new("/etc/passwd")));
    let map = |file: &str, own: u32| {
        let map = IdMap::new(own, &ranges::of_user(&read_bounded(Path::new(file)), user.uid, &names));
        if map.subordinate_count() >= IDS_OF_A_SYSTEM {
            return Ok(map);
        }
        let name = names.first().map_or_else(|| user.uid.to_string(), Clone::clone);
        Err(format!(
            "{file} gives the user {name} {} subordinate ids, and {IDS_OF_A_SYSTEM} are needed",
            map.subordinate_count()
        ))
    };
    Ok([map("/etc/subuid", user.uid)?, map("/etc/subgid", user.gid)?])
}

/// Finds a program along the `PATH`, and in the directories that have it on every distribution.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/bin", "/usr/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).filter(|place| place.is_absolute()).chain(usual);
    let found = places.find_map(|place| Some(place.join(name)).filter(|program| program.is_file()));
    found.ok_or_else(|| format!("{name} is not installed (package uidmap or shadow-utils)"))
}
