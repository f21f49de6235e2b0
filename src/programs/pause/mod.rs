//! Programs that wait: the pause image's, which is part of this binary and ends on a signal, and those beside containers
//! in a PID namespace ([`NamespacePrograms`]), which are programs of their own.

mod elf;

use tokio::signal::unix::{SignalKind, signal};

pub use elf::NamespacePrograms;

/// Sleeps until it receives SIGTERM or SIGINT.
pub(crate) async fn wait() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
