//! The requirements of tests on the machine. A test that cannot run here is counted, and the last lines of the run
//! print the number and the reasons; it fails instead if `PODIUM_TEST_REQUIRE` names the requirement. No test is
//! skipped silently.
//!
//! `.ci/run` sets `PODIUM_TEST_REQUIRE=kubectl,namespaces,root,mounts,crun,seccomp,docker-registry,image-tools,uidmap,buildah`.
//! `PODIUM_TEST_WITHOUT=namespaces` simulates a machine without a feature.
//!
//! The library's own tests include this file, too: it uses no other item of either crate.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A feature that not every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// An unmodified `kubectl` on the PATH.
    Kubectl,
    /// `kubectl.1.27` beside the `kubectl` on the PATH: it validates by OpenAPI version 2.
    OldKubectl,
    /// PID, mount, host name and IPC namespaces for containers.
    Namespaces,
    /// User namespaces that an ordinary user may create.
    UserNamespaces,
    /// Control groups that hold processes, memory and processor time.
    Cgroups,
    /// The rights of root.
    Root,
    /// A mount namespace with a file system of our own, by `unshare` and `mount`.
    Mounts,
    /// A file system mounted below `/dev`.
    NestedMounts,
    /// `strace`, and the right to trace.
    Strace,
    /// Network namespaces, pairs of links and nftables for pods.
    PodNetwork,
    /// `curl` on the PATH.
    Curl,
    /// The kernel asks before files are written (fanotify's pre-content events): root, and Linux 6.14.
    Gates,
    /// The kernel filters system calls.
    Seccomp,
    /// `crun` on the PATH.
    Crun,
    /// `docker-registry` on the PATH.
    DockerRegistry,
    /// `mmdebstrap`, `umoci`, `skopeo` and `docker-registry` on the PATH.
    ImageTools,
    /// The programs that built-in images run: `perl`, `postgres`, `python3`.
    Programs,
    /// `newuidmap` and `newgidmap` on the PATH.
    Uidmap,
    /// `buildah` on the PATH.
    Buildah,
    /// User namespaces for pods of root, and file systems with other owners in them.
    PodUsers,
}

impl Need {
    const ALL: [Self; 20] = [
        Self::Kubectl,
        Self::OldKubectl,
        Self::Namespaces,
        Self::UserNamespaces,
        Self::Cgroups,
        Self::Root,
        Self::Mounts,
        Self::NestedMounts,
        Self::Strace,
        Self::PodNetwork,
        Self::Curl,
        Self::Gates,
        Self::Seccomp,
        Self::Crun,
        Self::DockerRegistry,
        Self::ImageTools,
        Self::Programs,
        Self::Uidmap,
        Self::Buildah,
        Self::PodUsers,
    ];

    /// Returns its name in the two variables.
    fn name(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::OldKubectl => "old-kubectl",
            Self::Namespaces => "namespaces",
            Self::UserNamespaces => "user-namespaces",
            Self::Cgroups => "cgroups",
            Self::Root => "root",
            Self::Mounts => "mounts",
            Self::NestedMounts => "nested-mounts",
            Self::Strace => "strace",
            Self::PodNetwork => "pod-network",
            Self::Curl => "curl",
            Self::Gates => "gates",
            Self::Seccomp => "seccomp",
            Self::Crun => "crun",
            Self::DockerRegistry => "docker-registry",
            Self::ImageTools => "image-tools",
            Self::Programs => "programs",
            Self::Uidmap => "uidmap",
            Self::Buildah => "buildah",
            Self::PodUsers => "pod-users",
        }
    }

    /// Returns the reason that is reported at the end.
    fn reason(self) -> &'static str {
        match self {
            Self::Kubectl => "no kubectl",
            Self::OldKubectl => "no kubectl.1.27 beside kubectl",
            Self::Namespaces => "no namespaces",
            Self::UserNamespaces => "no user namespaces for an ordinary user",
            Self::Cgroups => "no control groups that may be written",
            Self::Root => "not root",
            Self::Mounts => "no file system may be mounted",
            Self::NestedMounts => "nothing is mounted below /dev",
            Self::Strace => "no strace that may trace",
            Self::PodNetwork => "no network of their own for pods",
            Self::Curl => "no curl",
            Self::Gates => "the kernel does not ask before a file is written",
            Self::Seccomp => "the kernel does not filter system calls",
            Self::Crun => "no crun",
            Self::DockerRegistry => "no docker-registry",
            Self::ImageTools => "no mmdebstrap, umoci, skopeo or docker-registry",
            Self::Programs => "a program that a built-in image stands for is not installed",
            Self::Uidmap => "no newuidmap and newgidmap",
            Self::Buildah => "no buildah",
            Self::PodUsers => "pods cannot have user namespaces of their own",
        }
    }

    fn is_named_by(self, variable: &str) -> bool {
        let is_own = |named: String| named.split(',').any(|name| name.trim() == self.name());
        std::env::var(variable).is_ok_and(is_own)
    }
}

/// Number of skipped tests, by requirement.
static SKIPPED: [AtomicUsize; Need::ALL.len()] = [const { AtomicUsize::new(0) }; Need::ALL.len()];

/// Returns true, and counts the test as skipped, if the requirement is not met; `there` says whether the machine has
/// it.
///
/// # Panics
///
/// If it is missing and `PODIUM_TEST_REQUIRE` names it.
#[track_caller]
pub(crate) fn lacks(need: Need, there: bool) -> bool {
    if there && !is_hidden(need) {
        return false;
    }
    assert!(
        !need.is_named_by("PODIUM_TEST_REQUIRE"),
        "{}, and PODIUM_TEST_REQUIRE says that it is here",
        need.reason()
    );
    SKIPPED[need as usize].fetch_add(1, Ordering::Relaxed);
    report_at_exit();
    true
}

/// Returns true if `PODIUM_TEST_WITHOUT` names the requirement.
pub(crate) fn is_hidden(need: Need) -> bool {
    need.is_named_by("PODIUM_TEST_WITHOUT")
}

/// Returns true if a program is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The program `kubectl.1.27`.
pub(crate) fn old_kubectl() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join("kubectl"));
    let kubectl = found.into_iter().find(|program| program.is_file())?.canonicalize().ok()?;
    let old = kubectl.with_file_name("kubectl.1.27");
    old.is_file().then_some(old)
}

/// The arguments of `unshare` that let a process mount its own file systems.
pub(crate) fn own_mounts() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &["--mount"] } else { &["--map-root-user", "--mount"] }
}

/// Returns true if a process can mount its own file systems here.
pub(crate) fn mounts() -> bool {
    let mut unshare = std::process::Command::new("unshare");
    let mut mount = unshare.args(own_mounts()).args(["mount", "-t", "tmpfs", "tried", "/mnt"]);
    mount = mount.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    mount.status().is_ok_and(|status| status.success())
}

/// Skips and counts the test if the machine lacks a requirement.
macro_rules! needs {
    (Kubectl) => {
        if $crate::needs::lacks($crate::needs::Need::Kubectl, $crate::needs::on_path("kubectl")) {
            return;
        }
    };
    (OldKubectl) => {
        if $crate::needs::lacks($crate::needs::Need::OldKubectl, $crate::needs::old_kubectl().is_some()) {
            return;
        }
    };
    (Curl) => {
        if $crate::needs::lacks($crate::needs::Need::Curl, $crate::needs::on_path("curl")) {
            return;
        }
    };
    (Root) => {
        if $crate::needs::lacks($crate::needs::Need::Root, rustix::process::geteuid().is_root()) {
            return;
        }
    };
}
pub(crate) use needs;

/// libtest has no hook after its closing lines, but it ends the process by `exit`.
fn report_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[expect(
            unsafe_code,
            reason = "registers a function that takes nothing, never unwinds and stays loaded"
        )]
        // If the registration fails, the tests are skipped all the same, only without the final report.
        let _ = unsafe { libc::atexit(tell) };
    });
}

/// Prints one line per reason. The process is exiting: no thread locals, no locks, no panic.
extern "C" fn tell() {
    for need in Need::ALL {
        let count = SKIPPED[need as usize].load(Ordering::Relaxed);
        if count > 0 {
            let line = format!("{count} skipped: {}\n", need.reason());
            let _ = rustix::io::write(rustix::stdio::stdout(), line.as_bytes());
        }
    }
}
