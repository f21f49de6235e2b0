//! The profile `RuntimeDefault`: the system calls that containerd permits to a container without further settings, and
//! what capabilities add to them. Everything else is answered with EPERM.
//!
//! The lists are ours, by purpose; together they permit what containerd's profile permits. What is absent changes the
//! whole machine (modules, swap, clocks, kexec), is not separated by namespaces (keyrings), or has brought many escapes
//! (io_uring, userfaultfd, bpf).

use crate::seccomp::{
    SeccompAction, SeccompCondition, SeccompOperator, SeccompProfile, SeccompRule, SeccompScope,
};

/// Opening, reading and writing.
const FILES: &str = "open openat openat2 creat close close_range read readv pread64 preadv preadv2 write writev \
    pwrite64 pwritev pwritev2 lseek truncate ftruncate fallocate fadvise64 fadvise64_64 readahead sendfile splice tee \
    vmsplice copy_file_range sync syncfs fsync fdatasync sync_file_range sync_file_range2 cachestat ioctl fcntl flock \
    dup dup2 dup3 pipe pipe2 memfd_create memfd_secret io_setup io_destroy io_submit io_cancel io_getevents \
    io_pgetevents";
/// Directories, names and attributes.
const NAMES: &str = "access faccessat faccessat2 stat fstat lstat newfstatat statx statfs fstatfs readlink readlinkat \
    getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir mknod mknodat link linkat symlink symlinkat unlink \
    unlinkat rename renameat renameat2 chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat umask utime utimes \
    futimesat utimensat getxattr lgetxattr fgetxattr getxattrat setxattr lsetxattr fsetxattr setxattrat listxattr \
    llistxattr flistxattr listxattrat removexattr lremovexattr fremovexattr removexattrat name_to_handle_at \
    inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_mark";
/// Waiting for descriptors.
const EVENTS: &str = "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait \
    epoll_wait_old epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime \
    timerfd_gettime";
/// Sockets besides their creation.
const SOCKETS: &str = "socketpair bind listen accept accept4 connect shutdown getsockname getpeername getsockopt \
    setsockopt send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg";
/// Memory.
const MEMORY: &str = "brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 mlockall munlock munlockall \
    remap_file_pages membarrier pkey_alloc pkey_free pkey_mprotect map_shadow_stack mseal";
/// Processes and threads besides their creation by `clone`.
const PROCESSES: &str = "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid \
    getpgrp getsid setpgid setsid pidfd_open pidfd_send_signal prctl arch_prctl modify_ldt set_tid_address \
    set_thread_area get_thread_area set_robust_list get_robust_list rseq futex futex_waitv futex_wait futex_wake \
    futex_requeue restart_syscall process_mrelease seccomp landlock_create_ruleset landlock_add_rule \
    landlock_restrict_self ptrace process_vm_readv process_vm_writev";
/// Signals.
const SIGNALS: &str = "kill tkill tgkill rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn \
    rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack pause alarm";
/// Time, as far as it is only read.
const TIME: &str = "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep clock_adjtime adjtimex \
    times getitimer setitimer timer_create timer_delete timer_settime timer_gettime timer_getoverrun";
/// Processor time and limits.
const SCHEDULING: &str = "sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam \
    sched_setparam sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min \
    sched_rr_get_interval getpriority setpriority ioprio_get ioprio_set getcpu getrlimit setrlimit prlimit64 getrusage";
/// Users, groups and capabilities.
const USERS: &str = "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid \
    setresuid setresgid setfsuid setfsgid setgroups capget capset";
/// Shared memory, semaphores and messages.
const IPC: &str = "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open \
    mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr";
/// The system.
const SYSTEM: &str = "uname sysinfo getrandom";

/// The calls that a capability adds: they need it anyway.
const BY_CAPABILITY: [(&str, &str); 13] = [
    ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
    (
        "CAP_SYS_ADMIN",
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount \
         open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare",
    ),
    ("CAP_SYS_BOOT", "reboot"),
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_MODULE", "init_module finit_module delete_module"),
    ("CAP_SYS_PACCT", "acct"),
    ("CAP_SYS_PTRACE", "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace"),
    ("CAP_SYS_RAWIO", "iopl ioperm"),
    ("CAP_SYS_TIME", "settimeofday stime clock_settime"),
    ("CAP_SYS_TTY_CONFIG", "vhangup"),
    ("CAP_SYS_NICE", "get_mempolicy set_mempolicy set_mempolicy_home_node mbind"),
    ("CAP_SYSLOG", "syslog"),
    ("CAP_BPF", "bpf"),
];
const PERFORMANCE: (&str, &str) = ("CAP_PERFMON", "perf_event_open");

/// The flags by which `clone` creates namespaces: mounts, host name, IPC, users, PIDs, network, control groups.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

/// Execution domains that `personality` may set: Linux, also with the limits of old kernels and without randomized
/// addresses; the last value only asks.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

fn allow(names: &str) -> SeccompRule {
    let names = names.split_ascii_whitespace().map(str::to_owned).collect();
    SeccompRule { names, ..SeccompRule::allowing() }
}

fn condition(index: u32, op: SeccompOperator, value: u64, value_two: u64) -> Vec<SeccompCondition> {
    vec![SeccompCondition { index, value, value_two, op }]
}

/// The profile, with its rules about capabilities.
pub(super) fn profile() -> SeccompProfile {
    let plain =
        [FILES, NAMES, EVENTS, SOCKETS, MEMORY, PROCESSES, SIGNALS, TIME, SCHEDULING, USERS, IPC, SYSTEM];
    let with =
        |capability: &str| SeccompScope { caps: vec![capability.to_owned()], ..SeccompScope::default() };
    let mut syscalls: Vec<SeccompRule> = plain.into_iter().map(allow).collect();
    // The machine's hypervisor answers at sockets of this family, and no namespace separates them.
    // Another family differs in one of the bits that the kernel reads of the argument; it ignores the upper half.
    let family: u64 = libc::AF_VSOCK.unsigned_abs().into();
    syscalls.extend((0..u32::BITS).map(|bit| 1 << bit).map(|bit| SeccompRule {
        args: condition(0, SeccompOperator::MaskedEqual, bit, !family & bit),
        ..allow("socket")
    }));
    syscalls.extend(PERSONALITIES.map(|value| SeccompRule {
        args: condition(0, SeccompOperator::Equal, value, 0),
        ..allow("personality")
    }));
    syscalls.extend(
        BY_CAPABILITY
            .into_iter()
            .chain([PERFORMANCE])
            .map(|(capability, names)| SeccompRule { includes: with(capability), ..allow(names) }),
    );
    syscalls.push(SeccompRule {
        args: condition(0, SeccompOperator::MaskedEqual, NEW_NAMESPACES, 0),
        excludes: with("CAP_SYS_ADMIN"),
        ..allow("clone")
    });
    // A filter cannot read the flags of `clone3`, which lie in memory; C libraries then use `clone`.
    syscalls.push(SeccompRule {
        action: SeccompAction::Errno,
        errno_ret: Some(libc::ENOSYS.unsigned_abs()),
        excludes: with("CAP_SYS_ADMIN"),
        ..allow("clone3")
    });
    SeccompProfile { syscalls, ..SeccompProfile::denying(libc::EPERM.unsigned_abs()) }
}
