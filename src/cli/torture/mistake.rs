//! Mistakes on purpose: each must be found, or the torture finds nothing. Some are made beside the cluster, others are the
//! cluster's own, as `podium simulate` has them: `podium torture-serve NAME` is `podium serve` with one.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::Result;
use base::broken;
use clap::ValueEnum;

use super::clients::Clients;
use super::holder::PROGRAM;
use super::place::Place;
use super::processes::WRONG_SERVE;

/// What is wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrong {
    /// Something beside the cluster.
    Beside(Mistake),
    /// The cluster's control plane.
    Product(broken::Mistake),
}

/// A mistake by its name.
pub(super) fn named(name: &str) -> Result<Wrong, String> {
    let of_product = || broken::Mistake::named(name).map(Wrong::Product);
    Mistake::from_str(name, false).map(Wrong::Beside).ok().or_else(of_product).ok_or_else(|| {
        let beside = Mistake::value_variants().iter().filter_map(Mistake::to_possible_value);
        let beside = beside.map(|value| value.get_name().to_owned());
        let product = broken::Mistake::ALL.iter().map(|mistake| mistake.name().to_owned());
        format!("one of {}", beside.chain(product).collect::<Vec<_>>().join(", "))
    })
}

/// The arguments of this process without the mistake, which it makes from now on; as they are, where there is none.
pub(crate) fn take_mistake(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|word| word == WRONG_SERVE)
        && let Some(mistake) =
            arguments.get(2).and_then(|name| name.to_str()).and_then(broken::Mistake::named)
    {
        mistake.make();
        arguments.splice(1..3, ["serve".into()]);
    }
    arguments
}

/// What can be done wrong beside the cluster.
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
