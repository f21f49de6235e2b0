//! Starts one container attempt: all its resources, up to the first moment of its process.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use tokio::sync::watch;

use super::cgroup::Limits;
use super::container::{Container, ContainerInit, TERMINATION_LOG};
use super::container_mounts::{ContainerFiles, target_variables};
use super::environment::UserAccount;
use super::error::os_error;
use super::io::Streams;
use super::pod::Pod;
use super::rootfs::{ImageRoot, Overlay, UPPER, View};
use super::spawn::{Parent, SpawnRequest};
use super::user::User;
use super::{Host, environment, os};
use crate::journal::{container_dir, tmp_dir};
use crate::protocol::Launch;
use crate::{ContainerRecord, ResourceLimits, RuntimeError};
use base::optional_file::read_optional;
use base::root_dir::RootDir;
use programs::IMAGE_DIRECTORY;

/// Returns the account that a container runs as, according to the account files that it sees; and the user that it
/// appears to run as, if this process cannot change its user.
fn resolve_user(launch: &Launch) -> Result<(UserAccount, Option<User>), RuntimeError> {
    let own_uid = rustix::process::getuid().as_raw();
    let Some(root) = &launch.image_root else {
        let read = |path: &str| read_optional(path);
        let account = environment::account(launch, &read("/etc/passwd"), &read("/etc/group"), own_uid);
        return Ok((account?, None));
    };
    let files = RootDir::new(root).map_err(os_error("image"))?;
    let read = |path: &str| files.read(Path::new(path)).unwrap_or_default();
    // Images expect to start as root, and to change to any user.
    let account = environment::account(launch, &read("etc/passwd"), &read("etc/group"), 0);
    let account = account?;
    if own_uid == 0 {
        return Ok((account, None));
    }
    let seems = account.user.clone().unwrap_or(User { uid: 0, gid: 0, groups: Vec::new() });
    Ok((UserAccount { user: None, home: account.home }, Some(seems)))
}

/// Creates a directory that may exist already; almost always only its last component is missing.
fn make_directories(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn root_fs_unsupported(image: &str) -> RuntimeError {
    RuntimeError::CreateFailed(format!(
        "image {image:?} has its own root file system, which needs namespaces, but containers are plain \
         processes on this node: run podium as root, or allow user namespaces (sysctl \
         user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0) and keep \"namespaces\" \
         on in the config file, or declare a program of this machine in DATA/images/*.yaml"
    ))
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
        if let Some(known) = pod.containers.borrow().iter().find(same) {
            return if known.starting.get() {
                Err(RuntimeError::Host(format!("container {} is already being started", launch.spec.name)))
            } else {
                Ok(known.record.borrow().clone())
            };
        }
        self.faults
            .admit()
            .map_err(|error| RuntimeError::Os(format!("files of container {}: {error}", launch.spec.name)))?;
        let (container, report) = self.launch(&pod, launch)?;
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

    /// Creates the container's resources and forks its main process. Does not wait for the exec, which may still fail.
    fn launch(
        self: &Rc<Self>,
        pod: &Rc<Pod>,
        launch: Launch,
    ) -> Result<(Rc<Container>, super::pipe_end::PipeEnd), RuntimeError> {
        if launch.image_root.is_some() && !self.isolation.namespaces {
            return Err(root_fs_unsupported(&launch.spec.image));
        }
        let target = launch.spec.target.as_ref().and_then(|name| {
            pod.containers.borrow().iter().rev().find(|known| known.record.borrow().name == *name).cloned()
        });
        // A debug container does not see the files of its target's image as its own root; it reads them through
        // TARGET_ROOT.
        let of_image = |target: &&Rc<Container>| target.launch.image_root.is_some();
        let beside = target.as_ref().filter(|target| !of_image(target) && launch.image_root.is_none());
        let id = self.new_id();
        let (dir, tmp) = (container_dir(&self.dir, &id), tmp_dir(&self.dir, &id));
        let private = pod.private.join(&id.0);
        let own = ContainerFiles { dir: &dir, private: &private };
        let root = beside.map_or(&private, |target| &target.private).join("root");
        // Without namespaces, or if the container sees the machine's own view or an image's files, it uses the /tmp
        // that is in these.
        let own_tmp = self.isolation.namespaces && !launch.host_view && launch.image_root.is_none();
        let temporary = own_tmp.then(|| beside.map_or(&tmp, |target| &target.tmp));
        for path in [Some(&private), Some(&root), temporary].into_iter().flatten() {
            // The directories exist only if they are those of a debug container's target, and even these end with the
            // target's host.
            make_directories(path).map_err(os_error("container directory"))?;
        }
        fs::File::create(private.join(TERMINATION_LOG)).map_err(os_error("termination log"))?;
        let (account, seems) = resolve_user(&launch)?;
        let (mut shows, mounts_env) = self.bind_mounts(pod, &launch, own, target.as_deref())?;
        if let Some(user) = &account.user {
            let own = [private.join("root"), tmp.clone(), private.join(TERMINATION_LOG)];
            // The image's program must be able to fill its own directories.
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
        if let Some(directory) = self.inside_programs(&launch.programs, &mut shows) {
            environment::extend_search_path(&mut env, &directory);
        }

        let mut working_dir = match (&target, &launch.spec.working_dir) {
            (_, Some(own)) => own.clone(),
            (Some(target), None) => {
                target.launch.spec.working_dir.clone().unwrap_or_else(|| target.launch.working_dir.clone())
            }
            (None, None) => launch.working_dir.clone(),
        };
        let terminals = pod.terminals(launch.host_view);
        let mounts = if self.overlays && !launch.host_view {
            self.mount_table.borrow_mut().of_machine().map_err(os_error("mounts"))?
        } else {
            Vec::new()
        };
        let view = self.isolation.namespaces.then(|| View {
            root: root.clone(),
            tmp: temporary.cloned().unwrap_or_default(),
            dir: dir.clone(),
            layers: private.join("layers"),
            bind_mounts: shows,
            working_dir: working_dir.clone(),
            hidden: self.hidden.clone(),
            own_network: self.network.is_some(),
            // Kubernetes allows an unmasked /proc only for pods in a user namespace: root could change the machine
            // through it.
            unmasked: launch.spec.security.privileged
                || (launch.spec.security.unmasked && !rustix::process::geteuid().is_root()),
            terminals: terminals.clone(),
            every_device: launch.spec.security.privileged,
            of_machine: launch.host_view,
            read_only: launch.spec.security.read_only_root,
            image: launch.image_root.clone().map(|files| ImageRoot { files, apparent_user: seems }),
            overlay: self.memory.clone().filter(|_| self.overlays && !launch.host_view).map(|memory| {
                let beside = beside.map(|target| target.private.join("layers").join(UPPER));
                Overlay { memory, mounts, beside }
            }),
        });
        if view.is_none() {
            let under = |show: &&crate::Mount| working_dir.starts_with(&show.container_path);
            if let Some(mount) = launch.spec.mounts.iter().find(under)
                && let Ok(rest) = working_dir.strip_prefix(&mount.container_path)
            {
                working_dir = mount.source().join(rest);
            } else if !working_dir.is_dir() || working_dir == Path::new("/") {
                working_dir = root;
            }
        }

        let streams = Streams::open(&launch.spec, dir.join("log"), terminals.as_deref(), &self.faults)
            .map_err(os_error("streams"))?;
        let (streams, stdio) = streams;
        let (report_read, report_write) = super::pipe_end::pipe().map_err(os_error("pipe"))?;

        let own = ResourceLimits {
            memory_bytes: launch.spec.memory_limit_bytes,
            cpu_millicores: launch.spec.cpu_limit_millicores,
            cpu_request_millicores: launch.spec.cpu_request_millicores,
        };
        let limits = Limits::new(&own, &pod.spec.limits, self.pod_pids_limit);
        let group = OnceCell::new();
        if let Some(made) =
            self.cgroups.make(&pod.spec.pod_uid, &id.0, &limits).map_err(os_error("control group"))?
        {
            let _ = group.set(made);
        }
        let shared = pod.init.borrow().as_ref().map(|init| Rc::clone(&init.namespace));
        let of_target =
            || target.as_ref().filter(|target| target.is_running())?.pid_namespace.borrow().clone();
        let shared = shared.or_else(of_target);
        let init = if self.isolation.namespaces && shared.is_none() && !pod.spec.host.pid {
            Some(self.make_init().map_err(os_error("PID namespace"))?)
        } else {
            None
        };
        let pid_namespace = shared.or_else(|| init.as_ref().map(|init| Rc::clone(&init.namespace)));
        let parent = match &init {
            Some(init) => Parent::Own(&init.namespace),
            None => Parent::BelowSubreaper(pid_namespace.as_deref()),
        };
        let spawn = SpawnRequest {
            argv: &launch.argv,
            env: &env,
            working_dir: &working_dir,
            programs: &launch.programs,
            pod,
            files: view.map_or(super::child::Files::Machine, |view| super::child::Files::Own(Box::new(view))),
            stdio,
            user: account.user.clone(),
            security: &launch.spec.security,
            oom_score_adj: launch.spec.oom_score_adj,
            group: group.get(),
            report: report_write,
            parent,
        };
        let spawned = match self.spawn(spawn) {
            Ok(spawned) => spawned,
            Err(error) => {
                if let Some(init) = init {
                    os::signal(init.pid, libc::SIGKILL);
                }
                return Err(RuntimeError::Os(format!("fork: {error}")));
            }
        };
        let main = spawned.pid;
        let holder = match &init {
            Some(init) => Some(ContainerInit::Init(init.pid)),
            None => spawned.keeper.map(ContainerInit::Keeper),
        };
        let record = ContainerRecord {
            id: id.clone(),
            name: launch.spec.name.clone(),
            attempt: launch.spec.attempt,
            image: launch.spec.image.clone(),
            image_id: launch.image_id.clone(),
            pid: Some(main.as_raw_nonzero().get().cast_unsigned()),
            // Never before the sandbox's creation, even if the clock was set back meanwhile: an earlier start means an
            // earlier sandbox.
            started_at: super::now().max(pod.created_at),
            exit: None,
        };
        let mut launch = launch;
        launch.spec.working_dir = Some(working_dir);
        let container = Rc::new(Container {
            id,
            pod: pod.spec.pod_uid.clone(),
            dir,
            tmp,
            private,
            launch,
            record: RefCell::new(record),
            starting: Cell::new(true),
            env,
            account: account.user,
            main: Cell::new(Some(main)),
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
        let report = super::pipe_end::PipeEnd::new(report_read).map_err(os_error("report"))?;
        Ok((container, report))
    }
}
