//! Mistakes on purpose: each must be found, or the torture finds nothing.

use std::process::{Command, Stdio};

use anyhow::Result;

use super::clients::Clients;
use super::holder::PROGRAM;
use super::place::Place;

/// What can be done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mistake {
    /// A second process asks for an identity that is held.
    SecondHolder,
    /// A second process has an identity, with a lock of its own.
    TwoAtOnce,
    /// A write that nobody made was acknowledged.
    LostWrite,
    /// A process stays when the instance has ended.
    LeftBehind,
}

impl Mistake {
    /// Makes it, when faults are over.
    pub(super) fn make(self, place: &Place, clients: &Clients) -> Result<()> {
        const IDENTITY: &str = "set-1-0";
        let witness = place.witness();
        let hold = |arguments: &[&str]| -> Result<()> {
            let program = std::env::current_exe()?;
            let mut command = Command::new(program);
            let (first, rest) = arguments.split_at(usize::from(arguments[0].starts_with("--")));
            command.arg(PROGRAM).args(first).arg(&witness).args(rest).stdin(Stdio::null());
            command.stderr(Stdio::null()).spawn()?;
            Ok(())
        };
        match self {
            Self::SecondHolder => hold(&[IDENTITY, "an impostor"]),
            Self::TwoAtOnce => {
                std::fs::remove_file(witness.join(format!("{IDENTITY}.lock")))?;
                hold(&[IDENTITY, "an impostor"])
            }
            Self::LostWrite => {
                clients.claim("never-made");
                Ok(())
            }
            Self::LeftBehind => hold(&["--keep", IDENTITY]),
        }
    }
}
