//! Commands in running containers.

use crate::process_tree;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Pid;
use tokio::sync::{mpsc, oneshot, watch};

use super::child::{Files, Stdio};
use super::container::{Container, ContainerInit};
use super::inhabited::Containment;
use super::launch::filter_of;
use super::pipe_end::{self, PipeEnd};
use super::reaper::ProcessExit;
use super::spawn::{Parent, SpawnRequest};
use super::subreaper::SpawnedProcess;
use super::{Host, environment, os, terminals};
use crate::{ContainerId, ExecOutput, RuntimeError};
use base::session::{SessionOutput, SessionStreams};

/// The maximum of a command's output that is returned to probes and hooks.
const OUTPUT_BYTES: usize = 10 << 10;

/// A command that runs in a container.
pub(super) struct Exec {
    container: Rc<Container>,
    pid: Pid,
    ended: oneshot::Receiver<ProcessExit>,
    /// Its first process was reaped: another process may have its number.
    is_reaped: Rc<Cell<bool>>,
    pub(super) input: Option<Rc<PipeEnd>>,
    pub(super) terminal: Option<Rc<PipeEnd>>,
    outputs: Vec<(Rc<PipeEnd>, bool)>,
}

impl Drop for Exec {
    /// Kills all processes of the command when the client has disconnected or the command has ended.
    fn drop(&mut self) {
        kill_tree(self.pid, self.is_reaped.get() || self.ended.try_recv().is_ok());
        if !self.is_reaped.get() {
            self.container.execs.borrow_mut().retain(|pid| *pid != self.pid);
        }
    }
}

/// Kills a command with all its descendants and all processes of its session.
fn kill_tree(leader: Pid, is_reaped: bool) {
    let all = process_tree::all();
    for pid in process_tree::command(&all, leader.as_raw_nonzero().get(), is_reaped) {
        // The leader may have ended: only processes in the snapshot are killed.
        if let Some(process) = all.iter().find(|process| process.pid == pid && !process.zombie)
            && let Some(pid) = Pid::from_raw(process.pid)
        {
            os::signal(pid, libc::SIGKILL);
        }
    }
}

fn os_error(error: &io::Error) -> RuntimeError {
    RuntimeError::Os(error.to_string())
}

impl Host {
    /// Starts a command in a running container.
    pub(super) async fn exec(
        self: &Rc<Self>,
        id: &ContainerId,
        command: &[String],
        streams: SessionStreams,
    ) -> Result<Exec, RuntimeError> {
        let container = self.container(id)?;
        let Some(main) = container.main.get().filter(|_| !container.starting.get()) else {
            return Err(RuntimeError::NotFound(format!("running container {}", id.0)));
        };
        let pod = self.pod(&container.pod).ok_or_else(|| RuntimeError::NotFound(id.0.clone()))?;
        let (mut input, mut terminal, mut outputs) = (None, None, Vec::new());
        let stdio = if streams.tty {
            let own = pod.terminals(container.launch.host_view);
            let (master, slave) = terminals::open(own.as_deref()).map_err(|error| os_error(&error))?;
            let master = Rc::new(PipeEnd::new(master).map_err(|error| os_error(&error))?);
            input = streams.stdin.then(|| Rc::clone(&master));
            outputs.push((Rc::clone(&master), true));
            terminal = Some(master);
            Stdio::Terminal(slave)
        } else {
            let stdin = if streams.stdin {
                let (read, write) = pipe_end::pipe().map_err(|error| os_error(&error))?;
                input = Some(Rc::new(PipeEnd::new(write).map_err(|error| os_error(&error))?));
                read
            } else {
                pipe_end::nothing().map_err(|error| os_error(&error))?
            };
            let mut output = |is_requested: bool, is_stdout: bool| -> io::Result<_> {
                if !is_requested {
                    return pipe_end::nothing();
                }
                let (read, write) = pipe_end::pipe()?;
                outputs.push((Rc::new(PipeEnd::new(read)?), is_stdout));
                Ok(write)
            };
            let stdout = output(streams.stdout, true).map_err(|error| os_error(&error))?;
            let stderr = output(streams.stderr, false).map_err(|error| os_error(&error))?;
            Stdio::Pipes { stdin, stdout, stderr }
        };
        let mut env = container.env.clone();
        if streams.tty {
            environment::merge(&mut env, [("TERM".to_owned(), "xterm".to_owned())]);
        }
        let working_dir = container.launch.spec.working_dir.clone().unwrap_or_else(|| "/".into());
        let (report_read, report) = pipe_end::pipe().map_err(|error| os_error(&error))?;
        let namespace = container.pid_namespace.borrow().clone();
        let security = &container.launch.spec.security;
        let filter = filter_of(security).map_err(RuntimeError::StartFailed)?;
        let spawn = SpawnRequest {
            argv: command,
            env: &env,
            working_dir: &working_dir,
            programs: &container.launch.programs,
            pod: &pod,
            files: if self.isolation.namespaces { Files::Of(main) } else { Files::Machine },
            stdio,
            user: container.account.clone(),
            security,
            filter: filter.as_ref(),
            oom_score_adj: container.launch.spec.oom_score_adj,
            group: container.group.get(),
            report,
            parent: match (&*container.holder.borrow(), &namespace) {
                (Some(ContainerInit::Init(_)), Some(namespace)) => {
                    Parent::Inhabited(namespace, Containment::Init)
                }
                (_, Some(namespace)) => Parent::Inhabited(namespace, Containment::Subreaper),
                (_, None) => Parent::BelowSubreaper,
            },
        };
        let SpawnedProcess { pid, ended, keeper } = self.spawn(spawn).await?;
        if !container.is_running() {
            // It has exited meanwhile, and no task waits for its commands any more.
            kill_tree(pid, false);
            return Err(RuntimeError::NotFound(format!("running container {}", id.0)));
        }
        container.hold(keeper);
        container.execs.borrow_mut().push(pid);
        let exec = Exec { container, pid, ended, is_reaped: Rc::default(), input, terminal, outputs };

        let report = PipeEnd::new(report_read).map_err(|error| os_error(&error))?;
        let (_open, mut over) = watch::channel(false);
        let mut reason = String::new();
        while let Some(text) = report.next(&mut over, |text| String::from_utf8_lossy(text).into_owned()).await
        {
            reason.push_str(&text);
        }
        if reason.is_empty() { Ok(exec) } else { Err(RuntimeError::StartFailed(reason)) }
    }

    /// Runs a command to its end and returns its output.
    pub(super) async fn exec_sync(
        self: &Rc<Self>,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let run = async {
            let streams = SessionStreams { stdin: false, stdout: true, stderr: true, tty: false };
            let mut exec = self.exec(id, command, streams).await?;
            let mut outputs = exec.pump();
            let mut output = Vec::new();
            let mut exit_code = 0;
            while let Some(piece) = outputs.recv().await {
                match piece {
                    SessionOutput::Stdout(bytes) | SessionOutput::Stderr(bytes) => {
                        let remaining = OUTPUT_BYTES - output.len();
                        output.extend_from_slice(&bytes[..bytes.len().min(remaining)]);
                    }
                    SessionOutput::Exited(code) => exit_code = code,
                    SessionOutput::Failed(_) => {}
                }
            }
            Ok(ExecOutput { exit_code, output })
        };
        // On timeout the command is dropped, which kills it.
        tokio::time::timeout(timeout, run).await.unwrap_or(Err(RuntimeError::Timeout(timeout)))
    }
}

impl Exec {
    /// Returns a receiver of the command's output, followed by its exit code.
    pub(super) fn pump(&mut self) -> mpsc::Receiver<SessionOutput> {
        let (sender, receiver) = mpsc::channel(8);
        let over = watch::Sender::new(false);
        let pumps: Vec<_> = std::mem::take(&mut self.outputs)
            .into_iter()
            .map(|(wire, is_stdout)| {
                let (sender, mut over) = (sender.clone(), over.subscribe());
                tokio::task::spawn_local(async move {
                    while let Some(bytes) = wire.next(&mut over, Bytes::copy_from_slice).await {
                        let piece = if is_stdout {
                            SessionOutput::Stdout(bytes)
                        } else {
                            SessionOutput::Stderr(bytes)
                        };
                        if sender.send(piece).await.is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        let (_, nothing) = oneshot::channel();
        let ended = std::mem::replace(&mut self.ended, nothing);
        let (container, pid, is_reaped) = (Rc::clone(&self.container), self.pid, Rc::clone(&self.is_reaped));
        tokio::task::spawn_local(async move {
            let code = ended.await.map_or(255, |ended| ended.code);
            is_reaped.set(true);
            container.execs.borrow_mut().retain(|known| *known != pid);
            over.send_replace(true);
            for pump in pumps {
                // A pump only ends early if its reader is closed.
                let _ = pump.await;
            }
            let _ = sender.send(SessionOutput::Exited(code)).await;
        });
        receiver
    }
}
