//! For a container without a PID namespace: a small process above it that inherits all its orphans.
//!
//! The process is a subreaper: every process that a container forks, detaches, renames or strips of its environment
//! stays below it. The host kills the processes below; the subreaper does so only if the host has died. It exits when
//! nothing is left. It allocates nothing: its heap goes back to the kernel.
//!
//! In a PID namespace that containers share, the subreaper is a program of its own
//! ([`programs::pause::NamespacePrograms`]), because containers can control it. The end of pid 1 of the namespace ends it.

use crate::process_tree;
use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, WaitOptions};
use tokio::sync::{oneshot, watch};

use super::child::{self, Plan};
use super::gate::Gate;
use super::pipe_end::PipeEnd;
use super::reaper::ProcessExit;
use super::{Host, os, signals};

/// The interval between two rounds of killing, for processes that were created meanwhile.
const KILL_INTERVAL: Duration = Duration::from_millis(2);
/// The interval between two attempts to continue a subreaper that a program of a container may have stopped.
const CONTINUE_INTERVAL: Duration = Duration::from_millis(100);

/// The host's side of a subreaper.
pub(super) struct Subreaper {
    pub(super) pid: Pid,
    /// The subreaper recognizes the host's death by the end of this pipe, which is held as long as the subreaper is
    /// needed.
    _line: Rc<PipeEnd>,
    killing: Cell<bool>,
    exited: watch::Receiver<bool>,
}

impl Subreaper {
    /// Kills all processes below the subreaper, until none is left.
    pub(super) fn kill(self: &Rc<Self>) {
        if self.killing.replace(true) {
            return;
        }
        let keeper = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let pid = keeper.pid.as_raw_nonzero().get();
            while !keeper.has_exited() {
                // Root of the container may have stopped it, and then it reaps nothing.
                os::signal(keeper.pid, libc::SIGCONT);
                for pid in process_tree::below(&[pid]).into_iter().filter_map(Pid::from_raw) {
                    os::signal(pid, libc::SIGKILL);
                }
                let _ = tokio::time::timeout(KILL_INTERVAL, keeper.wait_exited()).await;
            }
        });
    }

    /// Resolves once no process below the subreaper is left.
    pub(super) async fn wait_exited(&self) {
        // The sender is dropped only after it has reported the end.
        let _ = self.exited.clone().wait_for(|gone| *gone).await;
    }

    pub(super) fn has_exited(&self) -> bool {
        *self.exited.borrow()
    }
}

/// A process that was just forked.
pub(super) struct SpawnedProcess {
    pub(super) pid: Pid,
    pub(super) ended: oneshot::Receiver<ProcessExit>,
    pub(super) keeper: Option<Rc<Subreaper>>,
}

/// A subreaper that was just created.
pub(super) struct NewSubreaper {
    pub(super) pid: Pid,
    pub(super) end: oneshot::Receiver<ProcessExit>,
    pub(super) line: OwnedFd,
    pub(super) namespace: PidNamespace,
}

/// The PID namespace of a subreaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PidNamespace {
    /// The host's own.
    Own,
    /// One that containers share.
    OfPod,
}

impl Host {
    /// Forks a subreaper in the host's own PID namespace, which forks the process of the plan.
    pub(super) fn fork_subreaper(&self, plan: &Plan<'_>) -> io::Result<NewSubreaper> {
        let (ours, its) = super::pipe_end::pipe()?;
        let pid = match os::fork()? {
            os::ForkResult::Child => run_subreaper(&its, plan),
            os::ForkResult::Parent(pid) => pid,
        };
        let end = self.reaper.expect(pid);
        Ok(NewSubreaper { pid, end, line: ours, namespace: PidNamespace::Own })
    }

    /// Returns the process below a subreaper, and follows both.
    pub(super) async fn follow_subreaper(
        self: &Rc<Self>,
        subreaper: NewSubreaper,
    ) -> io::Result<SpawnedProcess> {
        let NewSubreaper { pid, end, line, namespace } = subreaper;
        let line = Rc::new(PipeEnd::new(line)?);
        let (sender, gone) = watch::channel(false);
        let keeper =
            Rc::new(Subreaper { pid, _line: Rc::clone(&line), killing: Cell::new(false), exited: gone });
        let host = Rc::clone(self);
        tokio::task::spawn_local(async move {
            // In a pod's namespace, pid 1 inherits them, and a container's control group kills its subreaper, too.
            let is_own = namespace == PidNamespace::Own;
            if end.await.is_ok_and(|end| end.signal.is_some()) && is_own {
                // Something killed the subreaper: its processes are now the host's own orphans.
                host.reap_strays().await;
            }
            sender.send_replace(true);
        });
        let mut reports = Reports { line, received: Vec::new() };
        // The subreaper reports the number of its child at once, unless it has died or was stopped.
        let reported = loop {
            match tokio::time::timeout(CONTINUE_INTERVAL, reports.next()).await {
                Ok(number) => break number,
                Err(_) => os::signal(pid, libc::SIGCONT),
            }
        };
        let main = match namespace {
            // The reported number belongs to the subreaper's namespace.
            PidNamespace::OfPod => {
                reported.and(process_tree::children(pid.as_raw_nonzero().get()).first().copied())
            }
            PidNamespace::Own => reported,
        };
        let Some(main) = main.and_then(Pid::from_raw) else {
            keeper.kill();
            return Err(io::Error::other("the subreaper started no process"));
        };
        let (sender, ended) = oneshot::channel();
        tokio::task::spawn_local(async move {
            // A missing receiver is fine: the host ends.
            let _ = sender.send(reports.main_end().await);
        });
        Ok(SpawnedProcess { pid: main, ended, keeper: Some(keeper) })
    }

    /// Kills processes that became the host's children without being started by it, until there are none.
    async fn reap_strays(&self) {
        loop {
            let children = process_tree::children(std::process::id().cast_signed());
            let children = children.into_iter().filter_map(Pid::from_raw);
            let strays: Vec<Pid> = children.filter(|pid| !self.reaper.expects(*pid)).collect();
            if strays.is_empty() {
                return;
            }
            // One of them may be the process that a helper is about to report.
            if !self.reaper.has_unreported() {
                for pid in strays {
                    os::signal(pid, libc::SIGKILL);
                }
            }
            tokio::time::sleep(KILL_INTERVAL).await;
        }
    }
}

/// The reports of a subreaper: the number of the process below it, and its exit status.
struct Reports {
    line: Rc<PipeEnd>,
    /// The bytes that were read and not returned.
    received: Vec<u8>,
}

impl Reports {
    /// Returns the next report; `None` if the subreaper has ended.
    async fn next(&mut self) -> Option<i32> {
        let (_open, mut over) = watch::channel(false);
        loop {
            if let Some((number, _)) = self.received.split_first_chunk() {
                let number = i32::from_ne_bytes(*number);
                self.received.drain(..size_of::<i32>());
                return Some(number);
            }
            self.received.extend(self.line.next(&mut over, <[u8]>::to_vec).await?);
        }
    }

    /// Returns the main process's exit. A subreaper that cannot report it was killed, and the process with it.
    async fn main_end(mut self) -> ProcessExit {
        let killed = ProcessExit { code: 128 + libc::SIGKILL, signal: Some(libc::SIGKILL) };
        self.next().await.map_or(killed, ProcessExit::of)
    }
}

/// Becomes a subreaper, with the plan's process below it.
fn run_subreaper(line: &OwnedFd, plan: &Plan<'_>) -> ! {
    let _ = rustix::process::setsid();
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        os::exit_now(1);
    }
    let Ok(gate) = Gate::new() else { os::exit_now(1) };
    let main = match os::fork() {
        Ok(os::ForkResult::Child) => {
            gate.pass();
            child::run(plan)
        }
        Ok(os::ForkResult::Parent(pid)) => pid,
        Err(_) => os::exit_now(1),
    };
    let mut host_exited = rustix::io::write(line, &main.as_raw_nonzero().get().to_ne_bytes()).is_err();
    gate.open();
    os::retitle(c"pause");
    let _ = rustix::process::chdir("/");
    if rustix::stdio::dup2_stdin(line).is_err() {
        os::exit_now(1);
    }
    os::close_from(1);
    // Without this file, finding the children allocates memory.
    if process_tree::has_children_files() {
        os::forget_heap();
    }
    let Ok(signals) = signals::of_children() else { os::exit_now(1) };
    let line = rustix::stdio::stdin();
    let mut main_ended = false;
    loop {
        reap(main, &mut main_ended, line);
        if host_exited {
            kill_children();
        }
        let mut wait = [
            PollFd::new(&signals, PollFlags::IN),
            // A pipe without readers reports an error without a subscription.
            PollFd::from_borrowed_fd(line, PollFlags::empty()),
        ];
        let again = Timespec { tv_sec: 0, tv_nsec: KILL_INTERVAL.subsec_nanos().into() };
        // Once the host has died, only the end of children is of interest.
        let (wait, timeout) =
            if host_exited { (&mut wait[..1], Some(&again)) } else { (&mut wait[..], None) };
        if rustix::event::poll(wait, timeout).is_ok() {
            host_exited |= wait.get(1).is_some_and(|line| !line.revents().is_empty());
            let mut signal = [0; 128];
            if !wait[0].revents().is_empty() {
                // Reads the signal only so that the next poll waits again.
                let _ = rustix::io::read(&signals, &mut signal);
            }
        }
    }
}

/// Reaps ended children; ends this process when nothing is left.
fn reap(main: Pid, main_ended: &mut bool, line: BorrowedFd<'_>) {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => {
                *main_ended = true;
                // A dead host needs no report.
                let _ = rustix::io::write(line, &status.as_raw().to_ne_bytes());
            }
            Ok(Some(_)) => {}
            Err(_) if *main_ended => os::exit_now(0),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Kills the direct children of this process, which thereby inherits their children.
fn kill_children() {
    let mut text = [0; 4096];
    let read = rustix::fs::open(
        process_tree::CHILDREN_FILE,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .and_then(|file| rustix::io::read(file, &mut text));
    let kill = |pid: i32| {
        if let Some(pid) = Pid::from_raw(pid) {
            os::signal(pid, libc::SIGKILL);
        }
    };
    match read {
        // A number cut off at the end is left for the next round.
        Ok(count) => {
            let complete = text[..count].iter().rposition(|&byte| byte == b' ').map_or(0, |end| end + 1);
            let numbers = text[..complete].split(|&byte| byte == b' ').filter(|number| !number.is_empty());
            for number in numbers {
                kill(number.iter().fold(0, |sum: i32, digit| sum * 10 + i32::from(digit - b'0')));
            }
        }
        Err(_) => process_tree::children(rustix::process::getpid().as_raw_nonzero().get())
            .into_iter()
            .for_each(kill),
    }
}
