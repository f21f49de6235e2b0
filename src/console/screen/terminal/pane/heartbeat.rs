//! Tells the process of a pod that was made for a session, line by line, that the session is there: the process ends when
//! no lines come any more, however the session ended (see [`crate::node_shell`]).

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::AbortHandle;

use crate::node_shell::BEAT;

/// The lines; they end with it.
#[derive(Debug)]
pub(super) struct Heartbeat(AbortHandle);

impl Heartbeat {
    /// Attaches to the process, whose input lines are of no meaning. A connection that breaks later is not opened again: the
    /// input of the process has ended with it.
    pub(super) async fn start(pods: &Api<Pod>, pod: &str, container: &str) -> Result<Self, kube::Error> {
        let params = AttachParams {
            container: Some(container.to_owned()),
            stdin: true,
            stdout: true,
            stderr: false,
            tty: false,
            ..AttachParams::default()
        };
        let mut process = pods.attach(pod, &params).await?;
        let task = tokio::spawn(async move {
            let (Some(mut input), Some(mut output)) = (process.stdin(), process.stdout()) else { return };
            let mut said = [0; 64];
            let mut beat = tokio::time::interval(BEAT);
            loop {
                tokio::select! {
                    _ = beat.tick() => {
                        if input.write_all(b"\n").await.is_err() || input.flush().await.is_err() {
                            return;
                        }
                    }
                    read = output.read(&mut said) => if !matches!(read, Ok(1..)) { return },
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
