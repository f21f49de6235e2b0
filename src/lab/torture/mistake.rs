//! Deliberate mistakes, which the torture must find. Some are made outside the cluster; others are in the product, as
//! in `podium-lab simulate`: `podium-lab torture-serve NAME` is `podium serve` with one of the latter.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;
use base::mistakes;
use clap::ValueEnum;

use super::clients::Clients;
use super::directory::TortureDir;
use super::identity_holder::PROGRAM;

/// A deliberate mistake.
#[derive(Clone, Copy, Debug)]
pub(super) enum MistakeKind {
    /// A mistake outside the cluster.
    Beside(Mistake),
    /// A mistake of the cluster's control plane.
    Product(mistakes::Mistake),
}

/// Finds a mistake by its name.
pub(super) fn named(name: &str) -> Result<MistakeKind, String> {
    let of_product = || mistakes::Mistake::named(name).map(MistakeKind::Product);
    Mistake::from_str(name, false).map(MistakeKind::Beside).ok().or_else(of_product).ok_or_else(|| {
        let beside = Mistake::value_variants().iter().filter_map(Mistake::to_possible_value);
        let beside = beside.map(|value| value.get_name().to_owned());
        let product = mistakes::Mistake::ALL.iter().map(|mistake| mistake.name().to_owned());
        format!("expected one of {}", beside.chain(product).collect::<Vec<_>>().join(", "))
    })
}

/// Runs `torture-serve MISTAKE ARGUMENTS`, where the arguments are those of `podium serve`.
pub(crate) fn serve_main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let name = arguments.next().unwrap_or_default();
    let Some(mistake) = name.to_str().and_then(mistakes::Mistake::named) else {
        podium::cli::output::eprint_line(&format!("podium-lab: unknown mistake {}", name.display()));
        return ExitCode::FAILURE;
    };
    if let Err(error) = mistake.make() {
        podium::cli::output::eprint_line(&format!("podium-lab: {error}"));
        return ExitCode::FAILURE;
    }
    podium::cli::run(["podium".into(), "serve".into()].into_iter().chain(arguments).collect())
}

/// The mistakes outside the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mistake {
    /// A second process takes an identity that another process holds
    SecondHolder,
    /// A second process holds the same identity with a lock of its own
    TwoAtOnce,
    /// A write that was never made counts as acknowledged
    LostWrite,
    /// A process outlives the instance
    LeftBehind,
}

impl Mistake {
    /// Makes the mistake, once the faults are over.
    pub(super) fn make(self, place: &TortureDir, clients: &Clients) -> Result<()> {
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
