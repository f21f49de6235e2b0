//! Creates processes in PID namespaces in which programs of containers run already.
//!
//! A program with the capability SYS_PTRACE controls all processes of its PID namespace, and reaches through /proc
//! everything that they have: their root, their descriptors, their rights. So no process of ours may be there with more
//! than a container has, not even for a moment. A helper outside of the namespace takes on everything that the new process
//! shall have: its view of files, its user, its capabilities, its descriptors. Only then it creates the process, which
//! executes its program at once.
//!
//! The helper may take long, for instance to find a working directory on a network file system or because its container
//! has used up its processor time, and the one thread of the host must not wait for it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

use rustix::process::{DumpableBehavior, Pid};
use rustix::thread::{CapabilitySet, LinkNameSpaceType};
use tokio::sync::watch;

use super::child::{self, Plan, PreparedProgram, Preparer};
use super::error::os_error;
use super::gate::Gate;
use super::pipe_end::{self, PipeEnd};
use super::program::os_text;
use super::reaper::UnreportedChild;
use super::subreaper::{NewSubreaper, PidNamespace, SpawnedProcess};
use super::{Host, capabilities, os};
use crate::RuntimeError;

/// The first byte of a report of the new process's number; any other report is the reason of a failure.
const CREATED: u8 = 0;
/// The longest reason, which the kernel writes into a pipe as a whole.
const REASON_BYTES: usize = 4096;

/// The process whose end is the end of all processes of a container or command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Containment {
    /// Pid 1 of the PID namespace.
    Init,
    /// A subreaper for this process alone.
    Subreaper,
}

/// The host's side of a helper.
pub(super) struct Helper {
    answers: PipeEnd,
    child: UnreportedChild,
    subreaper: Option<SubreaperPipes>,
}

/// The helper's ends of its pipes.
struct HelperPipes {
    answers: OwnedFd,
    subreaper: Option<SubreaperPipes>,
}

/// One side's ends of the pipes between the host and a subreaper.
struct SubreaperPipes {
    /// The subreaper's reports.
    line: OwnedFd,
    /// The host's order to go on.
    orders: OwnedFd,
}

impl Host {
    /// Forks a helper for a process in this PID namespace.
    pub(super) fn fork_helper(
        &self,
        plan: &Plan<'_>,
        namespace: &OwnedFd,
        containment: Containment,
    ) -> io::Result<Helper> {
        let programs = self.programs.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let (answers, its_answers) = pipe_end::pipe()?;
        let (subreaper, its_subreaper) = match containment {
            Containment::Init => (None, None),
            Containment::Subreaper => {
                let ((line, its_line), (its_orders, orders)) = (pipe_end::pipe()?, pipe_end::pipe()?);
                let its = SubreaperPipes { line: its_line, orders: its_orders };
                (Some(SubreaperPipes { line, orders }), Some(its))
            }
        };
        let child = self.reaper.announce();
        match os::fork()? {
            os::ForkResult::Child => {
                drop((answers, subreaper));
                let pipes = HelperPipes { answers: its_answers, subreaper: its_subreaper };
                run_helper(plan, namespace, &programs.subreaper, pipes)
            }
            // Its exit is of no interest, but it is no stray process (`Subreaper`).
            os::ForkResult::Parent(pid) => drop(self.reaper.expect(pid)),
        }
        Ok(Helper { answers: PipeEnd::new(answers)?, child, subreaper })
    }

    /// Waits until a helper has created the process.
    pub(super) async fn created_by(self: &Rc<Self>, helper: Helper) -> Result<SpawnedProcess, RuntimeError> {
        let Helper { answers, child, subreaper } = helper;
        let failed = |reason: &str| RuntimeError::Os(format!("fork: the helper process {reason}"));
        let (_open, mut over) = watch::channel(false);
        let report = answers.next(&mut over, <[u8]>::to_vec).await.ok_or_else(|| failed("ended"))?;
        let Some((&CREATED, number)) = report.split_first() else {
            return Err(RuntimeError::StartFailed(String::from_utf8_lossy(&report).into_owned()));
        };
        let pid = number.try_into().ok().and_then(|number| Pid::from_raw(i32::from_ne_bytes(number)));
        let pid = pid.ok_or_else(|| failed("reported no process"))?;
        // A program of a container that controlled the new process could report another number.
        let end = child.expect(pid).ok_or_else(|| failed("reported another process"))?;
        let Some(SubreaperPipes { line, orders }) = subreaper else {
            return Ok(SpawnedProcess { pid, ended: end, keeper: None });
        };
        let subreaper = NewSubreaper { pid, end, line, namespace: PidNamespace::OfPod };
        let process = self.follow_subreaper(subreaper).await;
        // A subreaper that is gone needs no order.
        let _ = rustix::io::write(&orders, &[0]);
        process.map_err(os_error("fork"))
    }
}

fn run_helper(plan: &Plan<'_>, namespace: &OwnedFd, subreaper: &OwnedFd, pipes: HelperPipes) -> ! {
    let program = match prepare(plan, namespace, subreaper, &pipes) {
        Ok(program) => program,
        Err(reason) => {
            let length = reason.len().min(REASON_BYTES);
            let _ = rustix::io::write(&pipes.answers, &reason.as_bytes()[..length]);
            os::exit_now(128)
        }
    };
    match os::fork_sibling() {
        Ok(os::ForkResult::Child) => {
            let HelperPipes { answers, subreaper: pipes } = pipes;
            drop(answers);
            match pipes {
                None => child::run_prepared(plan, &program, None),
                Some(pipes) => become_subreaper(plan, &program, subreaper, pipes),
            }
        }
        Ok(os::ForkResult::Parent(pid)) => {
            let mut report = [CREATED; 5];
            report[1..].copy_from_slice(&pid.as_raw_nonzero().get().to_ne_bytes());
            os::exit_now(i32::from(rustix::io::write(&pipes.answers, &report).is_err()))
        }
        Err(_) => os::exit_now(1),
    }
}

/// Makes this process what the new process shall be.
fn prepare(
    plan: &Plan<'_>,
    namespace: &OwnedFd,
    subreaper: &OwnedFd,
    pipes: &HelperPipes,
) -> Result<PreparedProgram, String> {
    let at = |context: &'static str| move |error: io::Error| format!("{context}: {}", os_text(&error));
    // Only children enter the namespace.
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))
        .map_err(|error| at("PID namespace")(error.into()))?;
    let preparer = if pipes.subreaper.is_some() { Preparer::HelperOfSubreaper } else { Preparer::Helper };
    let program = child::prepare(plan, preparer)?;
    let keep = [&plan.report, plan.own_program, subreaper, &pipes.answers].into_iter();
    let keep = keep.chain(pipes.subreaper.iter().flat_map(|pipes| [&pipes.line, &pipes.orders]));
    let keep = keep.map(AsRawFd::as_raw_fd);
    os::close_all_but(&mut keep.chain([0, 1, 2]).collect::<Vec<_>>());
    let of_container = capabilities::of(plan.security).map_err(at("capabilities"))?;
    // A program that may gain rights is filtered by a process that has some.
    let filters = plan.filter.is_some() && !plan.security.no_new_privileges;
    let filter = if filters { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
    let user = match preparer {
        Preparer::HelperOfSubreaper if plan.user.is_some() => CapabilitySet::SETUID | CapabilitySet::SETGID,
        _ => CapabilitySet::empty(),
    };
    capabilities::limit(of_container | filter | user).map_err(at("capabilities"))?;
    // Containers without SYS_PTRACE have no access to the new process before its exec.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| at("dumpable")(error.into()))?;
    Ok(program)
}

/// Becomes a subreaper with the plan's process below it.
fn become_subreaper(
    plan: &Plan<'_>,
    program: &PreparedProgram,
    subreaper: &OwnedFd,
    pipes: SubreaperPipes,
) -> ! {
    let SubreaperPipes { line, orders } = pipes;
    let _ = rustix::process::setsid();
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        os::exit_now(1);
    }
    let Ok(gate) = Gate::new() else { os::exit_now(1) };
    let main = match os::fork() {
        Ok(os::ForkResult::Child) => {
            drop((line, orders));
            child::run_prepared(plan, program, Some(gate))
        }
        Ok(os::ForkResult::Parent(pid)) => pid,
        Err(_) => os::exit_now(1),
    };
    // The process that this one becomes has the line as its only descriptor.
    let arguments = os::ExecArguments::new(vec![c"pause".to_owned(), letters(main)], Vec::new());
    // The host looks for the child now, which may have ended already: only then it may be reaped.
    let ready = rustix::stdio::dup2_stdin(&line).is_ok()
        && rustix::io::write(&line, &main.as_raw_nonzero().get().to_ne_bytes()).is_ok()
        && matches!(rustix::io::read(&orders, &mut [0]), Ok(1))
        && capabilities::drop_all().is_ok();
    if ready {
        gate.open();
        os::close_on_exec_from(1);
        os::exec_descriptor(subreaper.as_fd(), &arguments);
    }
    os::signal(main, libc::SIGKILL);
    os::exit_now(1)
}

/// Writes a number as the subreaper's program reads it: a letter for every four bits.
fn letters(pid: Pid) -> CString {
    let number = pid.as_raw_nonzero().get();
    let bytes = (0..8).rev().map(|place| b'@' | (number >> (4 * place) & 15) as u8);
    CString::new(bytes.collect::<Vec<u8>>()).expect("no byte is zero")
}
