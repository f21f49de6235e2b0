//! Files whose absence means the same as no content: the machine's configuration, and the kernel's reports.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::io::Errno;

/// Returns the text of a file; empty if it does not exist or belonged to a process that has ended. After any other error
/// the text is empty too, and the error is logged.
pub fn read_optional(path: impl AsRef<Path>) -> String {
    or_empty(path.as_ref(), fs::read_to_string(path.as_ref()))
}

/// As [`read_optional`], for a file that need not be text.
pub fn read_optional_bytes(path: impl AsRef<Path>) -> Vec<u8> {
    or_empty(path.as_ref(), fs::read(path.as_ref()))
}

fn or_empty<T: Default>(path: &Path, content: io::Result<T>) -> T {
    content.unwrap_or_else(|error| {
        let is_absent =
            error.kind() == ErrorKind::NotFound || Errno::from_io_error(&error) == Some(Errno::SRCH);
        if !is_absent {
            tracing::debug!("cannot read {}: {error}", path.display());
        }
        T::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_file_is_empty() {
        assert_eq!(read_optional("/nonexistent/file"), "");
        assert!(read_optional("/proc/self/status").contains("Pid:"));
        assert!(!read_optional_bytes("/proc/self/cmdline").is_empty());
    }
}
