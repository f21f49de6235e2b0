//! Pid 1 of a pod's PID namespace as a program of its own: a few instructions that wait for ever.
//!
//! Containers see it, so that nothing of the host may be in it: not its memory, not its descriptors. As a copy of the
//! host it took four times the memory, and its page tables as much again. It buries nobody: SIGCHLD is ignored, and
//! so the kernel does.
//!
//! Where there is no such program for the machine, or it may not run, pid 1 is a copy of the host that has given back
//! what it can (`child::be_init`).
#![expect(unsafe_code, reason = "a program in assembly, and a child that shares memory until it becomes it")]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::Pid;

use super::{child, os, signals};

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .rodata.podium_pause, \"a\", @progbits",
    ".global podium_pause_begin, podium_pause_end",
    "podium_pause_begin:",
    "mov eax, 157", // prctl
    "mov edi, 15",  // PR_SET_NAME
    "lea rsi, [rip + 3f]",
    "syscall",
    "2: mov eax, 34", // pause
    "syscall",
    "jmp 2b",
    "3: .asciz \"pause\"",
    "podium_pause_end:",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .rodata.podium_pause, \"a\", @progbits",
    ".global podium_pause_begin, podium_pause_end",
    "podium_pause_begin:",
    "mov x8, #167", // prctl
    "mov x0, #15",  // PR_SET_NAME
    "adr x1, 3f",
    "svc #0",
    "2: mov x8, #73", // ppoll
    "mov x0, xzr",
    "mov x1, xzr",
    "mov x2, xzr",
    "mov x3, xzr",
    "svc #0",
    "b 2b",
    "3: .asciz \"pause\"",
    "podium_pause_end:",
    ".popsection",
);

/// The instructions, and the number of their machine in an ELF header; none where they were not written.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn code() -> (&'static [u8], u16) {
    unsafe extern "C" {
        static podium_pause_begin: u8;
        static podium_pause_end: u8;
    }
    // SAFETY: both are labels around the instructions above, in memory that is only read.
    let code = unsafe {
        let (begin, end) = (&raw const podium_pause_begin, &raw const podium_pause_end);
        std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin))
    };
    (code, if cfg!(target_arch = "x86_64") { 62 } else { 183 })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn code() -> (&'static [u8], u16) {
    (&[], 0)
}

/// Where the program lies in its process' memory; a multiple of every page size there is.
const ADDRESS: u64 = 0x40_0000;
const PAGE: u64 = 0x1_0000;
const HEADER_BYTES: u16 = 64;
const SEGMENT_BYTES: u16 = 56;

/// The program as a file: header, one segment with everything, and a stack that is not executed.
fn elf(code: &[u8], machine: u16) -> Vec<u8> {
    let entry = u64::from(HEADER_BYTES) + 2 * u64::from(SEGMENT_BYTES);
    let size = entry + code.len() as u64;
    let mut file = Vec::new();
    // ELF, 64 bits, little endian, version 1; an executable.
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([2_u16, machine].map(u16::to_le_bytes).as_flattened());
    file.extend(1_u32.to_le_bytes());
    file.extend([ADDRESS + entry, u64::from(HEADER_BYTES), 0].map(u64::to_le_bytes).as_flattened());
    file.extend(0_u32.to_le_bytes());
    file.extend([HEADER_BYTES, SEGMENT_BYTES, 2, 0, 0, 0].map(u16::to_le_bytes).as_flattened());
    let (load, stack) = (1_u32, 0x6474_e551_u32);
    let (read_execute, read_write) = (5_u32, 6_u32);
    file.extend([load, read_execute].map(u32::to_le_bytes).as_flattened());
    file.extend([0, ADDRESS, ADDRESS, size, size, PAGE].map(u64::to_le_bytes).as_flattened());
    file.extend([stack, read_write].map(u32::to_le_bytes).as_flattened());
    file.extend([0_u64, 0, 0, 0, 0, 16].map(u64::to_le_bytes).as_flattened());
    file.extend(code);
    file
}

/// The program in memory, where nobody can change it; none where it cannot be had.
pub(super) fn program() -> Option<OwnedFd> {
    let (code, machine) = code();
    if code.is_empty() {
        return None;
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and need none.
    let file = rustix::fs::memfd_create(c"pause", flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create(c"pause", flags))
        .ok()?;
    let elf = elf(code, machine);
    let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let written = rustix::io::write(&file, &elf).is_ok_and(|count| count == elf.len());
    (written && rustix::fs::fcntl_add_seals(&file, all).is_ok()).then_some(file)
}

/// What a child is told, and what it tells when it could not become the program.
struct Birth<'a> {
    program: &'a OwnedFd,
    host: Option<&'a OwnedFd>,
    error: Option<io::Error>,
}

/// Starts the program as pid 1 of a new PID namespace. The host waits until it has become it, which takes no
/// longer than the system calls in [`become_it`].
pub(super) fn start(program: &OwnedFd, host: Option<&OwnedFd>) -> io::Result<Pid> {
    let mut birth = Birth { program, host, error: None };
    let flags = libc::CLONE_NEWPID | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: the child shares the memory of this process, which sleeps until the child has another; it has a stack
    // of its own, `birth` outlives it, and it neither returns nor unwinds into frames of this one.
    let started = unsafe { os::clone_beside(flags, become_it, (&raw mut birth).cast::<c_void>()) };
    match (started, birth.error) {
        // It has ended, and is buried as any child.
        (Ok(_), Some(error)) => Err(error),
        (started, _) => started,
    }
}

extern "C" fn become_it(birth: *mut c_void) -> c_int {
    // SAFETY: what `start` passed; it sleeps, so that nobody else uses it.
    let birth = unsafe { &mut *birth.cast::<Birth<'_>>() };
    child::die_with_host(birth.host);
    // No terminal's signals reach it, and it holds nothing open.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    os::close_on_exec_from(0);
    signals::ignore_children();
    let argv = [c"pause".as_ptr(), std::ptr::null()];
    birth.error = Some(os::exec_bare(birth.program.as_fd(), &argv));
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-7: the program runs, shows itself as containers know it, and holds nothing open.
    #[test]
    fn the_program_waits_until_it_is_killed() {
        let program = program();
        if crate::needs::lacks(crate::needs::Need::ProgramInMemory, program.is_some()) {
            return;
        }
        let program = program.expect("it is there");
        let mut birth = Birth { program: &program, host: None, error: None };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY: as in `start`; only this thread sleeps, and the child touches what is this thread's alone.
        let pid = unsafe { os::clone_beside(flags, become_it, (&raw mut birth).cast::<c_void>()) }.unwrap();
        assert!(birth.error.is_none(), "{:?}", birth.error);
        let about = format!("/proc/{}", pid.as_raw_nonzero());
        let soon = std::iter::repeat_with(|| std::fs::read_to_string(format!("{about}/comm")).unwrap());
        assert!(soon.take(1_000_000).any(|name| name == "pause\n"), "it tells its name first");
        assert_eq!(std::fs::read(format!("{about}/cmdline")).unwrap(), b"pause\0");
        assert_eq!(std::fs::read_dir(format!("{about}/fd")).unwrap().count(), 0);
        os::signal(pid, libc::SIGTERM);
        os::signal(pid, libc::SIGKILL);
        let end =
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(end.1.terminating_signal(), Some(libc::SIGKILL), "SIGTERM is nothing to it");
    }
}
