//! The pause image's program: it waits.

use tokio::signal::unix::{SignalKind, signal};

/// Sleeps until it is told to end.
pub(super) async fn wait() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
