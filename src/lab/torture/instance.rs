//! The torture's own `podium serve`, restarted repeatedly on one data directory.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::directory::TortureDir;
use super::plan::NODES;
use super::processes::Process;

/// Timeout of a start, long enough for a busy machine.
const START: Duration = Duration::from_mins(1);
/// Timeout of an orderly stop.
const END: Duration = Duration::from_mins(1);
/// Timeout of one request; a frozen control plane answers none.
const REQUEST: Duration = Duration::from_secs(5);

/// A process of the instance.
pub(super) struct Instance {
    child: Child,
    process: Process,
}

impl Instance {
    /// Starts the process, without waiting until it is ready.
    pub(super) fn spawn(place: &TortureDir) -> Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(place.log("serve.log"))?;
        let mut command = match place.mistake {
            None => {
                let mut podium = Command::new(crate::podium_program()?);
                podium.arg("serve");
                podium
            }
            Some(mistake) => {
                let mut lab = Command::new(std::env::current_exe()?);
                lab.args([super::SERVE_PROGRAM, mistake.name()]);
                lab
            }
        };
        command
            .args(["--listen", "127.0.0.1:0", "--nodes", &NODES.to_string(), "--data-dir"])
            .arg(place.data())
            .arg("--config")
            .arg(place.config())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            // A terminal's SIGINT must reach only the torture, which stops the instance itself.
            .process_group(0);
        let child = command.spawn().context("cannot start podium serve")?;
        let process = child.id().and_then(Process::of).context("podium serve ended at once")?;
        Ok(Self { child, process })
    }

    /// Waits until the instance is ready.
    pub(super) async fn ready(&mut self) -> Result<()> {
        let stdout = self.child.stdout.take().context("the readiness of this process was already awaited")?;
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        match timeout(START, stdout.read_line(&mut line)).await {
            Ok(read) => read?,
            Err(_) => bail!("podium serve was not ready within {} s", START.as_secs()),
        };
        if !line.starts_with("ready ") {
            bail!("podium serve did not become ready: {line:?}");
        }
        Ok(())
    }

    pub(super) fn process(&self) -> Process {
        self.process
    }

    /// The exit status, if the process has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub(super) async fn kill(mut self) -> Result<()> {
        self.child.start_kill()?;
        self.child.wait().await?;
        Ok(())
    }

    /// Sends SIGTERM and waits for the end.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let Ok(status) = timeout(END, self.child.wait()).await else {
            self.process.signal(Signal::KILL)?;
            self.child.wait().await?;
            bail!("podium serve did not end within {} s after SIGTERM and was killed", END.as_secs());
        };
        let status = status?;
        if !status.success() {
            bail!("podium serve ended with {status} after SIGTERM");
        }
        Ok(())
    }
}

/// An ordinary client over HTTPS, without retries.
pub(super) async fn client(data: &Path) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(data.join("kubeconfig"))?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(REQUEST);
    Ok(kube::Client::try_from(config)?)
}

/// Returns the response of a request, or an error after the request's timeout.
pub(super) async fn with_timeout<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T> {
    Ok(timeout(REQUEST, request).await.context("no response")??)
}
