//! Forks a process of a pod, in its namespaces.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use super::cgroup::Group;
use super::child::{self, Files, Plan, Stdio};
use super::error::os_error;
use super::inhabited::{Containment, Helper};
use super::pod::Pod;
use super::seccomp::Filter;
use super::subreaper::{NewSubreaper, SpawnedProcess};
use super::user::User;
use super::{Host, os};
use crate::{Program, RuntimeError, Security};

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

/// The parent and the PID namespace of a new process.
#[derive(Clone, Copy)]
pub(super) enum Parent<'a> {
    /// In a PID namespace of its own, in which no program is yet, and whose end is the container's end.
    Own(&'a OwnedFd),
    /// As pid 1 of a new PID namespace inside this one, whose end is the container's end.
    First(&'a OwnedFd),
    /// In a PID namespace in which programs of containers run.
    Inhabited(&'a OwnedFd, Containment),
    /// Below a subreaper in the host's own PID namespace.
    BelowSubreaper,
}

/// The result of a fork.
enum ForkOutcome {
    Process(SpawnedProcess),
    Subreaper(NewSubreaper),
    /// A helper that will create the process.
    Helper(Helper),
}

impl Host {
    /// Forks a process of a pod.
    pub(super) async fn spawn(
        self: &Rc<Self>,
        spawn: SpawnRequest<'_>,
    ) -> Result<SpawnedProcess, RuntimeError> {
        match self.fork_for(spawn).map_err(os_error("fork"))? {
            ForkOutcome::Process(process) => Ok(process),
            ForkOutcome::Subreaper(subreaper) => {
                self.follow_subreaper(subreaper).await.map_err(os_error("fork"))
            }
            ForkOutcome::Helper(helper) => self.created_by(helper).await,
        }
    }

    fn fork_for(self: &Rc<Self>, spawn: SpawnRequest<'_>) -> std::io::Result<ForkOutcome> {
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
            Parent::Inhabited(namespace, containment) => {
                return self.fork_helper(&plan, namespace, containment).map(ForkOutcome::Helper);
            }
            Parent::BelowSubreaper => return self.fork_subreaper(&plan).map(ForkOutcome::Subreaper),
        };
        match forked {
            os::ForkResult::Child => child::run(&plan),
            os::ForkResult::Parent(pid) => {
                let ended = self.reaper.expect(pid);
                Ok(ForkOutcome::Process(SpawnedProcess { pid, ended, keeper: None }))
            }
        }
    }
}
