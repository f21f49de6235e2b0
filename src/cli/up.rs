//! `podium` and `podium up`: control plane and console in one terminal; `podium console`: the console alone.

use anyhow::Result;

use super::args::{ClusterArgs, ConsoleArgs, ConsoleTarget};

pub(super) fn run(cluster: ClusterArgs, console: ConsoleArgs) -> Result<()> {
    let _ = (cluster, console);
    anyhow::bail!("the console is not built in yet; run podium serve")
}

pub(super) fn console_only(console: ConsoleArgs, target: ConsoleTarget) -> Result<()> {
    let _ = (console, target);
    anyhow::bail!("the console is not built in yet")
}
