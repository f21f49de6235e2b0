//! Checks at the end: all objects have their desired state, each identity has one holder, and the stop leaves nothing
//! behind.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use base::count::counted;
use base::optional_file::read_optional_bytes;
use extension::cluster_snapshot::ClusterSnapshot;
use extension::fault::Fault;
use extension::node_fence::NodeFence;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::directory::TortureDir;
use super::findings::Findings;
use super::instance::with_timeout;
use super::processes::{Process, inside, namespaces};
use super::verify::verify;
use cluster::running_instance;
use object::node::is_ready;

/// Time for all objects to reach their desired state once the faults are over.
pub(super) const CONVERGE_TIMEOUT: Duration = Duration::from_mins(2);
/// Time for other processes of the instance to end after the control plane has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);

/// Waits until all objects have their desired state. The error describes the first one that has not.
pub(super) async fn wait_until_converged(client: &Client) -> Result<Duration, String> {
    let started = Instant::now();
    loop {
        let missing = match unfinished(client).await {
            Ok(None) => return Ok(started.elapsed()),
            Ok(Some(missing)) => missing,
            Err(error) => format!("{error:#}"),
        };
        if started.elapsed() > CONVERGE_TIMEOUT {
            return Err(missing);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Describes the first object that does not have its desired state.
async fn unfinished(client: &Client) -> Result<Option<String>> {
    let all = ListParams::default();
    for node in with_timeout(Api::<Node>::all(client.clone()).list(&all)).await? {
        let open = node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true);
        if !is_ready(&node) || !open {
            return Ok(Some(format!("node {} is not ready, or it is cordoned", node.name_any())));
        }
    }
    let pods = with_timeout(Api::<Pod>::default_namespaced(client.clone()).list(&all)).await?.items;
    if let Some(pod) = pods.iter().find(|pod| pod.metadata.deletion_timestamp.is_some()) {
        return Ok(Some(format!("pod {} is terminating", pod.name_any())));
    }
    for set in with_timeout(Api::<StatefulSet>::default_namespaced(client.clone()).list(&all)).await? {
        let desired = set.spec.replicas.unwrap_or(1);
        let is = set.status.as_ref().is_some_and(|status| {
            status.observed_generation == set.metadata.generation
                && status.replicas == desired
                && [status.ready_replicas, status.updated_replicas]
                    .iter()
                    .all(|count| count.unwrap_or(0) == desired)
        });
        if !is {
            return Ok(Some(format!(
                "StatefulSet {} with {} has the status {:?}",
                set.name_any(),
                counted(desired, "replica"),
                set.status
            )));
        }
    }
    for one in with_timeout(Api::<Deployment>::default_namespaced(client.clone()).list(&all)).await? {
        let desired = one.spec.replicas.unwrap_or(1);
        let is = one.status.as_ref().is_some_and(|status| {
            status.observed_generation == one.metadata.generation
                && [status.replicas, status.ready_replicas, status.updated_replicas]
                    .iter()
                    .all(|count| count.unwrap_or(0) == desired)
        });
        if !is {
            return Ok(Some(format!(
                "Deployment {} with {} has the status {:?}",
                one.name_any(),
                counted(desired, "replica"),
                one.status
            )));
        }
    }
    for job in with_timeout(Api::<Job>::default_namespaced(client.clone()).list(&all)).await? {
        if job.status.as_ref().and_then(|status| status.succeeded) != Some(2) {
            return Ok(Some(format!("Job {} has the status {:?}", job.name_any(), job.status)));
        }
    }
    let left = [
        find_remaining::<Fault>(client).await?,
        find_remaining::<NodeFence>(client).await?,
        find_remaining::<ClusterSnapshot>(client).await?,
    ];
    Ok(left.into_iter().flatten().next())
}

/// Describes a remaining object of a kind of which none may be left.
async fn find_remaining<K>(client: &Client) -> Result<Option<String>>
where
    K: kube::Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
{
    let all = with_timeout(Api::<K>::all(client.clone()).list(&ListParams::default().limit(1))).await?;
    Ok(all.items.first().map(|one| format!("{} {} still exists", K::kind(&()), one.name_any())))
}

/// The running containers that hold an identity, as pairs of pod and container ID.
pub(super) async fn running_holders(client: &Client) -> Result<BTreeSet<(String, String)>> {
    let pods =
        with_timeout(Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default())).await?;
    let of_sets = pods.items.into_iter().filter(|pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == "StatefulSet")
    });
    let running = of_sets.flat_map(|pod| {
        let name = pod.name_any();
        let all = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        let running =
            all.into_iter().filter(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()));
        running.filter_map(|one| one.container_id).map(move |id| (name.clone(), id)).collect::<Vec<_>>()
    });
    Ok(running.collect())
}

/// Waits until no status shows one of these killed containers as running (SAFE-7).
pub(super) async fn wait_for_exits_in_status(
    client: &Client,
    killed: &BTreeSet<(String, String)>,
    findings: &Findings,
) -> Result<()> {
    let started = Instant::now();
    loop {
        let unseen: Vec<_> = running_holders(client).await?.intersection(killed).cloned().collect();
        if unseen.is_empty() {
            findings.checked(killed.len());
            return Ok(());
        }
        if started.elapsed() > CONVERGE_TIMEOUT {
            for (pod, id) in unseen {
                findings.violation(
                    "SAFE-7",
                    &format!("the kubelet does not notice that container {id} of pod {pod} ended"),
                );
            }
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks that no snapshot's file is left after its object was deleted (SAFE-8).
pub(super) fn snapshots(place: &TortureDir, findings: &Findings) {
    for entry in fs::read_dir(place.data().join("snapshots")).into_iter().flatten().flatten() {
        let message = format!("{} remains of a deleted snapshot", entry.path().display());
        findings.violation("SAFE-8", &message);
    }
    findings.checked(1);
}

/// Checks that each desired identity has a holder, and that no other identity has one.
pub(super) async fn identities(client: &Client, place: &TortureDir, findings: &Findings) -> Result<()> {
    let (sets, all): (Api<StatefulSet>, _) = (Api::default_namespaced(client.clone()), ListParams::default());
    let desired: BTreeSet<String> = with_timeout(sets.list(&all))
        .await?
        .iter()
        .flat_map(|set| {
            let replicas = set.spec.replicas.unwrap_or(1);
            (0..replicas).map(|number| format!("{}-{number}", set.name_any())).collect::<Vec<_>>()
        })
        .collect();
    for path in holder_files(place, "lock")? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let lock = fs::File::open(&path)?;
        let held = flock(&lock, FlockOperation::NonBlockingLockShared).is_err();
        findings.checked(1);
        if held != desired.contains(&name) {
            let (is, should) =
                if held { ("is held", "should not exist") } else { ("is not held", "should run") };
            findings.violation("SAFE-1", &format!("{name} {is}, but its pod {should}"));
        }
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = with_timeout(namespaces.get("kube-system")).await?;
    let mut conditions = system.status.into_iter().flat_map(|status| status.conditions.unwrap_or_default());
    if let Some(differs) =
        conditions.find(|one| one.type_ == "podium.dev/StateDiffers" && one.status == "True")
    {
        let message = format!("memory and disk differ: {}", differs.message.unwrap_or_default());
        findings.violation("SAFE-2", &message);
    }
    Ok(())
}

/// The processes of a running instance, which must end with it.
pub(super) struct Traces {
    processes: BTreeSet<Process>,
}

impl Traces {
    pub(super) fn of(place: &TortureDir) -> Self {
        let mut processes = place.processes().all();
        // Processes in these namespaces are searched before the stop, because the kernel reuses the numbers of deleted
        // namespaces.
        processes.extend(inside(&namespaces(&processes)));
        Self { processes }
    }

    /// Checks after the stop that no process, namespace and mount is left, and that the data directory is free.
    pub(super) async fn check_nothing_remains(&self, place: &TortureDir, findings: &Findings) -> Result<()> {
        let started = Instant::now();
        let left = loop {
            let left = self.remaining_processes(place);
            if left.is_empty() || started.elapsed() > EXIT_TIMEOUT {
                break left;
            }
            tokio::time::sleep(LOOK).await;
        };
        for one in left {
            findings.violation("SAFE-7", &one);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let directory = place.directory().display().to_string();
        for mount in mounts.lines().filter(|mount| mount.contains(&directory)) {
            findings.violation("SAFE-7", &format!("a mount remains: {mount}"));
        }
        if let Some(pid) = running_instance(&place.data()) {
            findings.violation("SAFE-7", &format!("pid {pid} still uses the data directory"));
        }
        findings.checked(self.processes.len() + 2);
        Ok(())
    }

    fn remaining_processes(&self, place: &TortureDir) -> Vec<String> {
        let known = self.processes.iter().filter(|process| process.is_alive()).copied();
        let processes: BTreeSet<Process> = known.chain(place.processes().all()).collect();
        let process = |one: &Process| {
            let line = read_optional_bytes(format!("/proc/{}/cmdline", one.pid));
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            format!("a process remains: pid {} {}", one.pid, line.trim())
        };
        processes.iter().map(process).collect()
    }
}

/// Returns true if a holder has recently recorded that another process holds its identity. Reads only the ends of the
/// logs; the full check follows at the end of the torture.
pub(super) fn has_clash(place: &TortureDir) -> bool {
    let logs = holder_files(place, "log").into_iter().flatten();
    logs.filter_map(|path| ending(&path).ok()).any(|text| text.contains("\"clash\""))
}

/// Returns the holders' files with this extension.
fn holder_files(place: &TortureDir, extension: &str) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(place.witness())?.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|known| known == extension)).collect())
}

/// Reads the end of a file.
fn ending(path: &Path) -> io::Result<String> {
    const MAX_BYTES: u64 = 64 << 10;
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Checks the logs of all holders. Returns the numbers of identities, of processes and of torn lines.
pub(super) fn logs(place: &TortureDir, findings: &Findings) -> Result<(usize, usize, usize)> {
    let mut sum = (0, 0, 0);
    for path in holder_files(place, "log")? {
        let verdict = verify(&String::from_utf8_lossy(&fs::read(&path)?));
        let identity = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for violation in &verdict.violations {
            findings.violation("SAFE-1", &format!("{identity}: {violation} ({})", path.display()));
        }
        findings.checked(verdict.records);
        sum = (sum.0 + 1, sum.1 + verdict.runs, sum.2 + verdict.torn);
    }
    Ok(sum)
}
