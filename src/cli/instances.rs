//! `podium ps` and `podium stop`: list this machine's instances and stop them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, pidfd_send_signal};

use super::dev;
use super::flags::InstanceArgs;
use super::output::{print_line, print_table};
use super::user_ids;
use cluster::{DataDir, NetworkEntry, remove_leftover_network, running_instance};
use host::running_hosts::{RunningHost, process, running_hosts, wait_for_end};
use object::time::human_duration;

/// Lists the node hosts of this user.
pub(super) fn list() {
    let hosts = running_hosts();
    if hosts.is_empty() {
        print_line("No running nodes");
        return;
    }
    let mut rows = vec![["NODE", "PID", "PODS", "AGE", "CLAIMED BY", "DATA DIRECTORY"].map(str::to_owned)];
    rows.extend(hosts.iter().map(row));
    print_table(&rows);
}

fn row(host: &RunningHost) -> [String; 6] {
    let claimed = match running_instance(host.data_dir()) {
        Some(pid) => format!("pid {pid}"),
        None => "none".into(),
    };
    let place = host.data_dir().display();
    [
        host.node(),
        host.pid.to_string(),
        host.pods().map_or("?".into(), |pods| pods.to_string()),
        human_duration(host.age.as_secs().cast_signed()),
        claimed,
        if host.data_dir().is_dir() { place.to_string() } else { format!("{place} (gone)") },
    ]
}

/// Stops the instance of a data directory, and ends the hosts that an earlier instance left there; then deletes the data,
/// if requested.
pub(super) fn stop(instance: &InstanceArgs, delete_data: bool) -> Result<()> {
    let given = instance.directory()?;
    let directory = real(&given);
    let mut ended = stop_instance(&directory)?;
    // An instance that was stopped just now has ended its own hosts; the hosts that still run were left by an earlier
    // instance.
    for host in running_hosts().into_iter().filter(|host| real(host.data_dir()) == directory) {
        host.end().with_context(|| format!("cannot stop node {} (pid {})", host.node(), host.pid))?;
        print_line(&format!("stopped node {} (pid {}) and its pods", host.node(), host.pid));
        ended = true;
    }
    if remove_leftover_network(&NetworkEntry::socket(&directory)).context("cannot stop the pods' network")? {
        print_line("stopped the pods' network and the shells in it");
        ended = true;
    }
    if !ended {
        print_line(&format!("nothing to stop in {}", given.display()));
    }
    if delete_data { delete(&directory) } else { Ok(()) }
}

/// Deletes a data directory. Files of containers may belong to subordinate ids, which only root of a user namespace can
/// remove.
fn delete(directory: &Path) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    if !DataDir::is_used(directory)? {
        bail!("{} has no cluster's data", directory.display());
    }
    let single_id = user_ids::of_user(Some(directory)).and_then(|own| user_ids::start_over(Some(&own)));
    let data = DataDir::open(directory, false)?;
    dev::delete_files(directory);
    let deleted = data.delete();
    let deleted = match single_id {
        Some(why) => deleted.with_context(|| format!("this process has a single user id: {why}")),
        None => deleted.map_err(Into::into),
    };
    let rest = if deleted? { "" } else { "; files that are not Podium's remain there" };
    print_line(&format!("deleted the cluster in {}{rest}", directory.display()));
    Ok(())
}

/// Requests the instance to stop and waits for its end. Returns false if none runs.
fn stop_instance(directory: &Path) -> Result<bool> {
    let Some(pid) = running_instance(directory) else { return Ok(false) };
    let Some(handle) = process(pid).with_context(|| format!("pid {pid}"))? else { return Ok(false) };
    if running_instance(directory) != Some(pid) {
        return Ok(false);
    }
    pidfd_send_signal(&handle, Signal::TERM).with_context(|| format!("pid {pid}"))?;
    print_line(&format!(
        "stopping podium (pid {pid}): its pods have their grace periods; a second `podium stop` kills them"
    ));
    wait_for_end(&handle, None).with_context(|| format!("pid {pid}"))?;
    print_line(&format!("stopped podium (pid {pid})"));
    Ok(true)
}

/// Returns the path as running instances report it; a path that no longer exists is only made absolute.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf())
}
