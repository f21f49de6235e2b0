//! The process runtime with real processes: what is started is seen, and what is killed is gone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use podium::api::session::{Session, SessionInput, SessionOutput, SessionStreams, TerminalSize};
use podium::kubelet::images::Catalogue;
use podium::kubelet::runtime::{
    ContainerExit, ContainerId, ContainerRecord, ContainerSpec, HostLife, Mount, ProcessConfig,
    ProcessRuntime, Runtime, RuntimeError, RuntimeEvent, SandboxSpec,
};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A node with its runtime.
struct Node {
    runtime: ProcessRuntime,
    events: mpsc::Receiver<RuntimeEvent>,
    directory: TempDir,
    namespaces: bool,
}

/// Fails a test that hangs; no test measures time by it.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let in_time = tokio::time::timeout(Duration::from_mins(1), future).await;
    in_time.unwrap_or_else(|_| panic!("{what}: did not happen"))
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn runtime(state_dir: &Path, life: HostLife, namespaces: bool) -> ProcessRuntime {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_podium"));
    let config = ProcessConfig { program, state_dir: state_dir.to_path_buf(), life, namespaces };
    let catalogue = Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
    soon("host", ProcessRuntime::start(config, catalogue)).await.unwrap()
}

impl Node {
    /// The host ends with the test, also with one that fails.
    async fn new(namespaces: bool) -> Self {
        Self::with_life(HostLife::OfControlPlane, namespaces).await
    }

    async fn with_life(life: HostLife, namespaces: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = runtime(&directory.path().join("node"), life, namespaces).await;
        let namespaces = runtime.isolation()["podium.dev/namespaces"] != "none";
        let events = runtime.events();
        let node = Self { runtime, events, directory, namespaces };
        node.runtime.run_sandbox(sandbox("pod")).await.unwrap();
        node
    }

    async fn start(&self, spec: ContainerSpec) -> ContainerRecord {
        self.runtime.start_container(spec).await.unwrap()
    }

    async fn sh(&self, script: &str) -> ContainerRecord {
        self.start(shell("main", script)).await
    }

    async fn record(&self, id: &ContainerId) -> ContainerRecord {
        let pod = self.runtime.inspect(&"pod".to_owned()).await.unwrap().unwrap();
        pod.containers.into_iter().find(|container| container.id == *id).unwrap()
    }

    async fn exit(&mut self, id: &ContainerId) -> ContainerExit {
        soon("exit", async {
            loop {
                if let Some(exit) = self.record(id).await.exit {
                    return exit;
                }
                self.events.recv().await.unwrap();
            }
        })
        .await
    }

    async fn log(&self, id: &ContainerId) -> String {
        let files = self.runtime.log_files(id).await.unwrap();
        // A file may be rotated between being named and being read.
        files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect()
    }

    async fn log_has(&self, id: &ContainerId, text: &str) {
        soon(text, async {
            while !self.log(id).await.contains(text) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    fn host_pid(&self) -> i32 {
        let state = self.directory.path().join("node").canonicalize().unwrap();
        let needle = format!("node-host\0--state\0{}", state.display());
        let is_host = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let parent = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = parent.rsplit(')').next().unwrap_or_default().split(' ').nth(2).map(str::to_owned);
            String::from_utf8_lossy(&words).contains(&needle) && parent != Some(String::new())
        };
        // Inits are forks of the host with the same command line: the host is the oldest.
        pids().into_iter().filter(is_host).min().unwrap()
    }

    async fn shutdown(self) {
        soon("shutdown", self.runtime.shutdown()).await.unwrap();
        assert_eq!(left_in(self.directory.path()), BTreeSet::new());
    }
}

fn pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// Processes whose environment or command line names the directory.
fn left_in(directory: &Path) -> BTreeSet<i32> {
    let name = directory.to_str().unwrap().as_bytes();
    let names = |pid: &i32| {
        let about = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let has = |text: Vec<u8>| text.windows(name.len()).any(|part| part == name);
        has(about("cmdline")) || has(about("environ"))
    };
    pids().into_iter().filter(|pid| *pid != std::process::id().cast_signed()).filter(names).collect()
}

fn sandbox(uid: &str) -> SandboxSpec {
    SandboxSpec {
        pod_uid: uid.to_owned(),
        namespace: "default".to_owned(),
        name: "web-1".to_owned(),
        hostname: "web-1".to_owned(),
        ip: [127, 1, 0, 9].into(),
        share_process_namespace: false,
        resolv_conf: None,
        hosts: None,
    }
}

fn shell(name: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        pod_uid: "pod".to_owned(),
        name: name.to_owned(),
        attempt: 0,
        image: "busybox".to_owned(),
        command: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
        args: Vec::new(),
        env: Vec::new(),
        working_dir: None,
        mounts: Vec::new(),
        stdin: false,
        stdin_once: false,
        tty: false,
        memory_limit_bytes: None,
        cpu_limit_millicores: None,
        run_as_user: None,
        run_as_group: None,
        termination_message_path: "/dev/termination-log".into(),
        target: None,
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Both ways of keeping containers apart; the second is what machines without namespaces get.
const BOTH: [bool; 2] = [true, false];

#[tokio::test]
async fn containers_run_exit_and_are_remembered() {
    for namespaces in BOTH {
        let mut node = Node::new(namespaces).await;
        let mut spec = shell("main", "echo out $GREETING; echo err >&2; exit 3");
        spec.env = vec![("GREETING".to_owned(), "hello".to_owned())];
        let record = node.start(spec.clone()).await;
        let exit = node.exit(&record.id).await;
        assert_eq!((exit.exit_code, exit.signal, exit.oom_killed), (3, None, false));
        let log = node.log(&record.id).await;
        assert!(log.contains(" stdout F out hello\n") && log.contains(" stderr F err\n"), "{log}");
        assert_eq!(node.start(spec).await.id, record.id, "asking twice starts once");
        node.runtime.remove_container(&record.id).await.unwrap();
        node.runtime.remove_container(&record.id).await.unwrap();
        node.runtime.remove_sandbox(&"pod".to_owned()).await.unwrap();
        assert!(node.runtime.list().await.unwrap().is_empty());
        node.shutdown().await;
    }
}

/// POD-3: what cannot start says why in runc's words.
#[tokio::test]
async fn what_cannot_start_says_why() {
    let node = Node::new(true).await;
    for (program, expect) in [
        ("nope", r#"exec: "nope": executable file not found in $PATH"#),
        ("/no/pe", r#"exec: "/no/pe": stat /no/pe: no such file or directory"#),
        ("/etc/passwd", r#"exec: "/etc/passwd": permission denied"#),
        ("/etc", r#"exec: "/etc": is a directory"#),
    ] {
        let spec = ContainerSpec { command: words(&[program]), ..shell("main", "") };
        let result = node.runtime.start_container(spec).await;
        assert_eq!(result, Err(RuntimeError::StartFailed(expect.to_owned())));
    }
    assert!(node.runtime.inspect(&"pod".to_owned()).await.unwrap().unwrap().containers.is_empty());
    node.shutdown().await;
}

/// POD-13: nothing of the control plane's environment gets in.
#[tokio::test]
async fn the_environment_is_the_pods_alone() {
    let mut node = Node::new(true).await;
    let record = node.start(ContainerSpec { command: words(&["env"]), ..shell("main", "") }).await;
    node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    let names: BTreeSet<&str> =
        log.lines().filter_map(|line| line.split(" stdout F ").nth(1)?.split('=').next()).collect();
    assert_eq!(names, BTreeSet::from(["HOME", "HOSTNAME", "PATH", "PODIUM_CONTAINER", "PWD"]));
    node.shutdown().await;
}

/// POD-7: the main process is no pid 1 that ignores what it does not handle.
#[tokio::test]
async fn asking_ends_a_plain_program_and_killing_ends_a_deaf_one() {
    for namespaces in BOTH {
        let mut node = Node::new(namespaces).await;
        let plain = node.start(ContainerSpec { command: words(&["sleep", "1000"]), ..shell("a", "") }).await;
        node.runtime.terminate_container(&plain.id).await.unwrap();
        let exit = node.exit(&plain.id).await;
        assert_eq!((exit.exit_code, exit.signal), (143, Some(15)));

        let deaf = node.start(shell("b", "trap '' TERM; echo ready; while :; do sleep 1000; done")).await;
        node.log_has(&deaf.id, "ready").await;
        node.runtime.terminate_container(&deaf.id).await.unwrap();
        assert!(alive(deaf.pid.unwrap()));
        node.runtime.kill_container(&deaf.id).await.unwrap();
        let exit = node.exit(&deaf.id).await;
        assert_eq!((exit.exit_code, exit.signal), (137, Some(9)));
        node.shutdown().await;
    }
}

/// POD-10: no process survives its container, not even one that called setsid.
#[tokio::test]
async fn the_whole_tree_dies_with_its_container() {
    for namespaces in BOTH {
        let mut node = Node::new(namespaces).await;
        let script = "D=$MARK setsid sh -c 'sleep 1000 & sleep 1001' & D=$MARK sleep 1002 & echo ready; wait";
        let mut spec = shell("main", script);
        let mark = node.directory.path().display().to_string();
        spec.env = vec![("MARK".to_owned(), mark)];
        let record = node.start(spec).await;
        let sleepers = || {
            let is_sleeper = |pid: &i32| {
                let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                words.starts_with(b"sleep\x00100")
            };
            left_in(node.directory.path()).into_iter().filter(is_sleeper).count()
        };
        until("sleepers", || sleepers() == 3).await;
        node.runtime.kill_container(&record.id).await.unwrap();
        node.exit(&record.id).await;
        let count = left_in(node.directory.path());
        let of_container = |pid: &&i32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| String::from_utf8_lossy(&env).contains("PODIUM_CONTAINER"))
        };
        assert_eq!(count.iter().filter(of_container).count(), 0);
        node.shutdown().await;
    }
}

/// POD-10: background processes of a main process that ended by itself die too.
#[tokio::test]
async fn what_a_main_process_leaves_behind_dies() {
    for namespaces in BOTH {
        let mut node = Node::new(namespaces).await;
        let record = node.sh("setsid sleep 1000 & echo $!; exit 0").await;
        let exit = node.exit(&record.id).await;
        assert_eq!(exit.exit_code, 0);
        let usage = node.runtime.usage(&"pod".to_owned()).await.unwrap();
        assert!(usage.is_empty());
        node.shutdown().await;
    }
}

/// A host that is killed takes everything with it, and the next one knows what was.
#[tokio::test]
async fn killing_the_host_kills_its_containers() {
    for namespaces in BOTH {
        let mut node = Node::new(namespaces).await;
        let mut spec = shell("main", "setsid sleep 1000 & setsid sleep 1000 & echo ready; wait");
        spec.env = vec![("MARK".to_owned(), node.directory.path().display().to_string())];
        let record = node.start(spec).await;
        node.log_has(&record.id, "ready").await;
        let host = rustix::process::Pid::from_raw(node.host_pid()).unwrap();
        rustix::process::kill_process(host, rustix::process::Signal::KILL).unwrap();
        soon("relist", async { while node.events.recv().await != Some(RuntimeEvent::Relist) {} }).await;
        until("everything is gone", || !alive(record.pid.unwrap())).await;
        let pod = node.runtime.inspect(&"pod".to_owned()).await.unwrap().unwrap();
        assert!(!pod.ready, "its namespaces are gone");
        assert_eq!(pod.containers[0].exit.as_ref().unwrap().exit_code, 137);
        // A sandbox made anew keeps what is known of ended containers.
        node.runtime.run_sandbox(sandbox("pod")).await.unwrap();
        let again = node.start(ContainerSpec { attempt: 1, ..shell("main", "exit 0") }).await;
        assert_eq!(node.exit(&again.id).await.exit_code, 0);
        assert_eq!(node.record(&record.id).await.exit.unwrap().exit_code, 137);
        node.shutdown().await;
    }
}

/// SAFE-7: a new control plane finds the same processes, and exits that nobody watched.
#[tokio::test]
async fn a_new_control_plane_finds_its_containers() {
    let node = Node::with_life(HostLife::Own, true).await;
    let fifo = node.directory.path().join("fifo");
    let wait = format!("cat {} >/dev/null; exit 7", fifo.display());
    std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    let mut ends = shell("ends", &wait);
    ends.image = "host".to_owned();
    let ends = node.start(ends).await;
    let stays = node.start(shell("stays", "sleep 1000")).await;
    let Node { runtime: first, directory, .. } = node;
    drop(first);
    std::fs::write(&fifo, "go").unwrap();

    let second = runtime(&directory.path().join("node"), HostLife::Own, true).await;
    let events = second.events();
    let mut node = Node { runtime: second, events, directory, namespaces: true };
    assert_eq!(node.record(&stays.id).await, stays);
    assert_eq!(node.exit(&ends.id).await.exit_code, 7);
    assert!(alive(stays.pid.unwrap()));
    node.shutdown().await;
}

#[tokio::test]
async fn with_a_lifeline_everything_ends_with_the_control_plane() {
    let node = Node::with_life(HostLife::OfControlPlane, true).await;
    let record = node.sh("sleep 1000").await;
    let Node { runtime, directory, .. } = node;
    drop(runtime);
    until("all gone", || !alive(record.pid.unwrap())).await;
    let socket = directory.path().join("node/host.sock");
    until("host gone", || !socket.exists()).await;
}

/// NET-4, POD-14: own host name, own processes, volumes at their mount path, nothing on the machine touched.
#[tokio::test]
async fn a_pod_sees_its_own_machine() {
    let mut node = Node::new(true).await;
    if !node.namespaces {
        eprintln!("skipped: no namespaces on this machine");
        return node.shutdown().await;
    }
    let volume = node.directory.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("key"), "value").unwrap();
    let mount =
        |path: &str, read_only| Mount { host_path: volume.clone(), container_path: path.into(), read_only };
    let script = "hostname; echo pids $(ls /proc | grep -c '^[0-9]'); cat /data/a/b/key /usr/share/podium-x/key; echo; \
                  touch /data/a/b/new; touch /usr/share/podium-x/no || echo readonly; \
                  echo bye > /dev/termination-log; touch /tmp/here /here; pwd; ls /dev/shm >/dev/null && echo fine";
    let mut spec = shell("main", script);
    spec.mounts = vec![mount("/data/a/b", false), mount("/usr/share/podium-x", true)];
    let record = node.start(spec).await;
    let exit = node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    for text in ["F web-1\n", "F valuevalue\n", "F readonly\n", "F /\n", "F fine\n"] {
        assert!(log.contains(text), "{text} in {log}");
    }
    assert_eq!(exit.message.as_deref(), Some("bye\n"));
    assert!(volume.join("new").exists());
    assert!(!Path::new("/usr/share/podium-x").exists() && !Path::new("/here").exists());
    node.shutdown().await;
}

async fn collect(session: &mut Session) -> (String, i32) {
    let mut text = String::new();
    soon("exit", async {
        loop {
            match session.output.recv().await {
                Some(SessionOutput::Stdout(bytes) | SessionOutput::Stderr(bytes)) => {
                    text.push_str(&String::from_utf8_lossy(&bytes));
                }
                Some(SessionOutput::Exited(code)) => return code,
                other => panic!("{other:?} after {text}"),
            }
        }
    })
    .await
    .pipe(|code| (text, code))
}

trait Pipe: Sized {
    fn pipe<T>(self, into: impl FnOnce(Self) -> T) -> T {
        into(self)
    }
}
impl<T> Pipe for T {}

/// EPH-2: a real terminal: size, Ctrl-C, exit code.
#[tokio::test]
async fn exec_gives_a_terminal() {
    for namespaces in BOTH {
        let node = Node::new(namespaces).await;
        let record = node.sh("sleep 1000").await;
        let streams = SessionStreams { stdin: true, stdout: true, stderr: false, tty: true };
        let script = "trap 'stty size; exit 5' INT; echo ready; while :; do sleep 0.05; done";
        let mut session = node.runtime.exec(&record.id, words(&["sh", "-c", script]), streams).await.unwrap();
        session.input.send(SessionInput::Resize(TerminalSize { columns: 91, rows: 17 })).await.unwrap();
        let mut seen = String::new();
        while !seen.contains("ready") {
            match soon("ready", session.output.recv()).await {
                Some(SessionOutput::Stdout(bytes)) => seen.push_str(&String::from_utf8_lossy(&bytes)),
                other => panic!("{other:?}"),
            }
        }
        session.input.send(SessionInput::Stdin(Bytes::from_static(b"\x03"))).await.unwrap();
        let (text, code) = collect(&mut session).await;
        assert!(text.contains("17 91"), "{text}");
        assert_eq!(code, 5);
        node.shutdown().await;
    }
}

#[tokio::test]
async fn exec_without_a_terminal_has_three_streams_and_a_half_close() {
    let node = Node::new(true).await;
    let mut spec = shell("main", "sleep 1000");
    spec.env = vec![("COLOR".to_owned(), "blue".to_owned())];
    let record = node.start(spec).await;
    let streams = SessionStreams { stdin: true, stdout: true, stderr: true, tty: false };
    let command = words(&["sh", "-c", "cat; echo $COLOR >&2; hostname; exit 4"]);
    let mut session = node.runtime.exec(&record.id, command, streams).await.unwrap();
    let big = "x".repeat(1 << 20);
    let feed = session.input.clone();
    let text = Bytes::from(big.clone());
    tokio::spawn(async move {
        feed.send(SessionInput::Stdin(text)).await.unwrap();
        feed.send(SessionInput::StdinClosed).await.unwrap();
    });
    let (output, code) = collect(&mut session).await;
    assert_eq!(code, 4);
    assert_eq!(output.matches('x').count(), big.len());
    assert!(output.contains("blue"));

    let missing = node.runtime.exec(&record.id, words(&["nope"]), streams).await;
    assert!(matches!(missing, Err(RuntimeError::StartFailed(text)) if text.contains("not found in $PATH")));

    let output =
        node.runtime.exec_sync(&record.id, words(&["sh", "-c", "echo hi; exit 2"]), Duration::from_mins(1));
    let output = output.await.unwrap();
    assert_eq!((output.exit_code, &output.output[..]), (2, &b"hi\n"[..]));
    let command = words(&["sh", "-c", "sleep 1000 & wait"]);
    let timeout = Duration::from_millis(100);
    assert_eq!(
        node.runtime.exec_sync(&record.id, command, timeout).await,
        Err(RuntimeError::Timeout(timeout))
    );
    soon("killed", async {
        while node.runtime.usage(&"pod".to_owned()).await.unwrap()["main"].processes > 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    node.shutdown().await;
}

#[tokio::test]
async fn attach_follows_the_containers_own_streams() {
    let mut node = Node::new(true).await;
    let mut spec = shell("main", "while read line; do echo got $line; done; exit 6");
    spec.stdin = true;
    spec.stdin_once = true;
    let record = node.start(spec).await;
    let streams = SessionStreams { stdin: true, stdout: true, stderr: true, tty: false };
    let mut session = node.runtime.attach(&record.id, streams).await.unwrap();
    session.input.send(SessionInput::Stdin(Bytes::from_static(b"one\ntwo\n"))).await.unwrap();
    session.input.send(SessionInput::StdinClosed).await.unwrap();
    let (text, code) = collect(&mut session).await;
    assert_eq!((text.as_str(), code), ("got one\ngot two\n", 6));
    assert_eq!(node.exit(&record.id).await.exit_code, 6);
    node.shutdown().await;
}

/// EPH-3: a debugger beside its target, alive or dead.
#[tokio::test]
async fn a_debugger_sees_its_target() {
    let mut node = Node::new(true).await;
    let mut target = shell("app", "touch /made-by-app; echo started; sleep 1000");
    target.env = vec![("COLOR".to_owned(), "blue".to_owned())];
    target.working_dir = Some("/etc".into());
    let target = node.start(target).await;
    node.log_has(&target.id, "started").await;
    let script = "echo $COLOR; pwd; tr '\\0' ' ' </proc/$TARGET_PID/cmdline; echo; ls $TARGET_ROOT; tail -n1 $TARGET_LOG";
    let debugger =
        |name: &str, script: &str| ContainerSpec { target: Some("app".to_owned()), ..shell(name, script) };
    let record = node.start(debugger("debug", script)).await;
    node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    for text in ["F blue\n", "F /etc\n", "F sh -c", "F started", "stdout F 2"] {
        assert!(text.is_empty() || log.contains(text), "{text} in {log}");
    }
    assert!(alive(target.pid.unwrap()), "the debugger's end is not the target's");
    node.runtime.kill_container(&target.id).await.unwrap();
    node.exit(&target.id).await;
    let record = node.start(debugger("later", "echo $COLOR; ls $TARGET_ROOT; tail -n1 $TARGET_LOG")).await;
    node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    assert!(log.contains("F blue\n") && log.contains("started"), "{log}");
    node.shutdown().await;
}

/// POD-12: over its memory limit a container is killed.
#[tokio::test]
async fn memory_limits_kill() {
    let mut node = Node::new(true).await;
    let mut spec = shell("main", "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done");
    spec.memory_limit_bytes = Some(32 << 20);
    let record = node.start(spec).await;
    let exit = node.exit(&record.id).await;
    assert_eq!((exit.exit_code, exit.oom_killed), (137, true));
    node.shutdown().await;
}

/// A flood of logs rotates, and the host stays small and responsive.
#[tokio::test]
async fn a_flood_of_logs_is_bounded() {
    let node = Node::new(true).await;
    let flood = node.sh("yes 0123456789012345678901234567890123456789").await;
    let line = node
        .start(shell("line", "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end; sleep 1000"))
        .await;
    soon("rotation", async {
        while node.runtime.log_files(&flood.id).await.unwrap().len() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    node.log_has(&line.id, "stdout F end").await;
    let files = node.runtime.log_files(&flood.id).await.unwrap();
    assert_eq!(files.len(), 5);
    assert!(files.iter().all(|file| file.metadata().map_or(0, |about| about.len()) < 20 << 20));
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.host_pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 40_000, "{kilobytes} kB");
    node.shutdown().await;
}

async fn request(address: std::net::SocketAddr, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = soon("connect", async {
        loop {
            match tokio::net::TcpStream::connect(address).await {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// IMG-2: the built-in nginx answers on the pod's address with its version, serves its own directory or the
/// volume mounted there, and ends when asked.
#[tokio::test]
async fn nginx_is_built_in() {
    for (namespaces, last) in [(true, 71), (false, 72)] {
        let mut node = Node::new(namespaces).await;
        let ip = format!("127.9.{}.{last}", std::process::id() % 250);
        let image = |name: &str, image: &str| ContainerSpec {
            command: Vec::new(),
            image: image.to_owned(),
            env: vec![("POD_IP".to_owned(), ip.clone())],
            ..shell(name, "")
        };
        let web = node.start(image("web", "nginx:1.9.1")).await;
        let port = if rustix::process::geteuid().is_root() { 80 } else { 8080 };
        let address: std::net::SocketAddr = format!("{ip}:{port}").parse().unwrap();
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let page = request(address, &get("/")).await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("Welcome to nginx!"), "{page}");
        assert!(page.to_ascii_lowercase().contains("\r\nserver: nginx/1.9.1\r\n"), "{page}");
        assert!(request(address, &get("/none")).await.starts_with("HTTP/1.1 404"));
        assert!(request(address, &get("/../../etc/passwd")).await.starts_with("HTTP/1.1 400"));
        let head = request(address, "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        node.log_has(&web.id, "\"GET /none HTTP/1.1\" 404").await;
        let version = node.runtime.exec_sync(&web.id, words(&["nginx", "-v"]), Duration::from_mins(1));
        assert_eq!(version.await.unwrap().output, b"nginx version: nginx/1.9.1\n");
        node.runtime.terminate_container(&web.id).await.unwrap();
        assert_eq!(node.exit(&web.id).await.exit_code, 0);

        let volume = node.directory.path().join("html");
        std::fs::create_dir(&volume).unwrap();
        let mut spec = image("own", "nginx:1.7.9");
        spec.mounts = vec![Mount {
            host_path: volume.clone(),
            container_path: "/usr/share/nginx/html".into(),
            read_only: true,
        }];
        let own = node.start(spec).await;
        assert!(request(address, &get("/")).await.starts_with("HTTP/1.1 403"));
        std::fs::write(volume.join("index.html"), "mine").unwrap();
        assert!(request(address, &get("/")).await.ends_with("\r\n\r\nmine"));
        node.runtime.kill_container(&own.id).await.unwrap();
        node.exit(&own.id).await;
        node.shutdown().await;
    }
}
