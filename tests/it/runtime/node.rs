//! A node's runtime with real processes, for tests that call it directly.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use podium::base::optional_file::{read_optional, read_optional_bytes};
use podium::images::Catalogue;
use podium::kubelet::runtime::{
    ContainerExit, ContainerId, ContainerRecord, ContainerSpec, HostLife, HostShares, ProcessConfig,
    ProcessRuntime, ResourceLimits, Runtime, RuntimeEvents, SandboxSpec,
};

use crate::instance::HostDirectory;
use crate::needs::{Need, is_hidden, lacks};

/// A node with its runtime.
pub(crate) struct Node {
    pub(crate) runtime: ProcessRuntime,
    pub(crate) events: RuntimeEvents,
    pub(crate) directory: HostDirectory,
    pub(crate) namespaces: bool,
}

/// Fails a test that hangs; no test measures time by it.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let in_time = tokio::time::timeout(Duration::from_mins(1), future).await;
    in_time.unwrap_or_else(|_| panic!("{what}: did not happen"))
}

pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// An image that the user declares: its containers see the machine's files.
pub(crate) const DECLARED: &str = "declared";

pub(crate) async fn runtime(state_dir: &Path, life: HostLife, namespaces: bool) -> ProcessRuntime {
    let config = config(state_dir, life, namespaces);
    let declared = serde_json::from_value(serde_json::json!({"name": DECLARED})).unwrap();
    let catalogue = Arc::new(Catalogue::new(vec![declared], "CONFIG"));
    soon("host", ProcessRuntime::start(config, catalogue)).await.unwrap()
}

pub(crate) fn config(state_dir: &Path, life: HostLife, namespaces: bool) -> ProcessConfig {
    ProcessConfig {
        program: PathBuf::from(env!("CARGO_BIN_EXE_podium")),
        state_dir: state_dir.to_path_buf(),
        hidden: None,
        life,
        namespaces,
        network: None,
        cgroups: true,
        pod_pids_limit: Some(64),
        unclaimed: Duration::from_mins(10),
        request_timeout: Duration::from_mins(2),
        status_timeout: Duration::from_secs(10),
    }
}

impl Node {
    /// Starts a host that ends with the test, even if the test fails.
    pub(crate) async fn new(namespaces: bool) -> Self {
        Self::with_life(HostLife::Ephemeral, namespaces).await
    }

    pub(crate) async fn with_life(life: HostLife, namespaces: bool) -> Self {
        let directory = HostDirectory::new();
        let namespaces = namespaces && !is_hidden(Need::Namespaces);
        let runtime = runtime(&directory.path().join("node"), life, namespaces).await;
        let namespaces = runtime.isolation()["podium.dev/namespaces"] != "none";
        let events = runtime.events();
        let node = Self { runtime, events, directory, namespaces };
        node.runtime.run_sandbox(sandbox("pod")).await.unwrap();
        node
    }

    pub(crate) async fn start(&self, spec: ContainerSpec) -> ContainerRecord {
        self.runtime.start_container(spec).await.unwrap()
    }

    pub(crate) async fn sh(&self, script: &str) -> ContainerRecord {
        self.start(shell("main", script)).await
    }

    pub(crate) async fn record(&self, id: &ContainerId) -> ContainerRecord {
        let pod = self.runtime.inspect(&"pod".to_owned()).await.unwrap().unwrap();
        pod.containers.into_iter().find(|container| container.id == *id).unwrap()
    }

    pub(crate) async fn exit(&mut self, id: &ContainerId) -> ContainerExit {
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

    pub(crate) async fn log(&self, id: &ContainerId) -> String {
        let files = self.runtime.log_files(id).await.unwrap();
        // A file may be rotated between being named and being read.
        files.iter().map(read_optional).collect()
    }

    pub(crate) async fn log_has(&self, id: &ContainerId, text: &str) {
        soon(text, async {
            while !self.log(id).await.contains(text) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    pub(crate) fn host_pid(&self) -> i32 {
        let state = self.directory.path().join("node").canonicalize().unwrap();
        let needle = format!("node-host\0--state\0{}", state.display());
        let is_host = |pid: &i32| {
            let words = read_optional_bytes(format!("/proc/{pid}/cmdline"));
            let parent = read_optional(format!("/proc/{pid}/stat"));
            let parent = parent.rsplit(')').next().unwrap_or_default().split(' ').nth(2).map(str::to_owned);
            String::from_utf8_lossy(&words).contains(&needle) && parent != Some(String::new())
        };
        // Inits are forks of the host with the same command line: the host is the oldest.
        pids().into_iter().filter(is_host).min().unwrap()
    }

    pub(crate) async fn shutdown(self) {
        soon("shutdown", self.runtime.shutdown()).await.unwrap();
        assert_eq!(left_in(self.directory.path()), BTreeSet::new());
    }
}

pub(crate) fn pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub(crate) fn alive(pid: u32) -> bool {
    let stat = read_optional(format!("/proc/{pid}/stat"));
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// Processes with the directory in their environment or command line.
pub(crate) fn left_in(directory: &Path) -> BTreeSet<i32> {
    let name = directory.to_str().unwrap().as_bytes();
    let names = |pid: &i32| {
        let about = |file: &str| read_optional_bytes(format!("/proc/{pid}/{file}"));
        let has = |text: Vec<u8>| text.windows(name.len()).any(|part| part == name);
        has(about("cmdline")) || has(about("environ"))
    };
    pids().into_iter().filter(|pid| *pid != std::process::id().cast_signed()).filter(names).collect()
}

pub(crate) fn sandbox(uid: &str) -> SandboxSpec {
    SandboxSpec {
        sysctls: Vec::new(),
        memory_volumes: Vec::new(),
        pod_uid: uid.to_owned(),
        namespace: "default".to_owned(),
        name: "web-1".to_owned(),
        hostname: "web-1".to_owned(),
        second_ip: None,
        ip: [127, 1, 0, 9].into(),
        share_process_namespace: false,
        host: HostShares::default(),
        resolv_conf: None,
        hosts: None,
        limits: ResourceLimits::default(),
        users: None,
    }
}

pub(crate) fn shell(name: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        pod_uid: "pod".to_owned(),
        name: name.to_owned(),
        image: "busybox".to_owned(),
        command: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
        termination_message_path: "/dev/termination-log".into(),
        ..ContainerSpec::default()
    }
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The modes of isolation: with namespaces and without; only the latter if the machine has none.
pub(crate) async fn modes() -> Vec<bool> {
    static THERE: tokio::sync::OnceCell<bool> = tokio::sync::OnceCell::const_new();
    let there = THERE.get_or_init(|| async {
        let node = Node::new(true).await;
        let there = node.namespaces;
        node.shutdown().await;
        there
    });
    if lacks(Need::Namespaces, *there.await) { vec![false] } else { vec![true, false] }
}

/// Counts the processes that sleep this long, under any name.
pub(crate) fn sleeping(seconds: u32) -> usize {
    let seconds = seconds.to_string();
    let sleeps = |pid: &i32| {
        let words = read_optional_bytes(format!("/proc/{pid}/cmdline"));
        words.split(|byte| *byte == 0).nth(1) == Some(seconds.as_bytes())
    };
    pids().into_iter().filter(sleeps).count()
}
