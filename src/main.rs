//! The `podium` binary: hands over to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    podium::cli::main()
}
