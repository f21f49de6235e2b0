//! `podium fault`: what is broken on purpose, begun, listed and healed (FAULT-1), over the API as `podium apply` works.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};

use super::apply::client_of;
use super::flags::InstanceArgs;
use super::output::{note, said, say, say_table};
use super::runtime::runtime;
use object::conditions;
use object::fault::{
    ACTIVE, Fault, FaultDisk, FaultImage, FaultLatency, FaultLoss, FaultPeer, FaultRate, FaultRefuse,
    FaultSkew, FaultSpec, FaultTarget, read_disk, read_node, read_side, read_target, read_volume,
};

/// How long it is waited for a fault to be in force.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);
/// A server that says nothing for so long may be what the fault has stopped.
const SILENCE: Duration = Duration::from_secs(1);

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
    /// Throw a component down at once: kubelet/NODE, scheduler, controllers or controller/NAME. It starts anew when healed.
    Crash(AtTarget),
    /// Have a component stand still where it is, as by SIGSTOP; it goes on when healed.
    Pause(AtTarget),
    /// Switch a node off: its processes are killed and its kubelet is gone. It boots when healed.
    Poweroff(AtNode),
    /// Switch a node on again that is off.
    Poweron {
        #[command(flatten)]
        instance: InstanceArgs,
        /// The node's name.
        #[arg(value_parser = read_node)]
        node: FaultTarget,
    },
    /// Have a node's disk, or the store's, be full, failing or slow.
    Disk {
        #[command(flatten)]
        instance: InstanceArgs,
        /// store, or the name of a node, or nodes:LABEL=VALUE.
        #[arg(value_parser = read_disk)]
        target: FaultTarget,
        #[command(flatten)]
        course: Course,
        /// What it does.
        #[arg(long, value_enum, required_unless_present = "undo")]
        failure: Option<DiskFailure>,
        /// Of a slow disk: how much longer a write takes, such as 200ms.
        #[arg(long, required_if_eq("failure", "slow"))]
        delay: Option<String>,
    },
    /// Have a volume be full, until healed. Where it is a file system of its own (ext4, or a small tmpfs), its room is taken;
    /// where it is a directory of this machine, as emptyDirs are, writes there are refused, which takes root and Linux 6.14.
    VolumeFull {
        #[command(flatten)]
        instance: InstanceArgs,
        /// claim/[NAMESPACE/]NAME, or [NAMESPACE/]NAME; or emptydir/[NAMESPACE/]POD/VOLUME.
        #[arg(value_parser = read_volume)]
        target: FaultTarget,
        #[command(flatten)]
        course: Course,
    },
    /// Have the clock be off that a node's kubelet, the controllers or the scheduler go by.
    Skew {
        #[command(flatten)]
        at: AtTarget,
        /// By this, such as 5m or -1h30m.
        #[arg(long, required_unless_present = "undo", allow_hyphen_values = true)]
        by: Option<String>,
    },
    /// Kill a container as the kernel does where memory runs out, once.
    Oom {
        #[command(flatten)]
        instance: InstanceArgs,
        /// pod/[NAMESPACE/]NAME[/CONTAINER] or pods[/NAMESPACE]:LABEL=VALUE.
        #[arg(value_parser = read_target)]
        target: FaultTarget,
        /// What the fault is to be called.
        #[arg(long)]
        name: Option<String>,
    },
    /// Have calls of webhooks hang until their time-outs: webhook/NAME of their configuration.
    Webhook(AtTarget),
    /// Have pulls of images be slow or fail, on node/NODE, on nodes:LABEL=VALUE, or on all.
    Image {
        #[command(flatten)]
        instance: InstanceArgs,
        /// On which nodes; on all without.
        #[arg(value_parser = read_node)]
        target: Option<FaultTarget>,
        #[command(flatten)]
        course: Course,
        /// How much longer a pull takes, such as 30s.
        #[arg(long)]
        delay: Option<String>,
        /// Pulls fail, after that.
        #[arg(long)]
        failing: bool,
        /// Of images with this name alone; * stands for any text.
        #[arg(long)]
        pattern: Option<String>,
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

/// A side of a fault of the network: none is everybody who is not on the other.
#[derive(Clone, Debug, PartialEq)]
struct Side(Option<FaultPeer>);

fn side(text: &str) -> Result<Side, String> {
    read_side(text).map(Side)
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

/// What a disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DiskFailure {
    /// There is no room.
    Full,
    /// Each write takes longer.
    Slow,
    /// The device fails.
    Failing,
}

/// How long a fault is in force, and what it is called; or its end.
#[derive(Debug, Args)]
pub(super) struct Course {
    /// How long, such as 30s; until it is healed without.
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// What it is to be called.
    #[arg(long)]
    name: Option<String>,
    /// End such faults of this target, or between these two, instead.
    #[arg(long)]
    undo: bool,
}

/// A target and a time.
#[derive(Debug, Args)]
pub(super) struct AtTarget {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Whom it meets: kubelet/NODE, node/NODE, scheduler, controllers, controller/NAME, store, webhook/NAME.
    #[arg(value_parser = read_target)]
    target: FaultTarget,
    #[command(flatten)]
    course: Course,
}

/// A node and a time.
#[derive(Debug, Args)]
pub(super) struct AtNode {
    #[command(flatten)]
    instance: InstanceArgs,
    /// The node's name, or nodes:LABEL=VALUE.
    #[arg(value_parser = read_node)]
    target: FaultTarget,
    #[command(flatten)]
    course: Course,
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
    #[command(flatten)]
    course: Course,
}

pub(super) fn run(command: FaultCommand) -> Result<()> {
    let (between, spec) = match command {
        FaultCommand::List { instance } => return with_faults(&instance, async |faults| list(&faults).await),
        FaultCommand::Heal { instance, names, all } => {
            return with_faults(&instance, async |faults| heal(&faults, names, all).await);
        }
        FaultCommand::Crash(at) => return at.run(of_type("Crash")),
        FaultCommand::Pause(at) => return at.run(of_type("Pause")),
        FaultCommand::Webhook(at) => return at.run(of_type("Webhook")),
        FaultCommand::Poweroff(AtNode { instance, target, course }) => {
            return course.run(&instance, FaultSpec { target: Some(target), ..of_type("PowerOff") });
        }
        FaultCommand::Poweron { instance, node } => {
            let course = Course { duration: None, name: None, undo: true };
            return course.run(&instance, FaultSpec { target: Some(node), ..of_type("PowerOff") });
        }
        FaultCommand::Disk { instance, target, course, failure, delay } => {
            let name = |failure| match failure {
                DiskFailure::Full => "Full",
                DiskFailure::Slow => "Slow",
                DiskFailure::Failing => "Failing",
            };
            let disk = failure.map(|failure| FaultDisk { failure: name(failure).to_owned(), delay });
            return course.run(&instance, FaultSpec { target: Some(target), disk, ..of_type("Disk") });
        }
        FaultCommand::VolumeFull { instance, target, course } => {
            return course.run(&instance, FaultSpec { target: Some(target), ..of_type("VolumeFull") });
        }
        FaultCommand::Skew { at, by } => {
            let skew = by.map(|by| FaultSkew { by });
            return at.run(FaultSpec { skew, ..of_type("ClockSkew") });
        }
        FaultCommand::Oom { instance, target, name } => {
            let course = Course { duration: None, name, undo: false };
            return course.run(&instance, FaultSpec { target: Some(target), ..of_type("OutOfMemory") });
        }
        FaultCommand::Image { instance, target, course, delay, failing, pattern } => {
            let image = Some(FaultImage { delay, failing: failing.then_some(true), pattern });
            return course.run(&instance, FaultSpec { target, image, ..of_type("ImagePull") });
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
    let Between { instance, from: Side(from), to: Side(to), one_way, course } = between;
    let direction = one_way.then(|| "OneWay".to_owned());
    course.run(&instance, FaultSpec { from, to, direction, ..spec })
}

impl AtTarget {
    fn run(self, spec: FaultSpec) -> Result<()> {
        self.course.run(&self.instance, FaultSpec { target: Some(self.target), ..spec })
    }
}

impl Course {
    /// Begins a fault, or ends those there are of its type and of whom it meets.
    fn run(self, instance: &InstanceArgs, spec: FaultSpec) -> Result<()> {
        let spec = FaultSpec { duration: self.duration, ..spec };
        with_faults(instance, async |faults| {
            if self.undo { end_alike(&faults, &spec).await } else { begin(&faults, spec, self.name).await }
        })
    }
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
            let asked = faults.get(&name);
            tokio::pin!(asked);
            let fault = if let Ok(fault) = tokio::time::timeout(SILENCE, &mut asked).await {
                fault
            } else {
                // A store that stands still answers when that is over.
                note(&format!("fault/{name} is made; the server does not answer, which may be its work"));
                asked.await
            };
            let fault = fault.map_err(said)?;
            let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
            if let Some(active) = conditions::get(conditions, ACTIVE) {
                // What happens once may be over.
                let is_done = active.status == "True" || active.reason == "Done";
                return anyhow::Ok((is_done, active.message.clone()));
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

/// Ends the faults of this type, of this target or between these two, whichever was said first.
async fn end_alike(faults: &Api<Fault>, spec: &FaultSpec) -> Result<()> {
    let all = faults.list(&ListParams::default()).await.map_err(said)?;
    let alike = all.items.into_iter().filter(|fault| is_alike(&fault.spec, spec));
    let names: Vec<String> = alike.filter_map(|fault| fault.metadata.name).collect();
    if names.is_empty() {
        let whom =
            if spec.from.is_some() || spec.to.is_some() { "between these two" } else { "of this target" };
        bail!("there is no such fault {whom}");
    }
    heal(faults, names, false).await
}

/// Whether a fault is of the type and between the sides of another, one of which goes one way where the other does.
fn is_alike(fault: &FaultSpec, other: &FaultSpec) -> bool {
    let is_one_way = |spec: &FaultSpec| spec.direction.as_deref() == Some("OneWay");
    let same = (&fault.from, &fault.to) == (&other.from, &other.to);
    let turned = (&fault.from, &fault.to) == (&other.to, &other.from);
    fault.type_ == other.type_
        && fault.target == other.target
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
    let side = |peer: &Option<FaultPeer>| peer.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
    let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
    let state = match conditions::get(conditions, ACTIVE) {
        Some(active) if active.status == "True" => "in force".to_owned(),
        Some(active) => format!("{}: {}", active.reason, active.message),
        None => "not looked at yet".to_owned(),
    };
    if !fault.is_of_network() {
        let target = fault.spec.target.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
        return cells(fault, target, "-".to_owned(), state);
    }
    let from =
        if fault.is_one_way() { format!("{} →", side(&fault.spec.from)) } else { side(&fault.spec.from) };
    cells(fault, from, side(&fault.spec.to), state)
}

fn cells(fault: &Fault, from: String, to: String, state: String) -> [String; 6] {
    [
        fault.metadata.name.clone().unwrap_or_default(),
        fault.spec.type_.clone(),
        from,
        to,
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
            from: read_side(from).unwrap(),
            to: read_side(to).unwrap(),
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

    #[test]
    fn undo_finds_what_is_of_the_target_fault_1() {
        let spec = |type_: &str, text: &str| FaultSpec {
            target: Some(read_target(text).unwrap()),
            ..of_type(type_)
        };
        let asked = spec("PowerOff", "node/a");
        let bounded = FaultSpec { duration: Some("30s".into()), ..spec("PowerOff", "node/a") };
        assert!(is_alike(&bounded, &asked));
        assert!(!is_alike(&spec("PowerOff", "node/b"), &asked));
        assert!(!is_alike(&spec("Crash", "kubelet/a"), &asked));
    }
}
