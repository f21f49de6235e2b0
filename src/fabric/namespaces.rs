//! Creates, holds and enters user, network and mount namespaces.
//!
//! The process that enters must have one thread: the kernel refuses to move a multi-threaded one into a user namespace,
//! and a network namespace belongs to a thread.
#![expect(unsafe_code, reason = "unshare has no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::FabricError;
use base::subordinate_ids::{RealUser, appear_as};

/// Descriptors of the namespaces of a fabric: it exists for as long as any process holds them.
#[derive(Debug)]
pub struct Namespaces {
    /// The user namespace that owns the others; none if they are root's.
    pub user: Option<OwnedFd>,
    /// The fabric's network.
    pub network: OwnedFd,
}

impl Namespaces {
    /// Enters the user namespace, if there is one and this process is not in it, and stays in this process's network
    /// namespace. There is no way back. The process must have one thread.
    pub fn enter_user(&self) -> Result<(), FabricError> {
        let Some(user) = &self.user else { return Ok(()) };
        let own = own_user()?;
        // The kernel refuses to enter a process's own user namespace.
        if is_same(&own, user).map_err(FabricError::at("compare user namespaces"))? {
            return Ok(());
        }
        rustix::thread::move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(FabricError::at("enter the fabric's user namespace"))
    }
}

/// Enters a new user namespace in which this process keeps its user id, but may create the other namespaces.
pub fn enter_user_namespace() -> io::Result<()> {
    appear_as(RealUser::of_process())
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Moves this thread into a new network namespace.
pub(crate) fn unshare_network() -> Result<(), FabricError> {
    unshare(UnshareFlags::NEWNET).map_err(FabricError::at("new network namespace"))
}

/// Moves this thread into a network namespace.
pub fn enter_network(network: BorrowedFd<'_>) -> Result<(), FabricError> {
    rustix::thread::move_into_link_name_space(network, Some(LinkNameSpaceType::Network))
        .map_err(FabricError::at("enter a network namespace"))
}

/// Does this in another network namespace and comes back to `home`, the namespace that this thread is in.
///
/// # Panics
///
/// Ends the process if it cannot come back: all its further work would happen in the wrong namespace.
pub(crate) fn in_network<T>(
    network: BorrowedFd<'_>,
    home: BorrowedFd<'_>,
    act: impl FnOnce() -> T,
) -> Result<T, FabricError> {
    enter_network(network)?;
    let done = act();
    if let Err(error) = enter_network(home) {
        eprintln!("cannot return from a network namespace: {error}");
        std::process::abort();
    }
    Ok(done)
}

/// Moves this process into a mount namespace of its own: this process still sees later mounts of the machine, but only
/// this process sees the mounts that it makes.
pub fn enter_private_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    Ok(())
}

/// Returns this thread's network namespace.
pub(crate) fn own_network() -> Result<OwnedFd, FabricError> {
    own("net")
}

/// Returns this thread's user namespace.
pub(crate) fn own_user() -> Result<OwnedFd, FabricError> {
    own("user")
}

fn own(kind: &str) -> Result<OwnedFd, FabricError> {
    let opened = File::open(format!("/proc/thread-self/ns/{kind}"));
    opened.map(OwnedFd::from).map_err(FabricError::at("own namespace"))
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: never called with FILES or FS, so no other code's idea of its descriptors changes.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}
