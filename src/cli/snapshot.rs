//! `podium snapshot` saves the whole cluster, restores it, and starts a second cluster from it (SAFE-8).
//!
//! Saving, restoring and deleting use the API of the running instance; if none runs, a restore is stored for its next
//! start. Lists and forks read the files, with or without a running instance.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use console_data::decoded::TypedApi;
use console_data::forks::{Fork, ForkedDirectory};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::ObjectMeta;

use super::apply::client_of;
use super::error_line;
use super::flags::InstanceArgs;
use super::output::{api_error, print_line, print_table};
use super::runtime::runtime;
use base::count::counted;
use base::quote::shell_word;
use cluster::snapshots::{Files, restore_at_start};
use cluster::{DataDir, running_instance};
use extension::cluster_snapshot::{
    COMPLETE, ClusterRestore, ClusterRestoreSpec, ClusterSnapshot, ClusterSnapshotSpec, READY, RestorePhase,
};
use object::conditions;

/// Interval between two polls of the progress.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum time of a snapshot, including the copies of claims.
const TO_SAVE: Duration = Duration::from_mins(10);
/// Maximum time of a restore beyond the pods' grace periods.
const TO_RESTORE: Duration = Duration::from_mins(30);

#[derive(Debug, Subcommand)]
pub(super) enum SnapshotCommand {
    /// Save the whole cluster in its current state
    Save {
        #[command(flatten)]
        named: SnapshotTarget,
        /// Save the contents of claims too
        #[arg(long)]
        claims: bool,
        /// Note about the snapshot, at most 1024 bytes
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// List snapshots
    List {
        #[command(flatten)]
        instance: InstanceArgs,
    },
    /// Restore the whole cluster: all pods end and workloads restart. The previous state is saved as before-NAME-SUFFIX
    Restore {
        #[command(flatten)]
        named: SnapshotTarget,
        /// Restore the contents of claims too
        #[arg(long)]
        claims: bool,
        /// Grace period of all pods in seconds [default: the grace period of each pod]
        #[arg(long, value_name = "SECONDS")]
        grace_period: Option<i64>,
    },
    /// Create a data directory from a snapshot, for a second cluster
    Fork {
        #[command(flatten)]
        named: SnapshotTarget,
        /// Path of the new data directory
        #[arg(value_name = "DIR")]
        to: PathBuf,
    },
    /// Delete a snapshot
    Delete {
        #[command(flatten)]
        named: SnapshotTarget,
    },
}

/// A snapshot of an instance.
#[derive(Debug, Args)]
pub(super) struct SnapshotTarget {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Name of the snapshot
    name: String,
}

pub(super) fn run(command: SnapshotCommand) -> Result<()> {
    match command {
        SnapshotCommand::Save { named, claims, description } => {
            runtime()?.block_on(save(&named, claims, description))
        }
        SnapshotCommand::List { instance } => {
            list(&data_dir(&instance)?);
            Ok(())
        }
        SnapshotCommand::Restore { named, claims, grace_period } => restore(&named, claims, grace_period),
        SnapshotCommand::Fork { named, to } => fork(&named, &to),
        SnapshotCommand::Delete { named } => runtime()?.block_on(delete(&named)),
    }
}

fn data_dir(instance: &InstanceArgs) -> Result<PathBuf> {
    let given = instance.directory()?;
    given.canonicalize().with_context(|| format!("cannot open the data directory {}", given.display()))
}

async fn save(named: &SnapshotTarget, claims: bool, description: Option<String>) -> Result<()> {
    let snapshots: TypedApi<ClusterSnapshot> = TypedApi::all(client_of(&named.instance).await?);
    let metadata = ObjectMeta { name: Some(named.name.clone()), ..ObjectMeta::default() };
    let spec = ClusterSnapshotSpec { claims: claims.then_some(true), description };
    let snapshot = ClusterSnapshot { metadata, spec, status: None };
    snapshots.create(&snapshot).await.map_err(api_error)?;
    let outcome = async {
        loop {
            let snapshot = snapshots.get(&named.name).await.map_err(api_error)?;
            let conditions = snapshot.status.as_ref().and_then(|status| status.conditions.as_ref());
            if let Some(ready) = conditions::get(conditions, READY).filter(|ready| ready.status != "Unknown")
            {
                return anyhow::Ok((ready.status == "True", ready.message.clone()));
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(TO_SAVE, outcome)
        .await
        .context("the snapshot was not saved within 10 minutes")??
    {
        (true, message) => print_line(&format!("snapshot {} saved: {message}", named.name)),
        (false, message) => bail!("snapshot {} was not saved: {message}", named.name),
    }
    Ok(())
}

fn list(data_dir: &Path) {
    let files = Files::of(data_dir);
    let names = files.names();
    if names.is_empty() {
        return print_line("No snapshots");
    }
    let mut rows = vec![["NAME", "TAKEN", "REVISION", "OBJECTS", "BYTES", "CLAIMS"].map(str::to_owned)];
    for name in names {
        rows.push(match files.about(&name) {
            Ok((revision, about, bytes)) => [
                name,
                about.taken_at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
                revision.to_string(),
                about.objects.to_string(),
                bytes.to_string(),
                about.claims.len().to_string(),
            ],
            Err(error) => {
                [name, error.to_string(), String::new(), String::new(), String::new(), String::new()]
            }
        });
    }
    print_table(&rows);
}

fn restore(named: &SnapshotTarget, claims: bool, grace_period: Option<i64>) -> Result<()> {
    let data_dir = data_dir(&named.instance)?;
    let spec = ClusterRestoreSpec {
        snapshot: named.name.clone(),
        claims: claims.then_some(true),
        grace_period_seconds: grace_period,
    };
    if running_instance(&data_dir).is_some() {
        return runtime()?.block_on(restore_now(named, spec));
    }
    // A missing snapshot must be reported now, not at the next start.
    let (_, about, _) = Files::of(&data_dir).about(&named.name)?;
    restore_at_start(&data_dir, &spec, false)?;
    print_line(&format!(
        "no cluster runs on {}; its next start restores {} as of {}",
        data_dir.display(),
        counted(about.objects, "object"),
        about.taken_at.strftime("%Y-%m-%d %H:%M:%S")
    ));
    Ok(())
}

async fn restore_now(named: &SnapshotTarget, spec: ClusterRestoreSpec) -> Result<()> {
    let restores: TypedApi<ClusterRestore> = TypedApi::all(client_of(&named.instance).await?);
    let prefix: String = named.name.chars().take(200).collect();
    let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() };
    let restore = ClusterRestore { metadata, spec, status: None };
    let made = restores.create(&restore).await.map_err(api_error)?;
    let name = made.metadata.name.unwrap_or_default();
    let mut reported = String::new();
    let mut done = async || {
        loop {
            let restore = restores.get(&name).await.map_err(api_error)?;
            let conditions = restore.status.as_ref().and_then(|status| status.conditions.as_ref());
            let message = conditions::get(conditions, COMPLETE).map(|complete| complete.message.clone());
            match (restore.phase(), message) {
                (RestorePhase::Completed, message) => {
                    let before = restore.status.and_then(|status| status.before);
                    return anyhow::Ok((message.unwrap_or_default(), before));
                }
                (RestorePhase::Failed, message) => bail!(message.unwrap_or_default()),
                (_, Some(message)) if message != reported => {
                    print_line(&message);
                    reported = message;
                }
                _ => {}
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let (message, before) = tokio::time::timeout(TO_RESTORE, done())
        .await
        .context("the restore did not complete within 30 minutes")??;
    print_line(&format!("snapshot {} restored: {message}", named.name));
    if let Some(before) = before {
        print_line(&format!("the previous state is saved as snapshot {before}"));
    }
    Ok(())
}

fn fork(named: &SnapshotTarget, to: &Path) -> Result<()> {
    let objects = counted(fork_from(&data_dir(&named.instance)?, &named.name, to)?, "object");
    let to = to.display().to_string();
    print_line(&format!("created {to} with {objects}; start it with: podium --data-dir {}", shell_word(&to)));
    Ok(())
}

/// Creates a data directory from a snapshot of another one. Returns the number of objects in it.
fn fork_from(data_dir: &Path, name: &str, to: &Path) -> Result<usize> {
    let files = Files::of(data_dir);
    let (_, about, _) = files.about(name)?;
    if to.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty; choose a new directory for the fork", to.display());
    }
    let forked = DataDir::open(to, false)?;
    forked.take_identity(data_dir)?;
    files.copy_to(name, &Files::of(forked.path()))?;
    let claims = Some(!about.claims.is_empty()).filter(|has| *has);
    let spec = ClusterRestoreSpec { snapshot: name.to_owned(), claims, grace_period_seconds: None };
    restore_at_start(forked.path(), &spec, true)?;
    Ok(about.objects)
}

/// Returns the console's interface for forks of an instance of this machine.
pub(super) fn forks(data_dir: PathBuf) -> Arc<dyn Fork> {
    Arc::new(Forks { data_dir })
}

/// Forks of the snapshots of a data directory.
#[derive(Debug)]
struct Forks {
    data_dir: PathBuf,
}

impl Fork for Forks {
    fn fork(
        &self,
        snapshot: String,
        directory: PathBuf,
    ) -> BoxFuture<'static, Result<ForkedDirectory, String>> {
        let data_dir = self.data_dir.clone();
        let copy = move || fork_from(&data_dir, &snapshot, &directory);
        async move {
            let copied = base::task::blocking(copy).await.map_err(|error| error.to_string())?;
            copied.map(|objects| ForkedDirectory { objects }).map_err(|error| error_line(&error))
        }
        .boxed()
    }
}

async fn delete(named: &SnapshotTarget) -> Result<()> {
    let snapshots: TypedApi<ClusterSnapshot> = TypedApi::all(client_of(&named.instance).await?);
    snapshots.delete(&named.name).await.map_err(api_error)?;
    print_line(&format!("snapshot {} deleted", named.name));
    Ok(())
}
