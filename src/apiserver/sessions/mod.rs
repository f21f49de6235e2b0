//! Exec and attach: a session on the pod's node, in the client's framing.
//!
//! `web_socket` and `spdy` implement the channels; the content and the end of a session are here and in
//! `status`, once for both.

mod spdy;
mod status;
mod web_socket;

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use k8s_openapi::api::core::v1::Pod;

use super::Server;
use super::logs::container_of;
use super::query::Query;
use super::upgrade::{self, Upgrade};
use api::ApiError;
use base::session::{Session, SessionInput, SessionOutput, SessionStreams};
use object::{Key, Subresource};

/// Returns the streams that a query requests.
fn requested_streams(query: &Query) -> Result<SessionStreams, ApiError> {
    let streams = SessionStreams {
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr"),
        tty: query.flag("tty"),
    };
    if !(streams.stdin || streams.stdout || streams.stderr) {
        return Err(ApiError::BadRequest("you must specify at least 1 of stdin, stdout, stderr".into()));
    }
    Ok(streams)
}

/// Starts the session of an exec or attach request.
async fn open(
    server: &Server,
    key: &Key,
    part: Subresource,
    query: &Query,
    streams: SessionStreams,
) -> Result<Session, ApiError> {
    let pod = server.api().get_as::<Pod>(key)?;
    let container = container_of(&pod, query.get("container"))?;
    let node = server.node_of(&pod)?;
    if part == Subresource::Attach {
        return node.attach(pod, container, streams).await;
    }
    let command = query.all("command");
    if command.is_empty() {
        return Err(ApiError::BadRequest("you must specify at least 1 command for the container".into()));
    }
    node.exec(pod, container, command, streams).await
}

pub(super) async fn handle(
    server: &Server,
    key: &Key,
    part: Subresource,
    request: Request,
    query: &Query,
) -> Result<Response, ApiError> {
    let streams = requested_streams(query)?;
    let exit_report = if part == Subresource::Attach { ExitReport::Success } else { ExitReport::ExitCode };
    match Upgrade::of(request)? {
        Upgrade::WebSocket(mut upgrade) => {
            let dialect = web_socket::Subprotocol::choose(&mut upgrade)?;
            let session = open(server, key, part, query, streams).await.map_err(upgrade::refusal)?;
            Ok(upgrade.switch(server, move |socket| {
                let (inward, outward) = web_socket::split(socket, dialect);
                relay(inward, outward, session, exit_report)
            }))
        }
        Upgrade::Spdy(upgrade) => {
            let protocol = match upgrade.choose(spdy::PROTOCOLS) {
                Ok(protocol) => protocol,
                Err(refusal) => return Ok(*refusal),
            };
            let session = open(server, key, part, query, streams).await.map_err(upgrade::refusal)?;
            let speak = move |socket| spdy::serve_session(socket, protocol, streams, session, exit_report);
            Ok(upgrade.switch(server, protocol, speak))
        }
    }
}

/// The input of a session.
trait SessionReader: Send {
    /// Returns the client's next input; `None` if the client has left. Cancelling the future loses no input.
    fn next(&mut self) -> impl Future<Output = Option<SessionInput>> + Send;

    /// Ends when the client has left, without taking its input, which the process may not want.
    fn wait_closed(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// The output of a session.
trait SessionWriter: Send {
    /// Sends output to the client; after `Exited` or `Failed` also the end of the session. Returns false if
    /// the client has left.
    fn send_output(&mut self, output: SessionOutput) -> impl Future<Output = bool> + Send;

    /// Does the work that is due while there is nothing to send; ends when the client has left.
    fn idle(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

fn ends(output: &SessionOutput) -> bool {
    matches!(output, SessionOutput::Exited(_) | SessionOutput::Failed(_))
}

/// The report to a client when the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExitReport {
    /// Its exit code.
    ExitCode,
    /// The orderly end of its streams: attached clients read the exit code in the pod's status.
    Success,
}

/// The time for a client to hang up after the end. Until then its input is read and discarded: closing a
/// connection with unread input would make the network discard output in flight.
const LINGER: Duration = Duration::from_secs(10);

/// Relays a session until either side ends. Input waits for the process and output for the client: nothing
/// accumulates here.
async fn relay(
    mut inward: impl SessionReader,
    mut outward: impl SessionWriter,
    session: Session,
    exit_report: ExitReport,
) {
    let Session { input, mut output } = session;
    let inbound = async {
        let mut taken = true;
        while let Some(message) = inward.next().await {
            // A process that reads no more may still write; further input is discarded.
            if taken {
                taken = tokio::select! {
                    sent = input.send(message) => sent.is_ok(),
                    () = inward.wait_closed() => return,
                };
            }
        }
    };
    let outbound = async {
        loop {
            let message = tokio::select! {
                message = output.recv() => message,
                () = outward.idle() => return,
            };
            let message = match message {
                Some(SessionOutput::Exited(_)) if exit_report == ExitReport::Success => {
                    SessionOutput::Exited(0)
                }
                Some(message) => message,
                None => SessionOutput::Failed("the session ended before the command".into()),
            };
            let last = ends(&message);
            if !outward.send_output(message).await || last {
                return;
            }
        }
    };
    tokio::select! {
        // The client left: dropping the session detaches it.
        () = inbound => return,
        () = outbound => {}
    }
    drop((input, output));
    let _ = tokio::time::timeout(LINGER, async { while inward.next().await.is_some() {} }).await;
}
