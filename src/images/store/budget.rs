//! The rest of an image's limits, over all of its layers.

use super::options::{Limits, LoadError};

/// The rest of an image's limits.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) limits: Limits,
    bytes: u64,
    entries: u64,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), bytes: limits.unpacked_bytes, entries: limits.entries }
    }

    pub(super) fn take_bytes(&mut self, count: u64) -> Result<(), LoadError> {
        let left = self.bytes.checked_sub(count).ok_or_else(|| {
            LoadError::TooLarge(format!(
                "the image unpacks to more than {} bytes",
                self.limits.unpacked_bytes
            ))
        })?;
        self.bytes = left;
        Ok(())
    }

    pub(super) fn take_entries(&mut self, count: u64) -> Result<(), LoadError> {
        let left = self.entries.checked_sub(count).ok_or_else(|| {
            LoadError::TooLarge(format!("the image has more than {} files", self.limits.entries))
        })?;
        self.entries = left;
        Ok(())
    }
}
