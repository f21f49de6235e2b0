//! Limits the size of a program's arguments and environment to what the kernel's `execve` accepts (execve(2), "Limits
//! on size of arguments and environment"). Without this limit the kernel would refuse larger ones too, but only after
//! they have filled the memory of every process that passes them on.

use super::EnvError;

/// The limit of one string of the environment or the arguments, including its terminator: the kernel's
/// `MAX_ARG_STRLEN`.
pub(crate) const STRING_BYTES: usize = 128 << 10;

/// The limit of all strings together with the pointers to them: a quarter of the usual stack of 8 MiB, `getconf
/// ARG_MAX`.
pub(crate) const TOTAL_BYTES: usize = 2 << 20;

/// The cost of a string besides its text: its terminator and the pointer to it.
const OVERHEAD_BYTES: usize = 1 + size_of::<usize>();

/// The remaining part of [`TOTAL_BYTES`].
#[derive(Debug)]
pub(super) struct Budget {
    remaining: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { remaining: TOTAL_BYTES }
    }

    /// The maximum length of one further string.
    pub(super) fn longest() -> usize {
        STRING_BYTES - 1
    }

    /// Counts a string of this many bytes; `label` names it in the error.
    pub(super) fn take(&mut self, label: impl Fn() -> String, bytes: usize) -> Result<(), EnvError> {
        if bytes > Self::longest() {
            return Err(EnvError::TooLong { subject: label(), bytes });
        }
        self.remaining = self
            .remaining
            .checked_sub(bytes + OVERHEAD_BYTES)
            .ok_or_else(|| EnvError::TooMuch { at: label() })?;
        Ok(())
    }

    /// Gives back the bytes of a counted string that is replaced.
    pub(super) fn release(&mut self, bytes: usize) {
        self.remaining += bytes + OVERHEAD_BYTES;
    }
}
