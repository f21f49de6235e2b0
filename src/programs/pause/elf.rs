//! The programs that run inside a PID namespace beside a container's: pid 1, which waits for ever, and a subreaper. Each
//! is a few instructions.
//!
//! Containers see these processes, and one with the capability SYS_PTRACE controls them. So they contain nothing of the
//! host: neither its memory nor its descriptors. A copy of the host process would also take four times the memory, and
//! as much again for page tables.
//!
//! They are assembled here and put into ELF files in memory; they need no library, and no file on a disk. The host starts
//! them.
#![expect(unsafe_code, reason = "a program in assembly, whose bytes lie between two labels")]

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};

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

// The second argument is the number of the container's main process, a letter for every four bits ('@' is 0). When that
// process ends, its wait status is written to descriptor 0. The program ends when it has no child left.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .rodata.podium_subreaper, \"a\", @progbits",
    ".global podium_subreaper_begin, podium_subreaper_end",
    "podium_subreaper_begin:",
    "mov eax, 157", // prctl
    "mov edi, 15",  // PR_SET_NAME
    "lea rsi, [rip + 9f]",
    "syscall",
    "mov rsi, [rsp + 16]", // argv[1]
    "xor ebx, ebx",
    "2: lodsb",
    "test al, al",
    "jz 3f",
    "shl ebx, 4",
    "and eax, 15",
    "or ebx, eax",
    "jmp 2b",
    "3: mov eax, 61", // wait4
    "mov rdi, -1",
    "mov rsi, rsp", // The status replaces argc.
    "xor edx, edx",
    "xor r10d, r10d",
    "syscall",
    "cmp eax, ebx",
    "je 4f",
    "test eax, eax",
    "jg 3b",
    "cmp eax, -4", // EINTR
    "je 3b",
    "mov eax, 231", // exit_group
    "xor edi, edi",
    "syscall",
    "4: mov eax, 1", // write
    "xor edi, edi",
    "mov rsi, rsp",
    "mov edx, 4",
    "syscall",
    "jmp 3b",
    "9: .asciz \"pause\"",
    "podium_subreaper_end:",
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

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .rodata.podium_subreaper, \"a\", @progbits",
    ".global podium_subreaper_begin, podium_subreaper_end",
    "podium_subreaper_begin:",
    "mov x8, #167", // prctl
    "mov x0, #15",  // PR_SET_NAME
    "adr x1, 9f",
    "svc #0",
    "ldr x1, [sp, #16]", // argv[1]
    "mov w19, wzr",
    "2: ldrb w2, [x1], #1",
    "cbz w2, 3f",
    "and w2, w2, #15",
    "orr w19, w2, w19, lsl #4",
    "b 2b",
    "3: mov x8, #260", // wait4
    "mov x0, #-1",
    "mov x1, sp", // The status replaces argc.
    "mov x2, xzr",
    "mov x3, xzr",
    "svc #0",
    "cmp w0, w19",
    "b.eq 4f",
    "cmp w0, #0",
    "b.gt 3b",
    "cmn w0, #4", // EINTR
    "b.eq 3b",
    "mov x8, #94", // exit_group
    "mov x0, xzr",
    "svc #0",
    "4: mov x8, #64", // write
    "mov x0, xzr",
    "mov x1, sp",
    "mov x2, #4",
    "svc #0",
    "b 3b",
    "9: .asciz \"pause\"",
    "podium_subreaper_end:",
    ".popsection",
);

/// The number of the machine in an ELF header; `None` if there are no instructions for it.
const MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else {
    None
};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn pause_code() -> &'static [u8] {
    unsafe extern "C" {
        static podium_pause_begin: u8;
        static podium_pause_end: u8;
    }
    // SAFETY: both are labels around the instructions above, in memory that is only read.
    unsafe {
        let (begin, end) = (&raw const podium_pause_begin, &raw const podium_pause_end);
        std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin))
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn subreaper_code() -> &'static [u8] {
    unsafe extern "C" {
        static podium_subreaper_begin: u8;
        static podium_subreaper_end: u8;
    }
    // SAFETY: as in `pause_code`.
    unsafe {
        let (begin, end) = (&raw const podium_subreaper_begin, &raw const podium_subreaper_end);
        std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin))
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn pause_code() -> &'static [u8] {
    &[]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn subreaper_code() -> &'static [u8] {
    &[]
}

/// The program's address in its process's memory; a multiple of every page size.
const ADDRESS: u64 = 0x40_0000;
const PAGE: u64 = 0x1_0000;
const HEADER_BYTES: u16 = 64;
const SEGMENT_BYTES: u16 = 56;

/// Returns the program as an ELF file: header, one segment with everything, and a non-executable stack.
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

/// The programs, each as an open file to execute.
#[derive(Debug)]
pub struct NamespacePrograms {
    /// Pid 1 of a PID namespace.
    pub pause: OwnedFd,
    /// The parent of a container's main process in a PID namespace that containers share.
    pub subreaper: OwnedFd,
}

impl NamespacePrograms {
    /// True if this machine's processor can execute the programs.
    pub const SUPPORTED: bool = MACHINE.is_some();

    /// Creates the programs in immutable memory files; or in files of this directory, which no container sees, if the
    /// kernel refuses to execute memory files (`vm.memfd_noexec`).
    pub fn create(directory: &Path) -> io::Result<Self> {
        let machine = MACHINE.ok_or_else(|| io::Error::other("no program for this processor"))?;
        let create = |name: &str, code: &[u8]| {
            let elf = elf(code, machine);
            in_memory(name, &elf).or_else(|_| on_disk(&directory.join(name), &elf))
        };
        Ok(Self { pause: create("pause", pause_code())?, subreaper: create("subreaper", subreaper_code())? })
    }
}

/// Executable but not readable: no process may trace a process that runs such a program, unless it may trace every
/// process of the machine.
const EXECUTE_ONLY: u32 = 0o111;

fn in_memory(name: &str, elf: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and need none.
    let file = rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create(name, flags))?;
    let file = fs::File::from(file);
    io::Write::write_all(&mut &file, elf)?;
    let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all)?;
    file.set_permissions(fs::Permissions::from_mode(EXECUTE_ONLY))?;
    Ok(file.into())
}

fn on_disk(path: &Path, elf: &[u8]) -> io::Result<OwnedFd> {
    let _ = fs::remove_file(path);
    let file = fs::File::options().write(true).create_new(true).mode(EXECUTE_ONLY).open(path)?;
    io::Write::write_all(&mut &file, elf)?;
    file.set_permissions(fs::Permissions::from_mode(EXECUTE_ONLY))?;
    // A file that is open for writing cannot be executed.
    drop(file);
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-7: one segment holds the whole file, which is executed from its first instruction on and never written.
    #[test]
    fn the_file_is_one_segment_that_begins_with_its_instructions() {
        let code = [0x90, 0x90, 0xc3];
        let file = elf(&code, 62);
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        assert_eq!(&file[..6], b"\x7fELF\x02\x01");
        let (entry, segments) = (word(24) - ADDRESS, word(32) as usize);
        assert_eq!(&file[entry as usize..], code);
        assert_eq!((half(segments), half(segments + 4)), (1, 5), "loaded, readable and executable");
        assert_eq!((word(segments + 32), word(segments + 40)), (file.len() as u64, file.len() as u64));
        let stack = segments + usize::from(SEGMENT_BYTES);
        assert_eq!(half(stack + 4) & 1, 0, "a stack is not executed");
    }

    /// The path by which another process executes a program.
    fn path(program: &OwnedFd) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), program.as_raw_fd())
    }

    /// NODE-7: the program has the name `pause` and waits until it is killed, whether it is in memory or in a file.
    #[test]
    fn pid_1_waits_until_it_is_killed() {
        use std::os::unix::process::{CommandExt, ExitStatusExt};
        let directory = tempfile::tempdir().unwrap();
        let machine = MACHINE.expect("tests run on a supported processor");
        let in_file = on_disk(&directory.path().join("pause"), &elf(pause_code(), machine)).unwrap();
        let programs = NamespacePrograms::create(directory.path()).unwrap();
        for program in [&programs.pause, &in_file] {
            let mut child = std::process::Command::new(path(program)).arg0("pause").spawn().unwrap();
            let about = format!("/proc/{}", child.id());
            let mut names = std::iter::repeat_with(|| fs::read_to_string(format!("{about}/comm")).unwrap());
            assert!(names.by_ref().take(1_000_000).any(|name| name == "pause\n"), "it sets its name first");
            assert_eq!(fs::read(format!("{about}/cmdline")).unwrap(), b"pause\0");
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
    }

    /// POD-10: the subreaper reports the end of the main process, not of others, and ends after the last one.
    #[test]
    fn the_subreaper_reports_the_end_of_its_main_process_pod_10() {
        let directory = tempfile::tempdir().unwrap();
        let programs = NamespacePrograms::create(directory.path()).unwrap();
        // The shell becomes the subreaper; its children end only then.
        let script = r#"for code in 3 7 4; do
            (until [ "$(cat /proc/$$/comm)" = pause ]; do :; done; exit $code) &
            if [ $code = 7 ]; then main=$!; fi
        done
        exec "$0" "$(printf %08x $main | tr 0-9a-f @A-O)""#;
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, &path(&programs.subreaper)]).stdin(write);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut reported = Vec::new();
        io::Read::read_to_end(&mut fs::File::from(read), &mut reported).unwrap();
        assert_eq!(reported, (7_i32 << 8).to_ne_bytes());
        assert!(child.wait().unwrap().success());
    }
}
