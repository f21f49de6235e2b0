//! The source of this program's random bytes: the kernel, or the simulator's seed.

use libc::{c_uint, c_void, size_t, ssize_t};

/// Replaces the C library's `getrandom(2)`: the seeded bytes of a simulation, else the kernel's.
///
/// # Safety
///
/// As for the C library's function, `length` bytes at `buffer` must be writable.
#[expect(unsafe_code, reason = "it takes the place of a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    if !buffer.is_null() && isize::try_from(length).is_ok() {
        // SAFETY: the caller guarantees that `length` bytes at `buffer` are writable.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        if base::random::fill_seeded(bytes) {
            return isize::try_from(length).unwrap_or(isize::MAX);
        }
    }
    // SAFETY: the caller guarantees buffer and length, which the kernel also checks.
    let answered = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
    isize::try_from(answered).unwrap_or(-1)
}
