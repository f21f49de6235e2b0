//! `podium fault` creates, lists and heals faults (FAULT-1) over the API, as `podium apply` does.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use kube::api::{ListParams, ObjectMeta};

use super::apply::client_of;
use super::flags::InstanceArgs;
use super::output::{api_error, eprint_line, print_line, print_table};
use super::runtime::runtime;
use base::count::counted;
use console_data::decoded::TypedApi;
use extension::fault::{
    ACTIVE, Fault, FaultDisk, FaultImage, FaultLatency, FaultLoss, FaultPeer, FaultRate, FaultRefuse,
    FaultSkew, FaultSpec, FaultTarget, read_disk, read_node, read_side, read_target, read_volume,
};
use object::conditions;

/// Time within which a fault must be in force.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between two polls.
const LOOK: Duration = Duration::from_millis(50);
/// If the server does not respond for this long, the fault itself may have stopped it.
const SILENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(super) enum FaultCommand {
    /// List active and ended faults
    List {
        #[command(flatten)]
        instance: InstanceArgs,
    },
    /// Cut the network between two sides
    Partition(BetweenArgs),
    /// Delay packets between two sides
    Latency {
        #[command(flatten)]
        between: BetweenArgs,
        /// Minimum delay, such as 50ms
        #[arg(long, required_unless_present = "heal")]
        delay: Option<String>,
        /// Maximum random delay added to --delay
        #[arg(long)]
        jitter: Option<String>,
    },
    /// Drop packets between two sides
    Loss {
        #[command(flatten)]
        between: BetweenArgs,
        /// Packets to drop at random, per thousand
        #[arg(long, required_unless_present = "heal")]
        per_mille: Option<i32>,
    },
    /// Limit the bandwidth between two sides
    Rate {
        #[command(flatten)]
        between: BetweenArgs,
        /// Maximum bytes per second in each direction; packets beyond it are dropped
        #[arg(long, required_unless_present = "heal")]
        bytes_per_second: Option<i64>,
    },
    /// Reject packets between two sides
    Refuse {
        #[command(flatten)]
        between: BetweenArgs,
        /// Response to the sender
        #[arg(long, value_enum, default_value_t = RefuseMode::Reset)]
        with: RefuseMode,
    },
    /// Crash a component at once: kubelet/NODE, scheduler, controllers or controller/NAME. It restarts when healed
    Crash(TargetArgs),
    /// Pause a component, as SIGSTOP does: kubelet/NODE, scheduler, controllers, controller/NAME or store. It continues
    /// when healed
    Pause(TargetArgs),
    /// Power off a node: its processes are killed and its kubelet stops. It boots when healed
    Poweroff(NodeArgs),
    /// Power on a node that is off
    Poweron {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Name of the node
        #[arg(value_parser = read_node)]
        node: FaultTarget,
    },
    /// Make a node's disk or the store's disk full, failing or slow
    Disk {
        #[command(flatten)]
        instance: InstanceArgs,
        /// store, the name of a node, or nodes:LABEL=VALUE
        #[arg(value_parser = read_disk)]
        target: FaultTarget,
        #[command(flatten)]
        course: FaultLifetime,
        /// Kind of failure
        #[arg(long, value_enum, required_unless_present = "heal")]
        failure: Option<DiskFailure>,
        /// Added time per write of a slow disk, such as 200ms
        #[arg(long, required_if_eq("failure", "slow"))]
        delay: Option<String>,
    },
    /// Fill a volume until healed. Free space is used up where the volume is a file system of its own (ext4, or a small
    /// tmpfs); writes are refused where it is a directory of this machine, as emptyDirs are, which requires root and
    /// Linux 6.14
    VolumeFull {
        #[command(flatten)]
        instance: InstanceArgs,
        /// claim/[NAMESPACE/]NAME or [NAMESPACE/]NAME, or emptydir/[NAMESPACE/]POD/VOLUME
        #[arg(value_parser = read_volume)]
        target: FaultTarget,
        #[command(flatten)]
        course: FaultLifetime,
    },
    /// Shift the clock of a component: kubelet/NODE, scheduler or controllers
    Skew {
        #[command(flatten)]
        at: TargetArgs,
        /// Offset, such as 5m or -1h30m
        #[arg(long, required_unless_present = "heal", allow_hyphen_values = true)]
        by: Option<String>,
    },
    /// Kill a container once, as the kernel does when memory runs out
    Oom {
        #[command(flatten)]
        instance: InstanceArgs,
        /// pod/[NAMESPACE/]NAME[/CONTAINER] or pods[/NAMESPACE]:LABEL=VALUE
        #[arg(value_parser = read_target)]
        target: FaultTarget,
        /// Name of the fault
        #[arg(long)]
        name: Option<String>,
    },
    /// Make calls to webhooks hang until they time out: webhook/NAME, by the name of their configuration
    Webhook(TargetArgs),
    /// Make image pulls slow or fail, on node/NODE, on nodes:LABEL=VALUE, or on all nodes
    Image {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Nodes to affect [default: all]
        #[arg(value_parser = read_node)]
        target: Option<FaultTarget>,
        #[command(flatten)]
        course: FaultLifetime,
        /// Added time per pull, such as 30s
        #[arg(long)]
        delay: Option<String>,
        /// Make pulls fail, after the delay if there is one
        #[arg(long)]
        failing: bool,
        /// Only affect images with this name; * matches any text
        #[arg(long)]
        pattern: Option<String>,
    },
    /// Heal faults by deleting their objects
    Heal {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Names of the faults
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Heal all faults
        #[arg(long)]
        all: bool,
    },
}

/// One side of a network fault; `None` means every peer that is not on the other side.
#[derive(Clone, Debug, PartialEq)]
struct Side(Option<FaultPeer>);

fn side(text: &str) -> Result<Side, String> {
    read_side(text).map(Side)
}

/// The response to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RefuseMode {
    /// TCP reset for TCP, ICMP for other protocols
    Reset,
    /// ICMP port unreachable
    Unreachable,
    /// ICMP administratively prohibited
    Prohibited,
}

/// The failure of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DiskFailure {
    /// No space left
    Full,
    /// Each write takes longer
    Slow,
    /// The device reports I/O errors
    Failing,
}

/// The duration and the name of a fault, or the request to end it.
#[derive(Debug, Args)]
pub(super) struct FaultLifetime {
    /// Duration, such as 30s [default: until healed]
    #[arg(long, alias = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// Name of the fault
    #[arg(long)]
    name: Option<String>,
    /// Heal the matching faults of this target, or between these two sides, instead of starting one
    #[arg(long, alias = "undo")]
    heal: bool,
}

/// A target and a duration.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Target of the fault, in a form that this help names above
    #[arg(value_parser = read_target)]
    target: FaultTarget,
    #[command(flatten)]
    course: FaultLifetime,
}

/// A node and a duration.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Name of the node, or nodes:LABEL=VALUE
    #[arg(value_parser = read_node)]
    target: FaultTarget,
    #[command(flatten)]
    course: FaultLifetime,
}

/// Two sides and a duration.
#[derive(Debug, Args)]
pub(super) struct BetweenArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// First side: node/NAME, nodes:LABEL=VALUE, pod/[NAMESPACE/]NAME, pods[/NAMESPACE]:LABEL=VALUE, an address, a
    /// range of addresses, or all
    #[arg(value_parser = side)]
    from: Side,
    /// Second side [default: every peer that is not on the first side]
    #[arg(value_parser = side, default_value = "all")]
    to: Side,
    /// Only affect packets from the first side to the second
    #[arg(long)]
    one_way: bool,
    #[command(flatten)]
    course: FaultLifetime,
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
        FaultCommand::Poweroff(NodeArgs { instance, target, course }) => {
            return course.run(&instance, FaultSpec { target: Some(target), ..of_type("PowerOff") });
        }
        FaultCommand::Poweron { instance, node } => {
            let course = FaultLifetime { duration: None, name: None, heal: true };
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
            let course = FaultLifetime { duration: None, name, heal: false };
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
                RefuseMode::Reset => "Reset",
                RefuseMode::Unreachable => "Unreachable",
                RefuseMode::Prohibited => "Prohibited",
            };
            (
                between,
                FaultSpec { refuse: Some(FaultRefuse { with: Some(with.to_owned()) }), ..of_type("Refuse") },
            )
        }
    };
    let BetweenArgs { instance, from: Side(from), to: Side(to), one_way, course } = between;
    let direction = one_way.then(|| "OneWay".to_owned());
    course.run(&instance, FaultSpec { from, to, direction, ..spec })
}

impl TargetArgs {
    fn run(self, spec: FaultSpec) -> Result<()> {
        self.course.run(&self.instance, FaultSpec { target: Some(self.target), ..spec })
    }
}

impl FaultLifetime {
    /// Starts a fault, or ends the existing faults of the same type and target.
    fn run(self, instance: &InstanceArgs, spec: FaultSpec) -> Result<()> {
        let spec = FaultSpec { duration: self.duration, ..spec };
        with_faults(instance, async |faults| {
            if self.heal { end_alike(&faults, &spec).await } else { begin(&faults, spec, self.name).await }
        })
    }
}

fn of_type(type_: &str) -> FaultSpec {
    FaultSpec { type_: type_.to_owned(), ..FaultSpec::default() }
}

fn with_faults(instance: &InstanceArgs, work: impl AsyncFnOnce(TypedApi<Fault>) -> Result<()>) -> Result<()> {
    runtime()?.block_on(async { work(TypedApi::all(client_of(instance).await?)).await })
}

/// Creates a fault and waits until it is in force.
async fn begin(faults: &TypedApi<Fault>, spec: FaultSpec, name: Option<String>) -> Result<()> {
    let generate_name = name.is_none().then(|| format!("{}-", spec.type_.to_lowercase()));
    let metadata = ObjectMeta { name, generate_name, ..ObjectMeta::default() };
    let fault = Fault { metadata, spec, status: None };
    let made = faults.create(&fault).await.map_err(api_error)?;
    let name = made.metadata.name.unwrap_or_default();
    let outcome = async {
        loop {
            let request = faults.get(&name);
            tokio::pin!(request);
            let fault = if let Ok(fault) = tokio::time::timeout(SILENCE, &mut request).await {
                fault
            } else {
                // A server with a stalled store responds when the fault that stalls the store ends.
                eprint_line(&format!(
                    "fault/{name} was created; the server does not respond, perhaps because of this fault"
                ));
                request.await
            };
            let fault = fault.map_err(api_error)?;
            let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
            if let Some(active) = conditions::get(conditions, ACTIVE) {
                // A one-time fault, such as killing a container, may already be done.
                let is_done = active.status == "True" || active.reason == "Done";
                return anyhow::Ok((is_done, active.message.clone()));
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(START_TIMEOUT, outcome).await {
        Ok(result) => match result? {
            (true, message) => print_line(&format!("fault/{name} is in force: {message}")),
            (false, message) => bail!("fault/{name} is not in force: {message}"),
        },
        Err(_) => bail!("fault/{name} is not in force after {} s", START_TIMEOUT.as_secs()),
    }
    Ok(())
}

/// Ends the faults of this type that have this target or are between these two sides, in either order.
async fn end_alike(faults: &TypedApi<Fault>, spec: &FaultSpec) -> Result<()> {
    let all = faults.list(&ListParams::default()).await.map_err(api_error)?;
    let alike = all.into_iter().filter(|fault| is_alike(&fault.spec, spec));
    let names: Vec<String> = alike.filter_map(|fault| fault.metadata.name).collect();
    if names.is_empty() {
        let target =
            if spec.from.is_some() || spec.to.is_some() { "between these sides" } else { "of this target" };
        bail!("no matching fault {target}");
    }
    heal(faults, names, false).await
}

/// Returns true if two faults have the same type, target and sides. The order of the sides counts only for one-way
/// faults.
fn is_alike(fault: &FaultSpec, other: &FaultSpec) -> bool {
    let is_one_way = |spec: &FaultSpec| spec.direction.as_deref() == Some("OneWay");
    let same = (&fault.from, &fault.to) == (&other.from, &other.to);
    let turned = (&fault.from, &fault.to) == (&other.to, &other.from);
    fault.type_ == other.type_
        && fault.target == other.target
        && is_one_way(fault) == is_one_way(other)
        && (same || turned && !is_one_way(other))
}

async fn heal(faults: &TypedApi<Fault>, names: Vec<String>, all: bool) -> Result<()> {
    let names = if all {
        let list = faults.list(&ListParams::default()).await.map_err(api_error)?;
        list.into_iter().filter_map(|fault| fault.metadata.name).collect()
    } else {
        names
    };
    let mut failed = 0;
    for name in &names {
        match faults.delete(name).await {
            Ok(()) => print_line(&format!("fault/{name} healed")),
            Err(error) => {
                failed += 1;
                eprint_line(&format!("podium: {}", api_error(error)));
            }
        }
    }
    if failed > 0 {
        bail!("cannot heal {failed} of {}", counted(names.len(), "fault"));
    }
    Ok(())
}

async fn list(faults: &TypedApi<Fault>) -> Result<()> {
    let all = faults.list(&ListParams::default()).await.map_err(api_error).context("cannot list faults")?;
    if all.is_empty() {
        print_line("No faults");
        return Ok(());
    }
    let mut rows = vec![["NAME", "TYPE", "FROM", "TO", "DURATION", "STATE"].map(str::to_owned)];
    rows.extend(all.iter().map(row));
    print_table(&rows);
    Ok(())
}

fn row(fault: &Fault) -> [String; 6] {
    let side = |peer: &Option<FaultPeer>| peer.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
    let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
    let state = match conditions::get(conditions, ACTIVE) {
        Some(active) if active.status == "True" => "in force".to_owned(),
        Some(active) => format!("{}: {}", active.reason, active.message),
        None => "pending".to_owned(),
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
    fn undo_finds_a_symmetric_fault_with_its_sides_swapped_fault_1() {
        let spec = |type_: &str, from: &str, to: &str, direction: Option<&str>| FaultSpec {
            from: read_side(from).unwrap(),
            to: read_side(to).unwrap(),
            direction: direction.map(str::to_owned),
            ..of_type(type_)
        };
        let requested = spec("Partition", "node/a", "node/b", None);
        // The server's default direction is both ways.
        assert!(is_alike(&spec("Partition", "node/a", "node/b", Some("Both")), &requested));
        assert!(is_alike(&spec("Partition", "node/b", "node/a", Some("Both")), &requested));
        assert!(!is_alike(&spec("Partition", "node/a", "node/c", Some("Both")), &requested));
        assert!(!is_alike(&spec("Loss", "node/a", "node/b", Some("Both")), &requested));
        assert!(!is_alike(&spec("Partition", "node/a", "node/b", Some("OneWay")), &requested));
        let requested = spec("Partition", "node/a", "all", Some("OneWay"));
        assert!(is_alike(&spec("Partition", "node/a", "all", Some("OneWay")), &requested));
        assert!(!is_alike(&spec("Partition", "all", "node/a", Some("OneWay")), &requested));
    }

    #[test]
    fn undo_finds_what_is_of_the_target_fault_1() {
        let spec = |type_: &str, text: &str| FaultSpec {
            target: Some(read_target(text).unwrap()),
            ..of_type(type_)
        };
        let requested = spec("PowerOff", "node/a");
        let bounded = FaultSpec { duration: Some("30s".into()), ..spec("PowerOff", "node/a") };
        assert!(is_alike(&bounded, &requested));
        assert!(!is_alike(&spec("PowerOff", "node/b"), &requested));
        assert!(!is_alike(&spec("Crash", "kubelet/a"), &requested));
    }
}
