//! Sends lines to the process of a pod that was created for a session: the process exits when no more lines arrive,
//! however the session ended (see [`console_data::node_shell`]).

use kube::Api;
use kube::api::AttachParams;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::AbortHandle;

use console_data::decoded::JsonObject;
use console_data::node_shell::HEARTBEAT_INTERVAL;

/// Sends the lines until it is dropped.
#[derive(Debug)]
pub(super) struct Heartbeat(AbortHandle);

impl Heartbeat {
    /// Attaches to the process, which ignores the content of the lines. A broken connection is not reopened: the
    /// process has seen the end of its input by then.
    pub(super) async fn start(
        pods: &Api<JsonObject>,
        pod: &str,
        container: &str,
    ) -> Result<Self, kube::Error> {
        let params = AttachParams {
            container: Some(container.to_owned()),
            stdin: true,
            stdout: true,
            stderr: false,
            tty: false,
            ..AttachParams::default()
        };
        let mut process = pods.attach(pod, &params).await?;
        let task = base::task::start(async move {
            let (Some(mut input), Some(mut output)) = (process.stdin(), process.stdout()) else { return };
            let mut buffer = [0; 64];
            let mut beat = tokio::time::interval(HEARTBEAT_INTERVAL);
            loop {
                tokio::select! {
                    _ = beat.tick() => {
                        if input.write_all(b"\n").await.is_err() || input.flush().await.is_err() {
                            return;
                        }
                    }
                    read = output.read(&mut buffer) => if !matches!(read, Ok(1..)) { return },
                }
            }
        });
        Ok(Self(task.abort_handle()))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.abort();
    }
}
