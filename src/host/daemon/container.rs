//! One container attempt: watches it, kills it, and records its end.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::{oneshot, watch};

use super::cgroup::Group;
use super::init::Init;
use super::io::Streams;
use super::reaper::ProcessExit;
use super::subreaper::Subreaper;
use super::system_files::SystemFiles;
use super::{Host, os};
use crate::journal::{Entry, JournaledContainer, container_dir, tmp_dir};
use crate::protocol::Launch;
use crate::{ContainerExit, ContainerId, ContainerRecord, PodUid};
use base::removal::remove_tree;

/// A container counts as just started for this long.
const JUST_NOW: Duration = Duration::from_secs(10);

/// One attempt at running a container.
pub(super) struct Container {
    pub(super) id: ContainerId,
    pub(super) pod: PodUid,
    /// Its directory on disk, with its log; created on the first write.
    pub(super) dir: PathBuf,
    /// Its /tmp on disk, used if containers have namespaces.
    pub(super) tmp: PathBuf,
    /// The directory of its private root and its termination message: in memory if there are namespaces.
    pub(super) private: PathBuf,
    pub(super) launch: Launch,
    /// The lower layer of its root, if its image is built in.
    pub(super) system_files: Option<Rc<SystemFiles>>,
    pub(super) record: RefCell<ContainerRecord>,
    /// Its program has not been executed yet.
    pub(super) starting: Cell<bool>,
    pub(super) env: Vec<(String, String)>,
    pub(super) account: Option<super::user::User>,
    pub(super) main: Cell<Option<Pid>>,
    /// The parent of its processes; none once all have exited.
    pub(super) holder: RefCell<Option<ContainerInit>>,
    /// The PID namespace of its processes; none once all have exited.
    pub(super) pid_namespace: RefCell<Option<Rc<OwnedFd>>>,
    /// Leaders of commands that run in it.
    pub(super) execs: RefCell<Vec<Pid>>,
    /// The subreapers of commands that ran in it, as long as processes are left below them.
    pub(super) exec_subreapers: RefCell<Vec<Rc<Subreaper>>>,
    pub(super) streams: Streams,
    /// Its control group, if the kernel limits a resource of it.
    pub(super) group: OnceCell<Group>,
    /// The memory limit of all its processes together.
    pub(super) memory_limit: Cell<Option<u64>>,
    pub(super) out_of_memory: Cell<bool>,
    pub(super) exited: watch::Sender<bool>,
}

/// The process that ends every process of a container by its own end.
#[derive(Clone)]
pub(super) enum ContainerInit {
    /// Pid 1 of the container's own PID namespace.
    Init(Pid),
    /// A subreaper, in a shared PID namespace or without any.
    Keeper(Rc<Subreaper>),
}

impl ContainerInit {
    fn pid(&self) -> Pid {
        match self {
            Self::Init(pid) => *pid,
            Self::Keeper(keeper) => keeper.pid,
        }
    }

    fn kill(&self) {
        match self {
            Self::Init(pid) => os::signal(*pid, libc::SIGKILL),
            Self::Keeper(keeper) => keeper.kill(),
        }
    }
}

impl Container {
    /// Creates the record of an earlier host's container; if it was running, it died with that host.
    pub(super) fn dead(
        pod: &PodUid,
        journaled: JournaledContainer,
        pod_private: &Path,
        host_dir: &Path,
    ) -> Self {
        let JournaledContainer { mut record, launch } = journaled;
        let id = record.id.clone();
        let private = pod_private.join(&id.0);
        if record.exit.is_none() {
            record.pid = None;
            record.exit = Some(ContainerExit {
                exit_code: 137,
                signal: Some(libc::SIGKILL),
                oom_killed: false,
                finished_at: super::now(),
                message: message(&private),
            });
        }
        Self {
            pod: pod.clone(),
            dir: container_dir(host_dir, &id),
            tmp: tmp_dir(host_dir, &id),
            private,
            launch,
            system_files: None,
            record: RefCell::new(record),
            id,
            starting: Cell::new(false),
            env: Vec::new(),
            account: None,
            main: Cell::new(None),
            holder: RefCell::new(None),
            pid_namespace: RefCell::default(),
            execs: RefCell::default(),
            exec_subreapers: RefCell::default(),
            streams: Streams::closed(),
            group: OnceCell::new(),
            memory_limit: Cell::new(None),
            out_of_memory: Cell::new(false),
            exited: watch::Sender::new(true),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.main.get().is_some()
    }

    /// Returns true while a client that wants the output from the start may still be connecting.
    pub(super) fn has_just_started(&self) -> bool {
        let since = super::now().duration_since(self.record.borrow().started_at);
        since < jiff::SignedDuration::try_from(JUST_NOW).unwrap_or(jiff::SignedDuration::MAX)
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Sends the stop signal to the main process.
    pub(super) fn terminate(&self) {
        if let Some(main) = self.main.get() {
            os::signal(main, self.launch.stop_signal);
        }
    }

    /// Kills every process; the watching task does the rest.
    pub(super) fn kill(&self) {
        if let Some(group) = self.group.get() {
            group.kill();
        }
        if let Some(holder) = &*self.holder.borrow() {
            holder.kill();
        }
        for keeper in self.exec_subreapers.borrow().iter() {
            keeper.kill();
        }
    }

    /// Holds a command's subreaper for as long as processes are left below it.
    pub(super) fn hold(&self, keeper: Option<Rc<Subreaper>>) {
        let mut keepers = self.exec_subreapers.borrow_mut();
        keepers.retain(|keeper| !keeper.has_exited());
        keepers.extend(keeper);
    }

    /// The processes from which all others of the container descend.
    pub(super) fn roots(&self) -> Vec<i32> {
        let (holder, execs, keepers) =
            (self.holder.borrow(), self.execs.borrow(), self.exec_subreapers.borrow());
        let pids = holder.iter().map(ContainerInit::pid).chain(self.main.get()).chain(execs.iter().copied());
        let pids = pids.chain(keepers.iter().filter(|keeper| !keeper.has_exited()).map(|keeper| keeper.pid));
        pids.map(|pid| pid.as_raw_nonzero().get()).collect()
    }

    /// Kills the container for exceeding its memory limit.
    pub(super) fn kill_for_memory(&self) {
        self.out_of_memory.set(true);
        self.kill();
    }

    /// Resolves once every process is dead and the exit is recorded.
    pub(super) async fn wait_exited(&self) {
        // The sender lives as long as the container.
        let _ = self.exited.subscribe().wait_for(|gone| *gone).await;
    }

    pub(super) fn remove_files(&self) -> io::Result<()> {
        remove_tree(&self.private)?;
        remove_tree(&self.tmp)?;
        remove_tree(&self.dir)
    }

    /// Returns the container's complete journal entry.
    pub(super) fn entry(&self) -> Entry<'_> {
        let record = Cow::Owned(self.record.borrow().clone());
        let launch = Cow::Owned(self.launch.without_values());
        Entry::Container { pod: Cow::Borrowed(&self.pod), record, launch }
    }

    /// Waits for the end of the main process, kills the other processes, and records the exit once all have exited.
    pub(super) async fn wait_for_exit(
        self: Rc<Self>,
        host: Rc<Host>,
        ended: oneshot::Receiver<ProcessExit>,
        init: Option<Init>,
    ) {
        let ended = ended.await.unwrap_or(ProcessExit { code: 255, signal: None });
        let finished_at = super::now();
        self.main.set(None);
        self.kill();
        if let Some(init) = init {
            // The kernel reports the end of pid 1 only after every process in the namespace has exited.
            let _ = init.end.await;
        }
        let holder = self.holder.take();
        if let Some(ContainerInit::Keeper(keeper)) = holder {
            keeper.wait_exited().await;
        }
        loop {
            // Commands may have been started until a moment ago, so the list is read again after each wait.
            let Some(keeper) = self.exec_subreapers.borrow_mut().pop() else { break };
            keeper.kill();
            keeper.wait_exited().await;
        }
        if let Some(group) = self.group.get() {
            // The group kills a subreaper with the others, which then become children of the namespace's pid 1.
            group.kill_all().await;
        }
        self.pid_namespace.take();
        self.streams.finish().await;
        let killed = ended.signal == Some(libc::SIGKILL);
        let by_kernel = killed && self.group.get().is_some_and(Group::out_of_memory);
        let oom_killed = self.out_of_memory.get() || by_kernel;
        if let Some(group) = self.group.get() {
            group.remove();
        }
        {
            let mut record = self.record.borrow_mut();
            record.pid = None;
            record.exit = Some(ContainerExit {
                exit_code: if oom_killed { 137 } else { ended.code },
                signal: if oom_killed { Some(libc::SIGKILL) } else { ended.signal },
                oom_killed,
                finished_at,
                message: message(&self.private),
            });
        }
        if !self.starting.get() {
            let exit = self.record.borrow().exit.clone();
            if let Some(exit) = exit {
                host.append_journal(&Entry::Exit { id: Cow::Borrowed(&self.id), exit: Cow::Owned(exit) });
            }
        }
        self.exited.send_replace(true);
        self.streams.hang_up();
        if !self.starting.get() {
            host.pod_changed(&self.pod);
        }
    }
}

/// The file of a container's termination message, below its private directory.
pub(super) const TERMINATION_LOG: &str = "termination-log";

/// The maximum size of a termination message.
const MESSAGE_BYTES: usize = 4096;

/// Reads the container's termination message file. Without mount namespaces a program can replace it: a link could lead
/// to any file of the machine, and a pipe would block this process.
fn message(private: &Path) -> Option<String> {
    let plain = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::File::options().read(true).custom_flags(plain).open(private.join(TERMINATION_LOG)).ok()?;
    let about = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut bytes = vec![0; MESSAGE_BYTES];
    // The end of a long file, as in Kubernetes.
    let length = file.read_at(&mut bytes, about.len().saturating_sub(MESSAGE_BYTES as u64)).ok()?;
    bytes.truncate(length);
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_termination_message_is_the_end_of_its_file_pod_9() {
        let directory = tempfile::tempdir().unwrap();
        let text = "a".repeat(10) + &"b".repeat(MESSAGE_BYTES);
        fs::write(directory.path().join(TERMINATION_LOG), &text).unwrap();
        assert_eq!(message(directory.path()).as_deref(), Some(&text[10..]));
    }

    #[test]
    fn only_a_file_is_a_termination_message_pod_9() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(TERMINATION_LOG);
        let replace = |make: &dyn Fn()| {
            let _ = fs::remove_file(&path);
            make();
            message(directory.path())
        };
        assert_eq!(replace(&|| fs::write(&path, "done").unwrap()).as_deref(), Some("done"));
        assert_eq!(replace(&|| ()), None);
        let secret = directory.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        assert_eq!(replace(&|| std::os::unix::fs::symlink(&secret, &path).unwrap()), None);
        let pipe = || rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(replace(&pipe), None);
    }
}
