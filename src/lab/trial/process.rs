//! The controller under trial: a shell's command in a process group of its own, restarted when it ends.

use base::optional_file::read_optional_bytes;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// The number of bytes from the end of the controller's log that a report shows.
const MAX_OUTPUT: usize = 2000;

/// A controller's process, which may have ended by itself. Dropping this kills the process and its process group.
pub(super) struct Controller {
    command: String,
    kubeconfig: PathBuf,
    log: PathBuf,
    child: Child,
    /// The number of times that the controller ended by itself.
    pub(super) ended: u32,
}

impl Controller {
    pub(super) fn start(command: &str, kubeconfig: &Path, log: &Path) -> Result<Self> {
        let (kubeconfig, log) = (kubeconfig.to_owned(), log.to_owned());
        let child = spawn(command, &kubeconfig, &log)?;
        Ok(Self { command: command.to_owned(), kubeconfig, log, child, ended: 0 })
    }

    /// Kills the controller, and starts it again.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.kill();
        self.child = spawn(&self.command, &self.kubeconfig, &self.log)?;
        Ok(())
    }

    /// Starts the controller again if it has ended by itself, as a kubelet would. Returns true if it has been
    /// restarted.
    pub(super) fn keep(&mut self) -> Result<bool> {
        if self.child.try_wait().context("cannot wait for the controller")?.is_none() {
            return Ok(false);
        }
        self.ended += 1;
        self.restart()?;
        Ok(true)
    }

    /// Returns the end of the controller's log.
    pub(super) fn last_output(&self) -> String {
        let text = read_optional_bytes(&self.log);
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(MAX_OUTPUT)..]).into_owned();
        base::quote::printable(&text).into_owned()
    }

    fn kill(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // The process group has the number of its first process. No other group can have this number, unless `keep` has
        // just reaped that process.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: &str, kubeconfig: &Path, log: &Path) -> Result<Child> {
    let out =
        File::options().create(true).append(true).open(log).context("cannot open the controller's log")?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("KUBECONFIG", kubeconfig).stdin(Stdio::null()).process_group(0);
    let stdout = out.try_clone().context("cannot open the controller's log")?;
    shell.stdout(stdout).stderr(out).spawn().with_context(|| format!("cannot start {command:?}"))
}
