//! `podium-lab`: the instruments that test and measure Podium. They are not part of the program that users run.
//!
//! | module | purpose |
//! |---|---|
//! | `simulate` | the control plane under virtual time, with faults from a seed, and its checks |
//! | `torture` | a real instance whose processes are killed, frozen and cut off, and its checks |
//! | `trial` | runs a user's controller as a process against a disturbed cluster |
//! | `bench` | measurements beside limits and recorded figures |
//! | [`fuzz`] | properties of the parsers of untrusted input, for the programs in `fuzz/` |
//!
//! `bench` and `torture` start the `podium` that is beside this program, as users run it.

mod bench;
mod commands;
mod entropy;
pub mod fuzz;
mod simulate;
mod torture;
mod trial;

pub use commands::main;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

/// Returns the path of the `podium` beside this program.
fn podium_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let program = program.with_file_name("podium");
    ensure!(
        program.is_file(),
        "no {}; build it with `cargo build`, with the same profile",
        program.display()
    );
    Ok(program)
}
