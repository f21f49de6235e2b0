//! A node's host process: the parent of all its containers (`podium node-host`).
//!
//! It outlives the control plane and knows every exit that happened meanwhile. It is one thread, so that
//! forking is sound, and it decides nothing: it starts, watches and kills what it is told to, and when it
//! dies everything it holds dies with it.
//!
//! Architecture Invariant: nothing here blocks for longer than a system call on a local file takes, and
//! nothing here starts a thread.

mod arguments;
mod cgroup;
mod child;
mod container;
mod environment;
mod image_root;
mod inside;
mod io;
mod isolation;
mod keeper;
mod launch;
mod listeners;
pub(super) mod log_writer;
mod mounts;
mod os;
mod pod;
mod process_tree;
mod program;
mod reaper;
mod resize;
mod server;
mod session;
mod skeleton;
mod socket;
mod view;
mod wire;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::protocol::FromHost;
use super::{ContainerId, PodUid, RuntimeError, Security};
use crate::kubelet::images::Program;
use arguments::{Arguments, parse};
use cgroup::{Cgroups, Group};
use child::{Files, Plan, Stdio, User};
use container::Container;
use isolation::Isolation;
use keeper::Keeper;
use pod::Pod;
use reaper::{Ended, Reaper};
pub(super) use socket::reachable;

/// How often memory limits are looked at.
const SAMPLE_PERIOD: Duration = Duration::from_millis(200);

/// The host of one node.
struct Host {
    dir: PathBuf,
    /// Where private roots and pods' files lie, where there are namespaces.
    memory: Option<PathBuf>,
    isolation: Isolation,
    /// This binary, for programs inside it; also after the file was replaced.
    own_program: OwnedFd,
    /// Readable once this process is dead: how children that were just born notice.
    alive: Option<OwnedFd>,
    /// None where it could not be entered again: in a user namespace.
    own_pid_namespace: Option<OwnedFd>,
    open_files_limit: Rlimit,
    cgroups: Cgroups,
    /// How many processes a pod may have, where the kernel limits it.
    pod_pids_limit: Option<u64>,
    /// A container whose memory must be watched was started.
    watching: Notify,
    /// How all container ids of this host begin: finds what a dead host left.
    id_prefix: String,
    reaper: Reaper,
    pods: RefCell<BTreeMap<PodUid, Rc<Pod>>>,
    listeners: RefCell<Vec<mpsc::UnboundedSender<FromHost>>>,
    ended: watch::Sender<bool>,
}

/// What a process is started with, in a pod.
struct Spawn<'a> {
    argv: &'a [String],
    env: &'a [(String, String)],
    working_dir: &'a Path,
    programs: &'a [(String, Program)],
    pod: &'a Pod,
    files: Files,
    stdio: Stdio,
    user: Option<User>,
    security: &'a Security,
    group: Option<&'a Group>,
    report: OwnedFd,
    place: Place<'a>,
}

/// Where a process is born.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// In a PID namespace whose end is the container's end.
    Own(&'a OwnedFd),
    /// Below a keeper: in a PID namespace that others share, or in the host's own.
    Kept(Option<&'a OwnedFd>),
}

/// A process that was just forked.
struct Born {
    pid: Pid,
    ended: oneshot::Receiver<Ended>,
    keeper: Option<Rc<Keeper>>,
}

impl Host {
    fn pod(&self, uid: &PodUid) -> Option<Rc<Pod>> {
        self.pods.borrow().get(uid).cloned()
    }

    fn container(&self, id: &ContainerId) -> Result<Rc<Container>, RuntimeError> {
        let pods = self.pods.borrow();
        let find = |pod: &Rc<Pod>| pod.containers.borrow().iter().find(|known| known.id == *id).cloned();
        pods.values().find_map(find).ok_or_else(|| RuntimeError::NotFound(format!("container {}", id.0)))
    }

    fn pod_changed(&self, uid: &PodUid) {
        let tell = |listener: &mpsc::UnboundedSender<FromHost>| {
            listener.send(FromHost::PodChanged(uid.clone())).is_ok()
        };
        self.listeners.borrow_mut().retain(tell);
    }

    fn new_id(&self) -> ContainerId {
        let rest: [u128; 2] = rand::random();
        ContainerId(format!("{}{:032x}{:016x}", self.id_prefix, rest[0], rest[1] as u64))
    }

    /// Forks a process of a pod.
    fn spawn(self: &Rc<Self>, spawn: Spawn<'_>) -> std::io::Result<Born> {
        let doors = spawn.group.map(Group::doors).unwrap_or_default();
        let plan = Plan {
            argv: spawn.argv,
            env: spawn.env,
            working_dir: spawn.working_dir,
            programs: spawn.programs,
            own_program: &self.own_program,
            join: &spawn.pod.namespaces,
            files: spawn.files,
            stdio: spawn.stdio,
            user: spawn.user,
            security: spawn.security,
            doors: &doors,
            open_files_limit: self.open_files_limit,
            host: self.alive.as_ref(),
            report: spawn.report,
        };
        match spawn.place {
            Place::Own(namespace) => match self.fork_into(Some(namespace))? {
                os::Forked::Child => child::run(&plan),
                os::Forked::Parent(pid) => Ok(Born { pid, ended: self.reaper.expect(pid), keeper: None }),
            },
            Place::Kept(namespace) => {
                let (pid, ended, keeper) = self.fork_kept(&plan, namespace)?;
                Ok(Born { pid, ended, keeper: Some(keeper) })
            }
        }
    }

    async fn sample(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(SAMPLE_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let pods: Vec<Rc<Pod>> = self.pods.borrow().values().cloned().collect();
            let containers = pods.iter().flat_map(|pod| pod.containers.borrow().clone());
            if containers.filter(|container| container.watch_memory()).count() == 0 {
                self.watching.notified().await;
            }
            ticks.tick().await;
        }
    }
}

/// Runs a node's host: `podium node-host --state DIR --socket PATH [--lifeline] [--no-namespaces]
/// [--no-cgroups] [--pod-pids-limit NUMBER]`.
///
/// Prints one line on standard output: `ready`, or why not. Must be called while the process has one thread.
pub fn node_host_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parse(arguments).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            // Whoever started us may be gone; then nobody wants to know.
            let _ = writeln!(std::io::stdout(), "{reason}");
            eprintln!("node host: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let at = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&arguments.state).map_err(at("state directory"))?;
    let dir = fs::canonicalize(&arguments.state).map_err(at("state directory"))?;
    let lock =
        fs::File::options().create(true).append(true).open(dir.join("host.lock")).map_err(at("lock"))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| format!("another host runs on {}", dir.display()))?;

    // Signals of the terminal that the control plane runs in are not for us.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    let open_files_limit = rustix::process::getrlimit(Resource::Nofile);
    let all = Rlimit { current: open_files_limit.maximum, maximum: open_files_limit.maximum };
    // A lower limit only means fewer containers.
    let _ = rustix::process::setrlimit(Resource::Nofile, all);

    let digest = Sha256::digest(dir.as_os_str().as_encoded_bytes());
    let mut id_prefix = format!("{digest:x}");
    id_prefix.truncate(16);
    process_tree::bury_marked(&id_prefix);
    // Before a user namespace may be entered, whose root could write none of it.
    let cgroups = if arguments.no_cgroups { Cgroups::default() } else { Cgroups::find(&id_prefix) };

    let own = rustix::process::getpid();
    let alive = rustix::process::pidfd_open(own, PidfdFlags::empty()).ok();
    let isolation = Isolation::choose(arguments.no_namespaces, &cgroups);
    let own_pid_namespace = if isolation.namespaces && rustix::process::geteuid().is_root() {
        Some(child::open_namespace(own, "pid").map_err(at("namespace"))?)
    } else {
        None
    };
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let own_program = rustix::fs::open("/proc/self/exe", flags, rustix::fs::Mode::empty())
        .map_err(|error| format!("own program: {error}"))?;
    let memory = isolation.namespaces.then(|| dir.join("memory"));
    if let Some(memory) = &memory {
        isolation::private_memory(memory).map_err(at("memory"))?;
    }
    let mut pods = BTreeMap::new();
    for entry in fs::read_dir(dir.join("pods")).into_iter().flatten().flatten() {
        match Pod::load(entry.path(), memory.as_deref()) {
            Ok(pod) => {
                pods.insert(pod.spec.pod_uid.clone(), Rc::new(pod));
            }
            Err(error) => {
                eprintln!("{}: {error}: removed", entry.path().display());
                let _ = pod::remove_directory(&entry.path());
            }
        }
    }
    let host = Rc::new(Host {
        dir,
        memory,
        isolation,
        own_program,
        alive,
        own_pid_namespace,
        open_files_limit,
        cgroups,
        pod_pids_limit: arguments.pod_pids_limit,
        watching: Notify::new(),
        id_prefix,
        reaper: Reaper::default(),
        pods: RefCell::new(pods),
        listeners: RefCell::default(),
        ended: watch::Sender::new(false),
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(at("event loop"))?;
    let local = tokio::task::LocalSet::new();
    let outcome = local.block_on(&runtime, host.live(&arguments.socket, arguments.lifeline));
    outcome.map_err(at("host"))?;
    drop(lock);
    Ok(())
}

impl Host {
    async fn live(self: Rc<Self>, socket: &Path, lifeline: bool) -> std::io::Result<()> {
        tokio::task::spawn_local(self.reaper.clone().run(reaper::child_signals()?));
        // Only taking them: the terminal's and the user's Ctrl-C are not for us.
        let _hangup = signal(SignalKind::hangup())?;
        let _interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;

        let socket = reachable(socket)?;
        match fs::remove_file(&socket.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket.path)?;
        fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
        tokio::task::spawn_local(Rc::clone(&self).serve(listener));
        tokio::task::spawn_local(Rc::clone(&self).sample());
        // The starter reads this and goes on.
        let _ = writeln!(std::io::stdout(), "ready");

        let mut ended = self.ended.subscribe();
        tokio::select! {
            _ = terminate.recv() => self.stop_all().await,
            () = cut(lifeline) => self.stop_all().await,
            _ = ended.wait_for(|ended| *ended) => {
                // The answer to the shutdown is on its way.
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        self.cgroups.remove();
        let _ = fs::remove_file(&socket.path);
        Ok(())
    }
}

/// The wall clock. The host is a process of its own, beside the control plane and its clock.
#[expect(clippy::disallowed_methods, reason = "real processes live in real time")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Resolves when the control plane is gone: the pipe on standard input closes with it.
async fn cut(lifeline: bool) {
    if lifeline {
        let stdin = rustix::io::dup(rustix::stdio::stdin());
        let receiver =
            stdin.map_err(std::io::Error::from).and_then(tokio::net::unix::pipe::Receiver::from_owned_fd);
        match receiver {
            Ok(mut receiver) => {
                let mut byte = [0];
                while matches!(receiver.read(&mut byte).await, Ok(1)) {}
            }
            Err(error) => eprintln!("lifeline: {error}: standard input must be a pipe"),
        }
    } else {
        std::future::pending::<()>().await;
    }
}
