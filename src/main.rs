//! The `podium` binary: hands over to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A node's host and the built-in images' programs are this binary too; they start no thread first.
    podium::kubelet::hidden_program(std::env::args_os()).unwrap_or_else(podium::cli::main)
}
