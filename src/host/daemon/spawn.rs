//! Forks a process of a pod, in its namespaces.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use rustix::process::Pid;
use tokio::sync::oneshot;

use super::cgroup::Group;
use super::child::{self, Files, Plan, Stdio};
use super::pod::Pod;
use super::reaper::ProcessExit;
use super::seccomp::Filter;
use super::subreaper::Subreaper;
use super::user::User;
use super::{Host, os};
use crate::Program;
use crate::Security;

/// The parameters of a process in a pod.
pub(super) struct SpawnRequest<'a> {
    pub(super) argv: &'a [String],
    pub(super) env: &'a [(String, String)],
    pub(super) working_dir: &'a Path,
    pub(super) programs: &'a [(String, Program)],
    pub(super) pod: &'a Pod,
    pub(super) files: Files,
    pub(super) stdio: Stdio,
    pub(super) user: Option<User>,
    pub(super) security: &'a Security,
    pub(super) filter: Option<&'a Filter>,
    pub(super) oom_score_adj: Option<i32>,
    pub(super) group: Option<&'a Group>,
    pub(super) report: OwnedFd,
    pub(super) parent: Parent<'a>,
}

/// The parent of a new process.
#[derive(Clone, Copy)]
pub(super) enum Parent<'a> {
    /// In a PID namespace of its own, whose end is the container's end.
    Own(&'a OwnedFd),
    /// As pid 1 of a new PID namespace inside this one, whose end is the container's end.
    First(&'a OwnedFd),
    /// Below a subreaper: in a shared PID namespace, or in the host's own.
    BelowSubreaper(Option<&'a OwnedFd>),
}

/// A process that was just forked.
pub(super) struct SpawnedProcess {
    pub(super) pid: Pid,
    pub(super) ended: oneshot::Receiver<ProcessExit>,
    pub(super) keeper: Option<Rc<Subreaper>>,
}

impl Host {
    /// Forks a process of a pod.
    pub(super) fn spawn(self: &Rc<Self>, spawn: SpawnRequest<'_>) -> std::io::Result<SpawnedProcess> {
        let doors = spawn.group.map(Group::procs_files).unwrap_or_default();
        let namespaces = spawn.pod.namespaces.borrow();
        let plan = Plan {
            argv: spawn.argv,
            env: spawn.env,
            working_dir: spawn.working_dir,
            programs: spawn.programs,
            own_program: &self.own_program,
            join: &namespaces,
            users: spawn.pod.users.borrow().clone(),
            files: spawn.files,
            stdio: spawn.stdio,
            user: spawn.user,
            security: spawn.security,
            filter: spawn.filter,
            oom_score_adj: spawn.oom_score_adj,
            own_network: self.network.is_some(),
            cgroup_procs_files: &doors,
            open_files_limit: self.open_files_limit,
            host: self.alive.as_ref(),
            report: spawn.report,
        };
        let forked = match spawn.parent {
            Parent::Own(namespace) => self.fork_into(Some(namespace))?,
            Parent::First(outer) => self.fork_first_inside(outer)?,
            Parent::BelowSubreaper(namespace) => {
                let (pid, ended, keeper) = self.fork_under_subreaper(&plan, namespace)?;
                return Ok(SpawnedProcess { pid, ended, keeper: Some(keeper) });
            }
        };
        match forked {
            os::ForkResult::Child => child::run(&plan),
            os::ForkResult::Parent(pid) => {
                Ok(SpawnedProcess { pid, ended: self.reaper.expect(pid), keeper: None })
            }
        }
    }
}
