//! Relays a session between its client and the node's host.

use tokio::net::UnixStream;
use tokio::sync::mpsc;

use base::session::{SessionInput, SessionOutput};
use host::protocol;

/// Relays a session until it ends, or until the client drops it: then the connection is closed, which detaches.
pub(super) async fn run_session(
    stream: UnixStream,
    mut inputs: mpsc::Receiver<SessionInput>,
    outputs: mpsc::Sender<SessionOutput>,
) {
    let (mut reader, mut writer) = stream.into_split();
    let sending = async {
        while let Some(input) = inputs.recv().await {
            if protocol::write_input(&mut writer, &input).await.is_err() {
                // The process ended without reading all its input: its output is still to be read.
                return std::future::pending::<()>().await;
            }
        }
        // The end of the input does not end the session. The session ends when the client drops the output.
        let _ = protocol::write_input(&mut writer, &SessionInput::StdinClosed).await;
        std::future::pending::<()>().await;
    };
    let receiving = async {
        let mut last = None;
        loop {
            match protocol::read_output(&mut reader).await {
                Ok(Some(output)) => {
                    let ends = matches!(output, SessionOutput::Exited(_) | SessionOutput::Failed(_));
                    if outputs.send(output).await.is_err() || ends {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    last = Some(error.to_string());
                    break;
                }
            }
        }
        let text = last.unwrap_or_else(|| "the node's host process ended the session".to_owned());
        let _ = outputs.send(SessionOutput::Failed(text)).await;
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
        () = outputs.closed() => {}
    }
}
