//! Errors of the operating system as the runtime's.

use std::io;

use crate::RuntimeError;

/// Prefixes an error with the failed operation.
pub(super) fn os_error(operation: &str) -> impl Fn(io::Error) -> RuntimeError + '_ {
    move |error| RuntimeError::Os(format!("{operation}: {error}"))
}
