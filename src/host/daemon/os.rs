//! The few system calls the host process needs that have no safe wrapper.
//!
//! Invariant for the whole host: it is one single thread. Only that makes `fork` without `exec` sound: the
//! child has everything the parent had and no lock is held by a thread that does not exist any more.
#![expect(unsafe_code, reason = "fork, exec, namespaces, signals and ids have no safe wrappers")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::process::Pid;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets, UnshareFlags};
use tokio::io::unix::AsyncFd;

use super::signals;
use base::sort::SliceOrder;

/// The side of a fork.
pub(super) enum ForkResult {
    /// The new process; it must end with [`exit_now`] or an exec, never return into the host's loop.
    Child,
    /// The host, with the new process' id.
    Parent(Pid),
}

/// Forks the (single-threaded) process. All signals are blocked in the child until [`signals::reset`].
pub(super) fn fork() -> io::Result<ForkResult> {
    let before = signals::block_all();
    // SAFETY: the process has one thread (see the file's head), so the child may continue as usual.
    let result = unsafe { libc::fork() };
    if result == 0 {
        return Ok(ForkResult::Child);
    }
    let error = io::Error::last_os_error();
    signals::restore(&before);
    Pid::from_raw(result).filter(|_| result > 0).map(ForkResult::Parent).ok_or(error)
}

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `MOUNT_ATTR_RDONLY`.
const READ_ONLY: u64 = 1;

/// Makes a mount read only, with everything that is mounted in it; `ENOSYS` before Linux 5.12.
pub(super) fn lock_mounts_read_only(path: &std::path::Path) -> io::Result<()> {
    lock_read_only(path, libc::AT_RECURSIVE)
}

/// Makes a mount read only, and nothing that is mounted in it; `ENOSYS` before Linux 5.12.
pub(super) fn lock_mount_read_only(path: &std::path::Path) -> io::Result<()> {
    lock_read_only(path, 0)
}

fn lock_read_only(path: &std::path::Path, flags: libc::c_int) -> io::Result<()> {
    let path = CString::new(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))?;
    set_mount_attributes(libc::AT_FDCWD, &path, flags, READ_ONLY, 0, None)
}

/// `MOUNT_ATTR_IDMAP`.
const MAP_OWNERS: u64 = 0x10_0000;

/// Makes a new mount, which is at no path yet, show its files with the owners that they have in a user namespace.
pub(super) fn map_owners(mount: &impl AsFd, user_namespace: &impl AsFd, read_only: bool) -> io::Result<()> {
    let set = MAP_OWNERS | if read_only { READ_ONLY } else { 0 };
    let namespace = Some(user_namespace.as_fd());
    set_mount_attributes(mount.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH, set, 0, namespace)
}

/// Makes this process's new files belong to this user and group, although it keeps its own user and all its rights.
pub(super) fn create_files_as(id: u32) -> io::Result<()> {
    let bits = rustix::thread::capabilities_secure_bits()?;
    // Otherwise the kernel takes root's rights over files away.
    rustix::thread::set_capabilities_secure_bits(bits | CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    // SAFETY: plain calls on numbers; the process has one thread. They return the id before, and never an error.
    let now = unsafe {
        libc::setfsgid(id);
        libc::setfsuid(id);
        (libc::setfsgid(libc::gid_t::MAX), libc::setfsuid(libc::uid_t::MAX))
    };
    rustix::thread::set_capabilities_secure_bits(bits)?;
    let is_set = (now.0.cast_unsigned(), now.1.cast_unsigned()) == (id, id);
    if is_set { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// `MOUNT_ATTR_NODEV`.
const NO_DEVICES: u64 = 4;

/// Forbids opening devices in all mounts that this process sees; `ENOSYS` before Linux 5.12.
pub(super) fn forbid_devices_everywhere() -> io::Result<()> {
    set_mount_attributes(libc::AT_FDCWD, c"/", libc::AT_RECURSIVE, NO_DEVICES, 0, None)
}

/// Allows opening devices in the mount with this descriptor at its root.
pub(super) fn allow_devices(mount: &impl AsFd) -> io::Result<()> {
    set_mount_attributes(mount.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH, 0, NO_DEVICES, None)
}

fn set_mount_attributes(
    directory: RawFd,
    path: &CStr,
    flags: libc::c_int,
    set: u64,
    clear: u64,
    user_namespace: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let user_namespace = user_namespace.map_or(0, |namespace| namespace.as_raw_fd().cast_unsigned().into());
    let attributes = MountAttributes { set, clear, propagation: 0, user_namespace };
    // SAFETY: a path that ends with NUL and a structure of the given size, both live for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Forks pid 1 of a new PID namespace, without changing the namespace of this process's other children. The user
/// namespace of this process owns the new namespace.
pub(super) fn fork_init() -> io::Result<ForkResult> {
    clone(libc::CLONE_NEWPID)
}

/// Forks a child of this process's parent: the way to create a process in a namespace that the parent cannot enter
/// itself.
pub(super) fn fork_sibling() -> io::Result<ForkResult> {
    clone(libc::CLONE_PARENT)
}

/// Forks a child of this process's parent that is pid 1 of a new PID namespace inside this process's.
pub(super) fn fork_init_sibling() -> io::Result<ForkResult> {
    clone(libc::CLONE_NEWPID | libc::CLONE_PARENT)
}

fn clone(flags: libc::c_int) -> io::Result<ForkResult> {
    let before = signals::block_all();
    // SAFETY: without a stack of its own the child continues as after a fork; see `fork`.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
    if result == 0 {
        return Ok(ForkResult::Child);
    }
    let error = io::Error::last_os_error();
    signals::restore(&before);
    Pid::from_raw(result as i32).filter(|_| result > 0).map(ForkResult::Parent).ok_or(error)
}

/// Changes the name and command line of this process in `ps`; the command line is overwritten in place.
pub(super) fn retitle(title: &CStr) {
    let _ = rustix::thread::set_name(title);
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return };
    // After the name in brackets come the fields from the third on; 48 and 49 are the arguments' bounds.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(48 - 3);
    let mut next = || fields.next()?.parse::<usize>().ok();
    let (Some(start), Some(end)) = (next(), next()) else { return };
    let text = title.to_bytes_with_nul();
    if start == 0 || end < start + text.len() {
        return;
    }
    // SAFETY: the kernel says that this process' arguments lie here: writable memory of the stack that Rust
    // only reads through `std::env::args`, which a forked child never calls.
    unsafe {
        std::ptr::write_bytes(start as *mut u8, 0, end - start);
        std::ptr::copy_nonoverlapping(text.as_ptr(), start as *mut u8, text.len());
    }
}

/// Opens a namespace of a running process.
pub(super) fn open_namespace(pid: Pid, kind: &str) -> io::Result<OwnedFd> {
    std::fs::File::open(format!("/proc/{}/ns/{kind}", pid.as_raw_nonzero())).map(Into::into)
}

/// Moves this process (or its future children) into new namespaces.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: never called with FILES or FS, so no other code's idea of its descriptors changes.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// The rights of this process that a change of its user retains, if it has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetainedRights {
    /// To bind ports below 1024, also for the program: it gives a user in the machine's network the right that a
    /// setting of the pod's own network gives to every user.
    pub(super) low_ports: bool,
    /// To filter system calls, until the program is executed: an exec by a user other than root drops it.
    pub(super) filter: bool,
}

/// Becomes another user, and drops all capabilities but the retained ones unless that is root. Fails without the right to.
pub(super) fn become_user(uid: u32, gid: u32, groups: &[u32], retained: RetainedRights) -> io::Result<()> {
    let keeps = (retained.low_ports || retained.filter)
        && uid != 0
        && rustix::thread::set_keep_capabilities(true).is_ok();
    let check = |result| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: plain calls on numbers and a live slice; the process has one thread.
    unsafe {
        check(libc::setgroups(groups.len(), groups.as_ptr()))?;
        check(libc::setgid(gid))?;
        check(libc::setuid(uid))?;
    }
    // The kernel protects this process, which has descriptors of the host, from others of that user until its exec,
    // unless the machine allows dumps of such processes (`fs.suid_dumpable=1`).
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    if keeps { retain(retained) } else { Ok(()) }
}

fn retain(retained: RetainedRights) -> io::Result<()> {
    let Ok(own) = rustix::thread::capabilities(None) else { return Ok(()) };
    let own_right = |right: CapabilitySet, is_retained: bool| {
        if is_retained { right & own.permitted } else { CapabilitySet::empty() }
    };
    let low_ports = CapabilitySet::NET_BIND_SERVICE;
    // The container may have dropped it.
    let is_possible = rustix::thread::capability_is_in_bounding_set(low_ports).unwrap_or(false);
    let ambient = own_right(low_ports, retained.low_ports && is_possible);
    let all = ambient | own_right(CapabilitySet::SYS_ADMIN, retained.filter);
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: ambient };
    rustix::thread::set_capabilities(None, sets)?;
    if !ambient.is_empty() {
        // An error is ignored: the user has changed, and only lacks the right to bind low ports.
        let _ = rustix::thread::configure_capability_in_ambient_set(ambient, true);
    }
    Ok(())
}

/// Returns true if the kernel filters system calls.
pub(super) fn can_filter_system_calls() -> bool {
    // SAFETY: without a program the call only fails; how it fails tells whether the kernel knows it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            std::ptr::null::<libc::sock_fprog>(),
        )
    };
    result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Filters the system calls of this process, its program and its descendants.
pub(super) fn filter_system_calls(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: a program of the given length that lives for the call, which only reads it.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Marks every descriptor from `first` on to be closed by an exec.
pub(super) fn close_on_exec_from(first: u32) {
    // SAFETY: only flags of descriptors change.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done != 0 {
        for descriptor in first.cast_signed()..4096 {
            // SAFETY: as above.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Closes every descriptor from `first` on, in a child that will never use one again.
pub(super) fn close_from(first: u32) {
    close_range(first, libc::c_uint::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the caller is a forked child whose owned descriptors are never touched or dropped again.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done != 0 {
        for descriptor in first..=last.min(4095) {
            // SAFETY: as above.
            unsafe { libc::close(descriptor.cast_signed()) };
        }
    }
}

/// Closes every descriptor but these, in a child that will never use another one again.
pub(super) fn close_all_but(keep: &mut [RawFd]) {
    keep.order();
    let mut first = 0_u32;
    for descriptor in keep.iter().filter_map(|descriptor| u32::try_from(*descriptor).ok()) {
        if descriptor > first {
            close_range(first, descriptor - 1);
        }
        first = first.max(descriptor + 1);
    }
    close_from(first);
}

/// Returns the heap pages of a child that will never use them to the kernel: copies of the parent's.
pub(super) fn forget_heap() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let range = maps.lines().find(|line| line.ends_with("[heap]")).and_then(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    });
    std::mem::forget(maps);
    // SAFETY: only asks for an address.
    let thread_locals = unsafe { libc::__errno_location() } as usize;
    if let Some((start, end)) = range
        && !(start..end).contains(&thread_locals)
    {
        // SAFETY: the range is this process' own heap; the caller allocates and frees nothing afterwards.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

/// The arguments and the environment of a program, as the kernel takes them: their use allocates nothing.
pub(super) struct ExecArguments {
    argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    // The pointers lead to these texts.
    _texts: [Vec<CString>; 2],
}

impl ExecArguments {
    pub(super) fn new(argv: Vec<CString>, env: Vec<CString>) -> Self {
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
        };
        Self { argv: pointers(&argv), env: pointers(&env), _texts: [argv, env] }
    }
}

/// Replaces the process by a program; returns only on failure.
pub(super) fn exec(path: &CStr, arguments: &ExecArguments) -> io::Error {
    // SAFETY: both arrays are null-terminated and live until the call.
    unsafe { libc::execve(path.as_ptr(), arguments.argv.as_ptr(), arguments.env.as_ptr()) };
    io::Error::last_os_error()
}

/// Replaces the process by the program behind a descriptor; returns only on failure.
pub(super) fn exec_descriptor(program: BorrowedFd<'_>, arguments: &ExecArguments) -> io::Error {
    // SAFETY: as in `exec`; the path is the empty string, as AT_EMPTY_PATH asks for.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            arguments.argv.as_ptr(),
            arguments.env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

/// Ends the process without running any of the destructors copied from the parent.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// Sends a signal to a process; an exited process is no error.
pub(super) fn signal(pid: Pid, signal: i32) {
    // SAFETY: a plain call on numbers.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
}

/// Registers a descriptor with the event loop.
pub(super) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor as long as it lives.
    unsafe { AsyncFd::register(descriptor) }.map_err(Into::into)
}
