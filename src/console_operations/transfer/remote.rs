//! The container's end of a copy: `tar` and auxiliary commands, by exec, as `kubectl cp` does.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::archive::{self, Progress};
use super::local;
use crate::effect::Outbox;
use crate::exec_streams::{self, READ_BYTES, Source};
use console_data::action::error_text;
use console_data::decoded::JsonObject;
use console_toolkit::text::generated;

/// Maximum number of queued chunks.
const CHUNKS: usize = 16;
/// Maximum number of bytes read of a command's error output.
const MAX_STDERR: usize = 4096;
/// Timeout of commands that only test or clean up.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The container of a copy.
#[derive(Clone)]
pub struct Container {
    /// The pods of its namespace.
    pub pods: Api<JsonObject>,
    /// The name of its pod.
    pub pod: String,
    /// Its name.
    pub name: String,
}

/// The result of a command.
struct CommandExit {
    code: Option<i32>,
    /// The output of the command, or the server's message.
    output: String,
}

impl CommandExit {
    /// Combines the final Status with the command's error output.
    fn of(status: Option<Status>, stderr: &[u8]) -> Self {
        let stderr = String::from_utf8_lossy(stderr).trim().to_owned();
        let Some(status) = status else {
            return Self { code: None, output: "the connection was closed".to_owned() };
        };
        if status.status.as_deref() == Some("Success") {
            return Self { code: Some(0), output: stderr };
        }
        let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
        let code = causes
            .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
            .find_map(|cause| cause.message.as_deref()?.trim().parse().ok());
        let output = if stderr.is_empty() { status.message.unwrap_or_default() } else { stderr };
        Self { code, output }
    }

    /// Returns the error message; `None` if the command succeeded.
    fn error(&self, program: &str, container: &str) -> Option<String> {
        let Self { code, output: words } = self;
        let names_it = words.contains(program) || words.contains("exec");
        let is_missing = matches!(code, None | Some(126 | 127))
            && names_it
            && ["not found", "no such file", "No such file"].iter().any(|missing| words.contains(missing));
        match code {
            Some(0) => None,
            _ if is_missing => {
                Some(format!("container {container} has no {program}, which copying needs: {words}"))
            }
            Some(code) => Some(format!("{program} in {container} ended with exit code {code}: {words}")),
            None => Some(words.clone()),
        }
    }
}

fn to_owned_args(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

impl Container {
    async fn exec(&self, command: &[&str], stdin: bool, stdout: bool) -> Result<AttachedProcess, String> {
        let params = AttachParams {
            container: Some(self.name.clone()),
            stdin,
            stdout,
            stderr: true,
            tty: false,
            max_stdin_buf_size: Some(READ_BYTES),
            max_stdout_buf_size: Some(READ_BYTES),
            max_stderr_buf_size: Some(READ_BYTES),
        };
        self.pods.exec(&self.pod, to_owned_args(command), &params).await.map_err(|error| error_text(&error))
    }

    /// Runs a command with little output.
    async fn run(&self, command: &[&str]) -> Result<CommandExit, String> {
        let ended = async {
            let mut process = self.exec(command, false, false).await?;
            let status = exec_streams::status_of(&mut process);
            let stderr = read_prefix(Source::new(process.stderr(), status.clone())).await;
            Ok(CommandExit::of(status.await, &stderr))
        };
        let late =
            || format!("{} in {} did not end in {} s", command[0], self.name, COMMAND_TIMEOUT.as_secs());
        tokio::time::timeout(COMMAND_TIMEOUT, ended).await.unwrap_or_else(|_| Err(late()))
    }

    /// Returns the result of `test`; an error if the program does not exist or the server does not respond.
    async fn test(&self, flag: &str, path: &str) -> Result<bool, String> {
        let ended = self.run(&["test", flag, path]).await?;
        match ended.code {
            Some(1) => Ok(false),
            _ => ended.error("test", &self.name).map_or(Ok(true), Err),
        }
    }

    /// Copies a path out of the container to its local destination.
    pub async fn copy_out(
        &self,
        out: &Outbox,
        (parent, name): (&str, &str),
        target: PathBuf,
        progress: Arc<Progress>,
    ) -> Result<(), String> {
        let mut process =
            self.exec(&["tar", "cf", "-", "-C", parent, &format!("./{name}")], false, true).await?;
        let status = exec_streams::status_of(&mut process);
        let mut stdout = Source::new(process.stdout(), status.clone());
        if !stdout.is_open() {
            return Err("the server opened no output stream".to_owned());
        }
        let stderr = Source::new(process.stderr(), status.clone());
        let complaints = base::task::start(async move { read_prefix(stderr).await });
        let (chunks, incoming) = mpsc::channel(CHUNKS);
        let (whole, is_whole) = oneshot::channel::<()>();
        let (tell, finished) = oneshot::channel();
        let name = name.to_owned();
        // The unpacking task runs to its end even if the screen is closed, so that it removes its temporary directory.
        out.spawn_detached(async move {
            let received = base::task::blocking(move || {
                let from = ChunkReader { chunks: incoming, remaining: Bytes::new() };
                local::receive(from, &name, &target, &progress, || is_whole.blocking_recv().is_ok())
            });
            let received = received.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            let _ = tell.send(received.map_err(|error| error.to_string()));
        });
        while stdout.is_open() {
            let bytes = stdout.read().await;
            if !bytes.is_empty() && chunks.send(bytes).await.is_err() {
                // The unpacking thread stopped reading, and reports why.
                return finished.await.unwrap_or_else(|_| Err("the copy was stopped".to_owned()));
            }
        }
        drop(chunks);
        let complaints =
            complaints.await.map_err(|error| format!("cannot read the errors of tar: {error}"))?;
        let ended = CommandExit::of(status.await, &complaints);
        if let Some(error) = ended.error("tar", &self.name) {
            return Err(error);
        }
        let _ = whole.send(());
        finished.await.unwrap_or_else(|_| Err("the copy was stopped".to_owned()))
    }

    /// Returns the destination of `name` in the container (within an existing directory, or exactly as typed), and
    /// whether it exists.
    pub async fn resolve_target(&self, path: &str, name: &str) -> Result<(String, String, bool), String> {
        let (parent, name) = if self.test("-d", path).await? {
            (path.to_owned(), name.to_owned())
        } else {
            let (parent, name) = split(path).ok_or("enter a name for the destination")?;
            (parent.to_owned(), name.to_owned())
        };
        let place = join(&parent, &name);
        if self.test("-d", &place).await? {
            return Err(format!("{place} is an existing directory and is not replaced"));
        }
        let exists = self.test("-e", &place).await?;
        Ok((parent, name, exists))
    }

    /// Copies a local path into the container, where the copy gets its final name once it is complete.
    pub async fn copy_in(
        &self,
        out: &Outbox,
        source: &Path,
        (parent, name): (&str, &str),
        progress: Arc<Progress>,
    ) -> Result<(), String> {
        let beside = format!(".podium-copy-{}", generated(8));
        let path = join(parent, &beside);
        let (unneeded, needed) = oneshot::channel::<()>();
        let (container, remains) = (self.clone(), path.clone());
        // The removal of the incomplete copy also runs if the screen is closed.
        out.spawn_detached(async move {
            if needed.await.is_err() {
                let _ = container.run(&["rm", "-rf", &remains]).await;
            }
        });
        let mut process = self.exec(&["tar", "xmof", "-", "-C", parent], true, false).await?;
        let status = exec_streams::status_of(&mut process);
        let Some(mut stdin) = process.stdin() else {
            return Err("the server opened no input stream".to_owned());
        };
        let stderr = Source::new(process.stderr(), status.clone());
        let complaints = base::task::start(async move { read_prefix(stderr).await });
        let (chunks, mut outgoing) = mpsc::channel::<Bytes>(CHUNKS);
        let source = source.to_path_buf();
        let packed = base::task::blocking(move || {
            let to = io::BufWriter::with_capacity(READ_BYTES, ChunkWriter(chunks));
            archive::pack(&source, &beside, to, &progress)
        });
        let mut refused = None;
        while let Some(chunk) = outgoing.recv().await {
            if let Err(error) = exec_streams::write_all(&mut stdin, &chunk, &status).await {
                refused = Some(error.to_string());
                break;
            }
        }
        drop(outgoing);
        let packed = packed.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        if let (Err(error), None) = (&packed, &refused) {
            return Err(error.to_string());
        }
        let _ = stdin.shutdown().await;
        drop(stdin);
        let complaints =
            complaints.await.map_err(|error| format!("cannot read the errors of tar: {error}"))?;
        let ended = CommandExit::of(status.await, &complaints);
        // The error of `tar` is more specific than the broken connection.
        if let Some(error) = ended.error("tar", &self.name).or(refused) {
            return Err(error);
        }
        let ended = self.run(&["mv", "-f", &path, &join(parent, name)]).await?;
        if let Some(error) = ended.error("mv", &self.name) {
            return Err(error);
        }
        let _ = unneeded.send(());
        Ok(())
    }
}

/// Returns the directory and the name of a path in a container; `None` if it is the root or empty.
pub fn split(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_end_matches('/');
    let (parent, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => (".", path),
    };
    (!matches!(name, "" | "." | "..")).then_some((parent, name))
}

fn join(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.trim_end_matches('/'))
}

/// Reads the first bytes, and discards the rest.
async fn read_prefix(mut from: Source<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut output = Vec::new();
    while from.is_open() {
        let bytes = from.read().await;
        let free = MAX_STDERR - output.len();
        output.extend_from_slice(&bytes[..bytes.len().min(free)]);
    }
    output
}

/// Chunks, read as a stream of bytes.
struct ChunkReader {
    chunks: mpsc::Receiver<Bytes>,
    remaining: Bytes,
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.remaining.is_empty() {
            let Some(next) = self.chunks.blocking_recv() else { return Ok(0) };
            self.remaining = next;
        }
        let count = self.remaining.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.remaining.split_to(count));
        Ok(count)
    }
}

/// A stream of bytes, sent as chunks.
struct ChunkWriter(mpsc::Sender<Bytes>);

impl Write for ChunkWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Bytes::copy_from_slice(buffer));
        sent.map(|()| buffer.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_is_a_directory_and_a_name_con_3() {
        for (path, expected) in [
            ("/var/log/app.log", Some(("/var/log", "app.log"))),
            ("/etc/", Some(("/", "etc"))),
            ("data", Some((".", "data"))),
            ("a/b//", Some(("a", "b"))),
            ("/", None),
            ("", None),
            ("/a/..", None),
        ] {
            assert_eq!(split(path), expected, "{path}");
        }
        assert_eq!(
            (join("/", "a"), join("/x/", "a"), join(".", "a")),
            ("/a".into(), "/x/a".into(), "./a".into())
        );
    }

    #[test]
    fn a_container_without_tar_differs_from_a_missing_file_con_3() {
        let error = |status: serde_json::Value, stderr: &str| {
            CommandExit::of(serde_json::from_value(status).unwrap(), stderr.as_bytes()).error("tar", "main")
        };
        assert_eq!(error(json!({"status": "Success"}), ""), None);
        let none = json!({"status": "Failure", "reason": "InternalError",
            "message": "exec: \"tar\": executable file not found in $PATH"});
        assert!(
            error(none, "")
                .unwrap()
                .starts_with("container main has no tar, which copying needs: exec: \"tar\"")
        );
        let code = |code: &str| {
            json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated",
                "details": {"causes": [{"reason": "ExitCode", "message": code}]}})
        };
        assert!(error(code("127"), "sh: tar: not found").unwrap().contains("has no tar"));
        assert_eq!(
            error(code("2"), "tar: ./x: No such file or directory").unwrap(),
            "tar in main ended with exit code 2: tar: ./x: No such file or directory"
        );
    }
}
