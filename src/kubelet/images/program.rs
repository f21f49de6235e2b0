//! The programs of the built-in images.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs a built-in image's program.
pub fn image_program_main(_arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::FAILURE
}
