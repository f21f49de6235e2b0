//! One container attempt: started, watched, killed, remembered.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use super::super::protocol::Launch;
use super::super::{ContainerExit, ContainerId, ContainerRecord, PodUid, RuntimeError};
use super::environment;
use super::io::Streams;
use super::mounts::{Show, View};
use super::pod::{Init, Pod, store};
use super::reaper::Ended;
use super::{Host, os, process_tree};
use crate::kubelet::images::IMAGE_DIRECTORY;

/// Environment: names and values, in order.
type Variables = Vec<(String, String)>;

/// One attempt at running a container.
pub(super) struct Container {
    pub(super) id: ContainerId,
    pub(super) pod: PodUid,
    pub(super) dir: PathBuf,
    pub(super) launch: Launch,
    pub(super) record: RefCell<ContainerRecord>,
    /// It has not become its program yet.
    pub(super) starting: Cell<bool>,
    pub(super) env: Vec<(String, String)>,
    pub(super) account: Option<super::child::User>,
    pub(super) main: Cell<Option<Pid>>,
    /// Its own init; none when it lives in its pod's or its target's PID namespace, or without any.
    init: Cell<Option<Pid>>,
    /// The PID namespace its processes live in.
    pub(super) pid_namespace: Option<Rc<OwnedFd>>,
    /// Leaders of commands that run in it.
    pub(super) execs: RefCell<Vec<Pid>>,
    pub(super) streams: Streams,
    out_of_memory: Cell<bool>,
    gone: watch::Sender<bool>,
}

/// A container as it lies on disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    record: ContainerRecord,
    launch: Launch,
}

impl Container {
    /// Reads one that a host before this one ran; if it was running, it died with that host.
    pub(super) fn load(pod: &PodUid, dir: PathBuf) -> io::Result<Self> {
        let mut stored: Stored = serde_json::from_slice(&fs::read(dir.join("record.json"))?)?;
        if stored.record.exit.is_none() {
            stored.record.pid = None;
            stored.record.exit = Some(ContainerExit {
                exit_code: 137,
                signal: Some(libc::SIGKILL),
                oom_killed: false,
                finished_at: super::now(),
                message: message(&dir),
            });
            store(&dir.join("record.json"), &stored)?;
        }
        Ok(Self {
            id: stored.record.id.clone(),
            pod: pod.clone(),
            dir,
            launch: stored.launch,
            record: RefCell::new(stored.record),
            starting: Cell::new(false),
            env: Vec::new(),
            account: None,
            main: Cell::new(None),
            init: Cell::new(None),
            pid_namespace: None,
            execs: RefCell::default(),
            streams: Streams::closed(),
            out_of_memory: Cell::new(false),
            gone: watch::Sender::new(true),
        })
    }

    pub(super) fn is_running(&self) -> bool {
        self.main.get().is_some()
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Asks the main process to end.
    pub(super) fn terminate(&self) {
        if let Some(main) = self.main.get() {
            os::signal(main, self.launch.stop_signal);
        }
    }

    /// Kills every process; the watching task sees to the rest.
    pub(super) fn kill(&self) {
        if let Some(init) = self.init.get() {
            os::signal(init, libc::SIGKILL);
        } else if self.main.get().is_some() {
            self.kill_members();
        }
    }

    /// Kills whatever can be found of the container now; how many that were.
    fn kill_members(&self) -> usize {
        let all = process_tree::all();
        let mut members = process_tree::marked(&all, &self.id.0);
        members.extend(process_tree::tree(&all, &self.roots()));
        let alive = all.iter().filter(|process| !process.zombie && members.contains(&process.pid));
        alive
            .filter_map(|process| Pid::from_raw(process.pid))
            .map(|pid| os::signal(pid, libc::SIGKILL))
            .count()
    }

    /// The processes everything else of the container descends from.
    pub(super) fn roots(&self) -> Vec<i32> {
        let execs = self.execs.borrow();
        let pids = self.init.get().into_iter().chain(self.main.get()).chain(execs.iter().copied());
        pids.map(|pid| pid.as_raw_nonzero().get()).collect()
    }

    /// Kills the container if its processes hold more memory than they may.
    pub(super) fn enforce_memory_limit(&self) {
        let Some(limit) = self.launch.spec.memory_limit_bytes.filter(|_| self.is_running()) else { return };
        if process_tree::memory_of_tree(&self.roots()) > limit {
            self.out_of_memory.set(true);
            self.kill();
        }
    }

    /// Resolves once every process is dead and the exit is recorded.
    pub(super) async fn wait_gone(&self) {
        // The sender lives as long as the container.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    fn save(&self) {
        let stored = Stored { record: self.record.borrow().clone(), launch: self.launch.clone() };
        if let Err(error) = store(&self.dir.join("record.json"), &stored) {
            eprintln!("container {}: record: {error}", self.id.0);
        }
    }

    /// From the main process' end to "nothing is left of it".
    async fn bury(self: Rc<Self>, host: Rc<Host>, ended: oneshot::Receiver<Ended>, init: Option<Init>) {
        let ended = ended.await.unwrap_or(Ended { code: 255, signal: None });
        let finished_at = super::now();
        self.main.set(None);
        if let Some(init) = init {
            os::signal(init.pid, libc::SIGKILL);
            // The kernel reports this end only after everything in the namespace is gone.
            let _ = init.end.await;
            self.init.set(None);
        } else {
            let mut pause = Duration::from_millis(2);
            while self.kill_members() > 0 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(100));
            }
        }
        self.streams.finish().await;
        let oom_killed = self.out_of_memory.get();
        {
            let mut record = self.record.borrow_mut();
            record.pid = None;
            record.exit = Some(ContainerExit {
                exit_code: if oom_killed { 137 } else { ended.code },
                signal: if oom_killed { Some(libc::SIGKILL) } else { ended.signal },
                oom_killed,
                finished_at,
                message: message(&self.dir),
            });
        }
        if !self.starting.get() {
            self.save();
        }
        self.gone.send_replace(true);
        self.streams.hang_up();
        if !self.starting.get() {
            host.pod_changed(&self.pod);
        }
    }
}

/// What the container left in its termination message file.
fn message(dir: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(dir.join("termination-log")).ok()?.take(4096).read_to_end(&mut bytes).ok()?;
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn os_error(what: &str) -> impl Fn(io::Error) -> RuntimeError + '_ {
    move |error| RuntimeError::Os(format!("{what}: {error}"))
}

impl Host {
    /// Starts an attempt and answers once it has become its program.
    pub(super) async fn start(self: &Rc<Self>, launch: Launch) -> Result<ContainerRecord, RuntimeError> {
        let uid = launch.spec.pod_uid.clone();
        let pod = self.pod(&uid).filter(|pod| pod.ready.get());
        let pod = pod.ok_or_else(|| RuntimeError::NotFound(format!("sandbox {uid}")))?;
        let same = |known: &&Rc<Container>| {
            let record = known.record.borrow();
            record.name == launch.spec.name && record.attempt == launch.spec.attempt
        };
        if let Some(known) = pod.containers.borrow().iter().find(same) {
            return if known.starting.get() {
                Err(RuntimeError::Host(format!("container {} is being started", launch.spec.name)))
            } else {
                Ok(known.record.borrow().clone())
            };
        }
        let (container, report) = self.launch(&pod, launch)?;
        let mut reason = String::new();
        let (_open, mut over) = watch::channel(false);
        while let Some(text) = report.next(&mut over, |text| String::from_utf8_lossy(text).into_owned()).await
        {
            reason.push_str(&text);
        }
        if reason.is_empty() {
            container.starting.set(false);
            container.save();
            let record = container.record.borrow().clone();
            if record.exit.is_some() {
                self.pod_changed(&uid);
            }
            return Ok(record);
        }
        container.wait_gone().await;
        pod.containers.borrow_mut().retain(|known| known.id != container.id);
        // The attempt never was; what it leaves is only litter.
        let _ = super::pod::remove_directory(&container.dir);
        Err(RuntimeError::StartFailed(reason))
    }

    /// Forks the main process; everything up to the exec's own outcome.
    fn launch(
        self: &Rc<Self>,
        pod: &Rc<Pod>,
        launch: Launch,
    ) -> Result<(Rc<Container>, super::wire::Wire), RuntimeError> {
        let id = self.new_id();
        let dir = pod.dir.join(&id.0);
        for name in ["root", "tmp", "layers"] {
            fs::create_dir_all(dir.join(name)).map_err(os_error("container directory"))?;
        }
        fs::write(dir.join("termination-log"), "").map_err(os_error("termination log"))?;
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let own_uid = rustix::process::getuid().as_raw();
        let account = environment::account(&launch, &read("/etc/passwd"), &read("/etc/group"), own_uid)
            .map_err(RuntimeError::StartFailed)?;
        let target = launch.spec.target.as_ref().and_then(|name| {
            pod.containers.borrow().iter().rev().find(|known| known.record.borrow().name == *name).cloned()
        });
        let (shows, mounts_env) = self.shows(pod, &launch, &dir, target.as_deref())?;
        if let Some(user) = &account.user {
            let own = ["root", "tmp", "termination-log"].map(|name| dir.join(name));
            // The image's program fills its own directories.
            let image = (0..launch.directories.len()).map(|n| dir.join("directories").join(n.to_string()));
            let image = image.flat_map(|path| [path.join(IMAGE_DIRECTORY), path]);
            for path in own.into_iter().chain(image).filter(|path| path.exists()) {
                std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).map_err(os_error("chown"))?;
            }
        }

        let mut env = environment::base(&pod.spec.hostname, &account.home, launch.spec.tty);
        environment::merge(&mut env, launch.image_env.iter().cloned());
        if let Some(target) = &target {
            environment::merge(&mut env, target.launch.image_env.iter().cloned());
            environment::merge(&mut env, target.launch.spec.env.iter().cloned());
            environment::merge(&mut env, target_variables(target));
        }
        environment::merge(&mut env, mounts_env);
        environment::merge(&mut env, launch.spec.env.iter().cloned());
        environment::merge(&mut env, [environment::marker(&id.0)]);

        let mut working_dir = match (&target, &launch.spec.working_dir) {
            (_, Some(own)) => own.clone(),
            (Some(target), None) => {
                target.launch.spec.working_dir.clone().unwrap_or_else(|| target.launch.working_dir.clone())
            }
            (None, None) => launch.working_dir.clone(),
        };
        let view = self.isolation.namespaces.then(|| View {
            root: target.as_ref().map_or(&dir, |target| &target.dir).join("root"),
            tmp: target.as_ref().map_or(&dir, |target| &target.dir).join("tmp"),
            layers: dir.join("layers"),
            shows,
            working_dir: working_dir.clone(),
            of_machine: launch.host_view,
        });
        if view.is_none() {
            let under = |show: &&super::super::Mount| working_dir.starts_with(&show.container_path);
            if let Some(mount) = launch.spec.mounts.iter().find(under)
                && let Ok(rest) = working_dir.strip_prefix(&mount.container_path)
            {
                working_dir = mount.host_path.join(rest);
            } else if !working_dir.is_dir() || working_dir == Path::new("/") {
                working_dir = dir.join("root");
            }
        }

        let streams = Streams::open(&launch.spec, dir.join("log")).map_err(os_error("streams"))?;
        let (streams, stdio) = streams;
        let (report_read, report_write) = super::wire::pipe().map_err(os_error("pipe"))?;

        let shared = pod.init.borrow().as_ref().map(|init| Rc::clone(&init.namespace));
        let shared =
            shared.or_else(|| target.as_ref().filter(|target| target.is_running())?.pid_namespace.clone());
        let init = if self.isolation.namespaces && shared.is_none() {
            Some(self.make_init().map_err(os_error("PID namespace"))?)
        } else {
            None
        };
        let pid_namespace = shared.or_else(|| init.as_ref().map(|init| Rc::clone(&init.namespace)));
        let spawn = super::Spawn {
            argv: &launch.argv,
            env: &env,
            working_dir: &working_dir,
            programs: &launch.programs,
            pod,
            files: view.map_or(super::child::Files::Machine, super::child::Files::Own),
            stdio,
            user: account.user.clone(),
            report: report_write,
            pid_namespace: pid_namespace.as_deref(),
        };
        let forked = self.spawn(spawn);
        let main = match forked {
            Ok(main) => main,
            Err(error) => {
                if let Some(init) = init {
                    os::signal(init.pid, libc::SIGKILL);
                }
                return Err(RuntimeError::Os(format!("fork: {error}")));
            }
        };
        let ended = self.reaper.expect(main);
        let record = ContainerRecord {
            id: id.clone(),
            name: launch.spec.name.clone(),
            attempt: launch.spec.attempt,
            image: launch.spec.image.clone(),
            image_id: launch.image_id.clone(),
            pid: Some(main.as_raw_nonzero().get().cast_unsigned()),
            started_at: super::now(),
            exit: None,
        };
        let mut launch = launch;
        launch.spec.working_dir = Some(working_dir);
        let container = Rc::new(Container {
            id,
            pod: pod.spec.pod_uid.clone(),
            dir,
            launch,
            record: RefCell::new(record),
            starting: Cell::new(true),
            env,
            account: account.user,
            main: Cell::new(Some(main)),
            init: Cell::new(init.as_ref().map(|init| init.pid)),
            pid_namespace,
            execs: RefCell::default(),
            streams,
            out_of_memory: Cell::new(false),
            gone: watch::Sender::new(false),
        });
        pod.containers.borrow_mut().push(Rc::clone(&container));
        tokio::task::spawn_local(Rc::clone(&container).bury(Rc::clone(self), ended, init));
        let report = super::wire::Wire::new(report_read).map_err(os_error("report"))?;
        Ok((container, report))
    }

    /// What the container sees beside the machine's files; without namespaces, variables that say where.
    fn shows(
        &self,
        pod: &Pod,
        launch: &Launch,
        dir: &Path,
        target: Option<&Container>,
    ) -> Result<(Vec<Show>, Variables), RuntimeError> {
        let mut shows = Vec::new();
        let own_mounts = launch.spec.mounts.iter();
        let mounts = target.into_iter().flat_map(|target| &target.launch.spec.mounts).chain(own_mounts);
        let mounts: Vec<_> = mounts.collect();
        let covered = |path: &Path| mounts.iter().any(|mount| mount.container_path == path);
        for (number, path) in launch.directories.iter().enumerate().filter(|(_, path)| !covered(path)) {
            let source = dir.join("directories").join(number.to_string());
            fs::create_dir_all(&source).map_err(os_error("image directory"))?;
            // Tells the image's program that this is its own to fill, and no volume of the user's.
            fs::write(source.join(IMAGE_DIRECTORY), "").map_err(os_error("image directory"))?;
            shows.push(Show { source, target: path.clone(), read_only: false });
        }
        for mount in mounts {
            let (source, target) = (mount.host_path.clone(), mount.container_path.clone());
            shows.push(Show { source, target, read_only: mount.read_only });
        }
        let variables = shows.iter().map(|show| environment::mount_variable(&show.target, &show.source));
        let mut env: Vec<_> = variables.collect();
        let termination_log = dir.join("termination-log");
        if self.isolation.namespaces {
            env.clear();
        } else {
            env.push(("PODIUM_TERMINATION_LOG".to_owned(), termination_log.display().to_string()));
        }
        for (name, place) in
            [("resolv.conf", "/etc/resolv.conf"), ("hosts", "/etc/hosts"), ("hostname", "/etc/hostname")]
        {
            let source = pod.dir.join(name);
            if source.exists() && Path::new(place).exists() {
                shows.push(Show { source, target: place.into(), read_only: false });
            }
        }
        let path = launch.spec.termination_message_path.clone();
        shows.push(Show { source: termination_log, target: path, read_only: false });
        if let Some(target) = target.filter(|target| target.dir.starts_with("/tmp")) {
            // The machine's /tmp is hidden; TARGET_ROOT and TARGET_LOG must be there all the same.
            shows.push(Show { source: target.dir.clone(), target: target.dir.clone(), read_only: false });
        }
        // Outer mount points first: they would hide inner ones.
        shows.sort_by_key(|show| show.target.components().count());
        Ok((shows, env))
    }
}

/// EPH-3: where a debugger finds what it looks at.
fn target_variables(target: &Container) -> Vec<(String, String)> {
    let mut variables = vec![
        ("TARGET_ROOT".to_owned(), target.dir.join("root").display().to_string()),
        ("TARGET_LOG".to_owned(), target.log_path().display().to_string()),
    ];
    if let Some(main) = target.main.get() {
        // The innermost of the numbers the process has is the one a debugger beside it sees.
        let status =
            fs::read_to_string(format!("/proc/{}/status", main.as_raw_nonzero())).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own = main.as_raw_nonzero().to_string();
        let pid = numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()).unwrap_or(&own);
        variables.push(("TARGET_PID".to_owned(), pid.to_owned()));
    }
    variables
}
