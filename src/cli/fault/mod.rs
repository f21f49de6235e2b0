//! `podium fault`: what is broken on purpose, begun, listed and healed (FAULT-1), over the API as `podium apply` works.

mod side;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};

use super::apply::client_of;
use super::flags::InstanceArgs;
use super::output::{note, said, say, say_table};
use super::runtime::runtime;
use object::conditions;
use object::fault::{ACTIVE, Fault, FaultLatency, FaultLoss, FaultRate, FaultRefuse, FaultSpec};
use side::{Side, side};

/// How long it is waited for a fault to be in force.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Subcommand)]
pub(super) enum FaultCommand {
    /// What is broken, and what was.
    List {
        #[command(flatten)]
        instance: InstanceArgs,
    },
    /// Cut the network between two sides.
    Partition(Between),
    /// Delay what goes between two sides.
    Latency {
        #[command(flatten)]
        between: Between,
        /// By this at least, such as 50ms.
        #[arg(long, required_unless_present = "undo")]
        delay: Option<String>,
        /// And by up to this more, by chance.
        #[arg(long)]
        jitter: Option<String>,
    },
    /// Lose packets between two sides.
    Loss {
        #[command(flatten)]
        between: Between,
        /// So many of a thousand, by chance.
        #[arg(long, required_unless_present = "undo")]
        per_mille: Option<i32>,
    },
    /// Let only so much through between two sides.
    Rate {
        #[command(flatten)]
        between: Between,
        /// So many bytes each way; what is more is lost.
        #[arg(long, required_unless_present = "undo")]
        bytes_per_second: Option<i64>,
    },
    /// Refuse what goes between two sides.
    Refuse {
        #[command(flatten)]
        between: Between,
        /// How the sender is told.
        #[arg(long, value_enum, default_value_t = With::Reset)]
        with: With,
    },
    /// End faults: their objects are deleted.
    Heal {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Their names.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Whatever is broken.
        #[arg(long)]
        all: bool,
    },
}

/// How a sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum With {
    /// TCP by a reset, all else by ICMP.
    Reset,
    /// By ICMP: port unreachable.
    Unreachable,
    /// By ICMP: forbidden.
    Prohibited,
}

/// Two sides and a time.
#[derive(Debug, Args)]
pub(super) struct Between {
    #[command(flatten)]
    instance: InstanceArgs,
    /// One side: node/NAME, nodes:LABEL=VALUE, pod/[NAMESPACE/]NAME, pods[/NAMESPACE]:LABEL=VALUE, an address, a range of
    /// addresses, or all.
    #[arg(value_parser = side)]
    from: Side,
    /// The other side; all who are not on the first without.
    #[arg(value_parser = side, default_value = "all")]
    to: Side,
    /// Only what goes from the first to the other.
    #[arg(long)]
    one_way: bool,
    /// How long, such as 30s; until it is healed without.
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// What it is to be called.
    #[arg(long)]
    name: Option<String>,
    /// End such faults between these two instead.
    #[arg(long)]
    undo: bool,
}

pub(super) fn run(command: FaultCommand) -> Result<()> {
    let (between, spec) = match command {
        FaultCommand::List { instance } => return with_faults(&instance, async |faults| list(&faults).await),
        FaultCommand::Heal { instance, names, all } => {
            return with_faults(&instance, async |faults| heal(&faults, names, all).await);
        }
        FaultCommand::Partition(between) => (between, of_type("Partition")),
        FaultCommand::Latency { between, delay, jitter } => {
            let latency = delay.map(|delay| FaultLatency { delay, jitter });
            (between, FaultSpec { latency, ..of_type("Latency") })
        }
        FaultCommand::Loss { between, per_mille } => {
            let loss = per_mille.map(|per_mille| FaultLoss { per_mille });
            (between, FaultSpec { loss, ..of_type("Loss") })
        }
        FaultCommand::Rate { between, bytes_per_second } => {
            let rate = bytes_per_second.map(|bytes_per_second| FaultRate { bytes_per_second });
            (between, FaultSpec { rate, ..of_type("Rate") })
        }
        FaultCommand::Refuse { between, with } => {
            let with = match with {
                With::Reset => "Reset",
                With::Unreachable => "Unreachable",
                With::Prohibited => "Prohibited",
            };
            (
                between,
                FaultSpec { refuse: Some(FaultRefuse { with: Some(with.to_owned()) }), ..of_type("Refuse") },
            )
        }
    };
    let Between { instance, from: Side(from), to: Side(to), one_way, duration, name, undo } = between;
    let direction = one_way.then(|| "OneWay".to_owned());
    let spec = FaultSpec { from, to, direction, duration, ..spec };
    with_faults(&instance, async |faults| {
        if undo { end_alike(&faults, &spec).await } else { begin(&faults, spec, name).await }
    })
}

fn of_type(type_: &str) -> FaultSpec {
    FaultSpec { type_: type_.to_owned(), ..FaultSpec::default() }
}

fn with_faults(instance: &InstanceArgs, work: impl AsyncFnOnce(Api<Fault>) -> Result<()>) -> Result<()> {
    runtime()?.block_on(async { work(Api::all(client_of(instance).await?)).await })
}

/// Begins a fault and waits until it is in force.
async fn begin(faults: &Api<Fault>, spec: FaultSpec, name: Option<String>) -> Result<()> {
    let generate_name = name.is_none().then(|| format!("{}-", spec.type_.to_lowercase()));
    let metadata = ObjectMeta { name, generate_name, ..ObjectMeta::default() };
    let fault = Fault { metadata, spec, status: None };
    let made = faults.create(&PostParams::default(), &fault).await.map_err(said)?;
    let name = made.metadata.name.unwrap_or_default();
    let told = async {
        loop {
            let fault = faults.get(&name).await.map_err(said)?;
            let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
            if let Some(active) = conditions::get(conditions, ACTIVE) {
                return anyhow::Ok((active.status == "True", active.message.clone()));
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(PATIENCE, told).await {
        Ok(told) => match told? {
            (true, message) => say(&format!("fault/{name} is in force: {message}")),
            (false, message) => bail!("fault/{name} is not in force: {message}"),
        },
        Err(_) => bail!("fault/{name} is not in force after {} s", PATIENCE.as_secs()),
    }
    Ok(())
}

/// Ends the faults of this type between these two, whichever was said first.
async fn end_alike(faults: &Api<Fault>, spec: &FaultSpec) -> Result<()> {
    let all = faults.list(&ListParams::default()).await.map_err(said)?;
    let alike = all.items.into_iter().filter(|fault| is_alike(&fault.spec, spec));
    let names: Vec<String> = alike.filter_map(|fault| fault.metadata.name).collect();
    if names.is_empty() {
        bail!("there is no such fault between these two");
    }
    heal(faults, names, false).await
}

/// Whether a fault is of the type and between the sides of another, one of which goes one way where the other does.
fn is_alike(fault: &FaultSpec, other: &FaultSpec) -> bool {
    let is_one_way = |spec: &FaultSpec| spec.direction.as_deref() == Some("OneWay");
    let same = (&fault.from, &fault.to) == (&other.from, &other.to);
    let turned = (&fault.from, &fault.to) == (&other.to, &other.from);
    fault.type_ == other.type_
        && is_one_way(fault) == is_one_way(other)
        && (same || turned && !is_one_way(other))
}

async fn heal(faults: &Api<Fault>, names: Vec<String>, all: bool) -> Result<()> {
    let names = if all {
        let list = faults.list(&ListParams::default()).await.map_err(said)?;
        list.items.into_iter().filter_map(|fault| fault.metadata.name).collect()
    } else {
        names
    };
    let mut failed = 0;
    for name in &names {
        match faults.delete(name, &DeleteParams::default()).await {
            Ok(_) => say(&format!("fault/{name} healed")),
            Err(error) => {
                failed += 1;
                note(&format!("podium: {}", said(error)));
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} faults could not be healed", names.len());
    }
    Ok(())
}

async fn list(faults: &Api<Fault>) -> Result<()> {
    let all = faults.list(&ListParams::default()).await.map_err(said).context("faults cannot be listed")?;
    if all.items.is_empty() {
        say("Nothing is broken on purpose.");
        return Ok(());
    }
    let mut rows = vec![["NAME", "TYPE", "FROM", "TO", "DURATION", "STATE"].map(str::to_owned)];
    rows.extend(all.items.iter().map(row));
    say_table(&rows);
    Ok(())
}

fn row(fault: &Fault) -> [String; 6] {
    let side = |peer: &Option<object::fault::FaultPeer>| {
        peer.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string)
    };
    let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
    let state = match conditions::get(conditions, ACTIVE) {
        Some(active) if active.status == "True" => "in force".to_owned(),
        Some(active) => format!("{}: {}", active.reason, active.message),
        None => "not looked at yet".to_owned(),
    };
    let from =
        if fault.is_one_way() { format!("{} →", side(&fault.spec.from)) } else { side(&fault.spec.from) };
    [
        fault.metadata.name.clone().unwrap_or_default(),
        fault.spec.type_.clone(),
        from,
        side(&fault.spec.to),
        fault.spec.duration.clone().unwrap_or_else(|| "until healed".to_owned()),
        state,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_finds_what_was_said_either_way_round_fault_1() {
        let spec = |type_: &str, from: &str, to: &str, direction: Option<&str>| FaultSpec {
            from: side(from).unwrap().0,
            to: side(to).unwrap().0,
            direction: direction.map(str::to_owned),
            ..of_type(type_)
        };
        let asked = spec("Partition", "node/a", "node/b", None);
        // The server says that it goes both ways.
        assert!(is_alike(&spec("Partition", "node/a", "node/b", Some("Both")), &asked));
        assert!(is_alike(&spec("Partition", "node/b", "node/a", Some("Both")), &asked));
        assert!(!is_alike(&spec("Partition", "node/a", "node/c", Some("Both")), &asked));
        assert!(!is_alike(&spec("Loss", "node/a", "node/b", Some("Both")), &asked));
        assert!(!is_alike(&spec("Partition", "node/a", "node/b", Some("OneWay")), &asked));
        let asked = spec("Partition", "node/a", "all", Some("OneWay"));
        assert!(is_alike(&spec("Partition", "node/a", "all", Some("OneWay")), &asked));
        assert!(!is_alike(&spec("Partition", "all", "node/a", Some("OneWay")), &asked));
    }
}
