//! The `podium-lab` binary: calls the library.

use std::process::ExitCode;

/// The allocator of `podium`, because `torture-serve` is a control plane, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lab::main()
}
