//! Pid 1 of a pod's PID namespace as a program of its own: a few instructions that wait for ever.
//!
//! Containers see it, so it must contain nothing of the host: neither its memory nor its descriptors. A copy of the
//! host process would take four times the memory, and as much again for page tables.
//!
//! It is assembled here and put into an ELF file in memory; it needs no stack, no library, and no file on a disk. The
//! host starts it.
#![expect(unsafe_code, reason = "a program in assembly, whose bytes lie between two labels")]

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};

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

/// Returns the instructions, and the number of their machine in an ELF header; no instructions on other machines.
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

/// Returns the program in an immutable memory file; `None` if there are no instructions for this machine, or if the
/// kernel refuses such a file.
pub fn program() -> Option<OwnedFd> {
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
    // Executable but not readable: then no process may trace the process that runs the program.
    let mode = rustix::fs::Mode::XUSR;
    let done =
        written && rustix::fs::fcntl_add_seals(&file, all).is_ok() && rustix::fs::fchmod(&file, mode).is_ok();
    done.then_some(file)
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
}
