//! Returns freed memory to the system.
//!
//! The allocator retains freed memory for at least ten milliseconds, in case it is reused, and returns it only when the
//! same thread allocates again. A server's threads allocate all the time. A console's threads read a list of thousands
//! of objects, retain little of it, and then wait: the freed memory would stay resident for as long as the console
//! runs.

use std::ffi::c_int;

/// The number of `mi_option_purge_delay` in mimalloc.h: that option is the time in milliseconds before freed memory is
/// returned.
const PURGE_DELAY: c_int = 15;

/// Makes the allocator return freed memory to the system at once from now on.
#[expect(unsafe_code, reason = "the allocator's options have no safe wrapper")]
pub(super) fn return_freed_memory_at_once() {
    // SAFETY: the number is that of an option of the allocator, and options may be set at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the allocator's options have no safe wrapper")]
    fn it_is_this_option_that_is_set_con_1() {
        // SAFETY: as above.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 10, "the default that mimalloc.h tells of");
        return_freed_memory_at_once();
        assert_eq!(delay(), 0);
    }
}
