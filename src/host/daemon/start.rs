//! A host's start and end: the remains it finds, its preparations, and its shutdown.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{PidfdFlags, Resource, Rlimit};
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};

use super::arguments::{Arguments, parse};
use super::cgroup::Cgroups;
use super::isolation::{self, Isolation};
use super::mount_table::MountTable;
use super::network::Network;
use super::pod::Pod;
use super::reaper::{self, Reaper};
use super::rootfs::{MaskedDirectory, overlays_work};
use super::{Host, os, signals, write_journal};
use crate::PodUid;
use crate::descendants::{Descendants, id_prefix};
use crate::journal::{self, Journal};
use base::removal::{remove_tree, unless_missing};
use base::socket_path::reachable;
use programs::pause::NamespacePrograms;

/// Timeout for the exit of a dead host's processes. A host that starts beside them would run them twice.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a node's host: `podium node-host --state DIR --socket PATH [--lifeline] [--no-namespaces]
/// [--no-cgroups] [--pod-pids-limit NUMBER] [--hidden DIR] [--unclaimed SECONDS]
/// [--fabric SOCKET --link NAME --address IP... --mtu BYTES]`.
///
/// Prints one line on standard output: `ready`, or the reason why it cannot start. Must be called while the process
/// has one thread.
pub fn node_host_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parse(arguments).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            // The process that started us may have exited; then the message is lost.
            let _ = writeln!(io::stdout(), "{reason}");
            eprintln!("node host: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let at = |context: &'static str| move |error: io::Error| format!("{context}: {error}");
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&arguments.state).map_err(at("state directory"))?;
    let dir = fs::canonicalize(&arguments.state).map_err(at("state directory"))?;
    let lock =
        fs::File::options().create(true).append(true).open(dir.join("host.lock")).map_err(at("lock"))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| format!("another node host uses {}", dir.display()))?;

    signals::restore_default_actions();
    // Signals of the terminal that the control plane runs in are not for us.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    let open_files_limit = rustix::process::getrlimit(Resource::Nofile);
    let all = Rlimit { current: open_files_limit.maximum, maximum: open_files_limit.maximum };
    // A lower limit only means fewer containers.
    let _ = rustix::process::setrlimit(Resource::Nofile, all);

    let id_prefix = id_prefix(&dir);
    // The remains of a host that was killed together with its subreapers.
    Descendants::of(&dir, None).kill_all(EXIT_TIMEOUT).map_err(at("kill the previous host's containers"))?;
    // Before a user namespace is entered, whose root could not write them.
    let cgroups = if arguments.no_cgroups { Cgroups::default() } else { Cgroups::find(&id_prefix) };

    let own = rustix::process::getpid();
    let alive = rustix::process::pidfd_open(own, PidfdFlags::empty()).ok();
    let network = arguments.fabric.as_ref().map(Network::join).transpose().map_err(|e| e.to_string())?;
    let no_namespaces = arguments.no_namespaces || !NamespacePrograms::SUPPORTED;
    let mut isolation = Isolation::choose(no_namespaces, network.is_some(), &cgroups);
    let name = if network.is_some() { "fabric" } else { "loopback" };
    isolation.facts.insert("podium.dev/network".to_owned(), name.to_owned());
    let own_pid_namespace = if isolation.namespaces && isolation.can_return {
        Some(os::open_namespace(own, "pid").map_err(at("namespace"))?)
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
    if let Some(memory) = &memory {
        isolation.try_pod_users(&[&dir, memory]);
    }
    let hidden = match (&memory, &arguments.hidden) {
        (Some(memory), Some(hidden)) => {
            Some(MaskedDirectory::new(hidden, memory).map_err(at("hidden directory"))?)
        }
        _ => None,
    };
    let programs = isolation.namespaces.then(|| NamespacePrograms::create(memory.as_deref().unwrap_or(&dir)));
    let programs = programs.transpose().map_err(at("programs of PID namespaces"))?;
    let (pods, journal) = take_over(&dir, memory.as_deref()).map_err(at("journal"))?;
    let host = Rc::new(Host {
        dir,
        overlays: memory.as_deref().is_some_and(overlays_work),
        mount_table: RefCell::new(MountTable::new(memory.clone().unwrap_or_default())),
        system_files: RefCell::default(),
        system_copies: Cell::default(),
        memory,
        hidden,
        isolation,
        network,
        own_program,
        programs,
        alive,
        own_pid_namespace,
        open_files_limit,
        cgroups,
        pod_pids_limit: arguments.pod_pids_limit,
        faults: super::faults::Faults::default(),
        watching: Notify::new(),
        id_prefix,
        reaper: Reaper::default(),
        journal: RefCell::new(journal),
        pods: RefCell::new(pods),
        outboxes: RefCell::default(),
        ended: watch::Sender::new(false),
        claims: watch::Sender::new(0),
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(at("event loop"))?;
    let local = tokio::task::LocalSet::new();
    let outcome = local.block_on(&runtime, host.live(arguments));
    outcome.map_err(at("host"))?;
    drop(lock);
    Ok(())
}

/// Reads the journals of earlier hosts into dead pods and a new journal; removes directories of unknown containers.
fn take_over(dir: &Path, memory: Option<&Path>) -> io::Result<(BTreeMap<PodUid, Rc<Pod>>, Journal)> {
    let mut pods = BTreeMap::new();
    for (uid, journaled) in journal::read(dir) {
        let private = memory.map_or_else(|| journal::pod_dir(dir, &uid), |memory| memory.join(&uid));
        pods.insert(uid, Rc::new(Pod::dead(journaled, private, dir)));
    }
    let all: Vec<Rc<Pod>> = pods.values().cloned().collect();
    let journal = write_journal(dir, &all)?;
    let mut known = BTreeSet::new();
    for (uid, pod) in &pods {
        let ids: Vec<_> = pod.containers.borrow().iter().map(|container| container.id.clone()).collect();
        journal::migrate(dir, uid, &ids);
        known.extend(ids.into_iter().map(|id| OsString::from(id.0)));
    }
    for place in journal::CONTAINER_DIRS.map(|place| dir.join(place)) {
        fs::create_dir_all(&place)?;
        for entry in fs::read_dir(&place)?.flatten().filter(|entry| !known.contains(&entry.file_name())) {
            if let Err(error) = remove_tree(&entry.path()) {
                eprintln!("cannot remove {}: {error}", entry.path().display());
            }
        }
    }
    Ok((pods, journal))
}

impl Host {
    async fn live(self: Rc<Self>, arguments: &Arguments) -> io::Result<()> {
        tokio::task::spawn_local(self.reaper.clone().run(reaper::child_signals()?));
        // Only taking them: the terminal's and the user's Ctrl-C are not for us.
        let _hangup = signal(SignalKind::hangup())?;
        let _interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;

        let socket = reachable(&arguments.socket)?;
        unless_missing(fs::remove_file(&socket.path))?;
        let listener = UnixListener::bind(&socket.path)?;
        fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
        tokio::task::spawn_local(Rc::clone(&self).serve(listener));
        tokio::task::spawn_local(Rc::clone(&self).sample());
        // The starter reads this and continues.
        let _ = writeln!(io::stdout(), "ready");

        let mut ended = self.ended.subscribe();
        tokio::select! {
            _ = terminate.recv() => self.stop_all().await,
            () = control_plane_exited(arguments.lifeline) => self.stop_all().await,
            why = self.orphaned(arguments.unclaimed) => {
                eprintln!("node host: {why}; stopping the node host and its pods");
                self.stop_all().await;
            }
            _ = ended.wait_for(|ended| *ended) => {}
        }
        self.cgroups.remove();
        let _ = fs::remove_file(&socket.path);
        Ok(())
    }
}

/// Resolves when the control plane exits: the pipe on standard input closes with it.
async fn control_plane_exited(lifeline: bool) {
    if lifeline {
        let stdin = rustix::io::dup(rustix::stdio::stdin());
        let receiver =
            stdin.map_err(io::Error::from).and_then(tokio::net::unix::pipe::Receiver::from_owned_fd);
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
