//! User namespaces of pods (`hostUsers: false`): root of the pod is an ordinary user of the machine, with rights over
//! nothing but the pod's own namespaces (POD-18).
//!
//! Only a process inside can create namespaces that the user namespace owns, and this process could not come back from
//! there. So another process does it, which ends once this one has descriptors of them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::os::{self, RetainedRights};
use super::pipe_end;
use crate::IdRange;

/// A pod's user namespace.
#[derive(Clone, Debug)]
pub(super) struct PodUsers {
    pub(super) ids: IdRange,
    pub(super) namespace: Rc<OwnedFd>,
}

impl PodUsers {
    /// Enters the namespace as its root, for good.
    pub(super) fn enter(&self) -> io::Result<()> {
        rustix::thread::move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::User))?;
        become_root()
    }
}

fn become_root() -> io::Result<()> {
    os::become_user(0, 0, &[], RetainedRights { low_ports: false, filter: false })
}

/// A process that is root of a new user namespace, with a step of its work left.
pub(super) struct NamespaceMaker {
    process: Pid,
    namespace: Rc<OwnedFd>,
    ids: IdRange,
    answers: File,
    /// The process ends with this pipe.
    go_on: OwnedFd,
}

impl NamespaceMaker {
    /// Starts the process and returns once it has executed `first`; it executes `second` in [`Self::finish`].
    pub(super) fn start(
        ids: IdRange,
        first: impl FnOnce() -> io::Result<()>,
        second: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Self> {
        let ((answers, answer), (orders, go_on)) = (pipe_end::pipe()?, pipe_end::pipe()?);
        let process = match os::fork()? {
            os::ForkResult::Child => {
                drop((answers, go_on));
                report(&answer, os::unshare(UnshareFlags::NEWUSER));
                wait(&orders);
                report(&answer, become_root().and_then(|()| first()));
                wait(&orders);
                report(&answer, second());
                os::exit_now(0)
            }
            os::ForkResult::Parent(process) => process,
        };
        drop((answer, orders));
        let mut answers = File::from(answers);
        receive(&mut answers).map_err(|error| context("user namespace", &error))?;
        let of_process = format!("/proc/{}", process.as_raw_nonzero());
        let map = format!("0 {} {}", ids.first, IdRange::COUNT);
        for kind in ["uid", "gid"] {
            let name = format!("{kind}_map");
            fs::write(format!("{of_process}/{name}"), &map).map_err(|error| context(&name, &error))?;
        }
        let namespace = Rc::new(open(process, "user")?);
        send(&go_on)?;
        receive(&mut answers)?;
        Ok(Self { process, namespace, ids, answers, go_on })
    }

    /// The new user namespace.
    pub(super) fn users(&self) -> PodUsers {
        PodUsers { ids: self.ids, namespace: Rc::clone(&self.namespace) }
    }

    /// One of the namespaces that the process is in.
    pub(super) fn namespace(&self, kind: &str) -> io::Result<OwnedFd> {
        open(self.process, kind)
    }

    /// Lets the process execute its second step, and end.
    pub(super) fn finish(mut self) -> io::Result<()> {
        send(&self.go_on)?;
        receive(&mut self.answers)
    }
}

/// Reports the end of a step of this process, and ends the process after an error.
fn report(answer: &OwnedFd, done: io::Result<()>) {
    // A text is never empty; success is one byte that is in no text.
    let text = done.err().map(|error| super::program::os_text(&error));
    let sent = rustix::io::write(answer, text.as_ref().map_or(&[0][..], |text| text.as_bytes()));
    if text.is_some() || sent.is_err() {
        os::exit_now(1);
    }
}

/// Waits for the order to execute the next step; ends this process if there will be none.
fn wait(orders: &OwnedFd) {
    if !matches!(rustix::io::read(orders, &mut [0]), Ok(1)) {
        os::exit_now(1);
    }
}

fn send(go_on: &OwnedFd) -> io::Result<()> {
    rustix::io::write(go_on, &[0])?;
    Ok(())
}

/// Waits for the end of a step; returns its error.
fn receive(answers: &mut File) -> io::Result<()> {
    let mut first = [0];
    if answers.read(&mut first)? == 1 && first == [0] {
        return Ok(());
    }
    let mut text = first.to_vec();
    answers.read_to_end(&mut text)?;
    Err(io::Error::other(String::from_utf8_lossy(&text).trim_matches('\0').to_owned()))
}

fn context(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{what}: {}", super::program::os_text(error)))
}

fn open(process: Pid, kind: &str) -> io::Result<OwnedFd> {
    File::open(format!("/proc/{}/ns/{kind}", process.as_raw_nonzero())).map(Into::into)
}
