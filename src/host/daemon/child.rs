//! Turns a forked child into the program: it joins or creates namespaces, sets up its view of files, its terminal and
//! its user, and calls exec.
//!
//! Every failure is written to the report pipe, in runc's words; the pipe closes silently if exec succeeds.
//!
//! All but the last steps can also be taken by another process, from outside of the container's PID namespace
//! (`inhabited`).

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::Security;

use super::capabilities;
use super::gate::Gate;
use super::os::{self, ExecArguments};
use super::program::{self, ResolvedProgram, os_text};
use super::rootfs::{self, View, user_of_machine};
use super::seccomp::Filter;
use super::signals;
use super::user::User;
use super::user_namespace::PodUsers;
use crate::Program;
use base::subordinate_ids::{RealUser, appear_as_by, own_process};

/// The source of the child's view of the files.
pub(super) enum Files {
    /// The machine's files, as they are.
    Machine,
    /// A new view.
    Own(Box<View>),
    /// The view of a running process.
    Of(Pid),
}

/// The standard streams of a child.
pub(super) enum Stdio {
    /// Three descriptors.
    Pipes { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    /// The slave side of a terminal, controlling it.
    Terminal(OwnedFd),
}

/// The complete plan of a child's start.
pub(super) struct Plan<'a> {
    pub(super) argv: &'a [String],
    pub(super) env: &'a [(String, String)],
    pub(super) working_dir: &'a Path,
    pub(super) programs: &'a [(String, Program)],
    /// This binary, for programs inside it.
    pub(super) own_program: &'a OwnedFd,
    /// Host name and IPC namespaces of the pod.
    pub(super) join: &'a [(OwnedFd, LinkNameSpaceType)],
    /// The pod's own user namespace.
    pub(super) users: Option<PodUsers>,
    pub(super) files: Files,
    pub(super) stdio: Stdio,
    pub(super) user: Option<User>,
    pub(super) security: &'a Security,
    /// The filter of its system calls.
    pub(super) filter: Option<&'a Filter>,
    pub(super) oom_score_adj: Option<i32>,
    /// The network is not the machine's: every user may bind every port.
    pub(super) own_network: bool,
    /// The files to which the process writes `0` to enter its control groups.
    pub(super) cgroup_procs_files: &'a [PathBuf],
    pub(super) open_files_limit: Rlimit,
    /// Becomes readable when the host dies.
    pub(super) host: Option<&'a OwnedFd>,
    pub(super) report: OwnedFd,
}

/// The process that takes the first steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preparer {
    /// The process that becomes the program.
    Itself,
    /// A process outside of the PID namespace, which creates that process afterwards.
    Helper,
    /// The same, but the process is below a subreaper: until the last steps it does not become the container's user, who
    /// could then kill the subreaper.
    HelperOfSubreaper,
}

/// A program that is ready to be executed.
pub(super) struct PreparedProgram {
    executable: Executable,
    arguments: ExecArguments,
    /// The process has not yet become the container's user.
    becomes_user: bool,
}

enum Executable {
    File(CString),
    /// A program inside this binary.
    Inside,
}

/// Becomes the program, or reports the reason why it cannot and ends with 128.
pub(super) fn run(plan: &Plan<'_>) -> ! {
    die_with_host(plan.host);
    let reason = match prepare(plan, Preparer::Itself) {
        Ok(program) => execute(plan, &program),
        Err(reason) => reason,
    };
    fail(plan, &reason)
}

/// Takes the last steps in the new process of a helper, and becomes the program.
pub(super) fn run_prepared(plan: &Plan<'_>, program: &PreparedProgram, gate: Option<Gate>) -> ! {
    if program.becomes_user
        && let Some(user) = &plan.user
        && let Err(error) = become_user(plan, user)
    {
        fail(plan, &format!("user: {}", os_text(&error)));
    }
    // The process dies with its parent. If that was the host and has died already, so has pid 1 of the namespace, and all
    // others with it.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if let Some(gate) = gate {
        gate.pass();
    }
    let of_session = rustix::process::setsid().map(drop).and_then(|()| match &plan.stdio {
        Stdio::Terminal(_) => rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()),
        Stdio::Pipes { .. } => Ok(()),
    });
    let reason = match of_session {
        Ok(()) => execute(plan, program),
        Err(error) => format!("session: {}", os_text(&error.into())),
    };
    fail(plan, &reason)
}

fn fail(plan: &Plan<'_>, reason: &str) -> ! {
    // Nothing can be reported if this fails too.
    let _ = rustix::io::write(&plan.report, reason.as_bytes());
    os::exit_now(128)
}

/// Makes this process die with the host, even if the host died a moment ago.
pub(super) fn die_with_host(host: Option<&OwnedFd>) {
    // Only a kernel without support refuses. There the scan for marked processes finds this process.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if let Some(host) = host {
        let mut wait = [rustix::event::PollFd::new(host, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if matches!(rustix::event::poll(&mut wait, Some(&now)), Ok(1)) {
            os::exit_now(137);
        }
    }
}

/// Takes all steps that need rights, or another root than the program's.
pub(super) fn prepare(plan: &Plan<'_>, preparer: Preparer) -> Result<PreparedProgram, String> {
    let at = |context: &'static str| move |error: std::io::Error| format!("{context}: {}", os_text(&error));
    if preparer == Preparer::Itself {
        rustix::process::setsid().map_err(|error| at("setsid")(error.into()))?;
    }
    // A helper is not in the /proc that the program will see.
    let own = own_process().map_err(at("/proc/self"))?;
    for door in plan.cgroup_procs_files {
        // This comes first, so that all resource usage of this process counts for the group.
        std::fs::write(door, "0").map_err(at("control group"))?;
    }
    if let Some(adjustment) = plan.oom_score_adj {
        raise_oom_score(adjustment);
    }
    // The standard streams are connected after the namespaces are entered: they may replace descriptors that are needed
    // until then.
    let of_files = match &plan.files {
        Files::Of(pid) => Some(os::open_namespace(*pid, "mnt").map_err(at("mount namespace"))?),
        Files::Machine | Files::Own(_) => None,
    };
    let of_user = match &plan.files {
        Files::Of(pid) if plan.users.is_none() => own_user_namespace(*pid).map_err(at("user namespace"))?,
        Files::Of(_) | Files::Machine | Files::Own(_) => None,
    };
    for (namespace, kind) in plan.join {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(*kind))
            .map_err(|error| at("namespace")(error.into()))?;
    }
    if let Some(namespace) = of_files {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(|error| at("mount namespace")(error.into()))?;
    }
    if let Files::Own(view) = &plan.files {
        rootfs::enter(view)?;
    }
    let seems = match &plan.files {
        Files::Own(view) => view.apparent_user(),
        Files::Machine => user_of_machine(),
        Files::Of(_) => None,
    };
    connect(&plan.stdio, preparer).map_err(at("standard streams"))?;
    // Best effort: a lower limit than the machine's default is no reason to fail.
    let _ = rustix::process::setrlimit(Resource::Nofile, plan.open_files_limit);
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if let Some(users) = &plan.users {
        enter_users(plan, users).map_err(at("user namespace"))?;
    }
    // Try this as the current user first: the container's user may be allowed to be in the directory, but not to
    // traverse the path to it.
    let there = rustix::process::chdir(plan.working_dir).is_ok();
    let keep = capabilities::of(plan.security).map_err(at("capabilities"))?;
    capabilities::bound(keep).map_err(at("capabilities"))?;
    if let Some(user) = &plan.user {
        if plan.users.is_none() {
            give_streams(&plan.stdio, user.uid);
        }
        if preparer != Preparer::HelperOfSubreaper {
            become_user(plan, user).map_err(at("user"))?;
        }
        // Changing the user cleared the parent-death signal.
        die_with_host(plan.host);
    }
    if plan.security.no_new_privileges {
        rustix::thread::set_no_new_privs(true).map_err(|error| at("no new privileges")(error.into()))?;
    }
    // This comes late because this process loses its rights over the pod's namespaces by it.
    if let Some(user) = seems {
        appear_as_by(&own, RealUser { uid: user.uid, gid: user.gid }).map_err(at("user namespace"))?;
        // Entering a user namespace restores all capabilities in it.
        capabilities::bound(keep).map_err(at("capabilities"))?;
        die_with_host(plan.host);
    }
    if let Some(namespace) = of_user {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(|error| at("user namespace")(error.into()))?;
        capabilities::bound(keep).map_err(at("capabilities"))?;
        die_with_host(plan.host);
    }
    let working_dir = plan.working_dir.to_path_buf();
    match rustix::process::chdir(&working_dir) {
        Err(Errno::ACCESS) if there => {}
        Err(error) => {
            let (text, path) = (os_text(&error.into()), working_dir.display().to_string());
            return Err(format!("chdir to cwd ({path:?}) set in config.json failed: {text}"));
        }
        Ok(()) => {}
    }
    let name = plan.argv.first().map(String::as_str).unwrap_or_default();
    if plan.argv.is_empty() {
        return Err("no command specified".to_owned());
    }
    let search_path = plan.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    let found = program::find(name, search_path.unwrap_or_default(), plan.programs)?;
    let (executable, arguments) = arguments(plan, &found, &working_dir)?;
    let becomes_user = preparer == Preparer::HelperOfSubreaper;
    Ok(PreparedProgram { executable, arguments, becomes_user })
}

fn become_user(plan: &Plan<'_>, user: &User) -> std::io::Result<()> {
    let retained = os::RetainedRights {
        low_ports: !plan.own_network,
        // An unprivileged program that may gain rights is filtered by a process that has some.
        filter: plan.filter.is_some() && !plan.security.no_new_privileges,
    };
    os::become_user(user.uid, user.gid, &user.groups, retained)
}

/// Enters the pod's user namespace, with a mount namespace that it owns: no process of the pod can take away or uncover
/// what was mounted before.
fn enter_users(plan: &Plan<'_>, users: &PodUsers) -> std::io::Result<()> {
    let uid = plan.user.as_ref().map_or(0, |user| user.uid);
    let owner = users.ids.on_machine(uid).ok_or(std::io::ErrorKind::InvalidInput)?;
    // Inside, this process has no rights over the streams.
    give_streams(&plan.stdio, owner);
    users.enter()?;
    if matches!(plan.files, Files::Own(_)) {
        os::unshare(UnshareFlags::NEWNS)?;
    }
    // Changing the user cleared the parent-death signal.
    die_with_host(plan.host);
    Ok(())
}

/// Gives the standard streams to the user, who can then open them by name, too: programs log to `/dev/stderr`. A failure
/// to become the user is reported later.
fn give_streams(stdio: &Stdio, uid: u32) {
    let streams: &[&OwnedFd] = match stdio {
        Stdio::Terminal(slave) => &[slave],
        Stdio::Pipes { stdin, stdout, stderr } => &[stdin, stdout, stderr],
    };
    for stream in streams {
        // Others, such as /dev/null, belong to the machine.
        let is_own = rustix::fs::fstat(stream).is_ok_and(|about| {
            rustix::fs::FileType::from_raw_mode(about.st_mode) == rustix::fs::FileType::Fifo
                || matches!(stdio, Stdio::Terminal(_))
        });
        if is_own {
            let _ = rustix::fs::fchown(stream, Some(rustix::fs::Uid::from_raw(uid)), None);
        }
    }
}

/// Raises the process's `oom_score_adj`, and never lowers it: a container that the kernel spares longer than Podium and
/// the user's own programs would take the machine's last memory from them.
fn raise_oom_score(adjustment: i32) {
    const PATH: &str = "/proc/self/oom_score_adj";
    let current = std::fs::read_to_string(PATH).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if adjustment > current {
        let _ = std::fs::write(PATH, adjustment.to_string());
    }
}

fn connect(stdio: &Stdio, preparer: Preparer) -> std::io::Result<()> {
    let (stdin, stdout, stderr) = match stdio {
        Stdio::Pipes { stdin, stdout, stderr } => (stdin, stdout, stderr),
        Stdio::Terminal(slave) => {
            // Only the leader of the program's session may do it.
            if preparer == Preparer::Itself {
                rustix::process::ioctl_tiocsctty(slave)?;
            }
            (slave, slave, slave)
        }
    };
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)?;
    Ok(())
}

fn arguments(
    plan: &Plan<'_>,
    found: &ResolvedProgram,
    working_dir: &Path,
) -> Result<(Executable, ExecArguments), String> {
    let text = |text: &str| CString::new(text).map_err(|_| "an argument contains a NUL byte".to_owned());
    let pairs =
        plan.env.iter().filter(|(name, _)| name != "PWD").map(|(name, value)| format!("{name}={value}"));
    let pwd = format!("PWD={}", working_dir.display());
    let env = pairs.chain([pwd]).map(|pair| text(&pair)).collect::<Result<Vec<_>, _>>()?;
    let mut words = plan.argv.to_vec();
    let executable = match found {
        ResolvedProgram::Inside(program) => {
            let name = words[0].rsplit('/').next().unwrap_or_default().to_owned();
            words.splice(..1, [name, "image-program".to_owned(), program.clone()]);
            Executable::Inside
        }
        ResolvedProgram::File(path) => Executable::File(
            CString::new(path.as_os_str().as_encoded_bytes())
                .map_err(|_| "the program's path contains a NUL byte".to_owned())?,
        ),
    };
    let argv = words.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
    Ok((executable, ExecArguments::new(argv, env)))
}

/// Returns only on failure, with the reason.
fn execute(plan: &Plan<'_>, program: &PreparedProgram) -> String {
    os::close_on_exec_from(3);
    signals::reset();
    // This comes last, because the filter may forbid everything else that is done here.
    if let Some(Err(reason)) = plan.filter.map(Filter::apply) {
        return reason;
    }
    match &program.executable {
        Executable::Inside => {
            let error = os::exec_descriptor(plan.own_program.as_fd(), &program.arguments);
            format!("exec: {:?}: {}", plan.argv[0], os_text(&error))
        }
        Executable::File(path) => {
            let error = os::exec(path, &program.arguments);
            format!("exec {}: {}", path.to_string_lossy(), os_text(&error))
        }
    }
}

/// Returns the user namespace of a running process; `None` if this process is in the same one.
fn own_user_namespace(pid: Pid) -> std::io::Result<Option<OwnedFd>> {
    // By `self` and not by pid: this process's pid may be another process's in the PID namespace of /proc.
    let (other, own) = (os::open_namespace(pid, "user")?, OwnedFd::from(File::open("/proc/self/ns/user")?));
    let number = |namespace: &OwnedFd| rustix::fs::fstat(namespace).map(|about| about.st_ino);
    Ok(if number(&other)? == number(&own)? { None } else { Some(other) })
}
