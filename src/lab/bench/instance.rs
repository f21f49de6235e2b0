//! A `podium serve`, as a process of the program that users run.

use base::optional_file::read_optional;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

pub(super) struct Instance {
    child: Child,
    directory: PathBuf,
    pub(super) started_after: Duration,
}

impl Instance {
    /// Starts an instance with its own data directory and waits until it is ready.
    pub(super) async fn start(arguments: &[&str]) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!(
            "podium-bench-{}-{:x}",
            std::process::id(),
            rand::random::<u32>()
        ));
        let start = Instant::now();
        let mut child = Command::new(crate::podium_program()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--data-dir"])
            .arg(&directory)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let stdout = child.stdout.take().context("stdout is a pipe")?;
        let mut instance = Self { child, directory, started_after: Duration::ZERO };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        if !line.starts_with("ready ") {
            bail!("podium serve did not become ready: {line:?}");
        }
        instance.started_after = start.elapsed();
        Ok(instance)
    }

    /// Returns an ordinary client over HTTPS.
    pub(super) async fn client(&self) -> Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.directory.join("kubeconfig"))?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Resident memory of the control plane.
    pub(super) fn resident_mib(&self) -> Result<f64> {
        resident_mib(self.child.id().context("the instance has ended")?)
    }

    /// The control plane's resident memory, without pages of files, which the kernel can drop.
    pub(super) fn own_mib(&self) -> Result<f64> {
        own_mib_of(self.child.id().context("the instance has ended")?)
    }

    /// Resident memory of the nodes' hosts and of the `pause` processes that they add to pods: everything between the
    /// control plane and the containers.
    pub(super) fn hosts_mib(&self) -> f64 {
        let commands = commands();
        let hosts = self.hosts_among(&commands);
        let is_pause = |(pid, command): &&(u32, String)| {
            command.trim_end_matches('\0') == "pause" && parent(*pid).is_some_and(|pid| hosts.contains(&pid))
        };
        let pauses = commands.iter().filter(is_pause).map(|(pid, _)| pid);
        // Processes that have just ended count as zero.
        hosts.iter().chain(pauses).map(|pid| proportional_mib(*pid).unwrap_or(0.0)).sum()
    }

    /// The PIDs of the nodes' hosts.
    pub(super) fn hosts(&self) -> Vec<u32> {
        self.hosts_among(&commands())
    }

    fn hosts_among(&self, commands: &[(u32, String)]) -> Vec<u32> {
        let own = self.directory.display().to_string();
        let is_host =
            |command: &str| command.split('\0').nth(1) == Some("node-host") && command.contains(&own);
        commands.iter().filter(|(_, command)| is_host(command)).map(|(pid, _)| *pid).collect()
    }

    /// The PID of the control plane; `None` if it has ended.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns its data directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Processor time of the control plane's threads, in user space and in the kernel.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        processor_time_of(self.child.id().context("the instance has ended")?)
    }

    /// Sends SIGTERM and waits for the end.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.terminate();
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("podium serve ended with {status}");
        }
        Ok(())
    }
}

impl Instance {
    fn terminate(&self) {
        if let Some(pid) = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            // Fails only if the process has already ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Instance {
    /// A suite that fails also stops the instance by SIGTERM, because a killed instance would leave its pods behind.
    fn drop(&mut self) {
        self.terminate();
        while matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Resident memory of a process without pages of files, in MiB.
pub(super) fn own_mib_of(pid: u32) -> Result<f64> {
    mib(&format!("/proc/{pid}/status"), "RssAnon:")
}

/// Processor time of a process's threads, in user space and in the kernel.
pub(super) fn processor_time_of(pid: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        // Threads that have just ended count as zero.
        let text = read_optional(thread.path().join("schedstat"));
        nanoseconds += text.split(' ').next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// All processes with their command lines.
fn commands() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&command).into_owned()))
        })
        .collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub(super) fn resident_mib(pid: u32) -> Result<f64> {
    mib(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Proportional resident memory of a process: a page that several processes share counts once in their sum. Forks share
/// pages with the host.
fn proportional_mib(pid: u32) -> Result<f64> {
    mib(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn mib(file: &str, field: &str) -> Result<f64> {
    let text = std::fs::read_to_string(file)?;
    let line =
        text.lines().find(|l| l.starts_with(field)).with_context(|| format!("no {field} in {file}"))?;
    let kib: f64 = line.split_whitespace().nth(1).context("the field has a value")?.parse()?;
    Ok(kib / 1024.0)
}
