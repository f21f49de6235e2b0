//! Starts one container attempt: all its resources, up to the first moment of its process.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::process::Pid;
use rustix::thread::CapabilitySet;
use tokio::sync::watch;

use super::account::{UserAccount, account};
use super::cgroup::{Group, Limits};
use super::child::Files;
use super::container::{Container, ContainerInit};
use super::container_mounts::{ContainerFiles, target_variables};
use super::error::os_error;
use super::inhabited::Containment;
use super::init::{Init, open_namespace};
use super::io::Streams;
use super::own_directories::OwnDirectories;
use super::pipe_end::{self, PipeEnd};
use super::pod::{Pod, SHARED_PROC};
use super::rootfs::{BindMount, ImageRoot, Overlay, ProcSource, View};
use super::seccomp::Filter;
use super::spawn::{Parent, SpawnRequest};
use super::system_files::SystemFiles;
use super::user::User;
use super::{Host, capabilities, environment, os};
use crate::protocol::Launch;
use crate::{ContainerId, ContainerRecord, IdRange, ProcessUser, ResourceLimits, RuntimeError, Security};
use base::layers::Layers;
use base::optional_file::read_optional;
use base::subordinate_ids::{RealUser, is_machine_root, real_user};

/// Returns the account that a container runs as, according to the account files that it sees; and the user that it
/// appears to run as, if this process cannot change its user.
fn resolve_user(
    launch: &Launch,
    system: Option<&SystemFiles>,
) -> Result<(UserAccount, Option<User>), RuntimeError> {
    let own_uid = rustix::process::getuid().as_raw();
    if let Some(system) = system {
        return Ok((account(launch, &system.passwd, &system.group, own_uid)?, None));
    }
    if !launch.has_image_files() {
        let read = |path: &str| read_optional(path);
        let own_uid = real_user().map_or(own_uid, |user| user.uid);
        return Ok((account(launch, &read("/etc/passwd"), &read("/etc/group"), own_uid)?, None));
    }
    let files = Layers::new(launch.image_layers.clone());
    let read = |path: &str| files.read(Path::new(path)).unwrap_or_default();
    // Images expect to start as root, and to change to any user.
    let account = account(launch, &read("etc/passwd"), &read("etc/group"), 0)?;
    if own_uid == 0 {
        return Ok((account, None));
    }
    let seems = account.user.clone().unwrap_or(User { uid: 0, gid: 0, groups: Vec::new() });
    Ok((UserAccount { user: None, home: account.home }, Some(seems)))
}

/// The user as the pod's status reports it. `is_set` is false for one that the container only appears to have, without
/// its groups; no user is this process's.
fn shown_user(user: Option<&User>, is_set: bool) -> ProcessUser {
    match user {
        Some(user) if is_set => ProcessUser { uid: user.uid, gid: user.gid, groups: user.groups.clone() },
        Some(user) => ProcessUser { uid: user.uid, gid: user.gid, groups: Vec::new() },
        None => {
            let RealUser { uid, gid } = real_user().unwrap_or_else(RealUser::of_process);
            ProcessUser { uid, gid, groups: own_groups() }
        }
    }
}

/// The supplementary groups of this process; a failure to read them leaves them out of the status.
fn own_groups() -> Vec<u32> {
    match rustix::process::getgroups() {
        Ok(groups) => groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
        Err(error) => {
            eprintln!("cannot read the groups of this process: {error}");
            Vec::new()
        }
    }
}

/// Returns the user of a container in a pod with a user namespace of its own, which must have all of its ids.
fn user_of_pod(user: Option<User>) -> Result<User, RuntimeError> {
    let user = user.unwrap_or(User { uid: 0, gid: 0, groups: vec![0] });
    let all = [user.uid, user.gid].into_iter().chain(user.groups.iter().copied());
    match all.max().filter(|id| *id >= IdRange::COUNT) {
        None => Ok(user),
        Some(id) => Err(RuntimeError::StartFailed(format!(
            "the pod's user namespace (hostUsers: false) has the ids 0 to {} and not {id}",
            IdRange::COUNT - 1
        ))),
    }
}

fn machine_files_without_users(image: &str) -> RuntimeError {
    RuntimeError::CreateFailed(format!(
        "image {image:?} shows the machine's own files, whose owners do not exist in the pod's user namespace \
         (hostUsers: false): leave hostUsers out, or use an image with files of its own"
    ))
}

/// The settings that give containers namespaces.
const ALLOW_NAMESPACES: &str = "run podium as root, or allow user namespaces (sysctl user.max_user_namespaces, \
     kernel.apparmor_restrict_unprivileged_userns=0) and keep \"namespaces\" on in the config file";

fn root_fs_unsupported(image: &str) -> RuntimeError {
    RuntimeError::CreateFailed(format!(
        "image {image:?} has its own root file system, which needs namespaces, but containers are plain \
         processes on this node: {ALLOW_NAMESPACES}, or declare a program of this machine in DATA/images/*.yaml"
    ))
}

fn image_volumes_unsupported(place: &Path) -> RuntimeError {
    RuntimeError::CreateFailed(format!(
        "ImageVolumeMountFailed: the image volume at {} needs namespaces, but containers are plain processes on this \
         node: {ALLOW_NAMESPACES}",
        place.display()
    ))
}

/// Compiles the filter of a container's system calls.
pub(super) fn filter_of(security: &Security) -> Result<Option<Filter>, String> {
    // Unknown capabilities are refused when the container starts.
    Filter::of(security, capabilities::of(security).unwrap_or(CapabilitySet::empty()))
}

impl Host {
    /// Starts an attempt and returns once it has executed its program.
    pub(super) async fn start(self: &Rc<Self>, launch: Launch) -> Result<ContainerRecord, RuntimeError> {
        self.faults.pass().await;
        let uid = launch.spec.pod_uid.clone();
        let pod = self.pod(&uid).filter(|pod| pod.ready.get());
        let pod = pod.ok_or_else(|| RuntimeError::NotFound(format!("sandbox {uid}")))?;
        let same = |known: &&Rc<Container>| {
            let record = known.record.borrow();
            record.name == launch.spec.name && record.attempt == launch.spec.attempt
        };
        let already =
            || RuntimeError::Host(format!("container {} is already being started", launch.spec.name));
        if let Some(known) = pod.containers.borrow().iter().find(same) {
            return if known.starting.get() { Err(already()) } else { Ok(known.record.borrow().clone()) };
        }
        let _launching = LaunchGuard::begin(&pod, &launch).ok_or_else(already)?;
        self.faults
            .admit()
            .map_err(|error| RuntimeError::Os(format!("files of container {}: {error}", launch.spec.name)))?;
        let (container, report) = self.launch(&pod, launch).await?;
        let mut reason = String::new();
        let (_open, mut over) = watch::channel(false);
        while let Some(text) = report.next(&mut over, |text| String::from_utf8_lossy(text).into_owned()).await
        {
            reason.push_str(&text);
        }
        if reason.is_empty() {
            container.starting.set(false);
            self.append_journal(&container.entry());
            let record = container.record.borrow().clone();
            if record.exit.is_some() {
                self.pod_changed(&uid);
            }
            return Ok(record);
        }
        container.wait_exited().await;
        pod.containers.borrow_mut().retain(|known| known.id != container.id);
        // The attempt did not start; its files are of no use.
        let _ = container.remove_files();
        Err(RuntimeError::StartFailed(reason))
    }

    /// Creates the container's resources and its main process. Does not wait for the exec, which may still fail.
    async fn launch(
        self: &Rc<Self>,
        pod: &Rc<Pod>,
        mut launch: Launch,
    ) -> Result<(Rc<Container>, PipeEnd), RuntimeError> {
        if launch.has_image_files() && !self.isolation.namespaces {
            return Err(root_fs_unsupported(&launch.spec.image));
        }
        let of_image = launch.spec.mounts.iter().find(|mount| mount.image.is_some());
        if let Some(mount) = of_image.filter(|_| !self.isolation.namespaces) {
            return Err(image_volumes_unsupported(&mount.container_path));
        }
        let filter = filter_of(&launch.spec.security).map_err(RuntimeError::CreateFailed)?;
        let target = find_target(pod, &launch);
        let target = target.as_deref();
        let system = if launch.system_root.is_some() { self.system_files()? } else { None };
        // A debug container does not see the files of its target's image as its own root if one of them has a loaded
        // image or only one a built-in image; it reads them through TARGET_ROOT.
        let beside = target.filter(|target| {
            !target.launch.has_image_files()
                && !launch.has_image_files()
                && target.launch.system_root.is_some() == launch.system_root.is_some()
        });
        let (mut account, seems) = resolve_user(&launch, system.as_deref())?;
        if pod.users.borrow().is_some() {
            if !launch.has_image_files() && system.is_none() {
                return Err(machine_files_without_users(&launch.spec.image));
            }
            account.user = Some(user_of_pod(account.user)?);
        }
        let id = self.new_id();
        let own = OwnDirectories::create(self, pod, &launch, &id, beside)?;
        let shown_user = shown_user(account.user.as_ref().or(seems.as_ref()), account.user.is_some());
        let files = ContainerFiles {
            dir: &own.dir,
            private: &own.private,
            tmp: own.visible_tmp.as_deref(),
            system: system.as_deref(),
        };
        let (mut shows, mounts_env) = self.bind_mounts(pod, &launch, files, target)?;
        if let Some(user) = &account.user {
            own.give_to(user, &launch)?;
        }
        let base = environment::base(&pod.spec.hostname, &account.home, launch.spec.tty);
        let mut env = with_variables(base, &launch, target, mounts_env);
        environment::merge(&mut env, [environment::marker(&id.0)]);
        if let Some(directory) = self.inside_programs(&launch.programs, &mut shows) {
            environment::extend_search_path(&mut env, &directory);
        }

        let working_dir = requested_working_dir(&launch, target);
        let (files, working_dir) = if self.isolation.namespaces {
            let image = image_root(&launch, &own, system.as_deref(), seems);
            let mut view = self.view(pod, &launch, &own, shows, &working_dir, image)?;
            view.proc = proc_source(pod, target);
            (Files::Own(Box::new(view)), working_dir)
        } else {
            (Files::Machine, working_dir_of_machine(&launch, working_dir, &own.root))
        };
        let terminals = pod.terminals(launch.host_view);
        let (streams, stdio) =
            Streams::open(&launch.spec, own.dir.join("log"), terminals.as_deref(), &self.faults)
                .map_err(os_error("streams"))?;
        let (report_read, report_write) = pipe_end::pipe().map_err(os_error("pipe"))?;
        let (limits, group) = self.control_group(pod, &launch, &id)?;
        let (mut pid_namespace, init) = self.pid_namespace(pod, &launch, target)?;
        let is_first = init.is_some() && launch.has_image_files();
        let parent = match &init {
            Some(init) if is_first => Parent::First(&init.namespace),
            Some(init) => Parent::Own(&init.namespace),
            None => pid_namespace.as_deref().map_or(Parent::BelowSubreaper, |namespace| {
                Parent::Inhabited(namespace, Containment::Subreaper)
            }),
        };
        let request = SpawnRequest {
            argv: &launch.argv,
            env: &env,
            working_dir: &working_dir,
            programs: &launch.programs,
            pod,
            files,
            stdio,
            user: account.user.clone(),
            security: &launch.spec.security,
            filter: filter.as_ref(),
            oom_score_adj: launch.spec.oom_score_adj,
            group: group.get(),
            report: report_write,
            parent,
        };
        let spawned = self.spawn(request).await.and_then(|spawned| {
            if is_first {
                let inside = open_namespace(spawned.pid, "pid").map_err(os_error("fork"))?;
                pid_namespace = Some(Rc::new(inside));
            }
            if !pod.ready.get() {
                // The pod was stopped meanwhile, and nothing kills its further processes.
                os::signal(spawned.pid, libc::SIGKILL);
                return Err(RuntimeError::NotFound(format!("sandbox {}", pod.spec.pod_uid)));
            }
            Ok(spawned)
        });
        let spawned = spawned.inspect_err(|_| {
            if let Some(init) = &init {
                os::signal(init.pid, libc::SIGKILL);
            }
            if let Some(group) = group.get() {
                group.remove();
            }
            // The attempt did not start; its files are of no use.
            own.remove();
        })?;
        let of_init = init.as_ref().map(|init| ContainerInit::Init(init.pid));
        let holder = of_init.or(spawned.keeper.map(ContainerInit::Keeper));
        let record = ContainerRecord { user: Some(shown_user), ..new_record(pod, &launch, &id, spawned.pid) };
        launch.spec.working_dir = Some(working_dir);
        let container = Rc::new(Container {
            id,
            pod: pod.spec.pod_uid.clone(),
            dir: own.dir,
            tmp: own.tmp,
            private: own.private,
            launch,
            system_files: system,
            record: RefCell::new(record),
            starting: Cell::new(true),
            env,
            account: account.user,
            main: Cell::new(Some(spawned.pid)),
            holder: RefCell::new(holder),
            pid_namespace: RefCell::new(pid_namespace),
            execs: RefCell::default(),
            exec_subreapers: RefCell::default(),
            streams,
            group,
            memory_limit: Cell::new(limits.memory_bytes),
            out_of_memory: Cell::new(false),
            exited: watch::Sender::new(false),
        });
        pod.containers.borrow_mut().push(Rc::clone(&container));
        self.watching.notify_one();
        tokio::task::spawn_local(Rc::clone(&container).wait_for_exit(Rc::clone(self), spawned.ended, init));
        let report = PipeEnd::new(report_read).map_err(os_error("report"))?;
        Ok((container, report))
    }

    /// Returns the files that the container sees, in a mount namespace of its own.
    fn view(
        &self,
        pod: &Pod,
        launch: &Launch,
        own: &OwnDirectories,
        bind_mounts: Vec<BindMount>,
        working_dir: &Path,
        image: Option<ImageRoot>,
    ) -> Result<View, RuntimeError> {
        let overlay = match &self.memory {
            Some(memory) if self.overlays && !launch.host_view && image.is_none() => Some(Overlay {
                memory: memory.clone(),
                mounts: self.mount_table.borrow_mut().of_machine().map_err(os_error("mounts"))?,
                beside: own.shared_layers.clone(),
            }),
            _ => None,
        };
        let security = &launch.spec.security;
        let users = pod.users.borrow().clone();
        Ok(View {
            root: own.root.clone(),
            proc: ProcSource::New,
            tmp: own.visible_tmp.clone().unwrap_or_default(),
            dir: own.dir.clone(),
            layers: if launch.has_image_files() { &own.dir } else { &own.private }.join("layers"),
            bind_mounts,
            working_dir: working_dir.to_path_buf(),
            hidden: self.hidden.clone(),
            own_network: self.network.is_some(),
            // Kubernetes allows an unmasked /proc only for pods in a user namespace: root could change the machine
            // through it.
            unmasked: security.privileged || (security.unmasked && (users.is_some() || !is_machine_root())),
            terminals: pod.terminals(launch.host_view),
            // A device of the image that belongs to root of the pod must not open.
            every_device: security.privileged && users.is_none(),
            users,
            of_machine: launch.host_view,
            read_only: security.read_only_root,
            image,
            overlay,
        })
    }

    /// Returns the limits of the container, and its control group, if the kernel limits a resource of it.
    fn control_group(
        &self,
        pod: &Pod,
        launch: &Launch,
        id: &ContainerId,
    ) -> Result<(Limits, OnceCell<Group>), RuntimeError> {
        let own = ResourceLimits {
            memory_bytes: launch.spec.memory_limit_bytes,
            cpu_millicores: launch.spec.cpu_limit_millicores,
            cpu_request_millicores: launch.spec.cpu_request_millicores,
            pod_cpu_request_millicores: launch.spec.pod_cpu_request_millicores,
        };
        let limits = Limits::new(&own, &pod.spec.limits, self.pod_pids_limit);
        let made = self.cgroups.make(&pod.spec.pod_uid, &id.0, &limits).map_err(os_error("control group"))?;
        Ok((limits, made.map_or_else(OnceCell::new, OnceCell::from)))
    }

    /// Returns the PID namespace of the container, if it is not the host's own; and pid 1 of a namespace that belongs to
    /// the container alone. The program of an image becomes pid 1 of a further namespace inside that one.
    fn pid_namespace(
        &self,
        pod: &Pod,
        launch: &Launch,
        target: Option<&Container>,
    ) -> Result<(Option<Rc<OwnedFd>>, Option<Init>), RuntimeError> {
        let shared = pod.init.borrow().as_ref().map(|init| Rc::clone(&init.namespace));
        let of_target = || target.filter(|target| target.is_running())?.pid_namespace.borrow().clone();
        let shared = shared.or_else(of_target);
        if shared.is_some() || !self.isolation.namespaces || pod.spec.host.pid {
            return Ok((shared, None));
        }
        let (namespaces, users) = (pod.namespaces.borrow(), pod.users.borrow());
        let init = self.make_init(&namespaces, users.as_ref(), !launch.has_image_files());
        let init = init.map_err(os_error("PID namespace"))?;
        Ok((Some(Rc::clone(&init.namespace)), Some(init)))
    }
}

/// Returns the source of the /proc of a container in the PID namespace that [`Host::pid_namespace`] chooses: a new mount,
/// unless programs of containers may be in the namespace.
fn proc_source(pod: &Pod, target: Option<&Container>) -> ProcSource {
    if pod.init.borrow().is_some() {
        return ProcSource::Mount(pod.private.join(SHARED_PROC));
    }
    let of_target = target.filter(|target| target.pid_namespace.borrow().is_some());
    of_target.and_then(|target| target.main.get()).map_or(ProcSource::New, ProcSource::Process)
}

/// Marks a container as being started, until it is among the pod's containers.
struct LaunchGuard<'a> {
    pod: &'a Pod,
    attempt: (String, u32),
}

impl<'a> LaunchGuard<'a> {
    /// Returns `None` if this attempt is being started already.
    fn begin(pod: &'a Pod, launch: &Launch) -> Option<Self> {
        let attempt = (launch.spec.name.clone(), launch.spec.attempt);
        let is_new = pod.launching.borrow_mut().insert(attempt.clone());
        is_new.then_some(Self { pod, attempt })
    }
}

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        self.pod.launching.borrow_mut().remove(&self.attempt);
    }
}

/// Returns the image's files that the container sees; `None` if it sees the machine's. `seems` is the user that it
/// appears to run as.
fn image_root(
    launch: &Launch,
    own: &OwnDirectories,
    system: Option<&SystemFiles>,
    seems: Option<User>,
) -> Option<ImageRoot> {
    if launch.has_image_files() {
        let layers = Layers::new(launch.image_layers.clone());
        return Some(ImageRoot { layers, machine: Vec::new(), beside: None, apparent_user: seems });
    }
    system.map(|system| ImageRoot {
        layers: Layers::new(vec![system.base.clone()]),
        machine: system.directories.clone(),
        beside: own.shared_layers.clone(),
        apparent_user: None,
    })
}

/// Finds the latest attempt of the container that a debug container targets.
fn find_target(pod: &Pod, launch: &Launch) -> Option<Rc<Container>> {
    let name = launch.spec.target.as_ref()?;
    pod.containers.borrow().iter().rev().find(|known| known.record.borrow().name == *name).cloned()
}

/// Adds the variables of the images, the target, the mounts and the container's specification; later ones take
/// precedence.
fn with_variables(
    mut env: Vec<(String, String)>,
    launch: &Launch,
    target: Option<&Container>,
    mounts: Vec<(String, String)>,
) -> Vec<(String, String)> {
    environment::merge(&mut env, launch.image_env.iter().cloned());
    if let Some(target) = target {
        environment::merge(&mut env, target.launch.image_env.iter().cloned());
        environment::merge(&mut env, target.launch.spec.env.iter().cloned());
        environment::merge(&mut env, target_variables(target));
    }
    environment::merge(&mut env, mounts);
    environment::merge(&mut env, launch.spec.env.iter().cloned());
    env
}

/// Returns the working directory that the container requests, or else its target's or its image's.
fn requested_working_dir(launch: &Launch, target: Option<&Container>) -> PathBuf {
    let of = |launch: &Launch| launch.spec.working_dir.clone();
    let of_target =
        || target.map(|target| of(&target.launch).unwrap_or_else(|| target.launch.working_dir.clone()));
    of(launch).or_else(of_target).unwrap_or_else(|| launch.working_dir.clone())
}

/// Returns the directory of the machine that stands for a working directory, without mount namespaces: the source of a
/// mount, the directory itself if it exists, or else the container's root.
fn working_dir_of_machine(launch: &Launch, working_dir: PathBuf, root: &Path) -> PathBuf {
    let under = |show: &&crate::Mount| working_dir.starts_with(&show.container_path);
    if let Some(mount) = launch.spec.mounts.iter().find(under)
        && let Ok(rest) = working_dir.strip_prefix(&mount.container_path)
    {
        mount.source().join(rest)
    } else if !working_dir.is_dir() || working_dir == Path::new("/") {
        root.to_path_buf()
    } else {
        working_dir
    }
}

fn new_record(pod: &Pod, launch: &Launch, id: &ContainerId, main: Pid) -> ContainerRecord {
    ContainerRecord {
        id: id.clone(),
        name: launch.spec.name.clone(),
        attempt: launch.spec.attempt,
        image: launch.spec.image.clone(),
        image_id: launch.shown_image().to_owned(),
        pid: Some(main.as_raw_nonzero().get().cast_unsigned()),
        user: None,
        // Never before the sandbox's creation, even if the clock was set back meanwhile: an earlier start means an
        // earlier sandbox.
        started_at: super::now().max(pod.created_at),
        exit: None,
    }
}
