//! Programs that wait: the pause image's, which is part of this binary and ends on a signal, and pid 1 of a pod's PID
//! namespace ([`program`]), which is a program of its own.

mod elf;

use tokio::signal::unix::{SignalKind, signal};

pub use elf::program;

/// Sleeps until it receives SIGTERM or SIGINT.
pub(crate) async fn wait() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
