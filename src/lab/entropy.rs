//! The source of this program's random bytes: the kernel, or the simulator's seed.

use libc::{c_uint, c_void, size_t, ssize_t};

/// `getrandom(2)`, as the C library has it.
///
/// # Safety
///
/// As there: `length` bytes at `buffer` can be written.
#[expect(unsafe_code, reason = "it takes the place of a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    if !buffer.is_null() && isize::try_from(length).is_ok() {
        // SAFETY: the caller says that so much can be written.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        if base::random::fill_seeded(bytes) {
            return isize::try_from(length).unwrap_or(isize::MAX);
        }
    }
    // SAFETY: the kernel checks buffer and length, and the caller has promised them.
    let answered = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
    isize::try_from(answered).unwrap_or(-1)
}
