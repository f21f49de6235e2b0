//! What becomes of memory that is freed.
//!
//! The allocator keeps it for ten milliseconds and more in case it is wanted again, and gives it back only when the same
//! thread asks for memory the next time. A server's threads do. A console's have read a list of thousands of objects, of
//! which little is kept, and then wait: what they read would stay for as long as the console runs.

use std::ffi::c_int;

/// `mi_option_purge_delay` of mimalloc.h: how many milliseconds what is freed is kept.
const PURGE_DELAY: c_int = 15;

/// From now on what is freed goes back to the system at once.
#[expect(unsafe_code, reason = "the allocator's options have no safe wrapper")]
pub(super) fn give_back_at_once() {
    // SAFETY: the option is one of the allocator's, which may be set at any time.
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
        give_back_at_once();
        assert_eq!(delay(), 0);
    }
}
